# frozen_string_literal: true

# A server under load for minutes: threads that take requests as Puma's do, each of which is a run in a jail, good or
# hostile, beside a large heap. It prints how many there were and how long they took, and what should not be: causes
# that were not the true ones, and descriptors, threads, children or memory that stayed. With any of it, or when a run
# came back far too late, it exits with 1.
#
#   ruby -Ilib benchmark/soak.rb [MINUTES] [--threads N] [--heap MB]

require "agent_jail"
require "optparse"

options = { threads: 16, heap: 300 }
OptionParser.new do |parser|
  parser.on("--threads N", Integer)
  parser.on("--heap MB", Integer)
end.parse!(into: options)
minutes = Float(ARGV.fetch(0, 1))

# Seconds that a run may take beyond what it is meant to.
LATE = 30
# KiB that the second half of the time may add to what the first half left.
GROWTH = 8 * 1024
# Looks at the memory in each half. What malloc keeps for sixteen threads comes and goes by as much: the least tells.
LOOKS = 6

def clock = Process.clock_gettime(Process::CLOCK_MONOTONIC)

# What a run does, how often of a hundred, with which options, and what has to come of it: a value, or an error's class
# and what it says. `nap`: how long it is meant to take.
Request = Struct.new(:name, :weight, :options, :expected, :says, :nap, :block) do
  def met_by?(outcome)
    return outcome == expected unless expected.is_a?(Class)

    outcome.instance_of?(expected) && outcome.message.match?(says)
  end
end

requests = []
value = lambda do |name, weight, expected, options = {}, &block|
  requests << Request.new(name, weight, options, expected, nil, 0, block)
end
error = lambda do |name, weight, expected, says, options = {}, nap: 0, &block|
  requests << Request.new(name, weight, options, AgentJail.const_get(expected), says, nap, block)
end

TEXT = ("x" * 200_000).freeze
ROWS = Array.new(200) { |i| { "id" => i, "name" => "row #{i}" } }.freeze

value["number", 40, 1] { 1 }
value["rows", 15, ROWS] { ROWS.map(&:dup) }
value["text", 8, TEXT] { TEXT.dup }
value["private directory", 3, 4, { tmpdir: true }] { File.write(File.join(Dir.tmpdir, "x"), "text") }
value["program", 2, "hi\n", { processes: true }] { `echo hi` }
value["daemon", 2, 1, { processes: true }] { fork { sleep } && 1 }
error["exception", 8, :SandboxError, /ArgumentError: no\z/] { raise ArgumentError, "no" }
error["refused file", 4, :FilesystemError, %r{/etc/passwd}] { File.read("/etc/passwd") }
error["refused network", 2, :NetworkError, /unreachable/] { require("socket") && UDPSocket.new }
error["refused program", 2, :ProcessError, /not permitted/] { fork { nil } }
error["sleep", 3, :TimeoutError, /at its timeout of 0\.2 s/, { timeout: 0.2 }, nap: 0.2] { sleep }
error["loop", 1, :TimeoutError, /at its cpu_timeout of 0\.05 s/, { cpu_timeout: 0.05 }, nap: 0.05] { loop { nil } }
error["memory", 2, :MemoryError, /32 MiB/, { memory_mb: 32 }] { "x" * (200 << 20) }
error["exit", 3, :CrashError, /status 3\b/] { exit!(3) }
error["suicide", 2, :CrashError, /SIGKILL/] { Process.kill(:KILL, Process.pid) && sleep }
error["code", 2, :ResultError, /cannot be dumped/] { proc {} }
error["too much", 1, :ResultError, /dump has \d+ bytes/, { max_result_mb: 0.1 }] { TEXT.dup }
DECK = requests.flat_map { |request| [request] * request.weight }.freeze

# One run: the request, its seconds beyond those that it is meant to take, and what came when that was not what had to.
def serve(request)
  start = clock
  outcome = begin
    AgentJail.run(timeout: 60, **request.options, &request.block)
  rescue StandardError => e
    e
  end
  [request, clock - start - request.nap, (outcome unless request.met_by?(outcome))]
end

# Threads that end the program should one of them fail: nobody would do its work.
class Pool
  def initialize(threads)
    @work = Thread::SizedQueue.new(threads)
    @done = Thread::Queue.new
    threads.times { Thread.new { loop { @done << serve(@work.pop) } }.abort_on_exception = true }
  end

  # Requests at random until +seconds+ are over; yields what came of each.
  def keep_busy(seconds)
    open = 0
    ends = clock + seconds
    while clock < ends
      @work << DECK.sample
      open += 1
      until @done.empty?
        yield(*@done.pop)
        open -= 1
      end
    end
    open.times { yield(*@done.pop) }
  end
end

# Of this process: what is counted, and which children there are, by what the kernel says of them.
def children
  Dir.glob("/proc/[0-9]*/stat").filter_map do |path|
    stat = File.read(path)
    stat[/\A.*\) . \d+ \d+/] if stat[/\) . (\d+)/, 1].to_i == Process.pid
  rescue SystemCallError
    nil
  end
end

def counts
  { descriptors: Dir.children("/proc/self/fd").size, threads: Dir.children("/proc/self/task").size,
    children: children.size }
end

# What is on its way out is given two seconds.
def settled(wanted)
  200.times { counts >= wanted ? break : sleep(0.01) }
  counts
end

# KiB of memory that no file holds. What a dying child still shares counts as well.
def memory
  3.times { GC.start }
  File.read("/proc/self/smaps_rollup")[/^Anonymous:\s+(\d+)/, 1].to_i
end

heap = Array.new(options[:heap] * 1024) { |i| (i.to_s * 100).ljust(900, ".") << "!" }
GC.start
pool = Pool.new(options[:threads])
times = []
wrong = Hash.new(0)

pool.keep_busy([minutes * 60 / 6, 30].min) { nil } # what is made once is made
settled(children: 0)
before = counts
start = clock
# The collector takes as much as it likes at first: what the second half adds to the first is a leak.
first, second = Array.new(2) do
  Array.new(LOOKS) do
    pool.keep_busy(minutes * 30 / LOOKS) do |request, seconds, unexpected|
      times << seconds
      wrong["#{request.name}: #{unexpected.class} #{unexpected.to_s[0, 120]}"] += 1 if unexpected
    end
    memory
  end.min
end
took = clock - start

sorted = times.sort
percentiles = { "p50" => 0.5, "p99" => 0.99, "p999" => 0.999 }.map do |name, share|
  format("%<name>s %<time>.1f ms", name: name, time: sorted[(sorted.size * share).ceil - 1] * 1000)
end
late = sorted.count { |seconds| seconds > LATE }
left = settled(before).filter_map { |name, now| "#{name} #{before[name]} -> #{now}" if now > before[name] }
left += children
left << "memory" if second - first > GROWTH

puts "agent_jail #{AgentJail::VERSION}, ruby #{RUBY_VERSION}, #{options[:threads]} threads, heap #{heap.size / 1024} MB"
puts format("%<count>d runs in %<took>.0f s: %<rate>.1f per second, %<percentiles>s",
            count: times.size, took: took, rate: times.size / took, percentiles: percentiles.join(", "))
puts "leaks: #{left.empty? ? "none" : left.join(", ")} (memory #{format("%+d", second - first)} KiB)"
puts "wrong causes: #{wrong.empty? ? "none" : wrong.map { |what, seen| "\n  #{seen} x #{what}" }.join}"
puts "too late: #{late.zero? ? "none" : late}"
exit left.empty? && wrong.empty? && late.zero?
