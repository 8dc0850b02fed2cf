# frozen_string_literal: true

module AgentJail
  # Permitted classes as the gate wants them: name and wire form (enum result_form in jail.h). Each form runs other code
  # of the class when it is loaded, so a class is permitted in the one form in which its own instances are dumped.
  module Permits # :nodoc:
    OBJECT = 1
    STRUCT = 2
    SUBCLASS = 4
    USER_DEFINED = 8
    USER_MARSHAL = 16

    # What the gate accepts without being asked.
    PLAIN = %w[NilClass TrueClass FalseClass Integer Float String Symbol Array Hash Range Rational Complex Time Set Date
               DateTime BigDecimal].freeze

    STRUCTS = [Struct, *(Data if RUBY_VERSION >= "3.2")].freeze

    class << self
      # [name, form] of each class; raises ArgumentError naming the option.
      def for(option, classes)
        classes.reject { |klass| PLAIN.include?(klass.name) }.map do |klass|
          raise ArgumentError, "#{option} holds a class without a name: #{klass.inspect}" unless klass.name

          [klass.name, form_of(option, klass)].freeze
        end
      end

      private

      def form_of(option, klass)
        return USER_MARSHAL if defines?(klass, :marshal_dump)
        return USER_DEFINED if defines?(klass, :_dump)
        return STRUCT if beneath?(klass, STRUCTS)
        return SUBCLASS if beneath?(klass, [String, Array, Hash])
        return OBJECT unless beneath?(klass, [Regexp, Module, Proc, IO])

        raise ArgumentError, "#{option} cannot hold #{klass}: a value of it is code, or cannot be dumped"
      end

      def beneath?(klass, bases)
        bases.any? { |base| klass <= base }
      end

      def defines?(klass, method)
        klass.method_defined?(method) || klass.private_method_defined?(method)
      end
    end
  end
end
