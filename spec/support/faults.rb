# frozen_string_literal: true

require "json"

require_relative "fresh_ruby"
require_relative "suite_directory"

# Makes the calls of the extension fail, one at a time, without the kernel's help: a library loaded before libc, built
# by the compiler that built the extension. It lets every call through but the one that it was told to fail.
module Faults
  # Functions by how they say that they failed.
  BY_MINUS_ONE = %w[pipe2 memfd_create open openat fcntl close dup2 dup3 read pread write pwrite poll ppoll wait4 waitpid waitid
                    kill setpgid prctl getppid getrlimit setrlimit fchmod ftruncate sigaction sigprocmask signal mmap mremap mprotect
                    fstat stat ioctl syscall fork clock_gettime].freeze
  BY_NULL = %w[realloc fdopendir].freeze
  BY_NUMBER = %w[pthread_create pthread_attr_init pthread_attr_setdetachstate pthread_attr_setstacksize pthread_sigmask
                 clock_getcpuclockid].freeze

  # Integers and pointers go into functions and come back in registers, whatever their types are.
  SOURCE = <<~C.freeze
    #define _GNU_SOURCE
    #include <dlfcn.h>
    #include <errno.h>
    #include <string.h>

    #define EVERY_CALL long a, long b, long c, long d, long e, long f, long g

    static const char *wanted;
    static long wanted_number, answer;
    static int wanted_error, countdown, in_child, parent, hits;

    static int own_pid(void)
    {
        static int (*real)(void);
        if (real == 0) real = (int (*)(void))dlsym(RTLD_NEXT, "getpid");
        return real();
    }

    void fault_set(const char *name, long number, int error, int nth, int child)
    {
        wanted_number = number; wanted_error = error; countdown = nth; in_child = child; hits = 0;
        parent = own_pid();
        wanted = name;
    }

    int fault_hits(void) { return hits; }

    static int from_extension(void *caller)
    {
        Dl_info info;
        return dladdr(caller, &info) && info.dli_fname && strstr(info.dli_fname, "agent_jail_ext");
    }

    static int fails(const char *name, long number, void *caller)
    {
        if (!wanted || strcmp(wanted, name) != 0) return 0;
        if (wanted_number >= 0 && number != wanted_number) return 0;
        if ((own_pid() != parent) != in_child) return 0;
        if (strcmp(name, "fork") != 0 && !from_extension(caller)) return 0;
        if (countdown == 0 || (countdown > 0 && --countdown > 0)) return 0; /* 0: it has failed; below: each fails */
        hits++;
        return 1;
    }

    /* a descriptor is closed even where close says that it failed */
    #define FAIL_BY(name, minus_one) \\
    long name(EVERY_CALL) { \\
        static long (*real)(EVERY_CALL); \\
        int before = errno; \\
        if (real == 0) real = (long (*)(EVERY_CALL))dlsym(RTLD_NEXT, #name); \\
        if (fails(#name, a, __builtin_return_address(0))) { \\
            if (strcmp(#name, "close") == 0) real(a, b, c, d, e, f, g); \\
            errno = wanted_error; \\
            return minus_one; \\
        } \\
        errno = before; \\
        return real(a, b, c, d, e, f, g); \\
    }
    #{BY_MINUS_ONE.map { |name| "FAIL_BY(#{name}, -1L)" }.join("\n")}
    #{BY_NULL.map { |name| "FAIL_BY(#{name}, 0L)" }.join("\n")}
    #{BY_NUMBER.map { |name| "FAIL_BY(#{name}, wanted_error)" }.join("\n")}
  C

  # Ruby code: the methods of the program that the library is loaded into.
  PRELUDE = FreshRuby::CHILDREN + <<~RUBY
    require "fiddle"
    require "json"
    require "socket"
    LIBC = Fiddle.dlopen(nil)
    SET = Fiddle::Function.new(LIBC["fault_set"], [Fiddle::TYPE_VOIDP, Fiddle::TYPE_LONG, *[Fiddle::TYPE_INT] * 3], Fiddle::TYPE_VOID)
    HITS = Fiddle::Function.new(LIBC["fault_hits"], [], Fiddle::TYPE_INT)

    # Whether the walls stand, as the block sees it. Anything but true is a door.
    WALLS = lambda do
      refused = lambda do |error, &act|
        act.call
        false
      rescue error
        true
      end
      [refused.call(Errno::EACCES) { File.read("/etc/passwd") }, refused.call(Errno::ENETUNREACH) { UDPSocket.new },
       refused.call(Errno::EPERM) { fork { exit! } }, refused.call(NoMemoryError) { "x" * (600 << 20) },
       Process.getrlimit(:CORE).last <= 1, Process.getpgrp == $$].all? || "open"
    end

    # Children that are still there a moment later.
    def left
      200.times { children.empty? ? break : sleep(0.01) }
      children.size
    end

    def descriptors = Dir.children("/proc/self/fd").size

    # What a run ends in when the nth such call of the parent, or of the child, fails: [true or an error's class and
    # words, how often it failed, descriptors and children left, what the next run ends in].
    def failing(name, number, nth, error, child)
      before = descriptors
      outcome = begin
        SET.call(Fiddle::Pointer[name], number, error, nth, child)
        AgentJail.run(timeout: 10, &WALLS)
      rescue Exception => e
        [e.class.name, e.message]
      end
      hits = HITS.call
      SET.call(nil, -1, 0, 0, 0)
      [outcome, hits, descriptors - before, left, AgentJail.run(timeout: 10, &WALLS)]
    end

    # The same in a process of its own, which is ended when it hangs: then the answer is "hang".
    def apart(*arguments)
      reader, writer = IO.pipe
      pid = fork do
        $stderr.reopen(File::NULL, "w")
        writer.puts(failing(*arguments).to_json)
        writer.flush
        exit!
      end
      writer.close
      reader.wait_readable(20) ? JSON.parse(reader.read) : ["hang", 1]
    rescue JSON::ParserError
      ["died", 1]
    ensure
      Process.kill(:KILL, pid)
      Process.wait(pid)
      reader.close
    end
  RUBY

  class << self
    # The built library, or nil where there is no compiler.
    def library
      @library ||= build
    end

    private

    def build
      directory = SuiteDirectory.make("agent_jail_faults")
      source, library = %w[faults.c faults.so].map { |name| File.join(directory, name) }
      File.write(source, SOURCE)
      command = [*RbConfig::CONFIG["CC"].split, "-shared", "-fPIC", "-O1", "-w", "-fno-builtin", "-o", library, source,
                 "-ldl"]
      system(*command, out: File::NULL, err: File::NULL) && library
    end
  end
end
