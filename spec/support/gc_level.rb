# frozen_string_literal: true

# Runs each example under the garbage collection that AGENT_JAIL_GC asks for:
#
#   none     as Ruby does it (the default)
#   stress   a minor collection at every chance; slow, finds a VALUE that nothing holds
#   compact  objects move at every major collection; finds a pointer kept past its object
module GCLevel
  LEVELS = %w[none stress compact].freeze

  NAME = ENV.fetch("AGENT_JAIL_GC", "none")
  raise "AGENT_JAIL_GC is #{NAME.inspect}; it may be #{LEVELS.join(", ")}" unless LEVELS.include?(NAME)

  module_function

  def around(&)
    case NAME
    when "stress" then stress(&)
    when "compact" then compact(&)
    else yield
    end
  end

  def stress
    GC.stress = 1 # bit 0: no major ones, which would make a second of a millisecond
    yield
  ensure
    GC.stress = false
  end

  def compact
    GC.auto_compact = true
    GC.compact
    yield
  ensure
    GC.auto_compact = false
    GC.start
  end
end
