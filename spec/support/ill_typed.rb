# frozen_string_literal: true

# Examples tagged :ill_typed hand over what the signatures forbid, to see the gem refuse it. Under `rake spec:rbs` the
# signatures would refuse it first.
RSpec.configure { |config| config.filter_run_excluding :ill_typed if ENV["RBS_TEST_TARGET"] }
