# frozen_string_literal: true

# The table of system calls as docs/syscalls.md, rendered from what the extension was compiled with. To write the
# document anew after a change to ext/agent_jail/syscalls.c:
#
#   ruby -Ilib -ragent_jail -r./spec/support/syscall_reference -e 'SyscallReference.write'
module SyscallReference
  PATH = File.expand_path("../../docs/syscalls.md", __dir__)

  # What the verdicts of jail.h mean to who writes a block.
  WORDS = {
    "allow" => "allowed",
    "absent" => "absent: `ENOSYS`",
    "privilege" => "refused: `EPERM`, an administrator's",
    "others" => "refused: `EPERM`, reaches other processes",
    "session" => "refused: `EPERM`, leaves the process group",
    "metadata" => "refused: `EACCES`, file metadata",
    "xattr" => "refused: `EOPNOTSUPP`, extended attributes by path",
    "truncate" => "allowed where Landlock governs it (ABI 6), else `EACCES`",
    "open" => "allowed, but `EACCES` for setuid or setgid modes, truncating without writing, access mode 3",
    "openat" => "allowed, but `EACCES` for setuid or setgid modes, truncating without writing, access mode 3",
    "create" => "allowed, but `EACCES` for setuid or setgid modes",
    "createat" => "allowed, but `EACCES` for setuid or setgid modes",
    "network" => "`network: true`, else `ENETUNREACH`",
    "socket" => "`network: true` for Unix, IPv4, IPv6 and routing netlink (others `EAFNOSUPPORT`), else `ENETUNREACH`",
    "socketpair" => "allowed for Unix streams and sequenced packets; with `network: true` also datagrams",
    "sendto" => "allowed without an address; with one `network: true`, else `ENETUNREACH`",
    "sendmsg" => "allowed without `MSG_FASTOPEN`; with it `network: true`, else `ENETUNREACH`",
    "process" => "`processes: true`, else `EPERM`",
    "clone" => "threads allowed; processes with `processes: true`, else `EPERM`; namespaces `EPERM`",
    "kill" => "itself and its group; with `processes: true` on Landlock ABI 6 the whole jail; else `EPERM`",
    "tgkill" => "itself; with `processes: true` on Landlock ABI 6 the whole jail; else `EPERM`",
    "tkill" => "its first thread; on Landlock ABI 6 the whole jail; else `EPERM`",
    "pidfd" => "`processes: true` on Landlock ABI 6, else `EPERM`",
    "self" => "itself, else `EPERM`",
    "setpriority" => "itself, else `EPERM`",
    "ioprio" => "itself, else `EPERM`",
    "ioctl" => "the requests listed in seccomp_checks.c, else `EPERM`",
    "fcntl" => "the commands listed in seccomp_checks.c, else `EPERM`",
    "prctl" => "the options listed in seccomp_checks.c, else `EPERM`, or `EINVAL` where unknown",
    "personality" => "asking and the default, else `EPERM`"
  }.freeze

  HEAD = <<~MARKDOWN
    # System calls in the jail

    What the seccomp filter answers to each system call of Linux, by its number on x86-64 and on aarch64. Calls that are
    not listed, and those of newer kernels, get `ENOSYS`, as do the x32 numbers of x86-64. A call by another
    architecture's convention (such as `int 0x80`) ends the process with `SIGSYS`. Where the words name an option, it is
    one of `AgentJail.run`. Landlock decides about paths on top of this.

    | x86-64 | aarch64 | call | verdict |
    |---:|---:|---|---|
  MARKDOWN

  Row = Struct.new(:name, :x86_64, :aarch64, :verdict) do
    def to_markdown
      "| #{x86_64 || "-"} | #{aarch64 || "-"} | `#{name}` | #{WORDS.fetch(verdict)} |\n"
    end
  end

  module_function

  # Every call once, by name.
  def rows
    x86_64, aarch64 = %w[x86_64 aarch64].map do |arch|
      AgentJail::Native.syscalls(arch).to_h { |number, name, verdict| [name, [number, verdict]] }
    end
    (x86_64.keys | aarch64.keys).sort.map do |name|
      Row.new(name, x86_64[name]&.first, aarch64[name]&.first, (x86_64[name] || aarch64[name]).last)
    end
  end

  def markdown
    HEAD + rows.map(&:to_markdown).join
  end

  def write
    File.write(PATH, markdown)
  end
end
