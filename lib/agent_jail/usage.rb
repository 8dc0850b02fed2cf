# frozen_string_literal: true

module AgentJail
  # What a run used.
  #
  # [+wall+]    seconds from the call to its end
  # [+cpu+]     seconds of CPU time, user and system; nil when somebody else reaped the child
  # [+max_rss+] KiB of memory that the child had resident at most, what it inherited included; nil as above
  Usage = Struct.new(:wall, :cpu, :max_rss)
end
