# frozen_string_literal: true

# The plain-C files, those without Ruby, for another C library and another processor: compiled with every warning an
# error, and put through spec/support/units.c. The filters come out the same everywhere.
namespace :cross do
  strict = %w[-std=c11 -D_GNU_SOURCE -g -O2 -Wall -Wextra -Wmissing-prototypes -Wconversion -Werror -Iext/agent_jail]

  # Builds the units with +compiler+ as tmp/cross/units-+name+.
  build = lambda do |name, compiler, crash: "crash"|
    mkdir_p "tmp/cross"
    sh(*compiler, *strict, "-o", "tmp/cross/units-#{name}", "spec/support/units.c", *PLAIN_SOURCES,
       "ext/agent_jail/#{crash}.c", "-lm", "-pthread", verbose: false)
  end
  # Runs them, with +runner+ before and +arguments+ behind. Returns the filters.
  units = lambda do |name, runner: [], arguments: []|
    told = IO.popen([*runner, "tmp/cross/units-#{name}", "fuzz/corpus", *arguments], &:readlines)
    filters, checks = told.partition { |line| line.start_with?("filter ") }
    puts "#{name}:", checks
    abort "the units fail on #{name}" unless Process.last_status.success? && filters.size == 16
    filters
  end
  same = lambda do |name, filters|
    build.call("here", %w[cc])
    filters == units.call("here") or abort "other filters on #{name} than here"
  end
  there = ->(command) { ENV["PATH"].split(":").any? { |directory| File.executable?(File.join(directory, command)) } }
  wanted = lambda do |*commands|
    missing = commands.reject { |command| there.call(command) }
    missing.empty? or abort "Please install what has #{missing.join(", ")} (bin/setup #{missing.join(" ")})"
  end

  desc "The plain-C files with musl, a whole jail included (musl-gcc)"
  task :musl do
    wanted.call("musl-gcc")
    # The kernel's headers alone, not those of the other C library beside them.
    mkdir_p "tmp/cross/linux"
    %w[linux asm-generic asm].each do |name|
      path = ["/usr/include/#{RbConfig::CONFIG["host_cpu"]}-linux-gnu/#{name}", "/usr/include/#{name}"]
             .find { |entry| File.directory?(entry) }
      ln_sf path, "tmp/cross/linux/", verbose: false
    end
    # musl's ioctl takes an int, of which the kernel sees the same 32 bits
    compiler = %w[musl-gcc -Wno-sign-conversion -idirafter tmp/cross/linux]
    build.call("musl", compiler, crash: "crash_none")
    same.call("musl", units.call("musl"))
  end

  # What bin/kernel-aarch64 runs too.
  task :build_aarch64 do
    wanted.call("aarch64-linux-gnu-gcc")
    build.call("aarch64", %w[aarch64-linux-gnu-gcc -static])
  end

  desc "The plain-C files for aarch64, emulated (aarch64-linux-gnu-gcc, qemu-aarch64)"
  task aarch64: :build_aarch64 do
    wanted.call("qemu-aarch64")
    same.call("aarch64", units.call("aarch64", runner: %w[qemu-aarch64], arguments: %w[emulated]))
  end
end

desc "The plain-C files with musl and for aarch64"
task cross: %w[cross:musl cross:aarch64]
