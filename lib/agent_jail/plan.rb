# frozen_string_literal: true

require "etc"

module AgentJail
  # What the extension is told about a run: plain values, everything validated. The keys are those that
  # agent_jail_ext.c fetches.
  module Plan # :nodoc:
    READ = SystemPaths::READ
    READ_WRITE = SystemPaths::READ | SystemPaths::WRITE | 8 # and ioctl, should it be a device
    ENCODINGS = Encoding.list.map(&:name).freeze
    PROCESSORS = Etc.nprocessors

    class << self
      def for(options, tmpdir)
        { **limits(options), **doors(options, tmpdir), permits: Permits.for(options[:permitted_classes]), encodings: ENCODINGS }
      end

      private

      def limits(options)
        cpu_timeout = options[:cpu_timeout] || options[:timeout]
        { timeout: options[:timeout], cpu_timeout: cpu_timeout, cpu_seconds: cpu_timeout.ceil, processors: PROCESSORS,
          memory: options[:memory_mb], file_size: options[:max_file_mb], open_files: options[:max_open_files],
          max_result: options[:max_result_mb] }
      end

      def doors(options, tmpdir)
        open = options.slice(:network, :processes)
        { **open, inherit: options[:inherit].map(&:fileno), grants: grants(options, tmpdir),
          system_grants: SystemPaths.grants(**open) }
      end

      def grants(options, tmpdir)
        execute = options[:processes] ? SystemPaths::EXECUTE : 0
        [*options[:fs_allow], *tmpdir].map { |path| [path, READ_WRITE | execute] } +
          options[:fs_read_allow].map { |path| [path, READ | execute] }
      end
    end
  end
end
