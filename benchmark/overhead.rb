# frozen_string_literal: true

# What a jail costs: AgentJail.run { 1 } against the floor, which is what one would write in Ruby for a block in a
# process of its own and nothing else: a pipe, fork, Marshal and wait, without a limit and without a wall.
#
#   ruby -Ilib benchmark/overhead.rb [--rounds N] [--heap MB[,MB...]] [--assert RATIO]
#
# The two take turns in one process, so that whatever else the machine does befalls both; the medians are compared.
# The child's minor page faults up to the end of its block are counted too: they are most of what a fork costs, and
# unlike times they hardly vary. With --assert the exit status is 1 unless every ratio is below RATIO.

require "agent_jail"
require "optparse"

Options = Struct.new(:rounds, :heaps, :limit)
options = Options.new(300, [0, 300], nil)
OptionParser.new do |parser|
  parser.on("--rounds N", Integer) { |rounds| options.rounds = rounds }
  parser.on("--heap MB,MB", Array) { |heaps| options.heaps = heaps.map { |heap| Integer(heap) } }
  parser.on("--assert RATIO", Float) { |ratio| options.limit = ratio }
end.parse!

WARM_UP = 10

def floor
  reader, writer = IO.pipe
  pid = fork do
    writer.write(Marshal.dump(yield))
    exit!(0)
  end
  writer.close
  Marshal.load(reader.read) # rubocop:disable Security/MarshalLoad -- the point of comparison trusts its child
ensure
  reader&.close
  Process.wait(pid) if pid
end

def jail(&) = AgentJail.run(&)

# Minor faults of this process so far; nil where the kernel does not say so in /proc.
def minor_faults
  File.read("/proc/self/stat").rpartition(")").last.split[7].to_i
rescue SystemCallError
  nil
end

# Live objects that take about +megabytes+, every page of them touched.
def heap_of(megabytes)
  Array.new(megabytes * 1024) { |index| (index.to_s * 100).ljust(900, ".") << "!" }
end

def milliseconds
  start = Process.clock_gettime(Process::CLOCK_MONOTONIC, :float_millisecond)
  yield
  Process.clock_gettime(Process::CLOCK_MONOTONIC, :float_millisecond) - start
end

def median(numbers) = numbers.sort[numbers.size / 2]

WAYS = { jail: method(:jail), floor: method(:floor) }.freeze

# Medians of +rounds+ turns of each way.
def measure(rounds)
  taken = WAYS.transform_values { [] }
  (-WARM_UP...rounds).each do |round|
    GC.start if (round % 10).zero?
    # Each goes first every other time, and after a rest: a child may be dying still when its answer is here, and
    # neither is to pay for the other's.
    (round.even? ? WAYS : WAYS.to_a.reverse).each do |name, way|
      sleep 0.005
      taken[name] << milliseconds { way.call { 1 } }
    end
  end
  taken.transform_values { |times| median(times.drop(WARM_UP)) }
end

def faults
  WAYS.transform_values { |way| median(Array.new(11) { way.call { minor_faults } || 0 }) }
end

puts "agent_jail #{AgentJail::VERSION}, ruby #{RUBY_VERSION}, #{options.rounds} rounds each"
puts "parent's heap       jail      floor    ratio   faults: jail  floor"
ratios = options.heaps.map do |heap|
  ballast = heap_of(heap)
  GC.start
  medians = measure(options.rounds)
  ratio = medians[:jail] / medians[:floor]
  printf "%10<heap>d MB %7.2<jail>f ms %7.2<floor>f ms   %6.3<ratio>f  %11<jail_faults>d %6<floor_faults>d\n",
         heap: heap, **medians, ratio: ratio, **faults.transform_keys { |name| :"#{name}_faults" }
  ballast.clear
  ratio
end

exit options.limit.nil? || ratios.all? { |ratio| ratio < options.limit }
