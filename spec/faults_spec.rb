# frozen_string_literal: true

require "json"

# Calls of the kernel that fail: for want of descriptors, of memory, of processes.
RSpec.describe AgentJail, "where the kernel refuses what the jail needs", :bare, if: AgentJail::Platform.linux? do
  numbers = {
    "x86_64" => { getdents64: 217, capget: 125, capset: 126, seccomp: 317, pidfd_send_signal: 424, pidfd_open: 434,
                  close_range: 436, landlock_create_ruleset: 444, landlock_add_rule: 445, landlock_restrict_self: 446 },
    "aarch64" => { getdents64: 61, capget: 90, capset: 91, seccomp: 277, pidfd_send_signal: 424, pidfd_open: 434,
                   close_range: 436, landlock_create_ruleset: 444, landlock_add_rule: 445, landlock_restrict_self: 446 }
  }[RUBY_PLATFORM[/\A[^-]+/]].to_h

  # What has to come of it: `fails` with a SetupError that names the call, `goes on` with all walls standing, or is
  # `told`, which is either of them, or an error that names the call.
  parent = {
    "pipe2" => [[1, :EMFILE, :fails], [2, :ENFILE, :told]],
    "memfd_create" => [[1, :EMFILE, :fails], [1, :ENOMEM, :fails]],
    "fchmod" => [[1, :EPERM, :fails]],
    "ftruncate" => [[1, :ENOMEM, :fails]],
    "open" => [[1, :EMFILE, :fails], [1, :ENOMEM, :fails], [7, :ENFILE, :fails]],
    "fcntl" => [[1, :EINVAL, :fails], [2, :ENOMEM, :told], [3, :ENOMEM, :told], [4, :ENOMEM, :told]],
    "read" => (1..4).map { |nth| [nth, :EINTR, :goes_on] },
    "poll" => [[1, :EINTR, :goes_on], [1, :ENOMEM, :goes_on]],
    "ppoll" => [[1, :EINTR, :goes_on], [1, :ENOMEM, :goes_on]],
    "wait4" => [[1, :EINTR, :goes_on], [1, :ECHILD, :goes_on]],
    "kill" => [[1, :EPERM, :goes_on], [1, :ESRCH, :goes_on]],
    "realloc" => [[1, :ENOMEM, :fails]],
    "clock_getcpuclockid" => [[1, :EPERM, :goes_on]],
    "fork" => [[1, :ENOMEM, :told], [1, :EPERM, :told]],
    "getdents64" => [[1, :ENOMEM, :fails]],
    "landlock_create_ruleset" => [[1, :ENOMEM, :told], [2, :EMFILE, :fails], [2, :ENOMEM, :fails]],
    "landlock_add_rule" => [[1, :ENOMEM, :fails], [9, :ENOMEM, :fails]],
    "seccomp" => [[1, :ENOMEM, :told]],
    "pidfd_open" => [[1, :EMFILE, :goes_on], [1, :ENOSYS, :goes_on]],
    "pidfd_send_signal" => [[1, :EINVAL, :goes_on], [1, :ENOSYS, :goes_on]]
  }
  child = {
    "setpgid" => [[1, :EPERM, :fails]],
    "prctl" => (1..3).map { |nth| [nth, :EPERM, :fails] },
    "getppid" => [[1, :EPERM, :fails]],
    "sigprocmask" => [[1, :EINVAL, :fails]],
    "signal" => [[1, :EINVAL, :fails]],
    "dup3" => (1..3).map { |nth| [nth, :EMFILE, :fails] },
    "getrlimit" => (1..6).map { |nth| [nth, :EINVAL, :fails] },
    "setrlimit" => (1..6).map { |nth| [nth, :EPERM, :fails] },
    "open" => [[1, :EMFILE, :fails], [2, :ENFILE, :fails]],
    "read" => [[1, :EIO, :fails]],
    "write" => [[1, :EINTR, :goes_on], [2, :EINTR, :goes_on]],
    "close" => [[1, :EINTR, :told], [4, :EIO, :told]],
    "capset" => [[1, :EPERM, :fails]],
    "close_range" => [[1, :ENOSYS, :goes_on]],
    "landlock_restrict_self" => [[1, :EPERM, :fails], [1, :E2BIG, :fails], [1, :ENOMEM, :fails]],
    "seccomp" => [[1, :EINVAL, :fails], [1, :ENOMEM, :fails], [1, :EACCES, :fails]]
  }
  cases = [[parent, 0, "parent"], [child, 1, "child"]].flat_map do |table, in_child, whose|
    table.flat_map { |name, rows| rows.map { |nth, error, expected| [whose, in_child, name, nth, error, expected] } }
  end

  # Each in a process of its own, one after the other; a hang is an answer as well.
  before(:context) do
    @told = nil
    next unless Faults.library && numbers.any?

    calls = cases.map do |_, in_child, name, nth, error|
      if numbers.key?(name.to_sym)
        ["syscall", numbers[name.to_sym], nth, error,
         in_child]
      else
        [name, -1, nth, error, in_child]
      end
    end
    program = Faults::PRELUDE + <<~RUBY
      AgentJail.run(&WALLS)
      JSON.parse(ARGV[0]).each do |name, number, nth, error, child|
        puts apart(name, number, nth, Errno.const_get(error)::Errno, child).to_json
      end
    RUBY
    ruby = fresh_ruby(program, calls.to_json, env: { "LD_PRELOAD" => Faults.library }, timeout: 110)
    @told = cases.zip(ruby.stdout.lines.map { |line| JSON.parse(line) }).to_h
  end

  define_method(:outcome_of) do |row|
    skip "no compiler here, or no numbers of this machine's system calls" unless @told
    @told.fetch(row) || raise("nothing was told of it")
  end

  # A sound run, and one whose call came to no harm.
  all_well = true

  cases.each do |row|
    whose, in_child, name, nth, error, expected = row
    says = expected == :goes_on ? "goes on behind its walls" : "is told of it, and nothing is left over"

    it "#{says} when #{name} (#{nth}.) of the #{whose} gives #{error}" do
      outcome, failed, *left = outcome_of(row)
      # a path to the call that this kernel's features spare
      skip "there is no such call here" if failed&.zero? && in_child.zero? && outcome == all_well

      case expected
      when :goes_on then expect(outcome).to be(all_well)
      when :fails then expect(outcome).to match(["AgentJail::SetupError",
                                                 /#{if name == "realloc"
                                                      "malloc"
                                                    else
                                                      name.sub("getr", "setr").sub(
                                                        "capset", "cap"
                                                      )
                                                    end}/])
      else expect(outcome).to be(all_well).or match([/\A(AgentJail::SetupError|Errno::\w+)\z/, /#{name}/])
      end
      expect(left).to eq([0, 0, all_well])
    end
  end

  it "would see a wall that is missing" do
    skip "no compiler here" unless Faults.library
    ruby = fresh_ruby("#{Faults::PRELUDE}p AgentJail.run(&WALLS), AgentJail.run(network: true, &WALLS), " \
                      "AgentJail.run(fs_read_allow: '/etc', &WALLS), AgentJail.run(memory_mb: 2000, &WALLS)",
                      env: { "LD_PRELOAD" => Faults.library })

    expect(ruby.stdout).to eq("true\n\"open\"\n\"open\"\n\"open\"\n")
  end

  # Ruby asks again, once a second and for ever, where fork gives EAGAIN: no fork, no deadline. The caller's own
  # Timeout ends it.
  it "waits as fork does when there are no processes left, until there are, or the caller's own Timeout" do
    skip "no compiler here" unless Faults.library
    ruby = fresh_ruby(Faults::PRELUDE + <<~RUBY, env: { "LD_PRELOAD" => Faults.library })
      require "timeout"
      p AgentJail.run(&WALLS)
      SET.call(Fiddle::Pointer["fork"], -1, Errno::EAGAIN::Errno, 1, 0)
      start = Process.clock_gettime(Process::CLOCK_MONOTONIC)
      p AgentJail.run(timeout: 30, &WALLS), HITS.call, Process.clock_gettime(Process::CLOCK_MONOTONIC) - start > 0.9
      p left
    RUBY

    expect(ruby).to have_attributes(stdout: "true\ntrue\n1\ntrue\n0\n", stderr: "")
  end

  describe "for want of descriptors" do
    # In a Ruby that may have so many more: what a run ends in with each number of them, from none to enough.
    program = <<~'RUBY'
      AgentJail.run(timeout: 20) { 1 }
      fillers = []
      highest = Dir.children("/proc/self/fd").map(&:to_i).max
      fillers << File.open(File::NULL) until fillers.any? && fillers.last.fileno > highest
      before = Dir.children("/proc/self/fd").size
      base = fillers.last.fileno + 1
      hard = Process.getrlimit(:NOFILE).last
      told = (0..14).map do |more|
        Process.setrlimit(:NOFILE, base + more, hard)
        begin
          AgentJail.run(timeout: 20) { 1 }
        rescue AgentJail::SetupError, SystemCallError => e
          e.message[/Too many open files/] || e.inspect
        rescue Exception => e
          "wrong: #{e.inspect}"
        end
      end
      Process.setrlimit(:NOFILE, hard, hard)
      puts told.chunk_while { |one, other| one == other }.map(&:first).inspect
      p Dir.children("/proc/self/fd").size - before, AgentJail.run(timeout: 20) { 1 }
    RUBY

    it "says Too many open files with too few, works with enough, and leaves none open" do
      expect(fresh_ruby(program)).to have_attributes(stdout: "[\"Too many open files\", 1]\n0\n1\n", stderr: "")
    end
  end

  it "says Cannot allocate memory for want of address space in the parent, or works, and the parent goes on" do
    ruby = fresh_ruby(<<~RUBY)
      AgentJail.run(timeout: 20) { 1 }
      size = File.read("/proc/self/statm").to_i * 4096
      told = [0, 1, 4, 64, 1024].map do |more|
        pid = fork do
          Process.setrlimit(:AS, size + (more << 16))
          AgentJail.run(timeout: 20) { 1 }
          exit!(0)
        rescue NoMemoryError, AgentJail::SetupError, AgentJail::MemoryError, Errno::ENOMEM
          exit!(1)
        end
        Process.wait2(pid).last.exitstatus
      end
      p told.uniq - [0, 1], told.last
    RUBY

    expect(ruby).to have_attributes(stdout: "[]\n0\n", stderr: "")
  end
end
