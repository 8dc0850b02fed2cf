# frozen_string_literal: true

require "json"

# The case for which the gem was made: an application with an open transaction runs jails, and whatever the blocks do
# to its connection, the server hears nothing of it.
RSpec.describe AgentJail, "in an application with a PostgreSQL database", if: AgentJail::Platform.linux? do
  attr_reader :server

  before(:context) do
    skip "PostgreSQL's server is not installed" unless Postgres.programs
    @directory = Dir.mktmpdir("agent_jail_postgres")
    @server = Postgres.new(@directory)
    server.start
  end

  after(:context) do
    server&.stop
    FileUtils.rm_rf(@directory) if @directory
  end

  # What a server says of a client that went away, or spoke out of turn.
  harm = /unexpected EOF|lost|reset by peer|broken pipe|could not|protocol|invalid|ERROR|FATAL|PANIC|terminat/i

  # Opens a transaction, runs what `attempts` says, commits, and tells how it went as JSON.
  program = <<~'RUBY'
    require "active_record"
    require "json"

    ActiveRecord::Base.establish_connection(adapter: "postgresql", **JSON.parse(ARGV[0], symbolize_names: true))
    ActiveRecord::Schema.verbose = false
    class Note < ActiveRecord::Base; end

    # What ActiveRecord drops in a fork, and what a driver's user has in his hands.
    CONNECTION = Note.connection
    CONNECTION.create_table(:notes, force: true) { |t| t.text :words }
    RAW = CONNECTION.raw_connection
    OTHER = PG.connect(RAW.conninfo_hash.compact.slice(:host, :port, :user, :dbname))
    OTHER.exec("BEGIN; INSERT INTO notes (words) VALUES ('by the driver')")

    def attempt
      yield
    rescue Exception => e
      e.class.name
    end

    # Each is told how to use the connection, and uses it.
    USES = {
      record: -> { Note.create!(words: "block") && "worked" },
      connection: -> { CONNECTION.execute("INSERT INTO notes (words) VALUES ('block')") && "worked" },
      driver: -> { RAW.exec("SELECT 1").getvalue(0, 0) && "worked" },
      other: -> { OTHER.exec("INSERT INTO notes (words) VALUES ('block')") && "worked" },
      descriptor: -> { IO.for_fd(OTHER.socket, "w", autoclose: false).syswrite("Q\0\0\0\x0dROLLBACK\0") && "worked" },
      disconnect: -> { ActiveRecord::Base.connection_handler.clear_all_connections!; nil },
      finish: -> { OTHER.finish; nil },
      drop: lambda do
        ObjectSpace.each_object(PG::Connection) { |connection| connection.finish rescue nil }
        Object.send(:remove_const, :OTHER)
        Object.send(:remove_const, :RAW)
        3.times { GC.start }
        nil
      end
    }

    def jail(use)
      AgentJail.run(timeout: 30) { attempt(&USES.fetch(use)) }
    end

    def bare_fork(use)
      Process.wait(fork { attempt(&USES.fetch(use)) })
    end

    told = []
    committed = attempt do
      Note.transaction do
        Note.create!(words: "parent")
        told = JSON.parse(ARGV[2]).map { |use| send(ARGV[1], use.to_sym) }
        Note.create!(words: "parent again")
      end
      OTHER.exec("COMMIT")
      "committed"
    end
    sound = attempt { Note.order(:id).pluck(:words) }
    puts({ told: told, committed: committed, notes: sound }.to_json)
    $stdout.flush
    # an orderly end for what is still there
    attempt { ActiveRecord::Base.connection_handler.clear_all_connections! }
    attempt { OTHER.finish }
  RUBY

  uses = %w[record connection driver other descriptor disconnect finish drop]

  # What the program told, and what the server wrote meanwhile.
  define_method(:outcome) do |how, list, over|
    ruby = nil
    address = server.address(over).to_json
    log = server.log_during { ruby = fresh_ruby(program, address, how, list.to_json, timeout: 100) }
    raise "#{ruby.status.inspect} #{ruby.stderr}" if ruby.stdout.empty?

    [JSON.parse(ruby.stdout, symbolize_names: true), log]
  end

  it "keeps the parent's transactions through 50 blocks that use, drop and collect its connections" do
    { unix: 50, tcp: 8 }.each do |over, count|
      told, log = outcome("jail", uses.cycle.first(count), over)

      expect(told).to include(committed: "committed")
      expect(told[:notes]).to contain_exactly("parent", "by the driver", "parent again")
      expect(told[:told].uniq).not_to include("worked")
      expect(log.lines.grep(harm)).to be_empty
      expect(log.scan("connection authorized").size).to eq(2)
      expect(log.scan("disconnection:").size).to eq(2)
    end
  end

  # Each alone breaks what the jails left whole: else the example above would prove nothing.
  it "loses them to a plain fork" do
    %w[other descriptor finish drop].each do |use|
      told, log = outcome("bare_fork", [use], :unix)
      whole = told.slice(:committed,
                         :notes) == { committed: "committed", notes: ["by the driver", "parent", "parent again"] }

      expect([use, whole && log.lines.grep(harm).empty?]).to eq([use, false])
    end
  end
end
