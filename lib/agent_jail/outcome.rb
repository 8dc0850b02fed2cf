# frozen_string_literal: true

module AgentJail
  # How a run without a value ended: the exception that names the true cause, built from what the extension gives back.
  class Outcome # :nodoc:
    DENIALS = { "filesystem" => FilesystemError, "metadata" => FilesystemError, "network" => NetworkError,
                "process" => ProcessError }.freeze
    REMEDIES = {
      "filesystem" => "the jail grants no such access: name the path in fs_allow: or fs_read_allow:",
      "metadata" => "a file's mode, owner and times cannot be changed in a jail, whatever is granted",
      "network" => "the jail has no network: pass network: true if the block may have it",
      "process" => "the block may run no program and touch no other process: processes: true lets it run programs",
      "others" => "the block may touch no process but its own, and stay who it is"
    }.freeze

    # What Ruby says before it gives up, of memory and of signals, in a line that the child may have made as it liked.
    HEADLINE = /\[(?:BUG|FATAL)\][^\n]{0,256}/n
    OUT_OF_MEMORY = /mmap|allocat|out of memory/i
    REPORTED = { "[BUG] Segmentation fault" => "SEGV", "[BUG] Bus Error" => "BUS",
                 "[BUG] Illegal instruction" => "ILL" }.freeze

    SIGABRT = Signal.list["ABRT"]
    SIGKILL = Signal.list["KILL"]
    SIGXCPU = Signal.list["XCPU"]

    def initialize(options, kind, payload, ending, usage)
      @options = options
      @kind = kind
      @payload = payload
      @signal, @exit_status = ending
      @usage = Usage.new(*usage).freeze
    end

    def error
      send(:"#{@kind}_error")
    end

    private

    def wall_error
      timeout_error(:timeout, @options[:timeout], "")
    end

    def cpu_error
      timeout_error(:cpu_timeout, cpu_timeout, " of CPU time")
    end

    def memory_error
      limit = @options[:memory_mb] / (1024 * 1024)
      MemoryError.new("the block may allocate #{limit} MiB beyond what it inherited, and wanted more (memory_mb:)",
                      usage: @usage)
    end

    def refused_error
      refused(@payload.force_encoding(Encoding::UTF_8).scrub)
    end

    # The gate let it through and Marshal would not have it: a class that is not loaded here, a broken value.
    def unloadable_error
      class_name, message = @payload
      ResultError.new("the value cannot be loaded: #{message}", original_class: class_name, usage: @usage)
    end

    def raised_error
      raised = Report.unpack(@payload)
      return refused("it is no report of an exception") unless raised

      original = { original_class: raised.class_name, original_message: raised.message,
                   original_backtrace: raised.backtrace, usage: @usage }
      words = Report.readable(raised.message)
      return undumpable(raised, words, original) if raised.stage == "dump"

      denial(raised, words, original) || SandboxError.new(message: "#{raised.class_name}: #{words}", **original)
    end

    # Where the cause cannot be known, the message says just that.
    def ended_error
      return memory_error if headline&.match?(OUT_OF_MEMORY)
      return crash("the child ended, and its status went to somebody else who waits for children") unless @signal
      return crash("the child exited with status #{@exit_status} before it had sent a value") if @signal.zero?

      cpu_used_up? ? cpu_error : killed(signal_name)
    end

    def setup_error
      call, errno, detail = @payload
      reason = [(SystemCallError.new(nil, errno).message unless errno.zero?), (detail unless detail.empty?)].compact
      SetupError.new("the jail could not be closed, so the block did not run: #{[call, *reason].join(": ")}",
                     usage: @usage)
    end

    def timeout_error(option, seconds, of_what)
      TimeoutError.new("the block was stopped at its #{option} of #{seconds} seconds#{of_what}", usage: @usage)
    end

    def refused(why)
      ResultError.new("the result was refused: #{why}", usage: @usage)
    end

    def undumpable(raised, words, original)
      ResultError.new("the value cannot be dumped: #{raised.class_name}: #{words}", **original)
    end

    def denial(raised, words, original)
      remedy = raised.door == "process" && @options[:processes] ? "others" : raised.door
      DENIALS[raised.door]&.new("#{words} (#{REMEDIES[remedy]})", **original)
    end

    def cpu_timeout
      @options[:cpu_timeout] || @options[:timeout]
    end

    # SIGXCPU comes at the soft limit, SIGKILL a second later for a block that would not hear. Anybody can send either.
    # Where the usage is not known SIGXCPU is taken at its word.
    def cpu_used_up?
      return @signal == SIGXCPU if @usage.cpu.nil?

      [SIGXCPU, SIGKILL].include?(@signal) && @usage.cpu >= cpu_timeout
    end

    # The first line of a crash report, readable; nil where there is none.
    def headline
      @headline ||= @payload && @payload.b[HEADLINE]&.then { |line| Report.readable(line.force_encoding("UTF-8")) }
    end

    # Ruby reports a crash, then aborts: what came first is the cause.
    def signal_name
      _, reported = REPORTED.find { |words, _| headline&.include?(words) } if @signal == SIGABRT
      reported || Signal.signame(@signal) || @signal.to_s
    end

    def killed(signal)
      by = " (by its own hand, by the kernel for want of memory, or by somebody else)" if signal == "KILL"
      crash("the child was killed by SIG#{signal}#{by}", signal: signal)
    end

    def crash(message, signal: nil)
      report = @payload && Report.readable(@payload.force_encoding(Encoding::UTF_8))
      message = "#{message}: #{headline}" if headline
      CrashError.new(message, signal: signal, exit_status: signal ? nil : @exit_status, report: report, usage: @usage)
    end
  end
end
