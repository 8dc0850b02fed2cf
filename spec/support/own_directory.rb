# frozen_string_literal: true

# A directory for each example, removed afterwards: `dir` is its real path, as String.
RSpec.shared_context "with a directory" do
  attr_reader :dir

  around do |example|
    Dir.mktmpdir("agent_jail_spec") do |path|
      @dir = File.realpath(path)
      example.run
    end
  end

  # A path in it.
  def at(*names)
    File.join(dir, *names)
  end

  # A new file in it, of a line unless told otherwise.
  def file(name, content = "content\n")
    at(name).tap { |path| File.write(path, content) }
  end

  # A new directory in it.
  def directory(name)
    at(name).tap { |path| Dir.mkdir(path) }
  end
end
