# frozen_string_literal: true

namespace :build do
  desc "Build the gem for JRuby, which has nothing to compile and so needs no make: pkg/#{GEMSPEC.full_name}-java.gem"
  task :java do
    spec = GEMSPEC.dup
    spec.platform = "java"
    spec.extensions = []
    spec.files = spec.files.grep_v(%r{\Aext/})
    mkdir_p "pkg"
    ENV["SOURCE_DATE_EPOCH"] ||= "315619200" # as in rake build
    Gem::Package.build(spec, false, true, "pkg/#{spec.full_name}.gem")
  end
end
