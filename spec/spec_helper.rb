# frozen_string_literal: true

require "agent_jail"
Dir[File.join(__dir__, "support", "**", "*.rb")].each { |file| require file }

RSpec.configure do |config|
  config.disable_monkey_patching!
  config.raise_errors_for_deprecations!
  config.raise_on_warning = true
  config.expect_with(:rspec) { |rspec| rspec.include_chain_clauses_in_custom_matcher_descriptions = true }
  config.mock_with(:rspec) { |rspec| rspec.verify_partial_doubles = true }
  config.filter_run_when_matching :focus
  config.example_status_persistence_file_path = "tmp/spec_status.txt"
  config.pending_failure_output = :no_backtrace if config.respond_to?(:pending_failure_output=)
  config.backtrace_exclusion_patterns << %r{/spec/(spec_helper|support/(gc_level|watchdog|own_directory))\.rb}
  config.color_mode = :off if ENV["CI"]

  # The order of `--seed`, with the seed told up front: RSpec's own `:random` would tell it again after the closing
  # line, and whoever reads a log from its end looks for that line.
  random = RSpec::Core::Ordering::Random.new(config)
  config.register_ordering(:global) { |items| random.order(items) }
  Kernel.srand config.seed
  config.before(:suite) { config.reporter.message("Random order: repeat it with --seed #{config.seed}") }

  config.include FreshRuby
  config.around { |example| Watchdog.over(example) { GCLevel.around { example.run } } }
  config.after { AgentJail.reset! }
end
