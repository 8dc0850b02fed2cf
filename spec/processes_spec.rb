# frozen_string_literal: true

require "English"
require "io/wait"
require "open3"
require "pty"
require "socket"
require "timeout"

RSpec.describe AgentJail, "and programs", if: AgentJail::Platform.linux? do
  include_context "with a directory"

  process_error = ->(error) { error.instance_of?(AgentJail::ProcessError) }

  # The smallest program there is: it exits with status 42. Static, so that it needs nothing but the call that runs it.
  code = { "x86_64" => "bf2a000000b83c0000000f05", "aarch64" => "400580d2a80b80d2010000d4" }.fetch(KernelCalls::ARCH,
                                                                                                   "")
  machine = { "x86_64" => 62, "aarch64" => 183 }.fetch(KernelCalls::ARCH, 0)
  base = 0x400000
  elf = ["\x7fELF\x02\x01\x01".b, 2, machine, 1, base + 120, 64, 0, 0, 64, 56, 1, 0, 0, 0,
         1, 5, 0, base, base, 120 + (code.size / 2), 120 + (code.size / 2), 4096, code]
        .pack("a16SSLQQQLS6LLQQQQQQH*").freeze

  # Those that come back only when they were refused are last.
  acts = {
    "fork" => -> { Process.wait(fork { exit!(true) }) },
    "fork without a block" => -> { (pid = fork) ? Process.wait(pid) : exit!(true) },
    "a backtick" => -> { `true` },
    "spawn" => -> { Process.wait(spawn("true")) },
    "spawn through a shell" => -> { Process.wait(spawn("true && true")) },
    "system that raises" => -> { system("true", exception: true) },
    "IO.popen" => -> { IO.popen("true", &:read) },
    "IO.popen of an Array" => -> { IO.popen(%w[true], &:read) },
    "IO.popen of itself" => -> { IO.popen("-") { |io| io ? io.read : exit!(true) } },
    "Open3.capture3" => -> { Open3.capture3("true") },
    "Open3.popen2e" => -> { Open3.popen2e("true") { |_, out, _| out.read } },
    "PTY.spawn" => -> { PTY.spawn("true") { |_, _, pid| Process.wait(pid) } },
    "Process.daemon" => -> { Process.daemon },
    "exec" => -> { exec("true") },
    "exec through a shell" => -> { exec("true && true") }
  }

  describe "off, which is the default" do
    acts.each do |what, act|
      it "refuses #{what}" do
        expect(&act).to be_refused.as(process_error)
      end
    end

    it "lets system say nil, as it does for what cannot be run" do
      expect([jailed { system("true") }, unjailed { system("true") }]).to eq([nil, true])
    end

    it "names what was tried" do
      messages = [-> { spawn("some-program") }, -> { fork }].map { |act| jailed(&act).message }

      expect(messages).to match([/some-program.*processes: true/, /fork.*processes: true/])
    end

    # Ruby tries again for ever where fork says EAGAIN.
    it "refuses at once: to be refused five times takes no longer than to be let five times" do
      attempts = { "system" => -> { system("true") }, "a backtick" => -> { `true` },
                   "fork" => -> { Process.wait(fork { exit!(true) }) } }
      times = attempts.transform_values do |act|
        five = -> { 5.times { act.call rescue nil } } # rubocop:disable Style/RescueModifier
        rounds = Array.new(4) { [false, true].map { |processes| seconds { jailed(processes: processes, &five) } } }
        rounds.transpose.map(&:min)
      end

      expect(times.select { |_, (refused, allowed)| refused > allowed }).to be_empty
    end

    # argv of one word and an empty environment, in memory as execve takes them.
    def argv
      @word = "x"
      [address(@word), 0].pack("QQ")
    end

    {
      "execve" => ->(fd) { kernel(:execve, "/proc/self/fd/#{fd}", argv, [0].pack("Q")) },
      "execveat" => ->(fd) { kernel(:execveat, fd, "", argv, [0].pack("Q"), 0x1000) }
    }.each do |call, act|
      it "runs no program that lies in memory, not one that was inherited, by #{call}", unless: code.empty? do
        memory = IO.for_fd(kernel(:memfd_create, "program", 0), "w")
        memory.syswrite(elf)
        run = -> { instance_exec(memory.fileno, &act) }

        expect(jailed(inherit: memory, &run)).to eq("EPERM")
        expect(unjailed(&run)).to be_a(Process::Status).and have_attributes(exitstatus: 42)
      ensure
        memory&.close
      end
    end

    it "runs no program by way of the loader" do
      loader = File.foreach("/proc/self/maps").filter_map { |line| line[%r{/\S*/ld-\S+$}] }.first
      skip "no loader is mapped here" unless loader
      act = -> { exec(loader, "/bin/true") }

      expect(&act).to be_refused.as(process_error)
    end

    it "makes no process by a call of its own" do
      calls = { fork: [], vfork: [], clone: [17, 0, 0, 0, 0] }.select { |call, _| KernelCalls.call?(call) }
      answers = calls.map { |call, arguments| jailed { kernel(call, *arguments) } }

      expect(answers).to all(eq("EPERM"))
    end

    it "lets threads work, with all that they use" do
      worked = jailed do
        queue = Queue.new
        lock = Mutex.new
        sum = 0
        threads = Array.new(8) { Thread.new { (n = queue.pop) && lock.synchronize { sum += n } } }
        8.times { |n| queue << n }
        threads.each(&:join)
        waiter = ConditionVariable.new
        lock.synchronize do
          Thread.new { lock.synchronize { waiter.signal } }
          waiter.wait(lock, 5)
        end
        [sum, Thread.new { Thread.current[:x] = :y }.value]
      end

      expect(worked).to eq([28, :y])
    end

    it "lets Timeout stop what is slow" do
      expect(jailed { Timeout.timeout(0.05) { sleep } }).to have_attributes(original_class: "Timeout::Error")
      expect(jailed { Timeout.timeout(20) { :quick } }).to eq(:quick)
    end
  end

  describe "with processes: true" do
    acts.except("PTY.spawn", "Process.daemon", "exec", "exec through a shell", "IO.popen of itself").each do |what, act|
      it "lets #{what} work", :bare do
        expect(jailed(processes: true) { act.call && :ran }).to eq(:ran)
      end
    end

    it "gives what programs print and how they end", :bare do
      told = jailed(processes: true) do
        [`echo hello`, $CHILD_STATUS.exitstatus, system("false"),
         Open3.capture2("tr a-z A-Z", stdin_data: "loud").first]
      end

      expect(told).to eq(["hello\n", 0, false, "LOUD"])
    end

    describe "a program is confined as the block is" do
      # What a command ends in, in a jail: true or false; nil when it cannot be run at all.
      def runs?(command, **options)
        environment = ENV.to_h.slice("PATH")
        jailed(processes: true, **options) do
          system(environment, command, unsetenv_others: true, out: File::NULL, err: File::NULL)
        end
      end

      it "and reads nothing that was not granted" do
        outside = unjailed { system("cat /etc/passwd", out: File::NULL) }
        inside = [{}, { fs_read_allow: "/etc/passwd" }].map { |options| runs?("cat /etc/passwd", **options) }

        expect([outside, inside]).to eq([true, [false, true]])
      end

      it "and writes nowhere that was not granted" do
        granted = directory("granted")
        paths = [at("outside"), File.join(granted, "inside")]
        written = paths.map { |path| runs?("echo x > #{path}", fs_allow: granted, fs_read_allow: dir) }

        expect(written).to eq([false, true])
        expect(paths.map { |path| File.exist?(path) }).to eq([false, true])
        expect(unjailed { system("echo x > #{paths.first}") }).to be(true)
      end

      it "and connects to nobody" do
        TCPServer.open("127.0.0.1", 0) do |server|
          script = "require 'socket'; TCPSocket.new('127.0.0.1', #{server.local_address.ip_port})"
          command = "#{RbConfig.ruby} --disable-gems -e \"#{script}\""
          outcomes = [{}, { network: true }].map do |options|
            [runs?(command, **options), server.accept_nonblock(exception: false) != :wait_readable]
          end

          expect(outcomes).to eq([[false, false], [true, true]])
        end
      end

      it "and signals nobody outside" do
        with_bystander do |pid|
          expect([runs?("kill -0 #{pid}"), unjailed { system("kill -0 #{pid}") }]).to eq([false, true])
          # the filter cannot tell them apart, Landlock can from ABI 6 on
          expect(runs?("sleep 60 & kill $!")).to be(AgentJail::Platform.enforcement[:signals])
        end
      end

      it "and runs nothing that was not granted" do
        program = at("program")
        FileUtils.cp("/bin/true", program)

        expect(runs?(program)).to be_nil
        expect(runs?(program, fs_read_allow: program)).to be(true)
      end

      it "and runs nothing that lies in memory" do
        run = lambda do |descriptor|
          IO.for_fd(descriptor, "r+b", autoclose: false).syswrite(File.binread("/bin/true"))
          none = [0].pack("Q")
          pid = fork { kernel(:execveat, descriptor, "", none, none, 0x1000) && exit! }
          Process.wait2(pid).last.success?
        end
        inside = jailed(processes: true) do
          own = Dir.children("/proc/self/fd").find { |fd| File.symlink?(at = "/proc/self/fd/#{fd}") && File.readlink(at)["memfd:"] }
          run.call(Integer(own))
        end

        expect([inside, unjailed { run.call(kernel(:memfd_create, "x", 0)) }]).to eq([false, true])
      end

      it "and gains no privilege by being run" do
        asked = [39, 21].map { |question| "syscall(#{KernelCalls::NUMBERS[:prctl]}, #{question}, 0, 0, 0, 0)" }
        command = [RbConfig.ruby, "--disable-gems", "-e", "print [#{asked.join(", ")}]"]
        run = -> { IO.popen(ENV.to_h.slice("PATH"), command, unsetenv_others: true, &:read) }

        expect([jailed(processes: true, &run), unjailed(&run)]).to eq(["[1, 2]", "[0, 0]"])
      end

      it "and may read what /proc tells of itself" do
        pending "Landlock grants what is there when the jail closes, and that a program is not"

        expect(runs?("cat /proc/self/status")).to be(true)
      end
    end

    describe "the whole tree is gone when the run ends" do
      # Runs a block that returns the ids of processes; those that outlive the run.
      def left_by(**options, &)
        pids = AgentJail.run(processes: true, timeout: 30, **options, &)
        raise "nothing was started: #{pids.inspect}" unless pids.any? && pids.all?(Integer)

        [pids.size, outlived(pids)]
      end

      # In the block: a child that runs what is given and says when it is there.
      def child_that
        reader, writer = IO.pipe
        fork do
          writer.write([yield(writer) || Process.pid].pack("L"))
          writer.close
          sleep
        end
        reader.read(4).unpack1("L")
      end

      it "when it was forked" do
        expect(left_by { Array.new(3) { fork { sleep } } }).to eq([3, []])
        expect(outlived(control = [unjailed { fork { sleep } }], patience: 0)).to eq(control)
      end

      it "when it was spawned, and holds what the block printed to" do
        took = seconds { expect(left_by { [spawn("sleep 60"), spawn("sh -c 'sleep 60; true'")] }).to eq([2, []]) }

        expect(took).to be < 30
      end

      it "when it was forked twice, and its parent is gone" do
        left = left_by do
          reader, writer = IO.pipe
          Process.wait(fork do
            fork do
              writer.write([Process.pid].pack("L"))
              sleep
            end
            exit!(true)
          end)
          [reader.read(4).unpack1("L")]
        end

        expect(left).to eq([1, []])
      end

      it "when it ignores every signal that it can" do
        left = left_by do
          [child_that do
            (Signal.list.keys - %w[EXIT KILL STOP SEGV BUS ILL FPE VTALRM]).each do |name|
              trap(name, "IGNORE")
            rescue ArgumentError
              nil
            end
            nil
          end]
        end

        expect(left).to eq([1, []])
      end

      it "when it stopped itself" do
        left = left_by do
          pid = fork { Process.kill(:STOP, Process.pid) }
          Process.wait(pid, Process::WUNTRACED)
          [pid]
        end

        expect(left).to eq([1, []])
      end

      # One that ends the tree with the parent is the parent's own child. Whoever traces it has its end first, which
      # stands for a machine that is too busy to let it die.
      it "when what would end it with the parent takes its time to be gone" do
        tells, told = Array.new(2) { IO.pipe }
        tracer = fork do
          group = Integer(told.first.gets)
          watcher = Dir.children("/proc").grep(/\A\d+\z/).map(&:to_i).find do |pid|
            pid != group && running?(pid) && Process.getpgid(pid) == group
          rescue Errno::ESRCH
            false
          end
          tells.last.puts(watcher && kernel(:ptrace, 0x4206, watcher, 0, 0)) # PTRACE_SEIZE
          sleep 1
        ensure
          Process.exit!(true)
        end
        group, traced = described_class.run(processes: true, timeout: 60, inherit: [tells.first, told.last]) do
          told.last.puts(Process.pid)
          [Process.pid, tells.first.gets.chomp]
        end
        skip "nobody may trace here: #{traced}" unless traced == "0"

        expect { Process.wait(-group, Process::WNOHANG) }.to raise_error(Errno::ECHILD)
      ensure
        Process.wait(tracer)
        [*tells, *told].each(&:close)
      end

      it "when there are 200 of them" do
        expect(left_by { Array.new(200) { fork { sleep } } }).to eq([200, []])
      end

      # The pipe ends when the last who holds it has.
      it "when each starts its successor and ends, quicker than they can be counted" do
        reader, writer = IO.pipe
        going = file("going") # removed with the directory, so that no chain is left to a failure
        chain = lambda do
          fork do
            nil while fork.nil? && File.exist?(going)
            exit!(true)
          end
        end
        jailed(processes: true, inherit: writer, fs_read_allow: dir) { chain.call && sleep(0.2) }
        writer.close
        expect(reader.wait_readable(5)).to be(reader)

        plain = IO.pipe
        unjailed(&chain)
        plain.last.close
        expect(plain.first.wait_readable(0.3)).to be_nil
        File.delete(going)
        expect(plain.first.wait_readable(5)).to be(plain.first)
      ensure
        [reader, writer, *plain].each(&:close)
      end

      # Each says its number through a pipe that the parent of all holds, since the run does not return.
      def left_by_failing(error, **options)
        reader, writer = IO.pipe
        outcome = jailed(processes: true, inherit: writer, **options) do
          2.times { fork { (writer.syswrite([Process.pid].pack("L")) || true) && sleep } }
          yield
        end
        raise "it ended in #{outcome.inspect}" unless outcome.is_a?(error)

        writer.close
        pids = reader.read.unpack("L*")
        [pids.size, outlived(pids)]
      ensure
        [reader, writer].each(&:close)
      end

      it "when it ends by its time" do
        expect(left_by_failing(AgentJail::TimeoutError, timeout: 0.5) { sleep }).to eq([2, []])
      end

      it "when it ends by an exception, an exit or a signal" do
        started = -> { sleep 0.2 }
        left = [left_by_failing(AgentJail::SandboxError) { started.call && raise("over") },
                left_by_failing(AgentJail::CrashError) { started.call && exit!(3) },
                left_by_failing(AgentJail::CrashError) { started.call && Process.kill(:KILL, Process.pid) }]

        expect(left).to eq([[2, []]] * 3)
      end

      it "when the process that called it becomes another program" do
        ruby = fresh_ruby(<<~RUBY)
          reader, writer = IO.pipe
          go, stay = IO.pipe
          caller = fork do
            stay.close
            Thread.new do
              AgentJail.run(processes: true, timeout: 60, inherit: writer) do
                fork { writer.syswrite([Process.pid].pack("L")) && sleep }
                writer.syswrite([Process.pid].pack("L")) && sleep
              end
            end
            go.read
            exec("sleep", "60", out: File::NULL, err: File::NULL)
          end
          puts(caller, reader.read(8).unpack("L2"))
          stay.close
          sleep 0.01 until File.read("/proc/\#{caller}/comm") == "sleep\n"
        RUBY
        caller, *pids = ruby.stdout.split.map(&:to_i)

        expect([pids.size, outlived(pids)]).to eq([2, []])
        expect(outlived([caller], patience: 0)).to eq([caller])
      end

      it "when the process that called it is killed" do
        ruby = fresh_ruby(<<~RUBY)
          reader, writer = IO.pipe
          caller = fork do
            AgentJail.run(processes: true, timeout: 60, inherit: writer) do
              fork { writer.syswrite([Process.pid].pack("L")) && sleep }
              writer.syswrite([Process.pid].pack("L")) && sleep
            end
          end
          puts(reader.read(8).unpack("L2"))
          Process.kill(:KILL, caller)
          Process.wait(caller)
        RUBY
        pids = ruby.stdout.split.map(&:to_i)

        expect([pids.size, outlived(pids)]).to eq([2, []])
      end
    end

    it "lets nobody leave the group by which the tree is ended" do
      acts = { "setsid" => -> { Process.setsid }, "setpgid" => -> { Process.setpgid(0, 0) } }
      acts.each_value do |act|
        inside, outside = [->(&block) { jailed(processes: true, &block) }, method(:unjailed)].map do |run|
          run.call do
            reader, writer = IO.pipe
            Process.wait(fork do
              act.call
              writer.write("left")
            rescue Errno::EPERM
              writer.write("refused")
            ensure
              writer.close
              exit!(true)
            end)
            reader.read_nonblock(10)
          end
        end

        expect([inside, outside]).to eq(%w[refused left])
      end
    end

    describe "in a parent that reaps whatever child ends" do
      body = <<~RUBY
        puts AgentJail.run(processes: true) { [system("exit 3"), $?.exitstatus, `echo hi`, $?.to_i].inspect }
      RUBY

      {
        "a handler" => "trap('CLD') { nil while Process.wait(-1, Process::WNOHANG) rescue nil }",
        "a thread" => "Thread.new { loop { Process.wait(-1) rescue sleep(0.001) } }",
        "nobody, children being ignored" => "trap('CLD', 'IGNORE')"
      }.each do |what, setting|
        it "which is #{what}, programs of the block have their status", :bare do
          ruby = fresh_ruby("#{setting}\n#{body}")

          expect(ruby).to have_attributes(stdout: "[false, 3, \"hi\\n\", 0]\n", stderr: "")
        end
      end

      it "programs of a plain fork have none where children are ignored" do
        ruby = fresh_ruby("trap('CLD', 'IGNORE')\nfork { p system('exit 3') }\nsleep 0.3")

        expect(ruby.stdout).not_to include("false")
      end
    end
  end
end
