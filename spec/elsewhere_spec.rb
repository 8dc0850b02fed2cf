# frozen_string_literal: true

require "rubygems/package"

# Where there is no jail: another Ruby, another system, a processor that the filter has no table for. A fresh Ruby is told
# that it is such a one before the gem is loaded. bin/jruby does it with a real JRuby.
RSpec.describe AgentJail, "elsewhere" do
  include_context "with a directory"

  # A file that makes the Ruby that loads it first such a one.
  def pose(engine, platform)
    file("pose.rb", <<~RUBY)
      { RUBY_ENGINE: #{engine.inspect}, RUBY_PLATFORM: #{platform.inspect} }.each do |name, value|
        Object.send(:remove_const, name)
        Object.const_set(name, value.freeze)
      end
    RUBY
  end

  def posing_as(engine, platform, *arguments)
    FreshRuby.spawn([RbConfig.ruby, "-r#{pose(engine, platform)}", *arguments], {}, nil, 100)
  end

  def extconf(engine, platform)
    Dir.mkdir(at("build"))
    posing_as(engine, platform, "-C", at("build"), File.expand_path("../ext/agent_jail/extconf.rb", __dir__))
  end

  def make(*arguments)
    FreshRuby.spawn(["make", "-C", at("build"), "V=1", "DESTDIR=#{at("destination")}", *arguments], {}, nil, 100)
  end

  def built
    Dir.glob("{build,destination}/**/*.{o,so,bundle,dll}", base: dir)
  end

  program = <<~RUBY
    pid = $$
    outcomes = %i[ignore raise warn].map do |reaction|
      AgentJail.configure { |c| c.on_unsupported = reaction }
      Array.new(2) { AgentJail.run(timeout: 5, fs_allow: ["/tmp"], tmpdir: true) { $$ == pid ? "here" : "forked" } }
    rescue AgentJail::UnsupportedPlatformError => e
      e.message
    end
    begin
      AgentJail.run(timeout: "5") { 1 }
    rescue TypeError => e
      outcomes << e.message[/timeout/]
    end
    loaded = $LOADED_FEATURES.grep(/agent_jail_ext/)
    p outcomes, loaded, AgentJail::Platform.enforcement.values.uniq, AgentJail::Platform.unenforced.empty?
    puts AgentJail::Platform.report
  RUBY

  {
    %w[jruby java] => "JRuby", %w[truffleruby x86_64-linux] => "TruffleRuby", %w[ruby x64-mingw-ucrt] => "Windows",
    %w[ruby riscv64-linux] => "a processor without a table", %w[ruby x86_64-linux-gnux32] => "x32",
    %w[ruby x86_64-freebsd14.0] => "another Unix"
  }.each do |(engine, platform), name|
    context "on #{name}" do
      it "loads without its extension, and run follows on_unsupported" do
        ruby = posing_as(engine, platform, "-I#{FreshRuby.lib}", "-ragent_jail", "-e", program)
        refusal = "#{engine} on #{platform} cannot jail"

        expect(ruby).to be_success, ruby.stderr
        expect(ruby.stdout.lines.first(4).map(&:chomp))
          .to eq([[%w[here here], refusal, %w[here here], "timeout"].inspect, "[]", "[false]", "false"])
        expect(ruby.stdout.lines.drop(5)).to all(match(/  NO$/)).and have_attributes(size: AgentJail::Platform::MECHANISMS.size)
        expect(ruby.stderr).to eq("AgentJail: #{refusal}: the block runs without a jail\n")
      end

      it "installs: there is a Makefile that makes nothing" do
        ruby = extconf(engine, platform)

        expect(ruby).to be_success.and have_attributes(stdout: /agent_jail: #{engine} on #{platform} cannot jail/)
        expect([make("clean"), make, make("install")]).to all(be_success)
        expect(built).to be_empty
      end
    end
  end

  it "makes the extension here, when it poses as itself", if: AgentJail::Platform.fork_supported? do
    expect([extconf(RUBY_ENGINE, RUBY_PLATFORM), make, make("install")]).to all(be_success)
    expect(built).to include(/agent_jail_ext\.so\z/)
  end

  it "runs in a jail here, when it poses as itself", if: AgentJail::Platform.fork_supported? do
    ruby = posing_as(RUBY_ENGINE, RUBY_PLATFORM, "-I#{FreshRuby.lib}", "-ragent_jail", "-e", program)

    expect(ruby.stdout.lines.first).to include("forked")
  end

  describe "the gem for JRuby" do
    it "holds all of lib/ and nothing to compile" do
      rake = FreshRuby.spawn([RbConfig.ruby, "-S", "rake", "--rakefile", File.expand_path("../Rakefile", __dir__), "build:java"],
                             { "BUNDLE_GEMFILE" => ENV.fetch("BUNDLE_GEMFILE", nil), "RUBYOPT" => ENV.fetch("RUBYOPT", nil) },
                             nil, 60)
      path = File.expand_path("../pkg/agent_jail-#{described_class::VERSION}-java.gem", __dir__)

      expect(rake).to be_success, rake.stderr
      expect(Gem::Package.new(path).spec).to have_attributes(
        extensions: [], platform: Gem::Platform.new("java"),
        files: include(*Dir.glob("lib/**/*.rb", base: File.expand_path("..", __dir__))).and(all(match(/\A(?!ext)/)))
      )
    end
  end
end
