# frozen_string_literal: true

RSpec.describe AgentJail, "given input that is not sound" do
  include_context "with a directory"

  # A Process._fork hook that counts: rspec's spy stands where a library's hook would.
  before { allow(Process).to receive(:_fork).and_call_original }

  nan = Float::NAN
  infinity = Float::INFINITY
  no_number = ["5", nil, true, :five, [5], { five: 5 }, 1..5, Complex(1, 1), Object.new, Time.at(5)]
  no_amount = [0, -1, 0.0, -0.0, -0.5, nan, infinity, -infinity, Rational(-1, 2), 10**100]
  no_path = [nil, 5, :tmp, true, {}, [nil], [5], [["/tmp"]], ["/tmp", nil]]
  bad_path = ["", ["/tmp", ""], "/tmp\0", "\0", "/tmp\0/etc".encode("UTF-16LE"), "~nobody-has-this-name/x"]
  closed = IO.pipe.each(&:close).first

  wrong_type = {
    timeout: no_number,
    cpu_timeout: no_number - [nil],
    memory_mb: no_number,
    max_result_mb: no_number,
    max_file_mb: no_number,
    max_open_files: no_number + [1.5, nan, Rational(3, 2)],
    fs_allow: no_path,
    fs_read_allow: no_path,
    network: [nil, 1, "true", :yes, []],
    processes: [nil, 1, "true", :yes, []],
    tmpdir: [nil, 1, "/tmp", :yes, []],
    inherit: [nil, 1, "x", :stdout, [1], [nil], {}],
    permitted_classes: [nil, 5, Kernel, [Kernel], "Kernel", [nil], [["String"]], {}],
    env: [nil, 5, "HOME", :keep, true, [5], [:HOME], [nil], { HOME: "/" }, { "HOME" => 5 }, { "HOME" => nil }]
  }
  wrong_value = {
    timeout: no_amount,
    cpu_timeout: no_amount,
    memory_mb: no_amount,
    max_result_mb: no_amount,
    max_file_mb: no_amount,
    max_open_files: [0, -1, 10**100],
    fs_allow: bad_path,
    fs_read_allow: bad_path,
    inherit: [closed, [closed]],
    permitted_classes: ["NoSuchClass", "no class", "", "String::", Class.new, [Class.new], Regexp, Class],
    env: [["A\0B"], { "A" => "\0" }, { "\0" => "" }, { "A=B" => "c" }, { "" => "" }]
  }
  sound = {
    timeout: [5, 0.5, Rational(5, 2), 86_400],
    cpu_timeout: [nil, 5, 0.5, 86_400],
    memory_mb: [64, 64.5, 100_000],
    max_result_mb: [1, 0.5, 1024],
    max_file_mb: [1, 0.5, 100_000],
    max_open_files: [16, 10_000],
    fs_allow: ["/tmp", ["/tmp"], [], Pathname("/tmp")],
    fs_read_allow: ["/tmp", ["/tmp"], [], Pathname("/tmp")],
    network: [true, false],
    processes: [true, false],
    tmpdir: [true, false],
    inherit: [[], $stderr, [$stdout, $stderr]],
    permitted_classes: [[], StandardError, "StandardError", [:StandardError, "File::Stat"]],
    env: [:inherit, [], %w[PATH HOME], {}, { "A" => "b=c" }]
  }

  # The values that the block takes otherwise than by raising `error` with the option's name in it, and what came.
  def amiss(values, error, name)
    values.to_h { |value| [value.inspect, yield(value)] }
          .reject { |_, raised| raised.is_a?(error) && raised.message.match?(/\b#{name}\b/) }
  end

  def raised
    yield
    "nothing was raised"
  rescue ArgumentError, TypeError => e
    e
  rescue StandardError => e
    "#{e.class}: #{e.message}"
  end

  it "takes a class of Array's for the items it has, whatever it says of them" do
    lying = Class.new(Array) { %i[map each to_a to_ary].each { |name| define_method(name) { |*| 42 } } }
    file = at("file")
    granted = { fs_allow: lying.new([dir]), fs_read_allow: lying.new([dir]), inherit: lying.new([$stderr]),
                permitted_classes: lying.new([Range]), env: lying.new(["PATH"]) }

    expect(described_class.run(**granted) { File.write(file, "x") }).to eq(1)
  end

  { TypeError => wrong_type, ArgumentError => wrong_value }.each do |error, table|
    table.each do |option, values|
      it "raises #{error} naming #{option} and forks nothing", :ill_typed do
        expect(amiss(values, error, option) { |value| raised { described_class.run(**{ option => value }) { 1 } } })
          .to be_empty
        expect(Process).not_to have_received(:_fork)
      end

      it "raises #{error} naming default_#{option} and keeps the configuration", :ill_typed do
        before = described_class.configuration
        missed = amiss(values, error, "default_#{option}") do |value|
          raised { described_class.configure { |c| c.public_send(:"default_#{option}=", value) } }
        end

        expect(missed).to be_empty
        expect(described_class.configuration).to equal(before)
      end
    end
  end

  sound.each do |option, values|
    it "takes what is sound for #{option}, given and by default" do
      values.each do |value|
        given = described_class.run(**{ option => value }) { 1 }
        described_class.configure { |c| c.public_send(:"default_#{option}=", value) }

        expect([given, described_class.run { 2 }]).to eq([1, 2])
      end
      expect(Process).to have_received(:_fork).exactly(2 * values.size).times
    end
  end

  it "has a table row for every option" do
    options = AgentJail::Configuration::OPTIONS.keys

    expect([wrong_type.keys.sort, sound.keys.sort]).to eq([options.sort, options.sort])
  end

  it "names every unknown option and forks nothing", :ill_typed do
    expect { described_class.run(timeout: 1, memory: 5, fs_alow: "/") { 1 } }
      .to raise_error(ArgumentError, /unknown options: memory, fs_alow/)
    expect(Process).not_to have_received(:_fork)
  end

  it "knows no default_ names in run", :ill_typed do
    expect { described_class.run(default_timeout: 5) { 1 } }.to raise_error(ArgumentError, /default_timeout/)
  end

  it "raises ArgumentError without a block and forks nothing", :ill_typed do
    expect { described_class.run(timeout: 1) }.to raise_error(ArgumentError, /block/)
    expect(Process).not_to have_received(:_fork)
  end

  it "raises ArgumentError for positional arguments and forks nothing", :ill_typed do
    expect { described_class.run(5) { 1 } }.to raise_error(ArgumentError)
    expect(Process).not_to have_received(:_fork)
  end

  it "leaves the options that it was given as they were" do
    options = { fs_allow: [dir], permitted_classes: ["Struct"], env: { "A" => "b" } }
    frozen = options.to_h { |name, value| [name, value.dup.freeze] }.freeze

    expect([described_class.run(**frozen) { ENV.fetch("A") }, options]).to eq(["b", frozen])
  end
end

RSpec.describe AgentJail, "configuration" do
  include_context "with a directory"

  def timeout
    described_class.configuration.default_timeout
  end

  it "begins with the documented defaults" do
    defaults = { timeout: 30, cpu_timeout: nil, memory_mb: 512, fs_allow: [], fs_read_allow: [], network: false,
                 processes: false, inherit: [], permitted_classes: [], max_result_mb: 64, env: :inherit, tmpdir: false }
    told = defaults.to_h { |name, _| [name, described_class.configuration.public_send(:"default_#{name}")] }

    expect([told, described_class.configuration.on_unsupported]).to eq([defaults, :warn])
  end

  it "gives every option its default" do
    described_class.configure do |c|
      c.default_timeout = 0.2
      c.default_fs_allow = [dir]
    end

    expect { described_class.run { sleep } }.to raise_error(AgentJail::TimeoutError, /timeout of 0.2 s/)
    expect(described_class.run { File.write(at("file"), "x") }).to eq(1)
  end

  it "gives way to the option of a run" do
    described_class.configure { |c| c.default_fs_allow = [dir] }

    expect(described_class.run { File.write(at("file"), "x") }).to eq(1)
    expect { File.write(at("file"), "x") }.to be_refused.in_a_jail_with(fs_allow: [])
  end

  it "goes back to the defaults by reset!" do
    described_class.configure { |c| c.default_timeout = 5 }

    expect { described_class.reset! }.to change { timeout }.from(5).to(30)
  end

  it "is frozen from the start, after configure and after reset!" do
    start = fresh_ruby("p AgentJail.configuration.frozen?").stdout
    described_class.configure { |c| c.default_timeout = 5 }
    configured = described_class.configuration.frozen?
    described_class.reset!

    expect([start, configured, described_class.configuration.frozen?]).to eq(["true\n", true, true])
  end

  it "cannot be changed past configure" do
    described_class.configure { |c| c.default_timeout = 5 }

    expect { described_class.configuration.default_timeout = -1 }.to raise_error(FrozenError)
    expect(timeout).to eq(5)
  end

  it "cannot be changed through a list that was put in" do
    paths = [dir]
    described_class.configure { |c| c.default_fs_allow = paths }
    paths << "/etc"

    expect { File.read("/etc/passwd") }.to be_refused
  end

  it "cannot be changed through a list that was taken out" do
    described_class.configure { |c| c.default_fs_allow = [dir] }
    begin
      described_class.configuration.default_fs_allow << "/etc"
    rescue FrozenError
      nil
    end

    expect { File.read("/etc/passwd") }.to be_refused
  end

  it "keeps all of a block's changes or none of them" do
    described_class.configure { |c| c.default_timeout = 5 }

    expect do
      described_class.configure do |c|
        c.default_timeout = 6
        c.default_memory_mb = -1
      end
    end.to raise_error(ArgumentError, /default_memory_mb/)
    expect(timeout).to eq(5)
  end

  it "keeps nothing of a block that raises, not even what it did to a list in place" do
    described_class.configure { |c| c.default_fs_allow = [dir] }
    begin
      described_class.configure { |c| (c.default_fs_allow << "/etc") && raise("no") }
    rescue RuntimeError # FrozenError is one
      nil
    end

    expect { File.read("/etc/passwd") }.to be_refused
  end

  it "keeps nothing of a block that throws" do
    catch(:out) { described_class.configure { |c| (c.default_timeout = 5) && throw(:out) } }

    expect(timeout).to eq(30)
  end

  it "refuses a misspelt default and keeps the configuration" do
    expect { described_class.configure { |c| c.default_timeuot = 5 } }.to raise_error(NoMethodError, /default_timeuot/)
    expect(timeout).to eq(30)
  end

  [:wran, "warn", nil, true].each do |reaction|
    it "refuses #{reaction.inspect} as on_unsupported", :ill_typed do
      expect { described_class.configure { |c| c.on_unsupported = reaction } }
        .to raise_error(/\bon_unsupported\b/) { |error| expect([ArgumentError, TypeError]).to include(error.class) }
      expect(described_class.configuration.on_unsupported).to eq(:warn)
    end
  end

  it "needs a block", :ill_typed do
    expect { described_class.configure }.to raise_error(ArgumentError, /block/)
  end

  it "is usable again after a refused block" do
    begin
      described_class.configure { |c| c.default_timeout = -1 }
    rescue ArgumentError
      nil
    end

    expect { described_class.configure { |c| c.default_timeout = 7 } }.to change { timeout }.from(30).to(7)
  end

  it "loses no change when threads configure at once" do
    threads = Array.new(8) do
      Thread.new do
        25.times do
          described_class.configure { |c| c.default_timeout = c.default_timeout.tap { Thread.pass } + 1 }
        end
      end
    end
    threads.each(&:join)

    expect(timeout).to eq(30 + (8 * 25))
  end

  it "is seen whole by a thread that reads while another configures" do
    pairs = Array.new(2) { |i| [i + 1, i + 1] }
    done = false
    seen = Thread.new do
      all = []
      all |= [described_class.configuration.then { |c| [c.default_timeout, c.default_memory_mb] }] until done
      all
    end
    100.times { |i| described_class.configure { |c| c.default_timeout, c.default_memory_mb = pairs[i % 2] } }
    done = true

    expect(seen.value - [[30, 512], *pairs]).to be_empty
  end
end
