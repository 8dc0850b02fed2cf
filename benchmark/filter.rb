# frozen_string_literal: true

# What the filter over system calls costs a block that makes many: the same loop in a jail and in a bare fork, in turn.
# Landlock has no say in any of these calls, so that the difference is the filter's.
#
#   ruby -Ilib benchmark/filter.rb [CALLS] [ROUNDS]

require "agent_jail"

CALLS = Integer(ARGV.fetch(0, "100000"))
ROUNDS = Integer(ARGV.fetch(1, "15"))
NULL = File.open(File::NULL)

# [what, whether the filter looks at an argument, the call]
LOOPS = [
  ["getppid", "its number", -> { CALLS.times { Process.ppid } }],
  ["fstat", "its number", -> { CALLS.times { NULL.stat } }],
  ["fcntl(F_GETFL)", "an argument", -> { CALLS.times { NULL.fcntl(3) } }],
  ["getpriority", "an argument", -> { CALLS.times { Process.getpriority(Process::PRIO_PROCESS, 0) } }]
].freeze

# Seconds that the loop takes in the process that runs it.
def time
  start = Process.clock_gettime(Process::CLOCK_MONOTONIC)
  yield
  Process.clock_gettime(Process::CLOCK_MONOTONIC) - start
end

def jailed(work) = AgentJail.run(timeout: 600, inherit: NULL) { time(&work) }

def bare(work)
  reader, writer = IO.pipe
  pid = fork do
    writer.write([time(&work)].pack("d"))
    exit!(0)
  end
  writer.close
  reader.read.unpack1("d")
ensure
  reader&.close
  Process.wait(pid) if pid
end

def median(numbers) = numbers.sort[numbers.size / 2]

puts "#{CALLS} calls, median of #{ROUNDS} rounds, per call"
puts "call              filter looks at      jail       bare    ratio"
LOOPS.each do |name, looks_at, work|
  jail, bare = Array.new(ROUNDS) { [jailed(work), bare(work)] }.transpose.map { |times| median(times) / CALLS * 1e6 }
  printf "%<name>-17s %<looks_at>-15s %<jail>7.2f us %<bare>7.2f us   %<ratio>6.3f\n",
         name: name, looks_at: looks_at, jail: jail, bare: bare, ratio: jail / bare
end
