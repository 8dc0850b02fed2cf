# frozen_string_literal: true

RSpec.describe AgentJail, "limits of time" do
  include_context "with a directory"

  slack = 0.2

  def spin = loop { nil }

  def timed_out(option, seconds)
    an_instance_of(AgentJail::TimeoutError)
      .and(have_attributes(message: /\Athe block was stopped at its #{option} of #{seconds} seconds/))
  end

  # The same by hand, as quick as it can be here: a plain fork that is killed after so many seconds.
  def stop_plain_fork_after(time)
    seconds do
      pid = fork { sleep }
      sleep time
      Process.kill(:KILL, pid)
      Process.wait(pid)
    end
  end

  # Each way's best time of three: what the machine does beside them is not theirs.
  def best_of_three(*ways)
    Array.new(3) { ways.map(&:call) }.transpose.map(&:min)
  end

  it "stop a sleeping block at a fraction of a second" do
    outcome = nil
    plain, ours = best_of_three(-> { stop_plain_fork_after(0.2) },
                                -> { seconds { outcome = jailed(timeout: 0.2) { sleep } } })

    expect(outcome).to match(timed_out(:timeout, 0.2))
    expect(ours).to be_between(0.2, plain + slack)
  end

  it "stop a busy block at a fraction of a second, whatever it rescues" do
    outcome = nil
    busy = lambda do
      spin
    rescue Exception # rubocop:disable Lint/RescueException
      retry
    ensure
      spin
    end
    plain, ours = best_of_three(-> { stop_plain_fork_after(0.2) },
                                -> { seconds { outcome = jailed(timeout: 0.2, cpu_timeout: 10, &busy) } })

    expect(outcome).to match(timed_out(:timeout, 0.2))
    expect(ours).to be_between(0.2, plain + slack)
  end

  it "stop a busy block at a fraction of a second of CPU time" do
    outcome = jailed(timeout: 20, cpu_timeout: 0.3) { spin }

    expect(outcome).to match(timed_out(:cpu_timeout, 0.3))
    expect(outcome.usage.cpu).to be_between(0.3, 0.3 + slack)
  end

  it "count CPU time of all threads" do
    outcome = jailed(timeout: 20, cpu_timeout: 0.3) { Array.new(4) { Thread.new { spin } }.each(&:join) }

    expect(outcome).to match(timed_out(:cpu_timeout, 0.3))
    expect(outcome.usage.cpu).to be_between(0.3, 0.3 + slack)
  end

  it "count the CPU time of a system call" do
    outcome = jailed(timeout: 20, cpu_timeout: 0.3) { File.open("/dev/zero") { |io| loop { io.sysread(1 << 20) } } }

    expect(outcome).to match(timed_out(:cpu_timeout, 0.3))
    expect(outcome.usage.cpu).to be_between(0.3, 0.3 + slack)
  end

  it "count no sleep as CPU time" do
    slept = described_class.run(timeout: 20, cpu_timeout: 0.2) { sleep(0.4) && :slept }
    outcome = jailed(timeout: 0.4, cpu_timeout: 0.2) { sleep }

    expect([slept, outcome]).to match([:slept, timed_out(:timeout, 0.4)])
    expect(outcome.usage.cpu).to be < 0.2
  end

  it "need no timeout for a cpu_timeout" do
    expect(jailed(cpu_timeout: 0.2) { spin }).to match(timed_out(:cpu_timeout, 0.2))
  end

  it "let pass what keeps within them" do
    expect(described_class.run(timeout: 20, cpu_timeout: 20) { 100_000.times.sum }).to eq(4_999_950_000)
  end

  it "hold however small they are" do
    outcomes = [{ timeout: 1e-9 }, { timeout: Float::MIN }, { cpu_timeout: 1e-9 }].map { |limit| jailed(**limit) { spin } }

    expect(outcomes).to all(be_an_instance_of(AgentJail::TimeoutError))
  end

  ["trap(:XCPU) { nil }", "trap(:XCPU, 'IGNORE')", "trap(:XCPU) { loop {} }"].each do |trap|
    it "hold when the block says #{trap}" do
      ruby = fresh_ruby(<<~RUBY)
        begin
          AgentJail.run(timeout: 20, cpu_timeout: 0.3) { #{trap}; loop {} }
        rescue AgentJail::TimeoutError => e
          p e.usage.cpu, e.message
        end
      RUBY

      expect(ruby).to be_success.and have_attributes(stdout: /cpu_timeout of 0.3/, stderr: "")
      expect(ruby.stdout.to_f).to be_between(0.3, 0.3 + slack)
    end
  end

  # Nobody reads the child's clock then: the kernel's own limit is whole seconds, half a second later at the earliest, with
  # SIGKILL one second after that.
  it "hold in a busy block that ignores XCPU even while the caller is stopped" do
    ruby = fresh_ruby(<<~'RUBY')
      caller = $$
      begun, begin_it = IO.pipe
      children = -> { File.read("/proc/#{caller}/task/#{caller}/children").split.map(&:to_i) - [$$] }
      ended = -> { children.call.all? { |pid| File.read("/proc/#{pid}/stat")[/\) (.)/, 1] == "Z" } }
      fork do
        begun.read(1) # not sooner: the block begins when the caller lets it
        Process.kill(:STOP, caller)
        sleep 0.01 until ended.call
      ensure
        Process.kill(:CONT, caller)
        exit!
      end
      begin
        AgentJail.run(timeout: 50, cpu_timeout: 0.5, inherit: [begin_it]) do
          trap(:XCPU, "IGNORE")
          begin_it.syswrite(".")
          loop {}
        end
      rescue AgentJail::TimeoutError => e
        p e.usage.cpu, e.message
      end
    RUBY

    expect(ruby).to be_success.and have_attributes(stdout: /cpu_timeout of 0.5/, stderr: "")
    expect(ruby.stdout.to_f).to be_between(1.5, 2 + slack)
  end
end

RSpec.describe AgentJail, "limits of memory", :exact_memory do
  # Ruby code that maps so many MiB of address space and touches none of it, as a big application has.
  def mapped(size)
    <<~RUBY
      require "fiddle"
      int, pointer, size = Fiddle::TYPE_INT, Fiddle::TYPE_VOIDP, Fiddle::TYPE_SIZE_T
      mmap = Fiddle::Function.new(Fiddle::Handle::DEFAULT["mmap"], [pointer, size, int, int, int, size], pointer)
      map = lambda do |mebibytes|
        address = mmap.call(nil, mebibytes << 20, 0, 0x4022, -1, 0).to_i # PROT_NONE; MAP_PRIVATE | ANONYMOUS | NORESERVE
        [address].pack("q").unpack1("q") != -1
      end
      map.(#{size}) or raise "no address space"
    RUBY
  end

  # Ruby code: what becomes of an allocation of so many MiB, none of which is touched.
  allocate = 'String.new(capacity: %d << 20) && "had %d MiB"'

  tell = <<~RUBY
    def tell
      puts yield
    rescue AgentJail::Error, NoMemoryError => e
      puts e.class
    end
  RUBY

  # Address space that is taken and not touched, which macOS does not limit.
  it "count from what the caller has: 50 MiB fit into 256 beside 2 GiB, 900 do not", if: AgentJail::Platform.linux? do
    ruby = fresh_ruby(mapped(2048) + tell + <<~RUBY)
      tell { AgentJail.run(memory_mb: 256) { #{format(allocate, 50, 50)} } }
      tell { AgentJail.run(memory_mb: 256) { #{format(allocate, 900, 900)} } }
      tell { AgentJail.run(memory_mb: 1600) { #{format(allocate, 900, 900)} } }
      tell { #{format(allocate, 900, 900)} } # the control
      Process.wait(fork do # the other control: without counting from there even 50 do not fit
        Process.setrlimit(:AS, 256 << 20)
        exit!(map.(50)) # Ruby itself has nothing left
      end)
      puts $?.success?
    RUBY

    expect(ruby).to have_attributes(stdout: <<~TOLD, stderr: "")
      had 50 MiB
      AgentJail::MemoryError
      had 900 MiB
      had 900 MiB
      false
    TOLD
  end

  # The report of a crash is written into one, which every block has.
  it "leave no file in memory that could be filled", if: AgentJail::Platform.linux? do
    fill = lambda do |fds|
      files = fds.select { |fd| File.symlink?(path = "/proc/self/fd/#{fd}") && File.readlink(path).start_with?("/memfd:") }
      files.map { |fd| kernel(:pwrite64, Integer(fd), "x", 1, 100 << 20) }
    end
    inside = jailed { fill.call(Dir.children("/proc/self/fd")) }

    expect([inside, unjailed { fill.call([kernel(:memfd_create, "x", 0)]) }]).to eq([["EPERM"], [1]])
  end

  {
    "in one String" => '"x" * (200 << 20)',
    "in many Strings" => 'Array.new(400) { "x" * (1 << 19) }',
    "in objects" => "a = []; loop { a << Object.new }",
    "in an Array that doubles" => "a = [1]; loop { a.concat(a) }",
    "in a thread" => 'Thread.new { Thread.current.report_on_exception = false; "x" * (200 << 20) }.value'
  }.each do |where, code|
    it "raise MemoryError, and say nothing else, for too much #{where}" do
      ruby = fresh_ruby(tell + "tell { AgentJail.run(memory_mb: 48, timeout: 30) { #{code}; 1 } }")

      expect(ruby).to be_success.and have_attributes(stdout: "AgentJail::MemoryError\n", stderr: "")
    end
  end

  it "say how much there was" do
    expect { described_class.run(memory_mb: 16) { ("x" * (900 << 20)) && sleep } }
      .to raise_error(AgentJail::MemoryError, /16 MiB.*memory_mb/)
  end

  sweep = [0.001, 1, 2, 3, 4, 6, 8, 12, 16, 32, 64, 128]
  sweeping = <<~RUBY
    #{sweep}.each do |size|
      tell { AgentJail.run(memory_mb: size, timeout: 10) { ("x" * (20 << 20)).bytesize } }
    end
  RUBY

  # Under each of them a String of 20 MiB either fits or does not.
  it "either let a block work or raise MemoryError, from a kilobyte upwards, beside 2 GiB too" do
    outcomes = ["", mapped(2048)].map { |before| fresh_ruby(before + tell + sweeping) }

    expect(outcomes).to all(be_success.and(have_attributes(stderr: "")))
    room = File.read("/proc/self/maps").include?("jemalloc") ? 64 : 32 # which takes more at a time
    outcomes.each do |ruby|
      told = sweep.zip(ruby.stdout.lines(chomp: true)).to_h
      expect(told.select { |size, _| size <= 16 }.values.uniq).to eq(["AgentJail::MemoryError"])
      expect(told.select { |size, _| size >= room }.values.uniq).to eq(["20971520"])
    end
  end

  it "do the same under YJIT", if: AgentJail::Platform.linux? do
    skip "this Ruby has no YJIT" unless fresh_ruby("RubyVM::YJIT.enabled? or exit 1", options: ["--yjit"]).success?
    ruby = fresh_ruby(tell + <<~RUBY, options: %w[--yjit --yjit-call-threshold=1])
      [1, 8, 64].each do |size|
        tell { AgentJail.run(memory_mb: size, timeout: 10) { 100.times.map { |i| "x" * i }; String.new(capacity: 99 << 20) } }
      end
      tell { AgentJail.run(memory_mb: 256) { 100.times.map { |i| "x" * i }.size } }
    RUBY

    expect(ruby).to be_success
      .and have_attributes(stdout: "#{"AgentJail::MemoryError\n" * 3}100\n", stderr: "")
  end
end

RSpec.describe AgentJail, "other limits" do
  include_context "with a directory"

  describe "max_file_mb" do
    def write(size)
      File.write(at("file"), "x" * size)
    end

    it "lets a file grow as far and no farther" do
      expect(described_class.run(fs_allow: dir, max_file_mb: 1) { write(1 << 20) }).to eq(1 << 20)
      expect { write((1 << 20) + 1) }
        .to be_refused.as(AgentJail::SandboxError).in_a_jail_with({ fs_allow: dir, max_file_mb: 1 })
    end

    it "tells the block by EFBIG, not by a signal" do
      error = jailed(fs_allow: dir, max_file_mb: 1) { write(2 << 20) }

      expect(error).to have_attributes(original_class: "Errno::EFBIG")
    end

    it "holds for a file with a hole, and for one that was longer before" do
      path = file("long", "x" * (2 << 20))
      refusal = AgentJail::Platform.enforcement[:signals] ? AgentJail::SandboxError : AgentJail::FilesystemError

      expect { File.truncate(file("short"), 2 << 20) } # refused whatever its length before Landlock's ABI 6
        .to be_refused.as(refusal).in_a_jail_with({ fs_allow: dir, max_file_mb: 1 })
      expect { File.write(path, "x", mode: "a") }
        .to be_refused.as(AgentJail::SandboxError).in_a_jail_with({ fs_allow: dir, max_file_mb: 1 })
    end

    it "may be a fraction" do
      expect(described_class.run(fs_allow: dir, max_file_mb: 0.25) { write(1 << 18) }).to eq(1 << 18)
      expect { write((1 << 18) + 1) }
        .to be_refused.as(AgentJail::SandboxError).in_a_jail_with({ fs_allow: dir, max_file_mb: 0.25 })
    end

    it "leaves the result alone" do
      expect(described_class.run(max_file_mb: 0.001) { "x" * 100_000 }).to eq("x" * 100_000)
    end
  end

  describe "max_open_files" do
    # Counts in a Ruby whose descriptors have no gaps, since a number that is free among them can be had too.
    count = <<~'RUBY'
      highest = Dir.children("/proc/self/fd").map(&:to_i).max
      fillers = []
      fillers << File.open(File::NULL) until fillers.any? && fillers.last.fileno > highest
      opening = lambda do |files = []|
        300.times { files << File.open(File::NULL) }
        "all of them"
      rescue SystemCallError => e
        "#{files.size} #{e.class}"
      end
      puts AgentJail.run(max_open_files: 20, &opening), AgentJail.run(max_open_files: 150, &opening),
           AgentJail.run(max_open_files: 310, &opening), opening.call
    RUBY

    it "lets the block open as many and hardly more, and tells it by EMFILE" do
      few, many, *enough = fresh_ruby(count).stdout.lines(chomp: true)

      expect([few, many]).to all(end_with(" Errno::EMFILE"))
      expect(few.to_i).to be_between(20, 40)
      expect(many.to_i).to be_between(150, 170)
      expect(enough).to eq(["all of them"] * 2)
    end

    it "works where the caller has nearly reached a limit of its own" do
      ruby = fresh_ruby(<<~RUBY)
        highest = Dir.children("/proc/self/fd").map(&:to_i).max
        Process.setrlimit(:NOFILE, highest + 12)
        print AgentJail.run(max_open_files: 1000) { Process.getrlimit(:NOFILE).max - highest }
      RUBY

      expect(ruby).to have_attributes(stdout: "12", stderr: "")
    end
  end

  it "leave no core file behind, and cannot be raised", if: AgentJail::Platform.linux? do
    outcomes = fresh_ruby(<<~'RUBY').stdout.lines(chomp: true)
      Process.setrlimit(:CORE, Process.getrlimit(:CORE).last) # as far as it goes
      raising = lambda do |name|
        soft, hard = Process.getrlimit(name)
        Process.setrlimit(name, soft, hard + 1)
        "raised #{name}"
      rescue SystemCallError, RangeError => e
        e.class
      end
      tell = -> { [Process.getrlimit(:CORE).uniq, *%i[CORE CPU AS FSIZE NOFILE].map(&raising)].join(" ") }
      puts AgentJail.run(&tell)
    RUBY

    expect(outcomes).to contain_exactly(match(/\A[01]#{" Errno::EPERM" * 5}\z/)) # bytes
  end

  # All processes of a user share how many timers and queued signals there may be: here there may be some more than there
  # are. The block takes what it gets, and stays while the parent wants one.
  it "leave the user's other processes their timers", if: AgentJail::Platform.linux? do
    ruby = fresh_ruby(<<~'RUBY')
      require "fiddle"
      there = File.read("/proc/self/status")[/^SigQ:\t(\d+)/, 1].to_i
      Process.setrlimit(:SIGPENDING, (2 * there) + 2000)
      CREATE = Fiddle::Function.new(Fiddle::Handle::DEFAULT["timer_create"], [Fiddle::TYPE_INT] + [Fiddle::TYPE_VOIDP] * 2,
                                    Fiddle::TYPE_INT)
      def timer = CREATE.call(1, [0, 34, 0].pack("Qii").ljust(64, "\0"), "\0" * 8).zero?
      def after(&hostile)
        ready, told = IO.pipe
        running = Thread.new { hostile.call(told) }
        made = Integer(ready.gets)
        outcome = timer
        running.kill.join
        [made.positive?, made < (2 * 1e3), outcome]
      end
      taking = ->(told) { told.puts(4000.times.count { timer }) || sleep }
      p after { |told| AgentJail.run(timeout: 60, inherit: told) { taking.call(told) } }
      p(after do |told|
        pid = fork { taking.call(told) }
        sleep
      ensure
        Process.kill(:KILL, pid)
        Process.wait(pid)
      end)
    RUBY

    expect(ruby).to have_attributes(stdout: "[true, true, true]\n[true, false, false]\n", stderr: "")
  end

  it "leave the caller's own limits alone" do
    limits = -> { %i[CORE CPU AS FSIZE NOFILE].map { |name| Process.getrlimit(name) } }
    inside = described_class.run(cpu_timeout: 3, max_file_mb: 3, &limits)

    expect { described_class.run { 1 } }.not_to(change(&limits))
    expect(inside).not_to eq(limits.call)
  end

  it "never raise what the caller had" do
    ruby = fresh_ruby(<<~RUBY)
      limits = { CORE: 0, CPU: 50, FSIZE: 1 << 20, NOFILE: 1000 }
      limits.each { |name, limit| Process.setrlimit(name, limit) }
      inside = AgentJail.run(cpu_timeout: 100, max_file_mb: 100, max_open_files: 2000) do
        limits.keys.map { |name| Process.getrlimit(name).max }
      end
      print inside.zip(limits.values).all? { |now, before| now <= before }
    RUBY

    expect(ruby).to be_success.and have_attributes(stdout: "true")
  end
end
