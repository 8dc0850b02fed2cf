# frozen_string_literal: true

require "json"

# What is readable without asking, and what is not, as root and as a user who owns nothing. Every act is tried in a jail
# and in a plain fork of the same Ruby, which has loaded nothing but the gem.
RSpec.describe AgentJail, "without any grant" do
  # Each act of ACTS, in a jail and in a plain fork: [value, nil] or [nil, "Class: message"], as JSON.
  program = <<~'RUBY'
    require "json"
    # Everything that is to happen in the child only is in strings: nothing is loaded before.
    acts = JSON.parse(File.read(ARGV.shift))

    def told
      [yield, nil]
    rescue AgentJail::Error, StandardError, ScriptError => e
      [nil, "#{e.class}: #{e.message}".scrub]
    end

    def plain
      reader, writer = IO.pipe
      Process.wait(fork do
        reader.close
        writer.write(Marshal.dump(told { yield }))
        writer.flush
        exit!
      end)
      writer.close
      Marshal.load(reader.read)
    end

    def tried(code)
      act = -> { eval(code, TOPLEVEL_BINDING.dup, "act") }
      { jailed: told { AgentJail.run(&act) }, plain: plain(&act) }
    end

    Process.setrlimit(:CORE, 0)
    PARENT = $$
    def parent(name) = File.join("/proc", PARENT.to_s, name)
    # the first that a plain fork can open
    RAW = Dir["/dev/*"].select { |path| File.blockdev?(path) }.sort.find do |path|
      File.open(path, "rb") { true }
    rescue SystemCallError
      false
    end
    puts JSON.generate(acts.transform_values { |code| tried(code) })
  RUBY

  # What becomes of the acts, by name.
  define_method(:try) do |acts, **options|
    Dir.mktmpdir("agent_jail_spec") do |directory|
      File.chmod(0o755, directory)
      path = File.join(directory, "acts.json")
      File.write(path, JSON.generate(acts))
      ruby = fresh_ruby(program, path, **options)
      raise "no fresh Ruby: #{ruby}" unless ruby.success?

      JSON.parse(ruby.stdout)
    end
  end

  open_acts = {
    "a file of the standard library" => 'require "optparse"; OptionParser.new.banner.class.name',
    "an extension of the standard library" => 'require "ripper"; Ripper.sexp("1").first.to_s',
    "much of the standard library" => <<~RUBY,
      %w[benchmark csv delegate digest erb fiddle find forwardable io/console ipaddr json logger matrix net/http nkf
         observer open3 optparse ostruct pp prime pstore psych racc readline reline ripper securerandom set shellwords
         socket stringio strscan tempfile time tsort uri weakref yaml zlib].map do |name|
        require name
      rescue LoadError => e
        e.message
      end
    RUBY
    "resolv, which reads the name servers as it loads" => 'require "resolv"; Resolv::IPv4::Regex.match?("127.0.0.1")',
    "a class that loads when it is named" => 'autoload :OpenStruct, "ostruct"; OpenStruct.new(a: 1).a',
    "JSON" => 'JSON.parse(%([1, {"a": null}]))',
    "YAML" => 'require "yaml"; YAML.load("a: [1, 2]")',
    "CSV" => 'require "csv"; CSV.parse("a,b")',
    "Set" => 'require "set"; Set[1].to_a',
    "BigDecimal" => 'require "bigdecimal"; BigDecimal("1.5").to_s',
    "Date and Time" => 'require "time"; Time.parse("2026-01-02T03:04:05Z").to_i',
    "zlib" => 'require "zlib"; Zlib.gunzip(Zlib.gzip("x"))',
    "ERB" => 'require "erb"; ERB.new("<%= 1 %>").result',
    "sockets loaded, none opened" => 'require "socket"; Socket.gethostname',
    "a zone of TZ" => 'ENV["TZ"] = "Asia/Tokyo"; Time.at(0).to_s',
    "a zone of TZ with summer time" => 'ENV["TZ"] = "America/New_York"; [Time.at(1_750_000_000).zone, Time.at(0).zone]',
    "the local zone" => 'ENV.delete("TZ"); Time.at(0).to_s',
    "Shift_JIS" => '"日本".encode("Shift_JIS").bytes',
    "EUC-JP" => '"日本".encode("EUC-JP").bytes',
    "ISO-2022-JP" => '"日本".encode("ISO-2022-JP").bytes',
    "Windows-1252 to UTF-16" => '"\xE9".dup.force_encoding("Windows-1252").encode("UTF-16BE").bytes',
    "GB18030" => '"\xC4\xE3".dup.force_encoding("GB18030").encode("UTF-8")',
    "the class of a character" => '"é" =~ /\p{Alpha}/',
    "SecureRandom" => 'require "securerandom"; SecureRandom.hex(8).size',
    "Random" => "[Random.new_seed.class.name, Random.bytes(3).bytesize, rand(1)]",
    "/dev/urandom" => 'File.binread("/dev/urandom", 4).bytesize',
    "/dev/zero" => 'File.binread("/dev/zero", 4)',
    "/dev/null to be written" => 'File.write(File::NULL, "x")',
    "/dev/null in place of standard output" => '$stdout.reopen(File::NULL, "w"); print("x"); true',
    "a digest" => 'require "digest"; Digest::SHA256.hexdigest("x")',
    "OpenSSL's digest" => 'require "openssl"; OpenSSL::Digest.hexdigest("SHA256", "x")',
    "OpenSSL's configuration" => 'require "openssl"; OpenSSL::Config.load(OpenSSL::Config::DEFAULT_CONFIG_FILE).class.name',
    "OpenSSL's certificates" => 'require "openssl"; OpenSSL::X509::Store.new.set_default_paths.class.name',
    "OpenSSL's context" => 'require "openssl"; OpenSSL::SSL::SSLContext.new.set_params.size',
    "OpenSSL's key generation" => 'require "openssl"; OpenSSL::PKey::EC.generate("prime256v1").private?',
    "the certificates themselves" => <<~RUBY,
      require "openssl"
      file = OpenSSL::X509::DEFAULT_CERT_FILE
      directory = OpenSSL::X509::DEFAULT_CERT_DIR
      [File.file?(file) && File.read(file).size, File.directory?(directory) && Dir.children(directory).size]
    RUBY
    "the number of processors" => 'require "etc"; Etc.nprocessors',
    "the name of the system" => 'require "etc"; Etc.uname',
    "its own /proc" => '[File.read("/proc/self/stat").to_i == $$, Dir.children(File.join("/proc", $$.to_s)).size > 9]',
    "its own descriptors' list" => 'Dir.children("/proc/self/fd").size.positive?',
    "the memory of the machine" => 'File.read("/proc/meminfo")[/MemTotal: +\d+/]',
    "the home directory's name" => "Dir.home",
    "an error with a hint at the code" => "nil.no_such_method",
    "an error with a hint at a name" => "[].frist"
  }

  closed_acts = {
    "/etc/passwd" => 'File.read("/etc/passwd").class.name',
    "/etc/hostname" => 'File.read("/etc/hostname").class.name',
    "/etc/shadow" => 'File.read("/etc/shadow").class.name',
    "/etc" => 'Dir.children("/etc").class.name',
    "/proc" => 'Dir.children("/proc").class.name',
    "/dev" => 'Dir.children("/dev").class.name',
    "/tmp" => 'Dir.children("/tmp").class.name',
    "/home" => 'Dir.children("/home").class.name',
    "/var/log" => 'Dir.children("/var/log").class.name',
    "/root" => 'Dir.children("/root").class.name',
    "the caller's environment" => 'File.binread(parent("environ")).class.name',
    "the caller's command line" => 'File.binread(parent("cmdline")).class.name',
    "the caller's mappings" => 'File.read(parent("maps")).class.name',
    "the caller's memory" => 'File.open(parent("mem"), "rb", &:close) || true',
    "the caller's descriptors" => 'Dir.children(parent("fd")).class.name',
    "a file that the caller has open" => 'File.read(parent("fd/0")).class.name',
    "the caller's threads" => 'Dir.children(parent("task")).class.name',
    "the caller's root" => 'Dir.children(parent("root")).class.name',
    "the first process's environment" => 'File.binread("/proc/1/environ").class.name',
    "the first process's command line" => 'File.binread("/proc/1/cmdline").class.name',
    "a raw device" => 'File.open(RAW, "rb", &:close) || true',
    "the kernel's log" => 'File.open("/dev/kmsg", "r", &:close) || true',
    "the terminals" => 'Dir.children("/dev/pts").class.name'
  }
  # What anybody may do in a plain fork. The others depend on who asks and on the machine.
  certain = ["/etc/passwd", "/etc", "/proc", "/dev", "/tmp", "the caller's environment", "the caller's command line",
             "the caller's mappings", "the caller's descriptors", "the caller's threads"]

  { "the caller" => nil, "a user who owns nothing" => FreshRuby::NOBODY }.each do |who, user|
    context "as #{who}" do
      before(:context) do
        skip "needs root" if user && !Process.uid.zero?
        @told = try(open_acts.merge(closed_acts), as_user: user, env: { "SSL_CERT_FILE" => nil, "SSL_CERT_DIR" => nil })
      end

      open_acts.each_key do |what|
        it "lets Ruby use #{what}" do
          jailed, plain = @told.fetch(what).values_at("jailed", "plain")
          plain[1] &&= "AgentJail::SandboxError: #{plain[1]}"

          expect(jailed).to eq(plain)
        end
      end

      certain.each do |what|
        it "closes #{what}" do
          jailed, plain = @told.fetch(what).values_at("jailed", "plain")

          expect(plain).to match([anything, nil])
          expect(jailed).to match([nil, /\AAgentJail::FilesystemError: Permission denied/])
        end
      end

      it "closes what else is open to it without a jail" do
        open = @told.slice(*closed_acts.keys).select { |_, told| told["plain"][1].nil? }
        still_open = open.reject { |_, told| told["jailed"][1]&.match?(/\AAgentJail::FilesystemError: Permission denied/) }

        expect(open.keys).to include("/etc/hostname", "the terminals")
        expect(still_open).to be_empty
      end
    end
  end

  it "gives the zones, encodings and certificates their true values" do
    tokyo, japan = described_class.run do
      ENV["TZ"] = "Asia/Tokyo"
      [Time.at(0).hour, "日本".encode("Shift_JIS").bytes]
    end

    expect(japan).to eq([0x93, 0xFA, 0x96, 0x7B])
    expect(tokyo).to eq(File.exist?("/usr/share/zoneinfo/Asia/Tokyo") ? 9 : 0)
  end

  describe "lets gems be loaded" do
    include_context "with a directory"

    gem_files = {
      "gems/jailed_gem-1.0/lib/jailed_gem.rb" => <<~RUBY,
        module JailedGem
          autoload :Later, "jailed_gem/later"
          def self.words = File.read(File.expand_path("../data/words.txt", __dir__))
        end
      RUBY
      "gems/jailed_gem-1.0/lib/jailed_gem/later.rb" => "JailedGem::Later = :later\n",
      "gems/jailed_gem-1.0/data/words.txt" => "hello\n",
      "specifications/jailed_gem-1.0.gemspec" => <<~RUBY
        Gem::Specification.new do |s|
          s.name = "jailed_gem"
          s.version = "1.0"
          s.summary = "x"
          s.authors = ["x"]
          s.require_paths = ["lib"]
        end
      RUBY
    }

    # The gem in bundler's layout: the directory that is GEM_HOME then.
    define_method(:install) do |root|
      home = File.join(root, "vendor", "bundle", "ruby", RbConfig::CONFIG.fetch("ruby_version"))
      gem_files.each { |path, content| write(File.join(home, path), content) }
      FileUtils.chmod_R("a+rX", root)
      home
    end

    def write(path, content)
      FileUtils.mkdir_p(File.dirname(path))
      File.write(path, content)
    end

    use = 'require "jailed_gem"; [JailedGem.words, JailedGem::Later, $LOADED_FEATURES.grep(/jailed_gem/).size]'

    [nil, FreshRuby::NOBODY].each do |user|
      it "that are in vendor/bundle and that nobody has required yet, as #{user || "the caller"}" do
        skip "needs root" if user && !Process.uid.zero?
        home = install(dir)
        ruby = fresh_ruby("p $LOADED_FEATURES.grep(/jailed_gem/), AgentJail.run { #{use} }",
                          env: { "GEM_PATH" => home, "GEM_HOME" => home }, as_user: user)

        expect(ruby).to have_attributes(stdout: "[]\n[\"hello\\n\", :later, 2]\n", stderr: "")
      end
    end

    it "that were added to the load path after the gem was loaded" do
      home = install(dir)
      ruby = fresh_ruby(<<~RUBY, File.join(home, "gems/jailed_gem-1.0/lib"))
        AgentJail.run { 1 }
        $LOAD_PATH << ARGV[0]
        p AgentJail.run { require("jailed_gem") && JailedGem::Later }
      RUBY

      expect(ruby).to have_attributes(stdout: ":later\n", stderr: "")
    end

    it "that another directory of the load path leads to, and nothing beside it" do
      write(at("app/lib/tool.rb"), "TOOL = 1\n")
      write(at("app/config/secret"), "secret")
      ruby = fresh_ruby(<<~RUBY, at("app"))
        $LOAD_PATH << File.join(ARGV[0], "lib")
        p AgentJail.run { require("tool") && TOOL }
        begin
          AgentJail.run { File.read(File.join(ARGV[0], "config/secret")) }
        rescue AgentJail::Error => e
          p e.class
        end
      RUBY

      expect(ruby).to have_attributes(stdout: "1\nAgentJail::FilesystemError\n", stderr: "")
    end

    ["/", "/etc", "~", "/proc", "relative"].each do |path|
      it "without opening #{path} when that is in the load path" do
        directory("relative")
        ruby = fresh_ruby(<<~RUBY, dir, env: { "HOME" => dir })
          Dir.chdir(ARGV[0])
          File.write("secret", "secret")
          $LOAD_PATH << #{path.inspect}.sub("~", Dir.home)
          [-> { File.read("/etc/passwd") }, -> { File.read("secret") }, -> { File.read("/proc/\#{Process.ppid}/environ") }].each do |act|
            AgentJail.run(&act)
            puts "read"
          rescue AgentJail::Error => e
            puts e.class
          end
        RUBY

        expect(ruby).to have_attributes(stdout: "AgentJail::FilesystemError\n" * 3, stderr: "")
      end
    end
  end

  describe "keeps closed" do
    include_context "with a directory"

    before { file("secret") }

    it "the directory that the application is in" do
      Dir.chdir(dir) do
        expect { File.read("secret") }.to be_refused
        expect { Dir.children(".") }.to be_refused
        expect(described_class.run(fs_read_allow: ".") { File.read("secret") }).to eq("content\n")
      end
    end

    it "the home directory" do
      home = ENV.to_h["HOME"]
      ENV["HOME"] = dir

      expect { File.read(File.expand_path("~/secret")) }.to be_refused
      expect(described_class.run(fs_read_allow: "~/secret") { File.read(at("secret")) }).to eq("content\n")
    ensure
      ENV["HOME"] = home
    end

    it "the file of the program itself, and the error's words come over all the same" do
      path = file("program.rb", "AgentJail.run { nil.no_such_method }\n")
      ruby = fresh_ruby(<<~RUBY, path)
        begin
          load ARGV[0]
        rescue AgentJail::SandboxError => e
          puts e.original_class, e.original_message
        end
        begin
          AgentJail.run { File.read(ARGV[0]) }
        rescue AgentJail::FilesystemError => e
          puts e.class
        end
      RUBY

      expect(ruby.stdout).to match(/\ANoMethodError\nundefined method [`']no_such_method' .*AgentJail::FilesystemError\n\z/m)
    end

    it "a temporary file of the caller's" do
      Tempfile.create("agent_jail_spec") do |temporary|
        temporary.write("x")
        temporary.flush

        expect { File.read(temporary.path) }.to be_refused
        expect(described_class.run(fs_read_allow: temporary.path) { File.read(temporary.path) }).to eq("x")
      end
    end

    it "every place to write" do
      places = ["/tmp", "/var/tmp", "/dev/shm", Dir.pwd, Dir.home, RbConfig::CONFIG["rubylibdir"], Gem.dir, dir]
      places.select { |place| File.directory?(place) && File.writable?(place) }.each do |place|
        path = File.join(place, "agent_jail_spec_#{Process.pid}")
        expect { File.write(path, "x") }.to be_refused
      ensure
        File.delete(path) if path && File.exist?(path)
      end
    end
  end
end
