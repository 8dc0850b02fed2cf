# frozen_string_literal: true

require "tmpdir" # now, not when it is wanted: nothing can be loaded in a trap handler

module AgentJail
  # One call of AgentJail.run: from its options to the value, or the exception.
  class Runner # :nodoc:
    @warned = {}
    @warning = Mutex.new

    class << self
      # Says a thing once per process.
      def warn_once(words)
        warn("AgentJail: #{words}") if @warning.synchronize { first?(words) }
      rescue ThreadError # in a trap handler, where nothing can be locked
        warn("AgentJail: #{words}") if first?(words)
      end

      private

      def first?(words)
        @warned.key?(words) ? false : (@warned[words] = true)
      end
    end

    def initialize(options, on_unsupported, block)
      @options = options
      @on_unsupported = on_unsupported
      @block = block
    end

    def run
      return run_without_jail unless Platform.fork_supported?

      missing = Platform.unenforced
      unless missing.empty?
        unsupported("this kernel has no #{missing.join(", no ")}", "what stands in brackets is not confined")
      end
      @options[:tmpdir] ? run_with_tmpdir : run_in_jail(@options)
    end

    private

    def run_in_jail(options, tmpdir = nil)
      grants = SystemPaths.grants(network: options[:network], processes: options[:processes])
      kind, *rest = Native.run(options, grants, &Entry.for(options, tmpdir, @block))
      return rest.first if kind == :value

      raise Outcome.new(options, kind, *rest).error
    end

    # Others may write to the directory that it lies in, blocks among them: its own name is never followed.
    def run_with_tmpdir
      tmpdir = Dir.mktmpdir("agent_jail-", File.realpath(Dir.tmpdir))
      run_in_jail(@options.merge(tmpdir: tmpdir), tmpdir)
    ensure
      remove(tmpdir) if tmpdir
    end

    # What cannot be removed is said, and takes nothing away from how the run ended.
    def remove(tmpdir)
      Native.remove_tree(tmpdir)
    rescue SystemCallError => e
      warn("AgentJail: the private directory #{tmpdir} stays behind: #{e.message}")
    end

    def run_without_jail
      unsupported("#{RUBY_ENGINE} on #{RUBY_PLATFORM} cannot jail", "the block runs without a jail")
      @block.call
    end

    def unsupported(what, consequence)
      raise UnsupportedPlatformError, what if @on_unsupported == :raise

      Runner.warn_once("#{what}: #{consequence}") if @on_unsupported == :warn
    end
  end
end
