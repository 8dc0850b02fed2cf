# frozen_string_literal: true

require "rake/extensiontask"

Rake::ExtensionTask.new("agent_jail_ext") do |ext|
  ext.ext_dir = "ext/agent_jail"
  ext.lib_dir = "lib/agent_jail"
  ext.source_pattern = "*.{c,h}"
end

# Two parts of the jail that need no others: the filter and the gate.
FILTER_SOURCES = FileList["ext/agent_jail/{bpf,seccomp*,syscalls}.c"]
GATE_SOURCES = FileList["ext/agent_jail/{result,gate_*}.c"]

STRICT_WARNINGS = %w[-Wall -Wextra -Wmissing-prototypes -Wconversion -Werror].freeze

# The C files for Linux that know nothing of Ruby, but for crash.c, in whose stead some C libraries want crash_none.c.
PLAIN_SOURCES = FileList["ext/agent_jail/*.c"].exclude(/darwin\.c\z/, /_none\.c\z/, /(seatbelt|crash)\.c\z/) do |path|
  File.read(path).match?(/#include ("run\.h"|<ruby)/)
end

# Builds the extension apart from lib/, in +directory+, with +flags+ after all others for compiler and linker, and with
# +variables+ for make.
def build_apart(directory, flags, *variables)
  rm_rf directory
  mkdir_p directory
  extconf = File.expand_path("ext/agent_jail/extconf.rb")
  chdir directory do
    ruby extconf
    # The one variable that every Ruby's Makefile puts last, be it Debian's, which leaves out $(warnflags).
    sh "make", "-j2", *variables, "ARCH_FLAG=#{[RbConfig::CONFIG["ARCH_FLAG"], *flags].join(" ")}"
  end
end

desc "Build the extension with every warning an error (the result goes to tmp/strict)"
task :strict do
  # Ruby's own headers do not pass: -isystem takes them out of the reckoning.
  headers = %w[$(arch_hdrdir) $(hdrdir)/ruby/backward $(hdrdir)].map { |directory| "-isystem #{directory}" }
  build_apart("tmp/strict", STRICT_WARNINGS + headers)
end
