# frozen_string_literal: true

# Ends an example that hangs: an exception in its thread at the limit, and, should that not get through, the end of
# the whole suite soon after. A hang is a defect of its own here, and must not take the machine's patience with it.
#
# One thread looks after all examples: were there a new one for each, forks would happen while it starts, which a memory
# checker is not prepared for.
module Watchdog
  LIMIT = Float(ENV.fetch("AGENT_JAIL_EXAMPLE_TIMEOUT", 120))
  GRACE = 10

  class Expired < Exception; end # rubocop:disable Lint/InheritException -- nothing in an example may rescue it

  Watched = Struct.new(:example, :thread, :deadline, :told)

  module_function

  def over(example, &)
    @dog ||= watch
    @watched = Watched.new(example, Thread.current, clock + LIMIT)
    Thread.handle_interrupt(Expired => :immediate, &)
  ensure
    @watched = nil
  end

  def clock = Process.clock_gettime(Process::CLOCK_MONOTONIC)

  def watch
    ready = Queue.new
    dog = Thread.new do
      ready << true
      loop { sleep(0.5) && look(@watched) }
    end
    ready.pop
    dog
  end

  def look(watched)
    return if watched.nil? || clock < watched.deadline

    unless watched.told
      watched.told = true
      watched.thread.raise(Expired, "ran longer than #{LIMIT} s")
    end
    return if clock < watched.deadline + GRACE

    Kernel.warn "\n#{watched.example.location} hangs after #{LIMIT + GRACE} s:", *watched.thread.backtrace
    Process.exit!(70)
  end
end
