# frozen_string_literal: true

require "open3"

# What the documents name is there, what they show runs, and what they list is all there is.
RSpec.describe "The documents" do
  include_context "with a directory"

  root = File.expand_path("..", __dir__)
  documents = %w[README.md CONTRIBUTING.md SECURITY.md].to_h { |name| [name, File.read(File.join(root, name))] }
  readme = documents.fetch("README.md")

  fence = /^```(\w*)\n(.*?)^```$/m
  code = ->(text) { text.scan(fence).map(&:last) + text.gsub(fence, "").scan(/`([^`\n]+)`/).flatten }
  directories = "ext|lib|spec|bin|docs|examples|benchmark|fuzz|rakelib|sig|\\.github|\\.ci"

  # What is made when it is asked for, or is the reader's own.
  made = %w[lib/agent_jail/agent_jail_ext.so]

  define_method(:found?) do |path|
    made.include?(path) || Dir.glob(path, File::FNM_DOTMATCH, base: root).any?
  end

  define_method(:everywhere) do
    Dir.glob("{.,#{directories.tr("|", ",").delete("\\")}}/**/*", base: root).to_h { |path| [File.basename(path), path] }
  end

  documents.each do |name, text|
    it "#{name} names files by paths that are there" do
      paths = code.call(text).flat_map { |piece| piece.scan(%r{(?<![\w/.~$-])(?:#{directories})/[\w./*-]*}) } # no placeholder
      links = text.gsub(fence, "").scan(/\]\(([^)#\s]+)\)/).flatten.grep_v(/\A\w+:/)

      expect(paths + links).not_to be_empty
      expect((paths + links).uniq.reject { |path| found?(path) }).to eq []
    end

    it "#{name} names files that are there by their names alone" do
      names = code.call(text).flat_map { |piece| piece.scan(%r{(?<![\w/.~*-])[\w-]+\.(?:c|h|rb|rake|md|rbs|yml)\b(?!:)}) }
      specs = text.scan(/\b(\w+_spec)\b(?!\.)/).flatten.map { |spec| "#{spec}.rb" }

      expect((names + specs).uniq - everywhere.keys).to eq []
    end
  end

  it "name tasks that Rake has" do
    listed, status = Open3.capture2e(RbConfig.ruby, "-S", "rake", "-P", chdir: root)
    expect(status).to be_success, listed
    tasks = listed.scan(/^rake (\S+)/).flatten
    named = documents.values.flat_map { |text| code.call(text) }.flat_map do |piece|
      piece.scan(/\brake((?: [a-z][\w:]*(?:\[\w*\])?)+)/).flat_map { |(words)| words.split }
    end.map { |task| task[/[^\[]+/] }.uniq

    expect(named).to include("build", "spec:asan")
    expect(named - tasks).to eq []
  end

  readme.scan(fence).each_with_index do |(language, source), number|
    next unless language == "ruby"

    it "README's example #{number}, #{source.lines.first.chomp}, is Ruby" do
      expect { RubyVM::InstructionSequence.compile(source) }.not_to raise_error
    end

    next unless source.include?('require "agent_jail"')

    it "README's example #{number}, #{source.lines.drop(2).grep(/\S/).first.chomp}, prints what it says" do
      FileUtils.chmod(0o777, dir)
      ruby = fresh_ruby("Dir.chdir(ARGV.shift)\n#{source}", dir)
      expect(ruby).to be_success.and have_attributes(stderr: "")

      # `# => value: a remark` after p, `# words` or `# words ...` after puts.
      told = source.scan(/^\s*(?:p|puts) .*?# (?:=> )?(.+)$/).flatten.map { |said| said.sub(/\A(\[[^\]]*\]): .*/, '\1') }
      expect(told).not_to be_empty
      patterns = told.map { |said| /\A#{said.split("...", -1).map { |part| Regexp.escape(part.strip) }.join(".*")}\z/ }
      expect(ruby.stdout.lines(chomp: true)).to match(patterns.map { |pattern| match(pattern) })
    end
  end

  it "list in the README every option with its default" do
    rows = readme.scan(/^\| `(\w+)` \| [^|]* \| ([^|]*) \|/).to_h.transform_values { |cell| cell.delete("`").strip }
    defaults = AgentJail::Configuration::OPTIONS.transform_values(&:first)

    expect(rows).to eq(defaults.to_h { |name, value| [name.to_s, value.inspect] }.merge("cpu_timeout" => "the same as timeout"))
  end

  it "list in the README every error of a run" do
    rows = readme.scan(/^\| `(?:AgentJail::)?(\w+Error|Error)(?: < (\w+))?` \|/).to_h
    classes = AgentJail.constants.map { |name| AgentJail.const_get(name) }
                       .select { |constant| constant.is_a?(Class) && constant <= AgentJail::Error }
    parents = classes.to_h { |error| [error, error.superclass].map { |klass| klass.name.delete_prefix("AgentJail::") } }

    expect(rows).to eq(parents.to_h { |error, parent| [error, parent == "Error" ? nil : parent] })
  end

  it "show in the README the steps of bin/test" do
    steps = lambda do |script|
      File.read(File.join(root, script)).scan(%r{^ *step "(.*?)"|^(bin/\S+)}).flat_map { |step, other| other ? steps.call(other) : step }
    end
    shown = readme[%r{^\$ bin/test\n(.*?)^```}m, 1].scan(/^(\S.*?) {2,}ok/).flatten

    expect(shown).to eq steps.call("bin/test")
  end

  it "show in the README the lines of Platform.report" do
    shown = readme[/^\$ ruby -ragent_jail .*Platform\.report'\n(.*?)^```/m, 1]
    names = ->(report) { report.lines.drop(1).map { |line| line.split(/ {2,}/).first } }

    expect(names.call(shown)).to eq names.call(AgentJail::Platform.report)
    expect(shown).to start_with("agent_jail #{AgentJail::VERSION} on ")
  end

  it "say in the README how many calls the example makes" do
    calls = File.read(File.join(root, "examples/agent.rb")).scan(/^(useful|hostile)\(/).flatten.tally

    expect(readme).to include("#{calls["useful"]} useful and #{calls["hostile"]} hostile tool calls",
                              "#{calls["useful"]} worked, #{calls["hostile"]} held")
  end
end
