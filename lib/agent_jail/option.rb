# frozen_string_literal: true

module AgentJail
  # What a value of an option may be. Each check takes the option's name and a value, and returns the value in the form
  # that the rest of the gem works with, or raises ArgumentError or TypeError naming the option.
  module Option # :nodoc:
    COUNT_MAX = 1_000_000

    class << self
      def seconds(name, value)
        number(name, value, "a number of seconds")
      end

      def optional_seconds(name, value)
        value.nil? ? nil : seconds(name, value)
      end

      # MiB, as bytes.
      def mebibytes(name, value)
        (number(name, value, "a number of MiB") * 1024 * 1024).ceil
      end

      def count(name, value)
        wrong(name, "a whole number", value) unless value.is_a?(Integer)
        return value if value.between?(1, COUNT_MAX)

        raise ArgumentError, "#{name} must be between 1 and #{COUNT_MAX}, got #{value}"
      end

      def flag(name, value)
        wrong(name, "true or false", value) unless [true, false].include?(value)
        value
      end

      # Paths as absolute strings. A relative one counts from the working directory, "~" is HOME.
      def paths(name, value)
        list(name, value).map { |path| expand(name, path_string(name, path)).freeze }.freeze
      end

      def ios(name, value)
        list(name, value).map do |io|
          wrong(name, "IO objects", io) unless io.respond_to?(:to_io)
          io.to_io.tap { |open| raise ArgumentError, "#{name} holds a closed IO: #{open.inspect}" if open.closed? }
        end.freeze
      end

      # Classes as names and wire forms, see Permits.
      def classes(name, value)
        Permits.for(name, list(name, value).map { |item| item.is_a?(Class) ? item : class_named(name, item) }).freeze
      end

      def environment(name, value)
        case value
        when :inherit then value
        when Array then Array.new(value).map { |item| variable_name(name, item) }.freeze
        when Hash then value.to_h { |key, item| [variable_name(name, key), variable_value(name, item)] }.freeze
        else wrong(name, ":inherit, an Array of names, or a Hash", value)
        end
      end

      def reaction(name, value)
        return value if %i[warn raise ignore].include?(value)

        raise ArgumentError, "#{name} must be :warn, :raise or :ignore, got #{value.inspect}"
      end

      private

      def wrong(name, wanted, value)
        raise TypeError, "#{name} must be #{wanted}, got #{value.inspect} (#{value.class})"
      end

      # A day in a jail is long; a number beyond a century is a mistake, and not finite ones are no limit at all.
      def number(name, value, wanted)
        wrong(name, wanted, value) unless value.is_a?(Numeric) && value.real?
        raise ArgumentError, "#{name} must be positive and finite, got #{value}" unless value.positive? && value < 2**32

        value.to_f
      end

      # One item stands for an Array of it. What a class of Array's says its items are is not asked.
      def list(name, value)
        case value
        when Array then Array.new(value)
        when nil, Hash then wrong(name, "an Array", value)
        else [value]
        end
      end

      def expand(name, path)
        File.expand_path(path)
      rescue ArgumentError => e # "~" of a user that is not there, or without HOME
        raise ArgumentError, "#{name} holds #{path.inspect}: #{e.message}"
      end

      def path_string(name, path)
        path = path.to_path if path.respond_to?(:to_path)
        wrong(name, "a path (String or Pathname), or an Array of them", path) unless path.is_a?(String)
        raise ArgumentError, "#{name} holds an empty path" if path.empty?
        raise ArgumentError, "#{name} holds a path with a NUL byte: #{path.inspect}" if path.b.include?("\0")

        path
      end

      def class_named(name, item)
        wrong(name, "classes or their names", item) unless item.is_a?(String) || item.is_a?(Symbol)
        found = Object.const_get(item.to_s)
        found.is_a?(Class) ? found : wrong(name, "names of classes", found)
      rescue NameError
        raise ArgumentError, "#{name} names a class that is not there: #{item}"
      end

      def variable_name(name, item)
        variable_value(name, item)
        return item unless item.empty? || item.include?("=")

        raise ArgumentError, "#{name} holds #{item.inspect}, which cannot be the name of a variable"
      end

      def variable_value(name, item)
        wrong(name, "made of Strings", item) unless item.is_a?(String)
        raise ArgumentError, "#{name} holds a NUL byte: #{item.inspect}" if item.b.include?("\0")

        item
      end
    end
  end
end
