# frozen_string_literal: true

module AgentJail
  # Tells which door of the jail an exception ran into. Asked in the child, of the exception that ended the block and of
  # its causes, since a library may have wrapped the refusal.
  module Denial # :nodoc:
    # What the filter and Landlock answer, by door. A network that is off is unreachable, which no file can be.
    NETWORK = [Errno::ENETUNREACH].freeze
    PERMISSION = [Errno::EACCES, Errno::EPERM].freeze

    # Methods of Ruby that concern processes, for which EPERM says nothing about a file.
    PROCESS_METHODS = %w[fork _fork spawn system exec ` popen popen2 popen2e popen3 getpty kill setsid setpgid setpgrp daemon
                         setpriority setrlimit setproctitle].freeze

    # Name resolution wraps the refusal in errors of its own that have no cause.
    RESOLUTION = %w[SocketError Socket::ResolutionError Resolv::ResolvError Resolv::ResolvTimeout].freeze

    CAUSES_MAX = 16

    class << self
      # "filesystem", "network", "process" or "" for an exception, given the run's plan.
      def of(exception, plan)
        causes(exception).each do |error|
          return "network" if !plan[:network] && network?(error)
          next unless PERMISSION.any? { |refused| refused === error } # rubocop:disable Style/CaseEquality

          return process?(error) ? "process" : "filesystem"
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

      def network?(error)
        NETWORK.any? { |refused| refused === error } || # rubocop:disable Style/CaseEquality
          error.class.ancestors.any? { |ancestor| RESOLUTION.include?(ancestor.name) }
      end

      def process?(error)
        location = error.backtrace_locations&.first
        location ? PROCESS_METHODS.include?(location.base_label) : false
      end
    end
  end
end
