# frozen_string_literal: true

require "English"
require "timeout"

# The process that calls. Whatever a block does, and whatever befalls the call, it has afterwards what it had before.
RSpec.describe AgentJail, "and the process that calls it", if: AgentJail::Platform.linux? do
  include_context "with a directory"

  # Ruby code: what this process has.
  counting = FreshRuby::CHILDREN + <<~'RUBY'
    def mine
      GC.start
      # M:N threads run on threads of the system's that are kept for the next
      threads = RUBY_DESCRIPTION.include?("+MN") ? Thread.list : Dir.children("/proc/self/task")
      { descriptors: Dir.children("/proc/self/fd").size - 1, threads: threads.size, children: children.size }
    end

    # KiB of memory that no file holds. What a dying child still shares counts as well.
    def memory
      GC.start
      File.read("/proc/self/smaps_rollup")[/^Anonymous:\s+(\d+)/, 1].to_i
    end

    # What is still on its way out is given a moment.
    def settled(wanted)
      200.times { mine == wanted ? break : sleep(0.02) }
      mine
    end
  RUBY

  describe "after many runs of every kind in eight threads" do
    full = ENV.key?("AGENT_JAIL_FULL")
    rounds = full ? 250 : 30 # each thread's, after as many to warm up

    program = counting + <<~'RUBY'
      WAYS = {
        value: [{}, -> { 1 }], big: [{}, -> { "x" * 300_000 }], rows: [{}, -> { Array.new(500) { |i| { i => i.to_s } } }],
        raised: [{}, -> { raise IOError, "no" }], exit: [{}, -> { exit!(3) }], kill: [{}, -> { Process.kill(:KILL, $$) && sleep }],
        wall: [{ timeout: 0.03 }, -> { sleep }], cpu: [{ cpu_timeout: 0.02 }, -> { loop {} }],
        memory: [{ memory_mb: 8 }, -> { "x" * (99 << 20) }], file: [{}, -> { File.read("/etc/passwd") }],
        result: [{}, -> { proc {} }], size: [{ max_result_mb: 0.1 }, -> { "x" * 300_000 }],
        tree: [{ processes: true }, -> { fork { sleep } && 1 }], tmpdir: [{ tmpdir: true }, -> { File.write(Dir.tmpdir + "/x", "x") }]
      }.freeze
      RIGHT = { value: 1, big: 300_000, rows: 500, raised: :SandboxError, exit: :CrashError, kill: :CrashError, wall: :TimeoutError,
                cpu: :TimeoutError, memory: :MemoryError, file: :FilesystemError, result: :ResultError, size: :ResultError,
                tree: 1, tmpdir: 1 }.freeze
      NAMES = WAYS.keys
      WRONG = Queue.new
      WORK = Queue.new
      DONE = Queue.new
      def told(name)
        options, block = WAYS.fetch(name)
        value = AgentJail.run(timeout: 60, **options, &block)
        value.is_a?(Integer) ? value : value.size
      rescue AgentJail::Error => e
        e.class.name.split("::").last.to_sym
      end
      8.times do
        Thread.new do
          while (name = WORK.pop)
            was = told(name)
            # on a machine that is busy a block may not have begun at its end, which is a timeout all the same
            WRONG << [name, was] unless was == RIGHT.fetch(name)
            DONE << 1
          end
        end
      end
      def batch(rounds)
        (8 * rounds).times { |i| WORK << NAMES[i % NAMES.size] }
        (8 * rounds).times { DONE.pop }
      end
      rounds = Integer(ARGV[0])
      batch(14)
      before = mine
      batch(rounds)
      # What leaks grows in every batch; what Ruby and malloc keep for later grows in one and not in another.
      grew = nil
      3.times do
        first = memory
        batch(rounds)
        grew = [grew, memory - first].compact.min
        break if grew < Integer(ARGV[1])
      end
      puts "wrong: #{Array.new(WRONG.size) { WRONG.pop }.tally}"
      puts "left: #{settled(before).reject { |name, count| count == before.fetch(name) }}"
      puts "grew: #{grew}"
    RUBY

    it "has neither descriptors, threads, children nor memory that it had not, and every cause was right", :exact_memory do
      ruby = fresh_ruby(program, rounds, bound = 2048, timeout: full ? 600 : 110)
      *lines, grew = ruby.stdout.lines(chomp: true)

      expect([lines, ruby.stderr]).to eq([["wrong: {}", "left: {}"], ""])
      expect(Integer(grew[/-?\d+/])).to be < bound
    end

    # Each of the counts, where there is something to count.
    it "would show what was left" do
      ruby = fresh_ruby(counting + <<~RUBY)
        before, size = mine, memory
        kept = [IO.pipe, Thread.new { sleep }, spawn("sleep 60"), "x" * (3 << 20)]
        now = mine
        p now.to_h { |name, count| [name, count - before[name]] }.values, memory - size > 2048
        Process.kill(:KILL, kept[2])
      RUBY

      expect(ruby).to have_attributes(stdout: "[2, 1, 1]\ntrue\n", stderr: "")
    end
  end

  describe "when the call is cut short" do
    # The pid of a block's process, told while it sleeps; and whether it still runs once the call has been left by what
    # the yielded block does to the thread that called.
    def cut_short(options = {})
      reader, writer = IO.pipe
      thread = Thread.new do
        Thread.current.report_on_exception = false
        described_class.run(timeout: 60, inherit: writer, **options) do
          writer.syswrite([Process.pid].pack("L")) && sleep
        end
      end
      pid = reader.read(4).unpack1("L")
      raise "it does not run" unless running?(pid)

      yield thread
      [thread.join(10) && thread.status, survivors([pid], patience: 0)]
    rescue StandardError => e
      [e.class, survivors([pid], patience: 0)]
    ensure
      [reader, writer].each(&:close)
    end

    it "by Thread#kill, the child is gone when the thread is" do
      expect(cut_short(&:kill)).to eq([false, []])
    end

    it "by Thread#raise, the caller gets the exception and the child is gone" do
      expect(cut_short { |thread| thread.raise(IOError, "enough") }).to eq([IOError, []])
    end

    it "by Thread#raise again and again, the child is gone" do
      outcome = cut_short do |thread|
        200.times do
          thread.raise(IOError, "enough")
          Thread.pass
        end
      end

      expect(outcome).to eq([IOError, []])
    end

    # What a permitted class does when it is loaded is the parent's own code, which may take its time.
    it "while the value is loaded, the caller gets the exception, and not a result that cannot be had" do
      raised = ->(error) { Class.new(StandardError) { define_method(:message) { error } } }
      slow = Class.new do
        define_method(:marshal_dump) { [1] }
        define_method(:marshal_load) { |_| Process.ppid == Slow::PARENT ? nil : (Slow::BEGUN << 1) && sleep(0.3) }
      end
      stub_const("Slow", slow)
      stub_const("Slow::PARENT", Process.pid)
      stub_const("Slow::BEGUN", Queue.new)
      own = raised.call("enough")
      thread = Thread.new { described_class.run(permitted_classes: "Slow") { Slow.new } rescue $! } # rubocop:disable Style
      Slow::BEGUN.pop
      thread.raise(own)
      timed = begin
        Timeout.timeout(0.2, own) { described_class.run(permitted_classes: "Slow") { Slow.new } }
      rescue StandardError => e
        e
      end

      expect([thread.value, timed]).to all(be_an_instance_of(own))
    end

    it "by Timeout, the caller gets Timeout::Error and the child is gone" do
      pids = []
      reader, writer = IO.pipe
      time = 0.3
      outcomes = Array.new(2) do
        Timeout.timeout(time) do
          described_class.run(timeout: 60, inherit: writer) do
            writer.syswrite([$PROCESS_ID].pack("L")) && sleep
          end
        end
      rescue Timeout::Error => e
        begun = reader.read_nonblock(4, exception: false)
        (time *= 2) && retry if begun == :wait_readable # before the block was
        pids << begun.unpack1("L")
        [e.class, survivors(pids, patience: 0)]
      end

      expect(outcomes).to eq([[Timeout::Error, []]] * 2)
    ensure
      [reader, writer].each(&:close)
    end

    it "by a Timeout that is as long as its own, one of the two errors comes, and no other" do
      outcomes = Array.new(10) do
        Timeout.timeout(0.1) { described_class.run(timeout: 0.1) { sleep } }
      rescue StandardError => e
        e.class
      end

      expect(outcomes.uniq - [Timeout::Error, AgentJail::TimeoutError]).to eq([])
    end

    it "by a Timeout of the block's own, it is the block's exception" do
      expect(jailed(timeout: 60) { Timeout.timeout(0.05) { sleep } }).to be_an_instance_of(AgentJail::SandboxError)
        .and have_attributes(original_class: "Timeout::Error")
    end

    it "in any of its moments, many times over, nothing is left" do
      ruby = fresh_ruby(counting + <<~'RUBY', timeout: 100)
        before = nil
        Thread.report_on_exception = false
        200.times do |i|
          thread = Thread.new { AgentJail.run(timeout: 60) { sleep } }
          sleep(i % 40 * 0.00025)
          i.odd? ? thread.kill : thread.raise(IOError)
          thread.join rescue IOError
          before = mine if i == 20
        end
        puts "left: #{settled(before).reject { |name, count| count == before.fetch(name) }}"
        p AgentJail.run(timeout: 60) { 1 }
      RUBY

      expect(ruby).to have_attributes(stdout: "left: {}\n1\n", stderr: "")
    end
  end

  describe "when a signal comes" do
    # A Ruby that runs a block with a program beside it, gets the signal when both are there, and says how it went; the
    # pids of the two.
    def signalled(signal, setup = "", after = "")
      ruby = fresh_ruby(<<~RUBY, timeout: 100)
        reader, writer = IO.pipe
        #{setup}
        caller = $$
        Thread.new do
          pids = reader.read(8).unpack("L2")
          $stdout.syswrite(pids.join(" ") + "\\n")
          Process.kill(:#{signal}, caller)
        end
        begin
          AgentJail.run(processes: true, timeout: 60, inherit: writer) do
            writer.syswrite([fork { sleep }, $$].pack("L2")) && sleep
          end
        rescue Interrupt, SignalException => e
          puts e.class
        end
        #{after}
      RUBY
      pids, *told = ruby.stdout.lines(chomp: true)
      [told, outlived(pids.split.map(&:to_i)), ruby]
    end

    it "and it is Interrupt, the caller gets it and the tree is gone" do
      expect(signalled(:INT).first(2)).to eq([["Interrupt"], []])
    end

    it "and it is SIGTERM, the caller gets it and the tree is gone" do
      expect(signalled(:TERM).first(2)).to eq([["SignalException"], []])
    end

    # Puma's single mode: the handler raises, and what serves is ended with the thread that it runs in.
    it "under a handler like Puma's, the server stops in an orderly way and the tree is gone" do
      told, left, ruby = signalled(:TERM, 'trap("TERM") { raise(SignalException, "TERM") }', "puts 'stopped'; exit(0)")

      expect([told, left, ruby.status.exitstatus]).to eq([%w[SignalException stopped], [], 0])
    end

    # Sidekiq's launcher: the handler writes into a pipe, and the main thread raises into its workers when time is up.
    it "under a handler like Sidekiq's, the worker gets Shutdown and the tree is gone" do
      ruby = fresh_ruby(<<~RUBY, timeout: 100)
        class Shutdown < Interrupt; end
        own, signal = IO.pipe
        reader, writer = IO.pipe
        trap("TERM") { signal.puts("TERM") }
        worker = Thread.new do
          AgentJail.run(processes: true, timeout: 60, inherit: writer) do
            writer.syswrite([fork { sleep }, $$].pack("L2")) && sleep
          end
        rescue Shutdown => e
          puts e.class
        end
        puts reader.read(8).unpack("L2").join(" ")
        Process.kill(:TERM, $$)
        puts own.gets
        worker.raise(Shutdown)
        puts worker.join(10) ? "drained" : "stuck"
      RUBY
      pids, *told = ruby.stdout.lines(chomp: true)

      expect([told, outlived(pids.split.map(&:to_i))]).to eq([%w[TERM Shutdown drained], []])
    end

    it "and it is one that a handler takes, the run goes on to its value" do
      ruby = fresh_ruby(<<~RUBY)
        taken = 0
        trap("USR1") { taken += 1 }
        caller = $$
        sender = Thread.new { 50.times { Process.kill(:USR1, caller) && sleep(0.002) } }
        p AgentJail.run(timeout: 60) { sleep(0.2) && :value }
        sender.join
        p taken > 0
      RUBY

      expect(ruby).to have_attributes(stdout: ":value\ntrue\n", stderr: "")
    end

    # In a Ruby of its own: a caller is killed while a block sleeps, or a plain fork's tree is, process by process. The
    # seconds until all are gone; -1 when they are not. The best of three: what the machine does beside it is not ours.
    def gone_after_kill(how, block)
      program = <<~RUBY
        reader, writer = IO.pipe
        how = ARGV.first
        caller = fork do
          block = -> { #{block} && sleep }
          if how == "jail"
            AgentJail.run(processes: true, timeout: 60, inherit: writer, &block)
          else
            fork(&block) && sleep
          end
        end
        writer.close
        pids = reader.gets.split.map(&:to_i)
        running = ->(pid) { File.read("/proc/\#{pid}/stat")[/\\) (.)/, 1] !~ /[ZX]/ rescue false }
        clock = -> { Process.clock_gettime(Process::CLOCK_MONOTONIC) }
        start = clock.call
        Process.kill(:KILL, caller)
        sleep 0.2 if how == "fork"
        abort("they died by themselves") if how == "fork" && !pids.all?(&running)
        start = clock.call if how == "fork"
        pids.each { |pid| Process.kill(:KILL, pid) } if how == "fork"
        sleep 0.001 while pids.any?(&running) && clock.call - start < 5
        puts pids.any?(&running) ? -1 : clock.call - start
        pids.select(&running).each { |pid| Process.kill(:KILL, pid) }
      RUBY
      Array.new(3) { Float(fresh_ruby(program, how).stdout) }.min
    end

    {
      "the child is" => "writer.syswrite(\"\#{$$}\\n\")",
      "the child and what it started are" => "writer.syswrite(\"\#{fork { sleep }} \#{$$}\\n\")"
    }.each do |what, block|
      it "and it is SIGKILL, #{what} gone within 0.2 s of what killing by hand takes" do
        jail, plain = %w[jail fork].map { |how| gone_after_kill(how, block) }

        expect(jail).to be_between(0, plain + 0.2)
      end
    end
  end

  describe "is left alone" do
    it "in its handlers, environment, working directory, standard input and $?", :bare do
      ruby = fresh_ruby(<<~RUBY, stdin: "one\ntwo\nthree\n")
        names = Signal.list.keys - %w[EXIT KILL STOP SEGV BUS ILL FPE VTALRM]
        handler = proc {}
        names.each { |name| trap(name, handler) rescue nil }
        system("exit 7")
        state = lambda do
          handlers = names.map { |name| (trap(name, handler)).equal?(handler) rescue nil }
          [handlers, ENV.to_h, Dir.pwd, $?.exitstatus, File.umask, Process.getpgrp, $0, Process.getpriority(0, 0), srand.class]
        end
        first = gets
        before = state.call
        change = lambda do
          names.each { |name| trap(name, "DEFAULT") rescue nil }
          ENV["NEW"] = "x"
          ENV.delete("PATH")
          Dir.chdir("/")
          File.umask(0o777)
          $0 = "changed"
          $stdin.read
        end
        AgentJail.run(timeout: 60) { change.call && 1 }
        AgentJail.run(timeout: 60) { change.call && raise("x") } rescue AgentJail::SandboxError
        AgentJail.run(timeout: 60) { change.call && exit!(3) } rescue AgentJail::CrashError
        AgentJail.run(timeout: 60, processes: true) { system("exit 9") }
        p before == state.call, first + gets, Process.wait(-1, Process::WNOHANG).inspect rescue p $!.class
        change.call
        p before == state.call # the control: all of it would be seen
      RUBY

      expect(ruby).to have_attributes(stdout: "Errno::ECHILD\nfalse\n", stderr: "")
        .or have_attributes(stdout: "true\n\"one\\ntwo\\n\"\n\"nil\"\nfalse\n", stderr: "")
    end

    it "in $? whatever becomes of the block, in the thread and in others" do
      ends = [-> { 1 }, -> { raise "x" }, -> { exit!(3) }, -> { Process.kill(:KILL, Process.pid) && sleep }, lambda {
        sleep
      }]
      seen = Array.new(3) do |status|
        Thread.new do
          Process.wait(fork { exit!(status) })
          ends.map { |act| [jailed(timeout: 1, &act), Process.last_status.exitstatus].last }
        end
      end

      expect(seen.map(&:value)).to eq(Array.new(3) { |status| [status] * 5 })
    end
  end

  describe "may call it" do
    {
      "from at_exit" => ["at_exit { p AgentJail.run(timeout: 60) { 5 } }", "5\n"],
      "from at_exit after an exception" => ["at_exit { p AgentJail.run(timeout: 60) { 5 } }; exit(0)", "5\n"],
      "from a finaliser at exit" =>
        ["ObjectSpace.define_finalizer(+'', proc { p AgentJail.run(timeout: 60) { 5 } }); exit(0)", "5\n"],
      "inside a trap handler" =>
        ["trap('USR1') { p AgentJail.run(timeout: 60) { 5 } }; Process.kill(:USR1, $$); sleep 0.5; puts 'on'",
         "5\non\n"],
      "inside a trap handler, where it fails" =>
        ["trap('USR1') { (AgentJail.run(timeout: 60) { raise 'x' }) rescue p $!.class }; Process.kill(:USR1, $$); sleep 0.5",
         "AgentJail::SandboxError\n"],
      "inside a trap handler, with a private directory" =>
        ["trap('USR1') { p AgentJail.run(timeout: 60, tmpdir: true) { File.write(Dir.tmpdir + '/x', 'x') } }; " \
         "Process.kill(:USR1, $$); sleep 0.5; p Dir.exist?(Dir.tmpdir)",
         "1\ntrue\n"],
      "inside a trap handler, with all options" =>
        ["trap('USR1') { p AgentJail.run(timeout: 60, processes: true, network: true, env: %w[PATH], inherit: $stdin, fs_allow: '/tmp') " \
         "{ `echo 5`.to_i } }; Process.kill(:USR1, $$); sleep 0.5; puts 'on'", "5\non\n"],
      "inside a trap handler where a lock is held, and a warning is due" =>
        ["AgentJail::Platform.define_singleton_method(:landlock_abi) { 0 }; $stderr = $stdout; m = Mutex.new; " \
         "trap('USR1') { 2.times { p AgentJail.run(timeout: 60) { 5 } } }; m.synchronize { Process.kill(:USR1, $$); sleep 0.5 }",
         "AgentJail: this kernel has no Landlock (paths): what stands in brackets is not confined\n5\n5\n"],
      "in a Fiber" => ["p Fiber.new { AgentJail.run(timeout: 60) { 5 } }.resume", "5\n"],
      "in an Enumerator that is asked from outside" =>
        ["e = Enumerator.new { |y| 3.times { |i| y << AgentJail.run(timeout: 60) { i } } }; p e.next, e.next, e.take(3)",
         "0\n1\n[0, 1, 2]\n"],
      "in an Enumerator, whose rest is dropped" =>
        ["e = Enumerator.new { |y| loop { y << AgentJail.run(timeout: 60) { 5 } } }; p e.next; e = nil; GC.start; p 1",
         "5\n1\n"],
      "from Thread.new at a priority" => [
        "t = Thread.new { AgentJail.run(timeout: 60) { 5 } }; t.priority = -3; p t.value", "5\n"
      ],
      "in a forked child, and in its child" =>
        [
          "Process.wait(fork { p AgentJail.run(timeout: 60) { 5 }; Process.wait(fork { p AgentJail.run(timeout: 60) { 6 } }) })", "5\n6\n"
        ],
      "with a mutex locked" => ["m = Mutex.new; p m.synchronize { AgentJail.run(timeout: 60) { m.locked? } }",
                                "true\n"],
      "under Thread.handle_interrupt" =>
        ["p Thread.handle_interrupt(Object => :never) { AgentJail.run(timeout: 60) { 5 } }", "5\n"],
      "with the descriptors of standard input, output and error closed" =>
        ["o = $stdout.dup; 3.times { |n| IO.for_fd(n).close }; o.puts(AgentJail.run(timeout: 60) { '5' * 99_999 }.size)",
         "99999\n"],
      "with $SAFE things frozen: ENV, ARGV and the main object" =>
        ["ARGV.freeze; self.freeze; p AgentJail.run(timeout: 60) { 5 }", "5\n"],
      "with a trace on" => [
        "TracePoint.new(:call, :c_call, :raise) { |t| t.path }.enable; p AgentJail.run(timeout: 60) { 5 }", "5\n"
      ],
      "with GC switched off" => ["GC.disable; p AgentJail.run(timeout: 60) { GC.start; 5 }", "5\n"]
    }.each do |where, (code, told)|
      it where, bare: where.match?(/Fiber|Enumerator/) do
        expect(fresh_ruby(code)).to have_attributes(stdout: told, stderr: "")
      end
    end

    it "in a process that became a daemon" do
      path = file("told", "")
      ruby = fresh_ruby(<<~RUBY, path)
        path = ARGV.first
        Process.daemon(true)
        told = [AgentJail.run(timeout: 60) { 5 }, (AgentJail.run(timeout: 0.1) { sleep } rescue $!.class)]
        File.write(path, "\#{told.inspect}\\n")
      RUBY
      200.times { File.empty?(path) ? sleep(0.05) : break }

      expect([ruby.success?, File.read(path)]).to eq([true, "[5, AgentJail::TimeoutError]\n"])
    end

    it "in the first process of its own process tree, which reaps orphans" do
      ruby = fresh_ruby(counting + <<~RUBY)
        require "fiddle"
        prctl = Fiddle::Function.new(Fiddle.dlopen(nil)["prctl"], [Fiddle::TYPE_INT, *[Fiddle::TYPE_LONG] * 4], Fiddle::TYPE_INT)
        prctl.call(36, 1, 0, 0, 0) # PR_SET_CHILD_SUBREAPER
        10.times { AgentJail.run(processes: true, timeout: 60) { fork { fork { sleep }; sleep } && sleep(0.02) } }
        p children.size
        Process.wait(fork { fork { exit! } && exit! }) # the control: this one is its to reap
        sleep 0.2
        p children.size
      RUBY

      expect(ruby).to have_attributes(stdout: "0\n1\n", stderr: "")
    end

    it "not from a Ractor, which is told so", if: defined?(Ractor) do
      ruby = fresh_ruby(<<~RUBY, options: ["-W0"])
        ractor = Ractor.new do
          AgentJail.run(timeout: 60) { 5 }
        rescue StandardError => e
          [e.class, e.message]
        end
        told = ractor.respond_to?(:value) ? ractor.value : ractor.take
        puts told == 5 ? "worked" : told
        p AgentJail.run(timeout: 60) { 6 }
      RUBY

      expect(ruby.stdout).to match(/\A(worked|Ractor::\w+Error\n.*[Rr]actor.*)\n6\n\z/)
    end

    it "not inside a jail, which is told so, and the jail goes on" do
      outcome = jailed(timeout: 60) do
        described_class.run { 1 }
      rescue AgentJail::Error => e
        [e.class.name, e.message]
      end
      with_processes = jailed(timeout: 60, processes: true) { described_class.run { 1 } }

      expect(outcome).to match(["AgentJail::SetupError", /no jail inside a jail/])
      expect(with_processes).to be_an_instance_of(AgentJail::SandboxError)
        .and have_attributes(original_class: "AgentJail::SetupError", message: /no jail inside a jail/)
    end
  end

  describe "that is confined itself" do
    # In this process, before a run. Landlock with nothing granted but reading; a filter that lets everything pass.
    confined = <<~RUBY
      require "fiddle"
      def kernel(number, *arguments)
        words = arguments.map { |argument| argument.is_a?(String) ? Fiddle::Pointer[argument].to_i : argument }
        result = Fiddle::Function.new(Fiddle.dlopen(nil)["syscall"], [Fiddle::TYPE_LONG] * (1 + words.size), Fiddle::TYPE_LONG)
                                 .call(number, *words)
        result.negative? ? raise(SystemCallError.new(number.to_s, Fiddle.last_error)) : result
      end
      def no_new_privileges = Fiddle::Function.new(Fiddle.dlopen(nil)["prctl"], [Fiddle::TYPE_INT, *[Fiddle::TYPE_LONG] * 4],
                                                   Fiddle::TYPE_INT).call(38, 1, 0, 0, 0)
      def landlock(layers = 1)
        layers.times do
          ruleset = kernel(444, [1 << 1 | 1 << 5].pack("Q"), 8, 0) # writing to files, removing files
          File.open(ARGV.first, File::RDONLY) { |directory| kernel(445, ruleset, 1, [1 << 1 | 1 << 5, directory.fileno].pack("QL"), 0) }
          no_new_privileges
          kernel(446, ruleset, 0)
        end
      end
      def seccomp
        no_new_privileges
        program = [0x06, 0, 0, 0x7fff0000].pack("SCCL") # return ALLOW
        kernel(317, 1, 0, [1, Fiddle::Pointer[program].to_i].pack("Sx6Q"))
      end
    RUBY

    {
      "under Landlock" => "landlock", "under seccomp" => "seccomp", "under both" => "landlock; seccomp",
      "without new privileges" => "no_new_privileges", "under as many layers of Landlock as there can be but one" => "landlock(15)"
    }.each do |how, act|
      it "calls it #{how} as before", if: RUBY_PLATFORM.start_with?("x86_64") do
        ruby = fresh_ruby(confined + <<~RUBY, dir)
          #{act}
          p AgentJail.run(timeout: 60, fs_allow: ARGV.first) { File.write(ARGV.first + "/x", "x") }
          AgentJail.run(timeout: 60) { File.write(ARGV.first + "/y", "x") } rescue p $!.class
          puts AgentJail.run(timeout: 60, network: true) { 5 }
          p Dir.children(ARGV.first)
        RUBY

        expect(ruby).to have_attributes(stdout: "1\nAgentJail::FilesystemError\n5\n[\"x\"]\n", stderr: "")
      end
    end

    it "is told so where the kernel takes no more layers", if: RUBY_PLATFORM.start_with?("x86_64") do
      ruby = fresh_ruby(confined + <<~RUBY, dir)
        landlock(16)
        begin
          AgentJail.run(timeout: 60) { puts "block" }
        rescue AgentJail::SetupError => e
          puts e.message
        end
      RUBY

      expect(ruby).to have_attributes(
        stdout: /the block did not run: landlock_restrict_self: Argument list too long\n\z/, stderr: ""
      )
    end
  end
end

# What the block prints comes out of the parent, whose own write could end it.
RSpec.describe AgentJail, "whose block prints where the parent could come to harm", if: AgentJail::Platform.linux? do
  include_context "with a directory"

  # In a process that +setup+ exposes: how it ends when it runs the block itself, a fork of it, and a jail.
  def ends(setup, block)
    fresh_ruby(<<~RUBY, dir).stderr.split
      act = -> { #{block} }
      ways = [act, -> { Process.wait(fork(&act)) }, -> { AgentJail.run(timeout: 20, &act) rescue warn(p($!)) }]
      ways.each do |way|
        Process.wait(fork { #{setup}; way.call; exit!(true) })
        $stderr.puts($?.signaled? ? Signal.signame($?.termsig) : $?.exitstatus)
      end
    RUBY
  end

  it "leaves it alive when a file has no more room" do
    setup = 'Process.setrlimit(:FSIZE, 1 << 20) && $stdout.reopen(ARGV.first + "/out", "w")'

    expect(ends(setup, '100.times { $stdout.syswrite("x" * 32_768) }')).to eq(%w[XFSZ 0 0])
  end

  it "leaves it alive when nobody reads any more" do
    setup = 'trap("PIPE", "SYSTEM_DEFAULT"); IO.pipe.then { |r, w| $stdout.reopen(w) && [r, w].each(&:close) }'

    expect(ends(setup, '$stdout.syswrite("x") rescue nil')).to eq(%w[PIPE 0 0])
  end
end
