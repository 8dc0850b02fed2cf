# frozen_string_literal: true

require "etc"
require "fileutils"
require "io/console"
require "pathname"
require "pty"
require "socket"
require "tempfile"

RSpec.describe AgentJail, "paths" do
  include_context "with a directory"

  describe "spelt in any way" do
    # A directory that only the spelling under test grants: writing and reading a file in it.
    def write_in(directory)
      path = File.join(directory, "file")
      -> { File.write(path, "x") && File.read(path) }
    end

    {
      "a String" => ->(path) { path },
      "a frozen String" => ->(path) { path.dup.freeze },
      "a String in bytes" => lambda(&:b),
      "a Pathname" => ->(path) { Pathname(path) },
      "a Dir" => ->(path) { Dir.new(path) },
      "an Array" => ->(path) { [path] },
      "an Array of each" => ->(path) { [Pathname(path), path, Dir.new(path)] },
      "with a trailing slash" => ->(path) { "#{path}/" },
      "with many slashes" => ->(path) { path.gsub("/", "//") },
      "with dots" => ->(path) { "#{path}/../#{File.basename(path)}/." },
      "something that has to_path" => ->(path) { Struct.new(:to_path).new(path) }
    }.each do |what, spell|
      it "grants a directory given as #{what}" do
        spelt = spell.call(directory("granted"))

        expect(described_class.run(fs_allow: spelt, &write_in(at("granted")))).to eq("x")
        expect(&write_in(at("granted"))).to be_refused
      ensure
        Array(spelt).grep(Dir).each(&:close)
      end
    end

    {
      "spaces and signs" => " a 'b' \"c\" $d * ? [e] {f} \\g ",
      "a line end" => "a\nb",
      "a leading dash" => "-rf",
      "a leading ~" => "~root",
      "unicode" => "ünïcode-日本-🎉",
      "bytes that are no UTF-8" => "\xFF\xFEbytes".b,
      "UTF-8 that is broken" => "broken\xC3"
    }.each do |what, name|
      it "grants a directory with #{what} in its name" do
        directory(name)

        expect(described_class.run(fs_allow: at(name), &write_in(at(name)))).to eq("x")
        expect(&write_in(at(name))).to be_refused
      end
    end

    it "grants a relative path from where the caller is" do
      directory("granted")
      inside = Dir.chdir(dir) { described_class.run(fs_allow: "granted", &write_in(at("granted"))) }
      dot = Dir.chdir(at("granted")) { described_class.run(fs_allow: ".", &write_in(".")) }
      up = Dir.chdir(at("granted")) { described_class.run(fs_allow: "..", &write_in(dir)) }

      expect([inside, dot, up]).to eq(%w[x x x])
      expect(&write_in(at("granted"))).to be_refused
    end

    it "grants ~ as HOME" do
      directory("granted")
      home = ENV.to_h["HOME"]
      ENV["HOME"] = dir

      expect(described_class.run(fs_allow: "~/granted", &write_in(at("granted")))).to eq("x")
      expect(&write_in(at("granted"))).to be_refused
    ensure
      ENV["HOME"] = home
    end

    it "grants a File and a Tempfile by their paths" do
      Tempfile.create("agent_jail_spec") do |file|
        expect(described_class.run(fs_allow: file) { File.write(file.path, "x") }).to eq(1)
        expect { File.write(file.path, "x") }.to be_refused
      end
      tempfile = Tempfile.new("agent_jail_spec")

      expect(described_class.run(fs_allow: [tempfile]) { File.write(tempfile.path, "x") }).to eq(1)
    ensure
      tempfile&.close!
    end

    it "grants many paths at once" do
      paths = Array.new(300) { |i| directory("granted#{i}") }

      expect(described_class.run(fs_allow: paths, &write_in(paths.last))).to eq("x")
      expect(&write_in(paths.last)).to be_refused.in_a_jail_with({ fs_allow: paths[0..-2] })
    end

    it "grants / as everything" do
      expect(described_class.run(fs_read_allow: "/") { File.read("/etc/passwd") }).to eq(File.read("/etc/passwd"))
      expect { File.write(at("file"), "x") }.to be_refused.in_a_jail_with({ fs_read_allow: "/" })
    end
  end

  describe "of another kind than a directory" do
    it "grants a single file, and nothing beside it" do
      granted = file("granted")
      beside = file("beside")

      expect(described_class.run(fs_allow: granted) { File.write(granted, "new") && File.read(granted) }).to eq("new")
      expect { File.read(beside) }.to be_refused.in_a_jail_with({ fs_allow: granted })
      expect { File.write(at("new"), "x") }.to be_refused.in_a_jail_with({ fs_allow: granted })
      expect { File.delete(granted) }.to be_refused.in_a_jail_with({ fs_allow: granted }).leaving(dir)
    end

    it "grants a single file to be read, and to be read only" do
      granted = file("granted")

      expect(described_class.run(fs_read_allow: granted) { File.read(granted) }).to eq("content\n")
      expect { File.write(granted, "x") }.to be_refused.in_a_jail_with({ fs_read_allow: granted }).leaving(dir)
    end

    it "grants a FIFO" do
      fifo = at("fifo").tap { |path| File.mkfifo(path) }
      write = -> { File.open(fifo, File::RDWR | File::NONBLOCK) { |io| io.syswrite("x") } }

      expect(described_class.run(fs_allow: fifo, &write)).to eq(1)
      expect(&write).to be_refused.in_a_jail_with({ fs_read_allow: fifo })
      expect(&write).to be_refused
    end

    it "grants a device, terminal settings included" do
      _, terminal = PTY.open
      path = terminal.path
      size = -> { File.open(path, File::RDWR | File::NOCTTY) { |io| io.write("x") && io.winsize } }

      expect(described_class.run(fs_allow: path, &size)).to eq(terminal.winsize)
      expect(&size).to be_refused
    ensure
      terminal&.close
    end

    it "grants a socket's path without opening the network" do
      path = at("socket")
      UNIXServer.open(path) do
        expect(described_class.run(fs_allow: path) { File.socket?(path) }).to be(true)
        expect { UNIXSocket.open(path).close }
          .to be_refused.as(AgentJail::NetworkError).in_a_jail_with({ fs_allow: path })
      end
    end

    it "grants what a symlink leads to, by both names" do
      directory("real")
      File.symlink(at("real"), at("link"))
      write = ->(name) { -> { File.write(at(name, "file"), "x") } }

      expect(%w[link real].map { |name| described_class.run(fs_allow: at("link"), &write[name]) }).to eq([1, 1])
      expect(&write["link"]).to be_refused
      expect(&write["real"]).to be_refused
    end

    it "grants nothing outside through a symlink inside" do
      outside = file("outside")
      directory("granted")
      File.symlink(outside, at("granted", "link"))

      expect { File.read(at("granted", "link")) }.to be_refused.in_a_jail_with({ fs_allow: at("granted") })
      expect { File.write(at("granted", "link"), "x") }
        .to be_refused.in_a_jail_with({ fs_allow: at("granted") }).leaving(outside)
      expect do
        File.symlink(outside, at("granted", "new")) unless File.symlink?(at("granted", "new"))
        File.read(at("granted", "new"))
      end.to be_refused.in_a_jail_with({ fs_allow: at("granted") })
    end

    it "grants nothing outside through .." do
      outside = file("outside")
      directory("granted")

      expect { File.read(at("granted", "..", "outside")) }.to be_refused.in_a_jail_with({ fs_allow: at("granted") })
      expect(described_class.run(fs_allow: outside) { File.read(at("granted", "..", "outside")) }).to eq("content\n")
    end
  end

  describe "of other users" do
    before { skip "needs root" unless Process.uid.zero? }

    it "are granted to root" do
      granted = directory("granted")
      File.write(at("granted", "file"), "x")
      FileUtils.chown_R(12_345, 12_345, granted)
      File.chmod(0o600, at("granted", "file"))
      File.chmod(0o700, granted)
      work = lambda do
        [File.read(at("granted", "file")), File.write(at("granted", "new"), "y"), Dir.children(granted).sort]
      end

      expect(described_class.run(fs_allow: granted, &work)).to eq(["x", 1, %w[file new]])
      expect(&work).to be_refused
    end

    it "stay closed to a user whom the file system lets not in, which is told to the caller" do
      directory("closed")
      Dir.mkdir(at("closed", "inside"))
      File.chmod(0o755, dir)
      File.chmod(0o700, at("closed"))
      ruby = fresh_ruby(<<~RUBY, at("closed", "inside"), as_user: FreshRuby::NOBODY)
        [ARGV[0], File.dirname(ARGV[0])].each do |path|
          puts AgentJail.run(fs_read_allow: path) { Dir.children(path) }.inspect
        rescue SystemCallError, AgentJail::Error => e
          puts "\#{e.class} \#{e.message[ARGV[0]] && "names it"}".strip
        end
      RUBY

      expect(ruby).to have_attributes(stdout: "Errno::EACCES names it\nAgentJail::FilesystemError\n", stderr: "")
    end
  end

  describe "that are not there" do
    before { allow(Process).to receive(:_fork).and_call_original }

    %i[fs_allow fs_read_allow].each do |option|
      it "raise Errno::ENOENT naming the path in #{option}, and fork nothing" do
        File.symlink(at("nowhere"), at("dangling"))
        [at("missing"), Pathname(at("missing")), [dir, at("missing", "deeper")], at("dangling")].each do |paths|
          expect { described_class.run(**{ option => paths }) { 1 } }
            .to raise_error(Errno::ENOENT, /#{Regexp.escape(Array(paths).last.to_s)}/)
        end
        expect(Process).not_to have_received(:_fork)
      end
    end

    it "raise Errno::ENOTDIR when a file stands in the way" do
      expect { described_class.run(fs_allow: File.join(file("file"), "inside")) { 1 } }
        .to raise_error(Errno::ENOTDIR, /inside/)
      expect(Process).not_to have_received(:_fork)
    end

    it "leave nothing open" do
      count = -> { Dir.children("/proc/self/fd").size }
      10.times { expect { described_class.run(fs_allow: at("missing")) { 1 } }.to raise_error(Errno::ENOENT) }

      expect do
        expect { described_class.run(fs_allow: [dir, at("missing")]) { 1 } }.to raise_error(Errno::ENOENT)
      end.not_to(change(&count))
    end
  end
end

RSpec.describe AgentJail, "fs_allow" do
  include_context "with a directory"

  before do
    %w[granted/a granted/b].each { |name| FileUtils.mkdir_p(at(name)) }
    File.write(at("granted/a/file"), "content")
  end

  let(:options) { { fs_allow: at("granted") } }

  # Every act works with the grant, gives what it gives without a jail, and is refused without the grant.
  {
    "write" => ->(root) { File.write("#{root}/a/new", "x") },
    "append" => ->(root) { File.write("#{root}/a/file", "x", mode: "a") },
    "read" => ->(root) { File.read("#{root}/a/file") },
    "list" => ->(root) { Dir.children(root).sort },
    "glob" => ->(root) { Dir.each_child(root).to_a && Dir.glob("#{root}/*").size },
    "truncate" => ->(root) { File.truncate("#{root}/a/file", 1) },
    "truncate through a File" => ->(root) { File.open("#{root}/a/file", "r+") { |io| io.truncate(1) } },
    "rename" => ->(root) { File.rename("#{root}/a/file", "#{root}/a/renamed") },
    "rename to another directory" => ->(root) { File.rename("#{root}/a/file", "#{root}/b/file") },
    "rename a directory into another" => ->(root) { File.rename("#{root}/a", "#{root}/b/a") },
    "link to another directory" => ->(root) { File.link("#{root}/a/file", "#{root}/b/file") },
    "mkdir" => ->(root) { Dir.mkdir("#{root}/a/new") },
    "mkdir_p" => ->(root) { FileUtils.mkdir_p("#{root}/a/new/deeper").size },
    "rmdir" => ->(root) { Dir.rmdir("#{root}/b") },
    "rm_r" => ->(root) { FileUtils.rm_r("#{root}/a").size },
    "symlink" => ->(root) { File.symlink("file", "#{root}/a/link") },
    "unlink" => ->(root) { File.unlink("#{root}/a/file") },
    "mkfifo" => ->(root) { File.mkfifo("#{root}/a/fifo") },
    "mv to another directory" => ->(root) { FileUtils.mv("#{root}/a/file", "#{root}/b") },
    "mv a directory" => ->(root) { FileUtils.mv("#{root}/a", "#{root}/b") },
    "cp" => ->(root) { FileUtils.cp("#{root}/a/file", "#{root}/b/copy") },
    "cp_r" => ->(root) { FileUtils.cp_r("#{root}/a", "#{root}/b").to_s },
    "copy_stream" => ->(root) { IO.copy_stream("#{root}/a/file", "#{root}/b/copy") },
    "flock" => ->(root) { File.open("#{root}/a/file", "r+") { |io| io.flock(File::LOCK_EX) } },
    "fsync" => ->(root) { File.open("#{root}/a/file", "r+") { |io| io.write("x") && io.fsync } },
    "create with a mode" => ->(root) { File.open("#{root}/a/tool", "w", 0o750) { |io| io.stat.mode & 0o777 } }
  }.each do |what, act|
    it "lets the block #{what}" do
      skip "refused before Landlock's ABI 6" if what == "truncate" && !AgentJail::Platform.enforcement[:signals]
      root = at("granted")
      FileUtils.cp_r(root, at("plain"))

      expect(jailed { act.call(root) }).to be_an_instance_of(AgentJail::FilesystemError)
      expect(described_class.run(**options) { act.call(root) }).to eq(act.call(at("plain")))
      expect(tree("granted")).to eq(tree("plain"))
    end
  end

  # Names and contents, without what the two trees cannot have in common.
  def tree(name)
    Acts.snapshot(at(name)).map { |path, mode, *_, content| [path.delete_prefix(at(name)), mode, content] }
  end

  it "lets the block use Tempfile, mktmpdir, PStore and Logger in it" do
    granted = at("granted")
    told = described_class.run(**options) do
      require "tempfile"
      require "pstore"
      require "logger"
      Tempfile.create("x", granted) { |io| io.write("x") }
      Dir.mktmpdir("x", granted) { |path| File.write("#{path}/y", "y") }
      store = PStore.new("#{granted}/store")
      store.transaction { store[:a] = 1 }
      Logger.new("#{granted}/log").info("hello")
      store.transaction(true) { store[:a] }
    end

    expect([told, File.read(at("granted/log"))]).to match([1, /hello/])
  end

  it "lets nothing be renamed or linked into it or out of it" do
    outside = directory("outside")
    File.write(at("outside/file"), "x")

    expect { File.rename(at("outside/file"), at("granted/file")) }.to be_refused.in_a_jail_with(options).leaving(dir)
    expect { File.rename(at("granted/file"), at("outside/file")) }.to be_refused.in_a_jail_with(options).leaving(dir)
    # Landlock says EXDEV where a link would be of more use than what it leads to
    expect { File.link(at("outside/file"), at("granted/link")) }
      .to be_refused.as(AgentJail::Error).in_a_jail_with(options).leaving(dir)
    expect { File.link(at("granted/link"), at("outside/link")) }
      .to be_refused.as(AgentJail::Error).in_a_jail_with(options).leaving(dir)
    expect(described_class.run(fs_allow: [at("granted"), outside]) do
      File.rename(at("granted/link"), at("outside/renamed"))
    end).to eq(0)
  end

  # The kernel's filter sees no paths: it refuses them everywhere, or a read-only grant would not be one.
  it "lets no mode, owner, or time be changed, though it grants the rest" do
    path = at("granted/a/file")
    acts = [-> { File.chmod(0o600, path) }, -> { File.utime(0, 0, path) }, -> { File.chown(Process.uid, nil, path) },
            -> { FileUtils.touch(path) }, -> { File.open(path, "r+") { |io| io.chmod(0o640) } }]

    acts.each { |act| expect(&act).to be_refused.in_a_jail_with(options).leaving(at("granted")) }
  end
end

RSpec.describe AgentJail, "fs_read_allow" do
  include_context "with a directory"

  before do
    %w[granted granted/empty elsewhere].each { |name| Dir.mkdir(at(name)) }
    File.write(at("granted/file"), "content")
    File.symlink("file", at("granted/link"))
    File.write(at("elsewhere/file"), "else")
  end

  it "lets the block read and list" do
    act = lambda do
      [File.read(at("granted/file")), File.read(at("granted/link")), Dir.children(at("granted")).sort,
       File.open(at("granted/file"), &:readline)]
    end

    expect(described_class.run(fs_read_allow: at("granted"), &act)).to eq(act.call)
    expect(&act).to be_refused
  end

  {
    "write" => ->(root) { File.write("#{root}/granted/file", "x") },
    "append" => ->(root) { File.write("#{root}/granted/file", "x", mode: "a") },
    "open for both" => ->(root) { File.open("#{root}/granted/file", "r+", &:close) },
    "write through a link" => ->(root) { File.write("#{root}/granted/link", "x") },
    "create" => ->(root) { File.write("#{root}/granted/new", "x") },
    "truncate" => ->(root) { File.truncate("#{root}/granted/file", 0) },
    "truncate while opening to read" => lambda do |root|
      IO.sysopen("#{root}/granted/file", File::RDONLY | File::TRUNC)
    end,
    "rename" => ->(root) { File.rename("#{root}/granted/file", "#{root}/granted/new") },
    "rename out" => ->(root) { File.rename("#{root}/granted/file", "#{root}/elsewhere/new") },
    "rename in" => ->(root) { File.rename("#{root}/elsewhere/file", "#{root}/granted/new") },
    "link out, to write there" => ->(root) { File.link("#{root}/granted/file", "#{root}/elsewhere/new") },
    "link" => ->(root) { File.link("#{root}/granted/file", "#{root}/granted/new") },
    "unlink" => ->(root) { File.unlink("#{root}/granted/file") },
    "mkdir" => ->(root) { Dir.mkdir("#{root}/granted/new") },
    "rmdir" => ->(root) { Dir.rmdir("#{root}/granted/empty") },
    "symlink" => ->(root) { File.symlink("file", "#{root}/granted/new") },
    "mkfifo" => ->(root) { File.mkfifo("#{root}/granted/new") },
    "make a socket" => ->(root) { UNIXServer.new("#{root}/granted/new").close },
    "chmod" => ->(root) { File.chmod(0o600, "#{root}/granted/file") },
    "chmod through a File" => ->(root) { File.open("#{root}/granted/file") { |io| io.chmod(0o600) } },
    "chown" => ->(root) { File.chown(Process.uid, Process.gid, "#{root}/granted/file") },
    "chown through a File" => ->(root) { File.open("#{root}/granted/file") { |io| io.chown(Process.uid, nil) } },
    "lchown" => ->(root) { File.lchown(Process.uid, nil, "#{root}/granted/link") },
    "utime" => ->(root) { File.utime(0, 0, "#{root}/granted/file") },
    "lutime" => ->(root) { File.lutime(0, 0, "#{root}/granted/link") },
    "touch" => ->(root) { FileUtils.touch("#{root}/granted/new") }
  }.each do |what, act|
    it "does not let the block #{what}" do
      expect { act.call(dir) }
        .to be_refused.as(what[/link out/] ? AgentJail::SandboxError : AgentJail::DeniedError).leaving(at("granted"))
                      .in_a_jail_with({ fs_read_allow: at("granted"), fs_allow: at("elsewhere") })
    end
  end

  it "does not let the block list a file into being, nor write where only part of it is granted" do
    File.write(at("granted/empty/file"), "x")
    both = { fs_read_allow: at("granted"), fs_allow: at("granted/empty") }

    expect(described_class.run(**both) { File.write(at("granted/empty/file"), "new") }).to eq(3)
    expect { File.write(at("granted/file"), "new") }.to be_refused.in_a_jail_with(both)
  end
end

RSpec.describe AgentJail, "a path that nobody granted" do
  include_context "with a directory"

  before do
    directory("closed")
    File.write(at("closed/file"), "content")
    File.symlink("file", at("closed/link"))
    File.write(at("closed/tool"), "#!/bin/sh\necho ran\n")
    File.chmod(0o755, at("closed/tool"))
  end

  {
    "read" => ->(root) { File.read("#{root}/file") },
    "read through a link" => ->(root) { File.read("#{root}/link") },
    "copy" => ->(root) { IO.copy_stream("#{root}/file", File::NULL) },
    "list" => ->(root) { Dir.children(root) },
    "write" => ->(root) { File.write("#{root}/file", "x") },
    "append" => ->(root) { File.write("#{root}/file", "x", mode: "a") },
    "create" => ->(root) { File.write("#{root}/new", "x") },
    "create without a name" => lambda do |root|
      File.open(root, File::RDWR | File::TMPFILE, &:close)
    end,
    "truncate" => ->(root) { File.truncate("#{root}/file", 0) },
    "rename" => ->(root) { File.rename("#{root}/file", "#{root}/new") },
    "unlink" => ->(root) { File.unlink("#{root}/file") },
    "mkdir" => ->(root) { Dir.mkdir("#{root}/new") },
    "chmod" => ->(root) { File.chmod(0o777, "#{root}/file") },
    "utime" => ->(root) { File.utime(0, 0, "#{root}/file") }
  }.each do |what, act|
    it "cannot be #{what == "list" ? "listed" : "used to #{what}"}" do
      File.write(at("closed/file"), "1")

      expect { act.call(at("closed")) }.to be_refused.leaving(at("closed"))
    end
  end

  it "is globbed as if it were empty" do
    expect([Dir.glob("#{at("closed")}/*").size, described_class.run { Dir.glob("#{at("closed")}/*") }]).to eq([3, []])
  end

  it "cannot be executed where programs may be run, and can with a grant" do
    run = -> { IO.popen([at("closed/tool")], &:read) }

    expect(&run).to be_refused.in_a_jail_with({ processes: true })
    expect(described_class.run(processes: true, fs_read_allow: at("closed"), &run)).to eq("ran\n")
    expect(&run).to be_refused.as(AgentJail::ProcessError).in_a_jail_with({ fs_read_allow: at("closed") })
  end

  # Landlock does not govern these. SECURITY.md says so; here is what the block can tell of a closed path.
  it "can be asked for its status, and whether it is there" do
    ask = lambda do
      path = at("closed/file")
      [File.exist?(path), File.exist?(at("closed/none")), File.size(path), File.stat(path).mode, File.mtime(path).to_f,
       File.readlink(at("closed/link")), File.realpath(at("closed/link")), File.readable?(path)]
    end

    expect(described_class.run(&ask)).to eq(ask.call)
  end

  it "can be the working directory" do
    expect(described_class.run { Dir.chdir(at("closed")) { File.size("file") } }).to eq(7)
    expect { Dir.chdir(at("closed")) { File.read("file") } }.to be_refused
  end

  it "stays closed when the caller had been in it" do
    Dir.chdir(at("closed")) do
      expect { File.read("file") }.to be_refused
      expect(described_class.run(fs_read_allow: ".") { File.read("file") }).to eq("content")
    end
  end
end
