# frozen_string_literal: true

require "digest"
require "rubygems/package"

RSpec.describe "The package" do
  include_context "with a directory"

  root = File.expand_path("..", __dir__)

  # A checkout of what the package is made of, as somebody with that umask has it.
  def checkout(name, umask)
    to = directory(name)
    script = 'umask "$1" && cd "$2" && tar -c Rakefile rakelib agent_jail.gemspec *.md LICENSE lib ext sig | tar -x -m -C "$3"'
    raise "no copy" unless system("sh", "-euc", script, "sh", umask, File.expand_path("..", __dir__), to)

    # As git makes files: 0666 less the umask; tar, as root, keeps what there was.
    mode = 0o666 & ~umask.oct
    Dir.glob("#{to}/**/*").each { |path| File.chmod(File.directory?(path) ? mode | 0o111 : mode, path) }
    to
  end

  # The built file, after +words+ in a copy, in another zone and under that umask.
  def built(in_directory, umask, zone, *words)
    log = at("log")
    environment = { "TZ" => zone, "SOURCE_DATE_EPOCH" => nil }
    done = system(environment, RbConfig.ruby, "-S", *words, chdir: in_directory, umask: umask.oct, %i[out err] => log)
    raise File.read(log) unless done

    Dir.glob("#{in_directory}/{pkg/,}*.gem").first
  end

  def twice(*words)
    [%w[here 077 Asia/Tokyo], %w[elsewhere 002 America/Lima]].map do |name, umask, zone|
      sleep 1.1 # RubyGems counts whole seconds
      path = built(checkout(name, umask), umask, zone, *words)
      Digest::SHA256.file(path).hexdigest
    end
  end

  it "has the same bytes from any checkout at any time" do
    expect(twice("rake", "build").uniq.size).to eq 1
  end

  it "would have others by `gem build` alone" do
    expect(twice("gem", "build", "agent_jail.gemspec").uniq.size).to eq 2
  end

  it "may be read by everybody when it is built under a narrow umask" do
    package = Gem::Package.new(built(checkout("here", "077"), "077", "UTC", "rake", "build"))
    modes = []
    package.verify
    File.open(package.gem.path, "rb") do |io|
      Gem::Package::TarReader.new(io).seek("data.tar.gz") do |entry|
        package.open_tar_gz(entry) { |tar| tar.each { |file| modes << (file.header.mode & 0o777) } }
      end
    end
    expect(modes.uniq).to eq [0o644]
  end

  it "holds all of lib, ext and sig but what was built there, and needs no other gem" do
    specification = Gem::Specification.load(File.join(root, "agent_jail.gemspec"))
    sources = Dir.glob("{lib,ext,sig}/**/*", base: root).select { |path| File.file?(File.join(root, path)) }
    sources.reject! { |path| path.end_with?(".so", ".bundle") }

    expect(specification.files).to match_array(sources + %w[CHANGELOG.md LICENSE README.md SECURITY.md])
    expect(specification).to have_attributes(dependencies: [], extensions: ["ext/agent_jail/extconf.rb"])
  end
end
