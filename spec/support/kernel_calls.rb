# frozen_string_literal: true

require "etc"
require "fiddle"

# System calls made by number, the kernel's own answer to them, and processes to aim them at.
module KernelCalls
  ARCH = { "arm64" => "aarch64" }.fetch(RbConfig::CONFIG["host_cpu"], RbConfig::CONFIG["host_cpu"])
  NUMBERS = (AgentJail::Platform.fork_supported? && AgentJail::Platform.linux? ? AgentJail::Native.syscalls(ARCH) : [])
            .to_h { |number, name, _| [name.to_sym, number] }.freeze

  module_function

  # What the call returns, or the name of its errno: 0, 7, "EPERM". A String is passed as a pointer to its bytes, into
  # which the kernel may write unless it is frozen.
  def kernel(name, *arguments)
    values = arguments.map { |argument| argument.is_a?(String) ? address(argument) : argument }
    syscall(name.is_a?(Integer) ? name : NUMBERS.fetch(name), *values)
  rescue SystemCallError => e
    e.class.name.delete_prefix("Errno::")
  end

  def call?(name)
    NUMBERS.key?(name)
  end

  # The address of a String's bytes, for structures that hold pointers. The caller keeps the String.
  def address(string)
    string.setbyte(0, string.getbyte(0)) unless string.frozen? || string.empty? # its own, not shared with a copy
    Fiddle::Pointer[string].to_i
  end

  # One element of what readv and its like take.
  def iovec(address, length)
    [address, length].pack("QQ")
  end

  # The block's value in a plain fork: what an act gives where there is no jail. Its exception's class where it raises,
  # and how it ended where it gives nothing.
  def unjailed(&)
    reader, writer = IO.pipe(binmode: true)
    pid = fork { KernelCalls.send_value(writer, &) }
    writer.close
    length = reader.read(4)&.unpack1("L") # not to the end: the act may have left who holds the pipe
    value = reader.read(length) if length
    _, status = Process.wait2(pid)
    value ? Marshal.load(value) : status
  ensure
    [reader, writer].each { |io| io&.close }
  end

  def send_value(writer)
    value = begin
      yield
    rescue Exception => e # rubocop:disable Lint/RescueException
      e.class
    end
    dump = Marshal.dump(value)
    writer.write([dump.bytesize].pack("L"), dump)
    writer.flush
  ensure
    Process.exit!(true)
  end

  # Yields the id of another process of this user that does nothing, in a group of its own; it is gone afterwards.
  def with_bystander
    pid = fork do
      Process.setpgid(0, 0)
      sleep
    ensure
      Process.exit!(true)
    end
    sleep 0.001 until Process.getpgid(pid) == pid
    yield pid
  ensure
    Process.kill(:KILL, pid)
    Process.wait(pid)
  end

  # True while the process runs: one that is dead and only waits to be reaped does not.
  def running?(pid)
    !%w[Z X].include?(File.read("/proc/#{pid}/stat")[/\) (.)/, 1])
  rescue Errno::ENOENT, Errno::ESRCH
    false
  end

  # Those that still run a moment later: SIGKILL is sent when a run ends, and takes its time on a busy machine.
  def survivors(pids, patience: 5)
    deadline = Process.clock_gettime(Process::CLOCK_MONOTONIC) + patience
    sleep 0.005 while pids.any? { |pid| running?(pid) } && Process.clock_gettime(Process::CLOCK_MONOTONIC) < deadline
    pids.select { |pid| running?(pid) }
  end

  # The same of what should have been ended; it is then.
  def outlived(pids, **options)
    survivors(pids, **options).each { |pid| Process.kill(:KILL, pid) }
  end
end

# Passes when a jail answers the act as said, and without a jail the kernel answers as in `without_one`. Where the
# kernel's own answer here is the jail's too (a container that refuses it as well), or there is no such call, nothing
# could be told apart: then the example is skipped, with the reason.
#
#   expect { kernel(:setns, -1, 0) }.to be_answered("EPERM").without_one("EBADF")
RSpec::Matchers.define :be_answered do |expected|
  supports_block_expectations

  chain(:without_one) { |*answers| @answers = answers.flatten }
  chain(:in_a_jail_with) { |options| @options = options }

  match do |act|
    @jailed = jailed(**@options.to_h, &act)
    @plain = KernelCalls.unjailed(&act)
    next false unless @jailed == expected

    skip("this kernel answers #{@plain} without a jail") if [expected, "ENOSYS", "ENOTSUP"].include?(@plain)
    @answers.any? { |answer| answer === @plain } # rubocop:disable Style/CaseEquality
  end

  failure_message do
    "expected #{expected.inspect} in the jail and #{@answers.inspect} without one, got #{@jailed.inspect} " \
      "and #{@plain.inspect}"
  end
end

RSpec.configure { |config| config.include KernelCalls }
