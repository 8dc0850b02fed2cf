# frozen_string_literal: true

require "mkmf"

require_relative "../../lib/agent_jail/platform"

# The extension is what the jail is made of, so a platform that cannot jail gets an empty Makefile: the gem installs,
# and AgentJail.run does what on_unsupported says.
unless AgentJail::Platform.fork_supported?
  message "agent_jail: #{RUBY_ENGINE} on #{RUBY_PLATFORM} cannot jail; no native extension is built\n"
  File.write("Makefile", dummy_makefile($srcdir).join)
  exit
end

# Sources per platform are listed here, so that no file asks where it is.
common = %w[agent_jail_ext frame limits process result run_child run_prepare run_supervise run_value supervise]
linux = %w[capabilities confine crash descriptors enforcement landlock mappings proc relay report seccomp syscalls
           threads tree]

$srcs = (common + linux).map { |name| "#{name}.c" }

append_cflags(%w[-std=c11 -fvisibility=hidden -Wall -Wextra -Wmissing-prototypes -Wconversion])
append_cflags("-Werror") if ENV["AGENT_JAIL_STRICT"]
append_cppflags("-D_GNU_SOURCE")
# Every symbol is looked up when the extension is loaded: else each child would look them up again.
append_ldflags("-Wl,-z,relro,-z,now")

create_makefile("agent_jail/agent_jail_ext")
