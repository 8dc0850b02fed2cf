# frozen_string_literal: true

RSpec.describe AgentJail::Platform do
  # The predicates of a platform that is not this one.
  def on(platform)
    stub_const("RUBY_PLATFORM", platform)
    { linux: described_class.linux?, macos: described_class.macos?, windows: described_class.windows? }
  end

  {
    "x86_64-linux" => :linux,
    "x86_64-linux-gnu" => :linux,
    "aarch64-linux-musl" => :linux,
    "arm64-darwin23" => :macos,
    "x86_64-darwin19" => :macos,
    "x64-mingw-ucrt" => :windows,
    "x64-mingw32" => :windows,
    "i386-mswin32" => :windows,
    "i386-cygwin" => :windows,
    "x86_64-freebsd14.0" => nil,
    "java" => nil
  }.each do |platform, system|
    it "calls #{platform} #{system || "none of the three"}" do
      expect(on(platform).select { |_, true_there| true_there }.keys).to eq([system].compact)
    end
  end

  it "calls this machine what the system calls itself" do
    system = Etc.uname[:sysname]

    expect([described_class.linux?, described_class.macos?]).to eq([system == "Linux", system == "Darwin"])
  end

  {
    %w[ruby x86_64-linux] => true, %w[ruby x86_64-linux-musl] => true, %w[ruby aarch64-linux] => true,
    %w[ruby aarch64-linux-gnu] => true, %w[ruby x86_64-linux-gnux32] => false, %w[ruby i686-linux] => false,
    %w[ruby armv7l-linux-gnueabihf] => false, %w[ruby riscv64-linux] => false, %w[ruby aarch64_be-linux] => false,
    %w[ruby arm64-darwin23] => true, %w[ruby x86_64-darwin21] => true, %w[truffleruby arm64-darwin23] => false,
    %w[jruby java] => false, %w[truffleruby x86_64-linux] => false, %w[ruby x64-mingw-ucrt] => false
  }.each do |(engine, platform), supported|
    it "#{supported ? "can" : "cannot"} fork a jail with #{engine} on #{platform}" do
      stub_const("RUBY_ENGINE", engine)
      stub_const("RUBY_PLATFORM", platform)

      expect(described_class.fork_supported?).to be(supported)
    end
  end

  describe "on macOS" do
    before { stub_const("RUBY_PLATFORM", "arm64-darwin23") }

    def enforcing(answers)
      allow(AgentJail::Native).to receive(:enforcement).and_return(answers)
      described_class.instance_variable_set(:@unenforced, nil)
    end

    after { described_class.instance_variable_set(:@unenforced, nil) }

    it "tells of Seatbelt and the footprint, and of nothing that Linux has" do
      enforcing({ seatbelt: true, footprint: true })

      expect([described_class.enforcement, described_class.unenforced]).to eq([{ seatbelt: true, footprint: true }, []])
      expect(described_class.report.lines.drop(1)).to match([/\ASeatbelt.* yes$/, /footprint.* yes\z/])
      expect(described_class.report).not_to match(/Landlock|seccomp|pidfd|0\.0/)
    end

    it "needs both" do
      told = [{ seatbelt: false, footprint: true }, { seatbelt: true, footprint: false }].map do |answers|
        enforcing(answers)
        described_class.unenforced
      end

      expect(told).to match([[/\ASeatbelt/], [/footprint/]])
    end

    it "has no Landlock, which nobody is asked about" do
      expect([described_class.landlock_abi, described_class.landlock_supported?]).to eq([0, false])
    end

    it "enforces nothing without the extension" do
      stub_const("RUBY_ENGINE", "jruby")

      expect(described_class.enforcement).to eq({ seatbelt: false, footprint: false })
    end
  end

  describe ".landlock_abi", if: described_class.linux? do
    # The kernel's own answer, asked past the gem; a kernel without Landlock answers -1.
    def kernel_abi
      call = Fiddle::Function.new(Fiddle::Handle::DEFAULT["syscall"],
                                  [Fiddle::TYPE_LONG, Fiddle::TYPE_VOIDP, Fiddle::TYPE_SIZE_T, Fiddle::TYPE_INT],
                                  Fiddle::TYPE_LONG)
      [call.call(444, nil, 0, 1), 0].max
    end

    it "is what the kernel says" do
      require "fiddle"

      expect(described_class.landlock_abi).to eq(kernel_abi)
    end

    it "is 0, and Landlock not supported, where there is no extension to ask" do
      here = described_class.landlock_supported?
      stub_const("RUBY_ENGINE", "jruby")

      expect([here, described_class.landlock_abi, described_class.landlock_supported?])
        .to eq([AgentJail::Native.landlock_abi.positive?, 0, false])
    end

    it "is told the same inside the jail" do
      expect(AgentJail.run { described_class.landlock_abi }).to eq(described_class.landlock_abi)
    end
  end

  describe ".enforcement", if: described_class.fork_supported? do
    it "is not guessed where there is no room to look" do
      ruby = fresh_ruby(<<~RUBY)
        Process.setrlimit(:NOFILE, 32, 32)
        held = []
        begin
          loop { held << File.open(File::NULL) }
        rescue Errno::EMFILE
          2.times do
            AgentJail.run { 1 }
          rescue SystemCallError => e
            puts e.class
          end
        end
        held.each(&:close)
        p AgentJail.run { 1 }, AgentJail::Platform.unenforced
      RUBY

      expect(ruby).to have_attributes(stdout: "Errno::EMFILE\nErrno::EMFILE\n1\n[]\n", stderr: "")
    end

    it "names every mechanism, and prints a line for each" do
      names = described_class::MECHANISMS.keys

      expect(described_class.enforcement.keys).to eq(names)
      expect(described_class.report.lines.drop(1).map { |line| line[/\A.*?(?=  )/] })
        .to eq(described_class::MECHANISMS.values)
    end
  end

  describe ".kernel_version" do
    it "is the running kernel's major and minor number, comparable", if: described_class.linux? do
      major, minor = Etc.uname[:release].scan(/\d+/)

      expect(described_class.kernel_version).to eq(Gem::Version.new("#{major}.#{minor}")).and be > Gem::Version.new("3.10")
    end

    it "is 0.0 on another system" do
      stub_const("RUBY_PLATFORM", "arm64-darwin23")

      expect(described_class.kernel_version).to eq(Gem::Version.new("0.0"))
    end

    it "can be read inside the jail" do
      expect(AgentJail.run { described_class.kernel_version.to_s }).to eq(described_class.kernel_version.to_s)
    end
  end
end

RSpec.describe AgentJail, "where it cannot jail" do
  # Ruby code that makes the platform look as if it had no fork, or no Landlock.
  def without(feature)
    answer = { "fork" => "fork_supported?) { false }", "Landlock" => "landlock_abi) { 0 }" }.fetch(feature)
    "AgentJail::Platform.define_singleton_method(:#{answer}\n"
  end

  def reacting(reaction)
    "AgentJail.configure { |c| c.on_unsupported = :#{reaction} }\n"
  end

  program = <<~RUBY
    pid = $$
    2.times do
      puts(AgentJail.run { $$ == pid ? "here" : "forked" })
    rescue AgentJail::Error => e
      puts(e.class)
    end
  RUBY

  {
    "fork" => ["here\nhere\n", RUBY_PLATFORM],
    **(AgentJail::Platform.linux? ? { "Landlock" => %W[forked\nforked\n Landlock] } : {})
  }.each do |feature, (output, names)|
    context "without #{feature}" do
      it "raises UnsupportedPlatformError under on_unsupported :raise, and runs nothing" do
        ruby = fresh_ruby(without(feature) + reacting(:raise) + program)

        expect(ruby).to be_success.and have_attributes(stdout: "AgentJail::UnsupportedPlatformError\n" * 2, stderr: "")
      end

      it "runs the block and warns once under on_unsupported :warn, the default" do
        ruby = fresh_ruby(without(feature) + program)

        expect(ruby).to be_success.and have_attributes(stdout: output, stderr: /\A.*AgentJail: .*#{names}.*\n\z/)
      end

      it "runs the block and says nothing under on_unsupported :ignore" do
        ruby = fresh_ruby(without(feature) + reacting(:ignore) + program)

        expect(ruby).to be_success.and have_attributes(stdout: output, stderr: "")
      end
    end
  end

  it "says nothing and forks where it can, whatever on_unsupported is" do
    %i[warn raise ignore].each do |reaction|
      ruby = fresh_ruby(reacting(reaction) + program)

      expect(ruby).to be_success.and have_attributes(stdout: "forked\nforked\n", stderr: "")
    end
  end
end
