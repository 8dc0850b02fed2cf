# frozen_string_literal: true

module AgentJail
  # What SystemPaths knows by name, on macOS. Devices are in the profile itself (seatbelt.c).
  module MacosPaths # :nodoc:
    # The system's own are mostly in dyld's cache, which lies apart; those of Homebrew and MacPorts are found through
    # symlinks in opt, which lead to Cellar.
    LIBRARIES = %w[/usr/lib /System/Library/Frameworks /System/Library/PrivateFrameworks /System/Library/dyld
                   /System/Library/OpenSSL /System/Cryptexes/OS /System/Volumes/Preboot/Cryptexes/OS
                   /usr/local/lib /usr/local/opt /usr/local/Cellar /opt/homebrew/lib /opt/homebrew/opt
                   /opt/homebrew/Cellar /opt/local/lib].freeze
    DATA = %w[/usr/share/zoneinfo /usr/share/zoneinfo.default /var/db/timezone /etc/localtime /usr/share/locale
              /usr/share/icu /etc/ssl/cert.pem /etc/ssl/certs /etc/ssl/openssl.cnf
              /System/Library/CoreServices/SystemVersion.plist /usr/local/etc/openssl@3 /usr/local/etc/openssl@1.1
              /usr/local/etc/ca-certificates /opt/homebrew/etc/openssl@3 /opt/homebrew/etc/openssl@1.1
              /opt/homebrew/etc/ca-certificates /opt/local/etc/openssl /opt/local/share/curl].freeze
    KERNEL = [].freeze
    DEVICES = [].freeze
    SINKS = [].freeze
    NAMES = %w[/etc/hosts /etc/resolv.conf /etc/services /etc/protocols].freeze
    PROGRAMS = %w[/bin /sbin /usr/bin /usr/sbin /usr/libexec /usr/local/bin /usr/local/sbin /opt/homebrew/bin
                  /opt/homebrew/sbin /opt/local/bin /opt/local/libexec].freeze

    NEVER = %w[/Applications /Library /System /Users /Volumes /bin /cores /dev /etc /home /opt /private /private/etc
               /private/tmp /private/var /sbin /tmp /usr /usr/local /var /opt/homebrew /opt/local].freeze
  end
end
