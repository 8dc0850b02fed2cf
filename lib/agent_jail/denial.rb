# frozen_string_literal: true

module AgentJail
  # Tells which door of the jail an exception ran into. Asked in the child, of the exception that ended the block and of
  # its causes, since a library may have wrapped the refusal.
  module Denial # :nodoc:
    PERMISSION = [Errno::EACCES, Errno::EPERM].freeze

    # Methods of Ruby that concern processes, for which EPERM says nothing about a file.
    PROCESS_METHODS = %w[fork _fork spawn system exec ` popen popen2 popen2e popen3 getpty kill setsid setpgid setpgrp
                         daemon setpriority setrlimit].freeze

    # PTY reports whatever happened in these words.
    PTY_REFUSED = "can't get Master/Slave device"

    # The filter answers ENETUNREACH, which no file can be. Name resolution makes errors of its own out of that, without
    # a cause, or gives up at the files that only a jail with a network may read.
    RESOLUTION = %w[SocketError Socket::ResolutionError Resolv::ResolvError Resolv::ResolvTimeout].freeze
    RESOLUTION_FILES = Regexp.union(SystemPaths::NAMES)

    CAUSES_MAX = 16

    class << self
      # "filesystem", "network", "process" or "" for an exception, given the run's plan.
      def of(exception, plan)
        causes(exception).each do |error|
          door = door_of(error, plan)
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

      def door_of(error, plan)
        return "network" if !plan[:network] && network?(error)
        return "process" if !plan[:processes] && error.message == PTY_REFUSED
        return unless permission?(error)

        process?(error) ? "process" : "filesystem"
      end

      def permission?(error)
        PERMISSION.any? { |refused| error.is_a?(refused) }
      end

      def network?(error)
        error.is_a?(Errno::ENETUNREACH) || (permission?(error) && error.message.match?(RESOLUTION_FILES)) ||
          error.class.ancestors.any? { |ancestor| RESOLUTION.include?(ancestor.name) }
      end

      def process?(error)
        location = error.backtrace_locations&.first
        location ? PROCESS_METHODS.include?(location.base_label) : false
      end
    end
  end
end
