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

  desc "Run the specs with the extension under AddressSanitizer and UndefinedBehaviorSanitizer (gcc)"
  task :asan do
    build_apart("tmp/asan", %w[-g -O1 -fno-omit-frame-pointer -fsanitize=address,undefined])
    cp_r "lib", "tmp/asan/lib"
    cp "tmp/asan/agent_jail_ext.so", "tmp/asan/lib/agent_jail/"
    environment = {
      "LD_PRELOAD" => %w[libasan.so libubsan.so].map { |name| `gcc -print-file-name=#{name}`.chomp }.join(" "),
      # Ruby frees nothing when it ends, has signal stacks of its own, and is told by NULL that memory is out.
      "ASAN_OPTIONS" => "detect_leaks=0:use_sigaltstack=0:allocator_may_return_null=1",
      "UBSAN_OPTIONS" => "print_stacktrace=1:halt_on_error=1"
    }
    sh environment, RbConfig.ruby, "-S", "rspec", "-I", "tmp/asan/lib"
  end
end
