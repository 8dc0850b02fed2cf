# frozen_string_literal: true

require "spec_helper"
require "bigdecimal"
require "date"
require "set"

# Classes that a caller may permit, each in one wire form.
module GateSpec
  class Thing
    attr_accessor :a
  end

  class Text < String; end
  class List < Array; end
  class Table < Hash; end
  Pair = Struct.new(:a, :b)

  class Loaded
    def self._load(_bytes) = new
    def _dump(_level) = "x"
  end

  class Marshalled
    def marshal_load(data) = @data = data
    def marshal_dump = [1]
  end
end

RSpec.describe "the gate before Marshal.load" do
  object_form = 1
  struct_form = 2
  subclass_form = 4
  user_defined_form = 8
  user_marshal_form = 16

  def refusal(bytes, permits = [], encodings = Encoding.list.map(&:name))
    AgentJail::Native.refusal(bytes.b, permits, encodings)
  end

  # The document around hand-made bytes.
  def document(body)
    "\x04\x08".b + body.b
  end

  # A number as Marshal packs it.
  def packed(number)
    Marshal.dump(number).byteslice(3..)
  end

  matcher :be_let_through do |permits = []|
    match { |bytes| refusal(bytes, permits).nil? }
    failure_message { |bytes| "#{bytes.inspect[0, 200]} was refused: #{refusal(bytes, permits)}" }
  end

  matcher :be_refused do |reason, permits = []|
    match { |bytes| (@actual_reason = refusal(bytes, permits)) && @actual_reason.match?(reason) }
    failure_message { "expected a refusal like #{reason.inspect}, got #{@actual_reason.inspect}" }
  end

  describe "plain values come back" do
    japanese = "\u3042".encode("EUC-JP")
    {
      "nil and booleans" => [nil, true, false],
      "small Integers" => [0, 1, -1, 122, 123, -123, -124, 255, 256, -256, -257, 65_536, (2**30) - 1, -(2**30)],
      "big Integers" => [2**30, 2**31, -(2**31) - 1, 2**62, 2**64, -(10**100)],
      "Floats" => [0.0, -0.0, 1.5, 1e300, 5e-324, 123_456_789.125, Float::INFINITY, -Float::INFINITY],
      "Strings" => ["", "a", "\u00e9", "\xff".b, "a".encode("US-ASCII"), "x" * 70_000],
      "Strings in other encodings" => [japanese, japanese.dup, "a".encode("UTF-16LE"),
                                       "\u3042".encode("Shift_JIS")],
      "Symbols" => [:a, :b, :a, :"", :é, japanese.to_sym, :E, :encoding, :K],
      "Arrays" => [[], [[[]]], [1, [2, [3]]]],
      "Hashes" => [{}, { a: 1 }, { "a" => { [1] => 2 } }, Hash.new(3).merge!(1 => 2), Hash.new("d")],
      "Ranges" => [(1..2), (1...2), ("a".."b"), (1..), (..1), (nil..nil), (1.5..2), (:a..:b), ((2**70)..(2**71)),
                   (Time.at(0)..Time.at(1)), (Date.new(2001, 1, 1)..Date.new(2002, 1, 1)), (Rational(1, 3)..1)],
      "Sets" => [Set[], Set[1, "a", [2]], Set[Set[1]]],
      "Rationals and Complexes" => [Rational(1, 3), Rational(-(2**70), 3), Complex(1, 2.0),
                                    Complex(Rational(1, 2), -1)],
      "Times" => [Time.at(0), Time.at(0).utc, Time.at(0, in: "+09:00"), Time.at(0, 1, :nsec), Time.at(Rational(1, 3)),
                  Time.at(0.1), Time.utc(1900), Time.utc(-5), Time.utc(10**12), Time.at(Rational(1, 10**20))],
      "Dates" => [Date.new(2001, 2, 3), Date.new(-4712, 1, 1), Date.new(-4713, 11, 24), Date.new(10**20, 1, 1),
                  Date.new(-(10**10), 1, 1), Date.new(2001, 1, 1, Date::GREGORIAN), Date.new(1500, 1, 1, Date::JULIAN)],
      "DateTimes" => [DateTime.new(2001, 2, 3, 4, 5, 6.5, "+3"), DateTime.new(2001, 2, 3, 23, 59, 59, "-12"),
                      DateTime.new(2001, 2, 3, 0, 0, Rational(1, 10**12))],
      "BigDecimals" => %w[0 -0 1.5 -3.25e30 1e-400 Infinity -Infinity 0.333333333333333333333].map { |n| BigDecimal(n) }
    }.each do |name, values|
      it name do
        values.each do |value|
          bytes = Marshal.dump(value)
          expect(bytes).to be_let_through
          expect(Marshal.load(bytes)).to eq(value)
        end
        expect(Marshal.dump(values)).to be_let_through
        expect(Marshal.dump(values + values)).to be_let_through
      end
    end

    it "NaN, which equals nothing" do
      expect(Marshal.dump([Float::NAN, BigDecimal("NaN"), Complex(1, Float::NAN)])).to be_let_through
    end

    it "Hashes and Sets that compare by identity" do
      [{}, { "a" => 1 }].map(&:compare_by_identity).push(Set["a"].compare_by_identity).each do |value|
        bytes = Marshal.dump(value)
        expect(bytes).to be_let_through
        expect(Marshal.load(bytes)).to be_compare_by_identity
      end
    end

    it "values that hold themselves" do
      array = []
      array << array << { 1 => array }
      expect(Marshal.dump(array)).to be_let_through
    end

    it "an Integer that is packed longer than needed, as Marshal.load takes it" do
      bytes = document("i\x02\x01\x00")
      expect(bytes).to be_let_through
      expect(Marshal.load(bytes)).to eq(1)
    end
  end

  describe "links are numbered as Ruby numbers them" do
    pair = GateSpec::Pair.new(1, 2)
    {
      "a String" => "a", "a String whose encoding has a name" => "\u3042".encode("EUC-JP"), "a Float" => 1.5,
      "a big Integer" => 2**70, "an Integer of 40 bits" => 2**40, "a small Integer" => 1, "a Symbol" => :a,
      "nil" => nil,
      "an Array" => [[], [1]], "a Hash" => { "a" => "b" }, "a Hash with a default" => Hash.new("d"),
      "an identity Hash" => { "a" => 1 }.compare_by_identity, "a Range" => ("a".."b"), "a Set" => Set["a", 1.5],
      "a Rational" => Rational(2**70, 3), "a Complex" => Complex(1.5, 2), "a Time" => Time.at(0.1),
      "a Date" => Date.new(10**20, 1, 1), "a DateTime" => DateTime.new(2001, 1, 1, 0, 0, Rational(1, 10**12)),
      "a BigDecimal" => BigDecimal("1.5"), "a Symbol in another encoding" => "\u3042".encode("EUC-JP").to_sym,
      "a Struct" => pair, "an object" => GateSpec::Thing.new.tap { |thing| thing.a = "a" },
      "a subclass" => GateSpec::Text.new("a"), "a _load" => GateSpec::Loaded.new,
      "a marshal_load" => GateSpec::Marshalled.new
    }.each do |name, value|
      it "after #{name}" do
        permits = [["GateSpec::Pair", struct_form], ["GateSpec::Thing", object_form], ["GateSpec::Text", subclass_form],
                   ["GateSpec::Loaded", user_defined_form], ["GateSpec::Marshalled", user_marshal_form]]
        bytes = Marshal.dump([value]).tap { |dump| dump.setbyte(3, 7) }
        links = (0..30).map { |index| bytes + "@".b + packed(index) }
        known = links.take_while { |link| !refusal(link, permits)&.include?("leads to no object") }
        expect(known).not_to be_empty
        expect { Marshal.load(known.last) }.not_to raise_error
        expect { Marshal.load(links[known.size]) }.to raise_error(ArgumentError, /unlinked/)
      end
    end

    it "lets a later occurrence link to an earlier one, and nothing link ahead" do
      shared = ["s", 1.5, 2**70, Time.at(0), [1], { 1 => 2 }, BigDecimal("1"), Rational(1, 3)]
      expect(Marshal.dump(shared + shared)).to be_let_through
      expect(document("[\x07[\x00@\x06")).to be_let_through
      expect(document("[\x07@\x07[\x00")).to be_refused(/leads to no object/)
      expect(document("[\x06@\xfa")).to be_refused(/leads to no object/)
    end

    it "lets a Symbol link to an earlier Symbol only" do
      expect(document("[\x07:\x06a;\x00")).to be_let_through
      expect(document("[\x07:\x06a;\x06")).to be_refused(/leads to no Symbol/)
      expect(document(";\x00")).to be_refused(/leads to no Symbol/)
    end

    it "keeps links out of what Marshal makes for itself" do
      expect(document("[\x07U:\x0dRational[\x07i\x06i\x08@\x06")).to be_let_through
      expect(document("[\x07U:\x0dRational[\x07i\x06i\x08@\x07")).to be_refused(/inside of another value/)
      expect(document("[\x07I\"\x06a\x06:\x0dencoding\"\x0bEUC-JP@\x07")).to be_refused(/inside of another value/)
    end
  end

  describe "classes come in only where they are permitted" do
    thing = GateSpec::Thing.new.tap { |made| made.a = [1, "a"] }
    {
      "an object" => [thing, object_form], "a Struct" => [GateSpec::Pair.new(1, "a"), struct_form],
      "a subclass of String" => [GateSpec::Text.new("a"), subclass_form],
      "a subclass of Array" => [GateSpec::List.new([1]), subclass_form],
      "a subclass of Hash" => [GateSpec::Table.new.merge!(1 => 2), subclass_form],
      "a subclass of Hash by identity" => [GateSpec::Table.new.compare_by_identity, subclass_form],
      "a class with _load" => [GateSpec::Loaded.new, user_defined_form],
      "a class with marshal_load" => [GateSpec::Marshalled.new, user_marshal_form]
    }.each do |name, (value, form)|
      it "#{name}, in its own form only" do
        bytes = Marshal.dump(value)
        expect(bytes).to be_let_through([[value.class.name, form]])
        expect(bytes).to be_refused(/class #{value.class} is not permitted/)
        expect(bytes).to be_refused(/is not permitted/, [[value.class.name, 31 & ~form]])
        expect(bytes).to be_refused(/is not permitted/, [["#{value.class}s", 31]])
      end
    end

    it "instance variables only on permitted classes" do
      list = GateSpec::List.new([1]).tap { |made| made.instance_variable_set(:@a, 1) }
      expect(Marshal.dump(list)).to be_let_through([["GateSpec::List", subclass_form]])
      [[1], { 1 => 2 }, "a", "a".b].each do |value|
        expect(Marshal.dump(value)).to be_let_through
        marked = value.dup.tap { |made| made.instance_variable_set(:@a, 1) }
        expect(Marshal.dump(marked)).to be_refused(/instance variables/)
      end
    end

    it "no instance variable that means something to Marshal" do
      permits = [["GateSpec::Thing", object_form]]
      expect(document("o:\x14GateSpec::Thing\x06:\x07@ai\x06")).to be_let_through(permits)
      %w[E K encoding].each do |name|
        bytes = document("o:\x14GateSpec::Thing\x06:#{packed(name.size)}#{name}T")
        expect(bytes).to be_refused(/is named #{name}/, permits)
      end
    end

    # Ruby never forgets the name of an instance variable.
    it "names of instance variables only so many, and so long" do
      permits = [["GateSpec::Thing", object_form]]
      named = lambda do |names|
        GateSpec::Thing.allocate.tap { |thing| names.each { |name| thing.instance_variable_set(name, 1) } }
      end
      many = Array.new(1001) { |i| "@gate_#{i}" }

      expect(Marshal.dump(named.call(many.drop(1)))).to be_let_through(permits)
      expect(Marshal.dump(named.call(many))).to be_refused(/too many instance variables/, permits)
      expect(Marshal.dump(named.call(["@#{"x" * 254}"]))).to be_let_through(permits)
      expect(Marshal.dump(named.call(["@#{"x" * 255}"]))).to be_refused(/too long: @x+\z/, permits)
    end

    it "a Data", if: defined?(Data) && Data.respond_to?(:define) do
      stub_const("GateSpec::Point", Data.define(:x))
      bytes = Marshal.dump(GateSpec::Point.new(x: 1))
      expect(bytes).to be_let_through([["GateSpec::Point", struct_form]])
      expect(bytes).to be_refused(/GateSpec::Point is not permitted/)
    end

    it "says a hostile name in printable ASCII, and not all of it" do
      name = "\e[31m\xff\n".b * 29
      reason = refusal(document("o:#{packed(name.bytesize)}#{name}\x00"))
      expect(reason).to match(/\Aclass \?\[31m\?\?/).and match(/\A[ -~]{1,191}\z/)
    end
  end

  describe "what is never let through, beside its twin" do
    {
      "a Regexp" => ["a", /a/, /Regexp/], "a class" => ["String", String, /Class/],
      "a module" => ["Kernel", Kernel, /Module/], "an extended object" => ["a", "a".dup.extend(Enumerable), /extended/]
    }.each do |name, (twin, value, reason)|
      it name do
        expect(Marshal.dump(twin)).to be_let_through
        expect(Marshal.dump(value)).to be_refused(reason, [[value.class.name, 31]])
      end
    end

    it "the old form of a module, data of extensions, unknown types" do
      expect(document("M\x0bKernel")).to be_refused(/Module/)
      expect(document("d:\x0bObject0")).to be_refused(/extension/)
      expect(document("z")).to be_refused(/unknown/)
    end

    it "the keyword flag on a Hash" do
      expect(document("{\x00")).to be_let_through
      expect(document("I{\x00\x06:\x06KT")).to be_refused(/instance variables/)
    end

    it "an encoding that is not built in" do
      named = ->(name) { document("I\"\x06a\x06:\x0dencoding\"#{packed(name.size)}#{name}") }
      expect(named["EUC-JP"]).to be_let_through
      expect(named["../../tmp/evil"]).to be_refused(%r{encoding \.\./\.\./tmp/evil is not built in})
      expect(named["EUC-JP\0"]).to be_refused(/is not built in/)
      expect(named["euc-jp"]).to be_refused(/is not built in/)
    end

    it "an encoding whose name comes from elsewhere" do
      expect(document("[\x07I\"\x06a\x06:\x0dencoding\"\x0bEUC-JPI\"\x06b\x06;\x00@\x07")).to be_let_through
      expect(document("[\x07\"\x0bEUC-JPI\"\x06b\x06:\x0dencoding@\x06")).to be_refused(/link to something else/)
      expect(document("I\"\x06a\x06:\x06Ei\x06")).to be_refused(/neither true nor false/)
      expect(document("I\"\x06a\x06I:\x06E\x06:\x06ETT")).to be_refused(/instance variables/)
      expect(document("I:\x06E\x06:\x06ET")).to be_refused(/encoding that Ruby would not give/)
    end

    it "a Float that is no number" do
      expect(document("f\x081.5")).to be_let_through
      ["f\x080x1", "f\x00", "f\x081\x00a", "f\x08Nan", "f\x46#{"1" * 65}"].each do |body|
        expect(document(body)).to be_refused(/Float/)
      end
    end

    it "a Range between things whose comparison is work" do
      expect(document("o:\x0aRange\x08:\x09exclF:\x0abegini\x06:\x08endi\x07")).to be_let_through
      expect(document("o:\x0aRange\x08:\x08endi\x07:\x09exclF:\x0abegini\x06")).to be_let_through
      ["[\x00", "{\x00", "T", "f\x08nan"].each do |value|
        expect(document("o:\x0aRange\x08:\x09exclF:\x0abegin#{value}:\x08end0")).to be_refused(/Range/)
      end
      expect(document("o:\x0aRange\x07:\x09exclF:\x0abegini\x06")).to be_refused(/Range/)
      expect(document("o:\x0aRange\x08:\x09exclF;\x06F:\x0abegini\x06")).to be_refused(/Range/)
    end

    it "a Set around anything but its own Hash" do
      expect(document("o:\x08Set\x06:\x0a@hash}\x06i\x06TF")).to be_let_through
      ["{\x06i\x06T", "}\x06i\x06TT", "}\x06i\x06i\x06F", "[\x00", "0", "@\x00"].each do |hash|
        expect(document("o:\x08Set\x06:\x0a@hash#{hash}")).to be_refused(/Set is not in/)
      end
    end

    it "numbers, dates and times out of their form" do
      expect(document("U:\x0dRational[\x07i\x06i\x08")).to be_let_through
      ["U:\x0dRational[\x06i\x06", "U:\x0dRational[\x07i\x06[\x00", "U:\x0dRational[\x07i\x06f\x061", "U:\x0dRational0",
       "U:\x0cComplex[\x07i\x06\"\x06a", "U:\x09Date[\x08i\x06i\x06i\x06",
       "U:\x09Date[\x0bi\x00i\x00i\x04\xff\xff\xff\x7fi\x00i\x00f\x061",
       "u:\x09Time\x0d\x20\x80\x11\x80\x00\x00\x00\x00", "Iu:\x09Time\x06a\x06:\x09zone0",
       "Iu:\x09Time\x0d\x20\x80\x11\x80\x00\x00\x00\x00\x06:\x07@ai\x06",
       "Iu:\x09Time\x0d\x20\x80\x11\x80\x00\x00\x00\x00\x06:\x0boffset[\x00"].each do |body|
        expect(document(body)).to be_refused(/Rational|Complex|Date|Time/)
      end
    end

    it "a BigDecimal that is more than digits" do
      decimal = ->(text) { document("u:\x0fBigDecimal#{packed(text.size)}#{text}") }
      expect(decimal["18:0.15e1"]).to be_let_through
      ["18:", "0.15e1", "18:0.15e1 ", "18:0.1_5e1", "18:15", "18:0.e1", "18:0.1e", "18:0.1e#{"9" * 20}",
       "99999999999:0.1e1"].each { |text| expect(decimal[text]).to be_refused(/BigDecimal/) }
      expect(decimal["999999999:0.1e1"]).to be_let_through.or be_refused(/too long/)
    end
  end

  describe "the bytes themselves" do
    it "end where the value ends" do
      bytes = Marshal.dump([1, { "a" => 2.5 }, Time.at(0)])
      expect(bytes).to be_let_through
      expect("#{bytes}0").to be_refused(/\A1 byte too many\z/)
      expect("#{bytes}000").to be_refused(/\A3 bytes too many\z/)
      bytes.size.times { |size| expect(bytes.byteslice(0, size)).to be_refused(/./) }
    end

    it "are of the one format" do
      expect("\x04\x080").to be_let_through
      ["\x04\x070", "\x03\x080", "\x04\x090", "", "\x04"].each { |bytes| expect(bytes).to be_refused(/./) }
    end

    it "hold what they claim" do
      ["\"", "[", "{", "}", ":", "l+", "f"].each do |type|
        expect(document("#{type}\x04\x00\x00\x00\x40")).to be_refused(/end early/)
        expect(document("#{type}\xfa")).to be_refused(/negative/)
      end
    end
  end

  describe "the work of loading is bounded" do
    it "by depth" do
      nested = ->(depth) { document("#{"[\x06" * depth}0") }
      expect(nested[300]).to be_let_through
      expect(nested[500]).to be_refused(/nested deeper than \d+/)
      expect(nested[100_000]).to be_refused(/nested deeper than \d+/)
    end

    it "by the depth of keys, through links too" do
      chain = ->(length) { "[\x00#{(1..length).map { |index| "[\x06@#{packed(index)}" }.join}" }
      key = ->(length) { document("[#{packed(length + 2)}#{chain[length]}{\x06@#{packed(length + 1)}0") }
      expect(key[10]).to be_let_through
      expect(key[1000]).to be_refused(/too deep/)
    end

    it "by what hashing shared keys costs" do
      laughs = lambda do |times|
        lines = (1..times).map { |index| "[\x07@#{packed(index)}@#{packed(index)}" }.join
        document("[#{packed(times + 2)}[\x00#{lines}{\x06@#{packed(times + 1)}0")
      end
      expect(laughs[3]).to be_let_through
      expect(laughs[40]).to be_refused(/too long/)
      expect(laughs[60]).to be_refused(/too long/)
    end

    it "by what hashing one long key many times costs" do
      long = "\"\x03\x00\x00\x10#{"x" * (1 << 20)}"
      keys = ->(count) { document("[#{packed(count + 1)}#{long}#{"{\x06@\x06i\x00" * count}") }
      expect(keys[10]).to be_let_through
      expect(keys[10_000]).to be_refused(/too long/)
    end

    it "by keys that may all have one hash" do
      expect(Marshal.dump({ Float::NAN => 1, BigDecimal("NaN") => 2, { 1 => 2 } => 3 })).to be_let_through
      expect(document("{#{packed(100_000)}#{"f\x08nan0" * 100_000}")).to be_refused(/too long/)
      decimals = (1..10_000).to_h { |number| [BigDecimal(number) / 4, 1] }
      expect(Marshal.dump(decimals.first(1000).to_h)).to be_let_through
      expect(Marshal.dump(decimals)).to be_refused(/too long/)
    end

    it "by how long the loading of each kind takes: a Time's takes ten times that of an Array" do
      many = ->(count, first, other) { document("[#{packed(count)}#{first}#{other * (count - 1)}") }
      time = "\x0d\x20\x80\x11\x80\x00\x00\x00\x00\x06"
      times = ->(count) { many[count, "Iu:\x09Time#{time}:\x09zone0".b, "Iu;\x00#{time};\x060".b] }
      decimals = ->(count) { many[count, "u:\x0fBigDecimal\x0e18:0.15e1".b, "u;\x00\x0e18:0.15e1".b] }
      expect(Marshal.load(times[3]).uniq.size).to eq(1)
      expect(Marshal.load(decimals[3])).to eq([BigDecimal("1.5")] * 3)

      expect(many[1_500_000, "[\x00", "[\x00"]).to be_let_through
      expect(times[400_000]).to be_let_through
      expect(times[1_000_000]).to be_refused(/more values than can be loaded/)
      expect(decimals[1_000_000]).to be_let_through
      expect(decimals[2_000_000]).to be_refused(/more values than can be loaded/)
    end

    it "not by honest rows that share their keys" do
      rows = Array.new(20_000) { |index| { "id" => index, "name" => "n#{index}", "price" => 1.5, tags: %w[a b] } }
      expect(Marshal.dump(rows)).to be_let_through
      expect(Marshal.dump(rows.group_by { |row| [row["id"] % 9000, row["name"]] })).to be_let_through
    end

    it "by a cycle as a key" do
      array = []
      array << array
      expect(Marshal.dump({ 1 => array })).to be_let_through
      expect(document("{\x06[\x06@\x060")).to be_refused(/leads back to itself/)
    end
  end
end
