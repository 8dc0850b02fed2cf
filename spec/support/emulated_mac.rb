# frozen_string_literal: true

require "fileutils"
require "open3"

require_relative "suite_directory"

# The gem as it is on macOS, run on Linux: the extension's macOS parts, built by extconf.rb as there, on top of
# macos/emulation.c, in a Ruby that takes itself for a Mac's. All is real but the sandbox, which is only written down.
module EmulatedMac
  PRELUDE = <<~RUBY
    Object.send(:remove_const, :RUBY_PLATFORM)
    RUBY_PLATFORM = "arm64-darwin23"
  RUBY

  class << self
    # The directory to put on the load path, or nil where it cannot be built.
    def lib
      return @lib if defined?(@lib)

      @lib = build
    end

    # What the failed build said.
    attr_reader :log

    private

    def build
      directory = SuiteDirectory.make("agent_jail_macos")
      copy_lib(directory)
      return unless commands.all? { |command| ran?(*command, directory) }

      FileUtils.cp(File.join(directory, "agent_jail_ext.so"), File.join(directory, "lib/agent_jail"))
      File.join(directory, "lib")
    end

    # With what makes Ruby take itself for a Mac's at its beginning.
    def copy_lib(directory)
      FileUtils.cp_r(File.expand_path("../../lib", __dir__), directory)
      FileUtils.rm_f(Dir.glob("#{directory}/lib/agent_jail/agent_jail_ext.*"))
      main = File.join(directory, "lib/agent_jail.rb")
      File.write(main, PRELUDE + File.read(main))
    end

    # extconf.rb as on macOS, the emulation, and make with both.
    def commands
      extconf = File.expand_path("../../ext/agent_jail/extconf.rb", __dir__)
      headers = "#{__dir__}/macos/sdk/system"
      objects = %w[emulation sandbox]
      cc = [*RbConfig::CONFIG["CC"].split, "-c", "-fPIC", "-O1", "-std=c11", "-D_GNU_SOURCE", "-Wall", "-Wextra",
            "-Werror", "-isystem", headers]
      [[{ "AGENT_JAIL_TARGET" => "darwin" }, [RbConfig.ruby, extconf]],
       *objects.map { |name| [{}, [*cc, "-o", "#{name}.o", "#{__dir__}/macos/#{name}.c"]] },
       [{}, ["make", "ARCH_FLAG=-isystem #{headers} -include #{__dir__}/macos/emulation.h -Werror=implicit", "LOCAL_LIBS=#{objects.map { |name| "#{name}.o" }.join(" ")}"]]]
    end

    def ran?(environment, command, directory)
      output, status = Open3.capture2e(FreshRuby::BLANK.merge(environment), *command, chdir: directory)
      @log = output
      status.success?
    end
  end

  # A fresh Ruby, as fresh_ruby gives one, that takes itself for a Mac's.
  def mac_ruby(code, *args, env: {}, timeout: 60)
    FreshRuby.spawn([RbConfig.ruby, "-I#{EmulatedMac.lib}", "-ragent_jail", "-e", code, "--", *args.map(&:to_s)], env, nil,
                    timeout)
  end
end
