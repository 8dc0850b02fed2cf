# frozen_string_literal: true

module AgentJail
  # An exception as strings: packed in the child, unpacked in the parent. The exception itself does not cross: it may
  # hold what cannot be dumped (a Binding, a Proc, a default proc), or all of the receiver it came from.
  #
  # On the wire: how many strings there are, then each one's length and bytes.
  module Report # :nodoc:
    Raised = Struct.new(:class_name, :message, :encoding, :door, :stage, :backtrace)

    ENCODINGS = Encoding.list.map(&:name).freeze
    FIELDS = 5 # before the backtrace
    MESSAGE_MAX = 1 << 18 # bytes
    LINE_MAX = 4096       # bytes
    BACKTRACE_MAX = 500   # lines
    LEFT = { 1 => "return", 2 => "break", 5 => "redo", 7 => "throw" }.freeze

    class << self
      # In the child: the exception, the run's options, and whether it was raised by the dump rather than by the block.
      def pack(exception, options, dumping)
        message = text { exception.message }
        strings([text { exception.class.name || exception.class.inspect }, message, message.encoding.name,
                 text { Denial.of(exception, options) }, dumping ? "dump" : "block", *backtrace(exception)])
      end

      # In the child: the block was left by a jump (a number of enum ruby_tag_type) instead of ending.
      def left(jump)
        by = LEFT.fetch(jump, "Thread#kill or a jump")
        message = "the block was left by #{by}: end it with next, or with its last value"
        strings(["LocalJumpError", message, "UTF-8", "", "block"])
      end

      # In the parent, which believes nothing: a Raised, or nil when the bytes are not a report.
      def unpack(bytes)
        count = bytes.unpack1("L")
        return unless count&.between?(FIELDS, FIELDS + BACKTRACE_MAX + 1)

        fields = unpack_strings(bytes, count)
        raised(fields) if fields
      end

      # A message as valid UTF-8: as it is where it can be, else with its bytes escaped.
      def readable(message)
        message.valid_encoding? ? message.encode(Encoding::UTF_8) : utf8(message.b)
      rescue EncodingError
        utf8(message.b)
      end

      private

      def strings(list)
        list.flat_map { |string| [string.bytesize, string.b] }.pack("La*" * list.size).prepend([list.size].pack("L"))
      end

      # What an exception's own methods give: they may raise, or give something that is no String.
      def text
        value = yield
        value = value.to_s unless value.is_a?(String)
        String.new(value).byteslice(0, MESSAGE_MAX)
      rescue NoMemoryError
        raise
      rescue Exception => e # rubocop:disable Lint/RescueException
        "(it could not be told: #{e.class})"
      end

      def backtrace(exception)
        lines = exception.backtrace
        lines.is_a?(Array) ? shorten(lines.map { |line| line.to_s.byteslice(0, LINE_MAX) }) : []
      rescue NoMemoryError
        raise
      rescue Exception # rubocop:disable Lint/RescueException
        []
      end

      # A deep recursion has thousands of lines that say the same: its ends say the rest.
      def shorten(lines)
        return lines if lines.size <= BACKTRACE_MAX

        half = BACKTRACE_MAX / 2
        [*lines.first(half), "... #{lines.size - (2 * half)} lines left out ...", *lines.last(half)]
      end

      def unpack_strings(bytes, count)
        at = 4
        Array.new(count) do
          size = bytes.byteslice(at, 4)&.unpack1("L")
          return if size.nil? || size > bytes.bytesize - at - 4

          bytes.byteslice(at + 4, size).tap { at += 4 + size }
        end
      end

      def raised(fields)
        class_name, message, encoding, door, stage, *backtrace = fields
        Raised.new(utf8(cut(class_name)), in_encoding(cut(message, MESSAGE_MAX), encoding), encoding, door, stage,
                   backtrace.map { |line| utf8(cut(line)) })
      end

      def cut(bytes, most = LINE_MAX)
        bytes.bytesize > most ? bytes.byteslice(0, most) : bytes
      end

      def in_encoding(message, name)
        ENCODINGS.include?(name) ? message.force_encoding(name) : message
      end

      def utf8(bytes)
        bytes.force_encoding(Encoding::UTF_8).scrub { |bad| bad.unpack("C*").map { |byte| format("\\x%02X", byte) }.join }
      end
    end
  end
end
