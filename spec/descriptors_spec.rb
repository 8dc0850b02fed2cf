# frozen_string_literal: true

require "socket"
require "sqlite3"
require "timeout"

# Memory of the mmap call, for what Ruby has no words for.
module SharedMemory
  LIBC = Fiddle.dlopen(nil)
  MMAP = Fiddle::Function.new(LIBC["mmap"], [Fiddle::TYPE_VOIDP, Fiddle::TYPE_SIZE_T, *[Fiddle::TYPE_INT] * 3,
                                             Fiddle::TYPE_LONG], Fiddle::TYPE_VOIDP)
  MUNMAP = Fiddle::Function.new(LIBC["munmap"], [Fiddle::TYPE_VOIDP, Fiddle::TYPE_SIZE_T], Fiddle::TYPE_INT)
  READ_WRITE = 3
  SHARED = 0x01
  ANONYMOUS = 0x20

  # Yields a Fiddle::Pointer to shared memory: of the file, or of none.
  def self.map(size, file: nil)
    address = MMAP.call(nil, size, READ_WRITE, SHARED | (file ? 0 : ANONYMOUS), file ? file.fileno : -1, 0)
    raise "mmap failed" if address.to_i == -1

    yield Fiddle::Pointer.new(address.to_i, size)
  ensure
    MUNMAP.call(address, size) if address
  end
end

RSpec.describe AgentJail, "and what the parent has open", if: AgentJail::Platform.linux? do
  include_context "with a directory"

  # What an act on a dead descriptor ends in.
  dead = lambda do |outcome|
    outcome.is_a?(AgentJail::Error) || outcome.nil? || outcome == "" || outcome == :wait_readable ||
      %w[EBADF ENOTSOCK EINVAL ENETUNREACH].include?(outcome)
  end

  # A pair of ends, made by the block: [what the jail gets, what its peer is].
  def ends(made)
    @ends = made
  end

  after { @ends&.each { |io| io.close unless io.closed? } }

  def tcp_pair
    TCPServer.open("127.0.0.1", 0) do |server|
      client = TCPSocket.new("127.0.0.1", server.local_address.ip_port)
      [client, server.accept]
    end
  end

  # What the peer has received, or :closed, or nothing.
  def received(peer)
    bytes = peer.read_nonblock(100, exception: false)
    { :wait_readable => nil, nil => :closed }.fetch(bytes, bytes)
  end

  pairs = {
    "a Unix socket" => -> { UNIXSocket.pair },
    "a Unix datagram socket" => -> { Socket.pair(:UNIX, :DGRAM) },
    "a TCP socket" => -> { tcp_pair },
    "a pipe" => -> { IO.pipe.reverse }
  }
  writes = {
    "write" => ->(io) { io.write("leak").tap { io.flush } },
    "syswrite" => ->(io) { io.syswrite("leak") },
    "write_nonblock" => ->(io) { io.write_nonblock("leak") },
    "an IO of the same number" => ->(io) { IO.for_fd(io.fileno, "w", autoclose: false).syswrite("leak") },
    "a dup" => ->(io) { io.dup.syswrite("leak") },
    "the number itself" => ->(io) { kernel(:write, io.fileno, "leak", 4) },
    "writev" => ->(io) { kernel(:writev, io.fileno, iovec(address(@leak = "leak"), 4), 1) }
  }
  of_sockets = {
    "send" => ->(io) { io.send("leak", 0) },
    "sendmsg" => ->(io) { io.sendmsg("leak") },
    "sendto" => ->(io) { kernel(:sendto, io.fileno, "leak", 4, 0, 0, 0) }
  }

  # What each of the acts ends in, one after the other.
  def try_all(acts, subject)
    acts.transform_values do |act|
      instance_exec(subject, &act)
    rescue StandardError => e
      e.class.name
    end
  end

  pairs.to_a.product([true, false]).each do |(what, make), cloexec|
    context "with #{what}#{", not closed on exec" unless cloexec}" do
      before do
        ends(instance_exec(&make))
        @ends.first.close_on_exec = cloexec
      end

      acts = what == "a pipe" ? writes : writes.merge(of_sockets)

      it "sends nothing, however it is tried" do
        io, peer = @ends
        outcomes = jailed { try_all(acts, io) }

        expect(outcomes.values).to all(match(/EBADF|ENOTSOCK|EINVAL|IOError/))
        expect(received(peer)).to be_nil
        expect(unjailed { try_all(acts, io) }).to eq(acts.transform_values { 4 })
        expect(Array.new(acts.size) { received(peer) }.join).to eq("leak" * acts.size)
      end

      next if what == "a pipe" # no fork can end one for its parent

      it "stays the parent's, whatever is done to end it" do
        io, peer = @ends
        endings = [-> { io.shutdown }, -> { kernel(:shutdown, io.fileno, 2) }, -> { IO.for_fd(io.fileno).close },
                   -> { io.close }]
        endings.each { |act| jailed(&act) }
        io.syswrite("still there")

        expect(received(peer)).to eq("still there")
        unjailed(&endings.first)
        expect { io.syswrite("gone") }.to raise_error(Errno::EPIPE)
      end
    end
  end

  {
    "sysread" => ->(io) { io.sysread(4) },
    "read_nonblock" => ->(io) { io.read_nonblock(4, exception: false) },
    "the number itself" => ->(io) { kernel(:read, io.fileno, @into = "\0" * 4, 4).then { @into.delete("\0") } }
  }.each do |how, act|
    it "takes nothing that came for the parent, by #{how}" do
      outcomes = pairs.values.map do |make|
        to, from = ends(instance_exec(&make)).reverse.then { |peer, io| [io, peer] }
        to.syswrite("mail")
        result = [jailed { instance_exec(from, &act) }, from.read_nonblock(4, exception: false)]
        to.syswrite("mail")
        result + [unjailed { instance_exec(from, &act) }, received(from)]
      end

      expect(outcomes).to all(match([satisfy(&dead), "mail", "mail", nil]))
    end
  end

  describe "a file" do
    attr_reader :path

    before { @path = file("data", "content") }

    {
      "opened by File.open" => -> { File.open(path, "r+") },
      "opened with O_SYNC and kept on exec" => -> { File.open(path, "r+").tap { |io| io.close_on_exec = false } },
      "opened by number" => -> { IO.for_fd(IO.sysopen(path, "r+"), "r+") }
    }.each do |how, open|
      it "#{how} is neither read nor written" do
        io = instance_exec(&open)
        acts = [-> { io.sysread(7) }, -> { io.syswrite("leak") }, -> { io.truncate(0) }, -> { io.pread(7, 0) },
                -> { kernel(:pwrite64, io.fileno, "leak", 4, 0) }, -> { kernel(:ftruncate, io.fileno, 0) }]
        outcomes = acts.map { |act| jailed(&act) }
        position = io.sysseek(0, IO::SEEK_CUR)

        expect(outcomes).to all(satisfy(&dead))
        expect([File.read(path), position]).to eq(["content", 0])
        expect([unjailed(&acts[0]), unjailed(&acts[4]), File.read(path)]).to eq(["content", 4, "leakent"])
      ensure
        io&.close
      end
    end

    it "that may not be read is not read through the directory it lies in, be that open" do
      Dir.open(dir) do |directory|
        act = -> { kernel(:openat, directory.fileno, "data", 0, 0) }

        expect([jailed(&act), unjailed(&act)]).to match([a_string_matching(/ENOTDIR|EACCES/), an_instance_of(Integer)])
      end
    end
  end

  describe "a listening socket" do
    it "is not accepted from, and whoever called waits for the parent" do
      TCPServer.open("127.0.0.1", 0) do |server|
        TCPSocket.open("127.0.0.1", server.local_address.ip_port) do
          act = -> { server.accept_nonblock && :accepted }
          stolen = jailed(&act)
          answered = server.accept_nonblock(exception: false)
          expect(stolen).to be_an(AgentJail::Error)
          expect(answered).to be_a(TCPSocket)
          answered.close
        end
        TCPSocket.open("127.0.0.1", server.local_address.ip_port) do
          expect(unjailed { server.accept_nonblock && :accepted }).to eq(:accepted)
        end
      end
    end

    it "of a path is still there afterwards" do
      UNIXServer.open(at("socket")) do |server|
        jailed { server.close }
        jailed { server.shutdown }
        client = UNIXSocket.new(at("socket"))

        expect(server.accept_nonblock(exception: false)).to be_a(UNIXSocket)
        client.close
      end
    end
  end

  describe "a SQLite database" do
    attr_reader :database

    around do |example|
      SQLite3::Database.new(at("data.sqlite3")) do |database|
        @database = database
        database.execute("CREATE TABLE notes (text)")
        example.run
      end
    end

    # From 2.0 on the library closes its connections in every fork by itself: what the jail does is asked without that.
    before { allow(SQLite3::ForkSafety).to receive(:discard) if defined?(SQLite3::ForkSafety) }

    def notes
      SQLite3::Database.new(at("data.sqlite3")) { |other| return other.execute("SELECT text FROM notes").flatten }
    end

    it "is not written through the connection" do
      act = -> { database.execute("INSERT INTO notes VALUES ('block')") && :written }

      expect([jailed(&act), notes]).to match([an_instance_of(AgentJail::SandboxError), []])
      expect([unjailed(&act), notes]).to eq([:written, ["block"]])
    end

    it "keeps the parent's transaction, whatever the block does to the connection" do
      database.transaction do
        database.execute("INSERT INTO notes VALUES ('parent')")
        jailed { database.rollback }
        jailed { database.close }
        jailed { database.execute("INSERT INTO notes VALUES ('block')") && database.commit }
        jailed { GC.start }
      end

      expect(notes).to eq(["parent"])
      expect(database.execute("PRAGMA integrity_check")).to eq([["ok"]])
    end

    it "is opened anew by a block that may" do
      path = at("data.sqlite3")
      count = -> { SQLite3::Database.new(path) { |own| break own.get_first_value("SELECT count(*) FROM notes") } }

      expect([jailed(fs_allow: dir, &count), jailed(&count).class]).to eq([0, AgentJail::SandboxError])
    end
  end

  describe "a finaliser that says goodbye" do
    # Objects that nothing holds but the Array, each with a finaliser that writes.
    def objects(said, &goodbye)
      Array.new(20) { Object.new.tap { |object| ObjectSpace.define_finalizer(object, finalizer(said, goodbye)) } }
    end

    def finalizer(said, goodbye)
      proc do
        said << :tried
        goodbye.call
      rescue SystemCallError, IOError
        nil
      end
    end

    {
      "through its IO" => ->(io) { io.syswrite("goodbye") },
      "through its number" => ->(io) { IO.for_fd(io.fileno, "w", autoclose: false).syswrite("goodbye") },
      "through the kernel" => ->(io) { KernelCalls.kernel(:write, io.fileno, "goodbye", 7) }
    }.each do |how, goodbye|
      it "#{how}, is not heard" do
        outcomes = pairs.values.map do |make|
          io, peer = ends(instance_exec(&make))
          said = []
          held = objects(said) { goodbye.call(io) }
          collect = lambda do
            held.clear
            3.times { GC.start }
            said.size
          end
          [jailed(&collect), received(peer), unjailed(&collect), received(peer)]
        end

        expect(outcomes).to all(match([be_positive, nil, be_positive, /\Agoodbye/]))
      end
    end

    it "is not heard though the block opens what it can first" do
      io, peer = ends(UNIXSocket.pair)
      said = []
      number = io.fileno
      held = objects(said) { KernelCalls.kernel(:write, number, "goodbye", 7) }
      path = at("new")
      jailed(fs_allow: dir) do
        opened = Array.new(100) { File.open(path, "a") }
        held.clear
        3.times { GC.start }
        opened.size
      end

      expect([received(peer), File.read(path)]).to eq([nil, ""])
      expect(said).to be_empty
    end
  end

  describe "numbers" do
    it "are not given again while an old object believes to have them" do
      old = Array.new(20) { File.open(File::NULL, "w") }
      taken = old.map(&:fileno)
      path = at("new")
      act = lambda do
        fresh = Array.new(20) { File.open(path, "a") }
        old.each { |io| io.syswrite("late") rescue nil } # rubocop:disable Style/RescueModifier
        [fresh.map(&:fileno) & taken, File.size(path)]
      end
      closing = -> { old.first.close || File.open(path, "a").fileno }

      expect(jailed(fs_allow: dir, &act)).to eq([[], 0])
      expect(taken).to include(unjailed(&closing))
    ensure
      old&.each(&:close)
    end

    it "that Ruby itself lives by are left to it" do
      expect(jailed { Timeout.timeout(10) { Thread.new { sleep 0.01 }.join && :lives } }).to eq(:lives)
    end

    # The ends of everything that is open in the block, above the standard three.
    def open_in_the_block(**options)
      jailed(**options) do
        Dir.children("/proc/self/fd").map(&:to_i).select { |fd| fd > 2 }.filter_map do |fd|
          File.readlink("/proc/self/fd/#{fd}")
        rescue Errno::ENOENT
          nil
        end
      end
    end

    it "lead nowhere but to the result's pipe and to Ruby's own" do
      files = Array.new(3) { |i| File.open(file("file#{i}")) }
      listed = open_in_the_block.tally
      pipes = listed.sum { |target, count| target.start_with?("pipe:") ? count : 0 }
      own = unjailed do
        Dir.children("/proc/self/fd").filter_map do |fd|
          File.readlink("/proc/self/fd/#{fd}")
        rescue StandardError
          nil
        end
      end

      expect(listed.keys.grep_v(%r{\Apipe:|\Aanon_inode:|\A/dev/null|\A/memfd:agent_jail |\A/proc/\d+/fd})).to be_empty
      expect(pipes).to be_between(1, RUBY_VERSION < "3.3" ? 3 : 1)
      expect(own).to include(*files.map(&:path))
    ensure
      files&.each(&:close)
    end

    it "of what other threads open while runs go on are dead too" do
      path = file("opened by a thread")
      going = true
      threads = Array.new(3) do
        Thread.new do
          while going
            ios = Array.new(5) { IO.for_fd(IO.sysopen(path)).tap { |io| io.close_on_exec = false } }
            ios.each(&:close)
          end
        end
      end
      seen = Array.new(25) { open_in_the_block }

      expect(seen).to all(be_an(Array))
      expect(seen.flatten).not_to include(path)
      unjailed_sights = Array.new(8) do
        unjailed do
          Dir["/proc/self/fd/*"].filter_map do |fd|
            File.readlink(fd)
          rescue StandardError
            nil
          end
        end
      end
      expect(unjailed_sights.flatten).to include(path)
    ensure
      going = false
      threads&.each(&:join)
    end
  end

  describe "inherit:" do
    pairs.each do |what, make|
      it "keeps #{what}, and nothing else" do
        kept, peer = ends(instance_exec(&make))
        other, other_peer = others = instance_exec(&make)
        outcomes = jailed(inherit: kept) do
          [kept.syswrite("granted"), begin
            other.syswrite("not")
          rescue SystemCallError => e
            e.class.name
          end]
        end

        expect(outcomes).to match([7, /Errno::/])
        expect([received(peer), received(other_peer)]).to eq(["granted", nil])
      ensure
        others&.each(&:close)
      end
    end

    it "keeps several, by an Array, and a file at the parent's position" do
      File.open(file("lines", "one\ntwo\n")) do |io|
        reader, writer = IO.pipe
        io.sysread(4)
        result = jailed(inherit: [io, writer]) { writer.syswrite("piped") && io.sysread(4) }

        expect([result, reader.read_nonblock(5)]).to eq(%W[two\n piped])
      ensure
        [reader, writer].each(&:close)
      end
    end
  end

  describe "the standard input" do
    program = <<~RUBY
      first = ARGV.first == "jail" ? AgentJail.run { [$stdin.read, $stdin.eof?, STDIN.getc, IO.for_fd(0).read] } : nil
      Process.wait(fork { $stdin.read }) if ARGV.first == "fork"
      print [first, $stdin.read].inspect
    RUBY

    it "is at its end in the block, and the parent's is left alone" do
      outputs = %w[jail fork].map { |how| fresh_ruby(program, how, stdin: "for the parent").stdout }

      expect(outputs).to eq(['[["", true, nil, ""], "for the parent"]', '[nil, ""]'])
    end

    it "is at its end when it is a pipe that stays open" do
      reader, writer = IO.pipe
      ruby = fresh_ruby("p AgentJail.run(timeout: 20) { $stdin.read }", stdin: reader)

      expect(ruby).to have_attributes(stdout: "\"\"\n", stderr: "")
    ensure
      [reader, writer].each(&:close)
    end
  end

  describe "the standard streams" do
    # Ruby itself never closes them. The numbers come to whoever opens next, which is told in a file.
    closing = <<~RUBY
      require "fiddle"
      close = Fiddle::Function.new(Fiddle::Handle::DEFAULT["close"], [Fiddle::TYPE_INT], Fiddle::TYPE_INT)
      told = File.open(ARGV.shift, "w")
      ARGV.each { |number| close.call(Integer(number)) }
    RUBY

    taking = <<~RUBY
      reader, = IO.pipe
      Process.wait(fork { STDOUT.syswrite("forged") })
      told.print reader.readpartial(100)
    RUBY

    running = <<~RUBY
      value = AgentJail.run(timeout: 30) do
        [STDOUT, STDERR].each { |io| io.syswrite("forged") rescue nil }
        [File.open(File::NULL, &:fileno) > 2, STDIN.read]
      end
      told.puts value.inspect
      begin
        AgentJail.run(timeout: 30) { Process.kill(:SEGV, $$) && sleep }
      rescue AgentJail::Error => e
        told.puts e.class, e.message[/SIG[A-Z]+/]
      end
    RUBY

    [[0], [1], [2], [0, 1], [0, 2], [1, 2], [0, 1, 2]].each do |numbers|
      it "that the caller has closed (#{numbers.join(", ")}) are not what the jail works with" do
        file = at("told")
        expect(fresh_ruby(closing + running, file, *numbers)).to be_success
        expect(File.read(file)).to eq("[true, \"\"]\nAgentJail::CrashError\nSIGSEGV\n")
      end
    end

    it "would else be a pipe that the caller made" do
      file = at("told")
      expect(fresh_ruby(closing + taking, file, 0, 1)).to be_success
      expect(File.read(file)).to eq("forged")
    end
  end

  describe "shared memory" do
    # What parent and block see of it when the block writes there: in a jail, then in a plain fork.
    def writes_to(memory)
      memory[0, 6] = "parent"
      act = lambda do
        before = memory[0, 6]
        memory[0, 6] = "child "
        [before, memory[0, 6]]
      end
      [jailed(&act), memory[0, 6], unjailed(&act), memory[0, 6]]
    end

    private_then_shared = [["parent", "child "], "parent", ["parent", "child "], "child "]

    it "without a file is the block's own" do
      SharedMemory.map(8192) { |memory| expect(writes_to(memory)).to eq(private_then_shared) }
    end

    it "of a file is the block's own, and the file is left as it is" do
      File.open(file("mapped", "x" * 8192), "r+") do |io|
        SharedMemory.map(8192, file: io) do |memory|
          memory[0, 6] = "parent"
          jailed { memory[0, 6] = "child " }

          expect(File.read(io.path, 6)).to eq("parent")
          expect(writes_to(memory)).to eq(private_then_shared)
          expect(File.read(io.path, 6)).to eq("child ")
        end
      end
    end

    it "of a file that is gone is the block's own" do
      File.open(file("gone", "x" * 8192), "r+") do |io|
        SharedMemory.map(8192, file: io) do |memory|
          File.delete(io.path)
          expect(writes_to(memory)).to eq(private_then_shared)
        end
      end
    end

    it "of a file that another has taken the place of is the block's own, with what it held" do
      File.open(file("replaced", "x" * 8192), "r+") do |io|
        SharedMemory.map(8192, file: io) do |memory|
          File.write(at("other"), "y" * 8192)
          File.rename(at("other"), io.path)
          expect(writes_to(memory)).to eq(private_then_shared)
          expect(File.read(io.path, 1)).to eq("y")
        end
      end
    end

    it "of System V is the block's own" do
      id = kernel(:shmget, 0, 8192, 0o1600)
      skip "this kernel answers #{id} to shmget" unless id.is_a?(Integer)
      address = kernel(:shmat, id, 0, 0)

      expect(writes_to(Fiddle::Pointer.new(address, 8192))).to eq(private_then_shared)
    ensure
      kernel(:shmdt, address) if address.is_a?(Integer)
      kernel(:shmctl, id, 0, 0) if id.is_a?(Integer)
    end

    it "of many pieces is the block's own, each" do
      seen = SharedMemory.map(4096) do |one|
        SharedMemory.map(4096) do |two|
          SharedMemory.map(4096) { |three| [one, two, three].map { |memory| writes_to(memory) } }
        end
      end

      expect(seen).to all(eq(private_then_shared))
    end
  end
end
