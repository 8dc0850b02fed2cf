# frozen_string_literal: true

module AgentJail
  # What the child calls: puts the environment as the options want it, then runs the block.
  class Entry # :nodoc:
    # The block itself where there is nothing to do before it: every call more is memory that the child touches.
    def self.for(options, tmpdir, block)
      plain = options[:env] == :inherit && tmpdir.nil? && !options[:processes] && Fiber.current_scheduler.nil? &&
              !defined?(::Continuation) && !Native.fiber?
      plain ? block : new(options, tmpdir, block).method(:call).to_proc
    end

    def initialize(options, tmpdir, block)
      @in_fiber = Native.fiber?
      @options = options
      @tmpdir = tmpdir
      @block = block
    end

    def call
      Fiber.current_scheduler ? call_in_blocking_fiber : enter
    end

    private

    # A fiber scheduler waits on descriptors that it shares with the parent: in the child nothing may come to it.
    def call_in_blocking_fiber
      locals = Thread.current.keys.to_h { |name| [name, Thread.current[name]] }
      fiber = Fiber.new(blocking: true) do
        locals.each { |name, value| Thread.current[name] = value }
        enter
      end
      value = fiber.resume
      fiber.alive? ? raise(FiberError, "the block yielded to a fiber outside") : value
    end

    # A continuation of the parent's would leave the jail's frames and run the parent's code in the child.
    def refuse_continuations
      ::Continuation.class_eval do
        define_method(:call) { |*| raise ThreadError, "a continuation cannot be called in a jail" }
        alias_method :[], :call
      end
    end

    # So would a transfer to the fiber that this one was resumed from.
    def refuse_transfers
      ::Fiber.class_eval do
        define_method(:transfer) { |*| ::Kernel.raise FiberError, "a fiber cannot be transferred to in a jail" }
      end
    end

    def enter
      refuse_transfers if @in_fiber
      refuse_continuations if defined?(::Continuation)
      # The parent's handler would reap the programs that the block runs.
      trap("CHLD", "DEFAULT") if @options[:processes]
      change_environment
      @block.call
    end

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
