# frozen_string_literal: true

# What the user who runs the block could do by who he is: root in a container most of all.
RSpec.describe AgentJail, "run by root, or by any other user", if: AgentJail::Platform.linux? do
  include_context "with a directory"

  root = Process.euid.zero?
  dac_override = 1 << 1

  # The lines of a /proc status file that tell privileges.
  def privileges(text)
    text.scan(/^(Cap\w+|NoNewPrivs|Seccomp):\t(\w+)$/).to_h
  end

  # Those of each thread of the process that runs this, of which there are several.
  def of_every_thread
    threads = Array.new(3) { Thread.new { sleep } }
    Dir["/proc/self/task/*/status"].map { |path| privileges(File.read(path)) }
  ensure
    threads.each(&:kill)
  end

  it "has no capabilities but the one by which a granted path of another user can be used" do
    kept = root ? dac_override : 0
    threads = jailed { of_every_thread }

    expect(threads.size).to be >= 4
    threads.each do |status|
      expect(status.slice("CapEff", "CapPrm").transform_values { |bits| bits.to_i(16) & ~kept }.values).to all(be_zero)
      expect(status.values_at("CapInh", "CapAmb").map { |bits| bits.to_i(16) }).to eq([0, 0])
      expect(status.values_at("NoNewPrivs", "Seccomp")).to eq(%w[1 2])
    end
  end

  it "has them without a jail", if: root do
    expect(unjailed { of_every_thread }.map { |status| status["CapEff"].to_i(16) }).to all(be > dac_override)
  end

  it "does not get them back" do
    header = [0x20080522, 0].pack("LL")
    all = [0xffffffff, 0xffffffff, 0, 0xffffffff, 0xffffffff, 0].pack("L6")
    attempts = jailed do
      [kernel(:capset, header, all), kernel(:prctl, 47, 2, 1, 0, 0), kernel(:prctl, 8, 1, 0, 0, 0),
       kernel(:prctl, 28, 0, 0, 0, 0)]
    end

    expect(attempts).to all(eq("EPERM"))
    expect(unjailed { kernel(:capget, header, "\0" * 24) }).to eq(0)
  end

  it "becomes nobody else" do
    skip "this user may not without a jail either" unless root
    expect { Process::UID.change_privilege(FreshRuby::NOBODY) }.to be_refused.as(AgentJail::DeniedError)
    expect { Process::GID.change_privilege(FreshRuby::NOBODY) }.to be_refused.as(AgentJail::DeniedError)
  end

  it "uses a granted path of another user, and none that was not granted", if: root do
    granted, other = %w[granted other].map { |name| file(name) }
    [granted, other].each do |path|
      File.chown(FreshRuby::NOBODY, FreshRuby::NOBODY, path)
      File.chmod(0o600, path)
    end

    expect(jailed(fs_allow: granted) { File.write(granted, "new") && File.read(granted) }).to eq("new")
    expect { File.read(other) }.to be_refused
  end

  describe "limits" do
    # [name, what it is lowered to, what is tried]
    {
      "of memory" => [:AS, { memory_mb: 64 }],
      "of descriptors" => [:NOFILE, { max_open_files: 20 }],
      "of a file's size" => [:FSIZE, { max_file_mb: 1 }],
      "of CPU time" => [:CPU, { cpu_timeout: 5 }],
      "of core files" => [:CORE, {}]
    }.each do |what, (name, options)|
      it "#{what} are not raised" do
        raised = lambda do
          before = Process.getrlimit(name)
          Process.setrlimit(name, before.last + 1, before.last + 1)
          [before, Process.getrlimit(name)]
        rescue SystemCallError => e
          [e.class.name, before, Process.getrlimit(name)]
        end
        outcome = jailed(**options, &raised)

        expect(outcome).to match(["Errno::EPERM", outcome[1], outcome[1]])
        if name != :CORE || Process.getrlimit(:CORE).last.positive?
          expect(outcome[1].last).to be < Process.getrlimit(name).last.clamp(1..)
        end
      end
    end

    it "may be lowered" do
      lowered = jailed do
        Process.setrlimit(:NOFILE, 40, 40)
        Process.getrlimit(:NOFILE)
      end

      expect(lowered).to eq([40, 40])
    end

    # A byte is less than any core, and with 0 the kernel would start the handler that core_pattern may name.
    it "of core files are a byte, so that none holds the parent's secrets" do
      Process.setrlimit(:CORE, *[Process.getrlimit(:CORE).last] * 2)

      expect(jailed { Process.getrlimit(:CORE) }).to eq([[1, Process.getrlimit(:CORE).last].min] * 2)
      expect(unjailed { Process.getrlimit(:CORE) }).to eq(Process.getrlimit(:CORE))
    ensure
      Process.setrlimit(:CORE, 0, Process.getrlimit(:CORE).last)
    end

    it "of the parent are what they were" do
      before = %i[AS NOFILE FSIZE CPU CORE].to_h { |name| [name, Process.getrlimit(name)] }
      jailed(memory_mb: 64, max_open_files: 20, max_file_mb: 1, cpu_timeout: 5) { nil }

      expect(before.keys.to_h { |name| [name, Process.getrlimit(name)] }).to eq(before)
    end
  end

  describe "the parent's /proc" do
    files = %w[environ maps mem cmdline status fd cwd/. root/etc/passwd task limits stack io auxv]
    program = <<~'RUBY'
      pid = Process.pid
      act = lambda do
        ARGV.map do |name|
          path = "/proc/#{pid}/#{name}"
          (File.directory?(path) ? Dir.children(path) : File.open(path) { |io| io.read(1) if name != "mem" }) && "read"
        rescue SystemCallError => e
          e.class.name
        end
      end
      # marks the environment that the process was started with
      jailed = AgentJail.run(&act)
      reader, writer = IO.pipe
      Process.wait(fork { writer.write(act.call.join(" ")); writer.close; exit!(true) })
      writer.close
      puts jailed.join(" "), reader.read
    RUBY

    # By file: what a jail and a plain fork of a fresh Ruby's make of it.
    def outcomes(program, files, **options)
      ruby = fresh_ruby(program, *files, env: { "SECRET" => "s3cret" }, **options)
      raise ruby.stderr unless ruby.success?

      files.zip(*ruby.stdout.lines.map(&:split)).to_h { |file, *both| [file, both] }
    end

    [["root", { as_user: nil }], ["an ordinary user", { as_user: FreshRuby::NOBODY }]].each do |who, options|
      it "is not read by #{who}" do
        skip "not run by root" unless root
        seen = outcomes(program, files, **options)
        told_apart = seen.select { |_, (_, plain)| plain == "read" }

        expect(told_apart.values.map(&:first)).to all(eq("Errno::EACCES").or(eq("Errno::ENOENT")).or(eq("Errno::EPERM")))
        expect(told_apart.keys).to include("environ", "maps", "cmdline", "status", "fd")
      end
    end

    it "is not read by way of a thread's number, the parent's working directory or a descriptor's link" do
      pid = Process.pid
      paths = ["/proc/#{pid}/task/#{pid}/environ", "/proc/self/../#{pid}/environ",
               "/proc/thread-self/../../../#{pid}/environ",
               "/proc/self/task/../../#{pid}/environ"]

      paths.each { |path| expect { File.binread(path) }.to be_refused }
    end

    it "may be read of the block itself" do
      expect(jailed { File.read("/proc/self/status")[/^Pid:\t(\d+)/, 1].to_i == Process.pid }).to be(true)
    end
  end

  describe "env:" do
    # What a block sees of the environment, in ENV and in the memory that the process was started with.
    program = <<~RUBY
      options = eval(ARGV.first)
      seen = AgentJail.run(**options) do
        [ENV.keys.include?("SECRET"), File.binread("/proc/self/environ").include?("s3cret"), ENV["PATH"], ENV["ADDED"]]
      end
      p seen, [ENV["SECRET"], File.binread("/proc/self/environ").include?("s3cret"), ENV["ADDED"]]
    RUBY

    {
      "as it is, unless told otherwise" => ["{}", '[true, true, "/bin", nil]'],
      "to names" => ['{ env: ["PATH"] }', '[false, false, "/bin", nil]'],
      "to nothing" => ["{ env: [] }", "[false, false, nil, nil]"],
      "to a Hash" => ['{ env: { "ADDED" => "x" } }', '[false, false, nil, "x"]']
    }.each do |what, (options, seen)|
      it "leaves it #{what}, and the parent's alone" do
        ruby = fresh_ruby(program, options, env: { "SECRET" => "s3cret", "PATH" => "/bin" })

        expect(ruby).to have_attributes(stderr: "", stdout: "#{seen}\n[\"s3cret\", true, nil]\n")
      end
    end

    it "is what programs of the block get" do
      printed = [{}, { env: %w[PATH] }, { env: { "PATH" => "/bin:/usr/bin", "ADDED" => "x" } }].map do |options|
        ENV["SECRET"] = "s3cret"
        jailed(processes: true, **options) { `env` }
      end

      expect(printed.map { |text| text.scan(/^(?:SECRET|ADDED)=\w+/) }).to eq([["SECRET=s3cret"], [], ["ADDED=x"]])
    ensure
      ENV.delete("SECRET")
    end
  end

  describe "special files" do
    {
      "a disk" => [0o060600, (7 << 8)], "memory" => [0o020600, (1 << 8) | 1]
    }.each do |what, (mode, device)|
      it "#{what} is not made, where all may be written" do
        path = at("device")
        act = lambda do
          made = kernel(:mknodat, -100, path, mode, device)
          File.unlink(path) if made == 0
          made
        end

        expect([jailed(fs_allow: dir, &act), jailed(&act)]).to all(match(/EPERM|EACCES/))
        answer = unjailed(&act)
        skip "without a jail this user is told #{answer}" unless answer == 0
      end
    end

    it "setuid files are not made" do
      create = ->(mode) { File.open(at("program#{mode}"), File::CREAT | File::WRONLY, mode).close || :made }
      outcomes = [0o700, 0o4700, 0o2700].map { |mode| [jailed(fs_allow: dir) { create.call(mode) }, mode] }

      expect(outcomes.map(&:first)).to match([:made, *[an_instance_of(AgentJail::FilesystemError)] * 2])
      expect(unjailed { create.call(0o4700) }).to eq(:made)
      expect(File.stat(at("program2496"))).to be_setuid
    end
  end
end
