// Prints a plan as text: ports, buffers and instructions, one a line. For people, tests and dumps.
// Relies on ExprTable::format for sizes.
#include "compiler/plan/BuildPlan.h"
#include "engine/LibraryAbi.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/raw_ostream.h"

namespace tenon::plan {
namespace {

constexpr llvm::StringLiteral kSpaces[] = {"const", "arena", "state", "input", "output"};

class Printer {
public:
  Printer(const engine::Variant &planVariant, llvm::ArrayRef<engine::Weight> planWeights,
          llvm::raw_ostream &out)
      : variant(planVariant), plan(planVariant.plan), weights(planWeights), os(out) {
    for (const engine::Symbol &symbol : plan.symbols) {
      names.push_back(symbol.name);
    }
  }

  void print() {
    os << "plan " << variant.level << ", arena " << plan.arenaBytes << '\n';
    for (const engine::Section &section : plan.sections) {
      os << "section " << section.first << ".." << section.end << '\n';
    }
    for (const engine::Symbol &symbol : plan.symbols) {
      os << "symbol " << symbol.name << " [" << symbol.min << ".." << symbol.max << "] ";
      if (symbol.isOfSession) {
        os << "of the session, " << symbol.preset << " by default\n";
      } else if (symbol.isDataDependent()) {
        os << "<= " << format(symbol.bound) << '\n';
      } else {
        os << "= input " << symbol.input << " dim " << symbol.dim << '\n';
      }
    }
    printPorts("input", plan.inputs);
    printPorts("output", plan.outputs);
    for (size_t i = 0; i < plan.buffers.size(); ++i) {
      printBuffer(i, plan.buffers[i]);
    }
    for (size_t i = 0; i < plan.instructions.size(); ++i) {
      os << i << ": ";
      printInstruction(plan.instructions[i]);
    }
  }

private:
  std::string format(engine::ExprId id) const { return plan.exprs.format(id, names); }

  std::string format(llvm::ArrayRef<engine::ExprId> ids) const {
    return llvm::join(llvm::map_range(ids, [&](engine::ExprId id) { return format(id); }), ", ");
  }

  static std::string buffers(llvm::ArrayRef<uint32_t> ids) {
    return llvm::join(llvm::map_range(ids, [](uint32_t id) { return "%" + std::to_string(id); }),
                      ", ");
  }

  void printPorts(llvm::StringRef kind, llvm::ArrayRef<engine::Port> ports) {
    for (const engine::Port &port : ports) {
      os << kind << ' ' << port.name << ' ' << nameOf(port.dtype) << '[' << format(port.dims)
         << "] = %" << port.buffer << '\n';
    }
  }

  void printBuffer(size_t index, const engine::Buffer &buffer) {
    os << '%' << index << " = " << kSpaces[static_cast<size_t>(buffer.space)] << ' '
       << format(buffer.size) << " bytes";
    if (buffer.weight != engine::kNone) {
      os << " of " << weights[buffer.weight].name;
    }
    if (buffer.space == engine::Space::Arena) {
      os << ", live " << buffer.firstUse << ".." << buffer.lastUse;
      if (buffer.offset != engine::kPlannedAtRunTime) {
        os << ", at " << buffer.offset;
      }
    }
    os << '\n';
  }

  void printInstruction(const engine::Instruction &instruction) {
    llvm::ArrayRef<uint32_t> ids = instruction.buffers;
    switch (instruction.kind) {
    case engine::InstructionKind::Launch:
      os << "launch " << variant.kernels[instruction.kernel] << '(' << format(instruction.sizes)
         << ") grid " << format(instruction.grid);
      if (instruction.threads != 0) {
        os << " x " << instruction.threads << " threads";
      }
      if (instruction.scratch != engine::kNone) {
        os << " scratch " << format(instruction.scratch);
      }
      printTensorMaps(instruction);
      break;
    case engine::InstructionKind::Call:
      os << "call " << libraryOp(instruction) << '(' << format(instruction.sizes) << ')';
      break;
    case engine::InstructionKind::Copy:
      os << "copy " << format(instruction.sizes) << " bytes";
      break;
    case engine::InstructionKind::Collective:
      os << engine::nameOf(instruction.collective) << ' ' << nameOf(instruction.dtype) << '('
         << format(instruction.sizes) << ')';
      if (instruction.kernel != engine::kNone) {
        os << " by " << variant.kernels[instruction.kernel] << " x " << instruction.threads
           << " threads";
      }
      break;
    case engine::InstructionKind::Size:
      os << "size " << names[instruction.symbol];
      break;
    default:
      os << "return\n";
      return;
    }
    os << (instruction.isFallback ? " fallback" : "") << (instruction.queue != 0 ? " queue 1" : "")
       << " reads " << buffers(ids.take_front(instruction.reads)) << " writes "
       << buffers(ids.drop_front(instruction.reads)) << "  ; " << instruction.label << '\n';
  }

  void printTensorMaps(const engine::Instruction &instruction) {
    for (const engine::TensorMap &map : instruction.tensorMaps) {
      os << " map %" << instruction.buffers[map.buffer] << '[' << format(map.rows) << " x "
         << format(map.columns) << "] rows of " << format(map.rowBytes) << " bytes, boxes "
         << map.boxRows << " x " << map.boxColumns;
    }
  }

  static llvm::StringRef libraryOp(const engine::Instruction &instruction) {
    switch (static_cast<engine::LibraryOp>(instruction.call.front())) {
    case engine::LibraryOp::Matmul:
      return "matmul";
    case engine::LibraryOp::ScaledMatmul:
      return "scaled_matmul";
    case engine::LibraryOp::Conv:
      return "conv";
    case engine::LibraryOp::Attention:
      return "attention";
    }
    return "unknown";
  }

  const engine::Variant &variant;
  const engine::Plan &plan;
  llvm::ArrayRef<engine::Weight> weights;
  llvm::raw_ostream &os;
  std::vector<std::string> names;
};

} // namespace

std::string printPlan(const engine::Variant &variant, llvm::ArrayRef<engine::Weight> weights) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  Printer(variant, weights, stream).print();
  return text;
}

} // namespace tenon::plan
