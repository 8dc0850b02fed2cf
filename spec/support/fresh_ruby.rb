# frozen_string_literal: true

require "fileutils"
require "pathname"
require "tempfile"

require_relative "suite_directory"

# Runs a snippet in a Ruby of its own with the gem loaded, for acts that could spoil the suite and for states that
# cannot be had in it: no threads yet, another user, signals ignored.
#
#   ruby = fresh_ruby("puts AgentJail.run { ARGV.first }", "hello")
#   expect(ruby).to be_success.and have_attributes(stdout: "hello\n", stderr: "")
module FreshRuby
  Result = Struct.new(:stdout, :stderr, :status) do
    def success?
      status.success? == true
    end
  end

  NOBODY = 65_534

  # What bundler or a shell may have left that would make the Ruby less fresh.
  BLANK = %w[RUBYOPT RUBYLIB BUNDLE_GEMFILE BUNDLER_SETUP BUNDLER_VERSION BUNDLE_BIN_PATH].to_h { [_1, nil] }.freeze

  # Becomes another user for good, then executes the rest of the command line.
  CHANGE_USER = <<~RUBY
    id = Integer(ARGV.shift)
    Process.groups = [id]
    Process::GID.change_privilege(id)
    Process::UID.change_privilege(id)
    exec(*ARGV)
  RUBY

  # Code for a snippet: the numbers of the children that its process has, dead or alive.
  CHILDREN = <<~'RUBY'
    def children
      Dir.glob("/proc/[0-9]*/stat").filter_map do |path|
        stat = File.read(path)
        stat.to_i if stat[/\) . (\d+)/, 1].to_i == Process.pid
      rescue SystemCallError
        nil
      end
    end
  RUBY

  # @param code [String] the snippet; +args+ are its ARGV
  # @param env [Hash] on top of the suite's environment; nil takes a name out
  # @param stdin [String, IO, nil] what it reads
  # @param timeout [Numeric] seconds until it is killed and an exception raised
  # @param as_user [Integer, nil] run as this user and group; needs a suite that runs as root
  # @param options [Array<String>] switches of Ruby itself
  def fresh_ruby(code, *args, env: {}, stdin: nil, timeout: 60, as_user: nil, options: [])
    lib = as_user ? FreshRuby.readable_lib : FreshRuby.lib
    command = [RbConfig.ruby, "-I#{lib}", "-ragent_jail", *options, "-e", code, "--", *args.map(&:to_s)]
    command.unshift(RbConfig.ruby, "--disable-gems", "-e", CHANGE_USER, as_user.to_s) if as_user
    FreshRuby.spawn(command, env, stdin, timeout)
  end

  class << self
    # The directory of the gem under test.
    def lib
      File.dirname($LOADED_FEATURES.find { |path| path.end_with?("/agent_jail.rb") })
    end

    # The same for a user who may not be let into the checkout: then a copy.
    def readable_lib
      @readable_lib ||= open_to_all?(lib) ? lib : copy_of(lib)
    end

    def spawn(command, env, stdin, timeout)
      files = Array.new(3) { Tempfile.new("fresh_ruby") }
      files[0].tap { |file| file.write(stdin.to_s) }.rewind
      streams = { in: stdin.is_a?(IO) ? stdin : files[0], out: files[1], err: files[2] }
      status = wait(Process.spawn(environment(env), *command, **streams, pgroup: true), timeout)
      result = Result.new(*files.drop(1).map { |file| File.read(file.path) }, status)
      status ? result : raise("killed after #{timeout} s: #{result}")
    ensure
      files&.each(&:close!)
    end

    private

    # Its status; nil when it had to be killed.
    def wait(pid, timeout)
      waiter = Process.detach(pid)
      return waiter.value if waiter.join(timeout)

      Process.kill(:KILL, -pid)
      waiter.join
      nil
    end

    def environment(env)
      { **BLANK, "GEM_PATH" => Gem.path.join(File::PATH_SEPARATOR), **env }
    end

    def open_to_all?(directory)
      Pathname(directory).ascend.all? { |path| path.stat.mode.allbits?(0o001) } &&
        Dir.glob("#{directory}/**/*").all? { |path| File.world_readable?(path) }
    end

    def copy_of(directory)
      copy = SuiteDirectory.make("agent_jail_lib")
      FileUtils.cp_r("#{directory}/.", copy)
      FileUtils.chmod_R("a+rX", copy)
      copy
    end
  end
end
