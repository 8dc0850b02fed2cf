# frozen_string_literal: true

require "rspec/core/rake_task"

RSpec::Core::RakeTask.new(:spec)
task spec: :compile

namespace :spec do
  desc "Run the specs with every call into AgentJail checked against sig/"
  task rbs: :compile do
    environment = {
      "RUBYOPT" => [ENV.fetch("RUBYOPT", nil), "-rrbs/test/setup"].compact.join(" "),
      "RBS_TEST_TARGET" => "AgentJail,AgentJail::*",
      "RBS_TEST_OPT" => "-I sig",
      "RBS_TEST_DOUBLE_SUITE" => "rspec",
      "RBS_TEST_LOGLEVEL" => "error"
    }
    sh environment, RbConfig.ruby, "-S", "rspec"
  end
end
