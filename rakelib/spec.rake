# frozen_string_literal: true

require "rspec/core/rake_task"

RSpec::Core::RakeTask.new(:spec)
task spec: :compile

# The specs that call all of the public API. The others reach the jail through the same calls, and the checks that the
# signatures wrap around them only slow their acts down.
SIGNED = %w[run input platform paths].map { |topic| "spec/#{topic}_spec.rb" }.freeze

namespace :spec do
  desc "Run the specs of the public API with every call into AgentJail checked against sig/"
  task rbs: :compile do
    environment = {
      "RUBYOPT" => [ENV.fetch("RUBYOPT", nil), "-rrbs/test/setup"].compact.join(" "),
      "RBS_TEST_TARGET" => "AgentJail,AgentJail::*",
      "RBS_TEST_OPT" => "-I sig",
      "RBS_TEST_DOUBLE_SUITE" => "rspec",
      "RBS_TEST_LOGLEVEL" => "error"
    }
    sh environment, RbConfig.ruby, "-S", "rspec", *SIGNED
  end
end
