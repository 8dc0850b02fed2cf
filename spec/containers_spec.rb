# frozen_string_literal: true

# What containers take away, taken away from a process here (spec/support/kernel.c): Docker's default profile and
# capabilities, the writable root, processes, memory. The README's table of containers says what is seen here.
RSpec.describe AgentJail, "in a container", :bare, if: AgentJail::Platform.fork_supported? do
  whole = AgentJail::Platform.enforcement

  # What Docker's default profile does not let through to a container without further capabilities, of the calls that
  # there are. CAP_SYS_CHROOT is among the default ones. Those that the profile does not know yet are ENOSYS.
  refused = %i[
    syslog uselib ustat sysfs vhangup pivot_root _sysctl acct settimeofday mount umount2 swapon swapoff reboot sethostname
    setdomainname iopl ioperm create_module init_module delete_module get_kernel_syms query_module quotactl nfsservctl
    getpmsg putpmsg afs_syscall tuxcall security lookup_dcookie clock_settime vserver mbind set_mempolicy get_mempolicy
    kexec_load add_key request_key keyctl migrate_pages unshare move_pages perf_event_open fanotify_init
    name_to_handle_at open_by_handle_at setns kcmp finit_module kexec_file_load bpf userfaultfd pkey_mprotect pkey_alloc
    pkey_free uretprobe uprobe io_uring_setup io_uring_enter io_uring_register open_tree move_mount fsopen fsconfig
    fsmount fspick pidfd_getfd process_madvise mount_setattr quotactl_fd
  ]
  unknown = %i[
    clone3 set_mempolicy_home_node cachestat fchmodat2 map_shadow_stack futex_wake futex_wait futex_requeue statmount
    listmount lsm_get_self_attr lsm_set_self_attr lsm_list_modules mseal setxattrat getxattrat listxattrat removexattrat
    open_tree_attr file_getattr file_setattr listns
  ]
  new_namespaces = 0x7e020000
  vsock = 40
  profile = Kernels.refusing(:EPERM, *refused) + Kernels.refusing(:ENOSYS, *unknown) +
            Kernels.refusing_bits(:EPERM, :clone, new_namespaces) + Kernels.refusing_option(:EPERM, :socket, vsock)
  # chown, dac_override, fowner, fsetid, kill, setgid, setuid, setpcap, net_bind_service, net_raw, sys_chroot, mknod,
  # audit_write, setfcap
  capabilities = [0, 1, 3, 4, 5, 6, 7, 8, 10, 13, 18, 27, 29, 31].sum { |bit| 1 << bit }
  default = [*profile, format("capabilities=%x", capabilities)]
  root = Process.euid.zero?
  reason = "needs root, who can take capabilities away"

  told = {}
  define_method(:in_container) do |words, user = nil|
    skip "no compiler here" unless Kernels.library
    skip reason unless root || words == profile
    told[[words, user]] ||= on_another_kernel(words, Kernels::ACTS, as_user: user)
  end

  {
    "with Docker's default profile" => [profile, {}],
    "with Docker's default profile and capabilities, as root" => [default, {}],
    "with Docker's default profile, as an ordinary user" => [profile, {}, FreshRuby::NOBODY],
    "as root without any capability" => [[*profile, "capabilities=0"], {}],
    "with a profile that knows neither Landlock nor process descriptors" =>
      [default + Kernels.without_landlock(:EPERM) + Kernels.refusing(:EPERM, :pidfd_open, :pidfd_send_signal),
       { landlock: false, signals: false, pidfd: false }]
  }.each do |title, (words, changes, user)|
    context title do
      has = { **whole, **changes }

      it "holds what Platform.enforcement tells, and refuses nothing else" do
        ruby = in_container(words, root ? user : nil)
        expect(ruby).to be_success, ruby.stderr
        tells = JSON.parse(ruby.stdout)
        acts = tells["acts"]

        expect(tells["enforcement"].transform_keys(&:to_sym)).to eq(has)
        expect(acts.transform_values { |(jailed, _)| jailed != "done" })
          .to eq(Kernels.refusals(acts, { **has, root: root && user.nil? })), acts.inspect
        expect(tells["ends"]).to eq(["AgentJail::TimeoutError", true, false])
      end

      it "says once what is not confined, and under :raise runs nothing" do
        ruby = in_container(words, root ? user : nil)
        tells = JSON.parse(ruby.stdout)

        expect(tells["warn"]).to eq(%w[run run])
        if has[:landlock]
          expect([tells["raise"], ruby.stderr]).to eq([%w[run run], ""])
        else
          expect(tells["raise"].map(&:first)).to eq(["AgentJail::UnsupportedPlatformError"] * 2)
          expect(ruby.stderr).to match(/\AAgentJail: this kernel has no Landlock[^\n]*\n\z/)
        end
      end
    end
  end

  # The profile as it is replayed is one: what it refuses is refused, and what it lets through is not.
  it "would have what the profile refuses without it" do
    skip "no compiler here" unless Kernels.library
    program = <<~RUBY
      p(ARGV.map do |number|
        syscall(number.to_i, -1, 0, 0)
      rescue SystemCallError => e
        e.class
      end)
    RUBY
    numbers = %i[setns pidfd_getfd landlock_create_ruleset].map { |name| KernelCalls::NUMBERS.fetch(name) }
    answers = [fresh_ruby(program, *numbers), on_another_kernel(profile, program, *numbers)].map(&:stdout)

    expect(answers).to eq(["[Errno::EBADF, Errno::EBADF, Errno::EINVAL]\n", "[Errno::EPERM, Errno::EPERM, Errno::EINVAL]\n"])
  end

  context "with a root file system that cannot be written" do
    program = <<~'RUBY'
      here = "/dev/shm/agent_jail_#{$$}"
      outcomes = [{}, { tmpdir: true }, { fs_allow: "/dev/shm" }].map do |options|
        AgentJail.run(**options) { options[:fs_allow] ? [File.write(here, "x"), File.unlink(here)] : 1 }
      rescue SystemCallError, ArgumentError => e
        e.class
      end
      begin
        File.write("/agent_jail_probe", "x")
      rescue SystemCallError => e
        outcomes << e.class
      end
      ENV["TMPDIR"] = "/dev/shm"
      outcomes << AgentJail.run(tmpdir: true) { File.write(File.join(Dir.tmpdir, "file"), "x") }
      p outcomes
    RUBY

    it "runs; a private directory needs some place that can be written" do
      skip "no compiler here" unless Kernels.library
      ruby = on_another_kernel(["readonly"], program)

      expect(ruby).to have_attributes(stderr: "")
      # ArgumentError by Ruby's own words where Dir.tmpdir sees that there is none
      expect(ruby.stdout).to match(/\A\[1, (Errno::EROFS|ArgumentError), \[1, 1\], Errno::EROFS, 1\]\n\z/)
    end
  end

  # A control group of this kind for one example; its directory. nil: none can be made here.
  def with_group(controller, limits)
    path = "/sys/fs/cgroup/#{controller}/agent_jail_#{Process.pid}"
    path = "/sys/fs/cgroup/agent_jail_#{Process.pid}" unless File.directory?(File.dirname(path))
    begin
      Dir.mkdir(path)
      limits.find { |name, value| File.exist?("#{path}/#{name}") && File.write("#{path}/#{name}", value.to_s) } ||
        raise(Errno::ENOENT, "no #{controller} controller")
    rescue SystemCallError => e
      skip "no control group can be made here: #{e.message}"
    end
    yield path
  ensure
    200.times { break if File.foreach("#{path}/cgroup.procs").none? || sleep(0.05).nil? } if File.directory?(path)
    Dir.rmdir(path) if File.directory?(path)
  end

  context "with a limit to its memory that is lower than memory_mb" do
    program = <<~RUBY
      AgentJail.run { 1 }
      told = begin
        AgentJail.run(timeout: 60, memory_mb: 1024) { ("x" * (400 << 20)).size }
      rescue AgentJail::Error => e
        [e.class, e.respond_to?(:signal) && e.signal, e.message[/by the kernel for want of memory/]]
      end
      p told, AgentJail.run(timeout: 60) { "next" }
    RUBY

    it "says that the block's process was killed; the parent goes on" do
      skip "no compiler here" unless Kernels.library
      with_group("memory", "memory.limit_in_bytes" => 128 << 20, "memory.max" => 128 << 20) do |path|
        ruby = on_another_kernel(["cgroup=#{path}"], program)

        expect(ruby).to have_attributes(
          stdout: "[AgentJail::CrashError, \"KILL\", \"by the kernel for want of memory\"]\n\"next\"\n", stderr: ""
        )
      end
    end

    it "has the value without it" do
      expect(fresh_ruby(program).stdout).to eq("#{400 << 20}\n\"next\"\n")
    end
  end

  context "with a limit to its processes" do
    # Counted with the parent's own.
    most = 24

    # Who is in the container beside this process, and a wait for those of an earlier run who are on their way out.
    company = <<~'RUBY'
      def others = File.read("#{ARGV[0]}/pids.current").to_i - Dir.children("/proc/self/task").size
      def left_alone = 200.times { others.zero? ? break : sleep(0.05) }
    RUBY

    it "holds a block that starts them without end, which is gone afterwards" do
      skip "no compiler here" unless Kernels.library
      with_group("pids", "pids.max" => most) do |path|
        ruby = on_another_kernel(["cgroup=#{path}"], company + <<~RUBY, path)
          AgentJail.run { 1 }
          outcomes = [{ processes: true }, {}].map do |options|
            AgentJail.run(timeout: 2, **options) { options[:processes] ? loop { fork { sleep } } : Array.new(100) { Thread.new { sleep } }.size }
          rescue AgentJail::Error => e
            [e.class, (e.original_class if e.respond_to?(:original_class))]
          end
          left_alone
          p outcomes, others, AgentJail.run { "next" }
        RUBY

        expect(ruby.stdout).to eq("[[AgentJail::TimeoutError, nil], [AgentJail::SandboxError, \"ThreadError\"]]\n0\n\"next\"\n"),
                               ruby.inspect
      end
    end

    # A process that may have no others calls a block that forks, and then, with more of them, runs another.
    define_method(:at_the_limit) do |path, call, **options|
      on_another_kernel(["cgroup=#{path}"], company + <<~RUBY, path, most, **options)
        require "timeout"
        AgentJail.run { 1 }
        held = Thread.new { sleep }
        Timeout.timeout(60) { nil } # its thread
        left_alone
        current = -> { sleep(0.02) && File.read("\#{ARGV[0]}/pids.current") }
        nil until Array.new(10) { current.call }.uniq.one? # a thread that is about to end would leave its place
        File.write("\#{ARGV[0]}/pids.max", current.call)
        begin
          Timeout.timeout(2.5) { #{call} }
        rescue Timeout::Error, Errno::EAGAIN # as that Ruby's fork has it
          puts "ended"
        end
        File.write("\#{ARGV[0]}/pids.max", ARGV[1])
        p AgentJail.run { "next" }
      RUBY
    end

    define_method(:fork_comes_back?) do |path|
      at_the_limit(path, "fork { exit! }", timeout: 30).stdout.start_with?("ended\n")
    rescue RuntimeError # killed
      false
    ensure
      File.write(File.join(path, "pids.max"), most)
    end

    it "waits for a free one before it runs, as fork does, until the caller's own Timeout" do
      skip "no compiler here" unless Kernels.library
      with_group("pids", "pids.max" => most) do |path|
        skip "a plain fork of this Ruby never comes back then" unless fork_comes_back?(path)
        ruby = at_the_limit(path, "AgentJail.run(timeout: 1) { 1 }")

        expect(ruby.stdout).to eq("ended\n\"next\"\n"), ruby.inspect
      end
    end
  end
end
