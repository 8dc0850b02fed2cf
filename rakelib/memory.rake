# frozen_string_literal: true

# Topics that can be named: rake "spec:asan[run paths]".
def topics(arguments, default)
  FileList[arguments.fetch(:topics, default).split.map { |topic| "spec/#{topic}_spec.rb" }]
end

# Blocks whose memory is measured or limited meet the checker's own; and some specs are of a process as it is: with a
# library of their own before all others, with programs that know nothing of a checker, with nothing on stderr.
UNCHECKED = %w[--tag ~exact_memory --tag ~bare].freeze

namespace :spec do
  # The extension under the sanitizers, in a copy of lib/. With clang: the allocator of gcc's (12) is not prepared for
  # fork, so that a child finds a lock held by a thread that it has not, and hangs. And without the stack: Ruby leaves C
  # functions by longjmp, has stacks of its own, and looks for its objects on the stack that it knows. (libFuzzer runs
  # the gate with that as well.)
  sanitized = %w[-g -O1 -fno-omit-frame-pointer -fsanitize=address,undefined -shared-libasan -mllvm -asan-stack=0]
  file "tmp/asan/lib/agent_jail/agent_jail_ext.so" => FileList["ext/agent_jail/*.{c,h,rb}", "lib/**/*.rb"] do |built|
    sh "bin/setup", "sanitizers"
    build_apart("tmp/asan", sanitized, "CC=clang-19", "LDSHARED=clang-19 -shared")
    cp_r "lib", "tmp/asan/lib"
    cp "tmp/asan/agent_jail_ext.so", built.name
  end

  desc "Run specs (of TOPICS, or all) with the extension under AddressSanitizer and UndefinedBehaviorSanitizer"
  task :asan, [:topics] => "tmp/asan/lib/agent_jail/agent_jail_ext.so" do |_, arguments|
    environment = {
      "LD_PRELOAD" => `clang-19 -print-file-name=libclang_rt.asan-#{RbConfig::CONFIG["host_cpu"]}.so`.chomp,
      # Ruby frees nothing when it ends, takes a crash's signals itself and has stacks for them, keeps objects where the
      # sanitizer's own stack would hide them, and is told by NULL that memory is out.
      "ASAN_OPTIONS" => %w[detect_leaks=0 detect_stack_use_after_return=0 allocator_may_return_null=1 use_sigaltstack=0
                           handle_segv=0 handle_sigbus=0 handle_sigfpe=0 handle_sigill=0 handle_abort=0].join(":"),
      "UBSAN_OPTIONS" => "print_stacktrace=1:halt_on_error=1", "AGENT_JAIL_EXAMPLE_TIMEOUT" => "300"
    }
    sh environment, RbConfig.ruby, "-S", "rspec", "-I", "tmp/asan/lib", *UNCHECKED, *topics(arguments, "*")
  end

  file "tmp/replay" => FileList["fuzz/*.c", *GATE_SOURCES, *FILTER_SOURCES, "ext/agent_jail/*.h"] do
    mkdir_p "tmp"
    sh "cc", "-g", "-O1", "-D_GNU_SOURCE", "-I", "ext/agent_jail", "fuzz/replay.c", "fuzz/gate_fuzzer.c",
       *GATE_SOURCES, *FILTER_SOURCES, "-o", "tmp/replay"
  end

  # The jail itself cannot be closed under valgrind (3.19 knows neither Landlock nor seccomp), so what runs is what
  # needs no child: the gate and the filters, without Ruby, and the gate's specs. Ruby looks for objects wherever
  # something could be one, so that what was never set is looked for without Ruby only.
  desc "Run the gate and the filters under valgrind: by themselves, and the gate's specs"
  task valgrind: %i[compile tmp/replay] do
    sh "valgrind", "-q", "--leak-check=full", "--error-exitcode=9", "tmp/replay", *FileList["fuzz/corpus/*"]
    sh({ "AGENT_JAIL_EXAMPLE_TIMEOUT" => "600" },
       "valgrind", "-q", "--undef-value-errors=no", "--leak-check=no", "--max-stackframe=8500000", "--error-exitcode=9",
       RbConfig.ruby, "-S", "rspec", "spec/gate_spec.rb")
  end

  # Under each level what ends in a few minutes; a level is set for a whole suite by AGENT_JAIL_GC.
  desc "Run specs while the garbage is collected at every chance (stress) and objects move (compact)"
  task gc: :compile do
    [["stress", "spec/gate_spec.rb"],
     ["stress", "spec/run_spec.rb", "-e", "the value", "-e", "a result of a class"],
     ["compact", *UNCHECKED, "spec/gate_spec.rb", "spec/input_spec.rb", "spec/run_spec.rb"]].each do |level, *specs|
      sh({ "AGENT_JAIL_GC" => level }, RbConfig.ruby, "-S", "rspec", *specs)
    end
  end

  desc "Run the specs of the parent with as many runs as they are meant for: thousands"
  task full: :compile do
    sh({ "AGENT_JAIL_FULL" => "1", "AGENT_JAIL_EXAMPLE_TIMEOUT" => "900" },
       RbConfig.ruby, "-S", "rspec", "spec/parent_spec.rb", "spec/sigchld_spec.rb")
  end
end
