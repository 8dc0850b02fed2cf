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

# The specs build what is for macOS on Linux, against declarations and calls of their own.
target = ENV.fetch("AGENT_JAIL_TARGET", RUBY_PLATFORM)

# Sources per platform are listed here, so that no file asks where it is.
common = %w[agent_jail_ext confine descriptors frame gate_classes gate_cost gate_objects gate_plain gate_refusal
            gate_symbols limits process relay report result run_child run_prepare run_supervise run_value run_walls
            supervise tree]
linux = %w[bpf capabilities confine_linux enforcement exhaustion landlock mappings proc process_linux report_linux
           run_walls_linux seccomp seccomp_checks syscalls threads]
darwin = %w[confine_darwin crash_none darwin exhaustion_none mappings_darwin proc_darwin process_darwin report_darwin
            run_walls_darwin seatbelt threads_darwin]

if target.include?("darwin")
  sources = common + darwin
  # What Linux' libc has and macOS' has not.
  append_cppflags("-include #{__dir__}/darwin.h")
else
  sources = common + linux + [have_macro("__GLIBC__", "stdio.h") ? "crash" : "crash_none"]
end
$srcs = sources.map { |name| "#{name}.c" }

append_cflags(%w[-std=c11 -fvisibility=hidden -Wall -Wextra -Wmissing-prototypes -Wconversion])
append_cflags("-Werror") if ENV["AGENT_JAIL_STRICT"]
append_cppflags("-D_GNU_SOURCE")
# Every symbol is looked up when the extension is loaded: else each child would look them up again.
append_ldflags("-Wl,-z,relro,-z,now")

create_makefile("agent_jail/agent_jail_ext")
