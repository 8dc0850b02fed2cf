# frozen_string_literal: true

# An agent loop. A language model asks for tools to be called and the program calls them, each in a jail. Here the
# model is a script, so that every run is the same: useful calls, and between them what a model that was talked into
# mischief, or a tool that it wrote itself, might try.
#
#   ruby -Ilib examples/agent.rb
#
# A jail is not believed when it says that it held: after each hostile call the program looks for the damage itself.
# The exit status is 0 when every useful call worked and no hostile one got through.

require "agent_jail"
require "json"
require "securerandom"
require "socket"
require "timeout"
require "tmpdir"

# ---- What there is to lose -------------------------------------------------------------------------------------

home = Dir.mktmpdir("agent")
at_exit { FileUtils.rm_rf(home) }

WORKSPACE = File.join(home, "workspace") # the one directory that the tools may use
Dir.mkdir(WORKSPACE)
LOCK = File.join(WORKSPACE, "lock") # held by a process for as long as it lives

DIARY = File.join(home, "diary.txt") # a file outside
File.write(DIARY, "dear diary")
LOOT = File.join(home, "loot.txt") # written only if hostile code runs in this process

LISTENER = TCPServer.new("127.0.0.1", 0) # somebody to send secrets to
PORT = LISTENER.addr[1]
READER, WRITER = IO.pipe # a connection that the tools inherit
SIGNALS = Queue.new
trap(:URG) { SIGNALS << :urg }

# An object whose class runs code wherever it is loaded.
class Trojan
  def marshal_dump = LOOT

  def marshal_load(path)
    File.write(path, "written by process #{Process.pid}")
  end
end

def diary_intact? = File.read(DIARY) == "dear diary"
def nobody_called? = LISTENER.accept_nonblock(exception: false) == :wait_readable
def nothing_received? = READER.read_nonblock(1, exception: false) == :wait_readable

def nothing_ran_here?
  File.delete(LOOT).zero?
rescue Errno::ENOENT
  true
end

def no_signal_came?
  sleep 0.01 # a trap runs when the process next looks
  SIGNALS.empty?
end

# Whether every process that held LOCK has ended; the kernel may take a moment to bury one that was killed.
def nobody_left?
  200.times do
    return true if File.open(LOCK, "a") { |lock| lock.flock(File::LOCK_EX | File::LOCK_NB) }

    sleep 0.01
  end
  false
end

def hold_lock = (@lock = File.open(LOCK, "a")).flock(File::LOCK_EX)

# ---- What the model asks for -----------------------------------------------------------------------------------

# +expected+ is compared with the call's value or exception by `===`; +unharmed+ looks at the world afterwards.
Call = Struct.new(:title, :hostile, :expected, :unharmed, :timeout, :tool)
SCRIPT = [] # rubocop:disable Style/MutableConstant -- filled below

def useful(title, expected, &tool)
  SCRIPT << Call.new(title, false, expected, -> { true }, 10, tool)
end

def hostile(title, expected, unharmed = -> { true }, timeout: 10, &tool)
  SCRIPT << Call.new(title, true, expected, unharmed, timeout, tool)
end

useful("adds up numbers", 500_500) { (1..1_000).sum }

hostile("loops for ever", AgentJail::TimeoutError, -> { nobody_left? }, timeout: 0.5) do
  hold_lock
  loop { nil }
end

hostile("goes to sleep", AgentJail::TimeoutError, timeout: 0.5) { sleep }

useful("reads and transforms JSON", %w[ADA BOB]) do
  JSON.parse('[{"name": "Ada"}, {"name": "Bob"}]').map { |person| person["name"].upcase }
end

hostile("allocates 10 GB", AgentJail::MemoryError) { Array.new(10_240) { "x" * 1_048_576 } }

useful("writes a file in the workspace", "3 apples") do
  path = File.join(WORKSPACE, "list.txt")
  File.write(path, "3 apples")
  File.read(path)
end

hostile("reads /etc/passwd", AgentJail::FilesystemError) { File.read("/etc/passwd") }

hostile("truncates a file outside", AgentJail::FilesystemError, -> { diary_intact? }) { File.truncate(DIARY, 0) }

useful("uses a thread and a timeout", 42) { Thread.new { Timeout.timeout(5) { 6 * 7 } }.value }

hostile("smuggles a class in its result", AgentJail::ResultError, -> { nothing_ran_here? }) { Trojan.new }

hostile("forges its result", Object, -> { nothing_ran_here? }) do
  payload = Marshal.dump(Trojan.new)
  forgeries = [payload, [payload.bytesize].pack("L") + payload, [payload.bytesize].pack("Q") + payload]
  3.upto(64) do |number|
    io = IO.for_fd(number, "w", autoclose: false)
    forgeries.each { |bytes| io.syswrite(bytes) }
  rescue SystemCallError, IOError, ArgumentError
    next
  end
  "an honest answer"
end

useful("makes a random token", /\A\h{32}\z/) { SecureRandom.hex(16) }

hostile("ends without a word", AgentJail::CrashError) { exit!(0) }

hostile("leaves a process behind", AgentJail::ProcessError, -> { nobody_left? }) do
  hold_lock
  fork { sleep 60 }
  "nothing to see here"
end

hostile("runs a command", AgentJail::ProcessError) { `id` }

hostile("sends a secret over the network", AgentJail::NetworkError, -> { nobody_called? }) do
  TCPSocket.open("127.0.0.1", PORT) { |socket| socket.write("the secret") }
end

hostile("writes to an inherited connection", AgentJail::SandboxError, -> { nothing_received? }) do
  WRITER.syswrite("the secret")
end

hostile("feels for its parent", AgentJail::DeniedError) { Process.kill(0, Process.ppid) }

hostile("signals its parent", AgentJail::DeniedError, -> { no_signal_came? }) { Process.kill(:URG, Process.ppid) }

useful("returns 5 MB", "x" * (5 << 20)) { "x" * (5 << 20) }

# ---- The loop --------------------------------------------------------------------------------------------------

def answer(call)
  AgentJail.run(timeout: call.timeout, memory_mb: 256, fs_allow: [WORKSPACE], &call.tool)
rescue AgentJail::Error => e
  e
end

def name(thing)
  case thing
  when AgentJail::Error then "#{name(thing.class)}: #{thing.message}"
  when Class then thing == Object ? "anything harmless" : thing.name.delete_prefix("AgentJail::")
  when String then thing.bytesize > 1_000 ? "String, #{thing.bytesize} bytes" : thing.inspect
  else thing.inspect
  end
end

ROW = "%-9<kind>s %-34<title>s %-21<expected>s %8<time>s  %-12<verdict>s %<outcome>s\n"

def clock = Process.clock_gettime(Process::CLOCK_MONOTONIC, :float_millisecond)

def verdict(call, outcome)
  unharmed = call.unharmed.call
  as_expected = call.expected === outcome # rubocop:disable Style/CaseEquality -- a class, a value or a pattern
  return as_expected ? "worked" : "FAILED" unless call.hostile
  return "GOT THROUGH" unless unharmed && (as_expected || outcome.is_a?(AgentJail::Error))

  as_expected ? "held" : "WRONG ERROR"
end

printf ROW, kind: "", title: "call", expected: "expected", time: "time", verdict: "verdict", outcome: "outcome"
verdicts = SCRIPT.map do |call|
  start = clock
  outcome = answer(call)
  time = clock - start
  verdict = verdict(call, outcome)
  printf ROW, kind: call.hostile ? "hostile" : "useful", title: call.title, expected: name(call.expected),
              time: format("%.1f ms", time), verdict: verdict, outcome: name(outcome).lines.first.chomp[0, 90]
  verdict
end

puts
puts verdicts.tally.map { |word, count| "#{count} #{word}" }.join(", ")
exit((verdicts - %w[held worked]).empty?)
