# frozen_string_literal: true

require "spec_helper"
require "json"
require "socket"

# The macOS parts of the extension, run on Linux on top of an emulation: processes, time, memory and descriptors are
# real; the sandbox is written down and asked what it would have let through. On a Mac the other specs say this.
RSpec.describe "the extension for macOS", if: AgentJail::Platform.linux? do
  include EmulatedMac

  before(:context) { EmulatedMac.lib || raise(EmulatedMac.log) }

  around do |example|
    Dir.mktmpdir { |directory| example.run(@root = File.realpath(directory)) }
  end

  def at(*names) = File.join(@root, *names)

  # What the program puts out as JSON; it must say nothing else.
  def told(program, *args, **options)
    ruby = mac_ruby(<<~RUBY + program, *args, **options)
      require "json"
      def tell = puts(JSON.generate(yield))
      def outcome
        [yield]
      rescue AgentJail::Error => e
        [e.class.name, e.message]
      end
    RUBY
    expect(ruby).to have_attributes(stderr: "", status: be_success)
    ruby.stdout.lines.map { |line| JSON.parse(line) }
  end

  # The profile that a run of the program asked for.
  def profile(program, *args)
    told(program, *args, env: { "AGENT_JAIL_SANDBOX_RECORD" => at("record") })
    flags, text = File.read(at("record")).split("\n", 2)
    expect(flags).to eq("0")
    Sbpl::Profile.new(text)
  end

  it "takes itself for what it is" do
    report = mac_ruby("puts AgentJail::Platform.report; p AgentJail::Platform.enforcement, AgentJail::Platform.unenforced,
                       AgentJail::Platform.landlock_abi, AgentJail::Native.respond_to?(:filter)")

    expect(report.stdout).to match(/arm64-darwin23.*\nSeatbelt.* yes\nthe memory footprint.* yes\n{.*}\n\[\]\n0\nfalse\n\z/m)
  end

  describe "a run" do
    it "brings values back, and tells each true cause" do
      outcomes = told(<<~RUBY)
        causes = {
          value: -> { { "a" => [1, 2.5, "x" * 100_000, nil] } },
          raised: -> { raise ArgumentError, "no" },
          left: -> { exit 3 },
          killed: -> { Process.kill(:KILL, $$) },
          wall: -> { sleep },
          cpu: -> { loop { nil } },
          class: -> { Object.new }
        }
        tell { causes.to_h { |name, block| [name, outcome { AgentJail.run(timeout: 3, cpu_timeout: 0.3, &block) }] } }
      RUBY

      expect(outcomes.first).to match(
        "value" => [{ "a" => [1, 2.5, "x" * 100_000, nil] }],
        "raised" => ["AgentJail::SandboxError", "ArgumentError: no"],
        "left" => ["AgentJail::CrashError", /exited with status 3/],
        "killed" => ["AgentJail::CrashError", /SIGKILL/],
        "wall" => ["AgentJail::TimeoutError", /timeout of 3/],
        "cpu" => ["AgentJail::TimeoutError", /cpu_timeout of 0.3/],
        "class" => ["AgentJail::ResultError", /not permitted/]
      )
    end

    %w[none deaf].each do |kqueue|
      it "sees the child's end with a kqueue that is #{kqueue}, too" do
        outcomes = told(<<~RUBY, env: { "AGENT_JAIL_KQUEUE" => kqueue })
          tell { [-> { 1 }, -> { exit 3 }, -> { sleep }].map { |block| outcome { AgentJail.run(timeout: 2, &block) } } }
        RUBY

        expect(outcomes.first).to match([[1], ["AgentJail::CrashError", /status 3/], ["AgentJail::TimeoutError", /of 2/]])
      end
    end

    it "knows the status of a child that somebody else reaped", if: AgentJail::Platform.kernel_version >= Gem::Version.new("6.15") do
      outcomes = told('trap("CHLD", "IGNORE"); tell { outcome { AgentJail.run { exit 3 } } }')

      expect(outcomes).to match([["AgentJail::CrashError", /exited with status 3/]])
    end

    it "leaves neither descriptors nor children behind, however it ends" do
      counts = told(<<~RUBY)
        descriptors = -> { Dir.children("/proc/self/fd").size }
        blocks = [-> { 1 }, -> { raise "x" }, -> { exit! }, -> { Process.kill(:KILL, $$) }, -> { sleep }]
        blocks.each { |block| outcome { AgentJail.run(timeout: 0.3, &block) } }
        before = descriptors.call
        3.times { blocks.each { |block| outcome { AgentJail.run(timeout: 0.3, tmpdir: true, &block) } } }
        children = begin
          Process.wait(-1, Process::WNOHANG)
        rescue Errno::ECHILD
          "none"
        end
        tell { [descriptors.call - before, children, Dir.glob("/tmp/agent_jail.*").size] }
      RUBY

      expect(counts).to eq([[0, "none", 0]])
    end

    it "tells a fiber's stack from a thread's own" do
      answers = told("ask = -> { AgentJail::Native.fiber? }; tell { [ask.call, Thread.new(&ask).value, Fiber.new(&ask).resume] }")

      expect(answers).to eq([[false, false, true]])
    end
  end

  describe "memory" do
    it "is watched: a block that takes more than it may ends in MemoryError, one that may goes on" do
      outcomes = told(<<~RUBY)
        grow = -> { a = []; 60.times { a << "x" * (4 << 20); sleep 0.001 }; a.size }
        tell { [64, 512].map { |limit| outcome { AgentJail.run(memory_mb: limit, &grow) } } }
      RUBY

      expect(outcomes.first).to match([["AgentJail::MemoryError", /64 MiB/], [60]])
    end

    it "is counted from what the caller has, which may be read" do
      outcomes = told(<<~RUBY)
        have = "x" * (300 << 20)
        block = ->(size) { have.sum; taken = "y" * (size << 20); sleep 0.5; taken.size }
        tell { [20, 200].map { |size| outcome { AgentJail.run(memory_mb: 64) { block.call(size) } } } }
      RUBY

      expect(outcomes.first).to match([[20 << 20], ["AgentJail::MemoryError", /64 MiB/]])
    end

    it "of a program that the block runs is watched as well" do
      outcomes = told(<<~RUBY)
        run = ->(size) { pid = fork { x = "x" * (size << 20); sleep 2; exit!(x.size.zero?) }; Process.wait(pid); "done" }
        tell { [300, 20].map { |size| outcome { AgentJail.run(processes: true, memory_mb: 100) { run.call(size) } } } }
      RUBY

      expect(outcomes.first).to match([["AgentJail::MemoryError", /100 MiB/], ["done"]])
    end
  end

  describe "the sandbox" do
    it "is asked for what the options grant, and for nothing else" do
      FileUtils.mkdir_p([at("rw"), at("ro"), at("other")])
      may = profile("AgentJail.run(fs_allow: [ARGV[0]], fs_read_allow: [ARGV[1]]) { 1 }", at("rw"), at("ro"))
      told = %w[rw ro other].map { |name| %w[file-read-data file-write-create].map { |operation| may.allows?(operation, path: at(name, "x")) } }

      expect(told).to eq([[true, true], [true, false], [false, false]])
      expect(["/etc/passwd", "/root/.ssh/id_rsa", "/proc/1/environ"].map { |path| may.allows?("file-read-data", path: path) }.uniq).to eq([false])
      expect(%w[network-outbound process-fork].map { |operation| may.allows?(operation) }).to eq([false, false])
      expect(may.allows?("file-read-metadata", path: Dir.pwd)).to be(true)
    end

    it "lets a root be removed by who may write above it, in whatever order they are named" do
      FileUtils.mkdir_p(at("rw", "inner"))
      told = [%w[rw rw/inner], %w[rw/inner rw], %w[rw/inner]].map do |names|
        may = profile("AgentJail.run(fs_allow: ARGV) { 1 }", *names.map { |name| at(name) })
        %w[rw/inner rw].map { |name| may.allows?("file-write-unlink", path: at(name)) }
      end

      expect(told).to eq([[true, false], [true, false], [false, false]])
    end

    it "lets Ruby's libraries be read and loaded, by the paths that it loads them by" do
      may = profile("AgentJail.run { 1 }")
      features = $LOADED_FEATURES.grep(%r{\A/}).grep_v(/agent_jail|bundle/).first(50)

      expect(features.reject { |path| may.reaches?("file-read-data", path) && may.reaches?("file-map-executable", path) }).to eq([])
    end

    it "opens the network and programs with the options for that" do
      open = profile("AgentJail.run(network: true, processes: true) { 1 }")

      expect(%w[network-outbound process-fork].map { |operation| open.allows?(operation) }).to eq([true, true])
      expect(["/bin/sh", "/usr/bin/env", at("x")].map { |path| open.reaches?("process-exec", path) }).to eq([true, true, false])
    end

    it "gives a private directory with tmpdir, and with no other's" do
      FileUtils.mkdir_p(at("tmp"))
      record = at("tmpdir")
      may = profile("ENV['TMPDIR'] = ARGV[0]; AgentJail.run(tmpdir: true) { File.write(ARGV[1], Dir.tmpdir) }", at("tmp"), record)
      private_directory = File.read(record)

      expect(may.allows?("file-write-create", path: File.join(private_directory, "x"))).to be(true)
      expect(may.allows?("file-write-create", path: at("tmp", "x"))).to be(false)
    end

    it "that cannot be had is a SetupError that says why, and the block does not run" do
      program = "tell { outcome { AgentJail.run { File.write(ARGV[0], 'ran') } } }"
      refused = told(program, at("witness"), env: { "AGENT_JAIL_SANDBOX_FAILS" => "1:Operation not permitted" })
      ran = File.exist?(at("witness"))
      told(program, at("witness"))

      expect(refused).to match([["AgentJail::SetupError", /sandbox_init.*in a sandbox already, and macOS puts none inside/]])
      expect([ran, File.exist?(at("witness"))]).to eq([false, true])
    end

    it "is told beforehand where the process is in one already" do
      answers = %w[raise warn].map do |reaction|
        mac_ruby("AgentJail.configure { |c| c.on_unsupported = :#{reaction} }; p AgentJail.run { 1 }", env: { "AGENT_JAIL_SANDBOXED" => "1" })
      end

      expect(answers.first.stderr).to match(/Seatbelt.*UnsupportedPlatformError/)
      expect(answers.last).to have_attributes(stdout: "1\n", stderr: /\AAgentJail: .*Seatbelt.*\n\z/)
    end

    it "that cannot name a path refuses it before anything is forked" do
      FileUtils.mkdir_p(at("a\nb"))
      ruby = mac_ruby("begin; AgentJail.run(fs_allow: ARGV[0]) { 1 }; rescue SystemCallError => e; p e.class, e.message; end", at("a\nb"))

      expect(ruby).to have_attributes(stdout: /Errno::EINVAL\n.*fs_allow.*control character/, stderr: "")
    end

    it "that is told by EPERM of a socket's call is told as the network's" do
      outcomes = told(<<~'RUBY')
        acts = [-> { raise Errno::EPERM, "socket(2) - udp" }, -> { raise Errno::EPERM, 'connect(2) for "127.0.0.1" port 80' }, -> { raise Errno::EPERM, "bind(2) for \"::\" port 1" },
                -> { raise Errno::EPERM, "/tmp/connect" }]
        tell { acts.map { |act| outcome { AgentJail.run(&act) }.first } }
        tell { acts.map { |act| outcome { AgentJail.run(network: true, &act) }.first } }
      RUBY

      expect(outcomes).to eq([[*["AgentJail::NetworkError"] * 3, "AgentJail::FilesystemError"],
                              ["AgentJail::FilesystemError"] * 4])
    end
  end

  describe "what the parent has" do
    it "open is dead in the block, and its number is not free" do
      answers = told(<<~RUBY, at("file"))
        file = File.open(ARGV[0], "w+").tap { |open| open.sync = true }
        file.write("secret")
        number = file.fileno
        block = lambda do
          wrote = begin
            file.write("x")
          rescue SystemCallError, IOError => e
            e.class.name
          end
          [wrote, IO.for_fd(number, "r", autoclose: false).read.to_s, File.open(IO::NULL).fileno == number]
        end
        tell { AgentJail.run(&block) }
        tell { File.read(ARGV[0]) }
        tell { AgentJail.run(inherit: file) { file.write("more") } && File.read(ARGV[0]) }
      RUBY

      expect(answers).to eq([["Errno::EBADF", "", false], "secret", "secretmore"])
    end

    it "shared in memory is the block's own copy" do
      answers = told(<<~RUBY)
        require "fiddle"
        i, p, s = Fiddle::TYPE_INT, Fiddle::TYPE_VOIDP, Fiddle::TYPE_SIZE_T
        mmap = Fiddle::Function.new(Fiddle::Handle::DEFAULT["mmap"], [p, s, i, i, i, s], p)
        memory = Fiddle::Pointer.new(mmap.call(nil, 8192, 3, 0x21, -1, 0).to_i, 8192) # READ | WRITE; SHARED | ANONYMOUS
        memory[0, 4] = "keep"
        block = -> { seen = memory[0, 4]; memory[0, 4] = "gone"; seen }
        tell { [AgentJail.run(&block), memory[0, 4]] }
        Process.wait(fork { block.call })
        tell { memory[0, 4] }
      RUBY

      expect(answers).to eq([%w[keep keep], "gone"])
    end

    it "is the child's end too, also when it is killed and the block runs programs" do
      program = <<~'RUBY'
        pids = ARGV[0]
        jail = fork do
          AgentJail.run(timeout: 60, processes: true) { File.write(pids, "#{$$} #{spawn("sleep", "60")}"); sleep }
        end
        sleep 0.01 until File.size?(pids)
        sleep 0.3
        Process.kill(:KILL, jail)
        Process.wait(jail)
        gone = ->(pid) { !File.exist?("/proc/#{pid}") || File.read("/proc/#{pid}/stat")[/\) (.)/, 1] == "Z" }
        500.times { File.read(pids).split.all?(&gone) ? break : sleep(0.01) }
        tell { File.read(pids).split.map(&gone) }
      RUBY

      expect(told(program, at("pids"))).to eq([[true, true]])
    end

    it "is the child's end before the jail is closed, too" do
      program = <<~'RUBY'
        pids = ARGV[0]
        jail = fork do
          Process.singleton_class.prepend(Module.new do
            def _fork = super.tap { |pid| pid.zero? ? File.write(ARGV[0], $$) : sleep }
          end)
          AgentJail.run(timeout: 60) { sleep }
        end
        sleep 0.01 until File.size?(pids)
        sleep 0.3
        child = File.read(pids).to_i
        gone = -> { !File.exist?("/proc/#{child}") || File.read("/proc/#{child}/stat")[/\) (.)/, 1] == "Z" }
        waits = !gone.call
        Process.kill(:KILL, jail)
        Process.wait(jail)
        500.times { gone.call ? break : sleep(0.01) }
        tell { [waits, gone.call] }
      RUBY

      expect(told(program, at("pids"))).to eq([[true, true]])
    end
  end

  describe "the report" do
    hook = <<~'RUBY'
      $found = -> { Dir.glob("/proc/self/fd/*").filter_map { |path| File.readlink(path)[%r{/tmp/agent_jail\.}] rescue nil }.size }
    RUBY

    it "is out of the block's reach, while a fork hook still has it" do
      answers = told(hook + <<~RUBY)
        Process.singleton_class.prepend(Module.new { def _fork = super.tap { |pid| $in_hook = $found.call if pid.zero? } })
        tell { AgentJail.run { [$in_hook, $found.call] } }
      RUBY

      expect(answers).to eq([[1, 0]])
    end

    it "tells a hook that raises as the jail's failure, and a block that ends by itself never" do
      outcomes = told(<<~RUBY)
        tell { outcome { AgentJail.run { exit!(1) } } }
        Process.singleton_class.prepend(Module.new { def _fork = super.tap { |pid| raise "hook" if pid.zero? } })
        tell { outcome { AgentJail.run { 1 } } }
      RUBY

      expect(outcomes).to match([["AgentJail::CrashError", /status 1/], ["AgentJail::SetupError", /hook/]])
    end
  end
end

# What only a Mac can say: whether its own compiler takes the profile, and what its kernel makes of it.
RSpec.describe AgentJail, "on a Mac", if: AgentJail::Platform.macos? do
  around do |example|
    Dir.mktmpdir { |directory| example.run(@dir = directory) }
  end

  attr_reader :dir

  [true, false].repeated_permutation(3) do |network, processes, tmpdir|
    options = { network: network, processes: processes, tmpdir: tmpdir }

    it "has a profile that the system takes, with #{options.select { |_, open| open }.keys}" do
      expect(described_class.run(**options, fs_allow: dir) { 1 }).to eq(1)
    end
  end

  it "opens what is granted, by the path that it was granted by, and nothing else" do
    path = File.join(dir, "file")
    File.write(path, "kept")

    expect(jailed(fs_read_allow: dir) { File.read(path) }).to eq("kept")
    expect { File.read(path) }.to be_refused.leaving(dir)
    expect { File.write(path, "x") }.to be_refused.in_a_jail_with(fs_read_allow: dir).leaving(dir)
    expect { File.read("/etc/passwd") }.to be_refused
    expect { File.chmod(0o600, path) }.to be_refused.in_a_jail_with(fs_allow: dir).leaving(dir)
    expect { File.link(path, "#{path}-2") }.to be_refused.in_a_jail_with(fs_allow: dir)
  end

  it "loads libraries that it has not loaded yet" do
    ruby = fresh_ruby("p AgentJail.run { require 'bigdecimal'; require 'openssl'; BigDecimal('1.5').to_s }")

    expect(ruby).to have_attributes(stdout: "\"0.15e1\"\n", stderr: "")
  end

  it "has neither network, nor processes, nor a hand on its parent" do
    server = TCPServer.new("127.0.0.1", 0)
    port = server.addr[1]
    parent = Process.pid

    expect { TCPSocket.new("127.0.0.1", port).close }.to be_refused.as(AgentJail::NetworkError)
    expect { UDPSocket.new.send("x", 0, "127.0.0.1", port) }.to be_refused.as(AgentJail::NetworkError)
    expect { Process.wait(fork { exit! }) }.to be_refused.as(AgentJail::ProcessError)
    expect { Process.kill(0, parent) }.to be_refused.as(AgentJail::ProcessError)
    expect { Process.kill(0, parent) }.to be_refused.as(AgentJail::ProcessError).in_a_jail_with(processes: true)
    expect(jailed(processes: true) { `/bin/echo said` }).to eq("said\n")
  ensure
    server&.close
  end

  it "ends a block that takes too much memory, and its programs" do
    expect(jailed(memory_mb: 64) { ("x" * (400 << 20)).sum && sleep }).to be_a(AgentJail::MemoryError)
    expect(jailed(memory_mb: 600) { ("x" * (400 << 20)).sum && 1 }).to eq(1)
  end
end
