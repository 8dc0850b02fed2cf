# frozen_string_literal: true

module AgentJail
  # Tells which door of the jail an exception ran into. Asked in the child, of the exception that ended the block and of
  # its causes, since a library may have wrapped the refusal.
  module Denial # :nodoc:
    PERMISSION = [Errno::EACCES, Errno::EPERM].freeze

    # Methods of Ruby that concern processes, for which EPERM says nothing about a file.
    PROCESS_METHODS = %w[fork _fork spawn system exec ` popen popen2 popen2e popen3 getpty kill setsid setpgid setpgrp
                         daemon setpriority setrlimit setuid seteuid setreuid setresuid setruid setgid setegid
                         setregid setresgid setrgid initgroups groups= uid= euid= gid= egid= change_privilege
                         grant_privilege].freeze

    # Methods for what no grant covers.
    METADATA_METHODS = %w[chmod lchmod chown lchown utime lutime].freeze

    # PTY reports whatever happened in these words.
    PTY_REFUSED = "can't get Master/Slave device"

    # The filter answers ENETUNREACH, which no file can be. Name resolution makes errors of its own out of that, without
    # a cause, or gives up at the files that only a jail with a network may read.
    RESOLUTION = %w[SocketError Socket::ResolutionError Resolv::ResolvError Resolv::ResolvTimeout].freeze
    RESOLUTION_FILES = %w[/etc/hosts /etc/resolv.conf].freeze

    # A driver in C says so in an error of its own.
    UNREACHABLE = Errno::ENETUNREACH.new.message.b.freeze

    # On macOS a socket is refused as a file would be. Ruby names the call.
    SOCKET_CALL = /\b(?:socket|connect|bind|listen|accept|sendto|sendmsg|send)\(2\)/n

    CAUSES_MAX = 16

    class << self
      # "filesystem", "metadata", "network", "process" or "" for an exception, given the run's options.
      def of(exception, options)
        causes(exception).each do |error|
          door = door_of(error, options)
          return door if door
        end
        ""
      end

      private

      def causes(exception)
        chain = []
        while exception && chain.size < CAUSES_MAX && chain.none? { |seen| seen.equal?(exception) }
          chain << exception
          exception = exception.cause
        end
        chain
      end

      def door_of(error, options)
        return "network" if !options[:network] && network?(error)
        return "process" if !options[:processes] && pty?(error)

        door_of_method(method_of(error), error, options) if permission?(error)
      end

      def door_of_method(method, error, options)
        return "metadata" if METADATA_METHODS.include?(method)

        process?(method, error, options) ? "process" : "filesystem"
      end

      def method_of(error)
        error.backtrace_locations&.first&.base_label
      end

      def pty?(error)
        error.is_a?(RuntimeError) && words_of(error) == PTY_REFUSED
      end

      def permission?(error)
        PERMISSION.any? { |refused| error.is_a?(refused) }
      end

      def network?(error)
        error.is_a?(Errno::ENETUNREACH) || resolution_file?(error) || socket_call?(error) ||
          words_of(error).include?(UNREACHABLE) ||
          error.class.ancestors.any? { |ancestor| RESOLUTION.include?(ancestor.name) }
      end

      def socket_call?(error)
        Platform.macos? && permission?(error) && SOCKET_CALL.match?(words_of(error))
      end

      # Resolv reads them by itself, whoever asks it.
      def resolution_file?(error)
        return false unless permission?(error) && RESOLUTION_FILES.any? { |path| words_of(error).end_with?(path) }

        error.backtrace.to_a.any? { |line| line.to_s.include?("/resolv.rb:") }
      end

      # As bytes: a path in it may be in any encoding, and a message may be anything.
      def words_of(error)
        error.message.to_s.b
      end

      # With processes, a program that cannot be run is a path that was not granted.
      def process?(method, error, options)
        PROCESS_METHODS.include?(method) && !(options[:processes] && error.is_a?(Errno::EACCES))
      end
    end
  end
end
