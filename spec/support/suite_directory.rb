# frozen_string_literal: true

require "fileutils"
require "tmpdir"

# A directory for what the specs build once: it goes when the suite ends, and no child of the suite takes it along.
module SuiteDirectory
  def self.make(name)
    directory = Dir.mktmpdir(name)
    owner = Process.pid
    at_exit { FileUtils.rm_rf(directory) if Process.pid == owner }
    directory
  end
end
