# frozen_string_literal: true

# What an application does around its forks, and what it did before: hooks, threads, handlers, signals held back.
RSpec.describe AgentJail, "in an application with fork hooks", if: AgentJail::Platform.linux? do
  include_context "with a directory"

  # A fork hook as libraries write them: `in_child` and `in_parent` are Ruby.
  def hooked(in_child: "", in_parent: "")
    <<~RUBY
      Process.singleton_class.prepend(Module.new do
        def _fork
          pid = super
          if pid.zero?
            #{in_child}
          else
            #{in_parent}
          end
          pid
        end
      end)
    RUBY
  end

  # Runs the block of Ruby in a jail, or in a plain fork where the last argument is "fork", and prints what came of it.
  def around_fork(block, how, setup, options: "", after: "")
    fresh_ruby(<<~RUBY, dir, how)
      DIRECTORY, HOW = ARGV
      #{setup}
      block = -> { #{block} }
      if HOW == "jail"
        begin
          puts "value \#{AgentJail.run(timeout: 20#{", #{options}" unless options.empty?}, &block).inspect}"
        rescue AgentJail::Error => e
          puts "\#{e.class.name} \#{e.message}"
        rescue RuntimeError => e
          puts "raised \#{e.message}"
        end
      else
        Process.wait(fork { block.call; $stdout.flush; exit!(true) })
        puts "status \#{$?.inspect}"
      end
      puts "after in \#{Process.pid == $$ && "the parent"}"
      #{after}
    RUBY
  end

  def both(...)
    %w[jail fork].map { |how| yield(how) }
  end

  describe "that change how much memory the parent has" do
    hook = <<~RUBY
      require "fiddle"
      MAP, UNMAP = [["mmap", [1, -5, 4, 4, 4, 5], 1], ["munmap", [1, -5], 4]].map do |name, types, result|
        Fiddle::Function.new(Fiddle::Handle::DEFAULT[name], types, result)
      end
      def reserve = MAP.call(nil, 300 << 20, 0, 0x22, -1, 0)
    RUBY
    before_fork = ->(act) { "Process.singleton_class.prepend(Module.new { def _fork = (#{act}) && super })" }

    it "leave the block no more than memory_mb, and no less" do
      less = "#{hook}\nHELD = reserve\n#{before_fork["UNMAP.call(HELD, 300 << 20).zero?"]}"
      more = "#{hook}\n#{before_fork["reserve.to_i.positive?"]}"
      told = [less, more].product([200, 8]).map do |setup, size|
        around_fork("('x' * (#{size} << 20)).size >> 20", "jail", setup, options: "memory_mb: 64").stdout[/\A\S+ ?\d*/]
      end

      expect(told).to match([/\AAgentJail::MemoryError/, "value 8"] * 2)
    end
  end

  describe "that start a thread in the child" do
    it "runs nothing for the block outside the jail" do
      setup = "JOBS = Queue.new\n#{hooked(in_child: "Thread.new { loop { JOBS.pop.call } }")}"
      block = <<~'RUBY'
        JOBS << -> { File.write("#{DIRECTORY}/#{HOW}", "x") }
        sleep 0.3
        [JOBS.size, Thread.list.size]
      RUBY
      jail, = both { |how| around_fork(block, how, setup) }

      expect(jail.stdout).to start_with("value [1, 1]\n")
      expect(Dir.children(dir)).to eq(["fork"])
    end

    # Ruby keeps the kernel's thread of one that ended for the next.
    it "leaves none outside, be it one that Ruby keeps for the next" do
      setup = hooked(in_child: "5.times { Thread.new { sleep } }; Thread.pass")
      block = <<~'RUBY'
        writes = Array.new(8) { |i| Thread.new { File.write("#{DIRECTORY}/#{HOW}#{i}", "x") rescue "refused" } }.map(&:value)
        puts writes.tally.to_a.inspect
        lines = Dir["/proc/self/task/*/status"].map { |path| File.read(path) rescue "" } # one may end meanwhile
        puts lines.filter_map { |text| text[/^Seccomp:\t(\d)/, 1] }.uniq.inspect
      RUBY
      jail, plain = both { |how| around_fork(block, how, setup).stdout.lines.first(2) }

      expect([jail, plain]).to eq([[%([["refused", 8]]\n), %(["2"]\n)], ["[[1, 8]]\n", %(["0"]\n)]])
    end

    it "ends in its time when a thread will not be stopped" do
      stubborn = <<~RUBY
        ready = Queue.new
        Thread.new { Thread.handle_interrupt(Object => :never) { (ready << 1) && sleep } }
        ready.pop
      RUBY
      ruby = fresh_ruby(<<~RUBY)
        #{hooked(in_child: stubborn)}
        begin
          AgentJail.run(timeout: 0.5) { puts "block" }
        rescue AgentJail::Error => e
          puts e.class
        end
      RUBY

      expect(ruby.stdout).to eq("AgentJail::TimeoutError\n").or eq("AgentJail::SetupError\n")
    end
  end

  describe "that end a connection in the child" do
    {
      "says goodbye on it" => "LINE.last.write('bye')", "shuts it down" => "LINE.last.shutdown",
      "does so in a process of its own" => "$nested || ($nested = 1) && Process.wait(fork { LINE.last.syswrite('bye') rescue exit! })"
    }.each do |what, goodbye|
      it "end none of the parent's: one that #{what} is not heard" do
        setup = <<~RUBY
          require "socket"
          LINE = UNIXSocket.pair
          #{hooked(in_child: "begin; #{goodbye}; rescue SystemCallError, IOError; nil; end")}
        RUBY
        after = "puts LINE.first.read_nonblock(9, exception: false).inspect"
        jail, plain = both { |how| around_fork("7", how, setup, after: after) }

        expect(jail).to have_attributes(stdout: "value 7\nafter in the parent\n:wait_readable\n", stderr: "")
        expect(plain.stdout.lines.last).to eq("\"bye\"\n").or eq("nil\n")
      end
    end
  end

  describe "that fork in the parent" do
    it "have a process of the parent's own, which stays in its group and outlives the run" do
      setup = <<~RUBY
        #{hooked(in_parent: "HELPERS << Process.fork { sleep } if HELPERS.empty? && HELPERS << nil")}
        HELPERS = []
      RUBY
      after = "puts Process.getpgid(HELPERS.last) == Process.getpgrp; Process.kill(:KILL, HELPERS.last)"

      expect(around_fork("7", "jail", setup, after: after))
        .to have_attributes(stdout: "value 7\nafter in the parent\ntrue\n", stderr: "")
    end
  end

  describe "that raise" do
    it "in the child, end as a SetupError in the parent, whose code goes on once" do
      setup = hooked(in_child: 'raise "the hook is broken" if HOW == "jail"')
      ruby = around_fork('puts "block"', "jail", setup)

      expect(ruby.stdout.lines.map(&:chomp))
        .to match([/\AAgentJail::SetupError .*the hook is broken/, "after in the parent"])
      expect(ruby.stderr).to eq("")
      expect(around_fork('puts "block"', "fork", setup).stdout).to include("block")
    end

    it "in the child what is no StandardError, leave by throw or exit: the parent's code still goes on once" do
      endings = ['raise Exception, "odd"', "throw :out", "exit", "abort", "exit!", "Process.kill(:KILL, $$)"]
      outputs = endings.map do |ending|
        fresh_ruby(<<~RUBY).stdout
          #{hooked(in_child: ending)}
          at_exit { puts "exit" }
          caught = catch(:out) do
            AgentJail.run(timeout: 20) { puts "block" }
          rescue AgentJail::SetupError
            "setup"
          rescue SystemExit, Exception => e
            e.class
          end
          puts caught
        RUBY
      end

      expect(outputs).to all(eq("setup\nexit\n"))
    end

    it "in the parent, are the caller's to rescue, and the child is gone" do
      setup = hooked(in_parent: <<~'RUBY')
        File.write("#{DIRECTORY}/child", pid.to_s)
        raise "no more forks"
      RUBY
      ruby = around_fork("sleep", "jail", setup)
      pid = File.read(at("child")).to_i

      expect(ruby.stdout).to eq("raised no more forks\nafter in the parent\n")
      expect([pid.positive?, outlived([pid])]).to eq([true, []])
    end

    it "leave nothing behind, many times" do
      ruby = fresh_ruby(FreshRuby::CHILDREN + <<~RUBY)
        #{hooked(in_parent: "raise 'no' if $fail")}
        $fail = true
        count = -> { [Dir.children("/proc/self/fd").size, children.size] }
        AgentJail.run { 1 } rescue nil
        before = count.call
        20.times { AgentJail.run { sleep } rescue nil }
        $fail = false
        p before == count.call, AgentJail.run { 2 }
      RUBY

      expect(ruby).to have_attributes(stdout: "true\n2\n", stderr: "")
    end
  end

  describe "and with handlers" do
    it "ends the block by a signal that the parent handles" do
      setup = <<~'RUBY'
        trap("TERM") { File.write("#{DIRECTORY}/#{HOW}", "x") }
      RUBY
      jail, plain = both { |how| around_fork("Process.kill(:TERM, Process.pid); sleep 0.3; 1", how, setup).stdout }

      expect(jail).to match(/\AAgentJail::CrashError .*SIGTERM/)
      expect(plain).to include("exit 0")
      expect(Dir.children(dir)).to eq(["fork"])
    end

    it "runs none in the child for a signal that comes right after the fork" do
      setup = <<~'RUBY' + hooked(in_child: "Process.kill(:TERM, Process.pid); sleep 0.2")
        PARENT = Process.pid
        trap("TERM") { File.write("#{DIRECTORY}/#{HOW}", "x") }
      RUBY
      jail, = both { |how| around_fork("1", how, setup).stdout }

      expect(jail).to match(/\AAgentJail::(SetupError|CrashError) .*\nafter in the parent\n/)
      expect(Dir.children(dir)).to eq(["fork"])
    end

    it "has every signal at its default in the block, held back or ignored as they may be in the parent" do
      setup = <<~RUBY
        require "fiddle"
        %w[INT TERM HUP USR1 USR2 QUIT ALRM].each { |name| trap(name) { nil } }
        trap("WINCH", "IGNORE")
        set = [(1 << 14) | (1 << 11)].pack("Q").ljust(128, "\\0") # SIGTERM and SIGUSR2
        types = [Fiddle::TYPE_INT, Fiddle::TYPE_VOIDP, Fiddle::TYPE_VOIDP]
        Fiddle::Function.new(Fiddle.dlopen(nil)["pthread_sigmask"], types, Fiddle::TYPE_INT).call(0, set, nil)
      RUBY
      block = 'puts File.read("/proc/self/status").scan(/^Sig(?:Blk|Ign|Cgt):.(\h+)/).join(" ")'
      jail, plain = both { |how| around_fork(block, how, setup).stdout.lines.first.split.map { _1.to_i(16) } }
      of = ->(*names) { names.sum { |name| 1 << (Signal.list.fetch(name) - 1) } }
      handled = of["INT", "TERM", "HUP", "USR1", "USR2", "QUIT", "ALRM"]

      expect(jail.zip([of["TERM", "USR2"], of["WINCH"], handled]).map { |mask, bits| mask & bits }).to eq([0, 0, 0])
      expect(plain.zip([of["TERM", "USR2"], of["WINCH"], handled]).map { |mask, bits| mask & bits }.first(2))
        .to eq([of["TERM", "USR2"], of["WINCH"]])
    end

    it "lets the block have handlers of its own" do
      act = lambda do
        caught = []
        trap("USR1") { caught << :usr1 }
        Process.kill(:USR1, Process.pid)
        sleep 0.01 until caught.any?
        caught
      end

      expect(jailed(&act)).to eq([:usr1])
    end

    it "keeps the parent's, which work afterwards" do
      ruby = around_fork("1", "jail", 'trap("TERM") { puts "handled" }', after: "Process.kill(:TERM, $$); sleep 0.1")

      expect(ruby.stdout).to include("handled")
    end
  end

  describe "tmpdir: true" do
    # Runs the block with a private directory; what it told of it, and whether that is still there. What takes longer than
    # a moment is removed behind.
    def with_tmpdir(**options, &act)
      reader, writer = IO.pipe
      outcome = jailed(tmpdir: true, inherit: writer, **options) do
        writer.syswrite(Dir.tmpdir)
        act.call
      end
      writer.close
      path = reader.read
      200.times { File.exist?(path) ? sleep(0.05) : break }
      [outcome, path, File.exist?(path)]
    ensure
      [reader, writer].each(&:close)
    end

    it "is a directory of the block's own, for all that wants one" do
      outcome, path, there = with_tmpdir do
        Tempfile.create("x") { |file| file.write("temporary") }
        Dir.mktmpdir { |nested| File.write(File.join(nested, "y"), "z") }
        status = File.stat(Dir.tmpdir)
        [ENV.fetch("TMPDIR"), format("%o", status.mode & 0o7777), status.uid == Process.euid]
      end

      expect(outcome).to eq([path, "700", true])
      expect(there).to be(false)
      expect(jailed { Tempfile.create("x") }).to be_an(AgentJail::Error).or be_a(ArgumentError)
    end

    # As a block could that may write to the directory of temporary files, while another run begins.
    it "opens nothing outside when somebody puts a symlink in its place" do
      outside = Dir.mktmpdir("agent_jail_outside")
      allow(Dir).to receive(:mktmpdir).and_wrap_original do |make, *arguments|
        make.call(*arguments).tap { |path| Dir.rmdir(path) && File.symlink(outside, path) if @swapped }
      end
      act = -> { jailed(tmpdir: true) { File.write(File.join(outside, "x"), "y") } }

      expect(act.call).to be_a(AgentJail::FilesystemError)
      @swapped = true
      expect { expect { act.call }.to raise_error(Errno::ENOTDIR, /tmpdir/) }.to output(/stays behind/).to_stderr
      expect(Dir.children(outside)).to be_empty
    ensure
      FileUtils.rm_rf([outside, *Dir.glob(File.join(Dir.tmpdir, "agent_jail-*")).select { |path| File.symlink?(path) }])
    end

    it "is another each time, and the parent's TMPDIR is what it was" do
      before = ENV.fetch("TMPDIR", nil)
      paths = Array.new(3) { with_tmpdir { 1 }[1] }

      expect(paths.uniq.size).to eq(3)
      expect(ENV.fetch("TMPDIR", nil)).to eq(before)
    end

    it "is gone after a failure of any kind" do
      endings = { AgentJail::TimeoutError => [{ timeout: 0.3 }, -> { sleep }],
                  AgentJail::SandboxError => [{}, -> { raise "no" }],
                  AgentJail::CrashError => [{}, -> { Process.kill(:KILL, Process.pid) }],
                  AgentJail::FilesystemError => [{}, -> { File.read("/etc/passwd") }] }
      endings.each do |error, (options, act)|
        outcome, path, there = with_tmpdir(**options) { File.write(File.join(Dir.tmpdir, "left"), "x") && act.call }

        expect(outcome).to be_a(error)
        expect([path, there]).to match([%r{\A/}, false])
      end
    end

    it "is gone whatever the block made of it, and what its links lead to is not" do
      kept = directory("kept")
      File.write(File.join(kept, "file"), "outside")
      outcome, path, there = with_tmpdir(fs_allow: kept) do
        Dir.chdir(Dir.tmpdir)
        File.symlink(kept, "to a directory")
        File.symlink(File.join(kept, "file"), "to a file")
        File.symlink("nowhere", "to nothing")
        File.link(File.join(kept, "file"), "hard") rescue nil # rubocop:disable Style/RescueModifier
        File.mkfifo("fifo")
        Dir.mkdir("closed")
        File.write("closed/file", "x")
        Dir.mkdir("unreadable", 0o000)
        Dir.mkdir("a\nb\xFF")
        File.write("read only", "x", perm: 0o400)
        Dir.mkdir("turned")
        300.times do |i|
          Dir.mkdir("deep" * 30)
          File.write("file", "x") if (i % 50).zero?
          Dir.chdir("deep" * 30)
        end
        :made
      end

      expect([outcome, there]).to eq([:made, false])
      expect(path).not_to be_empty
      expect(File.read(File.join(kept, "file"))).to eq("outside")
    end

    it "is gone for an ordinary user, directories without rights and all", if: Process.euid.zero? do
      ruby = fresh_ruby(<<~RUBY, as_user: FreshRuby::NOBODY, env: { "TMPDIR" => "/tmp" })
        path = AgentJail.run(tmpdir: true) do
          Dir.chdir(Dir.tmpdir)
          Dir.mkdir("none", 0)
          Dir.mkdir("x")
          Dir.mkdir("x/none", 0)
          File.umask(0o777)
          Dir.mkdir("y")
          Dir.tmpdir
        end
        p path.start_with?("/tmp/agent_jail-"), File.exist?(path)
      RUBY

      expect(ruby).to have_attributes(stdout: "true\nfalse\n", stderr: "")
    end

    it "is gone when a hook raises on either side" do
      %i[in_child in_parent].each do |side|
        ruby = fresh_ruby(<<~RUBY, env: { "TMPDIR" => dir })
          #{hooked(side => 'raise "no"')}
          AgentJail.run(tmpdir: true, timeout: 20) { 1 } rescue puts($!.class)
        RUBY

        expect(ruby.stdout).to eq(side == :in_child ? "AgentJail::SetupError\n" : "RuntimeError\n")
        expect(Dir.children(dir)).to be_empty
      end
    end

    # In a process of its own, whose threads and descriptors are counted.
    it "does not keep the caller when there is more in it than can be removed in a moment, and is gone a while later" do
      ruby = fresh_ruby(<<~RUBY, env: { "TMPDIR" => dir }, timeout: 110)
        def held = %w[task fd].map { |kind| Dir.children("/proc/self/" + kind).size }
        def there = Dir.children(ENV.fetch("TMPDIR")).size
        AgentJail.run { 1 }
        before = held
        begin
          AgentJail.run(tmpdir: true, timeout: 1) do
            Dir.chdir(Dir.tmpdir)
            (1..).each { |number| Dir.mkdir(number.to_s) }
          end
        rescue AgentJail::TimeoutError
          puts there, AgentJail.run(tmpdir: true) { File.write(File.join(Dir.tmpdir, "x"), "y") }
        end
        sleep 0.05 until there.zero?
        sleep 0.05 until held.zip(before).all? { |now, once| now <= once } # Ruby's own threads come and go
      RUBY

      expect(ruby).to have_attributes(stdout: "1\n1\n", stderr: "").and be_success
    end

    it "is gone when it is no more there" do
      outcome, = with_tmpdir { Dir.rmdir(Dir.tmpdir) && :removed }

      expect(outcome).to eq(:removed).or be_a(AgentJail::FilesystemError)
    end
  end
end
