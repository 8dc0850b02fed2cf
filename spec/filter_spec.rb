# frozen_string_literal: true

require "spec_helper"

# Walks the filter of every architecture and every set of options, whatever machine the suite runs on.
RSpec.describe "the system call filter", if: AgentJail::Native.respond_to?(:filter) do
  arches = %w[x86_64 aarch64]
  option_sets = [true, false].repeated_permutation(3).map { %i[network processes scoped].zip(_1).to_h }
  self_pid = 4242
  parent_pid = 4200
  high = 1 << 32 # what a register holds above the value of an int

  allow = [:allow]
  errno = ->(name) { [:errno, Errno.const_get(name)::Errno] }

  programs = Hash.new do |cache, (arch, options)|
    bytes, patches = AgentJail::Native.filter(arch, *options.values_at(:network, :processes, :scoped))
    cache[[arch, options]] = Bpf.patch(bytes, patches, self_pid)
  end
  numbers = arches.to_h { |arch| [arch, AgentJail::Native.syscalls(arch).to_h { |number, name, _| [name, number] }] }

  # What one architecture's filter answers to the named call; nil where the architecture has no such call.
  define_method(:answer_on) do |arch, name, args, options|
    options = { network: false, processes: false, scoped: false }.merge(options)
    number = numbers[arch].fetch(name.to_s) { return }
    Bpf.run(programs[[arch, options]], arch: arch, nr: number, args: args.map { _1 & 0xffffffffffffffff })
  end

  # The same of all that have it, which must agree.
  define_method(:answer) do |name, *args, **options|
    answers = arches.filter_map { answer_on(_1, name, args, options) }.uniq
    raise "#{name}: #{answers.inspect}" unless answers.size == 1

    answers.first
  end

  def expect_all(names, answer, *args, **options)
    given = names.to_h { [_1, answer(_1, *args, **options)] }
    expect(given.reject { |_, got| got == answer }).to be_empty
  end

  describe "its shape" do
    arches.product(option_sets).each do |arch, options|
      it "is a program the kernel takes, on #{arch} with #{options.select { _2 }.keys}" do
        bytes, patches = AgentJail::Native.filter(arch, *options.values)

        expect(Bpf.verify(bytes).size).to be < 320 # it is compiled once per run
        expect(patches).to eq patches.uniq
        # Only a shared answer may be left over, where every jump to it was too far.
        expect(Bpf.unreachable(bytes).map { Bpf.decode(bytes)[_1].code } - [Bpf::RET_K]).to be_empty
      end
    end

    it "holds no process that can exist until the child's id is put in" do
      bytes, patches = AgentJail::Native.filter("x86_64", false, false, false)

      expect(patches.map { Bpf.decode(bytes)[_1].k }.uniq).to contain_exactly(0x7fffffff, 0x80000001)
    end
  end

  describe "every number" do
    # What a verdict answers when all arguments are zero, under the options o.
    zeros = {
      "allow" => ->(_) { allow },
      "absent" => ->(_) { errno["ENOSYS"] },
      "privilege" => ->(_) { errno["EPERM"] },
      "others" => ->(_) { errno["EPERM"] },
      "session" => ->(_) { errno["EPERM"] },
      "metadata" => ->(_) { errno["EACCES"] },
      "xattr" => ->(_) { errno["EOPNOTSUPP"] },
      "truncate" => ->(o) { o[:scoped] ? allow : errno["EACCES"] },
      "open" => ->(_) { allow },
      "openat" => ->(_) { allow },
      "create" => ->(_) { allow },
      "createat" => ->(_) { allow },
      "network" => ->(o) { o[:network] ? allow : errno["ENETUNREACH"] },
      "socket" => ->(o) { errno[o[:network] ? "EAFNOSUPPORT" : "ENETUNREACH"] },
      "socketpair" => ->(o) { errno[o[:network] ? "EAFNOSUPPORT" : "ENETUNREACH"] },
      "sendto" => ->(_) { allow },
      "sendmsg" => ->(_) { allow },
      "process" => ->(o) { o[:processes] ? allow : errno["EPERM"] },
      "clone" => ->(o) { o[:processes] ? allow : errno["EPERM"] },
      "kill" => ->(_) { allow },
      "tgkill" => ->(o) { o[:processes] && o[:scoped] ? allow : errno["EPERM"] },
      "tkill" => ->(o) { o[:scoped] ? allow : errno["EPERM"] },
      "pidfd" => ->(o) { o[:processes] && o[:scoped] ? allow : errno["EPERM"] },
      "self" => ->(_) { allow },
      "setpriority" => ->(_) { allow },
      "ioprio" => ->(_) { errno["EPERM"] },
      "ioctl" => ->(_) { errno["EPERM"] },
      "fcntl" => ->(_) { allow },
      "prctl" => ->(_) { errno["EINVAL"] },
      "personality" => ->(_) { allow }
    }

    arches.product(option_sets).each do |arch, options|
      it "gets what the table says, on #{arch} with #{options.select { _2 }.keys}" do
        verdicts = AgentJail::Native.syscalls(arch).to_h { |number, _, verdict| [number, verdict] }
        wrong = (0..1023).reject do |number|
          verdict = zeros.fetch(verdicts.fetch(number, "absent"))
          Bpf.run(programs[[arch, options]], arch: arch, nr: number) == verdict.call(options)
        end

        expect(wrong).to be_empty
      end
    end

    it "is unknown above the table, be it x32's, another interface's or negative" do
      arches.product([0x4000_0000, 0x4000_003b, 0x4000_0208, 0xf0005, 0x7fff_ffff, 0x8000_0000, -1]) do |arch, number|
        expect(Bpf.run(programs[[arch, option_sets.first]], arch: arch, nr: number)).to eq errno["ENOSYS"]
      end
    end

    it "ends the process when called by another architecture's convention" do
      arches.product(%w[i386 arm x86_64 aarch64], [0, 1, 11, 0x4000_0001]) do |arch, other, number|
        next if arch == other

        expect(Bpf.run(programs[[arch, option_sets.first]], arch: other, nr: number)).to eq [:kill_process]
      end
    end
  end

  describe "the table" do
    it "has each call and each number once" do
      arches.each do |arch|
        rows = AgentJail::Native.syscalls(arch)

        expect(rows.map { |number, _, _| number }).to eq(rows.map(&:first).uniq.sort)
        expect(rows.map { |_, name, _| name }.tally.select { _2 > 1 }).to be_empty
      end
    end

    it "has the same newer calls on both architectures, without a gap up to the last" do
      newer = arches.map { |arch| AgentJail::Native.syscalls(arch).select { |number, _, _| number >= 424 } }

      expect(newer.uniq.size).to eq 1
      expect(newer.first.map(&:first)).to eq (424..newer.first.last.first).to_a
    end

    headers = {
      "x86_64" => Dir["/usr/include/{x86_64-linux-gnu/,}asm/unistd_64.h"],
      "aarch64" => Dir["/usr/include/asm-generic/unistd.h"]
    }
    headers.each do |arch, paths|
      it "agrees with this machine's headers for #{arch}" do
        skip "no such header here" if paths.empty?
        text = File.read(paths.first).gsub("__NR3264_fstatat", "__NR_newfstatat").gsub("__NR3264_", "__NR_")
        defined = text.scan(/^\s*#\s*define\s+__NR_(\w+)\s+(\d+)\s*$/).to_h.transform_values(&:to_i)
        defined.reject! { |name, _| %w[syscalls arch_specific_syscall sync_file_range2].include?(name) }
        # The generic header also has the names of 32-bit machines, without a number of their own.
        defined.select! { |_, number| number < 403 || number >= 424 }

        expect(defined.size).to be > 280
        expect(defined.reject { |name, number| numbers[arch][name] == number }).to be_empty
      end
    end

    it "is the one in docs/syscalls.md" do
      expect(File.read(SyscallReference::PATH)).to eq SyscallReference.markdown
    end
  end

  describe "computing" do
    it "goes on: memory, threads, time, files, pipes" do
      expect_all(
        %w[mmap munmap mprotect mremap madvise brk futex rseq set_robust_list clock_gettime clock_nanosleep getrandom
           rt_sigaction rt_sigprocmask sigaltstack read write pread64 close dup3 lseek newfstatat statx getdents64 pipe2
           eventfd2 epoll_create1 epoll_ctl epoll_pwait ppoll timerfd_create sched_yield sched_getaffinity
           getrusage uname sysinfo wait4 exit_group unlinkat renameat2 mkdirat flock fsync ftruncate sendfile splice
           copy_file_range membarrier close_range faccessat2 rt_sigreturn restart_syscall exit],
        allow
      )
    end

    it "has no memory beside the limit, as a file, in a pipe, or as a ruleset" do
      expect_all(%w[memfd_create memfd_secret vmsplice landlock_create_ruleset landlock_add_rule landlock_restrict_self],
                 errno["ENOSYS"])
    end

    it "may be filtered once more" do
      expect_all(%w[seccomp], allow)
    end

    it "falls back from calls whose arguments a filter cannot read" do
      option_sets.each do |options|
        expect_all(%w[clone3 openat2 io_uring_setup io_uring_enter io_uring_register io_setup],
                   errno["ENOSYS"], **options)
      end
    end
  end

  describe "the host and other processes" do
    it "are out of reach, whatever is opened" do
      option_sets.each do |options|
        expect_all(
          %w[mount umount2 pivot_root chroot unshare setns bpf perf_event_open userfaultfd keyctl add_key request_key
             ptrace process_vm_readv process_vm_writev kcmp pidfd_getfd process_madvise move_pages migrate_pages
             init_module finit_module delete_module kexec_load kexec_file_load reboot swapon swapoff quotactl acct
             syslog settimeofday clock_settime clock_adjtime adjtimex open_by_handle_at name_to_handle_at fanotify_init
             shmget shmat shmctl semget semop msgget msgsnd mq_open mq_unlink setuid setgid setresuid setgroups capset
             setsid setpgid fsopen fsmount move_mount open_tree mount_setattr statmount listmount listns],
          errno["EPERM"], **options
        )
      end
    end
  end

  describe "file metadata" do
    it "is left as it is, by path and by descriptor" do
      option_sets.each do |options|
        expect_all(
          %w[chmod fchmod fchmodat fchmodat2 chown lchown fchown fchownat utime utimes futimesat utimensat setxattr
             lsetxattr fsetxattr setxattrat removexattr lremovexattr fremovexattr removexattrat file_setattr
             inotify_init1 inotify_add_watch],
          errno["EACCES"], **options
        )
      end
    end

    it "can be read of what was opened, and not the attributes of any path" do
      expect_all(%w[fstat fgetxattr flistxattr], allow)
      expect_all(%w[getxattr lgetxattr getxattrat listxattr llistxattr listxattrat], errno["EOPNOTSUPP"])
    end

    create = File::CREAT | File::WRONLY

    it "cannot be given to a new file as a setuid or setgid mode" do
      [0o4755, 0o2755, 0o6000, high | 0o4000].each do |mode|
        expect(answer(:openat, 0, 0, create, mode)).to eq errno["EACCES"]
        expect(answer(:open, 0, create, mode)).to eq errno["EACCES"]
        expect(answer(:openat, 0, 0, 0o20000000 | File::RDWR, mode)).to eq errno["EACCES"] # O_TMPFILE
        expect(answer(:creat, 0, mode)).to eq errno["EACCES"]
        expect(answer(:mknod, 0, mode)).to eq errno["EACCES"]
        expect(answer(:mknodat, 0, 0, mode)).to eq errno["EACCES"]
      end
      [0o644, 0o1777, 0].each do |mode|
        expect(answer(:openat, 0, 0, create, mode)).to eq allow
        expect(answer(:open, 0, create | File::TRUNC, mode)).to eq allow
        expect(answer(:creat, 0, mode)).to eq allow
        expect(answer(:mknodat, 0, 0, 0o10000 | mode)).to eq allow
      end
    end

    it "is not asked for where nothing is created: the mode may be anything then" do
      expect(answer(:openat, 0, 0, File::RDONLY, 0o4755)).to eq allow
      expect(answer(:open, 0, File::WRONLY | File::APPEND, 0o4755)).to eq allow
    end

    it "includes the length of a file that may only be read" do
      [File::RDONLY | File::TRUNC, 3, 3 | File::TRUNC, high | File::TRUNC].each do |flags|
        expect(answer(:openat, 0, 0, flags)).to eq errno["EACCES"]
        expect(answer(:open, 0, flags)).to eq errno["EACCES"]
      end
      [File::WRONLY | File::TRUNC, File::RDWR | File::TRUNC, File::RDONLY, File::RDWR].each do |flags|
        expect(answer(:openat, 0, 0, flags)).to eq allow
        expect(answer(:open, 0, flags)).to eq allow
      end
      expect(answer(:truncate)).to eq errno["EACCES"]
      expect(answer(:truncate, scoped: true)).to eq allow
    end
  end

  describe "the network" do
    af_unix = 1
    inet = 2
    inet6 = 10
    netlink = 16
    stream = 1
    dgram = 2
    raw = 3
    seqpacket = 5
    flags = 0o2004000 # SOCK_NONBLOCK | SOCK_CLOEXEC

    it "is unreachable unless opened" do
      [0, af_unix, inet, inet6, netlink, 17, 38, 40].each do |family|
        expect(answer(:socket, family, stream, 0)).to eq errno["ENETUNREACH"]
      end
      expect_all(%w[connect bind listen accept accept4], errno["ENETUNREACH"])
      expect_all(%w[connect bind listen accept accept4], allow, network: true)
    end

    it "has Unix, IP and the list of addresses, when opened, and nothing stranger" do
      [af_unix, inet, inet6, high | inet].each do |family|
        expect(answer(:socket, family, stream, 0, network: true)).to eq allow
      end
      expect(answer(:socket, netlink, raw, 0, network: true)).to eq allow
      expect(answer(:socket, netlink, raw, high, network: true)).to eq allow
      [[netlink, 9], [netlink, 12], [netlink, 15], [17, 0], [38, 0], [40, 0], [31, 0], [15, 0], [44, 0], [0, 0]]
        .each do |family, protocol|
          expect(answer(:socket, family, raw, protocol, network: true)).to eq errno["EAFNOSUPPORT"]
        end
    end

    it "leaves pairs of Unix sockets, but no kind that can send to an address" do
      [stream, seqpacket, stream | flags, seqpacket | flags, high | stream].each do |type|
        expect(answer(:socketpair, af_unix, type)).to eq allow
        expect(answer(:socketpair, high | af_unix, type)).to eq allow
      end
      [dgram, raw, dgram | flags, 0, 4, 6, stream | 0x10].each do |type|
        expect(answer(:socketpair, af_unix, type)).to eq errno["ENETUNREACH"]
      end
      expect(answer(:socketpair, inet, stream)).to eq errno["ENETUNREACH"]
      expect(answer(:socketpair, af_unix, dgram, network: true)).to eq allow
      expect(answer(:socketpair, 30, stream, network: true)).to eq errno["EAFNOSUPPORT"]
    end

    it "cannot be connected by a message" do
      fast_open = 0x2000_0000
      expect(answer(:sendmsg, 3, 4096, fast_open)).to eq errno["ENETUNREACH"]
      expect(answer(:sendmsg, 3, 4096, fast_open, network: true)).to eq allow
      expect(answer(:sendmsg, 3, 4096, 0)).to eq allow
      expect(answer(:sendmmsg, 3, 4096, 1, 0)).to eq errno["ENETUNREACH"]
    end

    it "cannot be sent to by an address, in whichever half of the pointer" do
      expect(answer(:sendto, 3, 4096, 5, 0, 0, 0)).to eq allow
      [0x1000, high, 0x7fff00001000].each do |address|
        expect(answer(:sendto, 3, 4096, 5, 0, address, 16)).to eq errno["ENETUNREACH"]
        expect(answer(:sendto, 3, 4096, 5, 0, address, 16, network: true)).to eq allow
      end
      expect_all(%w[recvfrom recvmsg sendmsg shutdown getsockopt setsockopt getsockname getpeername], allow)
    end
  end

  describe "processes" do
    thread = 0x3d0f00 # what pthread_create asks for
    fork_flags = 0x1200011

    it "are not started unless opened, while threads are" do
      expect_all(%w[fork vfork execve execveat], errno["EPERM"])
      expect_all(%w[fork vfork execve execveat], allow, processes: true)
      expect(answer(:clone, thread)).to eq allow
      expect(answer(:clone, high | thread)).to eq allow
      expect(answer(:clone, fork_flags)).to eq errno["EPERM"]
      expect(answer(:clone, 0x10000 << 32)).to eq errno["EPERM"]
      expect(answer(:clone, fork_flags, processes: true)).to eq allow
      expect(answer(:clone, 0x4111, processes: true)).to eq allow # vfork
    end

    it "never get namespaces, a foreign parent or a tracer" do
      [0x80, 0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000, 0x8000, 0x2000].each do |bit|
        option_sets.each do |options|
          expect(answer(:clone, fork_flags | bit, **options)).to eq errno["EPERM"]
          expect(answer(:clone, thread | bit, **options)).to eq errno["EPERM"]
        end
      end
    end

    it "may signal themselves" do
      [0, self_pid, -self_pid, high | self_pid].each { expect(answer(:kill, _1, 15)).to eq allow }
      [self_pid, high | self_pid].each do |pid|
        expect(answer(:tgkill, pid, 4300, 15)).to eq allow
        expect(answer(:tkill, pid, 15)).to eq allow
        expect(answer(:rt_sigqueueinfo, pid, 15)).to eq allow
        expect(answer(:rt_tgsigqueueinfo, pid, 4300, 15)).to eq allow
      end
    end

    # The process that ends the tree with the parent is in the group, and could not wake itself.
    it "may stop themselves, and not their group, unless Landlock tells who is in the jail" do
      expect(answer(:kill, self_pid, 19)).to eq allow
      [0, -self_pid].each do |group|
        [{}, { processes: true }].each { expect(answer(:kill, group, 19, **_1)).to eq errno["EPERM"] }
        expect(answer(:kill, group, 19, processes: true, scoped: true)).to eq allow
      end
    end

    it "may not signal others, unless Landlock sees to it that they are in the jail" do
      [parent_pid, -parent_pid, -1, 1, self_pid + 1, high | parent_pid].each do |pid|
        [{}, { processes: true }, { scoped: true }].each do |options|
          expect(answer(:kill, pid, 0, **options)).to eq errno["EPERM"]
          expect(answer(:tgkill, pid, self_pid, 0, **options)).to eq errno["EPERM"]
          expect(answer(:rt_sigqueueinfo, pid, 0, **options)).to eq errno["EPERM"]
          expect(answer(:rt_tgsigqueueinfo, pid, self_pid, 0, **options)).to eq errno["EPERM"]
        end
        expect(answer(:kill, pid, 0, processes: true, scoped: true)).to eq allow
        expect(answer(:tgkill, pid, pid, 0, processes: true, scoped: true)).to eq allow
      end
    end

    it "may signal threads by number only where Landlock looks" do
      [{}, { processes: true }].each { expect(answer(:tkill, parent_pid, 0, **_1)).to eq errno["EPERM"] }
      expect(answer(:tkill, parent_pid, 0, scoped: true)).to eq allow
    end

    it "get descriptors of processes only where Landlock looks" do
      [{}, { processes: true }, { scoped: true }].each do |options|
        expect_all(%w[pidfd_open pidfd_send_signal], errno["EPERM"], **options)
      end
      expect_all(%w[pidfd_open pidfd_send_signal], allow, processes: true, scoped: true)
    end

    it "set limits and priorities of themselves alone" do
      names = %w[prlimit64 sched_setaffinity sched_setscheduler sched_setparam sched_setattr]
      option_sets.each do |options|
        [0, self_pid, high, high | self_pid].each { expect_all(names, allow, _1, **options) }
        [parent_pid, 1, -1, -self_pid].each { expect_all(names, errno["EPERM"], _1, **options) }
        [0, self_pid].each do |who|
          expect(answer(:setpriority, 0, who, **options)).to eq allow
          expect(answer(:ioprio_set, 1, who, **options)).to eq allow
          [1, 2].each { expect(answer(:setpriority, _1, who, **options)).to eq errno["EPERM"] }
          [0, 2, 3].each { expect(answer(:ioprio_set, _1, who, **options)).to eq errno["EPERM"] }
        end
        expect(answer(:setpriority, 0, parent_pid, **options)).to eq errno["EPERM"]
        expect(answer(:ioprio_set, 1, parent_pid, **options)).to eq errno["EPERM"]
      end
      expect_all(%w[getpriority ioprio_get sched_getscheduler sched_getparam sched_getattr getpgid getsid], allow, 1)
    end
  end

  describe "ioctl" do
    it "asks terminals, files and pipes" do
      [0x5401, 0x802c542a, 0x5413, 0x541b, 0x5421, 0x5450, 0x5451, 0x5411, 0x40049409, 0x80086601,
       0x8905].each do |request|
        expect(answer(:ioctl, 1, request)).to eq allow
        expect(answer(:ioctl, 1, high | request)).to eq allow
      end
    end

    it "types into no terminal, stops none, takes none" do
      [0x5412, 0x541c, 0x5423, 0x541d, 0x540e, 0x5422, 0x5410, 0x540a, 0x540b, 0x540c, 0x5402, 0x5403, 0x5404, 0x5414,
       0x402c542b, 0x5437, 0x5441].each do |request|
        expect(answer(:ioctl, 1, request)).to eq errno["EPERM"]
        expect(answer(:ioctl, 1, high | request)).to eq errno["EPERM"]
      end
    end

    it "has nobody signalled and no attributes written" do
      [0x5452, 0x8901, 0x8902, 0x40086602, 0x401c5820, 0x40087602, 0x40047211, 0xc0045877, 0x40806685, 0x5000940e]
        .each { expect(answer(:ioctl, 1, _1)).to eq errno["EPERM"] }
    end

    it "asks for interfaces with the network only" do
      [0x8910, 0x8912, 0x8913, 0x8915, 0x8933].each do |request|
        expect(answer(:ioctl, 1, request)).to eq errno["EPERM"]
        expect(answer(:ioctl, 1, request, network: true)).to eq allow
      end
      [0x8901, 0x8902, 0x8914, 0x8946, 0x89e0].each do |request|
        expect(answer(:ioctl, 1, request, network: true)).to eq errno["EPERM"]
      end
    end
  end

  describe "fcntl" do
    it "does what files and pipes need" do
      [*0..7, 9, 11, 16, 36, 37, 38, 1025, 1030, 1032, 1033, 1034].each do |command|
        expect(answer(:fcntl, 1, command)).to eq allow
        expect(answer(:fcntl, 1, high | command)).to eq allow
      end
    end

    it "has nobody signalled, kept waiting or watched" do
      [8, 10, 15, 1024, 1026, 12, 18, 35, 39, 1039, 1040, 0xffffffff].each do |command|
        expect(answer(:fcntl, 1, command)).to eq errno["EPERM"]
        expect(answer(:fcntl, 1, high | command)).to eq errno["EPERM"]
      end
    end

    it "sets no flag by which input is a signal" do
      expect(answer(:fcntl, 1, 4, 0o4002)).to eq allow
      expect(answer(:fcntl, 1, 4, 0o24002)).to eq errno["EPERM"]
      expect(answer(:fcntl, 1, high | 4, high | 0o20000)).to eq errno["EPERM"]
    end

    it "takes no more of what a user's pipes share than a pipe begins with" do
      expect(answer(:fcntl, 1, 1031, 1 << 20)).to eq errno["EPERM"]
    end
  end

  describe "prctl" do
    it "names threads and memory, and tightens" do
      [15, 16, 0x53564d41, 38, 39, 21, 22, 23, 29, 30, 41, 2, 3, 34, 65].each do |option|
        expect(answer(:prctl, option)).to eq allow
        expect(answer(:prctl, high | option)).to eq allow
      end
    end

    it "lets nobody in, keeps nothing and adopts nobody" do
      [8, 24, 26, 28, 33, 35, 36, 47, 53, 59, 62, 67, 0x59616d61].each do |option|
        expect(answer(:prctl, option, 1)).to eq errno["EPERM"]
        expect(answer(:prctl, high | option, 1)).to eq errno["EPERM"]
      end
    end

    it "knows no option that it has not heard of" do
      [0, 80, 96, 200, 511, 512, 1024, 0x53564d42, 0xffffffff].each do |option|
        expect(answer(:prctl, option)).to eq errno["EINVAL"]
      end
    end

    it "keeps the signal of the parent's death" do
      expect(answer(:prctl, 1, 9)).to eq allow
      [0, 15, high, high | 9].each { expect(answer(:prctl, 1, _1)).to eq errno["EPERM"] }
    end

    it "makes the process harder to read, never easier" do
      expect(answer(:prctl, 4, 0)).to eq allow
      [1, 2, high].each { expect(answer(:prctl, 4, _1)).to eq errno["EPERM"] }
    end
  end

  it "leaves the personality as it is" do
    [0, 0xffffffff, 0xffffffffffffffff].each { expect(answer(:personality, _1)).to eq allow }
    [0x0040000, 0x8, 0x0400000].each { expect(answer(:personality, _1)).to eq errno["EPERM"] }
  end

  describe "on this machine" do
    it "answers what the walk of its instructions answers, for every call refused outright" do
      arch = RbConfig::CONFIG["host_cpu"]
      unscoped, scoped = [false, true].map { programs[[arch, { network: false, processes: false, scoped: _1 }]] }
      refused = (0..1023).to_h { |number| [number, Bpf.run(unscoped, arch: arch, nr: number)] }
      refused.select! { |number, answer| answer != allow && answer == Bpf.run(scoped, arch: arch, nr: number) }
      given = AgentJail.run do
        refused.keys.to_h do |number|
          [number, syscall(number, 0, 0, 0, 0, 0, 0)]
        rescue SystemCallError => e
          [number, e.errno]
        end
      end

      expect(given.size).to be > 400
      expect(given).to eq(refused.transform_values(&:last))
    end

    it "knows the child by its own number" do
      parent = Process.pid

      expect(AgentJail.run { [Process.kill(0, Process.pid), Process.kill(0, -Process.pid)] }).to eq [1, 1]
      expect(AgentJail.run { Process.setpriority(Process::PRIO_PROCESS, Process.pid, 19) }).to eq 0
      expect { AgentJail.run { Process.kill(0, parent) } }.to raise_error(AgentJail::ProcessError)
      expect { AgentJail.run { Process.setpriority(Process::PRIO_PROCESS, parent, 19) } }
        .to raise_error(AgentJail::ProcessError)
      expect { AgentJail.run { Process.kill(0, -Process.getpgid(parent)) } }.to raise_error(AgentJail::ProcessError)
    end
  end
end
