// Relies on statements ending with semicolons, and on braces that only open and close scopes or
// lists of registers. A register is 64 bits, of which an instruction reads what its type says.

#include "test/unit/runtime/FakePtx.h"

#include "test/unit/runtime/FakeDriver.h"

#include <algorithm>
#include <bit>
#include <cctype>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <map>
#include <optional>
#include <sstream>

namespace tenon::test {
namespace {

using runtime::cuda::kSuccess;

/// Instructions of a launch, after which a kernel hangs.
constexpr uint64_t kMostSteps = uint64_t(1) << 26;
/// Where a block's shared memory begins; nothing is at 0.
constexpr uint64_t kSharedStart = 16;

struct Type {
  char kind = 'b'; ///< b, u, s, f, p
  unsigned bytes = 4;
};

std::optional<Type> typeOf(const std::string &word) {
  if (word == "pred") {
    return Type{'p', 1};
  }
  bool isType = word.size() >= 2 && std::string("busf").find(word[0]) != std::string::npos &&
                std::all_of(word.begin() + 1, word.end(), [](char c) { return std::isdigit(c); });
  return isType ? std::optional(Type{word[0], unsigned(std::stoi(word.substr(1))) / 8})
                : std::nullopt;
}

struct Operand {
  enum Kind { Register, Number, Special, Name } kind = Number;
  uint64_t number = 0; ///< of a register, or the bits
  std::string text;
};

struct Instruction {
  std::string text;
  std::vector<std::string> words; ///< of the name
  std::vector<Type> types;
  int guard = -1; ///< a register
  bool isNegated = false;
  std::vector<std::vector<Operand>>
      operands; ///< lists have several; addresses a base and an offset

  const std::string &name() const { return words.front(); }
  bool has(const char *word) const { return std::ranges::find(words, word) != words.end(); }
  Type type() const { return types.empty() ? Type{} : types.back(); }
};

std::string trimmed(const std::string &text) {
  size_t first = text.find_first_not_of(" \t\r\n"), last = text.find_last_not_of(" \t\r\n");
  return first == std::string::npos ? "" : text.substr(first, last - first + 1);
}

std::vector<std::string> split(const std::string &text, char mark) {
  std::vector<std::string> parts;
  std::string part;
  int depth = 0;
  for (char c : text) {
    depth += c == '{' ? 1 : c == '}' ? -1 : 0;
    if (c == mark && depth == 0) {
      parts.push_back(trimmed(part));
      part.clear();
    } else {
      part += c;
    }
  }
  parts.push_back(trimmed(part));
  return parts;
}

class Program {
public:
  Program(const std::string &head, const std::string &body, const std::string &module) {
    for (const std::string &parameter : split(head, ',')) {
      if (!parameter.empty()) {
        uint64_t place = parameters.size();
        parameters[parameter.substr(parameter.find_last_of(" \t\n") + 1)] = place;
      }
    }
    // Shared arrays of the module are the memory that the launch gives.
    for (size_t at = module.find(".extern .shared"); at != std::string::npos;
         at = module.find(".extern .shared", at + 1)) {
      std::string declared = trimmed(module.substr(at, module.find('[', at) - at));
      dynamic.push_back(declared.substr(declared.find_last_of(' ') + 1));
    }
    std::string statement;
    for (char c : body) {
      bool isScope = (c == '{' || c == '}') && trimmed(statement).empty();
      if (c == ';') {
        add(trimmed(statement));
      } else if (c == ':') {
        labels[trimmed(statement)] = code.size();
      }
      statement = isScope || c == ';' || c == ':' ? "" : statement + c;
    }
    for (const std::string &name : dynamic) {
      shared[name] = kSharedStart + fixedBytes;
    }
  }

  size_t parameterCount() const { return parameters.size(); }
  int run(const KernelCall &call) const;

private:
  friend class Block;

  void add(const std::string &statement);
  uint64_t registerOf(const std::string &name) {
    return registers.emplace(name, registers.size()).first->second;
  }
  Operand operandOf(const std::string &text);

  std::map<std::string, uint64_t> parameters, registers, shared;
  std::map<std::string, size_t> labels;
  std::vector<std::string> dynamic;
  uint64_t fixedBytes = 0;
  std::vector<Instruction> code;
};

Operand Program::operandOf(const std::string &text) {
  if (text[0] == '%') {
    std::string base = text.substr(0, text.find('.'));
    bool isSpecial = base == "%tid" || base == "%ntid" || base == "%ctaid" || base == "%nctaid";
    return isSpecial ? Operand{Operand::Special, 0, text}
                     : Operand{Operand::Register, registerOf(text), text};
  }
  if (text.starts_with("0f") || text.starts_with("0F") || text.starts_with("0d") ||
      text.starts_with("0D")) {
    return {Operand::Number, std::stoull(text.substr(2), nullptr, 16), text};
  }
  if (std::isdigit(text[0]) || text[0] == '-') {
    return {Operand::Number,
            text[0] == '-' ? uint64_t(std::stoll(text, nullptr, 0)) : std::stoull(text, nullptr, 0),
            text};
  }
  return {Operand::Name, 0, text};
}

void Program::add(const std::string &statement) {
  if (statement.empty() || statement.starts_with(".reg") || statement.starts_with(".pragma")) {
    return;
  }
  if (statement.starts_with(".shared")) {
    std::string declared = trimmed(statement.substr(0, statement.find('[')));
    uint64_t count = std::stoull(statement.substr(statement.find('[') + 1));
    bool isBytes = declared.find(".b8 ") != std::string::npos;
    fixedBytes = (fixedBytes + 15) / 16 * 16;
    shared[declared.substr(declared.find_last_of(' ') + 1)] = kSharedStart + fixedBytes;
    fixedBytes += count * (isBytes ? 1 : 8);
    return;
  }
  Instruction instruction;
  instruction.text = statement;
  std::string rest = statement;
  if (rest[0] == '@') {
    size_t end = rest.find_first_of(" \t");
    instruction.isNegated = rest[1] == '!';
    instruction.guard =
        int(registerOf(rest.substr(1 + instruction.isNegated, end - 1 - instruction.isNegated)));
    rest = trimmed(rest.substr(end));
  }
  size_t end = std::min(rest.find_first_of(" \t\n"), rest.size());
  instruction.words = split(rest.substr(0, end), '.');
  for (const std::string &word : instruction.words) {
    if (std::optional<Type> type = typeOf(word)) {
      instruction.types.push_back(*type);
    }
  }
  for (std::string text : split(trimmed(rest.substr(end)), ',')) {
    std::vector<Operand> &operand = instruction.operands.emplace_back();
    std::erase_if(text, [](char c) { return c == ' ' || c == '\t' || c == '\n'; });
    bool isList = text.starts_with("{"), isAddress = text.starts_with("[");
    if (isList || isAddress) {
      text = text.substr(1, text.size() - 2);
    }
    for (const std::string &part : split(text, isAddress ? '+' : isList ? ',' : '\0')) {
      if (!part.empty()) {
        operand.push_back(operandOf(part));
      }
    }
  }
  code.push_back(std::move(instruction));
}

struct Thread {
  std::vector<uint64_t> registers;
  size_t next = 0;
  bool waits = false, ended = false;
};

template <typename To, typename From> To bitsAs(From value) {
  To result = {};
  std::memcpy(&result, &value, std::min(sizeof(To), sizeof(From)));
  return result;
}

uint64_t narrowed(uint64_t value, Type type) {
  if (type.kind == 'p') {
    return value & 1;
  }
  uint64_t kept = type.bytes >= 8 ? value : value & ((uint64_t(1) << (8 * type.bytes)) - 1);
  unsigned unused = 64 - 8 * std::min(type.bytes, 8u);
  return type.kind == 's' ? uint64_t(int64_t(kept << unused) >> unused) : kept;
}

double asNumber(uint64_t value, Type type) {
  return type.kind == 'f'   ? type.bytes == 8 ? bitsAs<double>(value) : bitsAs<float>(value)
         : type.kind == 's' ? double(int64_t(narrowed(value, type)))
                            : double(narrowed(value, type));
}

uint64_t fromNumber(double value, Type type) {
  return type.bytes == 8 ? bitsAs<uint64_t>(value) : bitsAs<uint64_t>(float(value));
}

bool compares(const std::string &how, auto a, auto b) {
  return how == "eq"                  ? a == b
         : how == "ne"                ? a != b
         : how == "lt" || how == "lo" ? a < b
         : how == "le" || how == "ls" ? a <= b
         : how == "gt" || how == "hi" ? a > b
                                      : a >= b;
}

class Block {
public:
  Block(const Program &code, const KernelCall &launch, unsigned number, uint64_t &steps)
      : program(code), call(launch), block(number), taken(steps),
        memory(kSharedStart + code.fixedBytes + launch.sharedBytes) {}

  int run() {
    std::vector<Thread> threads(call.block);
    for (Thread &thread : threads) {
      thread.registers.resize(program.registers.size());
    }
    while (!std::ranges::all_of(threads, &Thread::ended)) {
      for (unsigned number = 0; number < call.block; ++number) {
        while (!threads[number].ended && !threads[number].waits) {
          if (int fault = step(threads[number], number)) {
            return fault;
          }
        }
      }
      for (Thread &thread : threads) {
        thread.waits = false;
      }
    }
    return kSuccess;
  }

private:
  int step(Thread &thread, unsigned number);
  int access(const Instruction &instruction, Thread &thread, unsigned number);
  uint64_t compute(const Instruction &instruction, Thread &thread, unsigned number);
  uint64_t value(const Operand &operand, const Thread &thread, unsigned number) const;
  uint64_t operand(const Instruction &instruction, size_t place, const Thread &thread,
                   unsigned number, Type type) const {
    return narrowed(value(instruction.operands.at(place).front(), thread, number), type);
  }

  const Program &program;
  const KernelCall &call;
  unsigned block;
  uint64_t &taken;
  std::vector<std::byte> memory;
  bool isUnknown = false;
};

uint64_t Block::value(const Operand &operand, const Thread &thread, unsigned number) const {
  if (operand.kind == Operand::Register) {
    return thread.registers[operand.number];
  }
  if (operand.kind == Operand::Special) {
    bool isFirst = operand.text.ends_with(".x");
    return operand.text.starts_with("%tid")     ? (isFirst ? number : 0)
           : operand.text.starts_with("%ntid")  ? (isFirst ? call.block : 1)
           : operand.text.starts_with("%ctaid") ? (isFirst ? block : 0)
                                                : (isFirst ? call.grid : 1);
  }
  auto place = program.shared.find(operand.text);
  return operand.kind == Operand::Number ? operand.number
         : place != program.shared.end() ? place->second
                                         : 0;
}

int Block::access(const Instruction &instruction, Thread &thread, unsigned number) {
  bool isLoad = instruction.name() == "ld";
  const std::vector<Operand> &place = instruction.operands.at(isLoad ? 1 : 0);
  const std::vector<Operand> &values = instruction.operands.at(isLoad ? 0 : 1);
  Type type = instruction.type();
  for (size_t i = 0; i < values.size(); ++i) {
    std::byte *at = nullptr;
    uint64_t offset = (place.size() > 1 ? value(place[1], thread, number) : 0) + i * type.bytes;
    if (instruction.has("param")) {
      auto found = program.parameters.find(place[0].text);
      if (found == program.parameters.end()) {
        return kIllegalInstruction;
      }
      at = reinterpret_cast<std::byte *>(const_cast<uint64_t *>(&call.arguments[found->second])) +
           offset;
    } else {
      uint64_t address = value(place[0], thread, number) + offset;
      bool isShared = instruction.has("shared");
      bool isThere = isShared ? address >= kSharedStart && address + type.bytes <= memory.size()
                              : driver().isDevice(address, type.bytes) ||
                                    Driver::isIn(driver().pinnedBlocks, address, type.bytes);
      if (!isThere) {
        return kIllegalAddress;
      }
      if (address % (values.size() * type.bytes) != i * type.bytes % (values.size() * type.bytes)) {
        return kMisalignedAddress;
      }
      at = isShared ? memory.data() + address : reinterpret_cast<std::byte *>(address);
    }
    if (isLoad) {
      uint64_t loaded = 0;
      std::memcpy(&loaded, at, type.bytes);
      thread.registers[values[i].number] = narrowed(loaded, type);
    } else {
      uint64_t stored = value(values[i], thread, number);
      std::memcpy(at, &stored, type.bytes);
    }
  }
  return kSuccess;
}

uint64_t Block::compute(const Instruction &instruction, Thread &thread, unsigned number) {
  const std::string &name = instruction.name();
  Type type = instruction.type();
  auto bits = [&](size_t place) { return operand(instruction, place, thread, number, type); };
  auto real = [&](size_t place) { return asNumber(bits(place), type); };
  isUnknown = std::ranges::any_of(
      instruction.operands, [](const std::vector<Operand> &list) { return list.size() != 1; });
  bool isReal = type.kind == 'f', isSigned = type.kind == 's';
  if (name == "mov" || name == "cvta") {
    return bits(1);
  }
  if (name == "selp") {
    return operand(instruction, 3, thread, number, {'p', 1}) ? bits(1) : bits(2);
  }
  if (name == "setp") {
    const std::string &how = instruction.words[1];
    return isReal     ? compares(how, real(1), real(2))
           : isSigned ? compares(how, int64_t(bits(1)), int64_t(bits(2)))
                      : compares(how, bits(1), bits(2));
  }
  if (name == "cvt") {
    Type from = instruction.types.back(), to = instruction.types.front();
    uint64_t source = operand(instruction, 1, thread, number, from);
    if (to.kind == 'f') {
      return fromNumber(asNumber(source, from), to);
    }
    double whole = from.kind == 'f' ? asNumber(source, from) : 0;
    whole = instruction.has("rmi")   ? std::floor(whole)
            : instruction.has("rpi") ? std::ceil(whole)
            : instruction.has("rni") ? std::nearbyint(whole)
                                     : std::trunc(whole);
    return from.kind == 'f' ? uint64_t(int64_t(whole)) : source;
  }
  if (isReal) {
    double a = real(1), b = instruction.operands.size() > 2 ? real(2) : 0;
    double c = instruction.operands.size() > 3 ? real(3) : 0;
    std::optional<double> result = name == "add"    ? std::optional(a + b)
                                   : name == "sub"  ? std::optional(a - b)
                                   : name == "mul"  ? std::optional(a * b)
                                   : name == "div"  ? std::optional(a / b)
                                   : name == "fma"  ? std::optional(std::fma(a, b, c))
                                   : name == "max"  ? std::optional(std::fmax(a, b))
                                   : name == "min"  ? std::optional(std::fmin(a, b))
                                   : name == "neg"  ? std::optional(-a)
                                   : name == "abs"  ? std::optional(std::fabs(a))
                                   : name == "sqrt" ? std::optional(std::sqrt(a))
                                   : name == "rcp"  ? std::optional(1 / a)
                                   : name == "ex2"  ? std::optional(std::exp2(a))
                                                    : std::nullopt;
    // In floats a product and a sum of two are exact in doubles, so that both are rounded once.
    isUnknown |= !result;
    return fromNumber(result.value_or(0), type);
  }
  uint64_t a = bits(1), b = instruction.operands.size() > 2 ? bits(2) : 0;
  bool isWide = instruction.has("wide");
  auto third = [&] {
    Type own = isWide ? Type{type.kind, 2 * type.bytes} : type;
    return operand(instruction, 3, thread, number, own);
  };
  unsigned width = 8 * type.bytes;
  uint64_t most = narrowed(~uint64_t(0), {'u', type.bytes});
  if (name == "add") {
    return a + b;
  } else if (name == "sub") {
    return a - b;
  } else if (name == "mul" && (isWide || instruction.has("lo"))) {
    return a * b;
  } else if (name == "mad" && (isWide || instruction.has("lo"))) {
    return a * b + third();
  } else if ((name == "div" || name == "rem") && b == 0) {
    return most;
  } else if (name == "div") {
    return isSigned ? uint64_t(int64_t(a) / int64_t(b)) : a / b;
  } else if (name == "rem") {
    return isSigned ? uint64_t(int64_t(a) % int64_t(b)) : a % b;
  } else if (name == "min") {
    return isSigned ? uint64_t(std::min(int64_t(a), int64_t(b))) : std::min(a, b);
  } else if (name == "max") {
    return isSigned ? uint64_t(std::max(int64_t(a), int64_t(b))) : std::max(a, b);
  } else if (name == "and") {
    return a & b;
  } else if (name == "or") {
    return a | b;
  } else if (name == "xor") {
    return a ^ b;
  } else if (name == "not") {
    return ~a;
  } else if (name == "neg") {
    return 0 - a;
  } else if (name == "shl") {
    uint64_t by = operand(instruction, 2, thread, number, {'u', 4});
    return by >= width ? 0 : a << by;
  } else if (name == "shr") {
    uint64_t by = operand(instruction, 2, thread, number, {'u', 4});
    return isSigned      ? uint64_t(int64_t(a) >> std::min<uint64_t>(by, width - 1))
           : by >= width ? 0
                         : a >> by;
  }
  isUnknown = true;
  return 0;
}

int Block::step(Thread &thread, unsigned number) {
  if (thread.next >= program.code.size()) {
    thread.ended = true;
    return kSuccess;
  }
  const Instruction &instruction = program.code[thread.next++];
  if (++taken > kMostSteps) {
    return kLaunchTimeout;
  }
  bool isOn = instruction.guard < 0 ||
              (thread.registers[size_t(instruction.guard)] != 0) != instruction.isNegated;
  const std::string &name = instruction.name();
  int fault = kSuccess;
  if (!isOn) {
    return kSuccess;
  } else if (name == "ret" || name == "exit") {
    thread.ended = true;
  } else if (name == "bra") {
    thread.next = program.labels.at(instruction.operands[0][0].text);
  } else if (name == "bar" || name == "barrier") {
    thread.waits = true;
  } else if (name == "griddepcontrol") {
    // Kernels run one after the other.
  } else if (instruction.operands.size() < 2) {
    fault = kIllegalInstruction;
  } else if (name == "ld" || name == "st") {
    fault = access(instruction, thread, number);
  } else {
    uint64_t result = compute(instruction, thread, number);
    Type type = instruction.type();
    Type written = name == "setp"            ? Type{'p', 1}
                   : name == "cvt"           ? instruction.types.front()
                   : instruction.has("wide") ? Type{type.kind, 2 * type.bytes}
                                             : type;
    thread.registers[instruction.operands[0][0].number] = narrowed(result, written);
    fault = isUnknown ? kIllegalInstruction : kSuccess;
  }
  if (fault != kSuccess) {
    fprintf(stderr, "block %u, thread %u: %s: error %d\n", block, number, instruction.text.c_str(),
            fault);
  }
  return fault;
}

int Program::run(const KernelCall &call) const {
  uint64_t steps = 0;
  for (unsigned block = 0; block < call.grid; ++block) {
    if (int fault = Block(*this, call, block, steps).run()) {
      return fault;
    }
  }
  return kSuccess;
}

} // namespace

std::unique_ptr<const KernelInfo> interpretedKernel(const std::string &module,
                                                    const std::string &entry) {
  size_t start = module.find(".entry " + entry + "(");
  if (start == std::string::npos) {
    return nullptr;
  }
  size_t open = module.find('(', start), close = module.find(')', open);
  size_t body = module.find('{', close), end = body;
  for (int depth = 0; end < module.size(); ++end) {
    depth += module[end] == '{' ? 1 : module[end] == '}' ? -1 : 0;
    if (depth == 0) {
      break;
    }
  }
  std::stringstream lines(module.substr(body + 1, end - body - 1));
  std::string plain;
  for (std::string line; std::getline(lines, line);) {
    plain += line.substr(0, line.find("//")) + "\n";
  }
  auto program =
      std::make_shared<Program>(module.substr(open + 1, close - open - 1), plain, module);
  return std::make_unique<const KernelInfo>(
      KernelInfo{"", 0, program->parameterCount(),
                 [program](const KernelCall &call) { return program->run(call); }});
}

} // namespace tenon::test
