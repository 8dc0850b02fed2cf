# frozen_string_literal: true

require "date"
require "set"

# A Ruby that cannot be had here may write plain values in forms of its own: from 4.0 on Set is no more a class that is
# written in Ruby. These are what Ruby 4.0.0, in its build for WebAssembly, made of the values.
RSpec.describe "The gate and the dumps of Ruby 4.0" do
  dumps = {
    "BAhvOghTZXQGOgpAaGFzaH0HaQZUSSIGYQY6BkVUVEY=" =>
      Set[1, "a"],
    "BAhvOghTZXQGOgpAaGFzaH0ARg==" =>
      Set[],
    "BAhvOghTZXQGOgpAaGFzaEM6CUhhc2h9BmkGVEY=" =>
      Set[1].compare_by_identity,
    "BAhbB286CFNldAY6CkBoYXNofQZvOwAGOwZ9BmkGVEZURm87AAY7Bn0GWwZpBlRG" =>
      [Set[Set[1]], Set[[1]]],
    "BAhvOghTZXQGOgpAaGFzaH0GaQZURg==" =>
      Set[1].freeze,
    "BAhbCW86ClJhbmdlCDoJZXhjbEY6CmJlZ2luaQY6CGVuZGkHbzsACDsGRjsHSSIGYQY6BkVUOwgwbzsACDsGRjsHMDsIMG87AAg7BlQ7B2YGMTsIaQc=" =>
      [1..2, ("a"..), (nil..nil), (1.0...2)],
    "BAhVOg1SYXRpb25hbFsHaQZpCA==" =>
      Rational(1, 3),
    "BAhbBlU6DENvbXBsZXhbB2kGZgYy" =>
      [Complex(1, 2.0)],
    "BAhbCEl1OglUaW1lDSCAEcAAAAAABjoJem9uZUkiCFVUQwY6BkVGSXU7AA0ggBGAAAAAAAc6C29mZnNldGkCkH47BjBJdTsADSCAEYAVFgUACjoNbmFub19udW1pAugDOg1uYW5vX2RlbmkIOg1zdWJtaWNybyIHMzA7CGkAOwZABg==" =>
      [Time.at(0).utc, Time.at(0, in: "+09:00"), Time.at(Rational(1, 3), in: "+00:00")],
    "BAhVOglEYXRlWwtpAGkD6GklaQBpAGkAZgwyMjk5MTYx" =>
      Date.new(2001, 2, 3),
    "BAhVOg1EYXRlVGltZVsLaQBpA+hpJWkCcjlpAGkAZgwyMjk5MTYx" =>
      DateTime.new(2001, 2, 3, 4, 5, 6),
    "BAh9BmkGaQdpCA==" =>
      Hash.new(3).merge!(1 => 2),
    "BAhDOglIYXNoewZpBmkH" =>
      {}.compare_by_identity.merge!(1 => 2),
    "BAhbBzoGYUk6B8OpBjoGRVQ=" =>
      %i[a é],
    "BAhbCW86CFNldAY6CkBoYXNofQZpBlRGQAZJIgZ4BjoGRVRABg==" =>
      [Set[1], Set[1], "x", Set[1]]
  }

  def refusal(bytes)
    AgentJail::Native.refusal(bytes, [], Encoding.list.map(&:name))
  end

  dumps.each do |dump, value|
    it "lets #{value.inspect} through, and it loads" do
      bytes = dump.unpack1("m0")

      expect(refusal(bytes)).to be_nil
      expect(Marshal.load(bytes).then { |loaded| [loaded.class, loaded.inspect] }).to eq [value.class, value.inspect]
    end
  end

  it "holds them to the name of their class" do
    bytes = dumps.key(Set[1, "a"]).unpack1("m0")
    expect(refusal(bytes.sub("Set", "Sat"))).to match(/Sat is not permitted/)
  end
end
