# frozen_string_literal: true

desc "Build pkg/#{GEMSPEC.full_name}.gem, reproducibly"
task :build do
  # Of copies: in a checkout, the umask of whoever made it says who may read a file, and the archive keeps that.
  stage = "tmp/package"
  rm_rf stage
  [*GEMSPEC.files, "agent_jail.gemspec"].each do |name|
    mkdir_p File.dirname("#{stage}/#{name}"), verbose: false
    install name, "#{stage}/#{name}", mode: 0o644, verbose: false
  end

  # RubyGems stamps the archive with this; without it, with the time of the build.
  environment = { "SOURCE_DATE_EPOCH" => ENV.fetch("SOURCE_DATE_EPOCH", "315619200") }
  package = File.expand_path("pkg/#{GEMSPEC.full_name}.gem")
  mkdir_p File.dirname(package)
  sh environment, RbConfig.ruby, "-S", "gem", "build", "--strict", "--output", package, "agent_jail.gemspec",
     chdir: stage
end
