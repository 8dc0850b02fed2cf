# frozen_string_literal: true

desc "A run against a bare fork, the steps' shares of it, the filter's cost"
task benchmark: %w[benchmark:overhead benchmark:steps benchmark:filter]

namespace :benchmark do
  desc "AgentJail.run against what one would write without a jail"
  task overhead: :compile do
    ruby "-Ilib", "benchmark/overhead.rb"
  end

  desc "What each step of closing the jail takes"
  task steps: :compile do
    library = "tmp/steps.so"
    mkdir_p "tmp"
    sh "cc", "-O2", "-std=c11", "-D_GNU_SOURCE", "-fPIC", "-fvisibility=hidden", "-pthread", "-shared", "-Wl,-z,now",
       "-o", library, "benchmark/steps.c", *(PLAIN_SOURCES - ["ext/agent_jail/confine_linux.c"]), "-lm"
    ruby "-Ilib", "benchmark/steps.rb", library
  end

  desc "What the filter costs a block of many system calls"
  task filter: :compile do
    ruby "-Ilib", "benchmark/filter.rb"
  end
end
