# frozen_string_literal: true

desc "Build pkg/#{GEMSPEC.full_name}.gem, reproducibly"
task :build do
  # RubyGems stamps the archive with this; without it, with the time of the build.
  environment = { "SOURCE_DATE_EPOCH" => ENV.fetch("SOURCE_DATE_EPOCH", "315619200") }
  mkdir_p "pkg"
  sh environment, RbConfig.ruby, "-S", "gem", "build", "--strict", "--output", "pkg/#{GEMSPEC.full_name}.gem",
     "agent_jail.gemspec"
end
