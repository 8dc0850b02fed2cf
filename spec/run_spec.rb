# frozen_string_literal: true

require "bigdecimal"
require "date"
require "json"
require "set"

# What the blocks of these specs bring home, or try to.
module RunSpec
  Point = Struct.new(:x, :y)
  Options = Struct.new(:name, keyword_init: true)

  # An object with instance variables.
  class Person
    attr_reader :name

    def initialize(name) = @name = name
    def ==(other) = other.class == self.class && other.name == name
  end

  class Student < Person; end

  # A subclass of a plain class.
  class Words < Array; end

  # Dumped by _dump, loaded by _load.
  class Money
    attr_reader :cents

    def self._load(bytes) = new(Integer(bytes))
    def initialize(cents) = @cents = cents
    def _dump(_depth) = cents.to_s
    def ==(other) = other.class == self.class && other.cents == cents
  end

  # Dumped by marshal_dump, loaded by marshal_load.
  class Token
    attr_reader :id

    def initialize(id) = @id = id
    def marshal_dump = [@id]
    def marshal_load(ids) = @id = ids.first
    def ==(other) = other.class == self.class && other.id == id
  end

  # Loading one writes a file: code of the child's choice, run in the parent.
  class Canary
    def initialize(path) = @path = path
    def marshal_dump = @path
    def marshal_load(path) = File.write(path, "loaded by process #{Process.pid}")
  end

  # An exception that is hard on whoever asks it anything.
  class Hostile < StandardError
    def message = raise("no message")
    def backtrace = raise("no backtrace")
  end
end

RSpec.describe AgentJail, ".run" do
  include_context "with a directory"

  describe "the value" do
    time = Time.at(1_700_000_000, 123_456_789, :nsec)
    values = [
      nil, true, false,
      0, -1, 255, -256, (2**30) - 1, 2**30, -(2**30) - 1, 2**62, 2**64, -(2**200),
      0.0, -0.0, 1.5, -1e300, 5e-324, Float::INFINITY, -Float::INFINITY, Float::NAN,
      "", "ascii", "ünïcode 日本", "\xFF\x00\xFE".b, "invalid \xFF", "ascii".encode("US-ASCII"),
      "日本".encode("Shift_JIS"), "日本".encode("EUC-JP"), "日本".encode("UTF-16LE"),
      :symbol, :"with space", :ünïcode, :"",
      [], [1, [2, [3, [nil]]]], {}, { a: 1, "b" => [2], nil => {}, 1.5 => :x, [1] => { 2 => 3 } },
      Hash.new(5).update(a: 1), {}.compare_by_identity.update("a" => 1),
      1..2, 1...2, 1.., (..1), "a".."z", 0.5..1.5, (time..(time + 1)),
      Rational(1, 3), Complex(1, -2.5), Complex(Rational(1, 2), 3),
      time, time.utc, time.getlocal("+05:30"), time.getlocal("-09:00"), Time.at(0, Rational(1, 3)),
      Set[], Set[1, "two", Set[3]], Date.new(2026, 2, 28), DateTime.new(2026, 2, 28, 1, 2, Rational(7, 2), "+3"),
      BigDecimal("1.25"), BigDecimal("-1e-500"), BigDecimal("NaN"), BigDecimal("Infinity"), BigDecimal("-0")
    ]

    # Everything in which a value may differ from what it was.
    def facets(value)
      [value.class, value.inspect, (value.encoding if value.respond_to?(:encoding)),
       (value.default if value.is_a?(Hash)), (value.compare_by_identity? if value.is_a?(Hash)),
       ([value.nsec, value.subsec, value.utc_offset, value.utc?] if value.is_a?(Time))]
    end

    values.each do |value|
      it "comes back equal: #{value.inspect} (#{value.class})" do
        expect(facets(described_class.run { value })).to eq(facets(value))
      end
    end

    it "keeps what is shared shared, and cycles" do
      shared, other, cyclic = described_class.run do
        string = +"shared"
        cycle = [1]
        [string, string, cycle << cycle]
      end

      expect(shared).to equal(other)
      expect(cyclic.last).to equal(cyclic)
    end

    it "is a copy that can be changed" do
      value = ["a"]
      copy = described_class.run { value }
      copy.first << "b"

      expect([value, copy]).to eq([["a"], ["ab"]])
    end

    [65_535, 65_536, 65_537, 10 * 1024 * 1024].each do |size|
      it "comes back whole with #{size} bytes, more or less than what a pipe holds" do
        expect(described_class.run { "x" * size }).to eq("x" * size)
      end
    end

    context "with a cap of 1 MiB" do
      # A String whose dump has so many bytes.
      def dumped_to(size)
        overhead = Marshal.dump("x".b * 100_000).bytesize - 100_000
        ("x".b * (size - overhead)).tap { |string| raise "miscounted" unless Marshal.dump(string).bytesize == size }
      end

      it "comes back when its dump fills the cap, and is refused at one byte more" do
        values = [dumped_to(1 << 20), dumped_to((1 << 20) + 1)]
        outcomes = values.map { |value| jailed(max_result_mb: 1) { value } }

        expect(outcomes).to match([values.first, an_instance_of(AgentJail::ResultError)])
        expect(outcomes.last.message).to include("1048577 bytes")
      end

      it "is refused far beyond it too, and comes back with a greater cap" do
        outcomes = [1, 4].map { |cap| jailed(max_result_mb: cap) { "x" * 3_000_000 } }

        expect(outcomes).to match([an_instance_of(AgentJail::ResultError), "x" * 3_000_000])
      end
    end

    it "may have a cap of a fraction" do
      outcomes = [100, 10_000].map { |size| jailed(max_result_mb: 0.001) { "x" * size } }

      expect(outcomes).to match(["x" * 100, an_instance_of(AgentJail::ResultError)])
    end
  end

  describe "the block" do
    it "sees local variables, instance variables, constants and methods" do
      local = 1
      @instance = 2

      expect(described_class.run { [local, @instance, RunSpec::Point.new(3).x, at("x")] }).to eq([1, 2, 3, at("x")])
    end

    it "changes nothing of the caller's" do
      local = [1]
      ENV["AGENT_JAIL_SPEC"] = "before"
      inside = described_class.run do
        ENV["AGENT_JAIL_SPEC"] = "after"
        Object.const_set(:AgentJailSpecConstant, 1)
        [local << 2, ENV.fetch("AGENT_JAIL_SPEC"), Object.const_defined?(:AgentJailSpecConstant)]
      end

      expect(inside).to eq([[1, 2], "after", true])
      expect([local, ENV.fetch("AGENT_JAIL_SPEC"), Object.const_defined?(:AgentJailSpecConstant)])
        .to eq([[1], "before", false])
    ensure
      ENV.delete("AGENT_JAIL_SPEC")
    end

    it "may be a proc, a lambda or a method" do
      lambda = -> { return 5 } # rubocop:disable Style/RedundantReturn -- the return is the point
      procedure = proc { next 6 }

      results = [lambda, procedure, [7, 8].method(:sum)].map { |callable| described_class.run(&callable) }

      expect(results).to eq([5, 6, 15])
    end

    it "may be run from a thread and from a fiber" do
      expect([Thread.new { described_class.run { 1 } }.value, Fiber.new { described_class.run { 2 } }.resume])
        .to eq([1, 2])
    end

    it "may start threads, and end with them still running" do
      value = described_class.run do
        Thread.new { sleep }
        Thread.new { 6 * 7 }.value
      end

      expect(value).to eq(42)
    end

    it "runs in another process, once" do
      path = file("pids", "")
      described_class.run(fs_allow: dir) { File.write(path, "#{Process.pid}\n", mode: "a") }

      pids = File.readlines(path).map(&:to_i)

      expect(pids.size).to eq(1)
      expect(pids).not_to include(Process.pid)
    end
  end

  it "leaves $? as it was, whatever becomes of the block" do
    Process.wait(fork { exit!(7) })
    described_class.run { 1 }
    jailed { exit!(3) }
    jailed(timeout: 0.05) { sleep }

    expect($?.exitstatus).to eq(7) # rubocop:disable Style/SpecialGlobalVars
  end
end

RSpec.describe AgentJail, "and an exception of the block" do
  include_context "with a directory"

  def deliver
    raise KeyError.new("no such key", receiver: { secret: 1 }, key: :missing)
  end

  it "comes as SandboxError with its class, message and backtrace" do
    error = jailed { deliver }

    expect(error).to be_an_instance_of(AgentJail::SandboxError)
      .and have_attributes(original_class: "KeyError", original_message: "no such key",
                           message: "KeyError: no such key", cause: nil)
    expect(error.original_backtrace.first).to match(/\A#{Regexp.escape(__FILE__)}:\d+:in [`'].*deliver'\z/)
  end

  {
    "holds a Binding" => [-> { RuntimeError.new("b").tap { |e| e.instance_variable_set(:@b, binding) } },
                          "RuntimeError", "b"],
    "holds a Proc" => [-> { RuntimeError.new("p").tap { |e| e.instance_variable_set(:@p, proc {}) } },
                       "RuntimeError", "p"],
    "is extended" => [-> { RuntimeError.new("e").extend(Enumerable) }, "RuntimeError", "e"],
    "is of an anonymous class" => [-> { Class.new(StandardError).new("a") }, /\A#<Class:/, "a"],
    "has no message" => [-> { IOError.new }, "IOError", "IOError"],
    "is an Interrupt" => [-> { Interrupt.new }, "Interrupt", "Interrupt"],
    "is a SignalException" => [-> { SignalException.new("TERM") }, "SignalException", "SIGTERM"],
    "is a ScriptError" => [-> { NotImplementedError.new("n") }, "NotImplementedError", "n"],
    "is an Exception" => [-> { Exception.new("x") }, "Exception", "x"],
    "has a message in bytes" => [-> { RuntimeError.new("\xFF\x00".b) }, "RuntimeError", "\xFF\x00".b],
    "has a message that is broken UTF-8" => [-> { RuntimeError.new("bad \xFF") }, "RuntimeError", "bad \xFF"],
    "has a message in another encoding" => [-> { RuntimeError.new("日本".encode("EUC-JP")) },
                                            "RuntimeError", "日本".encode("EUC-JP")],
    "raises when asked for its message" => [-> { RunSpec::Hostile.new }, "RunSpec::Hostile", /RuntimeError/]
  }.each do |what, (exception, class_name, message)|
    it "comes with its class and message when it #{what}" do
      error = jailed { raise exception.call }

      expect(error).to be_an_instance_of(AgentJail::SandboxError)
        .and have_attributes(original_class: class_name, original_message: message)
      expect(JSON.generate([error.message])).to include(error.original_class)
    end
  end

  it "comes with its class when its message has 3 MB" do
    error = jailed { raise ArgumentError, "x" * 3_000_000 }

    expect(error).to have_attributes(original_class: "ArgumentError", original_message: /\Ax+/)
  end

  it "comes with a few hundred lines of a deep recursion, its ends among them" do
    deep = ->(n) { n.zero? ? raise("deep") : deep.call(n - 1) }
    error = jailed { deep.call(2_000) }

    expect(error.original_backtrace.size).to be_between(100, 1_000)
    expect(error.original_backtrace.last).to eq(caller(0).last)
  end

  it "comes as SandboxError when it is SystemStackError" do
    deep = -> { deep.call }

    expect(jailed { deep.call }).to be_an_instance_of(AgentJail::SandboxError)
      .and have_attributes(original_class: "SystemStackError", original_message: "stack level too deep")
  end

  it "comes as MemoryError when it is NoMemoryError" do
    expect(jailed { raise NoMemoryError }).to be_an_instance_of(AgentJail::MemoryError)
  end

  # What the kernel says to who opens a file that was not granted.
  def refused = AgentJail::Platform.macos? ? "Errno::EPERM" : "Errno::EACCES"

  it "comes as FilesystemError with the original when a file was refused" do
    expect(jailed { File.read("/etc/passwd") }).to be_an_instance_of(AgentJail::FilesystemError)
      .and have_attributes(original_class: refused, original_message: %r{/etc/passwd}, message: /fs_read_allow/)
  end

  it "comes as FilesystemError when a library wrapped the refusal" do
    error = jailed do
      File.read("/etc/passwd")
    rescue SystemCallError
      raise ArgumentError, "cannot load the users"
    end

    expect(error).to be_an_instance_of(AgentJail::FilesystemError)
      .and have_attributes(original_class: "ArgumentError", original_message: "cannot load the users")
  end

  it "is what it was when it has nothing to do with a refusal" do
    errors = [Errno::ENOENT, Errno::EEXIST, Errno::EPIPE].map { |klass| jailed { raise klass } }

    expect(errors.map(&:class).uniq).to eq([AgentJail::SandboxError])
  end

  it "is no error when the block rescues it" do
    value = described_class.run do
      File.read("/etc/passwd")
    rescue SystemCallError => e
      e.class.name
    end

    expect(value).to eq(refused)
  end

  it "can be rescued as StandardError and as AgentJail::Error" do
    expect(AgentJail::Error.ancestors).to include(StandardError)
    expect(AgentJail::SandboxError.ancestors).to include(AgentJail::Error)
    expect([AgentJail::FilesystemError, AgentJail::NetworkError, AgentJail::ProcessError].map(&:superclass).uniq)
      .to eq([AgentJail::DeniedError])
    expect([AgentJail::CrashError, AgentJail::ResultError].map(&:superclass).uniq).to eq([AgentJail::SandboxError])
  end

  describe "usage" do
    {
      "SandboxError" => -> { AgentJail.run { raise "x" } },
      "FilesystemError" => -> { AgentJail.run { File.read("/etc/passwd") } },
      "TimeoutError" => -> { AgentJail.run(timeout: 0.05) { sleep } },
      "MemoryError" => -> { AgentJail.run { raise NoMemoryError } },
      "CrashError" => -> { AgentJail.run { exit!(1) } },
      "ResultError" => -> { AgentJail.run { proc {} } }
    }.each do |name, call|
      it "is told by #{name}" do
        usage = nil
        wall = seconds do
          expect { call.call }.to raise_error(AgentJail.const_get(name)) { |error| usage = error.usage }
        end

        expect(usage).to be_frozen
          .and have_attributes(wall: a_value_between(1e-6, wall), cpu: a_value_between(1e-6, wall * 2),
                               max_rss: a_value > 1024)
      end
    end

    it "counts the CPU time that the block took" do
      used = -> { Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID) }
      idle, busy = [0, 0.2].map { |time| jailed { loop { used.call > time and raise used.call.to_s } } }
      told = Float(busy.original_message)

      # beside the block there is what every run takes, before and after
      expect(busy.usage.cpu).to be_between(told, told + idle.usage.cpu + 0.1)
    end

    it "counts the memory that the block touched", :exact_memory do
      ruby = fresh_ruby(<<~RUBY)
        [1, 40].each do |mb|
          AgentJail.run { ("x" * (mb << 20)) && raise("done") }
        rescue AgentJail::SandboxError => e
          puts e.usage.max_rss
        end
      RUBY
      small, big = ruby.stdout.lines.map(&:to_i)

      expect(big - small).to be_between(38 * 1024, 40 * 1024)
    end
  end
end

RSpec.describe AgentJail, "when the block leaves by another way" do
  include_context "with a directory"

  # Leaves by `%<way>s`. Whoever comes past the call of run, and whoever runs at_exit handlers, writes a line into a
  # file that the jail grants.
  program = <<~RUBY
    DIR, SECONDS = ARGV
    PARENT = $$
    LINES = File.join(DIR, PARENT.to_s)
    def line(words) = File.write(LINES, "\#{$$ == PARENT ? "parent" : "child"}: \#{words}\n", mode: "a")
    def deep = deep
    def leave = AgentJail.run(timeout: Float(SECONDS), fs_allow: DIR) { %<way>s }
    at_exit { line("at_exit") && $stdout.write(File.read(LINES)) if $$ == PARENT }
    at_exit { line("at_exit of the child") if $$ != PARENT }

    thrown = catch(:out) do
      value = leave
      line("came back with \#{value.inspect}")
      nil
    rescue AgentJail::Error => e
      told = [e.class, (e.original_class if e.is_a?(AgentJail::SandboxError)),
              (e.signal || e.exit_status if e.is_a?(AgentJail::CrashError))]
      line(told.compact.join(" "))
      nil
    end
    line("thrown \#{thrown}") if thrown
  RUBY

  ways = {
    "exit" => "AgentJail::CrashError SystemExit 0",
    "exit(3)" => "AgentJail::CrashError SystemExit 3",
    "exit(false)" => "AgentJail::CrashError SystemExit 1",
    "raise SystemExit" => "AgentJail::CrashError SystemExit 0",
    "abort" => "AgentJail::CrashError SystemExit 1",
    "exit!" => "AgentJail::CrashError SystemExit 1",
    "exit!(4)" => "AgentJail::CrashError SystemExit 4",
    "Thread.new { exit(5) }.join" => "AgentJail::CrashError SystemExit 5",
    "Thread.exit" => "AgentJail::CrashError SystemExit 0",
    "Thread.new { Thread.main.kill }.join; sleep" => "AgentJail::CrashError SystemExit 0",
    "Process.kill(:KILL, $$)" => "AgentJail::CrashError SignalException KILL",
    "Process.kill(:TERM, $$); sleep" => "AgentJail::CrashError SignalException TERM",
    "throw :out, :of_the_jail" => "AgentJail::SandboxError LocalJumpError",
    "throw :nobody" => "AgentJail::SandboxError UncaughtThrowError",
    "break 5" => "AgentJail::SandboxError LocalJumpError",
    "return 5" => "AgentJail::SandboxError LocalJumpError",
    "next 5" => "came back with 5",
    "raise Interrupt" => "AgentJail::SandboxError Interrupt",
    "raise Exception" => "AgentJail::SandboxError Exception",
    "deep" => "AgentJail::SandboxError SystemStackError",
    "at_exit { line('block') }; 5" => "came back with 5",
    "ObjectSpace.define_finalizer(+'', proc { line('finalizer') }); 5" => "came back with 5",
    "trap(:EXIT) { line('trap') }; exit" => "AgentJail::CrashError SystemExit 0"
  }

  before(:context) do
    codes = [*ways.keys, "redo"].to_h { |way| [way, format(program, way: way)] }
    Dir.mktmpdir("agent_jail_spec") do |dir|
      @left = fresh_forks(codes.except("redo"), dir, 10).merge(fresh_forks(codes.slice("redo"), dir, 0.2))
    end
  end

  ways.merge("redo" => "AgentJail::TimeoutError").each do |way, told|
    it "`#{way}`: only the caller goes on, once" do
      expect(@left[way]).to have_attributes(stdout: "parent: #{told}\nparent: at_exit\n", stderr: "", status: 0)
    end
  end

  # Where the jail would be a plain fork, the lines of the child are there too: the file is one it may write.
  it "would show the child's lines if it were a plain fork" do
    path = file("lines", "")
    fresh_ruby("at_exit { File.write(ARGV[0], 'line ', mode: 'a') }; Process.wait(fork { exit })", path)

    expect(File.read(path)).to eq("line line ")
  end

  it "stays out of the code around a fiber that it runs in" do
    path = file("lines", "")
    ruby = fresh_ruby(<<~RUBY, path, dir)
      fiber = Fiber.new do
        AgentJail.run(fs_allow: ARGV[1]) { Fiber.yield(:left) }
      rescue AgentJail::Error => e
        e.class.name
      end
      value = fiber.resume
      File.write(ARGV[0], "\#{value}\\n", mode: "a")
    RUBY

    expect(ruby).to be_success
    expect(File.read(path)).to match(/\AAgentJail::\w+Error\n\z/)
  end

  it "stays out of the code around a continuation that it calls" do
    path = file("lines", "")
    ruby = fresh_ruby(<<~RUBY, path, dir, options: %w[-W0])
      require "continuation"
      value = callcc do |around|
        AgentJail.run(fs_allow: ARGV[1]) { around.call(:left) }
      rescue AgentJail::Error => e
        e.class.name
      end
      File.write(ARGV[0], "\#{value}\\n", mode: "a")
    RUBY

    expect(ruby).to be_success
    expect(File.read(path)).to match(/\AAgentJail::\w+Error\n\z/)
  end

  it "runs no finalizer of the caller's in the child" do
    kept = directory("kept")
    ruby = fresh_ruby(<<~RUBY, kept, dir)
      kept, dir = ARGV
      parent = $$
      garbage = Object.new
      ObjectSpace.define_finalizer(garbage, proc { Dir.rmdir(kept) if $$ != parent })
      AgentJail.run(fs_allow: dir) { 1 }
      begin
        AgentJail.run(fs_allow: dir) { exit }
      rescue AgentJail::CrashError
        print Dir.exist?(kept)
      end
      Process.wait(fork { exit }) # the control: here it does run
      print Dir.exist?(kept)
    RUBY

    expect(ruby).to be_success.and have_attributes(stdout: "truefalse")
  end

  describe "under a test framework's autorun" do
    blocks = '[-> { 5 }, -> { raise "x" }, -> { exit }, -> { exit!(1) }, -> { throw :x }, -> { Thread.exit }]'

    it "does not run minitest's tests in the child" do
      ruby = fresh_ruby(<<~RUBY)
        require "minitest/autorun"
        class JailTest < Minitest::Test
          def test_run
            #{blocks}.each do |way|
              AgentJail.run(&way)
            rescue AgentJail::Error
              nil
            end
            assert true
          end
        end
      RUBY

      expect(ruby).to be_success.and have_attributes(stdout: /^1 runs, 1 assertions, 0 failures, 0 errors, 0 skips$/)
      expect(ruby.stdout.scan(/^\d+ runs, /).size).to eq(1)
    end

    it "does not run RSpec's examples in the child" do
      ruby = fresh_ruby(<<~RUBY)
        require "rspec/autorun"
        RSpec.describe "jail" do
          #{blocks}.each_with_index do |way, i|
            it "way \#{i}" do
              AgentJail.run(&way)
            rescue AgentJail::Error
              nil
            end
          end
        end
      RUBY

      expect(ruby).to be_success.and have_attributes(stdout: /^6 examples, 0 failures$/)
      expect(ruby.stdout.scan(/^\d+ examples, /).size).to eq(1)
    end
  end
end

RSpec.describe AgentJail, "and what is printed" do
  include_context "with a directory"

  # Standard output and error are files here, so that Ruby buffers the one.
  ways = ["5", "raise 'x'", "exit", "abort", "throw :nobody", "break", "Thread.exit", "proc {}", "$stdout.flush; exit!",
          "$stdout.flush; Process.kill(:KILL, $$)", "$stdout.flush; sleep"]
  program = <<~RUBY
    $stdout.print "before "
    $stderr.print "before "
    begin
      AgentJail.run(timeout: %<seconds>p) do
        $stdout.print "inside "
        $stderr.print "inside "
        %<way>s
      end
    rescue AgentJail::Error
    end
    $stdout.print "after"
    $stderr.print "after"
  RUBY

  before(:context) do
    @printed = fresh_forks(ways.to_h { |way| [way, format(program, way: way, seconds: way[/sleep/] ? 0.3 : 10)] })
  end

  ways.each do |way|
    it "appears once when the block ends with `#{way}`" do
      expect(@printed[way]).to have_attributes(stdout: "before inside after", stderr: "before inside after")
    end
  end

  it "appears once and whole when it is long" do
    ruby = fresh_ruby('print "a" * 100_000; AgentJail.run { print "b" * 300_000 }; print "c" * 100_000')

    expect(ruby.stdout).to eq(("a" * 100_000) + ("b" * 300_000) + ("c" * 100_000))
  end

  it "is no more than a file may have" do
    ruby = fresh_ruby(<<~RUBY)
      begin
        AgentJail.run(max_file_mb: 0.25) { loop { STDOUT.syswrite("x" * 50_000) } }
      rescue AgentJail::SandboxError => e
        warn e.original_class
      end
    RUBY

    expect(ruby).to have_attributes(stdout: "x" * (1 << 18), stderr: "Errno::EPIPE\n")
  end

  # A reader that takes a piece now and then keeps the caller neither beyond his time nor from his other threads.
  it "is not waited for" do
    ruby = fresh_ruby(<<~RUBY)
      now = -> { Process.clock_gettime(Process::CLOCK_MONOTONIC) }
      reader = "loop { STDIN.readpartial(4096); sleep 0.19 }"
      STDOUT.reopen(IO.popen([RbConfig.ruby, "--disable-gems", "-e", reader], "w", err: File::NULL))
      still = 0
      Thread.new { loop { at = now.call; sleep 0.005; still = [still, now.call - at].max } }
      took = [-> { sleep }, -> { loop { STDOUT.syswrite("x" * 4096) } }].map do |block|
        still = 0
        start = now.call
        AgentJail.run(timeout: 0.5, &block) rescue [now.call - start, still]
      end
      STDERR.puts took.transpose.map { |quiet, loud| loud - quiet }
    RUBY

    expect(ruby.stderr.lines.map(&:to_f)).to match([be < 1, be < 1])
  end

  it "goes to a terminal that is the block's own: nothing is read there, and no flag is the caller's" do
    ruby = fresh_ruby(<<~RUBY)
      require "pty"
      require "fcntl"
      master, slave = PTY.open
      STDOUT.reopen(slave)
      flags = -> { STDOUT.fcntl(Fcntl::F_GETFL) }
      before = flags.call
      act = lambda do
        STDOUT.fcntl(Fcntl::F_SETFL, flags.call | Fcntl::O_NONBLOCK)
        [STDOUT.tty?, IO.for_fd(1, "r", autoclose: false).read_nonblock(5)]
      rescue SystemCallError => e
        [STDOUT.tty?, e.class]
      end
      master.puts "typed"
      warn AgentJail.run { act.call.map(&:to_s) }.push(flags.call == before).inspect
      Process.wait(fork { warn act.call.push(flags.call == before).inspect })
    RUBY

    expect(ruby.stderr).to eq(%(["true", "Errno::EINVAL", true]\n[true, "typed", false]\n))
  end

  it "appears once when the caller had put something else in $stdout's place" do
    ruby = fresh_ruby(<<~RUBY)
      require "stringio"
      STDOUT.print "before "
      $stdout = StringIO.new
      AgentJail.run { STDOUT.print "inside " }
      $stdout = STDOUT
      print "after"
    RUBY

    expect(ruby).to be_success.and have_attributes(stdout: "before inside after")
  end

  it "is the parent's own where the parent has a file with unwritten content" do
    path = at("file")
    File.open(path, "w") do |io|
      io.write("unwritten")
      described_class.run(fs_allow: dir) { (io = nil) || GC.start }
      jailed(fs_allow: dir) { exit }
    end

    expect(File.read(path)).to eq("unwritten")
  end
end

RSpec.describe AgentJail, "and a result of a class" do
  include_context "with a directory"

  {
    "an object" => [RunSpec::Person.new("Ada"), "o"],
    "a Struct" => [RunSpec::Point.new(1, [2]), "S"],
    "a Struct with keywords" => [RunSpec::Options.new(name: "x"), "S"],
    "a subclass of Array" => [RunSpec::Words.new(["a"]), "C"],
    "an object with _dump" => [RunSpec::Money.new(5), "u"],
    "an object with marshal_dump" => [RunSpec::Token.new(6), "U"],
    "an exception" => [ArgumentError.new("x"), "o"]
  }.each do |what, (value, form)|
    describe "that is #{what} (#{form})" do
      it "is refused, and the error names it and the way to permit it" do
        errors = [value, [1, { a: value }], { value => 1 }].map { |result| jailed { result } }

        expect(errors).to all(be_an_instance_of(AgentJail::ResultError)
          .and(have_attributes(message: /\b#{value.class}\b.*form #{form}.*permitted_classes/)))
      end

      it "comes back when its class is permitted, by class, name, symbol or default" do
        permits = [value.class, [value.class], value.class.name, value.class.name.to_sym]
        results = permits.map { |permit| described_class.run(permitted_classes: permit) { [1, { a: value }] } }
        described_class.configure { |c| c.default_permitted_classes = [value.class.name] }

        expect(results << described_class.run { [1, { a: value }] }).to all(eq([1, { a: value }]))
      end
    end
  end

  it "is refused when only its superclass is permitted" do
    permitted = [RunSpec::Person, RunSpec::Student].map do |klass|
      jailed(permitted_classes: klass) { RunSpec::Student.new("Bob") }
    end

    expect(permitted).to match([an_instance_of(AgentJail::ResultError), RunSpec::Student.new("Bob")])
  end

  it "is refused when something else inside it is not permitted" do
    outcomes = [[RunSpec::Point], [RunSpec::Point, RunSpec::Money]].map do |permitted|
      jailed(permitted_classes: permitted) { RunSpec::Point.new(RunSpec::Money.new(1), 2) }
    end

    expect(outcomes).to match([an_instance_of(AgentJail::ResultError), RunSpec::Point.new(RunSpec::Money.new(1), 2)])
  end

  {
    "a Proc" => -> { proc {} },
    "a Hash with a default proc" => -> { Hash.new { |hash, key| hash[key] = 1 } },
    "an IO" => -> { $stdout },
    "a Thread" => -> { Thread.current },
    "a Mutex" => -> { Mutex.new },
    "a Method" => -> { method(:puts) },
    "a Binding" => -> { binding },
    "an object of an anonymous class" => -> { Class.new.new },
    "an anonymous Struct" => -> { Struct.new(:a).new(1) },
    "an object with a singleton" => -> { Object.new.tap { |object| object.define_singleton_method(:x) { 1 } } }
  }.each do |what, value|
    it "is refused with the reason when it is #{what}, which cannot be dumped" do
      expect(jailed(permitted_classes: [Object]) { value.call }).to be_an_instance_of(AgentJail::ResultError)
        .and have_attributes(message: /cannot be dumped/, original_class: "TypeError")
    end
  end

  {
    "a Regexp" => -> { /(a+)+$/ },
    "a Class" => -> { String },
    "a Module" => -> { Kernel },
    "an extended String" => -> { "x".dup.extend(Enumerable) },
    "a String with an instance variable" => -> { "x".dup.tap { |s| s.instance_variable_set(:@x, 1) } },
    "an Object" => -> { Object.new }
  }.each do |what, value|
    it "is refused when it is #{what}" do
      expect(jailed { value.call }).to be_an_instance_of(AgentJail::ResultError)
      expect(Marshal.load(Marshal.dump(value.call)).class).to eq(value.call.class)
    end
  end
end

RSpec.describe AgentJail, "and a forged result" do
  include_context "with a directory"

  magic = 0x4c4a4741
  value = 1
  raised = 2
  refused = 3
  memory = 4

  def frame(magic, kind, body, length = body.bytesize)
    [magic, kind, length].pack("LLQ") + body
  end

  # In the block: writes the bytes to every descriptor that it finds. Standard output and error are let be.
  def scatter(bytes)
    (3..255).each do |number|
      IO.for_fd(number, "w", autoclose: false).syswrite(bytes)
    rescue SystemCallError, ArgumentError, IOError
      next
    end
    nil
  end

  it "is taken for what the block says when it is sound, which shows that it arrives" do
    bytes = frame(magic, value, Marshal.dump("forged"))

    expect(described_class.run { scatter(bytes) || "honest" }).to eq("forged")
  end

  {
    "garbage" => Random.new(1).bytes(200),
    "zeroes" => "\0" * 200,
    "a Marshal dump" => Marshal.dump("x" * 200),
    "another magic number" => [1, value, 4].pack("LLQ") + Marshal.dump(1),
    "an unknown kind" => [magic, 99, 4].pack("LLQ") + Marshal.dump(1),
    "kind 0" => [magic, 0, 4].pack("LLQ") + Marshal.dump(1),
    "more than the cap" => [magic, value, 2**40].pack("LLQ"),
    "the greatest length" => [magic, value, (2**64) - 1].pack("LLQ"),
    "no bytes at all" => [magic, value, 0].pack("LLQ"),
    "a body that is no Marshal" => [magic, value, 20].pack("LLQ") + ("\xFF".b * 20),
    "a body of two documents" => [magic, value, 8].pack("LLQ") + (Marshal.dump(1) * 2),
    "a report of an exception that is none" => [magic, raised, 20].pack("LLQ") + ("\xFF".b * 20),
    "an empty report of an exception" => [magic, raised, 0].pack("LLQ"),
    "a report with a length beyond its end" => [magic, raised, 24].pack("LLQ") + [5, 2**31, 1, 1, 1, 1].pack("L*"),
    "a refusal in bytes" => [magic, refused, 4].pack("LLQ") + "\xFF\xFE\x00\x01".b,
    "a longer refusal than there can be" => [magic, refused, 1 << 20].pack("LLQ")
  }.each do |what, bytes|
    it "is a ResultError when it is #{what}" do
      error = jailed { scatter(bytes) || "honest" }

      expect(error).to be_an_instance_of(AgentJail::ResultError)
      expect(JSON.generate([error.message])).to include("refused")
    end
  end

  it "is a MemoryError when the block says so" do
    bytes = frame(magic, memory, "")

    expect(jailed { scatter(bytes) || "honest" }).to be_an_instance_of(AgentJail::MemoryError)
  end

  it "is a CrashError when it is part of a frame and the block ends" do
    bytes = [frame(magic, value, "x", 1_000), "AGJL", "A"]
    errors = bytes.map { |part| jailed { scatter(part) || exit!(0) } }

    expect(errors).to all(be_an_instance_of(AgentJail::CrashError).and(have_attributes(exit_status: 0)))
  end

  it "is a TimeoutError when it is part of a frame and the block sleeps" do
    bytes = [frame(magic, value, "x", 1_000), "AGJL"]
    errors = bytes.map { |part| jailed(timeout: 0.2) { scatter(part) || sleep } }

    expect(errors).to all(be_an_instance_of(AgentJail::TimeoutError))
  end

  it "is a CrashError when the block closes every descriptor" do
    error = jailed do
      (3..255).each do |number|
        IO.for_fd(number).close
      rescue SystemCallError, ArgumentError
        next
      end
      exit!(9)
    end

    expect(error).to be_an_instance_of(AgentJail::CrashError).and have_attributes(exit_status: 9)
  end

  describe "that would run code in the parent" do
    let(:path) { at("canary") }

    it "runs none, be it returned or written past the jail" do
      bytes = frame(magic, value, Marshal.dump(RunSpec::Canary.new(path)))
      errors = [jailed { RunSpec::Canary.new(path) }, jailed { [{ 1 => RunSpec::Canary.new(path) }] },
                jailed { scatter(bytes) || "honest" }, jailed { scatter(bytes) || exit!(0) }]

      expect(errors).to all(be_an_instance_of(AgentJail::ResultError).and(have_attributes(message: /Canary/)))
      expect(File.exist?(path)).to be(false)
    end

    it "runs none, be it an exception or in one" do
      canary = RunSpec::Canary.new(path)
      error = jailed { raise(ArgumentError.new("x").tap { |e| e.instance_variable_set(:@canary, canary) }) }

      expect([error.class, File.exist?(path)]).to eq([AgentJail::SandboxError, false])
    end

    it "runs it where the caller permitted the class, and where there is no gate" do
      described_class.run(permitted_classes: RunSpec::Canary) { RunSpec::Canary.new(path) }
      permitted = File.read(path)
      Marshal.load(Marshal.dump(RunSpec::Canary.new(at("other"))))

      expect([permitted, File.read(at("other"))]).to all(eq("loaded by process #{Process.pid}"))
    end
  end
end
