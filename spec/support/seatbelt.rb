# frozen_string_literal: true

require "fiddle"

require_relative "suite_directory"

# The builder of macOS profiles, which is plain C: compiled by itself, with a sandbox_init that writes down what it got,
# wherever there is a compiler.
module Seatbelt
  READ = 1
  WRITE = 2
  EXECUTE = 4
  ITSELF = 64

  class << self
    # Where there is none, neither was the extension built here.
    def compiler?
      system(*RbConfig::CONFIG["CC"].split, "--version", out: File::NULL, err: File::NULL) == true
    end

    # The text of a profile. +grants+: [path, access] in their order; +see+: paths to be looked at.
    def profile(grants = [], network: false, processes: false, see: [])
      call("begin", network ? 1 : 0, processes ? 1 : 0)
      grants.each { |path, access| call("grant", path, access) }
      see.each { |path| call("see", path) }
      call("finish")
      text("text")
    end

    # What seatbelt_apply says of a profile when sandbox_init is told so: nil, or [call, why, errno].
    def apply(environment)
      before = environment.to_h { |name, _| [name, getenv(name)] }
      environment.each { |name, value| setenv(name, value) }
      failed = function("apply", []).call
      error = function("error", [], Fiddle::TYPE_INT).call
      failed.null? ? nil : [failed.to_s, text("why"), error]
    ensure
      before&.each { |name, value| setenv(name, value) }
    end

    private

    # Ruby's own ENV reaches C.
    def setenv(name, value)
      ENV[name] = value
    end

    def getenv(name)
      ENV.fetch(name, nil)
    end

    def call(name, *arguments)
      types = arguments.map { |argument| argument.is_a?(Integer) ? Fiddle::TYPE_INT : Fiddle::TYPE_VOIDP }
      failed = function(name, types).call(*arguments)
      return if failed.null?

      error = function("error", [], Fiddle::TYPE_INT).call
      raise SystemCallError.new(failed.to_s, error)
    end

    def text(name)
      function(name, []).call.to_s.force_encoding(Encoding::UTF_8)
    end

    def function(name, types, type = Fiddle::TYPE_VOIDP)
      @functions ||= {}
      @functions[name] ||= Fiddle::Function.new(library["profile_#{name}"], types, type)
    end

    def library
      @library ||= build
    end

    def build
      directory = SuiteDirectory.make("agent_jail_seatbelt")
      path = File.join(directory, "seatbelt.so")
      extension = File.expand_path("../../ext/agent_jail", __dir__)
      sources = ["#{extension}/seatbelt.c", *%w[profile sandbox].map { |name| "#{__dir__}/macos/#{name}.c" }]
      command = [*RbConfig::CONFIG["CC"].split, "-std=c11", "-shared", "-fPIC", "-O1", "-D_GNU_SOURCE", "-Wall", "-Wextra",
                 "-Werror", "-I#{extension}", "-o", path, *sources]
      system(*command, exception: true)
      Fiddle.dlopen(path)
    end
  end
end
