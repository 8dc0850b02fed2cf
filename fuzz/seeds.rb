# frozen_string_literal: true

# Writes the seed corpus of the gate's fuzzer: ruby fuzz/seeds.rb
# A file per wire form, and a few that the gate must refuse.

require "bigdecimal"
require "date"
require "fileutils"
require "set"

module Seeds
  CORPUS = File.expand_path("corpus", __dir__)

  # Classes under the one-letter names that gate_fuzzer.c permits.
  PERMITTED = {
    "object" => "o:\x06O\x06:\x07@ai\x06",
    "struct" => "S:\x06S\x06:\x06ai\x06",
    "struct_ivars" => "IS:\x06S\x06:\x06ai\x06\x06:\x07@bi\x07",
    "string" => "IC:\x06C\"\x06a\x06:\x06ET",
    "array" => "IC:\x06C[\x06i\x06\x06:\x07@bi\x07",
    "hash" => "C:\x06CC:\x09Hash{\x06i\x06i\x07",
    "user_defined" => "Iu:\x06D\x06a\x06:\x06ET",
    "user_marshal" => "U:\x06M[\x06i\x06"
  }.freeze

  REFUSED = {
    "regexp" => "I/\x06a\x00\x06:\x06EF",
    "class" => "c\x0bObject",
    "module" => "m\x0bKernel",
    "extended" => "e:\x0bKernelo:\x0bObject\x00",
    "data" => "d:\x0bObject0",
    "keywords" => "I{\x00\x06:\x06KT",
    "encoding" => "I\"\x06a\x06:\x0dencoding\"\x09evil",
    "long_string" => "\"\x04\x00\x00\x00\x40a",
    "long_array" => "[\x04\x00\x00\x00\x40",
    "future_link" => "[\x07@\x07i\x06"
  }.freeze

  module_function

  def plain
    japanese = "\u3042".encode("EUC-JP")
    shared = [1.5, 2**70, "s", Time.at(0, 1, :nsec).utc, :sym]
    cyclic = []
    cyclic << cyclic
    {
      "nil" => nil, "true" => true, "false" => false, "zero" => 0, "fixnums" => [1, -1, 300, -300, 70_000, -(2**30)],
      "bignums" => [2**31, -(2**64)], "floats" => [0.5, -0.0, 1e300, Float::INFINITY, -Float::INFINITY, Float::NAN],
      "binary" => "\xff".b, "ascii" => "a".encode("US-ASCII"), "utf8" => "\u00e9",
      "encodings" => [japanese, japanese.dup, japanese.to_sym, "a".encode("UTF-16LE")],
      "symbols" => %i[a b a] + [:é], "array" => [1, [2, [3]]], "hash" => { a: { b: 1 } },
      "default_hash" => Hash.new(3).merge!(1 => 2), "identity_hash" => {}.compare_by_identity.merge!(1 => 2),
      "ranges" => [1..2, ("a"..), (nil..nil), (1.0...2)], "set" => Set[1, "a"],
      "identity_set" => Set[1].compare_by_identity, "rational" => Rational(1, 3),
      "complex" => [Complex(1, 2.0), Complex(Rational(1, 2), 3)],
      "date" => [Date.new(2001, 2, 3), Date.new(10**20, 1, 1)],
      "datetime" => DateTime.new(2001, 2, 3, 4, 5, Rational(1, 10**12), "+3"),
      "times" => [Time.at(0).utc, Time.at(0, in: "+09:00"), Time.at(Rational(1, 3)), Time.new(10**30)],
      "decimals" => %w[1.5 NaN -Infinity -0 1e-400].map { |text| BigDecimal(text) },
      "links" => shared + shared, "cyclic" => cyclic, "array_keys" => { [1, 2] => 1, [[1]] => 2 }
    }
  end

  def write
    FileUtils.mkdir_p(CORPUS)
    plain.each { |name, value| File.binwrite("#{CORPUS}/plain_#{name}", Marshal.dump(value)) }
    PERMITTED.each { |name, bytes| File.binwrite("#{CORPUS}/permitted_#{name}", "\x04\x08#{bytes}") }
    REFUSED.each { |name, bytes| File.binwrite("#{CORPUS}/refused_#{name}", "\x04\x08#{bytes}") }
  end
end

Seeds.write if $PROGRAM_NAME == __FILE__
