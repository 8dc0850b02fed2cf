# frozen_string_literal: true

require "pty"
require "socket"

# What a block may not do to who runs beside it: the parent, other processes of the same user, files that were not
# granted, the kernel that all share. Each act is tried in a jail and, as its control, in a plain fork.
RSpec.describe AgentJail, "and its neighbours", if: AgentJail::Platform.linux? do
  include_context "with a directory"

  null = 0
  sig_queue = [0, 0, -1, 0].pack("i4").ljust(128, "\0") # a siginfo that says it was queued

  describe "processes" do
    page = "a secret of the parent's memory "

    # Each gets the id of a process, and does what changes nothing when it is let.
    acts = {
      "kill" => [0, ->(pid) { kernel(:kill, pid, 0) }],
      "kill of the group" => [0, ->(pid) { kernel(:kill, -Process.getpgid(pid), 0) }],
      "tgkill" => [0, ->(pid) { kernel(:tgkill, pid, pid, 0) }],
      "tkill" => [0, ->(pid) { kernel(:tkill, pid, 0) }],
      "sigqueue" => [0, ->(pid) { kernel(:rt_sigqueueinfo, pid, 0, sig_queue) }],
      "sigqueue to a thread" => [0, ->(pid) { kernel(:rt_tgsigqueueinfo, pid, pid, 0, sig_queue) }],
      "prlimit, reading" => [0, ->(pid) { kernel(:prlimit64, pid, 7, null, "\0" * 16) }],
      "prlimit, setting" => [0, ->(pid) { kernel(:prlimit64, pid, 4, [0, 0].pack("QQ"), null) }],
      "setpriority" => [0, ->(pid) { kernel(:setpriority, 0, pid, Process.getpriority(Process::PRIO_PROCESS, pid)) }],
      "setpriority of the group" => [0, lambda do |pid|
        kernel(:setpriority, 1, Process.getpgid(pid), Process.getpriority(Process::PRIO_PROCESS, pid))
      end],
      "sched_setaffinity" => [0, lambda do |pid|
        mask = "\0" * 128
        length = kernel(:sched_getaffinity, pid, mask.bytesize, mask)
        kernel(:sched_setaffinity, pid, length, mask)
      end],
      "sched_setscheduler" => [0, ->(pid) { kernel(:sched_setscheduler, pid, 0, [0].pack("i")) }],
      "sched_setparam" => [0, ->(pid) { kernel(:sched_setparam, pid, [0].pack("i")) }],
      "sched_setattr" => [0, ->(pid) { kernel(:sched_setattr, pid, [48].pack("L").ljust(48, "\0"), 0) }],
      "ioprio_set" => [0, ->(pid) { kernel(:ioprio_set, 1, pid, kernel(:ioprio_get, 1, pid)) }],
      "ptrace" => [0, ->(pid) { kernel(:ptrace, 0x4206, pid, 0, 0) }],
      "process_vm_readv" => [page.bytesize, lambda do |pid|
        into = "\0" * page.bytesize
        kernel(:process_vm_readv, pid, iovec(address(into), into.bytesize), 1,
               iovec(address(page), page.bytesize), 1, 0)
      end],
      "process_vm_writev" => [page.bytesize, lambda do |pid|
        from = page.dup
        kernel(:process_vm_writev, pid, iovec(address(from), from.bytesize), 1,
               iovec(address(page), page.bytesize), 1, 0)
      end],
      "pidfd_open" => [(0..), ->(pid) { kernel(:pidfd_open, pid, 0) }],
      "kcmp" => [(0..), ->(pid) { kernel(:kcmp, pid, Process.pid, 1, 0, 0) }],
      "move_pages" => [0, ->(pid) { kernel(:move_pages, pid, 0, null, null, null, 0) }],
      "migrate_pages" => [0, ->(pid) { kernel(:migrate_pages, pid, 8, [1].pack("Q"), [1].pack("Q")) }],
      "perf_event_open" => [[(0..), "EACCES"], lambda do |pid|
        kernel(:perf_event_open, [1, 112, 9].pack("LLQ").ljust(112, "\0"), pid, -1, -1, 0)
      end]
    }

    acts.each do |name, (control, act)|
      it "#{name} does not reach the parent" do
        pid = Process.pid

        expect { instance_exec(pid, &act) }.to be_answered("EPERM").without_one(control)
      end

      it "#{name} does not reach another process of the user" do
        with_bystander do |pid|
          expect { instance_exec(pid, &act) }.to be_answered("EPERM").without_one(control)
        end
      end
    end

    it "everybody at once is not reached by kill" do
      expect { kernel(:kill, -1, 0) }.to be_answered("EPERM").without_one(0)
    end

    # State of a process that the acts could have changed.
    def state(pid)
      { nice: Process.getpriority(Process::PRIO_PROCESS, pid), running: running?(pid),
        limits: File.read("/proc/#{pid}/limits"), allowed: File.read("/proc/#{pid}/status")[/Cpus_allowed_list.*/],
        io: kernel(:ioprio_get, 1, pid) }
    end

    changes = {
      "lowered in priority" => ->(pid) { kernel(:setpriority, 0, pid, 19) },
      "given less" => ->(pid) { kernel(:prlimit64, pid, 7, [9, 9].pack("QQ"), null) },
      "given worse disk time" => ->(pid) { kernel(:ioprio_set, 1, pid, 3 << 13) },
      "killed" => ->(pid) { kernel(:kill, pid, 9) && sleep(0.02) }
    }

    changes.each do |what, act|
      it "another process is not #{what}" do
        with_bystander do |pid|
          states = [state(pid)]
          jailed { instance_exec(pid, &act) }
          states << state(pid)
          unjailed { instance_exec(pid, &act) }
          survivors([pid], patience: what == "killed" ? 5 : 0)
          states << state(pid)

          expect(states[1]).to eq(states[0])
          expect(states[2]).not_to eq(states[0])
        end
      end
    end

    it "signals do not reach the parent through Process.kill, and the error says so" do
      pid = Process.pid

      expect { Process.kill(0, pid) }.to be_refused.as(an_instance_of(AgentJail::ProcessError))
      expect(jailed { Process.kill(0, Process.pid) }).to eq(1)
    end

    # A descriptor of the process, which a jail may use when it is told so.
    def with_pidfd(pid)
      io = IO.for_fd(kernel(:pidfd_open, pid, 0))
      yield io
    ensure
      io&.close
    end

    {
      "pidfd_send_signal" => [0, ->(fd) { kernel(:pidfd_send_signal, fd, 0, null, 0) }],
      "pidfd_getfd" => [(0..), ->(fd) { kernel(:pidfd_getfd, fd, 2, 0) }],
      "process_madvise" => [page.bytesize, lambda do |fd|
        kernel(:process_madvise, fd, iovec(address(page) & -4096, 4096), 1, 20, 0)
      end],
      "process_mrelease" => ["EINVAL", ->(fd) { kernel(:process_mrelease, fd, 0) }]
    }.each do |name, (control, act)|
      control = 4096 if name == "process_madvise"

      it "#{name} does nothing, be the process's descriptor inherited on purpose" do
        with_bystander do |pid|
          with_pidfd(pid) do |io|
            expect { instance_exec(io.fileno, &act) }
              .to be_answered("EPERM").in_a_jail_with(inherit: io).without_one(control)
          end
        end
      end
    end

    it "a signal cannot be had sent by the kernel" do
      with_bystander do |pid|
        own = [0, pid].pack("ii")
        sockets = UNIXSocket.pair
        fd = sockets.first.fileno
        acts = { "F_SETOWN" => -> { kernel(:fcntl, fd, 8, pid) }, "F_SETOWN_EX" => -> { kernel(:fcntl, fd, 15, own) },
                 "F_SETSIG" => -> { kernel(:fcntl, fd, 10, 10) }, "FIOSETOWN" => -> { kernel(:ioctl, fd, 0x8901, own) },
                 "SIOCSPGRP" => -> { kernel(:ioctl, fd, 0x8902, own) },
                 "FIOASYNC" => -> { kernel(:ioctl, fd, 0x5452, [0].pack("i")) } }
        acts.each_value do |act|
          expect(&act).to be_answered("EPERM").in_a_jail_with(inherit: sockets.first).without_one(0)
        end
      ensure
        sockets.each(&:close)
      end
    end
  end

  describe "objects that processes share by a number or a name" do
    create = 0o1000
    remove = 0

    # An object of the parent's, gone afterwards whatever happened to it.
    def with_object(make, unmake)
      id = instance_exec(&make)
      raise "it cannot be had: #{id}" unless id.is_a?(Integer)

      yield id
    ensure
      instance_exec(id, &unmake) if id.is_a?(Integer)
    end

    memory = [-> { kernel(:shmget, 0, 4096, create | 0o600) }, ->(id) { kernel(:shmctl, id, remove, 0) }]
    semaphore = [-> { kernel(:semget, 0, 1, create | 0o600) }, ->(id) { kernel(:semctl, id, 0, remove, 0) }]
    messages = [-> { kernel(:msgget, 0, create | 0o600) }, ->(id) { kernel(:msgctl, id, remove, 0) }]
    message = [1, "hello"].pack("qa*")

    {
      "shared memory cannot be looked at" => [memory, 0, ->(id) { kernel(:shmctl, id, 2, "\0" * 256) }],
      "shared memory cannot be attached" => [memory, (1..), ->(id) { kernel(:shmat, id, 0, 0) }],
      "shared memory cannot be removed" => [memory, 0, ->(id) { kernel(:shmctl, id, remove, 0) }],
      "a semaphore cannot be changed" => [semaphore, 0, ->(id) { kernel(:semop, id, [0, 1, 0].pack("Sss"), 1) }],
      "a semaphore cannot be changed in time" =>
        [semaphore, 0, ->(id) { kernel(:semtimedop, id, [0, 1, 0].pack("Sss"), 1, null) }],
      "a semaphore cannot be removed" => [semaphore, 0, ->(id) { kernel(:semctl, id, 0, remove, 0) }],
      "a message cannot be sent" => [messages, 0, ->(id) { kernel(:msgsnd, id, message, 5, 0) }],
      "a message cannot be received" => [messages, "ENOMSG", ->(id) { kernel(:msgrcv, id, "\0" * 64, 8, 0, 0o4000) }],
      "a queue of messages cannot be removed" => [messages, 0, ->(id) { kernel(:msgctl, id, remove, 0) }]
    }.each do |name, ((make, unmake), control, act)|
      it name do
        with_object(make, unmake) do |id|
          expect { instance_exec(id, &act) }.to be_answered("EPERM").without_one(control)
        end
      end
    end

    it "none can be made that would outlive the jail" do
      made = ->(result, unmake) { result.is_a?(Integer) ? unmake.call(result) : result }
      [memory, semaphore, messages].each do |make, unmake|
        act = -> { made.call(instance_exec(&make), ->(id) { instance_exec(id, &unmake) }) }

        expect(&act).to be_answered("EPERM").without_one(0)
      end
    end

    context "with a POSIX queue of the parent's" do
      name = "agent_jail_spec_#{Process.pid}"

      around do |example|
        fd = kernel(:mq_open, name, 0o102, 0o600, null)
        next skip("this kernel answers #{fd} to mq_open") unless fd.is_a?(Integer)

        @queue = IO.for_fd(fd)
        example.run
      ensure
        @queue&.close
        kernel(:mq_unlink, name)
      end

      {
        "is not opened" => [(0..), -> { kernel(:mq_open, name, 2, 0, null) }],
        "is not sent to, though it was inherited" => [0, -> { kernel(:mq_timedsend, @queue.fileno, "x", 1, 0, null) }],
        "is not received from, though it was inherited" =>
          ["EAGAIN", -> { kernel(:mq_timedreceive, @queue.fileno, "\0" * 8192, 8192, null, [0, 0].pack("QQ")) }],
        "tells nobody of its messages" => [0, -> { kernel(:mq_notify, @queue.fileno, null) }],
        "is not removed" => [0, -> { kernel(:mq_unlink, name) }]
      }.each do |words, (control, act)|
        it words do
          control = /EAGAIN|ETIMEDOUT/ if control == "EAGAIN"

          expect { instance_exec(&act) }.to be_answered("EPERM").in_a_jail_with(inherit: @queue).without_one(control)
        end
      end
    end
  end

  describe "a terminal" do
    high = 1 << 32

    attr_reader :master, :slave

    around do |example|
      PTY.open do |master, slave|
        @master = master
        @slave = slave
        example.run
      end
    end

    {
      "TIOCSTI pushes no key" => [0x5412, "x"],
      "TIOCSTI pushes no key with a bit above the request's" => [0x5412 + high, "x"],
      "TIOCLINUX pastes nothing" => [0x541c, "\x03"],
      "TIOCLINUX pastes nothing with a bit above the request's" => [0x541c + high, "\x03"],
      "TIOCSETD changes no line discipline" => [0x5423, [0].pack("i")],
      "TIOCSWINSZ changes no size" => [0x5414, [24, 80, 0, 0].pack("S4")],
      "TCXONC stops no output" => [0x540a, 1],
      "TCFLSH throws nothing away" => [0x540b, 2],
      "TIOCNOTTY gives none up" => [0x5422, 0],
      "TIOCEXCL shuts nobody out" => [0x540c, 0],
      "TIOCPKT changes no mode" => [0x5420, [0].pack("i")]
    }.each do |words, (request, argument)|
      it words do
        fd = slave.fileno
        control = [0, /ENOTTY|EINVAL|EIO/]

        expect { kernel(:ioctl, fd, request, argument) }
          .to be_answered("EPERM").in_a_jail_with(inherit: slave).without_one(*control)
      end
    end

    it "does not turn its input into signals to whoever is before it" do
      fd = slave.fileno

      expect { kernel(:fcntl, fd, 4, 0o20002) }
        .to be_answered("EPERM").in_a_jail_with(inherit: slave).without_one(0)
    end

    it "tells its size and whether it is one, when it is inherited" do
      expect(jailed(inherit: slave) { [slave.tty?, kernel(:ioctl, slave.fileno, 0x5413, "\0" * 8)] }).to eq([true, 0])
      expect(jailed { slave.tty? }).not_to be(true)
    end

    it "keeps its attributes" do
      fd = slave.fileno
      attributes = "\0" * 64
      kernel(:ioctl, fd, 0x5401, attributes)

      expect { kernel(:ioctl, fd, 0x5402, attributes) }
        .to be_answered("EPERM").in_a_jail_with(inherit: slave).without_one(0)
    end
  end

  describe "files that were not granted" do
    at_cwd = -100
    times = [1, 0, 1, 0].pack("q4")
    no_owner = [Process.uid, Process.gid]

    by_path = {
      "chmod" => [:chmod, [0o777]], "chown" => [:chown, no_owner], "lchown" => [:lchown, no_owner],
      "utime" => [:utime, [[1, 1].pack("qq")]], "utimes" => [:utimes, [times]],
      "setxattr" => [:setxattr, ["user.agent_jail", "x", 1, 0]],
      "lsetxattr" => [:lsetxattr, ["user.agent_jail", "x", 1, 0]]
    }
    by_directory = {
      "fchmodat" => [:fchmodat, [0o777]], "fchmodat2" => [:fchmodat2, [0o777, 0]],
      "fchownat" => [:fchownat, [*no_owner, 0]], "utimensat" => [:utimensat, [times, 0]],
      "futimesat" => [:futimesat, [times]]
    }
    by_descriptor = {
      "fchmod" => [:fchmod, [0o777]], "fchown" => [:fchown, no_owner], "futimens" => [:utimensat, [null, times, 0]],
      "fsetxattr" => [:fsetxattr, ["user.agent_jail", "x", 1, 0]]
    }

    by_path.merge(by_directory).each do |name, (call, rest)|
      next unless KernelCalls.call?(call)

      [false, true].each do |granted|
        it "are left as they are by #{name}#{" in a directory that may be read" if granted}" do
          path = file("file")
          arguments = by_path.key?(name) ? [path, *rest] : [at_cwd, path, *rest]

          expect { kernel(call, *arguments) }
            .to be_answered("EACCES").in_a_jail_with(fs_read_allow: granted ? dir : []).without_one(0)
        end
      end
    end

    by_descriptor.each do |name, (call, rest)|
      it "are left as they are by #{name} through a descriptor that reads" do
        File.open(file("file")) do |io|
          fd = io.fileno
          expect { kernel(call, fd, *rest) }.to be_answered("EACCES").in_a_jail_with(inherit: io).without_one(0)
        end
      end
    end

    it "do not change at all, whichever of these is tried" do
      path = file("file")
      before = Acts.snapshot(dir)
      File.open(path) do |io|
        jailed(inherit: io, fs_read_allow: dir) do
          by_path.each_value { |call, rest| KernelCalls.call?(call) && kernel(call, path, *rest) }
          by_directory.each_value { |call, rest| KernelCalls.call?(call) && kernel(call, at_cwd, path, *rest) }
          by_descriptor.each_value { |call, rest| kernel(call, io.fileno, *rest) }
        end
      end

      expect(Acts.snapshot(dir)).to eq(before)
      expect(kernel(:getxattr, path, "user.agent_jail", null, 0)).to eq("ENODATA").or eq("ENOTSUP")
    end

    it "keep their attributes, and do not show them" do
      path = file("file")
      skip "no attributes in #{dir}" unless kernel(:setxattr, path, "user.agent_jail", "x", 1, 0) == 0

      expect { kernel(:removexattr, path, "user.none") }.to be_answered("EACCES").without_one("ENODATA")
      expect { kernel(:getxattr, path, "user.agent_jail", null, 0) }.to be_answered("ENOTSUP").without_one(1)
      expect { kernel(:listxattr, path, null, 0) }.to be_answered("ENOTSUP").without_one(16..)
      File.open(path) do |io|
        fd = io.fileno
        expect { kernel(:fremovexattr, fd, "user.none") }
          .to be_answered("EACCES").in_a_jail_with(inherit: io).without_one("ENODATA")
      end
    end

    it "keep the file system's flags, through a descriptor that reads too" do
      File.open(file("file")) do |io|
        fd = io.fileno
        flags = "\0" * 8
        skip "no flags in #{dir}" unless kernel(:ioctl, fd, 0x80086601, flags) == 0

        expect { kernel(:ioctl, fd, 0x40086602, flags) }
          .to be_answered("EPERM").in_a_jail_with(inherit: io).without_one(0)
      end
    end

    it "cannot be watched" do
      expect { kernel(:inotify_init1, 0) }.to be_answered("EACCES").without_one(0..)
    end

    it "cannot be leased, nor watched by a signal" do
      File.open(file("file"), "r+") do |io|
        fd = io.fileno
        [[1024, 1], [1026, 0]].each do |command, argument|
          expect { kernel(:fcntl, fd, command, argument) }
            .to be_answered("EPERM").in_a_jail_with(inherit: io).without_one(0, "ENOTDIR")
        end
      end
    end

    it "raise FilesystemError from Ruby's own methods" do
      path = file("file")

      [-> { File.chmod(0o600, path) }, -> { File.utime(1, 1, path) }, -> { File.chown(Process.uid, nil, path) }]
        .each { |act| expect(&act).to be_refused }
    end
  end

  describe "what an administrator does" do
    no_path = "/nonexistent/agent_jail"
    far = "\0" * 128

    # Arguments of which the kernel itself makes nothing, and what it says to them when it is asked by who may.
    {
      keyctl: [[0, -3, 0], [(1..), "ENOKEY"]],
      add_key: [["user", "agent_jail", "x", 1, -2], [(1..)]],
      request_key: [["user", "agent_jail_none", null, 0], %w[ENOKEY ENOENT]],
      bpf: [[9999, far, 128], %w[EINVAL]],
      userfaultfd: [[1], [(0..)]],
      mount: [["none", no_path, "tmpfs", 0, null], %w[ENOENT]],
      umount2: [[no_path, 0], %w[ENOENT]],
      pivot_root: [[no_path, no_path], %w[ENOENT]],
      chroot: [[no_path], %w[ENOENT]],
      fsopen: [["tmpfs", 0], [(0..)]],
      fsmount: [[-1, 0, 0], %w[EBADF]],
      fspick: [[-100, no_path, 0], %w[ENOENT]],
      open_tree: [[-100, no_path, 0], %w[ENOENT]],
      move_mount: [[-1, no_path, -1, no_path, 0], %w[ENOENT]],
      mount_setattr: [[-100, no_path, 0, far, 32], %w[ENOENT EINVAL] << 0],
      setns: [[-1, 0], %w[EBADF]],
      unshare: [[0x400], [0]],
      reboot: [[0x0bad, 0x0bad, 0, null], %w[EINVAL]],
      init_module: [[null, 0, ""], %w[ENOEXEC EINVAL EFAULT]],
      finit_module: [[-1, "", 0], %w[EBADF]],
      delete_module: [["agent_jail_none", 0o4000], %w[ENOENT]],
      kexec_load: [[0, 1000, null, 0xffff], %w[EINVAL]],
      kexec_file_load: [[-1, -1, 0, null, 0xffff], %w[EINVAL]],
      quotactl: [[0x800001 << 8, no_path, 0, null], %w[ENOENT ENODEV EINVAL ENOTBLK]],
      acct: [[no_path], %w[ENOENT]],
      swapon: [[no_path, 0], %w[ENOENT]],
      swapoff: [[no_path], %w[ENOENT]],
      personality: [[0x0040000], [0]],
      sethostname: [["x", 100_000], %w[EINVAL]],
      setdomainname: [["x", 100_000], %w[EINVAL]],
      clock_settime: [[1, [0, 0].pack("QQ")], %w[EINVAL]],
      adjtimex: [["\0" * 208], [(0..)]],
      clock_adjtime: [[0, "\0" * 208], [(0..)]],
      settimeofday: [[null, null], [0]],
      syslog: [[10, null, 0], [(1..)]],
      iopl: [[0], [0]],
      ioperm: [[0, 0, 0], %w[EINVAL] << 0],
      modify_ldt: [[0, far, 128], [(0..)]],
      fanotify_init: [[0, 0], [(0..)]],
      name_to_handle_at: [[-100, "/", "\0" * 8, "\0" * 8, 0], %w[EOVERFLOW]],
      open_by_handle_at: [[-1, "\0" * 8, 0], %w[EBADF EINVAL]],
      perf_event_open: [[[1, 112, 9].pack("LLQ").ljust(112, "\0"), 0, -1, -1, 0], [(0..), "EACCES"]],
      setuid: [[Process.euid], [0]],
      setgid: [[Process.egid], [0]],
      setresuid: [[-1, -1, -1], [0]],
      setgroups: [[0, null], [0]]
    }.each do |name, (arguments, controls)|
      next unless KernelCalls.call?(name)

      it "#{name} is refused" do
        expect { kernel(name, *arguments) }.to be_answered("EPERM").without_one(*controls)
      end
    end

    it "leaves what is asked of the personality alone, and its default" do
      expect(jailed { [kernel(:personality, 0xffffffff), kernel(:personality, 0)] }).to eq([0, 0])
    end
  end

  describe "other ways into the kernel" do
    {
      clone3: [[null, 0], %w[EINVAL]], openat2: [[-1, "none", "\0" * 24, 24], %w[EBADF]],
      io_uring_setup: [[2, "\0" * 120], [(0..)]], io_setup: [[1, "\0" * 8], [0]],
      memfd_create: [["x", 0], [(0..)]], memfd_secret: [[0], [(0..)]]
    }.each do |name, (arguments, controls)|
      it "#{name} is not there" do
        expect { kernel(name, *arguments) }.to be_answered("ENOSYS").without_one(*controls)
      end
    end

    # An unknown number ends nothing: the caller is told, and falls back.
    it "numbers beyond the table are not there" do
      beyond = [KernelCalls::NUMBERS.values.max + 1, 500, 511, 600, 1023, 100_000, 0x3fff_ffff, 0x7fff_ffff]

      expect(jailed { beyond.map { |number| kernel(number, 0, 0, 0) } }).to all(eq("ENOSYS"))
    end

    it "numbers of the x32 interface do not pass", if: KernelCalls::ARCH == "x86_64" do
      x32 = 0x4000_0000 + KernelCalls::NUMBERS[:getpid]

      expect { kernel(x32) }.to be_answered("ENOSYS").without_one(1..)
    end

    it "numbers of the x32 interface are not there, whatever they would do", if: KernelCalls::ARCH == "x86_64" do
      names = %i[kill socket execve fork ptrace]
      numbers = names.map { |name| 0x4000_0000 + KernelCalls::NUMBERS[name] } + (512..547).flat_map { [_1, _1 | (1 << 30)] }

      expect(jailed { numbers.map { |number| kernel(number, 0, 0, 0) } }.uniq).to eq(["ENOSYS"])
    end

    # Machine code in a page of its own: eax = 20, getpid of the 32-bit interface.
    by_interrupt = <<~RUBY
      require "fiddle"
      code = ["b814000000cd80c3"].pack("H*")
      types = [Fiddle::TYPE_VOIDP, Fiddle::TYPE_SIZE_T, *[Fiddle::TYPE_INT] * 4]
      map = Fiddle::Function.new(Fiddle.dlopen(nil)["mmap"], types, Fiddle::TYPE_VOIDP)
      page = Fiddle::Pointer.new(map.call(nil, 4096, 7, 0x22, -1, 0))
      page[0, code.bytesize] = code
      act = -> { Fiddle::Function.new(page, [], Fiddle::TYPE_INT).call == Process.pid }
    RUBY

    it "int 0x80 ends the process", if: KernelCalls::ARCH == "x86_64" do
      skip "this kernel has no 32-bit interface" unless fresh_ruby("#{by_interrupt}\nexit act.call").success?
      ruby = fresh_ruby(<<~RUBY)
        #{by_interrupt}
        begin
          AgentJail.run(&act)
        rescue AgentJail::CrashError => e
          puts e.signal
        end
      RUBY

      expect(ruby.stdout).to eq("SYS\n")
    end
  end
end
