# frozen_string_literal: true

GATE_FUZZER = "tmp/fuzz/gate_fuzzer"

file GATE_FUZZER => FileList["fuzz/gate_fuzzer.c", *GATE_SOURCES, "ext/agent_jail/*.h"] do
  mkdir_p "tmp/fuzz/found"
  sh "clang", "-g", "-O1", "-fsanitize=fuzzer,address,undefined", "-fno-sanitize-recover=all", "-I", "ext/agent_jail",
     "fuzz/gate_fuzzer.c", *GATE_SOURCES, "-o", GATE_FUZZER
end

desc "Fuzz the gate for so many SECONDS (60) by libFuzzer, and as many against Marshal.load; the corpus stays as it is"
task :fuzz, [:seconds] => %i[fuzz:corpus fuzz:gate fuzz:differential]

namespace :fuzz do
  desc "Run the gate once on each file of the committed corpus, under the sanitizers"
  task corpus: GATE_FUZZER do
    sh GATE_FUZZER, *FileList["fuzz/corpus/*"], verbose: false
  end

  desc "Fuzz the gate alone, without Ruby, for so many SECONDS (60); what is found goes to tmp/fuzz"
  task :gate, [:seconds] => GATE_FUZZER do |_, arguments|
    sh GATE_FUZZER, "-max_total_time=#{Integer(arguments.fetch(:seconds, 60))}", "-max_len=4096", "-timeout=10",
       "-rss_limit_mb=1024", "-print_final_stats=1", "-artifact_prefix=tmp/fuzz/", "tmp/fuzz/found", "fuzz/corpus"
  end

  desc "Compare the gate with Marshal.load for so many SECONDS (60)"
  task :differential, [:seconds] => :compile do |_, arguments|
    ruby "-Ilib", "fuzz/differential.rb", "#{Integer(arguments.fetch(:seconds, 60))}s"
  end
end
