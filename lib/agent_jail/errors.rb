# frozen_string_literal: true

module AgentJail
  # What every error of a run is.
  class Error < StandardError
    # AgentJail::Usage of the run, or nil when there was none.
    attr_reader :usage

    def initialize(message = nil, usage: nil)
      @usage = usage
      super(message)
    end
  end

  # The exception that the block raised, as strings: the object itself does not cross. Where there was none, all are nil
  # but the message.
  module Original
    # Name of the exception's class.
    attr_reader :original_class

    # Its message, byte for byte.
    attr_reader :original_message

    # Its backtrace, an Array of String, or nil.
    attr_reader :original_backtrace

    private

    def remember(original_class, original_message, original_backtrace)
      @original_class = original_class
      @original_message = original_message
      @original_backtrace = original_backtrace
    end
  end

  # The block went over its time: +timeout+ on the clock, or +cpu_timeout+ of CPU time.
  class TimeoutError < Error; end

  # The block wanted more memory than +memory_mb+ beyond what it inherited.
  class MemoryError < Error; end

  # The jail could not be prepared or closed, so the block did not run. It is never the block's fault.
  class SetupError < Error
    # Before the fork: a call failed, as in "pipe2: Too many open files".
    def self.preparing(call, errno) # :nodoc:
      reason = errno.zero? ? "failed" : SystemCallError.new(nil, errno).message
      new("the jail could not be prepared, so the block did not run: #{call}: #{reason}")
    end
  end

  # This platform cannot jail, and +on_unsupported+ is :raise.
  class UnsupportedPlatformError < Error; end

  # The block tried something that the jail forbids, and let the refusal reach the end of the block.
  class DeniedError < Error
    include Original

    def initialize(message = nil, original_class: nil, original_message: nil, original_backtrace: nil, usage: nil)
      remember(original_class, original_message, original_backtrace)
      super(message, usage: usage)
    end
  end

  # A path that neither +fs_allow+ nor +fs_read_allow+ grants, or not for that; a file's mode, owner or times; any other
  # EACCES or EPERM that Ruby raises.
  class FilesystemError < DeniedError; end

  # A socket, without <tt>network: true</tt>.
  class NetworkError < DeniedError; end

  # A program or a fork, without <tt>processes: true</tt>; a signal to somebody outside, another user or group.
  class ProcessError < DeniedError; end

  # The block raised an exception, or was left by break, return or throw.
  class SandboxError < Error
    include Original

    def initialize(original_class:, original_message:, original_backtrace:, message: nil, usage: nil)
      remember(original_class, original_message, original_backtrace)
      super(message || "#{original_class}: #{original_message}", usage: usage)
    end
  end

  # The child died before it had sent a value: by a signal, or by an exit.
  class CrashError < SandboxError
    # Name of the signal ("KILL"), or nil.
    attr_reader :signal

    # Exit status, or nil when a signal ended the child or the status is not known.
    attr_reader :exit_status

    # Ruby's crash report ("[BUG] ..."), its first 64 KiB, or nil when there was none.
    attr_reader :report

    def initialize(message, signal: nil, exit_status: nil, report: nil, usage: nil)
      @signal = signal
      @exit_status = exit_status
      @report = report
      original_class, original_message = signal ? ["SignalException", "SIG#{signal}"] : %w[SystemExit exit]
      super(original_class: original_class, original_message: original_message, original_backtrace: nil,
            message: message, usage: usage)
    end
  end

  # The block's value cannot be handed over: it cannot be dumped, holds a class that is not permitted, is too large, or
  # is not what the jail sends.
  class ResultError < SandboxError
    def initialize(message, original_class: nil, original_message: nil, original_backtrace: nil, usage: nil)
      super(original_class: original_class, original_message: original_message || message,
            original_backtrace: original_backtrace, message: message, usage: usage)
    end
  end
end
