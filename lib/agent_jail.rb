# frozen_string_literal: true

require_relative "agent_jail/version"
require_relative "agent_jail/errors"
require_relative "agent_jail/usage"
require_relative "agent_jail/platform"
require_relative "agent_jail/option"
require_relative "agent_jail/configuration"
require_relative "agent_jail/system_paths"
require_relative "agent_jail/permits"
require_relative "agent_jail/denial"
require_relative "agent_jail/report"
require_relative "agent_jail/outcome"
require_relative "agent_jail/entry"
require_relative "agent_jail/runner"
require "agent_jail/agent_jail_ext" if AgentJail::Platform.fork_supported?
# Ruby's M:N threads have their stacks in half a gigabyte of address space, taken with the first of them: that is to be
# inherited, and not the block's.
Thread.new { nil }.join if RUBY_DESCRIPTION.include?("+MN")

# Runs a block in a forked child that the kernel confines, and brings its value back.
#
#   AgentJail.run(timeout: 5, memory_mb: 256, fs_allow: ["/app/tmp"]) { tool.call(arguments) }
#
# See AgentJail.run for the call, AgentJail::Configuration for the defaults, AgentJail::Error for what it raises.
module AgentJail
  @configuration = Configuration.new.validate!
  @configuring = Mutex.new

  class << self
    # The AgentJail::Configuration in force. Frozen: change it through AgentJail.configure.
    attr_reader :configuration

    # Yields a copy of the configuration and puts it in force when the block has returned and every value is sound.
    # A block that raises, or leaves a value that is not sound, changes nothing.
    #
    #   AgentJail.configure do |c|
    #     c.default_timeout = 10      # seconds
    #     c.default_memory_mb = 256   # MiB beyond what the parent has
    #     c.on_unsupported = :raise
    #   end
    #
    # Raises ArgumentError or TypeError, naming the option.
    def configure
      raise ArgumentError, "AgentJail.configure needs a block" unless block_given?

      @configuring.synchronize do
        changed = configuration.dup
        yield changed
        @configuration = changed.validate!
      end
      nil
    end

    # Puts the configuration back to what it is after loading the gem.
    def reset!
      @configuration = Configuration.new.validate!
      nil
    end

    # Runs the block in a jail and returns its value.
    #
    # The block sees everything its closure sees; nothing it changes comes back but its value, which may hold plain
    # values (nil, true, false, numbers, strings, symbols, arrays, hashes, ranges, Set, Time, Date, DateTime,
    # BigDecimal) and the +permitted_classes+.
    #
    # No deeper than 400 and no larger than what can be loaded in a few seconds.
    #
    # [+timeout+]           seconds on the clock, a fraction is fine (default 30)
    # [+cpu_timeout+]       seconds of CPU time (default: the same as +timeout+)
    # [+memory_mb+]         MiB that the block may allocate beyond what it inherited (default 512); this and
    #                       +cpu_timeout+ hold for each process where there are several
    # [+fs_allow+]          paths the block may read and write, and all beneath them (default [])
    # [+fs_read_allow+]     paths the block may read, and all beneath them (default [])
    # [+network+]           true: sockets may be opened, Unix sockets too (default false)
    # [+processes+]         true: programs may be run; they end with the run (default false)
    # [+inherit+]           IO objects that stay open in the jail (default [])
    # [+permitted_classes+] classes, or their names, that the value may hold (default [])
    # [+max_result_mb+]     MiB of the value's dump (default 64)
    # [+max_file_mb+]       MiB of each file that the block writes (default 1024)
    # [+max_open_files+]    descriptors that the block may open (default 256)
    # [+env+]               :inherit, an Array of names to keep, or a Hash that is the whole ENV (default :inherit)
    # [+tmpdir+]            true: a private directory for temporary files, removed afterwards (default false)
    #
    #   AgentJail.run(timeout: 0.5) { 21 * 2 }                                 # => 42
    #   AgentJail.run(timeout: 0.5) { loop {} }                                # raises AgentJail::TimeoutError
    #   AgentJail.run { File.read("/etc/passwd") }                             # raises AgentJail::FilesystemError
    #   AgentJail.run(fs_read_allow: ["config"]) { File.read("config/a.yml") } # => "..."
    #
    # Raises ArgumentError or TypeError for options that are not sound, Errno::ENOENT (ENOTDIR, EACCES) for a path that
    # is not there, before anything is forked; else one of the subclasses of AgentJail::Error.
    #
    # Where the platform cannot jail, +on_unsupported+ decides: :warn, the default, says so once and goes on with what
    # there is, on a platform without the extension with no jail at all.
    def run(**options, &block)
      raise ArgumentError, "AgentJail.run needs a block: AgentJail.run(timeout: 5) { ... }" unless block

      Runner.new(configuration.resolve(options), configuration.on_unsupported, block).run
    end
  end
end
