# frozen_string_literal: true

require "strscan"

# Reads profiles of macOS' sandbox (SBPL) as strictly as the system's own compiler does, and more: a word that it does
# not know is an error. And answers what a profile lets a process do: the last rule that matches decides.
module Sbpl
  # A profile that the system would refuse, or that says something nobody here has thought about.
  class Invalid < StandardError; end

  Rule = Struct.new(:action, :operations, :filters)

  # Operations that every macOS since 10.13 knows.
  OPERATIONS = %w[
    default
    appleevent-send authorization-right-obtain distributed-notification-post job-creation lsopen
    device-camera device-microphone hid-control nvram-get nvram-set nvram-delete pseudo-tty
    file* file-chroot file-ioctl file-map-executable file-mknod file-mount file-revoke file-unmount
    file-read* file-read-data file-read-metadata file-read-xattr
    file-write* file-write-create file-write-data file-write-flags file-write-mode file-write-owner
    file-write-setugid file-write-times file-write-unlink file-write-xattr
    iokit* iokit-get-properties iokit-open iokit-set-properties
    ipc* ipc-posix* ipc-posix-sem ipc-posix-shm ipc-posix-shm-read-data ipc-posix-shm-write-data ipc-sysv* ipc-sysv-msg
    ipc-sysv-sem ipc-sysv-shm
    mach* mach-bootstrap mach-lookup mach-priv-host-port mach-priv-task-port mach-register mach-task-name
    network* network-bind network-inbound network-outbound
    process* process-exec* process-exec process-exec-interpreter process-fork
    process-info* process-info-pidinfo process-info-listpids process-info-setcontrol process-info-pidfdinfo
    signal sysctl* sysctl-read sysctl-write
    system* system-sched system-set-time system-socket system-privilege system-reboot system-kext-load system-fsctl
    user-preference-read user-preference-write
  ].freeze

  # Younger ones: named only where it has been asked whether they are there.
  YOUNG = %w[dynamic-code-generation file-clone file-link file-write-acl socket-ioctl syscall-unix].freeze

  # What (deny default) does not cover.
  OPEN_BY_DEFAULT = %w[syscall-unix].freeze

  # Filters: what their argument is, and the operations that they make sense for.
  FILTERS = {
    "literal" => [:path, /\A(file|process-exec)/],
    "subpath" => [:path, /\A(file|process-exec)/],
    "global-name" => [:string, /\Amach-(lookup|register)\z/],
    "sysctl-name" => [:string, /\Asysctl/],
    "sysctl-name-prefix" => [:string, /\Asysctl/],
    "target" => [%w[self pgrp others], /\A(signal|process-info)/],
    "syscall-number" => [/\ASYS_[a-z_]+\z/, /\Asyscall-unix\z/]
  }.freeze

  # What stands between quotes. Symbols and nested lists are Ruby's.
  Text = Struct.new(:value)

  class << self
    # The forms of a text, nested.
    def read(text)
      tokens = tokens_of(text.b)
      forms = []
      forms << form(tokens) until tokens.empty?
      forms
    end

    private

    def tokens_of(text)
      scanner = StringScanner.new(text)
      tokens = []
      until scanner.eos?
        if scanner.skip(/\s+|;[^\n]*/) then next
        elsif scanner.scan(/[()']/) then tokens << scanner.matched.to_sym
        elsif scanner.skip(/"/) then tokens << Text.new(string(scanner))
        elsif scanner.scan(/[a-zA-Z0-9*?_.-]+/) then tokens << scanner.matched
        else raise Invalid, "cannot read #{scanner.rest[0, 40].inspect}"
        end
      end
      tokens
    end

    def string(scanner)
      value = +""
      until scanner.skip(/"/)
        value << (scanner.scan(/[^\\"\x00-\x1f\x7f]+/n) || (scanner.scan(/\\[\\"]/) && scanner.matched[1]) ||
          raise(Invalid, "in a string: #{scanner.rest[0, 40].inspect}"))
      end
      value.force_encoding(Encoding::UTF_8)
    end

    def form(tokens)
      token = tokens.shift
      case token
      when :"(" then list(tokens)
      when :"'" then ["quote", form(tokens)]
      when :")", nil then raise Invalid, "unbalanced"
      else token
      end
    end

    def list(tokens)
      items = []
      items << form(tokens) until tokens.first == :")"
      tokens.shift
      items
    end
  end

  # A profile, read by a system that knows the +young+ operations.
  class Profile
    attr_reader :rules

    def initialize(text, young: YOUNG)
      @known = OPERATIONS + young
      version, default, *forms = Sbpl.read(text)
      raise Invalid, "begins with #{version}" unless version == %w[version 1]
      raise Invalid, "refuses nothing by default: #{default}" unless default == %w[deny default]

      @rules = forms.filter_map { |form| rule(form) }
    end

    # Whether an operation is allowed. What it is done to: +path+ (as the kernel knows it), +name+, +target+, +number+.
    def allows?(operation, **facts)
      raise Invalid, "there is no operation #{operation}" unless @known.include?(operation)

      last = @rules.reverse.find do |rule|
        rule.operations.any? { |named| covers?(named, operation) } && matches?(rule.filters, facts)
      end
      last ? last.action == "allow" : OPEN_BY_DEFAULT.include?(operation)
    end

    # The same of an operation on a path as a program writes it: every symlink on the way must be allowed to be looked
    # at, and what counts is where it leads. A path that is not there counts as where it would be.
    def reaches?(operation, path)
      links, real = walk(path)
      links.all? { |link| allows?("file-read-metadata", path: link) } && allows?(operation, path: real)
    end

    private

    def rule(form, words = OPERATIONS)
      return conditional(form) if form.first == "if"

      action, *rest = form
      raise Invalid, "knows no #{action}" unless %w[allow deny].include?(action)

      operations, filters = rest.partition { |item| item.is_a?(String) }
      raise Invalid, "names no operation: #{form}" if operations.empty?
      raise Invalid, "operations come first: #{form}" unless rest.first(operations.size) == operations

      unknown = (operations - words) | (operations & ["default"])
      raise Invalid, "there is no operation #{unknown.first}" if unknown.any?

      Rule.new(action, operations, filters.map { |filter| filter(filter, operations) })
    end

    # (if (defined? 'OPERATION) RULE), with a rule for that operation alone
    def conditional(form)
      _, (asked, (quote, name)), *rules = form
      sound = asked == "defined?" && quote == "quote" && YOUNG.include?(name) && rules.size == 1
      raise Invalid, "asks something else: #{form}" unless sound

      rule(rules.first, [name]) if @known.include?(name)
    end

    def filter(filter, operations)
      name, *arguments = filter
      kind, of = FILTERS.fetch(name) { raise Invalid, "there is no filter #{name}" }
      raise Invalid, "#{name} has no sense for #{operations}" unless operations.grep_v(of).empty?
      raise Invalid, "#{name} wants one argument: #{filter}" unless arguments.size == 1

      [name, argument(name, kind, arguments.first)]
    end

    def argument(name, kind, given)
      value = given.is_a?(Text) ? given.value : given
      fits = case kind
             when :path then given.is_a?(Text) && canonical?(value)
             when :string then given.is_a?(Text) && !value.empty?
             when Array then kind.include?(given)
             else given.is_a?(String) && kind.match?(given)
             end
      fits ? value : raise(Invalid, "#{name} cannot be #{given.inspect}")
    end

    # Nothing that the kernel would never compare equal.
    def canonical?(path)
      path == "/" || (path.start_with?("/") && !path.split("/", -1).drop(1).intersect?(["", ".", ".."]))
    end

    def covers?(named, operation)
      named.end_with?("*") ? operation.start_with?(named.delete_suffix("*")) : named == operation
    end

    def matches?(filters, facts)
      filters.empty? || filters.any? { |name, value| matches_one?(name, value, facts) }
    end

    def matches_one?(name, value, facts)
      case name
      when "literal" then facts[:path] == value
      when "subpath" then facts[:path] == value || facts[:path].to_s.start_with?("#{value.chomp("/")}/")
      when "sysctl-name", "global-name" then facts[:name] == value
      when "sysctl-name-prefix" then facts[:name].to_s.start_with?(value)
      when "target" then value == "pgrp" ? %w[self pgrp].include?(facts[:target]) : facts[:target] == value
      when "syscall-number" then facts[:number] == value
      end
    end

    # [symlinks on the way, where it leads]
    def walk(path)
      links = []
      at = "/"
      names = path.split("/").reject(&:empty?)
      while (name = names.shift)
        at = File.dirname(at) if name == ".."
        next if %w[. ..].include?(name)

        here = File.join(at, name)
        next at = here unless File.symlink?(here)

        links << here
        raise Errno::ELOOP if links.size > 32

        target = File.readlink(here)
        at = "/" if target.start_with?("/")
        names.unshift(*target.split("/").reject(&:empty?))
      end
      [links, at]
    end
  end
end
