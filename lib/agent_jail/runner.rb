# frozen_string_literal: true

module AgentJail
  # One call of AgentJail.run: from its options to the value, or the exception.
  class Runner # :nodoc:
    @warned = {}
    @warning = Mutex.new

    class << self
      # Says a thing once per process.
      def warn_once(words)
        first = @warning.synchronize { @warned.key?(words) ? false : (@warned[words] = true) }
        warn("AgentJail: #{words}") if first
      end
    end

    def initialize(options, on_unsupported, block)
      @options = options
      @on_unsupported = on_unsupported
      @block = block
    end

    def run
      return run_without_jail unless Platform.fork_supported?

      unsupported("Landlock is not in this kernel, so no path is closed to the block") unless Platform.landlock_supported?
      Outcome.new(@options, *Native.run(Plan.for(@options), entry)).value
    end

    private

    # What the child calls.
    def entry
      return @block if @options[:env] == :inherit

      lambda do
        ENV.replace(environment)
        @block.call
      end
    end

    def environment
      names = @options[:env]
      names.is_a?(Array) ? ENV.to_h.slice(*names) : names
    end

    def run_without_jail
      unsupported("#{RUBY_ENGINE} on #{RUBY_PLATFORM} cannot jail, so the block runs as if there were none")
      @block.call
    end

    def unsupported(what)
      raise UnsupportedPlatformError, what if @on_unsupported == :raise

      Runner.warn_once(what) if @on_unsupported == :warn
    end
  end
end
