# frozen_string_literal: true

module AgentJail
  # What this machine is and what it can enforce.
  module Platform
    class << self
      def linux?
        RUBY_PLATFORM.include?("linux")
      end

      def macos?
        RUBY_PLATFORM.include?("darwin")
      end

      def windows?
        RUBY_PLATFORM.match?(/mingw|mswin|cygwin/)
      end

      # True where the gem has a native extension that can fork and confine a child.
      def fork_supported?
        RUBY_ENGINE == "ruby" && linux?
      end

      # True when the running kernel has Landlock and it is switched on. It is asked, not guessed from a version.
      def landlock_supported?
        landlock_abi.positive?
      end

      # The version of the Landlock interface that the running kernel speaks, an Integer; 0 when it has none.
      def landlock_abi
        fork_supported? ? Native.landlock_abi : 0
      end

      # The running kernel's version as a Gem::Version ("6.18"); "0.0" where it is not Linux or cannot be read.
      def kernel_version
        numbers = linux? ? File.read("/proc/sys/kernel/osrelease")[/\A\d+\.\d+/] : nil
        Gem::Version.new(numbers || "0.0")
      rescue SystemCallError
        Gem::Version.new("0.0")
      end
    end
  end
end
