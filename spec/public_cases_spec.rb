# frozen_string_literal: true

require "etc"
require "open3"
require "pty"
require "securerandom"
require "socket"
require "timeout"

# What the cases need names for.
module PublicCases
  # Its dump ends the process.
  class Vanishing
    def marshal_dump = Process.exit!(5)
  end
end

# What people lost to forks, pipes, limits and sandboxes elsewhere, tried here; the comments say where it was reported.
# Cases that are a topic of their own are tried in that topic's spec:
#
# causes        results and exceptions that cannot be dumped (grosser/parallel#286, #72, #202; legacy-homebrew#40311),
#               death by a signal (rails/spring#676), a crash report for want of memory (Shopify/ruby#454)
# sigchld       who else reaps (resque#481, #432; puma#2267; bubblewrap PR#146; socketry/async#351)
# fork_hooks    what happens between fork and jail (resque#1470), handlers that were inherited (resque#621)
# run           at_exit, autorun, finalisers, break and its like (parallel#230, #49; minitest#807; roo#585; the gem of
#               Discourse), forged and partial frames (evilution#557)
# descriptors   connections and files that are open (sequel#1431, postgres too; redis-py#863; redis-client#126;
#               codex#46960; cplt PR#329)
# parent        a parent that is killed, a thread that is killed, Timeout (childprocess#58, parallel#248, codex#21994),
#               a parent that is confined itself, a jail in a jail
# fibers        a reactor (socketry/async#351)
# limits        memory beside a large parent, YJIT, CPU time (Shopify/ruby#454, isolate#72)
# paths, input  files, devices, FIFOs, relative paths, odd names, odd types (landrun#13, #15; raptor#258; sentry-ruby#113;
#               ai-jail#124), what is not there yet
# network       names, TLS, fast open (mise#11958, ladybird#10241, landlock#41)
# readable      libraries that are loaded late, by symlinks too (ai-jail#124), what of /proc and /dev is open
# root          /proc of others, the environment (sandlock#11, #246; inflexa#88)
# neighbours, filter   terminals (bubblewrap#142, #309), io_uring and foreign conventions (birdcage#32, celln#30,
#               firejail#7058), other processes, modes and times of files, programs in memory
# processes     threads, Timeout, trees (moby#42680, sandlock#47)
# gate          permits by class and wire form
# platform, faults   a kernel that lacks something, a step that fails (openai/codex#8218)
#
# Not tried: what is macOS's own (there is no jail there), and the debugger, which makes the parent wait for any child
# at its own exit.
RSpec.describe AgentJail, "where others lost", if: AgentJail::Platform.linux? do
  include_context "with a directory"

  describe "an answer" do
    # stripe/subprocess#39, openai/codex#4337
    it "that a sleeper who holds the pipe would keep back comes at once, and the sleeper is gone" do
      value = nil
      quick, slow = [1, 10].map do |nap|
        seconds { value = described_class.run(processes: true, timeout: 60) { spawn("sleep #{nap}") } }
      end

      expect(outlived([value], patience: 1)).to eq([])
      expect(slow).to be < quick + 1
    end

    # openai/codex#4337
    it "that never comes is given up in time though a grandchild holds standard output and the pipe" do
      outcome = nil
      tree = -> { seconds { outcome = jailed(processes: true, timeout: 0.3) { fork { fork { sleep } && sleep } && sleep } } }
      alone = -> { seconds { jailed(processes: true, timeout: 0.3) { sleep } } }
      took, control = [tree, alone].map { |way| Array.new(3) { way.call }.min }

      expect(outcome).to be_an_instance_of(AgentJail::TimeoutError)
      expect(took).to be < control + 0.5
    end

    # jeremyevans/minitest-parallel_fork#4, marinazzio/evilution#557
    [(64 << 10) - 60, (64 << 10) + 60, 50_000_000].each do |size|
      it "of #{size} bytes is not stuck in a full pipe" do
        expect(described_class.run(timeout: 60) { "x" * size }).to eq("x" * size)
      end
    end

    # jeremyevans/minitest-parallel_fork#6
    it "cut off as it is dumped names the true end, not `marshal data too short`" do
      error = jailed(timeout: 60, permitted_classes: PublicCases::Vanishing) { [1, PublicCases::Vanishing.new] }

      expect(error).to be_an_instance_of(AgentJail::CrashError).and have_attributes(exit_status: 5)
      expect(error.message).not_to match(/marshal|too short/)
    end

    # rails/spring#676
    it "of a killed block is never success" do
      error = jailed(timeout: 60) { Process.kill(:KILL, Process.pid) && sleep }

      expect(error).to have_attributes(class: AgentJail::CrashError, signal: "KILL", exit_status: nil)
    end
  end

  describe "an exception" do
    # rails/rails#34131, grosser/parallel#202
    it "that carries a Proc or a Binding keeps its class, words and lines, and is no connection error" do
      stub_const("Carrying", Class.new(StandardError) { def initialize(words) = super.tap { @carried = [proc { self }, binding] } })
      error = jailed(timeout: 60) { raise Carrying, "lost" }

      expect(error).to have_attributes(class: AgentJail::SandboxError, original_class: "Carrying", original_message: "lost",
                                       original_backtrace: include(/public_cases_spec/))
      expect { Marshal.dump(Carrying.new("lost")) }.to raise_error(TypeError)
    end

    # A KeyError carries its receiver: it would cross whole, and it may be the secrets.
    it "brings nothing of its receiver along" do
      secret = { "password" => "hunter2" * 1000 }
      error = jailed(timeout: 60) { secret.fetch("token") }
      held = error.instance_variables.map { |name| error.instance_variable_get(name).inspect }.join

      expect(error.original_class).to eq("KeyError")
      expect(held).not_to include("hunter2")
      expect(Marshal.dump(begin
        secret.fetch("token")
      rescue KeyError => e
        e
      end)).to include("hunter2")
    end
  end

  # grosser/parallel#49
  describe "a block that is left, given in any form," do
    left_by = /the block was left by (break|return)|break from proc-closure|unexpected return/
    {
      "break of a block" => ["AgentJail.run { break 5 }", left_by],
      "break of a proc" => ["AgentJail.run(&proc { break 5 })", left_by],
      "break of a lambda" => ["AgentJail.run(&lambda { break 5 })", 5],
      "break of a method's block" => ["given { break 5 }", left_by],
      "return of a block" => ["AgentJail.run { return 5 }", left_by],
      "return of a proc" => ["AgentJail.run(&proc { return 5 })", left_by],
      "return of a lambda" => ["AgentJail.run(&lambda { return 5 })", 5],
      "return of a method's block" => ["given { return 5 }", left_by],
      "next of a proc" => ["AgentJail.run(&proc { next 5 })", 5],
      "next of a method's block" => ["given { next 5 }", 5],
      "throw of a proc" => ["catch(:out) { AgentJail.run(&proc { throw :out, 5 }) }", /throw/],
      "throw of a lambda" => ["catch(:out) { AgentJail.run(&lambda { throw :out, 5 }) }", /throw/],
      "throw of a method's block" => ["catch(:out) { given { throw :out, 5 } }", /throw/],
      "a method" => ["AgentJail.run(&method(:five))", 5]
    }.each do |way, (code, told)|
      it "by #{way}, goes on once, in the caller" do
        path = file("lines", "")
        ruby = fresh_ruby(<<~RUBY, path, dir)
          def given(&block) = AgentJail.run(fs_allow: ARGV[1], &block)
          def five = 5
          def leave
            p((#{code}))
          rescue AgentJail::SandboxError => e
            puts e.message
          ensure
            File.write(ARGV[0], "line ", mode: "a")
          end
          leave
        RUBY

        expect(ruby).to have_attributes(stdout: told == 5 ? "5\n" : told, stderr: "")
        expect(File.read(path)).to eq("line ")
      end
    end
  end

  # mperham/connection_pool#175
  describe "a pool of TLS connections" do
    program = <<~'RUBY'
      require "connection_pool"
      require "openssl"
      require "socket"
      key = OpenSSL::PKey::EC.generate("prime256v1")
      certificate = OpenSSL::X509::Certificate.new
      certificate.serial = 1
      certificate.subject = certificate.issuer = OpenSSL::X509::Name.parse("/CN=localhost")
      certificate.public_key = key
      certificate.not_before = Time.now - 60
      certificate.not_after = Time.now + 3600
      context = OpenSSL::SSL::SSLContext.new
      context.key = key
      context.cert = certificate.sign(key, "SHA256")
      server = TCPServer.new("127.0.0.1", 0)
      handshakes = 0
      Thread.new do
        loop do
          tls = OpenSSL::SSL::SSLSocket.new(server.accept, context).tap(&:accept)
          handshakes += 1
          Thread.new do
            while (line = tls.gets)
              tls.puts(line)
            end
            tls.io.close
          end
        end
      end
      connect = lambda do
        OpenSSL::SSL::SSLSocket.new(TCPSocket.new("127.0.0.1", server.addr[1])).tap(&:connect)
      end
      pool = ConnectionPool.new(size: 1) { connect.call }
      ask = -> { pool.with { |tls| tls.puts("hello") || tls.gets } }
      ask.call
      answers = Array.new(20) do
        ARGV.first == "jail" ? AgentJail.run(timeout: 60) { 1 } : Process.wait(fork { exit! })
        ask.call
      rescue SystemCallError, IOError, OpenSSL::SSL::SSLError
        nil
      end
      p answers.count("hello\n"), handshakes
    RUBY

    it "is still the parent's after 20 runs, as it was, which it is not after a fork" do
      skip "no connection_pool here" unless Gem.loaded_specs.key?("connection_pool")
      load_path = Gem.loaded_specs["connection_pool"].full_require_paths.map { |path| "-I#{path}" }
      jail, plain = %w[jail fork].map { |how| fresh_ruby(program, how, options: load_path) }

      expect(jail).to have_attributes(stdout: "20\n1\n", stderr: "")
      expect(plain.stdout).to eq("0\n1\n")
    end
  end

  # ruby/timeout#52
  describe "a timeout" do
    it "of the block's own and the jail's, equally long, is one of the two and nothing of Timeout's insides" do
      classes = Array.new(10) do
        error = jailed(timeout: 0.1) { Timeout.timeout(0.1) { sleep } }
        error.is_a?(AgentJail::SandboxError) ? error.original_class : error.class.name
      end

      expect(classes.uniq - ["AgentJail::TimeoutError", "Timeout::Error"]).to eq([])
    end

    # sider/runners#305
    it "of the caller's stops the process, not only the waiting" do
      reader, writer = IO.pipe
      error = begin
        Timeout.timeout(0.5) { described_class.run(timeout: 60, inherit: writer) { writer.syswrite(Process.pid.to_s) && sleep } }
      rescue Timeout::Error => e
        e
      end
      writer.close

      expect(error).to be_an_instance_of(Timeout::Error)
      expect(survivors([Integer(reader.read)], patience: 0)).to eq([])
    ensure
      [reader, writer].each(&:close)
    end

    # ioi/isolate#72
    it "of CPU time is not what ends a sleep, and the clock's is" do
      expect(jailed(cpu_timeout: 0.2, timeout: 0.6) { sleep }.message).to match(/its timeout of 0\.6/)
      expect(jailed(cpu_timeout: 0.2, timeout: 60) { loop { nil } }.message).to match(/its cpu_timeout of 0\.2/)
    end

    # google/nsjail#139, google/kctf#59: a fork begins to count anew.
    it "holds a block that burns its time in short forks, by the clock" do
      reader, writer = IO.pipe
      outcome = jailed(processes: true, timeout: 3, cpu_timeout: 1, inherit: writer) do
        loop { Process.wait(fork { 20_000.times { nil } && writer.syswrite("x") }) }
      end
      writer.close

      expect(outcome).to be_an_instance_of(AgentJail::TimeoutError)
      expect(reader.read).to start_with("x")
    ensure
      [reader, writer].each(&:close)
    end
  end

  describe "other processes" do
    # multikernel/sandlock#229, NVIDIA/OpenShell PR#1497: a budget that leaks, or that counts the user's others.
    it "do not use up what the block may start, one after the other" do
      others = Array.new(30) { fork { sleep } }
      value = described_class.run(processes: true, timeout: 60) { Array.new(80) { |i| Process.wait2(fork { exit!(i) }).last.exitstatus } }

      expect(value).to eq([*0...80])
    ensure
      others&.each do |pid|
        Process.kill(:KILL, pid)
        Process.wait(pid)
      end
    end

    # ioi/isolate#89: Ruby asks again for ever where fork says EAGAIN.
    ["system('true')", "`true`", "fork { 1 }", "Open3.capture2('true')", "spawn('true')", "IO.popen('true')"].each do |code|
      it "are refused at once to `#{code}`" do
        outcome = nil
        took = seconds { outcome = jailed(timeout: 30) { eval(code) } } # rubocop:disable Security/Eval

        expect(took).to be < 10 # Ruby's first second attempt comes after one, and then there is another
        expect(outcome).to be_nil.or be_an_instance_of(AgentJail::ProcessError)
        expect(outcome.nil?).to eq(code.start_with?("system"))
      end
    end
  end

  describe "a small thing that everybody uses" do
    # zeroclaw-labs/zeroclaw#8973, openai/codex#16451
    {
      "File::NULL, written and read" => -> { [File.write(File::NULL, "x"), File.read(File::NULL)] },
      "/dev/zero" => -> { File.open("/dev/zero") { |io| io.read(4) } },
      "/dev/urandom" => -> { File.open("/dev/urandom") { |io| io.read(4).bytesize } },
      "SecureRandom" => -> { SecureRandom.hex(4).size },
      "Dir.home with HOME" => -> { Dir.home },
      "Time.now in the local zone" => -> { Time.now.zone },
      "Etc.nprocessors" => -> { Etc.nprocessors },
      "Random.new_seed" => -> { Random.new_seed.is_a?(Integer) },
      "a thread and Timeout" => -> { Timeout.timeout(20) { Thread.new { 1 }.value } },
      "a socket pair" => -> { UNIXSocket.pair.then { |one, two| one.write("x") && two.readpartial(1) } }
    }.each do |what, act|
      it "works: #{what}" do
        expect(described_class.run(timeout: 60, &act).to_s).to eq(act.call.to_s)
      end
    end

    it "works with a program's output thrown away", :bare do
      expect(described_class.run(timeout: 60, processes: true) { system("echo x", out: File::NULL) }).to be(true)
    end

    # ManageIQ/bundler-inject#17, ya-luotao/claude-agent-sdk-ruby#82
    it "without HOME gives Ruby's own errors, or an answer, and no hang" do
      ask = lambda do
        ENV.delete("HOME")
        questions = [-> { Dir.home }, -> { File.expand_path("~") }, -> { Etc.getpwuid&.dir }, -> { Etc.getlogin }]
        questions.map do |question|
          question.call.class.name
        rescue StandardError => e
          e.class.name
        end
      end

      expect(described_class.run(timeout: 60, &ask)).to all(match(/\A(String|NilClass|ArgumentError|Errno::\w+)\z/))
    end

    # ruby/rubygems#3649
    it "is a temporary directory: with TMPDIR granted it is used, though /tmp is closed" do
      granted = directory("temporary")
      act = lambda do
        require "tmpdir"
        Dir.mktmpdir { |path| [File.dirname(path), File.write(File.join(path, "x"), "x")] }
      end
      outcome = described_class.run(timeout: 60, fs_allow: granted, env: ENV.to_h.merge("TMPDIR" => granted), &act)

      expect(outcome).to eq([granted, 1])
      expect(jailed(timeout: 60, env: ENV.to_h.merge("TMPDIR" => granted), &act)).to be_an(AgentJail::Error)
    end

    # Zouuup/landrun#48, birdcage#10
    it "is a file moved from one directory to another beneath one grant" do
      %w[one two].each { |name| directory(name) }
      file("one/x")
      moved = described_class.run(timeout: 60, fs_allow: dir) do
        File.rename(at("one/x"), at("two/x"))
        File.link(at("two/x"), at("one/y"))
        require "fileutils"
        FileUtils.mv(at("one/y"), at("two/z"))
        Dir.children(at("two")).sort
      end

      expect(moved).to eq(%w[x z])
    end
  end

  # zeroclaw-labs/zeroclaw#8973
  it "has the terminal where that is granted, and only there", :bare do
    told = nil
    PTY.spawn(RbConfig.ruby, "-I#{FreshRuby.lib}", "-ragent_jail", "-e", <<~RUBY) { |out, _, _| told = out.gets }
      ask = -> { File.open("/dev/tty", "r+", &:tty?) }
      outcomes = [{}, { fs_allow: "/dev/tty" }].map { |options| AgentJail.run(**options, &ask) rescue $!.class }
      p [*outcomes, ask.call]
    RUBY

    expect(told.chomp).to eq("[AgentJail::FilesystemError, true, true]")
  end

  # jdx/mise#11958: what tells the name servers is often a symlink out of /etc.
  it "has names resolved where /etc is granted" do
    names = described_class.run(timeout: 60, network: true, fs_read_allow: "/etc") { Addrinfo.ip("localhost").ip_address }

    expect(names).to match(/\A127\.|\A::1\z/)
  end

  # openai/codex#11316
  it "has nothing to read by a grant of nothing, nor by one of another path to write" do
    [{ fs_read_allow: [] }, { fs_allow: [] }, { fs_allow: dir }, { fs_allow: dir, fs_read_allow: [] }].each do |options|
      expect { File.read("/etc/passwd") }.to be_refused.in_a_jail_with(options)
    end
  end

  # Zouuup/landrun#29, birdcage#31: a refusal that says neither what was refused nor what to do.
  it "is told the path and the remedy" do
    error = jailed(timeout: 60) { File.read("/etc/passwd") }

    expect(error.message).to match(%r{/etc/passwd}).and match(/fs_allow|fs_read_allow/)
  end

  # ruby/rubygems#3649: Ruby takes no directory that all may write and that is not sticky.
  it "has a temporary directory with tmpdir: true, whatever TMPDIR is" do
    open_to_all = directory("open").tap { |path| File.chmod(0o777, path) }
    ask = lambda do
      $VERBOSE = nil # Ruby says what it thinks of such a directory
      require "tmpdir"
      File.dirname(Dir.mktmpdir("x"))
    end
    env = ENV.to_h.merge("TMPDIR" => open_to_all)
    own = described_class.run(timeout: 60, tmpdir: true, env: env, &ask)

    expect(own).to match(/agent_jail-/)
    expect(jailed(timeout: 60, fs_allow: open_to_all, env: env, &ask)).to be_an(AgentJail::Error)
  end

  # openai/codex#6828, #8218; NVIDIA/OpenShell#803: a kernel that lacks it, one where it is switched off, and one whose
  # container refuses it.
  describe "without Landlock" do
    program = Faults::PRELUDE + <<~'RUBY'
      number = { "x86_64" => 444, "aarch64" => 444 }.fetch(RUBY_PLATFORM[/\A[^-]+/])
      SET.call(Fiddle::Pointer["syscall"], number, Errno.const_get(ARGV[0])::Errno, -1, 0)
      p AgentJail::Platform.landlock_supported?, AgentJail::Platform.report[/Landlock \(paths\) +(.*)/, 1]
      AgentJail.configure { |c| c.on_unsupported = :raise }
      AgentJail.run { 1 } rescue p $!.class, $!.message
      AgentJail.configure { |c| c.on_unsupported = :ignore }
      p AgentJail.run { File.read("/etc/passwd").size.positive? }
      AgentJail.run { UDPSocket.new } rescue p $!.class
      AgentJail.run { fork { exit! } } rescue p $!.class
    RUBY

    %w[ENOSYS EOPNOTSUPP EPERM EINVAL].each do |error|
      it "by #{error}, says so, runs nothing when told to, and closes all else", :bare do
        skip "no compiler here" unless Faults.library
        ruby = fresh_ruby(program, error, env: { "LD_PRELOAD" => Faults.library })

        expect(ruby).to have_attributes(stdout: <<~TEXT, stderr: "")
          false
          "NO"
          AgentJail::UnsupportedPlatformError
          "this kernel has no Landlock (paths)"
          true
          AgentJail::NetworkError
          AgentJail::ProcessError
        TEXT
      end
    end
  end

  # A Random made before is at the same place in each child: the documents say so, and what is safe.
  it "is told no new numbers by a Random of the parent's, and is by the others" do
    random = Random.new
    same, different = [-> { random.rand(1 << 60) }, -> { rand(1 << 60) }].map do |act|
      Array.new(2) { described_class.run(timeout: 60, &act) }.uniq.size
    end

    expect([same, different]).to eq([1, 2])
  end

  # judge0/judge0#8: Ruby cannot run at all under a limit that counts what it has.
  it "finds room in each limit of memory, beside a large parent: a value, or a MemoryError" do
    ruby = fresh_ruby(<<~RUBY, timeout: 100)
      ballast = Array.new(300) { "x" * (1 << 20) }
      sizes = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048]
      told = sizes.map do |size|
        AgentJail.run(timeout: 30, memory_mb: size) { [*1..1000].sum }
      rescue AgentJail::MemoryError
        :memory
      end
      p told.uniq - [500_500, :memory], told.last(8).uniq, ballast.size
    RUBY

    expect(ruby).to have_attributes(stdout: "[]\n[500500]\n300\n", stderr: "")
  end
end
