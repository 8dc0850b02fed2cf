# frozen_string_literal: true

# What each step of closing the jail takes, and its share of a run. See steps.c; `rake benchmark:steps` builds it.
#
#   ruby -Ilib benchmark/steps.rb LIBRARY [ROUNDS]

require "agent_jail"
require "fiddle"

LIBRARY = Fiddle.dlopen(File.expand_path(ARGV.fetch(0)))
ROUNDS = Integer(ARGV.fetch(1, "200"))

def function(name, types, result)
  Fiddle::Function.new(LIBRARY[name], types.map { |type| Fiddle.const_get("TYPE_#{type}") },
                       Fiddle.const_get("TYPE_#{result}"))
end

COUNT = function("steps_count", [], :SIZE_T).call
NAMES = Array.new(COUNT) do |index|
  name = function("steps_name", %i[SIZE_T], :VOIDP).call(index)
  name.null? ? raise("steps.c does not know step #{index}") : name.to_s
end
TIME = function("steps_time", %i[VOIDP VOIDP SIZE_T INT VOIDP], :VOIDP)
GRANTS = AgentJail::SystemPaths.grants(network: false, processes: false).select { |path, _| File.exist?(path) }
PATHS = GRANTS.map(&:first).pack("p*")
ACCESS = GRANTS.map(&:last).pack("I*")

# Microseconds of each step, in a process of its own.
def steps
  reader, writer = IO.pipe
  pid = fork do
    seconds = Fiddle::Pointer.malloc(8 * COUNT, Fiddle::RUBY_FREE)
    failed = TIME.call(PATHS, ACCESS, GRANTS.size, writer.fileno, seconds)
    writer.write(failed.null? ? seconds[0, 8 * COUNT] : failed.to_s)
    exit!(failed.null? ? 0 : 1)
  end
  writer.close
  answer = reader.read
  _, status = Process.wait2(pid)
  raise "no step was timed: #{answer}" unless status.success?

  answer.unpack("d*").map { |time| time * 1e6 }
ensure
  reader&.close
end

def run
  start = Process.clock_gettime(Process::CLOCK_MONOTONIC, :float_microsecond)
  AgentJail.run { 1 }
  Process.clock_gettime(Process::CLOCK_MONOTONIC, :float_microsecond) - start
end

def median(numbers) = numbers.sort[numbers.size / 2]

10.times { run }
taken, runs = Array.new(ROUNDS) { [steps, run] }.transpose
whole = median(runs)
times = taken.transpose.map { |column| median(column) }
printf "%<what>-20s %<time>8.0f us   share of a run\n", what: "a run", time: whole
[*NAMES.zip(times), ["all steps", times.sum]].each do |name, time|
  printf "%<name>-20s %<time>8.1f us   %<share>5.1f %%\n", name: name, time: time, share: 100 * time / whole
end
