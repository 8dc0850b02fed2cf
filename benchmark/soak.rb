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

def clock = Process.clock_gettime(Process::CLOCK_MONOTONIC)

# What a run does, how often of a hundred, with which options, and what has to come of it.
Request = Struct.new(:name, :weight, :options, :expected, :block)
REQUESTS = [
  Request.new("number", 40, {}, 1, -> { 1 }),
  Request.new("rows", 15, {}, 200, -> { Array.new(200) { |i| { "id" => i, "name" => "row #{i}" } } }),
  Request.new("text", 8, {}, 200_000, -> { "x" * 200_000 }),
  Request.new("private directory", 3, { tmpdir: true }, 4, -> { File.write(File.join(Dir.tmpdir, "x"), "text") }),
  Request.new("program", 2, { processes: true }, 3, -> { `echo hi`.bytesize }),
  Request.new("daemon", 2, { processes: true }, 1, -> { fork { sleep } && 1 }),
  Request.new("exception", 8, {}, AgentJail::SandboxError, -> { raise ArgumentError, "no" }),
  Request.new("refused file", 4, {}, AgentJail::FilesystemError, -> { File.read("/etc/passwd") }),
  Request.new("refused network", 2, {}, AgentJail::NetworkError, -> { require("socket") && UDPSocket.new }),
  Request.new("refused program", 2, {}, AgentJail::ProcessError, -> { fork { nil } }),
  Request.new("sleep", 3, { timeout: 0.2 }, AgentJail::TimeoutError, -> { sleep }),
  Request.new("loop", 1, { timeout: 60, cpu_timeout: 0.05 }, AgentJail::TimeoutError, -> { loop { nil } }),
  Request.new("memory", 2, { memory_mb: 32 }, AgentJail::MemoryError, -> { "x" * (200 << 20) }),
  Request.new("exit", 3, {}, AgentJail::CrashError, -> { exit!(3) }),
  Request.new("suicide", 2, {}, AgentJail::CrashError, -> { Process.kill(:KILL, Process.pid) && sleep }),
  Request.new("code", 2, {}, AgentJail::ResultError, -> { proc {} }),
  Request.new("too much", 1, { max_result_mb: 0.1 }, AgentJail::ResultError, -> { "x" * 200_000 })
].freeze
DECK = REQUESTS.flat_map { |request| [request] * request.weight }.freeze

# One run: the request, its seconds beyond the time it may sleep, and what came when that was not what had to.
def serve(request)
  start = clock
  outcome = begin
    AgentJail.run(timeout: 60, **request.options, &request.block)
  rescue StandardError => e
    e
  end
  seconds = clock - start - request.options.fetch(:timeout, 0)
  size = outcome.respond_to?(:size) && !outcome.is_a?(Integer) ? outcome.size : outcome
  [request, seconds, (outcome unless request.expected === size)] # rubocop:disable Style/CaseEquality
end

def children
  Dir.glob("/proc/[0-9]*/stat").count do |path|
    File.read(path)[/\) . (\d+)/, 1].to_i == Process.pid
  rescue SystemCallError
    false
  end
end

def has
  { descriptors: Dir.children("/proc/self/fd").size, threads: Dir.children("/proc/self/task").size, children: children }
end

# KiB that are this process's alone.
def memory
  3.times { GC.start }
  File.read("/proc/self/smaps_rollup").scan(/^Private_\w+:\s+(\d+)/).sum { |(size)| size.to_i }
end

# What is on its way out is given two seconds.
def settled(wanted)
  200.times { has == wanted ? break : sleep(0.01) }
  has
end

class Pool
  def initialize(threads)
    @work = Thread::SizedQueue.new(threads)
    @done = Thread::Queue.new
    threads.times { Thread.new { loop { @done << serve(@work.pop) } } }
  end

  # Requests at random until +seconds+ are over; yields what came of each.
  def keep_busy(seconds, &)
    open = 0
    ends = clock + seconds
    while clock < ends
      @work << DECK.sample
      open += 1
      (yield @done.pop) || (open -= 1) until @done.empty?
    end
    open.times { yield @done.pop }
  end
end

def percentile(sorted, share) = sorted[[(sorted.size * share).ceil - 1, 0].max] * 1000

heap = Array.new(options[:heap] * 1024) { |i| (i.to_s * 100).ljust(900, ".") << "!" }
GC.start
pool = Pool.new(options[:threads])
warm_up = [minutes * 60 / 6, 30].min
times = []
wrong = Hash.new(0)
late = 0
nil
pool.keep_busy(warm_up) { nil }
before = has
first = memory
start = clock
count = 0
pool.keep_busy(minutes * 60) do |request, seconds, unexpected|
  count += 1
  times << seconds if times.size < 1_000_000
  late += 1 if seconds > 30
  wrong["#{request.name}: #{unexpected.class} #{unexpected.to_s[0, 120]}"] += 1 if unexpected
  nil
end
took = clock - start
times.sort!
percentiles = { "p50" => 0.5, "p99" => 0.99, "p999" => 0.999 }.map do |name, share|
  format("%<name>s %<time>.1f ms", name: name, time: percentile(times, share))
end
times = nil # they are not the gem's
left = settled(before).filter_map { |name, now| "#{name} #{before[name]} -> #{now}" if now > before[name] }
grown = memory - first
left << "memory #{grown} KiB" if grown > 8 * 1024

puts "agent_jail #{AgentJail::VERSION}, ruby #{RUBY_VERSION}, #{options[:threads]} threads, heap #{heap.size / 1024} MB"
puts format("%<count>d runs in %<took>.0f s: %<rate>.1f per second, %<percentiles>s",
            count: count, took: took, rate: count / took, percentiles: percentiles.join(", "))
puts "leaks: #{left.empty? ? "none" : left.join(", ")} (memory #{format("%+d", grown)} KiB)"
puts "wrong causes: #{wrong.empty? ? "none" : wrong.map { |what, times_seen| "\n  #{times_seen} x #{what}" }.join}"
puts "too late: #{late.zero? ? "none" : late}"
exit left.empty? && wrong.empty? && late.zero?
