# frozen_string_literal: true

module AgentJail
  # The defaults of every option of AgentJail.run, each as <tt>default_</tt> and the option's name, and
  # +on_unsupported+: what AgentJail.run does where it cannot jail (:warn, :raise or :ignore).
  class Configuration
    # Every option: its default and the check (in AgentJail::Option) that a value has to pass.
    OPTIONS = {
      timeout: [30, :seconds],
      cpu_timeout: [nil, :optional_seconds],
      memory_mb: [512, :mebibytes],
      fs_allow: [[].freeze, :paths],
      fs_read_allow: [[].freeze, :paths],
      network: [false, :flag],
      processes: [false, :flag],
      inherit: [[].freeze, :ios],
      permitted_classes: [[].freeze, :classes],
      max_result_mb: [64, :mebibytes],
      max_file_mb: [1024, :mebibytes],
      max_open_files: [256, :count],
      env: %i[inherit environment],
      tmpdir: [false, :flag]
    }.freeze

    OPTIONS.each_key { |name| attr_accessor :"default_#{name}" }
    attr_accessor :on_unsupported

    def initialize
      OPTIONS.each { |name, (default, _)| instance_variable_set(:"@default_#{name}", default) }
      @on_unsupported = :warn
    end

    # Returns itself when every value is sound; else raises ArgumentError or TypeError naming the value.
    def validate!
      OPTIONS.each { |name, (_, check)| Option.public_send(check, "default_#{name}", public_send(:"default_#{name}")) }
      Option.reaction("on_unsupported", on_unsupported)
      self
    end

    # The options of one run, defaults filled in, every value checked and in the form of AgentJail::Option.
    def resolve(options)
      unknown = options.keys - OPTIONS.keys
      raise ArgumentError, "unknown option#{"s" if unknown[1]}: #{unknown.join(", ")}" unless unknown.empty?

      OPTIONS.to_h do |name, (_, check)|
        [name, Option.public_send(check, name, options.fetch(name) { public_send(:"default_#{name}") })]
      end
    end
  end
end
