# frozen_string_literal: true

desc "Check the style of Ruby and C and the signatures"
task lint: %w[lint:ruby lint:c lint:macos lint:signatures]

namespace :lint do
  desc "RuboCop"
  task :ruby do
    sh "rubocop", "--format", "quiet"
  end

  desc "clang-format, where there is one"
  task :c do
    if system("clang-format", "--version", out: File::NULL, err: File::NULL)
      sh "clang-format", "--dry-run", "-Werror", *FileList["ext/**/*.{c,h}", "fuzz/*.{c,h}", "spec/**/*.{c,h}"]
    else
      warn "lint:c passed over: no clang-format"
    end
  end

  desc "rbs validate"
  task :signatures do
    sh "rbs", "-I", "sig", "validate"
  end
end
