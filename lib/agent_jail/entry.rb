# frozen_string_literal: true

module AgentJail
  # What the child calls: puts the environment as the options want it, then runs the block.
  class Entry # :nodoc:
    # The block itself where there is nothing to do before it: every call more is memory that the child touches.
    def self.for(options, tmpdir, block)
      plain = options[:env] == :inherit && tmpdir.nil? && !options[:processes]
      plain ? block : new(options, tmpdir, block)
    end

    def initialize(options, tmpdir, block)
      @options = options
      @tmpdir = tmpdir
      @block = block
    end

    def call
      # The parent's handler would reap the programs that the block runs.
      trap("CHLD", "DEFAULT") if @options[:processes]
      change_environment
      @block.call
    end

    private

    def change_environment
      names = @options[:env]
      unless names == :inherit
        ENV.replace(names.is_a?(Array) ? ENV.to_h.slice(*names) : names)
        Native.erase_environment
      end
      ENV["TMPDIR"] = @tmpdir if @tmpdir
    end
  end
end
