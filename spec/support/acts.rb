# frozen_string_literal: true

# What an act ends in: in a jail, and in a plain fork, which is what the same act does where there is no jail.
module Acts
  # The block's value in a jail, or the AgentJail::Error.
  def jailed(...)
    AgentJail.run(...)
  rescue AgentJail::Error => e
    e
  end

  # nil when the act raises nothing in a plain fork; else what it raised there, as a String.
  def objection(&act)
    reader, writer = IO.pipe
    pid = fork { Acts.tell(writer, &act) }
    writer.close
    told = reader.read
    Process.wait(pid)
    told.empty? ? nil : told
  ensure
    [reader, writer].each(&:close)
  end

  def self.tell(writer)
    yield
  rescue Exception => e # rubocop:disable Lint/RescueException
    writer.write("#{e.class}: #{e.message}")
  ensure
    writer.flush
    Process.exit!(true)
  end

  # Seconds on the clock.
  def seconds
    start = Process.clock_gettime(Process::CLOCK_MONOTONIC)
    yield
    Process.clock_gettime(Process::CLOCK_MONOTONIC) - start
  end

  # Everything beneath a path that an act could have changed.
  def self.snapshot(path)
    [path, *Dir.glob("#{path}/**/*", File::FNM_DOTMATCH)].map do |entry|
      status = File.lstat(entry)
      [entry, status.mode, status.uid, status.nlink, status.size, status.mtime, content(entry, status)]
    end
  end

  def self.content(entry, status)
    return File.readlink(entry) if status.symlink?

    File.binread(entry) if status.file?
  end
end

# Passes when a jail refuses the act and, tried next without a jail, it succeeds: a refusal of what cannot be done
# anyway proves nothing.
#
#   expect { File.write(path, "x") }.to be_refused.in_a_jail_with(fs_read_allow: dir).leaving(dir)
RSpec::Matchers.define :be_refused do
  supports_block_expectations

  chain(:in_a_jail_with) { |options| @options = options }
  chain(:as) { |error| @error = error }
  chain(:leaving) { |path| @path = path }

  match do |act|
    before = @path && Acts.snapshot(@path)
    @jailed = jailed(**@options.to_h, &act)
    @changed = before != (@path && Acts.snapshot(@path))
    @objection = objection(&act)
    (@error || AgentJail::FilesystemError) === @jailed && !@changed && !@objection # rubocop:disable Style/CaseEquality
  end

  failure_message do
    next "it is refused without a jail too, which makes it no test of one: #{@objection}" if @objection
    next "it was refused, but left its mark on #{@path}" if @changed

    "expected #{@error || AgentJail::FilesystemError} from the jail, got #{@jailed.inspect}"
  end
end

RSpec.configure { |config| config.include Acts }
