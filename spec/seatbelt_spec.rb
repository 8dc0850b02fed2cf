# frozen_string_literal: true

require "spec_helper"

# The profile for macOS, as text: read by a reader that refuses what the system's compiler would, and asked what it lets
# a process do. What the kernel of a Mac makes of it cannot be seen here.
RSpec.describe "the Seatbelt profile", if: Seatbelt.compiler? do
  around do |example|
    # As the kernel knows it: on macOS the directory for temporary files lies behind a symlink.
    Dir.mktmpdir { |directory| example.run(@root = File.realpath(directory)) }
  end

  def root(*names) = File.join(@root, *names)

  def directory(*names) = root(*names).tap { |path| FileUtils.mkdir_p(path) }

  def file(*names)
    directory(*names[..-2])
    root(*names).tap { |path| File.write(path, "") }
  end

  def text(...) = Seatbelt.profile(...)

  def profile(...) = Sbpl::Profile.new(text(...))

  read = Seatbelt::READ
  write = Seatbelt::READ | Seatbelt::WRITE
  execute = Seatbelt::READ | Seatbelt::EXECUTE

  describe "its language" do
    option_sets = [true, false].repeated_permutation(2).map { |values| %i[network processes].zip(values).to_h }

    option_sets.each do |options|
      it "holds no word that the system might not know, with #{options.select { |_, open| open }.keys}" do
        text = text([[directory("rw"), write], [directory("ro"), read], [file("bin", "tool"), execute]], **options)

        expect(Sbpl::Profile.new(text).rules.size - Sbpl::Profile.new(text, young: []).rules.size).to be >= 4
        expect(text).not_to include("file-read-write")
        expect(text).to be_ascii_only
      end
    end

    it "is read by a reader that would refuse a profile with such a word" do
      bad = ["(allow file-read-write* (subpath \"/x\"))", "(allow file-read* (subtree \"/x\"))", "(allow file-link)",
             "(allow signal (target parent))", "(allow file-read* (subpath \"/x/../etc\"))", "(allow file-read* (subpath \"/x/\"))",
             "(allow sysctl-read (literal \"/x\"))", "(allow default)", "(allow file-read* (subpath /x))", "(allow)",
             "(permit file-read*)", "(allow file-read* (subpath \"/x\" \"/y\"))", "(allow file-read* (subpath \"/\\q\"))",
             "(allow file-read* (subpath \"/a\nb\"))", "(allow file-read* (subpath \"/x\")", "(allow file-read*))",
             "(if (defined? 'file-read*) (allow file-read*))", "(import \"system.sb\")"]
      told = bad.to_h do |rule|
        Sbpl::Profile.new("(version 1)(deny default)#{rule}")
        [rule, "read"]
      rescue Sbpl::Invalid
        [rule, "refused"]
      end

      expect(told.values.uniq).to eq(["refused"])
      expect { Sbpl::Profile.new("(version 1)(allow default)") }.to raise_error(Sbpl::Invalid)
      expect { Sbpl::Profile.new("(deny default)") }.to raise_error(Sbpl::Invalid)
    end

    it "is answered by the last rule that matches, whichever way it goes" do
      rules = ["(allow file-read* (subpath \"/x\"))", "(deny file-read-data (literal \"/x/y\"))"]
      told = [rules, rules.reverse].map do |order|
        profile = Sbpl::Profile.new("(version 1)(deny default)#{order.join}")
        %w[/x/z /x/y].map { |path| profile.allows?("file-read-data", path: path) }
      end

      expect(told).to eq([[true, false], [true, true]])
    end
  end

  describe "paths" do
    it "lets what is granted be read and written, what is granted for reading be read, and nothing else" do
      rw = directory("rw")
      ro = directory("ro")
      other = directory("other")
      may = profile([[rw, write], [ro, read]])
      told = [rw, ro, other].map do |path|
        %w[file-read-data file-write-data file-write-create file-write-unlink].map do |operation|
          may.reaches?(operation, "#{path}/x")
        end
      end

      expect(told).to eq([[true] * 4, [true, false, false, false], [false] * 4])
    end

    it "takes a grant for what it names: neither a sibling that begins alike, nor what lies above" do
      granted = directory("app")
      directory("app-secrets")
      directory("app.old")
      may = profile([[granted, write]])

      expect(%w[app/x app].map { |name| may.reaches?("file-read-data", root(name)) }).to eq([true, true])
      expect(%w[app-secrets/x app.old/x ap .].map { |name| may.reaches?("file-read-data", root(name)) }).to eq([false] * 4)
      expect(may.allows?("file-read-metadata", path: @root)).to be(true)
    end

    it "grants a single file alone" do
      granted = file("a", "one")
      file("a", "other")
      may = profile([[granted, write]])

      expect(%w[a/one a/other a a/one/x].map { |name| may.reaches?("file-write-data", root(name)) }).to eq([true, false, false, false])
    end

    it "resolves symlinks, so that the grant holds by every name" do
      directory("private", "tmp", "x")
      File.symlink("private/tmp", root("tmp"))
      may = profile([[root("tmp", "x"), write]])
      without = profile([[root("private", "tmp", "x"), write]])

      expect(text([[root("tmp", "x"), write]])).to include("(subpath \"#{root("private", "tmp", "x")}\")")
      expect(%w[tmp private/tmp].map { |name| may.reaches?("file-write-create", root(name, "x", "y")) }).to eq([true, true])
      # the symlink itself has to be looked at, and only that
      expect(without.reaches?("file-write-create", root("tmp", "x", "y"))).to be(false)
      expect(may.allows?("file-read-data", path: root("tmp"))).to be(false)
    end

    it "resolves a chain of symlinks, relative and absolute ones, and one with dots" do
      directory("real", "deep")
      File.symlink("../c", File.join(directory("a"), "b"))
      File.symlink(root("d"), root("c"))
      File.symlink("./real/../real", root("d"))
      may = profile([[root("a", "b", "deep"), write]])

      expect(may.reaches?("file-write-create", root("a", "b", "deep", "x"))).to be(true)
      expect(may.reaches?("file-write-create", root("real", "x"))).to be(false)
    end

    it "says that a path is not there, or leads round in a circle" do
      File.symlink("loop", root("loop"))

      expect { text([[root("none"), read]]) }.to raise_error(Errno::ENOENT)
      expect { text([[root("loop"), read]]) }.to raise_error(Errno::ELOOP)
      expect { text([["relative", read]]) }.to raise_error(Errno::EINVAL, /absolute/)
    end

    it "grants everything with / and nothing is lost" do
      may = profile([["/", read]])

      expect(%w[/ /etc/passwd].map { |path| may.allows?("file-read-data", path: path) }).to eq([true, true])
      expect(may.allows?("file-write-data", path: "/etc/passwd")).to be(false)
    end

    it "lets the directories above a grant be looked at, not read, whatever the order of the grants" do
      paths = [%w[a b c d], %w[a b e], %w[a], %w[a b c], %w[f b c]].map { |names| directory(*names) }
      paths.permutation.first(24).each do |order|
        may = profile(order.map { |path| [path, read] })
        above = paths.flat_map { |path| Pathname(path).ascend.map(&:to_s) }.uniq

        expect(above.reject { |path| may.allows?("file-read-metadata", path: path) }).to eq([])
        expect(may.allows?("file-read-data", path: @root)).to be(false)
      end
    end

    it "lets the working directory be looked at, and no more" do
      here = directory("work", "here")
      may = profile(see: [here])

      expect(%w[file-read-metadata file-read-data].map { |operation| may.allows?(operation, path: here) }).to eq([true, false])
      expect(profile.allows?("file-read-metadata", path: here)).to be(false)
    end

    it "lets null and zero be written, random be read, and no other device" do
      told = %w[null zero random urandom tty disk0 mem].map do |name|
        %w[file-read-data file-write-data].map { |operation| profile.allows?(operation, path: "/dev/#{name}") }
      end

      expect(told).to eq([[true, true], [true, true], [true, false], [true, false], *[[false, false]] * 3])
    end

    it "lets code be mapped from what may be read, and from what may be written only where programs are run" do
      rw = directory("rw")
      ro = directory("ro")
      closed = profile([[rw, write], [ro, read]])
      open = profile([[rw, write | execute], [ro, execute]], processes: true)
      told = [closed, open].map do |may|
        [rw, ro, @root].map { |path| %w[file-map-executable process-exec].map { |operation| may.reaches?(operation, "#{path}/x") } }
      end

      expect(told).to eq([[[false, false], [true, false], [false, false]], [[true, true], [true, true], [false, false]]])
    end

    it "lets a device that was granted for writing be spoken with" do
      told = [["/dev/null", write], ["/dev/null", read], [directory("rw"), write]].map do |path, access|
        profile([[path, access]]).allows?("file-ioctl", path: path)
      end

      expect(told).to eq([true, false, false])
    end
  end

  describe "hostile names" do
    # Each would end the string, the filter or the rule, and begin another, if it were written as it is.
    names = {
      "a quote" => 'a") (subpath "/',
      "a quote behind a backslash" => 'a\\") (subpath "/',
      "a backslash at the end" => "a\\",
      "two backslashes" => "a\\\\",
      "parentheses" => "a)(allow default)(",
      "semicolons" => "a;(allow default)",
      "a hash" => '#"^/"',
      "a quotation" => "'a `b ,c",
      "blanks" => "  a  b  ",
      "unicode" => "gär ten 日本 🦀",
      "combining marks" => "e\u0301",
      "what another language would put in" => "\#{x} %s $HOME {{x}} \\n",
      "dots" => "...",
      "250 bytes" => "x" * 250
    }

    names.each do |what, name|
      it "holds the grant, and no more, with #{what}" do
        granted = directory(name, "x")
        may = profile([[granted, write]])

        expect(may.reaches?("file-write-create", File.join(granted, "y"))).to be(true)
        expect([@root, root(name), "#{granted}y", "/etc/passwd", root("y")].map { |path| may.allows?("file-read-data", path: path) })
          .to eq([false] * 5)
        expect(may.rules.size).to eq(profile([[directory("plain", "x"), write]]).rules.size)
      end
    end

    ["\n", "\r", "\t", "\e", "\u007f", "\u0001"].each do |character|
      it "refuses #{character.inspect} with words that say so" do
        path = directory("a#{character}b")

        expect { text([[path, read]]) }.to raise_error(Errno::EINVAL, /control character/)
        expect { text([[directory("a#{character}b", "c"), read]]) }.to raise_error(Errno::EINVAL, /control character/)
        expect { text(see: [path]) }.to raise_error(Errno::EINVAL, /control character/)
      end
    end

    it "refuses one that a symlink hides, or leads by" do
      File.symlink(directory("a\nb"), root("link"))
      directory("real")
      File.symlink("real", root("c\nd"))
      File.symlink("c\nd", root("by"))

      expect { text([[root("link"), read]]) }.to raise_error(Errno::EINVAL, /control character/)
      expect { text([[root("c\nd"), read]]) }.to raise_error(Errno::EINVAL, /control character/)
      expect { text([[root("by"), read]]) }.to raise_error(Errno::EINVAL)
    end

    it "refuses a symlink where a directory itself is meant, as somebody may have put one in its place" do
      File.symlink(directory("secret"), root("private"))

      expect { text([[root("private"), write | Seatbelt::ITSELF]]) }.to raise_error(Errno::ENOTDIR)
      expect { text([[file("plain"), write | Seatbelt::ITSELF]]) }.to raise_error(Errno::ENOTDIR)
      [[root("private"), write], [directory("secret"), write | Seatbelt::ITSELF]].each do |grant|
        expect(profile([grant]).allows?("file-write-create", path: root("secret", "x"))).to be(true)
      end
    end

    it "says that it is too much, instead of leaving a rule out" do
      path = directory("x" * 200)
      fits = text([[path, read]] * 500)

      expect(Sbpl::Profile.new(fits).rules.size).to be > 500
      expect { text([[path, read]] * 5000) }.to raise_error(Errno::E2BIG)
    end
  end

  describe "what a hostile block would try" do
    # Each act refused, beside what is permitted: the same act where it is granted, or the option that opens it.
    def expect_refused(operation, closed, open, **fact)
      expect([closed.allows?(operation, **fact), open.allows?(operation, **fact)]).to eq([false, true]), "#{operation} #{fact}"
    end

    it "reads no secrets in the home directory, and leaves nothing there that runs later" do
      home = directory("Users", "me")
      app = directory("Users", "me", "app")
      may = profile([[app, write]])
      all = profile([[home, write]])

      [%w[.ssh id_ed25519], %w[.aws credentials], %w[Library Keychains login.keychain-db], %w[.zshrc]].each do |names|
        expect_refused("file-read-data", may, all, path: File.join(home, *names))
      end
      [%w[Library LaunchAgents evil.plist], %w[.zshrc], %w[.ssh authorized_keys]].each do |names|
        expect_refused("file-write-create", may, all, path: File.join(home, *names))
      end
      expect(may.allows?("file-write-create", path: File.join(app, "x"))).to be(true)
    end

    it "reads no account, no host's configuration, and no other's temporary files" do
      paths = %w[/private/etc/passwd /private/etc/master.passwd /private/var/db/dslocal/nodes/Default/users/root.plist
                 /private/tmp/other /private/var/folders/zz/other /Library/Preferences/x.plist /Volumes/other/x]
      all = profile([["/", read]])

      paths.each { |path| expect_refused("file-read-data", profile, all, path: path) }
    end

    it "follows no symlink out of what was granted" do
      secret = file("secret", "key")
      granted = directory("granted")
      File.symlink(secret, root("granted", "link"))
      File.symlink("../secret", root("granted", "up"))
      may = profile([[granted, write]])
      twin = profile([[granted, write], [root("secret"), read]])

      [%w[link], %w[up key], %w[.. secret key]].each do |names|
        expect([may, twin].map { |which| which.reaches?("file-read-data", File.join(granted, *names)) }).to eq([false, true])
      end
      expect(may.reaches?("file-read-data", file("granted", "own"))).to be(true)
    end

    it "puts no symlink in the place of what was granted, for the parent to follow" do
      granted = directory("granted")
      single = file("single")
      may = profile([[granted, write], [single, write]])

      [granted, single].product(%w[file-write-unlink file-write-create]).each do |path, operation|
        expect(may.allows?(operation, path: path)).to be(false)
      end
      expect(may.allows?("file-write-unlink", path: File.join(granted, "x"))).to be(true)
      expect(may.allows?("file-write-data", path: single)).to be(true)
    end

    it "changes no mode, owner, time, flag, attribute or access list, in what was granted neither" do
      granted = directory("granted")
      may = profile([[granted, write]], processes: true, network: true)
      told = %w[mode owner times flags setugid xattr acl].map { |what| may.allows?("file-write-#{what}", path: "#{granted}/x") }

      expect(told.uniq).to eq([false])
      expect(may.allows?("file-write-data", path: "#{granted}/x")).to be(true)
    end

    it "gives no file another name, makes no device, mounts nothing" do
      may = profile([[directory("granted"), write]], processes: true)
      told = %w[file-link file-clone file-mknod file-mount file-chroot file-revoke].map do |operation|
        may.allows?(operation, path: root("granted", "x"))
      end

      expect(told.uniq).to eq([false])
      expect(may.allows?("file-write-create", path: root("granted", "x"))).to be(true)
    end

    it "has no socket but a pair, and any when that is asked for" do
      told = [profile, profile(network: true)].map do |may|
        %w[SYS_socket SYS_socketpair].map { |number| may.allows?("syscall-unix", number: number) }
      end

      expect(told).to eq([[false, true], [true, true]])
    end

    it "has no network, and all of it when that is asked for" do
      %w[network-outbound network-inbound network-bind system-socket socket-ioctl].each do |operation|
        expect_refused(operation, profile(processes: true), profile(network: true))
      end
    end

    it "starts no process, and no program that was not granted" do
      granted = file("bin", "tool")
      open = profile([[granted, execute]], processes: true)

      expect_refused("process-fork", profile([[granted, read]], network: true), open)
      expect_refused("process-exec", profile([[granted, read]], network: true), open, path: granted)
      expect(open.allows?("process-exec", path: "/bin/sh")).to be(false)
    end

    it "signals itself, with programs its own group, and nobody else" do
      told = [profile, profile(processes: true)].map do |may|
        %w[self pgrp others].map { |target| may.allows?("signal", target: target) }
      end

      expect(told).to eq([[true, false, false], [true, true, false]])
    end

    it "leaves its process group by no way, posix_spawn's flags included" do
      [profile, profile(processes: true, network: true)].each do |may|
        told = %w[SYS_setsid SYS_setpgid SYS_posix_spawn SYS_write SYS_fork].map do |number|
          may.allows?("syscall-unix", number: number)
        end

        expect(told).to eq([false, false, false, true, true])
      end
    end

    it "looks at no other process, by whatever way" do
      open = profile(processes: true, network: true)
      told = %w[kern.procargs2 kern.proc.all kern.proc.pid.1 kern.procargs kern.boottime].map do |name|
        open.allows?("sysctl-read", name: name)
      end

      expect(told.uniq).to eq([false])
      expect(%w[self others].map { |target| open.allows?("process-info-pidinfo", target: target) }).to eq([true, false])
      expect(%w[mach-priv-task-port mach-task-name system-sched].map { |operation| open.allows?(operation) }.uniq).to eq([false])
      expect(%w[hw.ncpu hw.memsize kern.osrelease machdep.cpu.brand_string].map { |name| profile.allows?("sysctl-read", name: name) }.uniq)
        .to eq([true])
      expect(open.allows?("sysctl-write", name: "hw.ncpu")).to be(false)
    end

    it "speaks with no service but the one that knows users' names" do
      open = profile(processes: true, network: true)
      told = %w[com.apple.pasteboard.1 com.apple.coreservices.launchservicesd com.apple.SecurityServer com.apple.windowserver.active
                com.apple.tccd com.apple.xpc.smd com.apple.cfprefsd.agent com.apple.system.opendirectoryd.libinfo.evil]
             .map { |name| open.allows?("mach-lookup", name: name) }

      expect(told.uniq).to eq([false])
      expect(profile.allows?("mach-lookup", name: "com.apple.system.opendirectoryd.libinfo")).to be(true)
      expect_refused("mach-lookup", profile, open, name: "com.apple.SystemConfiguration.DNSConfiguration")
    end

    it "has none of the system's other doors, with all options neither" do
      open = profile([["/", write | execute]], processes: true, network: true)
      told = %w[appleevent-send iokit-open iokit-set-properties ipc-posix-shm ipc-posix-sem ipc-sysv-shm ipc-sysv-msg
                mach-register mach-bootstrap job-creation lsopen user-preference-write system-kext-load system-reboot
                system-set-time nvram-set distributed-notification-post authorization-right-obtain device-camera pseudo-tty]
             .map { |operation| open.allows?(operation, path: "/x", name: "x") }

      expect(told.uniq).to eq([false])
    end
  end

  describe "its application" do
    it "hands the text over as it is, with no flag" do
      record = root("record")
      text = text([[directory("rw"), write]])

      expect(Seatbelt.apply("AGENT_JAIL_SANDBOX_RECORD" => record)).to be_nil
      expect(File.read(record)).to eq("0\n#{text}")
    end

    it "says why, and in words of its own where the process is in a sandbox already" do
      text
      told = ["1:Operation not permitted", "22:unbound variable: file-read-write*", "12"].map do |how|
        Seatbelt.apply("AGENT_JAIL_SANDBOX_FAILS" => how)
      end

      expect(told).to match([["sandbox_init", /in a sandbox already.*: Operation not permitted/, Errno::EPERM::Errno],
                             ["sandbox_init", "unbound variable: file-read-write*", Errno::EINVAL::Errno],
                             ["sandbox_init", "no reason was given", Errno::ENOMEM::Errno]])
    end
  end
end
