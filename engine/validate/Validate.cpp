// Checks expressions, symbols, ports and instructions of a plan; ValidateBuffers.cpp checks where
// buffers lie. Each rule is stated once, in the message it gives.
//
// One file: the rules of a plan in the order of its parts.

#include "engine/validate/Validate.h"

#include "engine/validate/ValidateBuffers.h"
#include "engine/validate/ValidateCall.h"
#include "support/text/Text.h"

#include <algorithm>
#include <set>

namespace tenon::engine {
namespace {

/// Of a block on a GPU.
constexpr uint32_t kMaxBlockThreads = 1024;
constexpr uint32_t kMaxClusterBlocks = 16;
constexpr uint16_t kLastQueue = 1;

class PlanValidator {
public:
  PlanValidator(const Plan &validatedPlan, std::span<const Weight> engineWeights, size_t kernels,
                uint16_t planDevice)
      : plan(validatedPlan), weights(engineWeights), kernelCount(kernels), device(planDevice),
        knownSymbols(validatedPlan.knownSymbols()) {}

  Status run() {
    if (plan.ranks < 1 || plan.ranks > kMaxPlanRanks || plan.stages < 1 ||
        plan.ranks % plan.stages != 0) {
      return Status::error(
          ErrorId::EngineUnsupportedInstruction,
          strCat("the plan is for ", plan.ranks, " ranks in ", plan.stages, " stages"),
          "use a newer runtime or compile the model again");
    }
    TENON_TRY(checkExprs());
    TENON_TRY(checkSymbols());
    TENON_TRY(checkConstraints());
    TENON_TRY(validateBuffers(plan, weights, device, roots));
    std::set<std::string_view> names;
    std::set<uint32_t> bound;
    TENON_TRY(checkPorts(plan.inputs, "input", Space::Input, names, bound));
    names.clear();
    TENON_TRY(checkPorts(plan.outputs, "output", Space::Output, names, bound));
    TENON_TRY(checkAllBound(bound));
    TENON_TRY(checkInstructions());
    return checkSections();
  }

private:
  bool isExpr(ExprId id) const { return id < plan.exprs.size(); }

  /// Whether an expression names none but the first `count` symbols.
  bool isOver(ExprId id, size_t count) const {
    return isExpr(id) && plan.exprs.symbolsNamed(id) <= count;
  }

  /// Looks into each expression once, however often the plan names it.
  Status checkExprs() const {
    for (ExprId id = 0; id < plan.exprs.size(); ++id) {
      if (!isValidProgram(plan.exprs.program(id), plan.symbols.size())) {
        return Status::error(ErrorId::EngineBadExpression,
                             strCat("expression ", id, " is not a valid program"), kAgain);
      }
    }
    return Status::ok();
  }

  static Status portError(std::string_view message) {
    return Status::error(ErrorId::EngineBadPort, message, kAgain);
  }

  Status checkSymbols() const {
    size_t ofSession = plan.sessionSymbols();
    std::set<std::string_view> names;
    for (size_t i = 0; i < plan.symbols.size(); ++i) {
      const Symbol &symbol = plan.symbols[i];
      if (symbol.name.empty() || symbol.min < 0 || symbol.max < symbol.min) {
        return portError(strCat("symbol ", i, " has no name or an empty range"));
      }
      bool hasDim = symbol.input != kNone || symbol.dim != kNone;
      if (i < ofSession) {
        if (hasDim || symbol.isDataDependent() || symbol.preset < symbol.min ||
            symbol.preset > symbol.max || !names.insert(symbol.name).second) {
          return portError(strCat("symbol '", symbol.name,
                                  "' of the session has a dim or a bound, a value outside its "
                                  "range, or the name of another"));
        }
        continue;
      }
      if (i >= knownSymbols) {
        if (!isOver(symbol.bound, i) || hasDim || symbol.isOfSession) {
          return portError(strCat("symbol '", symbol.name,
                                  "' has a dim, or no bound over the symbols before it"));
        }
        continue;
      }
      bool isBound = !symbol.isDataDependent() && !symbol.isOfSession &&
                     symbol.input < plan.inputs.size() &&
                     symbol.dim < plan.inputs[symbol.input].dims.size();
      if (!isBound) {
        return portError(strCat("symbol '", symbol.name, "' is not bound to a dim of an input"));
      }
    }
    return Status::ok();
  }

  Status checkConstraints() const {
    for (size_t i = 0; i < plan.constraints.size(); ++i) {
      const Constraint &constraint = plan.constraints[i];
      bool isKnown = static_cast<uint8_t>(constraint.kind) <= kLastConstraintKind;
      if (!isKnown || !isExpr(constraint.left) || !isExpr(constraint.right)) {
        return Status::error(
            ErrorId::EngineBadExpression,
            strCat("constraint ", i, " has an unknown kind or does not name an expression"),
            kAgain);
      }
    }
    return Status::ok();
  }

  Status checkPorts(const std::vector<Port> &ports, const char *kind, Space space,
                    std::set<std::string_view> &names, std::set<uint32_t> &bound) const {
    for (const Port &port : ports) {
      std::string what = strCat(kind, " '", port.name, "'");
      if (port.name.empty() || !names.insert(port.name).second) {
        return portError(strCat(what, ": the name is empty or used twice"));
      }
      if (!isDType(static_cast<uint8_t>(port.dtype)) || port.dims.size() > kMaxRank) {
        return portError(strCat(what, ": unknown type, or more than ", kMaxRank, " dims"));
      }
      for (ExprId dim : port.dims) {
        if (!isExpr(dim)) {
          return portError(strCat(what, ": a dim does not name an expression"));
        }
        if (space == Space::Input && !isOver(dim, knownSymbols)) {
          return portError(strCat(what, ": one of its dims depends on data"));
        }
      }
      bool isRoot = port.buffer < plan.buffers.size() && roots[port.buffer] == port.buffer;
      if (!isRoot || plan.buffers[port.buffer].space != space ||
          !bound.insert(port.buffer).second) {
        return portError(
            strCat(what, ": its buffer is missing, in another space, a view or shared"));
      }
    }
    return Status::ok();
  }

  Status checkAllBound(const std::set<uint32_t> &bound) const {
    for (uint32_t i = 0; i < plan.buffers.size(); ++i) {
      Space space = plan.buffers[i].space;
      bool needsPort = roots[i] == i && (space == Space::Input || space == Space::Output);
      if (needsPort && !bound.count(i)) {
        return portError(strCat("buffer ", i, " is the caller's but belongs to no port"));
      }
    }
    return Status::ok();
  }

  static Status instructionError(size_t index, const Instruction &instruction,
                                 std::string_view message) {
    return Status::error(ErrorId::EngineBadInstruction,
                         strCat("instruction ", index, " '", instruction.label, "': ", message),
                         kAgain);
  }

  Status checkInstructions() const {
    if (plan.instructions.empty() || plan.instructions.back().kind != InstructionKind::Return) {
      return Status::error(ErrorId::EngineBadInstruction, "the plan does not end with a return",
                           kAgain);
    }
    size_t known = knownSymbols;
    for (size_t i = 0; i < plan.instructions.size(); ++i) {
      const Instruction &instruction = plan.instructions[i];
      if (instruction.device != device || instruction.queue > kLastQueue) {
        return Status::error(ErrorId::EngineUnsupportedInstruction,
                             strCat("instruction ", i, " is for device ", instruction.device,
                                    ", queue ", instruction.queue, "; this variant has device ",
                                    device, ", queues 0 and 1"),
                             "use a newer runtime or compile the model again");
      }
      TENON_TRY(checkStages(i, instruction));
      TENON_TRY(checkOperands(i, instruction));
      TENON_TRY(checkTensorMaps(i, instruction));
      TENON_TRY(checkKind(i, instruction));
      if (!namesKnown(instruction, known)) {
        return instructionError(i, instruction, "it names a symbol before data has decided it");
      }
      if (instruction.kind == InstructionKind::Size && instruction.symbol != known++) {
        return instructionError(i, instruction, "it does not define the next symbol in order");
      }
    }
    if (known != plan.symbols.size()) {
      return portError(strCat("nothing defines symbol '", plan.symbols[known].name, "'"));
    }
    return Status::ok();
  }

  /// Sections follow each other on a GPU, before data decides a size, and hold all of queue 1.
  Status checkSections() const {
    uint32_t end = 0;
    for (const Section &section : plan.sections) {
      if (device == kHost || section.first < end || section.end <= section.first ||
          section.end >= plan.instructions.size()) {
        return Status::error(ErrorId::EngineBadInstruction,
                             strCat("the section of instructions ", section.first, " to ",
                                    section.end, " is not possible"),
                             kAgain);
      }
      end = section.end;
    }
    std::span<const Section> rest = plan.sections;
    for (uint32_t i = 0; i < plan.instructions.size(); ++i) {
      const Instruction &instruction = plan.instructions[i];
      rest = rest.subspan(!rest.empty() && rest.front().end == i ? 1 : 0);
      bool isInside = !rest.empty() && i >= rest.front().first;
      if ((instruction.queue != 0 && !isInside) ||
          (instruction.kind == InstructionKind::Size && !rest.empty())) {
        return instructionError(
            i, instruction,
            "it is on queue 1 outside the sections, or decides a size before their end");
      }
    }
    return Status::ok();
  }

  /// Whether all that an instruction is evaluated with names none but the first `known` symbols.
  bool namesKnown(const Instruction &instruction, size_t known) const {
    if (known == plan.symbols.size()) {
      return true;
    }
    auto isKnown = [&](ExprId id) { return id == kNone || isOver(id, known); };
    bool areKnown = std::ranges::all_of(instruction.sizes, isKnown) && isKnown(instruction.grid) &&
                    isKnown(instruction.scratch);
    for (uint32_t buffer : instruction.buffers) {
      areKnown &= isKnown(plan.buffers[buffer].size);
    }
    for (const TensorMap &map : instruction.tensorMaps) {
      areKnown &= isKnown(map.rows) && isKnown(map.columns) && isKnown(map.rowBytes);
    }
    return areKnown;
  }

  Status checkOperands(size_t index, const Instruction &instruction) const {
    if (instruction.reads > instruction.buffers.size()) {
      return instructionError(index, instruction, "it reads more buffers than it has");
    }
    for (size_t i = 0; i < instruction.buffers.size(); ++i) {
      uint32_t id = instruction.buffers[i];
      if (id >= plan.buffers.size()) {
        return instructionError(index, instruction, "it names a buffer that does not exist");
      }
      const Buffer &root = plan.buffers[roots[id]];
      bool readOnly = root.space == Space::Const || root.space == Space::Input;
      if (readOnly && i >= instruction.reads) {
        return instructionError(index, instruction, "it writes to weights or an input");
      }
      if (root.space == Space::Arena && (index < root.firstUse || index > root.lastUse)) {
        return instructionError(index, instruction, "it uses a buffer outside its lifetime");
      }
    }
    bool hasAll = std::ranges::all_of(instruction.sizes, [&](ExprId id) { return isExpr(id); });
    for (ExprId id : {instruction.grid, instruction.flops, instruction.bytesMoved}) {
      hasAll &= id == kNone || isExpr(id);
    }
    return hasAll ? Status::ok()
                  : instructionError(index, instruction, "it names a size that does not exist");
  }

  Status checkTensorMaps(size_t index, const Instruction &instruction) const {
    if (!instruction.tensorMaps.empty() &&
        (device == kHost || instruction.kind != InstructionKind::Launch ||
         instruction.tensorMaps.size() > kMaxTensorMaps)) {
      return instructionError(
          index, instruction,
          strCat("tensor maps are for launches on a GPU, at most ", kMaxTensorMaps, " for each"));
    }
    for (const TensorMap &map : instruction.tensorMaps) {
      if (map.buffer >= instruction.buffers.size() || !isExpr(map.rows) || !isExpr(map.columns) ||
          !isExpr(map.rowBytes)) {
        return instructionError(index, instruction,
                                "a tensor map names a buffer or size that does not exist");
      }
      if (map.elementBytes != 2 || map.boxRows < 1 || map.boxRows > kMaxBoxRows ||
          uint32_t(map.boxColumns) * map.elementBytes != kBoxRowBytes) {
        return instructionError(index, instruction,
                                strCat("boxes of ", map.boxRows, " x ", map.boxColumns,
                                       " elements of ", map.elementBytes, " bytes"));
      }
    }
    return Status::ok();
  }

  /// Fallback launches follow a call, one after the other; behind a collective with a kernel also
  /// the collective without one.
  bool standsForCall(size_t index) const {
    bool isExchanged = false;
    while (plan.instructions[index].isFallback) {
      bool isCollective = plan.instructions[index].kind == InstructionKind::Collective;
      isExchanged |= isCollective;
      if (index == 0 ||
          (!isCollective && plan.instructions[index].kind != InstructionKind::Launch)) {
        return false;
      }
      --index;
    }
    const Instruction &first = plan.instructions[index];
    return isExchanged ? first.kind == InstructionKind::Collective && first.kernel != kNone
                       : first.kind == InstructionKind::Call;
  }

  /// A sum on a GPU that has a fallback.
  bool isDoneByKernel(size_t index, const Instruction &instruction) const {
    const Instruction &next = plan.instructions[std::min(index + 1, plan.instructions.size() - 1)];
    return device != kHost && instruction.kernel < kernelCount && instruction.threads >= 1 &&
           instruction.threads <= kMaxBlockThreads &&
           instruction.collective == CollectiveKind::AllReduce &&
           next.kind == InstructionKind::Collective && next.isFallback;
  }

  Status checkCollective(size_t index, const Instruction &instruction) const {
    bool hasKernel = instruction.kernel != kNone;
    if (instruction.buffers.size() != (hasKernel ? 5 : 2) ||
        instruction.reads != (hasKernel ? 3 : 1) ||
        instruction.sizes.size() != (hasKernel ? 2 : 1) ||
        (hasKernel && !isDoneByKernel(index, instruction))) {
      return instructionError(index, instruction, "a collective of other operands than its kind's");
    }
    bool isSum = instruction.collective == CollectiveKind::AllReduce;
    bool isKnown = static_cast<uint8_t>(instruction.collective) <= kLastCollectiveKind &&
                   isDType(static_cast<uint8_t>(instruction.dtype));
    if (!isKnown || (isSum && !isSummed(instruction.dtype))) {
      return instructionError(index, instruction, "a collective of an unknown kind or type");
    }
    if (!isBetweenStages(instruction) && plan.ranksOfStage() == 1) {
      return instructionError(index, instruction, "a collective in a plan of one rank");
    }
    return Status::ok();
  }

  static bool isBetweenStages(const Instruction &instruction) {
    return instruction.kind == InstructionKind::Collective &&
           instruction.collective == CollectiveKind::SendReceive;
  }

  Status checkStages(size_t index, const Instruction &instruction) const {
    uint64_t stages = instruction.stages, sender = stages & (~stages + 1);
    bool isInPlan = plan.stages == 64 || stages >> plan.stages == 0;
    bool isSized = instruction.kind == InstructionKind::Size;
    bool isPossible = isInPlan && (plan.stages > 1 ? !isSized : stages == 0);
    if (isBetweenStages(instruction)) {
      bool hasRows = instruction.symbol == kNone || instruction.symbol < plan.symbols.size();
      isPossible = isPossible && hasRows && sender != 0 && stages == (sender | sender << 1);
    }
    return isPossible ? Status::ok()
                      : instructionError(index, instruction, "it lacks stages or rows");
  }

  static bool isSummed(DType type) {
    return type == DType::F32 || type == DType::F16 || type == DType::BF16 || type == DType::F64;
  }

  Status checkKind(size_t index, const Instruction &instruction) const {
    if (instruction.canFail && (device == kHost || instruction.kind != InstructionKind::Launch)) {
      return instructionError(index, instruction, "only launches on a GPU can have a status slot");
    }
    bool isPlain = instruction.cluster == 1 && !instruction.isDependentLaunch;
    if (!isPlain && (device == kHost || instruction.kind != InstructionKind::Launch)) {
      return instructionError(index, instruction,
                              "only launches on a GPU can have clusters or wait");
    }
    if (instruction.cluster == kWholeGrid && instruction.isDependentLaunch) {
      return instructionError(index, instruction, "a cooperative launch cannot start early");
    }
    if (instruction.cluster > kMaxClusterBlocks) {
      return instructionError(index, instruction,
                              strCat("clusters of ", instruction.cluster, " blocks"));
    }
    if (instruction.isFallback && !standsForCall(index)) {
      return instructionError(index, instruction, "it is not the fallback of a call");
    }
    switch (instruction.kind) {
    case InstructionKind::Launch:
      if (instruction.kernel >= kernelCount || !isExpr(instruction.grid) ||
          (instruction.scratch != kNone && !isExpr(instruction.scratch))) {
        return instructionError(index, instruction, "its kernel, grid or scratch does not exist");
      }
      if (device == kHost ? instruction.threads != 0
                          : instruction.threads < 1 || instruction.threads > kMaxBlockThreads) {
        return instructionError(index, instruction,
                                strCat("blocks of ", instruction.threads, " threads"));
      }
      return Status::ok();
    case InstructionKind::Call:
      if (device == kHost) {
        break;
      }
      if (std::optional<std::string> fault = faultOfCall(instruction)) {
        return instructionError(index, instruction, *fault);
      }
      return Status::ok();
    case InstructionKind::Copy:
      if (instruction.buffers.size() != 2 || instruction.reads != 1 ||
          instruction.sizes.size() != 1) {
        return instructionError(index, instruction, "a copy needs two buffers and one size");
      }
      return Status::ok();
    case InstructionKind::Collective:
      return checkCollective(index, instruction);
    case InstructionKind::Size:
      if (instruction.buffers.size() != 1 || instruction.reads != 1 || !instruction.sizes.empty() ||
          plan.exprs.constantValue(plan.buffers[instruction.buffers[0]].size) != sizeof(int64_t)) {
        return instructionError(index, instruction,
                                "a size must be read from one buffer of 8 bytes");
      }
      return Status::ok();
    case InstructionKind::Return:
      if (index + 1 != plan.instructions.size() || !instruction.buffers.empty()) {
        return instructionError(index, instruction, "a return must be alone at the end");
      }
      return Status::ok();
    default:
      break;
    }
    return Status::error(ErrorId::EngineUnsupportedInstruction,
                         strCat("instruction ", index, " has the kind ",
                                static_cast<unsigned>(instruction.kind),
                                ", which this runtime does not support"),
                         "use a newer runtime");
  }

  const Plan &plan;
  std::span<const Weight> weights;
  size_t kernelCount;
  uint16_t device;
  size_t knownSymbols;
  std::vector<uint32_t> roots;
};

} // namespace

Status validatePlan(const Plan &plan, std::span<const Weight> weights, size_t kernelCount,
                    uint16_t device) {
  return PlanValidator(plan, weights, kernelCount, device).run();
}

Status validateSameModel(const Plan &general, const Plan &plan) {
  auto isSame = [](const Port &a, const Port &b) {
    return a.name == b.name && a.dtype == b.dtype && a.dims.size() == b.dims.size();
  };
  auto hasState = [](const Plan &each) {
    return each.sessionSymbols() != 0 ||
           std::ranges::any_of(each.buffers,
                               [](const Buffer &buffer) { return buffer.space == Space::State; });
  };
  bool isSound = std::ranges::equal(general.inputs, plan.inputs, isSame) &&
                 std::ranges::equal(general.outputs, plan.outputs, isSame) && !hasState(general) &&
                 !hasState(plan) && general.ranks == plan.ranks && general.stages == plan.stages;
  return isSound
             ? Status::ok()
             : Status::error(
                   ErrorId::EngineBadPort,
                   "its inputs, outputs or ranks differ from the first's, or it has state", kAgain);
}

} // namespace tenon::engine
