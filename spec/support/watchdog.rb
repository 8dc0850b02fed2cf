# frozen_string_literal: true

# Ends an example that hangs: an exception in its thread at the limit, and, should that not get through, the end of
# the whole suite soon after. A hang is a defect of its own here, and must not take the machine's patience with it.
module Watchdog
  LIMIT = Float(ENV.fetch("AGENT_JAIL_EXAMPLE_TIMEOUT", 120))
  GRACE = 10

  class Expired < Exception; end # rubocop:disable Lint/InheritException -- nothing in an example may rescue it

  module_function

  def over(example, &)
    dog = watch(example, Thread.current, Process.pid)
    Thread.handle_interrupt(Expired => :immediate, &)
  ensure
    dog&.kill&.join
  end

  def watch(example, thread, pid)
    Thread.new do
      sleep LIMIT
      thread.raise(Expired, "ran longer than #{LIMIT} s")
      sleep GRACE
      Kernel.warn "\n#{example.location} hangs after #{LIMIT + GRACE} s:", *thread.backtrace
      Process.exit!(70) if Process.pid == pid
    end
  end
end
