# frozen_string_literal: true

require "tmpdir"

require_relative "suite_directory"

# Other kernels than the one that is running: a library loaded before libc (kernel.c) lies about Landlock, refuses system
# calls by number, and takes directories away.
module Kernels
  SOURCE = File.join(__dir__, "kernel.c")
  PR_SET_SECCOMP = 22

  # Whether an act of those below is refused, by what Platform.enforcement tells. Root's child has fewer capabilities
  # than its parent.
  REFUSED = {
    "reads a file" => ->(has) { has[:landlock] },
    "lists a directory" => ->(has) { has[:landlock] },
    "writes over a file" => ->(has) { has[:landlock] },
    "makes a file" => ->(has) { has[:landlock] },
    "removes a file" => ->(has) { has[:landlock] },
    "truncates what may be read" => ->(has) { has[:seccomp] || (has[:landlock] || 0) >= 3 },
    "opens to truncate what may be read" => ->(has) { has[:seccomp] || (has[:landlock] || 0) >= 3 },
    "reads the parent's environment" => ->(has) { has[:landlock] || has[:root] },
    "connects by TCP" => ->(has) { has[:seccomp] || (has[:landlock] || 0) >= 4 },
    "opens a UDP socket" => ->(has) { has[:seccomp] },
    "connects to a Unix socket" => ->(has) { has[:seccomp] || (has[:landlock] || 0) >= 9 },
    "connects to an abstract socket" => ->(has) { has[:seccomp] || has[:signals] },
    "forks" => ->(has) { has[:seccomp] },
    "runs a program" => ->(has) { has[:seccomp] || has[:landlock] },
    "changes a mode" => ->(has) { has[:seccomp] },
    "changes an owner" => ->(_) { true },
    "signals a process" => ->(has) { has[:seccomp] || has[:signals] },
    "signals a process by a program" => ->(has) { has[:seccomp] || has[:signals] },
    "sets the parent's priority" => ->(has) { has[:seccomp] || has[:root] },
    "writes to what the parent has open" => ->(_) { true },
    "takes more memory than it may" => ->(_) { true },
    # what a good block may do, and older kernels cannot tell from what it may not
    "moves between granted directories" => ->(has) { has[:landlock] == 1 },
    "truncates where granted" => ->(has) { has[:seccomp] && !has[:signals] },
    "signals its own program" => ->(has) { has[:seccomp] && !has[:signals] },
    # and what it may anywhere
    "reads, writes and removes where granted" => ->(_) { false },
    "uses threads and a pair of sockets" => ->(_) { false },
    "runs a program where it may" => ->(_) { false },
    "connects by TCP where it may" => ->(_) { false }
  }.freeze

  class << self
    # Which of the acts are refused where there is what is told.
    def refusals(acts, has)
      acts.to_h { |name, _| [name, REFUSED.fetch(name)[has] ? true : false] }
    end

    # The built library, which any user can read, or nil where there is no compiler. One that was built before may be
    # named: a machine without a compiler has no other.
    def library
      @library ||= ENV["AGENT_JAIL_KERNEL_LIBRARY"] || build
    end

    def build(directory = temporary_directory)
      library = File.join(directory, "kernel.so")
      command = [*RbConfig::CONFIG["CC"].split, "-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror", "-o", library,
                 SOURCE, "-ldl"]
      system(*command, out: File::NULL, err: File::NULL) && library
    end

    # Words: where the first argument has a bit of the mask.
    def refusing_bits(error, name, mask)
      ["#{KernelCalls::NUMBERS.fetch(name)}&#{mask}=#{Errno.const_get(error)::Errno}"]
    end

    # Words: where the first argument is this.
    def refusing_option(error, name, option)
      ["#{KernelCalls::NUMBERS.fetch(name)}.#{option}=#{Errno.const_get(error)::Errno}"]
    end

    # The environment in which a process sees that kernel; without words, this one.
    def environment(*words)
      words.empty? ? {} : { "LD_PRELOAD" => library, "AGENT_JAIL_KERNEL" => words.join(" ") }
    end

    # Words: each of the calls that this architecture has fails with the error.
    def refusing(error, *names)
      numbers = names.filter_map { |name| KernelCalls::NUMBERS[name] }
      numbers.map { |number| "#{number}=#{Errno.const_get(error)::Errno}" }
    end

    def without_landlock(error)
      refusing(error, :landlock_create_ruleset, :landlock_add_rule, :landlock_restrict_self)
    end

    def without_seccomp(error)
      refusing(error, :seccomp) + refusing_option(:EINVAL, :prctl, PR_SET_SECCOMP)
    end

    private

    def temporary_directory
      directory = SuiteDirectory.make("agent_jail_kernel")
      File.chmod(0o755, directory)
      directory
    end
  end

  # A program for a fresh Ruby: does on its kernel what a hostile block does and what a good one may, each in a jail and
  # in a plain fork, and prints what came of it as JSON.
  ACTS = <<~'RUBY'
    require "etc"
    require "json"
    require "socket"
    require "tmpdir"

    def plain
      reader, writer = IO.pipe
      pid = fork do
        yield
        writer.write("done")
      rescue Exception => e
        writer.write(e.class.name)
      ensure
        writer.flush
        exit!
      end
      writer.close
      Process.wait(pid)
      reader.read
    ensure
      reader.close
    end

    def jailed(**options)
      AgentJail.run(timeout: 20, **options) do
        yield
        "done"
      end
    rescue AgentJail::SandboxError => e
      "#{e.class}: #{e.original_class}: #{e.message}"
    rescue AgentJail::Error => e
      e.class.name
    end

    # What came of an act, in a jail and without one. The ground is laid anew for each.
    def act(name, **options, &block)
      @acts ||= {}
      @acts[name] = [jailed(**options, &lay_ground(block)), plain(&lay_ground(block))]
    end

    def lay_ground(block)
      File.write("#{@dir}/secret", "secret")
      %w[a b].each { |name| FileUtils.mkdir_p("#{@dir}/granted/#{name}") }
      File.write("#{@dir}/granted/a/file", "content")
      FileUtils.rm_f("#{@dir}/granted/b/file")
      block
    end

    def still_there?(pid)
      200.times do
        return false if %w[Z X].include?(File.read("/proc/#{pid}/stat")[/\) (.)/, 1])
        sleep 0.01
      end
      true
    rescue Errno::ENOENT, Errno::ESRCH
      false
    end

    def hostile_acts
      parent = $$
      tcp = TCPServer.new("127.0.0.1", 0)
      port = tcp.addr[1]
      unix = UNIXServer.new("#{@dir}/socket")
      abstract = UNIXServer.new("\0agent_jail #{$$}")
      log = File.open("#{@dir}/log", "a")
      bystander = fork { sleep }
      act("reads a file") { File.read("#{@dir}/secret") }
      act("lists a directory") { Dir.children(@dir) }
      act("writes over a file") { File.write("#{@dir}/secret", "x") }
      act("makes a file") { File.write("#{@dir}/new", "x") }
      act("removes a file") { File.unlink("#{@dir}/secret") }
      act("truncates what may be read", fs_read_allow: @dir) { File.truncate("#{@dir}/secret", 0) }
      act("opens to truncate what may be read", fs_read_allow: @dir) { File.open("#{@dir}/secret", File::RDONLY | File::TRUNC).close }
      act("reads the parent's environment") { File.read("/proc/#{parent}/environ") }
      act("connects by TCP") { TCPSocket.new("127.0.0.1", port).close }
      act("opens a UDP socket") { UDPSocket.new.close }
      act("connects to a Unix socket") { UNIXSocket.new("#{@dir}/socket").close }
      act("connects to an abstract socket") { UNIXSocket.new("\0agent_jail #{parent}").close }
      act("forks") { Process.wait(fork { exit! }) }
      act("runs a program") { system("/bin/true", exception: true) }
      act("changes a mode", fs_allow: @dir) { File.chmod(0o600, "#{@dir}/secret") }
      act("changes an owner", fs_allow: @dir) { File.chown(65_534, nil, "#{@dir}/secret") } if File.read("/proc/self/status")[/CapEff:\t(\h+)/, 1].hex.odd?
      act("signals a process") { Process.kill(:CONT, bystander) }
      act("signals a process by a program", processes: true) { system("kill -CONT #{bystander}", exception: true, err: File::NULL) }
      act("sets the parent's priority") { Process.setpriority(Process::PRIO_PROCESS, parent, Process.getpriority(Process::PRIO_PROCESS, parent)) }
      act("writes to what the parent has open") { IO.for_fd(log.fileno, "a", autoclose: false).syswrite("x") }
      act("takes more memory than it may", memory_mb: 64) { "x" * (128 << 20) }
      Process.kill(:KILL, bystander)
      Process.wait(bystander)
    end

    def good_acts
      granted = { fs_allow: "#{@dir}/granted" }
      tcp = TCPServer.new("127.0.0.1", 0)
      port = tcp.addr[1]
      act("reads, writes and removes where granted", **granted) do
        File.write("#{@dir}/granted/a/file", File.read("#{@dir}/granted/a/file"))
        File.unlink("#{@dir}/granted/a/file")
      end
      act("moves between granted directories", **granted) { File.rename("#{@dir}/granted/a/file", "#{@dir}/granted/b/file") }
      act("truncates where granted", **granted) { File.truncate("#{@dir}/granted/a/file", 0) }
      act("uses threads and a pair of sockets") { Thread.new { UNIXSocket.pair.each(&:close) }.join }
      act("runs a program where it may", processes: true) { system("true", exception: true) }
      act("signals its own program", processes: true) { Process.wait(spawn("sleep 9").tap { |pid| Process.kill(:KILL, pid) }) }
      act("connects by TCP where it may", network: true) { TCPSocket.new("127.0.0.1", port).close }
    end

    # Whether a run ends on time, and takes with it what it started.
    def ends
      start = Process.clock_gettime(Process::CLOCK_MONOTONIC)
      late = begin
        AgentJail.run(timeout: 0.3) { loop { nil } }
      rescue AgentJail::Error => e
        e.class.name
      end
      left = AgentJail.run(timeout: 20, processes: true) { spawn("sleep 20") }
      [late, Process.clock_gettime(Process::CLOCK_MONOTONIC) - start < 10, still_there?(left)]
    end

    # What a run ends in.
    def run_once
      AgentJail.run { "run" }
    rescue AgentJail::Error => e
      [e.class.name, e.message]
    end

    def under(reaction)
      AgentJail.configure { |c| c.on_unsupported = reaction }
      [run_once, run_once]
    end

    told = { "enforcement" => AgentJail::Platform.enforcement, "report" => AgentJail::Platform.report,
             "ignore" => under(:ignore), "raise" => under(:raise), "warn" => under(:warn) }
    if told["warn"].first == "run"
      Dir.mktmpdir do |dir|
        @dir = dir
        hostile_acts
        good_acts
        told.update("acts" => @acts, "ends" => ends)
      end
    end
    puts told.to_json
  RUBY
end

# Runs a snippet as fresh_ruby does, on the kernel that the words say.
module OnAnotherKernel
  def on_another_kernel(words, code, *args, as_user: nil, timeout: 110)
    words += ["user"] if as_user && words.any?
    ruby = fresh_ruby(code, *args, env: Kernels.environment(*words), as_user: as_user, timeout: timeout)
    skip "this kernel cannot be cut down so: #{ruby.stderr}" if ruby.status.exitstatus == 77
    ruby
  end
end

RSpec.configure { |config| config.include OnAnotherKernel }
