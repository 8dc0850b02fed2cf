# frozen_string_literal: true

# What can be had without a Mac: clang reads the sources as a Mac's would, with declarations of our own in the place of
# the system's headers (spec/support/macos/sdk).
MACOS_TARGETS = %w[x86_64-apple-macos arm64-apple-macos].freeze

# The sources that extconf.rb takes for macOS.
def macos_sources
  directory = "tmp/macos"
  rm_rf directory, verbose: false
  mkdir_p directory, verbose: false
  extconf = File.expand_path("ext/agent_jail/extconf.rb")
  sh({ "AGENT_JAIL_TARGET" => "darwin" }, RbConfig.ruby, extconf, chdir: directory, out: File::NULL, verbose: false)
  File.read("#{directory}/Makefile")[/^OBJS = (.*)$/, 1].split.map { |name| name.sub(/o\z/, "c") }
end

def macos_clang(target)
  headers = %w[rubyarchhdrdir rubyhdrdir].map { |name| RbConfig::CONFIG[name] }
  system_headers = %w[libc system].map { |name| "spec/support/macos/sdk/#{name}" } + headers
  ["clang", "-target", target, "-fsyntax-only", "-std=c11", "-nostdlibinc", *STRICT_WARNINGS,
   *system_headers.flat_map { |path| ["-isystem", path] }, "-include", "ext/agent_jail/darwin.h"]
end

namespace :lint do
  desc "clang reads the sources as on macOS, where there is a clang"
  task :macos do
    next warn("lint:macos passed over: no clang") unless system("clang", "--version", out: File::NULL, err: File::NULL)

    sources = macos_sources.map { |name| "ext/agent_jail/#{name}" }
    MACOS_TARGETS.each { |target| sources.each { |source| sh(*macos_clang(target), source, verbose: false) } }
    # A check that lets through what no Mac has would be none.
    seen = %w[landlock process_linux report_linux].select do |name|
      system(*macos_clang(MACOS_TARGETS.first), "ext/agent_jail/#{name}.c", err: File::NULL)
    end
    abort "lint:macos sees nothing wrong with #{seen.join(", ")}" if seen.any?
  end
end
