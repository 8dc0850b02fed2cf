# frozen_string_literal: true

desc "A server's threads under load, good and hostile blocks mixed, for so many MINUTES (1): no leak, no wrong cause"
task :soak, [:minutes] => :compile do |_, arguments|
  ruby "-Ilib", "benchmark/soak.rb", arguments.fetch(:minutes, "1")
end
