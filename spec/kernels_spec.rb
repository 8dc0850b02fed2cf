# frozen_string_literal: true

# Each kernel that the gem may meet: what still holds there, and that no more is promised. The acts are done for real, on
# the running kernel as kernel.c cuts it down.
RSpec.describe AgentJail, "on a kernel", :bare, if: AgentJail::Platform.fork_supported? do
  old = %i[pidfd_open pidfd_send_signal pidfd_getfd clone3 close_range openat2 faccessat2 io_uring_setup]
  whole = AgentJail::Platform.enforcement
  abi = ->(number) { [["abi=#{number}"], { landlock: number, signals: number >= 6 }] }
  no_landlock = { landlock: false, signals: false }

  kernels = {
    "such as this one" => [[], {}],
    **(1..10).to_h { |number| ["with Landlock's ABI #{number}", abi[number]] },
    "that says ABI 6 and has no scope of signals" => [%w[abi=6 unscoped], { landlock: 6, signals: false }],
    "without Landlock" => [Kernels.without_landlock(:ENOSYS), no_landlock],
    "whose Landlock was not switched on" => [Kernels.without_landlock(:EOPNOTSUPP), no_landlock],
    "whose container refuses Landlock" => [Kernels.without_landlock(:EPERM), no_landlock],
    "without seccomp's filters" => [Kernels.without_seccomp(:EINVAL), { seccomp: false }],
    "without seccomp" => [Kernels.without_seccomp(:ENOSYS), { seccomp: false }],
    "whose container refuses seccomp" => [Kernels.without_seccomp(:EPERM), { seccomp: false }],
    "without seccomp, with ABI 1" => [["abi=1", *Kernels.without_seccomp(:ENOSYS)],
                                      { landlock: 1, signals: false, seccomp: false }],
    "without seccomp, with ABI 3" => [["abi=3", *Kernels.without_seccomp(:ENOSYS)],
                                      { landlock: 3, signals: false, seccomp: false }],
    "without Landlock and seccomp" => [Kernels.without_landlock(:ENOSYS) + Kernels.without_seccomp(:ENOSYS),
                                       { **no_landlock, seccomp: false }],
    "without process descriptors" => [Kernels.refusing(:ENOSYS, :pidfd_open, :pidfd_send_signal), { pidfd: false }],
    "whose container refuses process descriptors" =>
      [Kernels.refusing(:EPERM, :pidfd_open, :pidfd_send_signal), { pidfd: false }],
    "whose container refuses signals by process descriptors" => [Kernels.refusing(:EPERM, :pidfd_send_signal), {}],
    "without close_range" => [Kernels.refusing(:ENOSYS, :close_range), {}],
    "as old as 4.18" => [Kernels.without_landlock(:ENOSYS) + Kernels.refusing(:ENOSYS, *old),
                         { **no_landlock, pidfd: false }]
  }
  # Where no jail can be closed, and so no block is run: the mechanism that is missing, and the call that says so.
  impossible = {
    "whose /proc is not mounted" => [["bare=/proc"], :address_space, "/proc/self/statm"],
    "whose /dev is not mounted" => [["bare=/dev"], :tools, "/dev/null"],
    "without memfd_create" => [Kernels.refusing(:ENOSYS, :memfd_create), :tools, "memfd_create"],
    "whose container refuses capset" => [Kernels.refusing(:EPERM, :capset), :capabilities, "capset"]
  }

  # What the acts came to there: one process, asked once.
  told = {}
  define_method(:on_kernel) do |words, user = nil|
    skip "no compiler here" if words.any? && !Kernels.library
    skip "no Landlock here to cut down" if words.any?(/abi/) && !whole[:landlock]
    skip "no scope of signals here to be told of" if words.any?(/abi=([6-9]|10)/) && !whole[:signals]
    ruby = told[[words, user]] ||= on_another_kernel(words, Kernels::ACTS, as_user: user)

    expect(ruby).to be_success, ruby.stderr
    [JSON.parse(ruby.stdout), ruby.stderr]
  end

  def lacks(*names)
    /\AAgentJail: this kernel has no #{names.map { |name| Regexp.escape(AgentJail::Platform::MECHANISMS[name]) }.join(", no ")}[^\n]*\n\z/
  end

  other_for_root = ["such as this one", "with Landlock's ABI 1", "without Landlock", "without seccomp"]
  users = { "" => nil, **(Process.euid.zero? ? { ", for an ordinary user" => FreshRuby::NOBODY } : {}) }

  kernels.to_a.product(users.to_a).each do |(title, (words, changes)), (whose, user)|
    next if user && !other_for_root.include?(title)

    context "#{title}#{whose}" do
      root = user.nil? && Process.euid.zero?
      has = { **whole, **changes }
      missing = %i[landlock seccomp].reject { |name| has[name] }

      it "tells what is enforced" do
        tells, = on_kernel(words, user)

        expect(tells["enforcement"].transform_keys(&:to_sym)).to eq(has)
        expect(tells["report"].lines.drop(1).map { |line| line[/  (\S.*)$/, 1][/NO|yes|ABI \d+/] })
          .to eq(has.values.map { |value| value.is_a?(Integer) ? "ABI #{value}" : { true => "yes", false => "NO" }[value] })
      end

      it "refuses what that says, and nothing else" do
        tells, = on_kernel(words, user)
        acts = tells["acts"]

        expect(acts.reject { |name, (_, without)| without == "done" || name.include?("more memory") }).to be_empty
        expect(acts.transform_values { |(jailed, _)| jailed != "done" }).to eq(Kernels.refusals(acts, { **has, root: root })), acts.inspect
      end

      it "ends on time, and leaves nothing behind" do
        tells, = on_kernel(words, user)

        expect(tells["ends"]).to eq(["AgentJail::TimeoutError", true, false])
      end

      if missing.empty?
        it "runs under any on_unsupported, and says nothing" do
          tells, stderr = on_kernel(words, user)

          expect([tells.values_at("ignore", "raise", "warn").flatten.uniq, stderr]).to eq([["run"], ""])
        end
      else
        it "runs under :ignore and says nothing, under :warn and says once what is not confined, under :raise not at all" do
          tells, stderr = on_kernel(words, user)

          expect(tells.values_at("ignore", "warn")).to all(eq(%w[run run]))
          expect(tells["raise"].map(&:first)).to eq(["AgentJail::UnsupportedPlatformError"] * 2)
          expect(stderr).to match(lacks(*missing))
        end
      end
    end
  end

  impossible.each do |title, (words, mechanism, call)|
    context title do
      it "tells that no block is run" do
        tells, = on_kernel(words)

        expect(tells["enforcement"]).to include(mechanism.to_s => false)
        expect(tells["report"]).to match(/#{Regexp.escape(AgentJail::Platform::MECHANISMS[mechanism])} +NO: no block is run$/)
      end

      it "runs no block, whatever on_unsupported is, and names the call" do
        tells, stderr = on_kernel(words)

        expect(tells.values_at("ignore", "warn").flatten(1))
          .to all(match(["AgentJail::SetupError", /did not run.*#{Regexp.escape(call)}/]))
        expect(tells["raise"].map(&:first)).to eq(["AgentJail::UnsupportedPlatformError"] * 2)
        expect(stderr).to match(lacks(*(:landlock unless whole[:landlock]), mechanism))
      end
    end
  end
end
