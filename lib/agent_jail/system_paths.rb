# frozen_string_literal: true

require "rbconfig"
require_relative "macos_paths"

module AgentJail
  # What Ruby needs to read to go on working, taken from the running process rather than from a list: where Ruby and its
  # gems were installed, what is on the load path, where its shared libraries came from. Beside that the few files that
  # libc, OpenSSL and the runtimes read, each by name: neither /etc nor /proc nor /dev as a whole.
  module SystemPaths # :nodoc:
    READ = 1
    WRITE = 2
    EXECUTE = 4
    FILE = 16
    DIRECTORY = 32

    RBCONFIG = %w[rubylibdir rubyarchdir rubyarchprefix sitedir sitelibdir sitearchdir vendordir vendorlibdir
                  vendorarchdir topdir].freeze
    LIBRARIES = %w[/lib /usr/lib /usr/local/lib].freeze
    # resolv.conf is read by Ruby's own resolv as it is loaded, which net/http does.
    DATA = %w[/usr/share/zoneinfo /usr/share/ca-certificates /usr/local/share/ca-certificates /etc/localtime
              /etc/resolv.conf /etc/ld.so.cache /etc/ssl/certs /etc/ssl/cert.pem
              /etc/ssl/openssl.cnf /etc/pki/tls/certs /etc/pki/tls/cert.pem /etc/pki/tls/openssl.cnf
              /etc/pki/ca-trust/extracted /etc/crypto-policies].freeze
    KERNEL = %w[/proc/cpuinfo /proc/meminfo /proc/stat /proc/sys/vm/overcommit_memory /sys/devices/system/cpu
                /sys/fs/cgroup/cpu.max /sys/fs/cgroup/memory.max].freeze
    DEVICES = %w[/dev/random /dev/urandom].freeze
    SINKS = %w[/dev/null /dev/zero /dev/full].freeze
    NAMES = %w[/etc/hosts /etc/nsswitch.conf /etc/host.conf /etc/gai.conf /etc/services
               /etc/protocols].freeze
    PROGRAMS = %w[/lib64 /bin /sbin /usr/bin /usr/sbin /usr/local/bin /usr/local/sbin /usr/libexec].freeze
    VARIABLES = %w[SSL_CERT_FILE SSL_CERT_DIR OPENSSL_CONF TZDIR].freeze

    # Where a load path may lead that is not a library: a grant there would open what it must not.
    NEVER = %w[/etc /proc /dev /sys /run /var /tmp /home /root /usr /opt /srv /mnt /media /boot].freeze

    class << self
      # [path, access] of everything that is granted unasked. Worked out again when what it depends on has changed; what
      # is there no more is passed over by the extension. Asked at every run: where nothing changed it makes no object.
      def grants(network:, processes:)
        refresh unless current?(processes)
        @grants[processes ? 1 : 0][network ? 1 : 0] ||= worked_out(network, processes)
      end

      private

      def current?(processes)
        return false if processes && @path != ENV.fetch("PATH", "")

        @load_path == $LOAD_PATH && @gem_path.equal?(Gem.path) &&
          (VARIABLES.none? { |name| ENV.key?(name) } ? @variables.nil? : @variables == ENV.values_at(*VARIABLES))
      end

      def refresh
        @load_path = $LOAD_PATH.dup
        @gem_path = Gem.path
        @variables = VARIABLES.any? { |name| ENV.key?(name) } ? ENV.values_at(*VARIABLES) : nil
        @path = ENV.fetch("PATH", "")
        @grants = [[], []]
      end

      def worked_out(network, processes)
        read = processes ? READ | EXECUTE : READ
        [*granted(outermost(libraries + data), read), *granted(outermost(known(:SINKS)), READ | WRITE),
         *(granted(outermost(known(:NAMES)), READ) if network), *(granted(programs, read) if processes)].freeze
      end

      # What is known by name: here, or on macOS.
      def known(name)
        (Platform.macos? ? MacosPaths : self).const_get(name)
      end

      def granted(paths, access)
        paths.map { |path| [path, access | (File.directory?(path) ? DIRECTORY : FILE)].freeze }
      end

      def libraries
        directories = RBCONFIG.map { |name| RbConfig::CONFIG[name] } + Gem.path + $LOAD_PATH.map(&:to_s) + mapped
        directories.compact.select { |path| path.start_with?("/") && library?(path) } + known(:LIBRARIES)
      end

      def data
        known(:DATA) + known(:KERNEL) + known(:DEVICES) +
          ENV.values_at(*VARIABLES).compact.flat_map { |value| value.split(":") }
      end

      def programs
        outermost(known(:PROGRAMS) + @path.split(":").select { |path| path.start_with?("/") && library?(path) })
      end

      # Directories of the shared libraries that are mapped into this process.
      def mapped
        return Native.libraries.map { |path| File.dirname(path) }.uniq if Platform.macos?

        File.foreach("/proc/self/maps").filter_map { |line| line[%r{(/.*)/[^/]+\.so[.\d]*$}, 1] }.uniq
      rescue SystemCallError
        []
      end

      def library?(path)
        path = File.expand_path(path)
        path.count("/") > 1 && !known(:NEVER).include?(path) && !"#{home}/".start_with?("#{path}/")
      end

      def home
        Dir.home
      rescue ArgumentError
        "/"
      end

      # Real paths, without those that lie beneath another. On macOS a symlink has to be granted to be followed, so that
      # the paths that lead through one come as they are, too.
      def outermost(paths)
        real = paths.filter_map { |path| real_path(path) }.uniq.sort
        kept = real.each_with_object([]) do |path, above|
          above << path unless above.any? { |other| path.start_with?("#{other}/") }
        end
        Platform.macos? ? kept + (paths.uniq - real).select { |path| real_path(path) } : kept
      end

      def real_path(path)
        File.realpath(path)
      rescue SystemCallError
        nil
      end
    end
  end
end
