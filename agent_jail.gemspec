# frozen_string_literal: true

require_relative "lib/agent_jail/version"

Gem::Specification.new do |spec|
  spec.name = "agent_jail"
  spec.version = AgentJail::VERSION
  spec.authors = ["Jibran Usman"]
  spec.email = ["jibran.usman@eunasolutions.com"]
  spec.license = "MIT"
  spec.homepage = "https://github.com/jibranusman95/agent_jail"
  spec.summary = "Run a block in a forked, confined child process and get its value or one typed error."
  spec.description = <<~TEXT
    AgentJail.run { ... } forks, closes a jail around the child (files, network, processes, memory, time) and hands
    back the block's value, or an exception that names the true cause. Made for tool calls written by a language
    model. A native extension without runtime dependencies, for Linux, and for macOS, where it has not been run yet.
  TEXT

  spec.required_ruby_version = ">= 3.1"
  spec.extensions = ["ext/agent_jail/extconf.rb"]
  spec.require_paths = ["lib"]

  # Explicit, so that what is packed depends neither on git nor on what lies about in the checkout.
  documents = %w[README.md CHANGELOG.md LICENSE SECURITY.md]
  patterns = ["lib/**/*.rb", "ext/**/*.{c,h,rb}", "sig/**/*.rbs", *documents]
  spec.files = Dir.glob(patterns, base: __dir__).sort
  spec.extra_rdoc_files = spec.files & %w[README.md CHANGELOG.md]
  spec.rdoc_options = ["--main", "README.md"]

  spec.metadata = {
    "source_code_uri" => spec.homepage,
    "changelog_uri" => "#{spec.homepage}/blob/main/CHANGELOG.md",
    "documentation_uri" => "#{spec.homepage}#readme",
    "bug_tracker_uri" => "#{spec.homepage}/issues",
    "rubygems_mfa_required" => "true"
  }
end
