// Evaluates a plan for one set of input dims. The plan is valid in itself; what is checked here is
// what depends on the dims: ranges, relations, sizes, views and copies in bounds. One file, since
// each of these checks relies on those before it.

#include "runtime/plan/BoundPlan.h"

#include "engine/Constraints.h"
#include "support/Shape.h"
#include "support/text/Text.h"

#include <algorithm>
#include <utility>

namespace tenon::runtime {

using engine::Buffer;
using engine::ExprId;
using engine::Instruction;
using engine::InstructionKind;
using engine::kNone;
using engine::Plan;
using engine::Port;
using engine::Space;
using engine::Symbol;

namespace {

/// Search steps for the arena of a new shape: a few milliseconds at most, inside a first run.
constexpr uint64_t kPlannerNodes = 2000;
/// What one thread moves and computes in the microsecond that sharing a launch out takes.
constexpr int64_t kSmallBytes = 16 << 10, kSmallFlops = 32 << 10;

} // namespace

class PlanBinder {
public:
  PlanBinder(const Plan &boundPlan, BoundPlan &bound) : plan(boundPlan), out(bound) {}

  Status run(std::span<const int64_t> session, int64_t alignment, OffsetPlanner &planner) {
    bindSymbols(session);
    TENON_TRY(engine::checkConstraints(plan, out.symbols, out.knownSymbols));
    Status inRange = checkRanges();
    if (!inRange.isOk()) {
      out.arenaOffsets.assign(plan.buffers.size(), 0);
      return isEmptyRun() ? Status::ok() : inRange;
    }
    TENON_TRY(takeBounds());
    TENON_TRY(evaluateAll());
    TENON_TRY(checkInputs());
    TENON_TRY(placeBuffers());
    TENON_TRY(bindPorts(plan.inputs, "input", out.inputBytes, nullptr));
    TENON_TRY(bindPorts(plan.outputs, "output", out.outputBytes, &out.outputDims));
    TENON_TRY(bindInstructions());
    return planArena(alignment, planner);
  }

  /// With symbols that are not those for which memory was laid out.
  Status runAgain() {
    TENON_TRY(takeBounds());
    TENON_TRY(evaluateAll());
    TENON_TRY(checkRoom());
    TENON_TRY(bindPorts(plan.outputs, "output", out.outputBytes, &out.outputDims));
    int64_t scratchRoom = out.scratchBytes;
    out.sources.clear();
    out.portPointers.clear();
    out.sizes.clear();
    out.maps.clear();
    out.steps.clear();
    out.statusCount = 0;
    TENON_TRY(bindInstructions());
    bool fits = out.scratchBytes == scratchRoom;
    out.scratchBytes = scratchRoom;
    return fits ? Status::ok() : sizeError("a launch needs more scratch memory than was laid out");
  }

  Status bindSize(uint32_t index, int64_t count) {
    const Symbol &symbol = plan.symbols[index];
    std::optional<int64_t> most = engine::evaluate(plan.exprs.program(symbol.bound), out.symbols);
    if (!most || count < 0 || count > *most) {
      return sizeError(strCat("'", symbol.name, "' is ", count, ", outside its bounds"));
    }
    out.symbols[index] = count;
    out.knownSymbols = index + 1;
    TENON_TRY(engine::checkConstraints(plan, out.symbols, out.knownSymbols));
    if (count < symbol.min || count > symbol.max) {
      return Status::error(ErrorId::RunConstraint,
                           strCat("'", symbol.name, "' is ", count, ", but the engine accepts ",
                                  symbol.min, " to ", symbol.max),
                           "the data of this run selects something that the model does not allow");
    }
    return runAgain();
  }

private:
  int64_t value(ExprId id) const { return out.values[id]; }

  static Status sizeError(std::string_view message) {
    return Status::error(ErrorId::RunBadSize, message,
                         "the engine is from a faulty compiler; report it with the input dims");
  }

  size_t flatIndex(uint32_t input, uint32_t dim) const {
    size_t index = dim;
    for (uint32_t i = 0; i < input; ++i) {
      index += plan.inputs[i].dims.size();
    }
    return index;
  }

  void bindSymbols(std::span<const int64_t> session) {
    out.symbols.assign(session.begin(), session.end());
    out.symbols.resize(plan.symbols.size());
    out.knownSymbols = plan.knownSymbols();
    for (size_t i = session.size(); i < out.knownSymbols; ++i) {
      const Symbol &symbol = plan.symbols[i];
      out.symbols[i] = out.inputDims[flatIndex(symbol.input, symbol.dim)];
    }
  }

  /// What data will decide is as large as the engine takes.
  Status takeBounds() {
    for (size_t i = out.knownSymbols; i < out.symbols.size(); ++i) {
      const Symbol &symbol = plan.symbols[i];
      std::optional<int64_t> most = engine::evaluate(plan.exprs.program(symbol.bound), out.symbols);
      if (!most) {
        return sizeError(strCat("the bound of '", symbol.name, "' overflows"));
      }
      out.symbols[i] = std::clamp(*most, symbol.min, symbol.max);
    }
    return Status::ok();
  }

  /// After the constraints, which say why a range is narrower than what the model declares.
  Status checkRanges() const {
    for (size_t i = plan.sessionSymbols(); i < out.knownSymbols; ++i) {
      const Symbol &symbol = plan.symbols[i];
      int64_t dim = out.symbols[i];
      if (dim < symbol.min || dim > symbol.max) {
        return Status::error(
            ErrorId::RunInputDim,
            strCat("input '", plan.inputs[symbol.input].name, "' has ", dim, " in dim ", symbol.dim,
                   " ('", symbol.name, "'), but the engine accepts ", symbol.min, " to ",
                   symbol.max),
            dim == 0 ? "where every output is empty, 0 is accepted too; for others compile with "
                       "--shape and a range from 0"
                     : "pass dims in this range, or compile with a wider --shape range");
      }
    }
    return Status::ok();
  }

  /// Whether nothing is to be computed: a dim is 0 for which no code was made, as a batch of no
  /// items, and every output is empty by it. Then there are no steps. Not where runs keep
  /// something, or data decides sizes.
  bool isEmptyRun() {
    bool isEmpty = out.knownSymbols == out.symbols.size();
    for (size_t i = 0; i < out.symbols.size(); ++i) {
      const Symbol &symbol = plan.symbols[i];
      int64_t dim = out.symbols[i];
      isEmpty &= dim <= symbol.max && (dim >= symbol.min || (dim == 0 && symbol.min == 1));
    }
    for (const Buffer &buffer : plan.buffers) {
      isEmpty &= buffer.space != Space::State;
    }
    return isEmpty && evaluatePorts(plan.inputs) && evaluatePorts(plan.outputs) &&
           checkInputs().isOk() &&
           bindPorts(plan.inputs, "input", out.inputBytes, nullptr).isOk() &&
           bindPorts(plan.outputs, "output", out.outputBytes, &out.outputDims).isOk() &&
           std::ranges::all_of(out.outputBytes, [](int64_t bytes) { return bytes == 0; });
  }

  /// What belongs to ports alone: other expressions may divide by what is 0.
  bool evaluatePorts(const std::vector<Port> &ports) {
    out.values.resize(plan.exprs.size());
    auto evaluate = [&](ExprId id) {
      std::optional<int64_t> result = engine::evaluate(plan.exprs.program(id), out.symbols);
      out.values[id] = result.value_or(0);
      return result.has_value();
    };
    return std::ranges::all_of(ports, [&](const Port &port) {
      return std::ranges::all_of(port.dims, evaluate) && evaluate(plan.buffers[port.buffer].size);
    });
  }

  Status evaluateAll() {
    out.values.resize(plan.exprs.size());
    for (ExprId id = 0; id < plan.exprs.size(); ++id) {
      std::optional<int64_t> result = engine::evaluate(plan.exprs.program(id), out.symbols);
      if (!result) {
        return sizeError(
            strCat("expression ", plan.exprs.format(id), " overflows or divides by 0"));
      }
      out.values[id] = *result;
    }
    return Status::ok();
  }

  Status checkInputs() const {
    size_t flat = 0;
    for (const Port &port : plan.inputs) {
      for (size_t dim = 0; dim < port.dims.size(); ++dim, ++flat) {
        if (out.inputDims[flat] != value(port.dims[dim])) {
          return mismatch(port, dim, out.inputDims[flat]);
        }
      }
    }
    return Status::ok();
  }

  Status mismatch(const Port &port, size_t dim, int64_t given) const {
    ExprId expected = port.dims[dim];
    if (plan.exprs.constantValue(expected)) {
      return Status::error(ErrorId::RunInputDim,
                           strCat("input '", port.name, "' has ", given, " in dim ", dim,
                                  ", but the engine accepts ", value(expected)),
                           "pass this dim, or compile with a range for it");
    }
    std::vector<std::string> names;
    for (const Symbol &symbol : plan.symbols) {
      names.push_back(symbol.name);
    }
    bool isOfSession = plan.exprs.symbolsNamed(expected) <= plan.sessionSymbols();
    return Status::error(ErrorId::RunInputMismatch,
                         strCat("input '", port.name, "' has ", given, " in dim ", dim,
                                ", but the ", isOfSession ? "session makes" : "other inputs make",
                                " it ", value(expected), " (", plan.exprs.format(expected, names),
                                ")"),
                         "pass inputs whose dims agree");
  }

  /// Sizes are not negative and views lie in what they view; an offset counts from the root.
  Status placeBuffers() {
    for (uint32_t i = 0; i < plan.buffers.size(); ++i) {
      const Buffer &buffer = plan.buffers[i];
      int64_t size = value(buffer.size);
      PointerSource source = {i, 0, size};
      bool fits = size >= 0 && size <= INT64_MAX / 2;
      if (buffer.aliasOf != kNone && fits) {
        int64_t room = value(plan.buffers[buffer.aliasOf].size);
        int64_t offset = value(buffer.aliasOffset);
        fits = offset >= 0 && offset <= room && size <= room - offset;
        source.root = out.placed[buffer.aliasOf].root;
        source.offset = fits ? out.placed[buffer.aliasOf].offset + offset : 0;
      }
      if (!fits) {
        return sizeError(strCat("buffer ", i, " of ", size, " bytes is not possible"));
      }
      out.placed.push_back(source);
    }
    return Status::ok();
  }

  /// A size need not grow with what data decides; memory was laid out for the bounds.
  Status checkRoom() const {
    for (uint32_t i = 0; i < plan.buffers.size(); ++i) {
      int64_t size = value(plan.buffers[i].size);
      if (size < 0 || size > out.placed[i].bytes) {
        return sizeError(
            strCat("buffer ", i, " of ", size, " bytes has room for ", out.placed[i].bytes));
      }
    }
    return Status::ok();
  }

  Status bindPorts(const std::vector<Port> &ports, const char *kind, std::vector<int64_t> &bytes,
                   std::vector<std::vector<int64_t>> *dims) {
    bytes.resize(ports.size());
    if (dims) {
      dims->resize(ports.size());
    }
    std::vector<int64_t> own;
    for (size_t i = 0; i < ports.size(); ++i) {
      const Port &port = ports[i];
      std::vector<int64_t> &shape = dims ? (*dims)[i] : own;
      shape.clear();
      for (ExprId dim : port.dims) {
        shape.push_back(value(dim));
      }
      std::optional<int64_t> size = byteSize(port.dtype, shape);
      if (!size || *size != value(plan.buffers[port.buffer].size)) {
        return sizeError(strCat(kind, " '", port.name, "' of dims ", formatDims(shape),
                                " does not match its buffer"));
      }
      bytes[i] = *size;
    }
    return Status::ok();
  }

  Status bindInstructions() {
    for (uint32_t i = 0; i < plan.instructions.size(); ++i) {
      TENON_TRY(bindInstruction(i));
    }
    return Status::ok();
  }

  Status bindInstruction(uint32_t index) {
    const Instruction &instruction = plan.instructions[index];
    if (instruction.kind == InstructionKind::Return || !instruction.runsIn(out.stage)) {
      return Status::ok();
    }
    BoundStep step;
    step.kind = instruction.kind;
    step.queue = instruction.queue;
    step.instruction = index;
    step.firstPointer = static_cast<uint32_t>(out.sources.size());
    step.firstSize = static_cast<uint32_t>(out.sizes.size());
    step.firstMap = static_cast<uint32_t>(out.maps.size());
    step.firstStatus = out.statusCount;
    for (uint32_t buffer : instruction.buffers) {
      PointerSource source = out.placed[buffer];
      source.bytes = value(plan.buffers[buffer].size);
      Space space = plan.buffers[source.root].space;
      if (space == Space::Input || space == Space::Output) {
        out.portPointers.push_back(static_cast<uint32_t>(out.sources.size()));
      }
      out.sources.push_back(source);
    }
    for (ExprId size : instruction.sizes) {
      out.sizes.push_back(value(size));
    }
    step.pointerCount = static_cast<uint32_t>(instruction.buffers.size());
    step.sizeCount = static_cast<uint32_t>(instruction.sizes.size());
    if (instruction.kind == InstructionKind::Launch) {
      TENON_TRY(bindLaunch(instruction, step));
    } else if (instruction.kind == InstructionKind::Copy) {
      step.grid = instruction.grid == kNone ? 1 : value(instruction.grid);
      TENON_TRY(checkCopy(instruction));
    } else if (instruction.kind == InstructionKind::Collective) {
      step.kernel = instruction.kernel;
      step.threads = instruction.threads;
      step.grid = 1;
      TENON_TRY(checkCollective(instruction));
    }
    out.steps.push_back(step);
    return Status::ok();
  }

  Status bindLaunch(const Instruction &instruction, BoundStep &step) {
    step.kernel = instruction.kernel;
    step.threads = instruction.threads;
    step.canFail = instruction.canFail;
    step.isDependentLaunch = instruction.isDependentLaunch;
    out.statusCount += step.canFail ? 1 : 0;
    step.grid = value(instruction.grid);
    step.scratch = instruction.scratch == kNone ? 0 : value(instruction.scratch);
    if (step.grid < 0 || step.scratch < 0) {
      return sizeError(strCat("'", instruction.label, "' has a negative grid or scratch"));
    }
    out.scratchBytes = std::max(out.scratchBytes, step.scratch);
    auto isAtMost = [&](ExprId id, int64_t most) { return id != kNone && value(id) <= most; };
    step.isSmall =
        isAtMost(instruction.bytesMoved, kSmallBytes) && isAtMost(instruction.flops, kSmallFlops);
    return bindTensorMaps(instruction, step);
  }

  Status bindTensorMaps(const Instruction &instruction, BoundStep &step) {
    step.mapCount = static_cast<uint32_t>(instruction.tensorMaps.size());
    for (const engine::TensorMap &map : instruction.tensorMaps) {
      BoundMap bound = {step.firstPointer + map.buffer,
                        value(map.rows),
                        value(map.columns),
                        value(map.rowBytes),
                        map.boxRows,
                        map.boxColumns};
      const PointerSource &source = out.placed[instruction.buffers[map.buffer]];
      if (step.grid != 0 && !isMatrixIn(source, bound, map.elementBytes)) {
        return sizeError(strCat("'", instruction.label, "' has a matrix of ", bound.rows, " x ",
                                bound.columns, " elements, ", bound.rowBytes,
                                " bytes from row to row, ", source.offset, " bytes into ",
                                "its memory: empty, past the end, or not on 16-byte borders"));
      }
      out.maps.push_back(bound);
    }
    return Status::ok();
  }

  /// Whether a matrix lies in its buffer and is one that a GPU's copy engine takes.
  static bool isMatrixIn(const PointerSource &source, const BoundMap &map, int64_t elementBytes) {
    constexpr int64_t unit = 16, mostElements = int64_t(1) << 32, mostRowBytes = int64_t(1) << 40;
    bool isPossible = map.rows >= 1 && map.rows <= mostElements && map.columns >= 1 &&
                      map.columns <= mostElements && map.rowBytes >= unit &&
                      map.rowBytes < mostRowBytes && map.rowBytes % unit == 0 &&
                      source.offset % unit == 0;
    int64_t lastRow = 0;
    return isPossible && !__builtin_mul_overflow(map.rows - 1, map.rowBytes, &lastRow) &&
           lastRow <= source.bytes && map.columns * elementBytes <= source.bytes - lastRow;
  }

  /// A copy stays inside of its buffers, and its ranges are apart.
  Status checkCopy(const Instruction &instruction) const {
    int64_t bytes = value(instruction.sizes[0]);
    return checkMove(instruction, bytes, bytes);
  }

  Status checkCollective(const Instruction &instruction) const {
    bool isGather = instruction.collective == engine::CollectiveKind::AllGather;
    int64_t bytes = 0, all = 0;
    bool fits = !__builtin_mul_overflow(value(instruction.sizes[0]),
                                        int64_t(bitWidth(instruction.dtype) / 8), &bytes) &&
                !__builtin_mul_overflow(bytes, isGather ? int64_t(plan.ranksOfStage()) : 1, &all);
    fits &= instruction.kernel == kNone || value(instruction.sizes[1]) >= 0;
    bytes = fits ? bytes : -1;
    if (instruction.kernel == kNone) {
      return checkMove(instruction, bytes, all);
    }
    // Summand and residual, and what is written of both.
    for (auto [from, to] : {std::pair(size_t(0), size_t(3)), {0, 4}, {1, 3}, {1, 4}}) {
      TENON_TRY(checkMove(instruction, bytes, bytes, from, to));
    }
    return Status::ok();
  }

  /// Of the first buffer to the second, unless others are named.
  Status checkMove(const Instruction &instruction, int64_t fromBytes, int64_t toBytes,
                   size_t fromBuffer = 0, size_t toBuffer = 1) const {
    const PointerSource &from = out.placed[instruction.buffers[fromBuffer]];
    const PointerSource &to = out.placed[instruction.buffers[toBuffer]];
    bool inBounds = fromBytes >= 0 &&
                    fromBytes <= value(plan.buffers[instruction.buffers[fromBuffer]].size) &&
                    toBytes <= value(plan.buffers[instruction.buffers[toBuffer]].size);
    if (!inBounds) {
      return sizeError(
          strCat("'", instruction.label, "' copies ", toBytes, " bytes past the end of a buffer"));
    }
    bool apart = from.root != to.root || from.offset + fromBytes <= to.offset ||
                 to.offset + toBytes <= from.offset;
    return apart
               ? Status::ok()
               : sizeError(strCat("'", instruction.label, "' copies between ranges that overlap"));
  }

  Status planArena(int64_t alignment, OffsetPlanner &planner) {
    int64_t total = 0;
    out.arenaOffsets.assign(plan.buffers.size(), 0);
    std::vector<PlannedBuffer> live;
    std::vector<uint32_t> owners;
    for (uint32_t i = 0; i < plan.buffers.size(); ++i) {
      const Buffer &buffer = plan.buffers[i];
      if (buffer.space != Space::Arena || out.placed[i].root != i) {
        continue;
      }
      if (buffer.offset != engine::kPlannedAtRunTime) {
        out.arenaOffsets[i] = buffer.offset;
      } else if (value(buffer.size) > 0) {
        if (__builtin_add_overflow(total, value(buffer.size) + alignment, &total)) {
          return sizeError("the arena does not fit in 63 bits");
        }
        live.push_back({buffer.firstUse, int64_t(buffer.lastUse) + 1, value(buffer.size), 0});
        owners.push_back(i);
      }
    }
    OffsetPlannerOptions options;
    options.alignment = alignment;
    options.nodeLimit = kPlannerNodes;
    options.rest = plan.restingInstructions;
    OffsetPlan planned = planner.plan(live, options);
    for (size_t i = 0; i < live.size(); ++i) {
      out.arenaOffsets[owners[i]] = live[i].offset;
    }
    out.arenaBytes = std::max(plan.arenaBytes, planned.bytes);
    out.arenaLowerBound = planned.lowerBound;
    return Status::ok();
  }

  const Plan &plan;
  BoundPlan &out;
};

Result<std::vector<int64_t>> sessionValues(const Plan &plan, std::span<const SymbolValue> given) {
  std::vector<int64_t> values;
  for (size_t i = 0; i < plan.sessionSymbols(); ++i) {
    values.push_back(plan.symbols[i].preset);
  }
  for (const SymbolValue &each : given) {
    size_t index = 0;
    while (index < values.size() && plan.symbols[index].name != each.name) {
      ++index;
    }
    if (index == values.size()) {
      return Status::error(ErrorId::BadArgument,
                           strCat("sessions of the engine have no symbol '", each.name, "'"),
                           "'tenon inspect' lists the symbols of sessions");
    }
    const Symbol &symbol = plan.symbols[index];
    if (each.value < symbol.min || each.value > symbol.max) {
      return Status::error(ErrorId::BadArgument,
                           strCat("'", symbol.name, "' of the session is to be ", each.value,
                                  ", but the engine accepts ", symbol.min, " to ", symbol.max),
                           "give a value in this range, or compile with a wider --shape range");
    }
    values[index] = each.value;
  }
  return values;
}

Result<StateLayout> layOutState(const Plan &plan, std::span<const int64_t> session,
                                int64_t alignment, uint32_t stage) {
  StateLayout layout;
  int64_t end = 0;
  std::vector<bool> isOfStage = engine::buffersOfStage(plan, stage);
  for (size_t i = 0; i < plan.buffers.size(); ++i) {
    const Buffer &buffer = plan.buffers[i];
    layout.offsets.push_back(static_cast<uint64_t>(end));
    if (!isRootOf(buffer, Space::State) || !isOfStage[i]) {
      continue;
    }
    std::optional<int64_t> size = engine::evaluate(plan.exprs.program(buffer.size), session);
    int64_t room = 0;
    if (!size || *size < 0 || __builtin_add_overflow(*size, alignment - 1, &room) ||
        __builtin_add_overflow(end, room / alignment * alignment, &end)) {
      return Status::error(ErrorId::RunBadSize, "the state has a size that is not possible",
                           "create the session with smaller values");
    }
  }
  layout.bytes = static_cast<uint64_t>(end);
  return layout;
}

Result<BoundPlan> BoundPlan::bind(const Plan &plan, std::span<const int64_t> session,
                                  const FlatDims &inputDims, int64_t alignment,
                                  OffsetPlanner &planner, uint32_t stage) {
  BoundPlan bound;
  bound.stage = stage;
  bound.inputDims = inputDims;
  TENON_TRY(PlanBinder(plan, bound).run(session, alignment, planner));
  bound.pointers.resize(bound.sources.size());
  return bound;
}

Status BoundPlan::resetSizes(const Plan &plan) {
  if (knownSymbols == plan.knownSymbols()) {
    return Status::ok();
  }
  // At the bounds all was evaluated once, so that this does not fail half-way.
  knownSymbols = plan.knownSymbols();
  return PlanBinder(plan, *this).runAgain();
}

Status BoundPlan::bindSize(const Plan &plan, const BoundStep &step, int64_t count) {
  return PlanBinder(plan, *this).bindSize(plan.instructions[step.instruction].symbol, count);
}

uint32_t BoundPlan::fixedSteps() const {
  auto isSize = [](const BoundStep &step) { return step.kind == InstructionKind::Size; };
  return static_cast<uint32_t>(std::ranges::find_if(steps, isSize) - steps.begin());
}

void *BoundPlan::address(const PointerSource &source, std::span<std::byte *const> roots) {
  std::byte *root = roots[source.root];
  // A root is null before its tensor is passed, and when that is empty.
  return root ? root + source.offset : nullptr;
}

void BoundPlan::setPointers(std::span<std::byte *const> roots) {
  for (size_t i = 0; i < sources.size(); ++i) {
    pointers[i] = address(sources[i], roots);
  }
}

void BoundPlan::setPortPointers(std::span<std::byte *const> roots) {
  for (uint32_t i : portPointers) {
    pointers[i] = address(sources[i], roots);
  }
}

} // namespace tenon::runtime
