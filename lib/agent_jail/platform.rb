# frozen_string_literal: true

require "etc"

module AgentJail
  # What this machine is and what it can enforce.
  module Platform
    # What closes which door: shown by Platform.report, and told by AgentJail.run where it is not there.
    MECHANISMS = {
      landlock: "Landlock (paths)",
      signals: "Landlock's signal scope (signals, of programs too)",
      seccomp: "seccomp (network, processes, file modes, the kernel's other doors)",
      capabilities: "capabilities (root's privileges, but for CAP_DAC_OVERRIDE)",
      pidfd: "process descriptors (the child's end is seen at once)",
      address_space: "/proc/self/statm (memory beyond what was inherited)",
      tools: "/dev/null and memfd_create (what a jail is made with)"
    }.freeze

    # Those without which no jail can be closed: no block runs.
    REQUIRED = %i[capabilities address_space tools].freeze

    # Those without which the jail does not hold what it promises.
    NEEDED = [:landlock, :seccomp, *REQUIRED].freeze

    # What follows where one is not there, beyond its name.
    WITHOUT = { pidfd: "the child's end is looked for every 5 ms",
                **REQUIRED.to_h { |name| [name, "no block is run"] } }.freeze

    # What the filter has tables for. The x32 interface of x86-64 is another.
    ARCHITECTURES = /\A(?:x86_64|aarch64)-(?!.*x32)/

    # The same on macOS, where the jail needs both.
    MACOS_MECHANISMS = {
      seatbelt: "Seatbelt, in a process that is in no sandbox yet (paths, network, processes, other processes)",
      footprint: "the memory footprint (memory beyond what was inherited)"
    }.freeze

    class << self
      # True on Linux.
      def linux?
        RUBY_PLATFORM.include?("linux")
      end

      # True on macOS.
      def macos?
        RUBY_PLATFORM.include?("darwin")
      end

      # True on Windows.
      def windows?
        RUBY_PLATFORM.match?(/mingw|mswin|cygwin/)
      end

      # True where the gem has a native extension that can fork and confine a child.
      def fork_supported?
        RUBY_ENGINE == "ruby" && (macos? || (linux? && RUBY_PLATFORM.match?(ARCHITECTURES)))
      end

      # True when the running kernel has Landlock and it is switched on. It is asked, not guessed from a version.
      def landlock_supported?
        landlock_abi.positive?
      end

      # The version of the Landlock interface that the running kernel speaks, an Integer; 0 when it has none.
      def landlock_abi
        fork_supported? && linux? ? Native.landlock_abi : 0
      end

      # What the running kernel enforces, by mechanism: an Integer (Landlock's ABI), true or false.
      #
      #   AgentJail::Platform.enforcement # => { landlock: 7, signals: true, seccomp: true, pidfd: true, ... }
      def enforcement
        return mechanisms.to_h { |name, _| [name, false] } unless fork_supported?
        return Native.enforcement if macos?

        abi = landlock_abi
        { landlock: abi.zero? ? false : abi, **Native.enforcement }
      end

      # What is needed and not there, in words; empty where the jail holds all that it promises.
      def unenforced
        @unenforced ||= enforcement.slice(*needed).filter_map { |name, there| mechanisms[name] unless there }.freeze
      end

      # The same for a person, a line per mechanism.
      def report
        rows = enforcement.map { |name, there| [mechanisms[name], describe(name, there)] }
        width = rows.map { |title, _| title.size }.max
        ["agent_jail #{VERSION} on #{RUBY_PLATFORM}, kernel #{kernel_name}",
         *rows.map { |title, words| "#{title.ljust(width)}  #{words}" }].join("\n")
      end

      # The running kernel's version as a Gem::Version ("6.18"); "0.0" where it is not Linux.
      def kernel_version
        Gem::Version.new((linux? && Etc.uname[:release][/\A\d+\.\d+/]) || "0.0")
      end

      private

      def kernel_name
        macos? ? Etc.uname[:release] : kernel_version
      end

      def mechanisms
        macos? ? MACOS_MECHANISMS : MECHANISMS
      end

      def needed
        macos? ? MACOS_MECHANISMS.keys : NEEDED
      end

      def describe(name, there)
        case there
        when Integer then "ABI #{there}"
        when true then "yes"
        else ["NO", *(WITHOUT[name] if fork_supported?)].join(": ")
        end
      end
    end
  end
end
