# frozen_string_literal: true

# Like fresh_ruby for many snippets: one Ruby of its own that forks for each of them, which is ten times as quick as
# starting one for each. Each snippet runs in a process that nothing has happened in, and ends there as a program does,
# at_exit handlers included. Its standard output and error are files.
#
#   results = fresh_forks("one" => "print 1", "two" => "abort 'x'")
#   expect(results["two"]).to have_attributes(stdout: "", stderr: "x\n", status: 1)
module FreshForks
  Result = Struct.new(:stdout, :stderr, :status)

  PROGRAM = <<~'RUBY'
    Dir.chdir(ARGV.shift)
    codes = Dir.children(".").grep(/\A\d+\z/)
    codes.each do |name|
      pid = fork do
        $stdout.reopen("#{name}.out", "w").sync = false
        $stderr.reopen("#{name}.err", "w").sync = true
        eval(File.read(name), TOPLEVEL_BINDING.dup, "-e")
      end
      Process.wait(pid)
      File.write("#{name}.status", $?.exitstatus.to_s)
    end
  RUBY

  # @param codes [Hash{String => String}] snippets by name; +options+ go to fresh_ruby
  # @return [Hash{String => Result}]
  def fresh_forks(codes, *args, **options)
    Dir.mktmpdir("fresh_forks") do |directory|
      codes.values.each_with_index { |code, i| File.write(File.join(directory, i.to_s), code) }
      FileUtils.chmod_R("a+rwX", directory)
      ruby = fresh_ruby(PROGRAM, directory, *args, **options)
      raise "no fresh Ruby: #{ruby}" unless ruby.success?

      codes.keys.each_with_index.to_h { |name, i| [name, FreshForks.read(File.join(directory, i.to_s))] }
    end
  end

  def self.read(path)
    Result.new(File.read("#{path}.out"), File.read("#{path}.err"), File.read("#{path}.status").to_i)
  end
end

RSpec.configure { |config| config.include FreshForks }
