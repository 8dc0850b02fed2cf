# frozen_string_literal: true

# Runs the examples under the garbage collection that AGENT_JAIL_GC asks for:
#
#   none     as Ruby does it (the default)
#   stress   a minor collection at every chance while the extension works, in the parent and in the child, but not in the
#            block: finds a VALUE that nothing holds
#   compact  objects move at every major collection: finds a pointer kept past its object
module GCLevel
  LEVELS = %w[none stress compact].freeze

  NAME = ENV.fetch("AGENT_JAIL_GC", "none")
  raise "AGENT_JAIL_GC is #{NAME.inspect}; it may be #{LEVELS.join(", ")}" unless LEVELS.include?(NAME)

  # Bit 0: no major collections, each of which would make a second of some milliseconds.
  MINOR = 1

  # Put before the extension's own methods. A proc stands for the block's: a lambda would be left by return and break.
  module Stressed
    def run(options, grants, &block)
      GCLevel.stress(MINOR) { super(options, grants, &proc { GCLevel.stress(false, &block) }) }
    end

    def refusal(...) = GCLevel.stress(MINOR) { super }
    def filter(...) = GCLevel.stress(MINOR) { super }
  end

  module_function

  def around(&)
    NAME == "compact" ? compact(&) : yield
  end

  def stress(level)
    before = GC.stress
    GC.stress = level
    yield
  ensure
    GC.stress = before
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

AgentJail::Native.singleton_class.prepend(GCLevel::Stressed) if GCLevel::NAME == "stress"
