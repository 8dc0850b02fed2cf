# frozen_string_literal: true

module AgentJail
  # The defaults of every option of AgentJail.run, each as <tt>default_</tt> and the option's name, and
  # +on_unsupported+: what AgentJail.run does where it cannot jail (:warn, :raise or :ignore).
  #
  # The one in force is frozen, with all that it holds: it is changed through AgentJail.configure alone.
  class Configuration
    # Every option: its default and the check (in AgentJail::Option) that a value has to pass.
    OPTIONS = {
      timeout: [30, :seconds],
      cpu_timeout: [nil, :optional_seconds],
      memory_mb: [512, :mebibytes],
      fs_allow: [[], :paths],
      fs_read_allow: [[], :paths],
      network: [false, :flag],
      processes: [false, :flag],
      inherit: [[], :ios],
      permitted_classes: [[], :classes],
      max_result_mb: [64, :mebibytes],
      max_file_mb: [1024, :mebibytes],
      max_open_files: [256, :count],
      env: %i[inherit environment],
      tmpdir: [false, :flag]
    }.freeze

    OPTIONS.each_key { |name| attr_accessor :"default_#{name}" }
    attr_accessor :on_unsupported

    def initialize
      OPTIONS.each { |name, (default, _)| instance_variable_set(:"@default_#{name}", copy(default)) }
      @on_unsupported = :warn
    end

    # Returns itself, frozen, when every value is sound; else raises ArgumentError or TypeError naming the value. A
    # relative path counts from the working directory of this moment.
    def validate!
      Option.reaction("on_unsupported", on_unsupported)
      @resolved = OPTIONS.to_h do |name, (_, check)|
        [name, Option.public_send(check, "default_#{name}", instance_variable_get(:"@default_#{name}"))]
      end.freeze
      each_default { |value| freeze_all(copy(value)) }
      freeze
    end

    # The options of one run, defaults filled in, every value checked and in the form of AgentJail::Option.
    def resolve(options)
      return @resolved if options.empty?

      unknown = options.keys - OPTIONS.keys
      raise ArgumentError, "unknown option#{"s" if unknown[1]}: #{unknown.join(", ")}" unless unknown.empty?

      @resolved.merge(options.to_h { |name, value| [name, Option.public_send(OPTIONS[name].last, name, value)] })
    end

    private

    def initialize_copy(_other)
      each_default { |value| copy(value) }
    end

    def each_default
      OPTIONS.each_key do |name|
        instance_variable_set(:"@default_#{name}", yield(instance_variable_get(:"@default_#{name}")))
      end
    end

    # Lists and what is in them: what is put in or taken out stays what it was, whatever its owner does to it later.
    def copy(value)
      case value
      when Array then value.map { |item| copy(item) }
      when Hash then value.to_h { |key, item| [copy(key), copy(item)] }
      when String then value.dup
      else value
      end
    end

    def freeze_all(value)
      case value
      when Array then value.each { |item| freeze_all(item) }.freeze
      when Hash then value.each_value { |item| freeze_all(item) }.freeze
      when String then value.freeze
      else value
      end
    end
  end
end
