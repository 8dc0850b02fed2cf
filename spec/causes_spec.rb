# frozen_string_literal: true

require "fiddle"
require "json"

# What ends the blocks of this table.
module Causes
  LIBC = Fiddle.dlopen(nil)

  # The value would be the size of an application.
  Row = Struct.new(:what, :expected, :words, :options, :facts, :act, keyword_init: true)

  # Exceptions that are odd to whoever asks them.
  module Odd
    def self.error(**answers)
      Class.new(StandardError) { answers.each { |name, answer| define_method(name) { |*| answer.call } } }
    end

    # Its class has no sound name.
    def self.named(&name)
      Class.new(StandardError).tap { |klass| klass.define_singleton_method(:name, &name) }
    end
  end

  module_function

  def call(name, types, result, *arguments)
    types = types.map { |type| Fiddle.const_get("TYPE_#{type}") }
    Fiddle::Function.new(LIBC[name], types, Fiddle.const_get("TYPE_#{result}")).call(*arguments)
  end

  # Takes memory past Ruby, in pieces of so many bytes, until there is none left; says how many.
  def exhaust(size)
    taken = 0
    taken += 1 until call("malloc", %i[SIZE_T], :VOIDP, size).null?
    taken
  end

  MAPPED = 64 << 10

  # Maps memory until there is room for no more, and gives back the last +left+ bytes of it.
  def map_all(left)
    mapped = []
    loop do
      # read-write, private, anonymous
      address = call("mmap", %i[VOIDP SIZE_T INT INT INT LONG], :VOIDP, nil, MAPPED, 3, 0x22, -1, 0)
      [address.to_i].pack("q").unpack1("q") == -1 ? break : mapped << address
    end
    mapped.last(left / MAPPED).each { |address| call("munmap", %i[VOIDP SIZE_T], :INT, address, MAPPED) }
  end

  # Strings until there is room for no more. Their number is not known before: what the caller had freed was inherited,
  # and is used up first.
  def fill
    strings = []
    loop { strings << ("x" * (1 << 20)) }
  end

  # What C's stderr gets, as Ruby's own last words do.
  def last_words(words)
    stream = Fiddle::Pointer.new(LIBC["stderr"]).ptr
    call("fputs", %i[VOIDP VOIDP], :INT, words, stream)
  end

  # Bytes of a frame, written to every descriptor above standard error.
  def scatter(bytes)
    (3..255).each do |number|
      IO.for_fd(number, "w", autoclose: false).syswrite(bytes)
    rescue SystemCallError, ArgumentError, IOError
      next
    end
    nil
  end

  def close_everything
    (3..255).each do |number|
      IO.for_fd(number).close
    rescue SystemCallError, ArgumentError
      next
    end
    nil
  end

  def frame(kind, body, length = body.bytesize, magic: 0x4c4a4741)
    [magic, kind, length].pack("LLQ") + body
  end

  def nested(depth)
    depth.times.inject([]) { |inner, _| [inner] }
  end

  # A cause chain, its innermost last, none of which can be dumped.
  def chain
    raise(KeyError.new("inner", receiver: Hash.new { 1 }, key: :k))
  rescue KeyError
    begin
      raise(ArgumentError.new("middle").tap { |e| e.instance_variable_set(:@b, binding) })
    rescue ArgumentError
      raise Class.new(StandardError), "outer"
    end
  end
end

# One table: what the block does, the class of the error, its words, and what else the error knows.
RSpec.describe AgentJail, "and the true cause", if: AgentJail::Platform.linux? do
  raised = {}
  # A row: `act` ends in `expected` with these words under the options.
  row = lambda do |what, expected, words, options = {}, **facts, &act|
    raise "#{what} twice" if raised.key?(what)

    raised[what] = Causes::Row.new(what: what, expected: AgentJail.const_get(expected), words: words,
                                   options: options, facts: facts, act: act)
  end

  wall = { timeout: 0.3, cpu_timeout: 30 }
  cpu = { timeout: 100, cpu_timeout: 0.3 }
  small = { memory_mb: 48, timeout: 90 }
  full = { memory_mb: 48, timeout: 2 }
  wall_words = /\Athe block was stopped at its timeout of 0\.3 seconds\z/
  cpu_words = /\Athe block was stopped at its cpu_timeout of 0\.3 seconds of CPU time\z/
  memory_words = /\Athe block may allocate 48 MiB beyond what it inherited/
  killed = ->(name) { /\Athe child was killed by SIG#{name}\b/ }
  left = ->(status) { /\Athe child exited with status #{status} before it had sent a value\z/ }
  undumpable = /\Athe value cannot be dumped: TypeError: /
  refused = /\Athe result was refused: /

  # ---- time ----
  row["a sleep", :TimeoutError, wall_words, wall] { sleep }
  row["a busy loop", :TimeoutError, wall_words, wall] { loop { nil } }
  row["a C loop that keeps the lock", :TimeoutError, wall_words, wall] { loop { (7**100_000).digits } }
  row["a lock held twice", :TimeoutError, wall_words, wall] { Queue.new.then { |q| Thread.new { sleep } && q.pop } }
  row["a stop by its own hand", :TimeoutError, wall_words, wall] { Process.kill(:STOP, Process.pid) && sleep }
  row["a rescue of everything", :TimeoutError, wall_words, wall] do
    sleep
  rescue Exception # rubocop:disable Lint/RescueException
    retry
  ensure
    sleep
  end
  row["a part of a frame, and a sleep", :TimeoutError, wall_words, wall] do
    Causes.scatter(Causes.frame(1, "x", 100)) || sleep
  end
  row["half a header, and a sleep", :TimeoutError, wall_words, wall] { Causes.scatter("AGJL") || sleep }
  row["the pipe closed, and a sleep", :TimeoutError, wall_words, wall] { Causes.close_everything || sleep }
  row["a message that sleeps", :TimeoutError, wall_words, wall] { raise Causes::Odd.error(message: -> { sleep }) }
  row["CPU time", :TimeoutError, cpu_words, cpu] { loop { nil } }
  row["CPU time, XCPU trapped", :TimeoutError, cpu_words, cpu] { trap(:XCPU) { nil } && loop { nil } }
  row["CPU time, XCPU ignored", :TimeoutError, cpu_words, cpu] { trap(:XCPU, "IGNORE") && loop { nil } }
  row["CPU time of a C loop that keeps the lock", :TimeoutError, cpu_words, cpu] { loop { (7**100_000).digits } }
  row["CPU time of a catastrophic Regexp", :TimeoutError, cpu_words, cpu] do
    "#{"a" * 60}!".match?(/\A(?:(a|aa)\1?)+\z/)
  end
  row["CPU time of several threads", :TimeoutError, cpu_words, cpu] do
    Array.new(4) { Thread.new { loop { nil } } }.each(&:join)
  end
  row["CPU time of the kernel", :TimeoutError, cpu_words, cpu] do
    File.open("/dev/zero") { |io| loop { io.sysread(1 << 20) } }
  end

  # ---- memory ----
  row["a big String", :MemoryError, memory_words, small] { "x" * (200 << 20) }
  row["many objects", :MemoryError, memory_words, small.merge(timeout: 30)] do # which Ruby 3.3 uses up, see below
    [].then { |all| loop { all << Object.new << ("x" * 30) } }
  end
  row["an Array that doubles", :MemoryError, memory_words, small] { [1].then { |all| loop { all.concat(all) } } }
  row["a thread that wants memory", :MemoryError, memory_words, small] do
    Thread.new do
      Thread.current.report_on_exception = false
      "x" * (200 << 20)
    end.value
  end
  row["native code that takes all, then Ruby", :MemoryError, memory_words, small] do
    Causes.exhaust(4096) && Causes.fill
  end
  row["mmap by native code, then Ruby", :MemoryError, memory_words, small] do
    Causes.map_all(0) && Causes.fill
  end
  # Ruby 3.3 goes on like that by itself when there is no place for an object.
  row["no memory left, and a sleep", :MemoryError, memory_words, full] { Causes.map_all(0) && sleep }
  row["no memory left, and a loop", :MemoryError, memory_words, full] { Causes.map_all(0) && loop { nil } }
  row["some memory left, and a sleep", :TimeoutError, /timeout of 2\.0 seconds\z/, full] do
    Causes.map_all(2 << 20) && sleep
  end
  row["[FATAL] failed to allocate memory", :MemoryError, memory_words, small] do
    Causes.last_words("[FATAL] failed to allocate memory\n") && exit!(1)
  end
  row["a crash of Ruby for want of memory", :MemoryError, memory_words, small] do
    Causes.call("rb_bug", %i[VOIDP], :VOID, "mmap failed")
  end
  row["SIGSEGV of code that does not look at what malloc gives", :MemoryError, memory_words, small] do
    (Causes.exhaust(4096) && Causes.call("memset", %i[VOIDP INT SIZE_T], :VOIDP, nil, 0, 1)).to_i
  end
  row["the same with memory left", :CrashError, killed["SEGV"], small] do
    Causes.call("memset", %i[VOIDP INT SIZE_T], :VOIDP, nil, 0, 1).to_i
  end
  row["a value that cannot be dumped for want of memory", :MemoryError, memory_words, small] do
    ("x" * (20 << 20)).then { |text| Array.new(60) { text.dup } } # they share their bytes, and the dump does not
  end
  row["NoMemoryError as its message is asked", :MemoryError, memory_words, small] do
    raise Causes::Odd.error(message: -> { "x" * (200 << 20) })
  end

  # ---- an end by its own hand ----
  %w[SEGV ABRT KILL TERM BUS FPE ILL XCPU].each do |name|
    row["SIG#{name} by its own hand", :CrashError, killed[name], signal: name, exit_status: nil,
                                                                 original_class: "SignalException", original_message: "SIG#{name}"] do
      Process.kill(
        name, Process.pid
      ) && sleep
    end
  end
  row["abort of C", :CrashError, killed["ABRT"], signal: "ABRT", report: nil] { Causes.call("abort", [], :VOID) }
  row["a null pointer", :CrashError, killed["SEGV"], signal: "SEGV", report: /\[BUG\] Segmentation fault/] do
    Causes.call("memset", %i[VOIDP INT SIZE_T], :VOIDP, nil, 1, 1)
  end
  row["a bug of Ruby", :CrashError, /SIGABRT: \[BUG\] my bug/, signal: "ABRT", report: /\A.*\[BUG\] my bug/] do
    Causes.call("rb_bug", %i[VOIDP], :VOID, "my bug")
  end
  row["exit!", :CrashError, left[3], exit_status: 3, signal: nil, original_class: "SystemExit"] { exit!(3) }
  row["exit! with success", :CrashError, left[0], exit_status: 0, signal: nil] { exit!(true) }
  row["exit", :CrashError, left[4], exit_status: 4] { exit(4) }
  row["_exit of C", :CrashError, left[7], exit_status: 7] { Causes.call("_exit", %i[INT], :VOID, 7) }
  row["the pipe closed, and an exit", :CrashError, left[9], exit_status: 9] { Causes.close_everything || exit!(9) }
  row["the pipe closed, and a value", :CrashError, left[1], exit_status: 1] { Causes.close_everything || 1 }
  row["a part of a frame, and an exit", :CrashError, left[0], exit_status: 0] do
    Causes.scatter(Causes.frame(1, "x", 100)) || exit!(0)
  end
  row["a part of a frame, and death", :CrashError, killed["KILL"], signal: "KILL"] do
    Causes.scatter(Causes.frame(1, "x", 100)) || Process.kill(:KILL, Process.pid)
  end
  row["a class name that exits", :CrashError, left[5], exit_status: 5] { raise(Causes::Odd.named { exit!(5) }) }
  row["a dump that exits", :CrashError, left[6], exit_status: 6] do
    Class.new { def marshal_dump = exit!(6) }.new.then { |value| Causes.const_set(:Leaver, value.class) && value }
  end

  # ---- a refusal ----
  row["exec", :ProcessError, /processes: true/, original_class: "Errno::EPERM"] { exec("true") }
  row["a run in a run", :SandboxError, /there is no jail inside a jail/, original_class: "AgentJail::SetupError"] do
    AgentJail.run { 1 }
  end

  # ---- the result ----
  row["a result too large", :ResultError, /2097\d+ bytes/, { max_result_mb: 1 }] { "x" * (2 << 20) }
  {
    "an IO" => -> { $stdout }, "a Proc" => -> { proc {} }, "a Method" => -> { method(:puts) },
    "a Thread" => -> { Thread.current }, "a Mutex" => -> { Mutex.new }, "a Binding" => -> { binding },
    "a Queue" => -> { Queue.new }, "an Enumerator" => -> { [1].each }, "a Fiddle::Pointer" => -> { Fiddle::NULL },
    "a Hash with a default proc" => -> { Hash.new { 1 } }, "an anonymous class" => -> { Class.new },
    "an anonymous class's instance" => -> { Class.new.new }, "an anonymous Struct" => -> { Struct.new(:a).new(1) }
  }.each do |what, value|
    row["#{what} as the value", :ResultError, undumpable, original_class: "TypeError", &value]
  end
  row["a value of a class not permitted", :ResultError, /Causes::Row.*permitted_classes/] { Causes::Row.new(what: 1) }
  row["a value nested too deep for the gate", :ResultError, /nested deeper than/] { Causes.nested(5_000) }
  row["a value nested too deep for Marshal", :ResultError, /SystemStackError/] { Causes.nested(200_000) }
  row["a forged frame of a class not permitted", :ResultError, /Row/] do
    Causes.scatter(Causes.frame(1, Marshal.dump(Causes::Row.new(what: 1)))) || sleep
  end
  row["garbage", :ResultError, refused] { Causes.scatter(Random.new(7).bytes(100)) || sleep }
  row["a frame of another magic", :ResultError, refused] { Causes.scatter(Causes.frame(1, "\4\b0", magic: 7)) || sleep }
  row["a frame of no kind", :ResultError, refused] { Causes.scatter(Causes.frame(9, "\4\b0")) || sleep }
  row["a frame longer than the cap", :ResultError, refused] { Causes.scatter(Causes.frame(1, "", 2**50)) || sleep }
  row["a frame of a body that is no dump", :ResultError, refused] do
    Causes.scatter(Causes.frame(1, "\xFF" * 50)) || sleep
  end
  row["a frame of a report that is none", :ResultError, refused] do
    Causes.scatter(Causes.frame(2, "\xFF" * 50)) || sleep
  end

  # ---- exceptions ----
  told = ->(class_name, message) { { original_class: class_name, original_message: message } }
  row["a KeyError", :SandboxError, /\AKeyError: key not found: "MISSING_HERE"\z/,
      **told["KeyError", 'key not found: "MISSING_HERE"']] { ENV.fetch("MISSING_HERE") }
  row["a KeyError whose receiver has a default proc", :SandboxError, /\AKeyError: key not found: :k/,
      **told["KeyError", "key not found: :k"]] { Hash.new { 1 }.fetch(:k) }
  row["an extended exception", :SandboxError, /\AIOError: e\z/, **told["IOError", "e"]] do
    raise IOError.new("e").extend(Comparable)
  end
  row["a frozen exception", :SandboxError, /\AIOError: f\z/, **told["IOError", "f"]] { raise IOError.new("f").freeze }
  row["an exception with a Binding and a Proc", :SandboxError, /\AIOError: b\z/, **told["IOError", "b"]] do
    raise(IOError.new("b").tap { |e| e.instance_variable_set(:@b, [binding, proc {}]) })
  end
  row["an exception of an anonymous class", :SandboxError, /\A#<Class:0x\h+>: a\z/,
      **told[/\A#<Class:0x\h+>\z/, "a"]] { raise Class.new(StandardError), "a" }
  row["a chain of causes of which none can be dumped", :SandboxError, /\A#<Class:0x\h+>: outer\z/,
      **told[/\A#<Class/, "outer"], original_backtrace: lambda { |lines|
        lines.grep(/causes_spec.rb:\d+:in [`'].*chain'/).any?
      }] { Causes.chain }
  row["a message of 30 MB", :SandboxError, /\AIOError: x{1000}/, **told["IOError", /\Ax+\z/]] do
    raise IOError, "x" * 30_000_000
  end
  row["a message in bytes", :SandboxError, /\AIOError: \\xFF\u0000\\xFE\z/, **told["IOError", "\xFF\0\xFE".b]] do
    raise IOError, "\xFF\0\xFE".b
  end
  row["a message of broken UTF-8", :SandboxError, /\AIOError: bad \\xFF, good é\z/,
      **told["IOError", "bad \xFF, good é"]] { raise IOError, "bad \xFF, good é" }
  row["a message in EUC-JP", :SandboxError, /\AIOError: 日本\z/, **told["IOError", "日本".encode("EUC-JP")]] do
    raise IOError, "日本".encode("EUC-JP")
  end
  row["a message in UTF-16", :SandboxError, /\AIOError: 日本\z/, **told["IOError", "日本".encode("UTF-16LE")]] do
    raise IOError, "日本".encode("UTF-16LE")
  end
  row["a message of half a character of UTF-16", :SandboxError, /\AIOError: /,
      **told["IOError", "\xD8".dup.force_encoding("UTF-16BE")]] { raise IOError, "\xD8".dup.force_encoding("UTF-16BE") }
  row["a message in an encoding that cannot be converted", :SandboxError, /\AIOError: abc\z/,
      **told["IOError", "abc".dup.force_encoding("UTF-7")]] { raise IOError, "abc".dup.force_encoding("UTF-7") }
  row["a message that raises", :SandboxError, /RuntimeError/, **told[/#<Class/, /RuntimeError/]] do
    raise Causes::Odd.error(message: -> { raise "no" })
  end
  row["a message that throws", :SandboxError, /UncaughtThrowError/, **told[/#<Class/, /UncaughtThrowError/]] do
    raise Causes::Odd.error(message: -> { throw :nobody })
  end
  row["a message that is nil", :SandboxError, /#<Class/, **told[/#<Class/, ""]] { raise Causes::Odd.error(message: -> {}) }
  row["a message that is a number", :SandboxError, /: 5\z/, **told[/#<Class/, "5"]] do
    raise Causes::Odd.error(message: -> { 5 })
  end
  row["a message whose methods lie", :SandboxError, /: hi\z/, **told[/#<Class/, "hi"]] do
    liar = Class.new(String) do
      def bytesize
        -5
      end and def byteslice(*)
                nil
              end and def b = 7 and def to_s = nil
    end
    raise Causes::Odd.error(message: -> { liar.new("hi") })
  end
  row["a class name that raises", :SandboxError, /: x\z/, **told[String, "x"]] { raise Causes::Odd.named { raise "no" }, "x" }
  row["a class name in bytes", :SandboxError, /\A\\xFF: x\z/, **told["\\xFF", "x"]] { raise Causes::Odd.named { "\xFF" }, "x" }
  row["a class name that is a number", :SandboxError, /\A5: x\z/, **told["5", "x"]] { raise Causes::Odd.named { 5 }, "x" }
  row["a class that is asked in vain", :SandboxError, /: x\z/, **told[String, "x"]] do
    raise Causes::Odd.error(class: -> { raise "no" }), "x"
  end
  row["a backtrace that raises", :SandboxError, /: x\z/, original_message: "x", original_backtrace: lambda { |lines|
    lines.nil? || lines == []
  }] do
    raise Causes::Odd.error(backtrace: -> { raise "no" }), "x"
  end
  row["a backtrace that is none", :SandboxError, /: x\z/, original_message: "x"] do
    raise Causes::Odd.error(backtrace: -> { 5 }), "x"
  end
  row["a backtrace of odd things", :SandboxError, /: x\z/, original_message: "x",
                                                           original_backtrace: ["1", "", "\\xFF"]] { raise Causes::Odd.error(backtrace: -> { [1, nil, "\xFF"] }), "x" }
  row["a backtrace of a gigabyte", :SandboxError, /: x\z/, original_message: "x"] do
    raise Causes::Odd.error(backtrace: -> { ["x" * 100_000] * 10_000 }), "x"
  end
  row["a cause that is itself", :SandboxError, /: x\z/, original_message: "x"] do
    raise Class.new(StandardError) { def cause = self }, "x"
  end
  row["causes without end", :SandboxError, /: x\z/, original_message: "x"] do
    raise Class.new(StandardError) { def cause = self.class.new("y") }, "x"
  end
  row["a cause that raises", :SandboxError, /: x\z/, original_message: "x"] do
    raise Causes::Odd.error(cause: -> { raise "no" }), "x"
  end
  row["an Interrupt", :SandboxError, /\AInterrupt: /, original_class: "Interrupt"] { raise Interrupt }
  row["a stack that overflows", :SandboxError, /stack level too deep/, original_class: "SystemStackError"] do
    deep = -> { deep.call }
    deep.call
  end

  raised.each_value do |cause|
    it "is told of #{cause.what}: #{cause.expected.name[/\w+\z/]}", exact_memory: cause.options.key?(:memory_mb) do
      error = jailed(timeout: 30, **cause.options, &cause.act)

      expect(error).to be_an_instance_of(cause.expected)
        .and have_attributes(message: cause.words, usage: an_instance_of(AgentJail::Usage), **cause.facts)
      expect("é#{error.message}").to be_valid_encoding.and have_attributes(encoding: Encoding::UTF_8)
      expect(JSON.parse(JSON.generate([error.message]))).to eq([error.message])
    end
  end

  # The kernel's own word for what the table says of the ends that a block gives itself.
  raised.values.select { |cause| cause.facts[:signal] || cause.facts[:exit_status] }.each do |cause|
    next if cause.what.match?(/pipe|frame|class name|dump/) # there is none of these without a jail

    it "of #{cause.what} is what the kernel says of a plain fork" do
      pid = fork do
        $stderr.reopen(File::NULL, "w")
        Process.setrlimit(:CORE, 0)
        cause.act.call
      end
      _, status = Process.wait2(pid)
      ended = [status.termsig && Signal.signame(status.termsig), status.exitstatus]
      ended[0] = "SEGV" if cause.facts[:signal] == "SEGV" && ended[0] == "ABRT" # Ruby aborts after its report
      ended[0] = cause.facts[:signal] if %w[BUS ILL].include?(cause.facts[:signal]) && ended[0] == "ABRT"

      expect(ended).to eq([cause.facts[:signal], cause.facts[:exit_status]])
    end
  end

  # The same limits, and less of the same acts.
  {
    "time" => [wall, -> { sleep(0.05) && :done }],
    "CPU time" => [{ timeout: 100, cpu_timeout: 10 }, lambda {
      (7**10_000).digits && trap(:XCPU, "IGNORE") && "aaa".match?(/\A(?:(a|aa)\1?)+\z/) && :done
    }],
    "memory" => [small, lambda {
      (("x" * (8 << 20)) && Causes.call("malloc", %i[SIZE_T], :VOIDP, 8 << 20).null?) || :done
    }],
    "size" => [{ max_result_mb: 1 }, -> { ("x" * (1 << 19)) && :done }],
    "depth" => [{}, -> { Causes.nested(300).flatten && :done }],
    "a whole frame" => [{}, -> { Causes.scatter(Causes.frame(1, Marshal.dump(:done))) || sleep }],
    "a stop that another ends" => [{}, -> { Process.kill(:CONT, Process.pid) && :done }]
  }.each do |what, (options, act)|
    it "is none where the block keeps within #{what}" do
      expect(described_class.run(timeout: 30, **options, &act)).to eq(:done)
    end
  end

  it "is said to be unknown where it is: SIGKILL by the block, by an operator, or for want of memory" do
    reader, writer = IO.pipe
    operator = Thread.new { Process.kill(:KILL, reader.read(8).unpack1("Q")) }
    error = jailed(timeout: 30, inherit: writer) { writer.syswrite([Process.pid].pack("Q")) && sleep }
    operator.join

    expect(error).to be_an_instance_of(AgentJail::CrashError)
      .and have_attributes(signal: "KILL",
                           message: /by its own hand, by the kernel for want of memory, or by somebody else/)
  ensure
    [reader, writer].each(&:close)
  end

  describe "a crash report" do
    crashes = ["Process.kill(:SEGV, $$); sleep", "Fiddle::Function.new(Fiddle.dlopen(nil)['abort'], [], 0).call",
               "Fiddle::Function.new(Fiddle.dlopen(nil)['rb_bug'], [1], 0).call('my bug')"]
    program = <<~RUBY
      require "fiddle"
      warn "before"
      block = -> { $stderr.puts("inside") || %<act>s }
      if ARGV.first == "fork"
        Process.wait(fork(&block))
      else
        begin
          AgentJail.run(timeout: 30, &block)
        rescue AgentJail::CrashError => e
          print e.report
        end
      end
      warn "after"
    RUBY

    crashes.each do |act|
      it "of `#{act[/\['(\w+)'|:SEGV/, 0]}` belongs to the error, and not to the application's log" do
        jail, plain = %w[jail fork].map { |how| fresh_ruby(format(program, act: act), how) }

        expect(jail.stderr).to eq("before\ninside\nafter\n")
        expect([jail.stdout.include?("[BUG]"), plain.stderr.include?("[BUG]")].uniq.size).to eq(1)
        expect(plain.stderr).to start_with("before\ninside\n").and end_with("after\n")
      end
    end

    it "is none when the block only writes the words itself, by Ruby's own $stderr" do
      ruby = fresh_ruby(<<~RUBY)
        begin
          AgentJail.run(timeout: 30) { $stderr.puts("[BUG] not really") || exit!(1) }
        rescue AgentJail::CrashError => e
          p e.report
        end
      RUBY

      expect(ruby).to have_attributes(stdout: "nil\n", stderr: "[BUG] not really\n")
    end

    it "is not to be believed, but is text: bytes of the block's choice come escaped" do
      error = jailed(timeout: 30) { Causes.last_words("[BUG] \xFF\u0007\n") && exit!(1) }

      expect(error).to be_an_instance_of(AgentJail::CrashError).and have_attributes(exit_status: 1,
                                                                                    report: /\[BUG\] \\xFF/)
      expect(error.report).to be_valid_encoding
    end

    it "of a memory limit says nothing under YJIT either", :exact_memory do
      skip "this Ruby has no YJIT" unless fresh_ruby("RubyVM::YJIT.enabled? or exit 1", options: ["--yjit"]).success?
      ruby = fresh_ruby(<<~RUBY, options: %w[--yjit --yjit-call-threshold=1])
        codes = Array.new(3000) { |i| "def m\#{i}(x) = x.to_s + 'a\#{i}' * 20" }
        [2, 16, 64].each do |size|
          AgentJail.run(memory_mb: size, timeout: 20) do
            codes.each_with_index { |code, i| eval(code) && 3.times { send("m\#{i}", i) } }
            all = []
            loop { all << "x" * 1000 }
          end
        rescue AgentJail::MemoryError
          puts "memory"
        end
        puts AgentJail.run(memory_mb: 256, timeout: 20) { codes.first(50).each { |code| eval(code) } && m7(1) }.size
      RUBY

      # what Rust says goes to descriptor 2 by no stream of C's
      expect(ruby).to have_attributes(stdout: "memory\nmemory\nmemory\n41\n",
                                      stderr: /\A(memory allocation of \d+ bytes failed\n)*\z/)
    end

    it "is none of a library that aborts for want of memory, which is a MemoryError", :exact_memory do
      full = lambda do
        all = []
        loop { all << ("x" * 100_000) }
      rescue NoMemoryError
        Causes.call("abort", [], :VOID)
      end
      twin = -> { Causes.call("abort", [], :VOID) }
      told = [full, twin].map { |block| jailed(memory_mb: 64, timeout: 20, &block) }

      expect(told).to match([an_instance_of(AgentJail::MemoryError),
                             an_instance_of(AgentJail::CrashError).and(have_attributes(signal: "ABRT", report: nil))])
    end
  end
end
