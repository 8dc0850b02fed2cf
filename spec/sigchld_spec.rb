# frozen_string_literal: true

# Whoever else in the process waits for children: a handler that reaps, a thread that waits for any, a supervisor.
RSpec.describe AgentJail, "where somebody else reaps children", if: AgentJail::Platform.linux? do
  # In a Ruby of its own: runs of every kind of end, in threads, while `setup` goes on. What they ended in, counted.
  program = <<~RUBY
    RUNS = Integer(ARGV[0])
    %<setup>s
    ENDS = [-> { 1 }, -> { "x" * 100_000 }, -> { raise IOError, "no" }, -> { exit!(3) },
            -> { Process.kill(:KILL, $$) && sleep }]
    def told(block)
      AgentJail.run(timeout: 60, &block).hash && "value"
    rescue AgentJail::CrashError => e
      e.signal || e.exit_status || "unknown"
    rescue AgentJail::SandboxError => e
      e.original_class
    rescue Exception => e
      e.inspect
    end
    told = Array.new(4) { Thread.new { Array.new(RUNS / 4) { |i| told(ENDS[i %% ENDS.size]) } } }.flat_map(&:value)
    puts told.tally.sort_by { |told, _| told.to_s }.join(" ")
  RUBY

  full = ENV.key?("AGENT_JAIL_FULL")
  runs = full ? 1000 : 160
  each = runs / 5
  words = "3 #{each} IOError #{each} KILL #{each} value #{2 * each}\n"

  {
    "nobody does" => "",
    "SIGCHLD is ignored" => 'trap("CHLD", "IGNORE")',
    "a handler reaps in a loop" => <<~RUBY,
      trap("CHLD") do
        nil while Process.wait(-1, Process::WNOHANG)
      rescue Errno::ECHILD
        nil
      end
    RUBY
    "a thread waits for any child" => "Thread.new { loop { Process.wait(-1) rescue sleep(0.0005) } }",
    "a thread waits for all children" => "Thread.new { loop { Process.waitall; sleep(0.0005) } }",
    "every child is detached" => <<~RUBY,
      Process.singleton_class.prepend(Module.new { def _fork = super.tap { |pid| Process.detach(pid) if pid.positive? } })
    RUBY
    "the caller's threads start and wait for children of their own" =>
      "2.times { Thread.new { loop { Process.wait(spawn('true')) } } }"
  }.each do |what, setup|
    it "loses no result and no cause, and says no ECHILD, when #{what}" do
      ruby = fresh_ruby(format(program, setup: setup), runs, timeout: full ? 600 : 100)

      expect(ruby).to have_attributes(stdout: words, stderr: "")
    end
  end

  # Slow hooks are slow for the parent only: by the time that they are over the child has ended.
  it "tells the cause though the child has ended before its number is known, and somebody reaped it" do
    ruby = fresh_ruby(<<~RUBY)
      trap("CHLD", "IGNORE") if ARGV.empty?
      Process.singleton_class.prepend(Module.new { def _fork = super.tap { |pid| sleep(0.3) if pid.positive? } })
      begin
        AgentJail.run(timeout: 30) { exit!(3) }
      rescue AgentJail::CrashError => e
        p e.exit_status
      end
      p AgentJail.run(timeout: 30) { "value" }
    RUBY

    expect(ruby).to have_attributes(stdout: "3\n\"value\"\n", stderr: "")
  end

  # What became of another child, which ends while a jail runs.
  describe "leaves an unrelated child's status to whoever waits for it" do
    # One that ends with the status when it is told to.
    def unrelated(status)
      reader, writer = IO.pipe
      pid = fork do
        writer.close
        reader.read
        exit!(status)
      end
      reader.close
      yield pid, -> { writer.close }
    end

    it "by its number" do
      statuses = (1..20).map do |status|
        unrelated(status) do |pid, ends|
          jailed(timeout: 60) { status.odd? ? 1 : exit!(99) }
          ends.call
          described_class.run(timeout: 60) { sleep 0.01 }
          Process.wait2(pid).last.exitstatus
        end
      end

      expect(statuses).to eq([*1..20])
    end

    it "in a thread that waits for it meanwhile" do
      statuses = (1..20).map do |status|
        unrelated(status) do |pid, ends|
          waiting = Process.detach(pid)
          described_class.run(timeout: 60) { 1 }
          ends.call
          waiting.value.exitstatus
        end
      end

      expect(statuses).to eq([*1..20])
    end

    # A child that is slow to be taken down is reaped behind.
    it "by waiting for any, who gets it and nothing of a jail that is over a moment ago" do
      ruby = fresh_ruby(FreshRuby::CHILDREN + <<~RUBY)
        pid = fork { exit!(7) }
        20.times { AgentJail.run(timeout: 30) { 1 } }
        500.times { children == [pid] ? break : sleep(0.02) }
        waited, status = Process.wait2(-1)
        p waited == pid, status.exitstatus, (Process.wait(-1) rescue $!.class)
      RUBY

      expect(ruby).to have_attributes(stdout: "true\n7\nErrno::ECHILD\n", stderr: "")
    end
  end
end
