# frozen_string_literal: true

# Compares the gate with Marshal.load, both ways, on random values and on mutations of their dumps:
#
#   ruby -I lib fuzz/differential.rb 10000      # so many mutations
#   ruby -I lib fuzz/differential.rb 60s        # for so many seconds
#   ruby -I lib fuzz/differential.rb 10000 7    # the values of an earlier run: by its seed
#
# Every dump of a plain value must be accepted and come back equal. Whatever is accepted must load
# without touching a class that was not permitted, without an unexpected exception, in short time,
# and with the objects numbered as the gate numbers them.

require "bigdecimal"
require "date"
require "set"
require "agent_jail" unless defined?(AgentJail::Native)

# Classes that record every piece of their code that runs.
module Canary
  @calls = []

  class << self
    attr_reader :calls

    def sing(name)
      @calls << name
    end
  end

  module Song
    def self.included(base)
      base.define_singleton_method(:inherited) { |child| super(child) }
    end

    def marshal_load(_data) = Canary.sing(:marshal_load)
    def marshal_dump = [1]
    def hash = Canary.sing(:hash).size
    def eql?(_other) = Canary.sing(:eql)
    def <=>(_other) = Canary.sing(:compare)
  end

  class Bird
    include Song

    def self.allocate = Canary.sing(:allocate) && super
    def self._load(_bytes) = Canary.sing(:_load)
  end

  class Flock < Array; end
  Nest = Struct.new(:egg)
end

# Classes that the second policy permits, a form each.
class PlainObject; attr_accessor :a; end
class PlainText < String; end
class PlainList < Array; end
class PlainTable < Hash; end
PlainStruct = Struct.new(:a, :b)

class PlainLoad
  def self._load(_bytes) = new
  def _dump(_level) = "x"
end

class PlainMarshal
  def marshal_load(data) = @data = data
  def marshal_dump = [1, "a"]
end

class Differential
  ENCODINGS = %w[ASCII-8BIT UTF-16LE EUC-JP Shift_JIS].freeze
  PERMITS = [["PlainObject", 1], ["PlainStruct", 2], ["PlainText", 4], ["PlainList", 4], ["PlainTable", 4],
             ["PlainLoad", 8], ["PlainMarshal", 16]].freeze
  PLAIN = [NilClass, TrueClass, FalseClass, Integer, Float, String, Symbol, Array, Hash, Range, Rational, Complex, Time,
           Set, Date, DateTime, BigDecimal].freeze
  PERMITTED = [PlainObject, PlainStruct, PlainText, PlainList, PlainTable, PlainLoad, PlainMarshal].freeze
  LEAVES = (PLAIN - [Array, Hash, Range, Set, TrueClass, FalseClass]).freeze
  EXPECTED = [TypeError, ArgumentError, RangeError, ZeroDivisionError, EOFError, FrozenError, EncodingError].freeze
  SECONDS_MAX = 2

  TOKENS = [
    "o:\x11Canary::Bird\x00", "U:\x11Canary::Bird[\x06i\x06", "u:\x11Canary::Bird\x06a", "C:\x12Canary::Flock[\x00",
    "S:\x11Canary::Nest\x06:\x08egg0", "e:\x11Canary::Song\"\x06a", "c\x11Canary::Bird", "m\x0bKernel",
    "d:\x11Canary::Bird0", "I\"\x06a\x06:\x06ET", "I\"\x06a\x06:\x0dencoding\"\x0bEUC-JP", "I/\x06a\x00\x06:\x06EF",
    ":\x06E", ":\x0dencoding", ":\x06K", ":\x0bbegin", "@\x00", "@\x06", "@\x07", "@\x0a", ";\x00", ";\x06", ";\x07",
    "[\x00", "[\x06", "{\x00", "{\x06", "}\x00i\x00", "0", "T", "F", "i\x00", "f\x08nan", "f\x061",
    "l+\x07\x01\x00\x00\x80",
    "C:\x09Hash{\x06", "I", "I:\x07\xc3\xa9\x06:\x06ET", "o:\x0aRange\x08:\x09exclF:\x0abegini\x06:\x08endi\x07",
    "o:\x08Set\x06:\x0a@hash}\x06i\x06TF", "U:\x0dRational[\x07i\x06i\x08", "u:\x0fBigDecimal\x0e18:0.15e1",
    "Iu:\x09Time\x0d \x80\x11\x80\x00\x00\x00\x00\x06:\x09zone0", "o:\x10PlainObject\x06:\x07@ai\x06",
    "IC:\x0ePlainText\"\x06a\x06:\x06ET"
  ].map(&:b).freeze

  def initialize(seed)
    @random = Random.new(seed)
    @counts = Hash.new(0)
  end

  attr_reader :counts

  # Until so many mutations were tried, or so many seconds are over, whichever comes first.
  def run(count, seconds)
    (ENCODINGS - ["ASCII-8BIT"]).each { |name| "\u3042".encode(name).to_sym.inspect.encode("UTF-8") }
    ends = clock + seconds
    round until @counts[:mutated] >= count || clock >= ends
    @counts
  end

  private

  def clock = Process.clock_gettime(Process::CLOCK_MONOTONIC)

  def round
    extra = rand_of(3).zero?
    @pool = []
    values = Array.new(rand_of(6)) { value(0, extra) }
    values << values if rand_of(10).zero? # a value that holds itself is fine, if it is no key
    bytes = dump(values)
    return @counts[:undumpable] += 1 unless bytes

    unmutated(bytes, extra)
    40.times { mutated(mutate(bytes)) }
    @previous = bytes
  end

  def dump(value)
    Marshal.dump(value)
  rescue TypeError, ArgumentError
    nil
  end

  def unmutated(bytes, extra)
    @counts[:honest] += 1
    reason = refusal(bytes, extra)
    fail!("refused an honest dump: #{reason}", bytes) if reason
    again = Marshal.dump(Marshal.load(bytes))
    same = extra || again == bytes || Marshal.load(again).inspect == Marshal.load(bytes).inspect
    fail!("came back different", bytes) unless same
    numbering(bytes, extra)
  end

  def mutated(bytes)
    @counts[:mutated] += 1
    [false, true].each do |extra|
      next if refusal(bytes, extra)

      @counts[extra ? :accepted_with_permits : :accepted] += 1
      examine(bytes, extra)
      numbering(bytes, extra) if rand_of(20).zero?
    end
  end

  def refusal(bytes, extra)
    AgentJail::Native.refusal(bytes, extra ? PERMITS : [], ENCODINGS)
  end

  # Loads what was accepted and looks at what it became.
  def examine(bytes, extra)
    features = $LOADED_FEATURES.size
    started = Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID)
    loaded = load(bytes)
    seconds = Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID) - started
    fail!("took #{seconds} s", bytes) if seconds > SECONDS_MAX
    fail!("a canary sang: #{Canary.calls}", bytes) unless Canary.calls.empty?
    fail!("a library was loaded", bytes) if $LOADED_FEATURES.size != features
    inspect_graph(loaded, extra ? PLAIN + PERMITTED : PLAIN, bytes)
    loaded
  end

  def load(bytes)
    Marshal.load(bytes)
  rescue *EXPECTED
    @counts[:raised] += 1
    nil
  rescue Exception => e # rubocop:disable Lint/RescueException
    fail!("raised #{e.class}: #{e.message}", bytes)
  end

  def inspect_graph(root, classes, bytes)
    seen = {}.compare_by_identity
    waiting = [root]
    while (object = waiting.pop)
      next if seen[object]

      seen[object] = true
      fail!("holds a #{object.class}", bytes) unless classes.include?(object.class)
      fail!("has instance variables", bytes) if PLAIN.include?(object.class) && strange_variables?(object)
      waiting.concat(children(object, bytes))
    end
  end

  def strange_variables?(object)
    variables = object.instance_variables
    variables -= [:@hash] if object.is_a?(Set)
    !variables.empty?
  end

  def children(object, bytes)
    case object
    when Array, Set, Struct then object.to_a
    when Hash then object.to_a.flatten(1) + [object.default]
    when Range
      ends = [object.begin, object.end]
      fail!("a Range ends in #{ends.map(&:class)}", bytes) unless (ends.map(&:class) - LEAVES).empty?
      ends
    else object.instance_variables.map { |name| object.instance_variable_get(name) }
    end
  end

  # Appends links to an Array's dump: the last that leads somewhere must be the same for both.
  def numbering(bytes, extra)
    return unless bytes.getbyte(2) == "[".ord && bytes.getbyte(3).between?(6, 100)

    longer = bytes.dup
    longer.setbyte(3, bytes.getbyte(3) + 1)
    count = 0
    count += 1 until refusal("#{longer}@#{packed(count)}", extra)&.include?("leads to no object")
    @counts[:numbered] += 1
    return if load_error(bytes)

    fail!("counts more objects than Ruby", bytes) if unlinked?("#{longer}@#{packed(count - 1)}")
    fail!("counts fewer objects than Ruby", bytes) unless unlinked?("#{longer}@#{packed(count)}")
    kinds(longer, rand_of(count), extra)
  end

  # Where the gate takes a link for something that may end a Range, Ruby must find such a thing.
  def kinds(longer, index, extra)
    bytes = "#{longer}o:\x0aRange\x08:\x09exclF:\x0abegin@#{packed(index)}:\x08end0".b
    examine(bytes, extra) unless refusal(bytes, extra)
  end

  def load_error(bytes)
    Marshal.load(bytes)
    nil
  rescue *EXPECTED => e
    e.message
  end

  def unlinked?(bytes)
    load_error(bytes)&.include?("unlinked")
  end

  def packed(number)
    Marshal.dump(number)[3..]
  end

  def fail!(what, bytes)
    abort "#{what}: #{bytes.inspect}"
  end

  def rand_of(number)
    @random.rand(number)
  end

  # ---- values ----

  def value(depth, extra)
    return @pool.sample(random: @random) if !@pool.empty? && rand_of(5).zero?

    made = extra && rand_of(4).zero? ? permitted(depth) : plain(depth)
    @pool << made
    made
  end

  def plain(depth)
    kind = rand_of(depth > 3 ? 11 : 17)
    kind < 11 ? leaf(kind) : container(kind, depth)
  end

  def leaf(kind)
    case kind
    when 0 then [nil, true, false, 0, -1, 122, 123, -123, -124, 255, 256, -256, -257, 65_536].sample(random: @random)
    when 1 then [1, -1].sample(random: @random) * (@random.rand(2**rand_of(90)) + (2**30))
    when 2 then [1.5, -0.0, 1e300, 5e-324, Float::INFINITY, @random.rand].sample(random: @random)
    when 3 then string
    when 4 then string.then { |text| text.valid_encoding? ? text.to_sym : :broken }
    when 5 then Rational(@random.rand(2**40), 1 + @random.rand(2**70))
    when 6 then Complex(rand_of(9), [1.5, 2, Rational(1, 3)].sample(random: @random))
    when 7 then time
    when 8 then date
    when 9 then BigDecimal(["Infinity", "-0", "1.25", "1e-400", "-3.1e30", "9" * 50].sample(random: @random))
    else %i[a b c excl begin encoding E K].sample(random: @random)
    end
  end

  def string
    text = ["", "a", "key", "\u00e9", "\u3042\u3044", "x" * rand_of(200)].sample(random: @random)
    case rand_of(6)
    when 0 then text.b
    when 1 then text.encode("UTF-16LE")
    when 2 then text.ascii_only? ? text.dup.force_encoding("US-ASCII") : text.dup
    when 3 then "\u3042".encode("EUC-JP")
    when 4 then "\u3042".encode("Shift_JIS")
    else text.dup
    end
  end

  def time
    seconds = [0, @random.rand(2**33), Rational(1, 3), Rational(1, 10**20), 0.1, -(2**40)].sample(random: @random)
    [Time.at(seconds), Time.at(seconds).utc, Time.at(seconds, in: "+09:00"), Time.utc(10**12)].sample(random: @random)
  end

  def date
    [Date.new(2001, 2, 3), Date.new(-(10**6), 1, 1), Date.new(10**20, 1, 1), Date.new(2001, 1, 1, Date::GREGORIAN),
     DateTime.new(2001, 2, 3, 4, 5, 6.5, "+3"),
     DateTime.new(2001, 1, 1, 0, 0, Rational(1, 10**12))].sample(random: @random)
  end

  def container(kind, depth)
    items = Array.new(rand_of(5)) { value(depth + 1, false) }
    case kind
    when 11, 12 then items
    when 13, 14 then table(items)
    when 15 then rand_of(4).zero? ? Set.new.compare_by_identity.merge(items) : Set.new(items)
    else range
    end
  end

  def table(items)
    made = [{}, {}, Hash.new(3), {}.compare_by_identity].sample(random: @random)
    items.each_slice(2) { |key, item| made[key] = item }
    made
  end

  def range
    [1..2, (1.5..2), ("a"..), (nil..nil), (..3), (Time.at(0)...Time.at(1)), (:a..:b), ((2**70)..(2**71)),
     (Date.new(2001, 1, 1)..Date.new(2002, 1, 1)), (Rational(1, 3)..1)].sample(random: @random)
  end

  def permitted(depth)
    inner = value(depth + 1, false)
    case rand_of(7)
    when 0 then PlainObject.new.tap { |object| object.a = inner }
    when 1 then PlainStruct.new(inner, 1)
    when 2 then PlainText.new(string)
    when 3 then PlainList.new([inner]).tap { |list| list.instance_variable_set(:@a, inner) }
    when 4 then PlainTable.new.merge!(1 => inner)
    when 5 then PlainLoad.new
    else PlainMarshal.new
    end
  end

  # ---- mutations ----

  def mutate(bytes)
    made = bytes.b
    (1 + rand_of(3)).times { mutate_once(made) }
    made
  end

  def mutate_once(bytes)
    at = 2 + rand_of([bytes.size - 2, 1].max)
    case rand_of(7)
    when 0 then bytes.setbyte(at, rand_of(256)) if at < bytes.size
    when 1 then bytes.setbyte(at, (bytes.getbyte(at) + [1, -1].sample(random: @random)) & 255) if at < bytes.size
    when 2 then bytes.slice!(at..) if rand_of(4).zero?
    when 3 then replace_value(bytes)
    when 4 then bytes.insert(at, TOKENS.sample(random: @random)) if at <= bytes.size
    when 5 then splice(bytes, at)
    else bytes.slice!(at, 1 + rand_of(4))
    end
  end

  # Puts a token where a small value stood, which often leaves the rest well formed.
  def replace_value(bytes)
    small = /i[\x00\x06-\x7f]|[0TF]|@[\x00\x06-\x7f]|;[\x00\x06-\x7f]|f\x06\d/n
    places = []
    bytes.scan(small) { places << Regexp.last_match.offset(0) }
    from, to = places.sample(random: @random)
    bytes[from...to] = TOKENS.sample(random: @random) if from
  end

  def splice(bytes, at)
    return unless @previous && at < bytes.size

    from = rand_of(@previous.size)
    bytes[at, rand_of(8)] = @previous.b[from, rand_of(24)]
  end
end

if $PROGRAM_NAME == __FILE__
  much = ARGV.fetch(0, "10000")
  seed = Integer(ARGV.fetch(1, Random.new_seed % 1_000_000))
  puts "seed #{seed}"
  limits = much.end_with?("s") ? [Float::INFINITY, Float(much.chomp("s"))] : [Integer(much), Float::INFINITY]
  counts = Differential.new(seed).run(*limits)
  puts counts.map { |name, number| "#{name} #{number}" }.join(", ")
end
