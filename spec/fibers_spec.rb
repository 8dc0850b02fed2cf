# frozen_string_literal: true

begin
  require "async"
rescue LoadError
  nil # the group :fibers of the Gemfile is optional
end

# Under a fiber scheduler a run is one of many things that a thread waits for.
RSpec.describe AgentJail, "in fibers of the async gem", if: defined?(Async) do
  # The value of the block, run as a task; an exception of it comes through.
  def reactor(&)
    Sync(&)
  end

  it "runs blocks of every kind, one after the other" do
    outcomes = reactor do
      [-> { 1 }, -> { "x" * 1_000_000 }, -> { raise IOError, "no" }, -> { exit!(3) }, -> { proc {} },
       -> { Process.kill(:KILL, Process.pid) && sleep }, lambda {
                                                           File.read("/etc/passwd")
                                                         }].map { |act| jailed(timeout: 60, &act) }
    end

    expect(outcomes).to match([1, "x" * 1_000_000, an_instance_of(AgentJail::SandboxError), an_instance_of(AgentJail::CrashError),
                               an_instance_of(AgentJail::ResultError), an_instance_of(AgentJail::CrashError),
                               an_instance_of(AgentJail::FilesystemError)])
  end

  # One after the other they would sleep for 50 s. What a fork costs here, a hundred times, is measured and not guessed;
  # the blocks sleep long beside that.
  it "waits for 100 sleeping blocks as for one" do
    empty = seconds { reactor { 100.times { described_class.run(timeout: 60) { 1 } } } }
    nap = [0.5, empty / 10].max
    one = seconds { reactor { described_class.run(timeout: 60) { sleep nap } } }
    values = nil
    all = seconds do
      values = reactor do |task|
        Array.new(100) { |i| task.async { described_class.run(timeout: 60) { sleep(nap) && i } } }.map(&:wait)
      end
    end

    expect(values).to eq([*0...100])
    expect(all).to be < one + (3 * empty)
    expect(one + (3 * empty)).to be < 100 * nap # else it would tell nothing
  end

  it "lets other fibers go on meanwhile, which a call outside of a scheduler would not" do
    ticks = lambda do |blocking|
      reactor do |task|
        count = 0
        ticker = task.async { loop { sleep(0.005) && count += 1 } }
        run = -> { described_class.run(timeout: 60) { sleep 0.3 } }
        blocking ? Fiber.new(blocking: true, &run).resume : run.call
        ticker.stop
        count
      end
    end

    expect([ticks.call(true), ticks.call(false)]).to match([a_value <= 1, a_value > 10])
  end

  it "goes on with a value though the pipe is quicker than the reactor, and with a big one" do
    values = reactor do |task|
      Array.new(20) do |i|
        task.async do
          described_class.run(timeout: 60) do
            i.to_s * 300_000
          end
        end
      end.map { |run| run.wait.size }
    end

    expect(values).to eq(Array.new(20) { |i| i.to_s.size * 300_000 })
  end

  it "gives each task its own error, and the others go on" do
    outcomes = reactor do |task|
      Array.new(12) do |i|
        task.async do
          jailed(timeout: i % 4 == 1 ? 0.1 : 60) do
            [-> { i }, -> { sleep }, -> { raise IOError }, lambda {
              exit!(i)
            }][i % 4].call
          end
        end
      end.map(&:wait)
    end

    expect(outcomes.each_slice(4)).to all(match([Integer, an_instance_of(AgentJail::TimeoutError),
                                                 an_instance_of(AgentJail::SandboxError), an_instance_of(AgentJail::CrashError)]))
  end

  it "raises TimeoutError by the clock and by CPU time" do
    outcomes = reactor do |task|
      [[{ timeout: 0.2 }, -> { sleep }], [{ timeout: 60, cpu_timeout: 0.2 }, -> { loop { nil } }]].map do |options, act|
        task.async { jailed(**options, &act) }
      end.map(&:wait)
    end

    expect(outcomes).to all(be_an_instance_of(AgentJail::TimeoutError))
    expect(outcomes.map(&:message)).to match([/its timeout of 0.2/, /its cpu_timeout of 0.2/])
  end

  # The process of a block which sleeps, told by it; yields the task that runs it.
  def sleeping(task, **options)
    reader, writer = IO.pipe
    run = task.async do
      described_class.run(timeout: 60, inherit: writer, **options) do
        writer.syswrite([Process.pid].pack("L")) && sleep
      end
    end
    pid = reader.read(4).unpack1("L")
    raise "it does not run" unless running?(pid)

    yield run
    pid
  ensure
    [reader, writer].each(&:close)
  end

  it "kills the child of a task that is stopped" do
    pid = reactor { |task| sleeping(task, &:stop) }

    expect(outlived([pid], patience: 0)).to eq([])
  end

  it "kills the children of tasks that end with the reactor" do
    pids = []
    reactor { |task| 5.times { sleeping(task) { |run| run }.then { |pid| pids << pid } } && task.children.each(&:stop) }

    expect([pids.size, outlived(pids, patience: 0)]).to eq([5, []])
  end

  it "kills the child of a task whose time is up, which gets async's own error" do
    pid = error = nil
    reactor do |task|
      reader, writer = IO.pipe
      task.with_timeout(0.5) do
        described_class.run(timeout: 60, inherit: writer) { writer.syswrite([Process.pid].pack("L")) && sleep }
      end
    rescue Async::TimeoutError => e
      error = e
      pid = reader.read(4).unpack1("L")
    ensure
      [reader, writer].each(&:close)
    end

    expect(error).to be_an_instance_of(Async::TimeoutError)
    expect(outlived([pid], patience: 0)).to eq([])
  end

  # In a process of its own: the suite's has what other specs left, and loses it when the garbage is collected.
  it "leaves neither child nor descriptor behind", :bare do
    ruby = fresh_ruby(FreshRuby::CHILDREN + <<~'RUBY')
      require "async"

      def jailed(**options, &block)
        AgentJail.run(**options, &block)
      rescue AgentJail::Error
        nil
      end

      Sync { AgentJail.run(timeout: 60) { 1 } } # what async itself opens
      before = Dir.children("/proc/self/fd").size
      Sync do |task|
        Array.new(30) do |i|
          task.async { jailed(timeout: i.even? ? 60 : 0.05) { i % 3 == 0 ? raise("x") : (sleep if i.odd?) } }
        end.each(&:wait)
      end
      200.times { children.any? ? sleep(0.01) : break }
      left = children.map { |pid| File.read("/proc/#{pid}/stat") rescue pid }
      p left, Dir.children("/proc/self/fd").size - before
    RUBY

    expect(ruby).to have_attributes(stdout: "[]\n0\n", stderr: "")
  end

  describe "keeps the block out of the reactor" do
    it "whose tasks go on after blocks that sleep, read, fork and use threads as if there were none" do
      value = reactor do |task|
        ticks = 0
        ticker = task.async { loop { sleep(0.005) && ticks += 1 } }
        reader, writer = IO.pipe
        reading = task.async { reader.read }
        inside = described_class.run(timeout: 60, processes: true) do
          own = IO.pipe
          Thread.new { sleep(0.02) && own.last.write("x") && own.last.close }
          sleep 0.01
          [own.first.read, `echo y`, Queue.new.tap do |queue|
            Thread.new do
              queue << 1
            end
          end.pop, Fiber.current_scheduler.inspect,
           Fiber.new(blocking: false) { Fiber.current.blocking? }.resume]
        end
        sleep 0.02
        writer.write("z")
        writer.close
        ticker.stop
        [inside, reading.wait, ticks.positive?]
      end

      expect(value).to match([["x", "y\n", 1, "nil", false], "z",
                              true]).or match([["x", "y\n", 1, "nil", true], "z", true])
    end

    # The child's end of life must not take what the parent watches out of the epoll that both have.
    it "which hears of what it watched before, whatever the block closes" do
      told = reactor do |task|
        pipes = Array.new(5) { IO.pipe }
        readings = pipes.map { |reader, _| task.async { reader.gets } }
        jailed(timeout: 60) { (3..60).each { |number| IO.for_fd(number).close rescue nil } && 1 } # rubocop:disable Style/RescueModifier
        jailed(timeout: 60) { Fiber.scheduler&.close || 1 } if Fiber.respond_to?(:scheduler)
        jailed(timeout: 60) { exit }
        pipes.each_with_index { |(_, writer), i| writer.puts(i) }
        readings.map(&:wait)
      end

      expect(told).to eq(Array.new(5) { |i| "#{i}\n" })
    end

    it "and its tasks: what the block asks of the parent's task is refused or does nothing outside" do
      outcomes = reactor do |task|
        other = task.async { sleep(0.2) && :other }
        [jailed(timeout: 60) { other.stop && 1 }, jailed(timeout: 2) { task.async { 1 }.wait }, other.wait].last
      end

      expect(outcomes).to eq(:other)
    end
  end

  it "may be called with Async inside, which has a reactor of its own" do
    expect(jailed(timeout: 60) do
      Sync do |task|
        Array.new(3) do |i|
          task.async do
            sleep(0.01) && i
          end
        end.map(&:wait)
      end
    end).to eq([0, 1, 2])
  end
end
