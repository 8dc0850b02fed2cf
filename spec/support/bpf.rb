# frozen_string_literal: true

# Runs classic BPF programs as seccomp does, and checks their shape as the kernel does before it takes them. Only the
# instructions that our filters use are known; anything else raises.
module Bpf
  Instruction = Struct.new(:code, :jt, :jf, :k)

  # A program that the kernel would refuse, or that did something it must not.
  class Invalid < StandardError; end

  # enum seccomp_ret: the high half of what a program returns.
  ACTIONS = { 0x80000000 => :kill_process, 0x00050000 => :errno, 0x7fff0000 => :allow }.freeze
  ARCHES = { "x86_64" => 0xc000003e, "aarch64" => 0xc00000b7, "i386" => 0x40000003, "arm" => 0x40000028 }.freeze
  LENGTH_MAX = 4096
  WORD = 0xffffffff

  LD_ABS = 0x20
  LD_IMM = 0x00
  TAX = 0x07
  AND_K = 0x54
  LSH_X = 0x6c
  JA = 0x05
  JEQ_K = 0x15
  JGT_K = 0x25
  JGE_K = 0x35
  JSET_K = 0x45
  JSET_X = 0x4d
  RET_K = 0x06
  JUMPS = [JEQ_K, JGT_K, JGE_K, JSET_K, JSET_X].freeze
  KNOWN = [LD_ABS, LD_IMM, TAX, AND_K, LSH_X, JA, RET_K, *JUMPS].freeze

  module_function

  def decode(bytes)
    raise Invalid, "#{bytes.bytesize} bytes are no whole instructions" unless (bytes.bytesize % 8).zero?

    bytes.unpack("SCCL" * (bytes.bytesize / 8)).each_slice(4).map { |fields| Instruction.new(*fields) }
  end

  # What the program (its bytes, or decoded before for many runs) answers: [:allow], [:errno, number] or
  # [:kill_process].
  def run(program, arch:, nr:, args: [], ip: 0) # rubocop:disable Naming/MethodParameterName -- the kernel's own
    program = decode(program) if program.is_a?(String)
    data = [nr & WORD, ARCHES.fetch(arch, arch), ip, *args, *[0] * (6 - args.size)].pack("LLQQ6")
    value = execute(program, data)
    action = ACTIONS.fetch(value & 0xffff0000) { raise Invalid, format("answers %#x", value) }
    action == :errno ? [action, value & 0xffff] : [action]
  end

  def execute(program, data)
    accumulator = index = pc = 0
    loop do
      at = program.fetch(pc)
      pc += 1
      case at.code
      when RET_K then return at.k
      when LD_ABS then accumulator = data[at.k, 4].unpack1("L")
      when LD_IMM then accumulator = at.k
      when TAX then index = accumulator
      when AND_K then accumulator &= at.k
      when LSH_X then accumulator = (accumulator << index) & WORD
      when JA then pc += at.k
      when *JUMPS then pc += jump?(at, accumulator, index) ? at.jt : at.jf
      else raise Invalid, format("instruction %#x", at.code)
      end
    end
  end

  def jump?(instruction, accumulator, index)
    case instruction.code
    when JEQ_K then accumulator == instruction.k
    when JGT_K then accumulator > instruction.k
    when JGE_K then accumulator >= instruction.k
    when JSET_K then accumulator.anybits?(instruction.k)
    when JSET_X then accumulator.anybits?(index)
    end
  end

  # The program, decoded, or raises Invalid. Jumps only go forward since an offset has no sign, so it always ends.
  def verify(bytes)
    program = decode(bytes)
    raise Invalid, "a length of #{program.size}" unless program.size.between?(1, LENGTH_MAX)
    raise Invalid, "does not end in an answer" unless program.last.code == RET_K

    program.each_with_index { |instruction, pc| verify_instruction(instruction, program.size - pc - 1) }
  end

  def verify_instruction(instruction, left)
    raise Invalid, "knows no #{instruction}" unless KNOWN.include?(instruction.code)
    raise Invalid, "jumps out of the program" if successors(instruction).any? { _1 >= left }
    return unless instruction.code == LD_ABS
    raise Invalid, "loads at #{instruction.k}" unless (instruction.k % 4).zero? && instruction.k < 64
  end

  # Indices of the instructions that nothing leads to.
  def unreachable(bytes)
    program = decode(bytes)
    reached = Array.new(program.size, false)
    reached[0] = true
    program.each_with_index do |instruction, pc|
      successors(instruction).each { |offset| reached[pc + 1 + offset] = true } if reached[pc]
    end
    reached.each_index.reject { |pc| reached[pc] }
  end

  def successors(instruction)
    case instruction.code
    when RET_K then []
    when JA then [instruction.k]
    when *JUMPS then [instruction.jt, instruction.jf]
    else [0]
    end
  end

  # The program, decoded, with the child's process id where seccomp_apply puts it.
  def patch(bytes, indices, pid)
    program = decode(bytes)
    indices.each { |index| program[index].k = (program[index].k[31] == 1 ? -pid : pid) & WORD }
    program
  end
end
