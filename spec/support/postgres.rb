# frozen_string_literal: true

require "etc"
require "socket"

# A PostgreSQL server of the suite's own: a cluster in a directory of its own, on a Unix socket there and on a port of
# loopback, run as a user without privileges.
class Postgres
  USERS = %w[postgres nobody].freeze
  PATIENCE = 60 # seconds until it answers, or has ended

  SETTINGS = {
    fsync: "off", shared_buffers: "16MB", max_connections: "20", autovacuum: "off", log_connections: "on",
    log_disconnections: "on", log_min_messages: "info", logging_collector: "off", wal_level: "minimal",
    max_wal_senders: "0", dynamic_shared_memory_type: "mmap"
  }.freeze

  # The directory of the server's programs, or nil.
  def self.programs
    path = ENV.fetch("PATH", "").split(":").find { |directory| File.executable?(File.join(directory, "initdb")) }
    path || Dir["/usr/lib/postgresql/*/bin"].max_by { |directory| directory[/\d+/].to_i }
  end

  attr_reader :directory, :port

  # @param directory [String] empty, and the caller's to remove
  def initialize(directory)
    @directory = directory
    @port = TCPServer.open("127.0.0.1", 0) { |probe| probe.local_address.ip_port }
  end

  # Returns when the server answers.
  def start
    File.chown(user.uid, user.gid, directory) if user
    run_program("initdb", "-D", data, "-U", "jailer", "-A", "trust", "--no-sync", "-E", "UTF8", "--no-locale")
    settings = { port: port, listen_addresses: "127.0.0.1", unix_socket_directories: directory, **SETTINGS }
    @pid = spawn_program("postgres", "-D", data, *settings.flat_map { |name, value| ["-c", "#{name}=#{value}"] })
    wait_until("the server answers") { ready? }
  end

  # At once; there is nothing to keep.
  def stop
    return unless @pid

    Process.kill(:QUIT, @pid)
    Process.wait(@pid)
    @pid = nil
  end

  # How ActiveRecord connects: by the socket, or over loopback.
  def address(over)
    { host: over == :tcp ? "127.0.0.1" : directory, port: port, username: "jailer", database: "postgres" }
  end

  def log
    File.read(log_path)
  end

  # What the server wrote while the block ran, and in the moment that it takes it to notice the end of a connection.
  def log_during
    size = File.size(log_path)
    yield
    sleep 0.1
    File.binread(log_path, nil, size).to_s
  end

  private

  def data
    File.join(directory, "data")
  end

  def log_path
    File.join(directory, "log")
  end

  # Whom to become: PostgreSQL will not be run by root.
  def user
    return unless Process.euid.zero?

    @user ||= USERS.filter_map do |name|
      Etc.getpwnam(name)
    rescue ArgumentError
      nil
    end.first
  end

  def spawn_program(name, *arguments)
    command = [File.join(self.class.programs, name), *arguments]
    command.unshift(RbConfig.ruby, "--disable-gems", "-e", FreshRuby::CHANGE_USER, user.uid.to_s) if user
    Process.spawn({ **FreshRuby::BLANK, "LC_ALL" => "C" }, *command, %i[out err] => [log_path, "a"], in: File::NULL,
                                                                     chdir: directory, pgroup: true)
  end

  def run_program(name, *arguments)
    _, status = Process.wait2(spawn_program(name, *arguments))
    raise "#{name} failed: #{log}" unless status.success?
  end

  def ready?
    raise "the server ended: #{log}" if Process.wait(@pid, Process::WNOHANG)

    log.include?("ready to accept connections") && File.socket?(File.join(directory, ".s.PGSQL.#{port}"))
  end

  def wait_until(what)
    deadline = Process.clock_gettime(Process::CLOCK_MONOTONIC) + PATIENCE
    until yield
      raise "not in #{PATIENCE} s: #{what}: #{log}" if Process.clock_gettime(Process::CLOCK_MONOTONIC) > deadline

      sleep 0.02
    end
  end
end
