// Gives every value a buffer, every step of a region an instruction and every buffer a place.
// Relies on regions and reshapes being all that computes.
#include "compiler/plan/BuildPlan.h"

#include "compiler/dispatch/Cost.h"
#include "compiler/dispatch/Names.h"
#include "compiler/dispatch/Strategy.h"
#include "compiler/graph/State.h"
#include "compiler/plan/Arena.h"
#include "compiler/plan/Order.h"
#include "compiler/plan/Overwrite.h"
#include "compiler/plan/PlanRecords.h"
#include "compiler/plan/Sizes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "support/Check.h"
#include "support/Text.h"
#include "llvm/ADT/StringMap.h"

#include <limits>

using namespace mlir;

namespace tenon::plan {
namespace {

/// Names of a label beyond these are counted, not printed.
constexpr size_t kLabelNames = 3;
constexpr int64_t kLivesToEnd = std::numeric_limits<int64_t>::max();

std::string labelOf(Operation *op) {
  std::vector<std::string> names = dispatch::nodeNames(op->getLoc());
  if (names.size() <= kLabelNames) {
    return dispatch::nameOf(op);
  }
  return strCat(names[0], '+', names[1], '+', names[2], "+ ", names.size() - kLabelNames, " more");
}

class PlanBuilder {
public:
  PlanBuilder(const PlanRequest &planRequest, WeightTable &weightTable)
      : request(planRequest), module(planRequest.module),
        function(*module.getOps<func::FuncOp>().begin()), block(&function.getBody().front()),
        weights(weightTable), states(tn::statesOf(function)), sizes(module, portTypes(), plan) {}

  Result<BuiltPlan> run();

private:
  SmallVector<Type> portTypes();
  const tn::State *stateOf(BlockArgument argument) const;
  const tn::State *stateOf(size_t result) const;
  void addInputs();
  void findLastReads();
  void claimOutputs();
  uint32_t addBuffer(engine::Space space, Type type);
  uint32_t bufferOf(Value storage);
  uint32_t addTemporary(const codegen::Program &bytes, ArrayRef<engine::ExprId> symbols);
  uint32_t makeOutput(tn::RegionOp region, Value output, int64_t position);
  uint32_t bufferToReuse(tn::RegionOp region, int64_t position) const;
  uint32_t stateToWrite(tn::RegionOp region, Value output, int64_t position) const;
  void addRegion(tn::RegionOp region, size_t regionIndex, int64_t position);
  void addStep(const codegen::RegionStep &step, ArrayRef<uint32_t> regionBuffers,
               ArrayRef<engine::ExprId> symbols);
  void addOutputs();
  void addOutput(size_t index, Value result);
  void keepStates();
  void addCopy(uint32_t from, uint32_t to, std::string label);
  void touch(uint32_t buffer, uint32_t instruction);
  std::vector<engine::Variant> makeVariants();
  StringRef portName(DictionaryAttr attributes) const;

  const PlanRequest &request;
  ModuleOp module;
  func::FuncOp function;
  Block *block;
  WeightTable &weights;
  SmallVector<tn::State> states;
  engine::Plan plan;
  SizeTranslator sizes;
  PlanNotes notes;
  SmallVector<tn::RegionOp> order;
  llvm::DenseMap<Value, uint32_t> buffers;
  llvm::DenseMap<uint32_t, uint32_t> constBuffers;
  /// The position in the order of the last region that reads a storage.
  llvm::DenseMap<Value, int64_t> lastRead;
  /// Where an instruction comes from: a step of a region, whose symbols have these values.
  struct StepOrigin {
    size_t region;
    size_t step;
    std::vector<engine::ExprId> symbols;
  };
  /// By instruction, up to the copies at the end.
  std::vector<StepOrigin> origins;
  /// The model result that a storage is written to at once.
  llvm::DenseMap<Value, size_t> claimed;
  llvm::DenseMap<size_t, uint32_t> outputBuffers;
};

uint32_t PlanBuilder::addBuffer(engine::Space space, Type type) {
  engine::Buffer buffer;
  buffer.space = space;
  buffer.device = request.device;
  buffer.size = sizes.bytesOf(type);
  buffer.firstUse = engine::kNone;
  plan.buffers.push_back(buffer);
  notes.buffers.push_back({});
  return static_cast<uint32_t>(plan.buffers.size() - 1);
}

void PlanBuilder::touch(uint32_t buffer, uint32_t instruction) {
  engine::Buffer &entry = plan.buffers[buffer];
  entry.firstUse = std::min(entry.firstUse, instruction);
  entry.lastUse = std::max(entry.lastUse, instruction);
}

StringRef PlanBuilder::portName(DictionaryAttr attributes) const {
  StringAttr name = attributes ? attributes.getAs<StringAttr>("tn.name") : StringAttr();
  TENON_CHECK(name, "every input and output of the model function carries tn.name");
  return name.getValue();
}

const tn::State *PlanBuilder::stateOf(BlockArgument argument) const {
  auto found = llvm::find_if(states, [&](const tn::State &s) { return s.argument == argument; });
  return found == states.end() ? nullptr : found;
}

const tn::State *PlanBuilder::stateOf(size_t result) const {
  auto found = llvm::find_if(states, [&](const tn::State &s) { return s.result == result; });
  return found == states.end() ? nullptr : found;
}

/// Inputs that the caller gives; states belong to the session.
SmallVector<Type> PlanBuilder::portTypes() {
  SmallVector<Type> types;
  for (BlockArgument argument : function.getArguments()) {
    if (!stateOf(argument)) {
      types.push_back(argument.getType());
    }
  }
  return types;
}

void PlanBuilder::addInputs() {
  for (auto [index, argument] : llvm::enumerate(function.getArguments())) {
    StringRef name = portName(function.getArgAttrDict(index));
    bool isState = stateOf(argument);
    uint32_t buffer =
        addBuffer(isState ? engine::Space::State : engine::Space::Input, argument.getType());
    notes.buffers[buffer].value = name.str();
    buffers[argument] = buffer;
    if (isState) {
      continue;
    }
    SmallVector<engine::ExprId> dims = sizes.translate(tn::getDims(argument.getType()));
    plan.inputs.push_back({.name = name.str(),
                           .dtype = dtypeOf(argument.getType()),
                           .dims = {dims.begin(), dims.end()},
                           .buffer = buffer});
  }
}

void PlanBuilder::findLastReads() {
  for (auto [index, region] : llvm::enumerate(order)) {
    for (Value input : region.getInputs()) {
      lastRead[storageOf(input)] = static_cast<int64_t>(index);
    }
  }
  for (Value result : block->getTerminator()->getOperands()) {
    lastRead[storageOf(result)] = kLivesToEnd;
  }
}

/// A value that is a result of the model is written where the caller wants it; further results of
/// the same storage, inputs and weights are copied.
void PlanBuilder::claimOutputs() {
  for (auto [index, result] : llvm::enumerate(block->getTerminator()->getOperands())) {
    Value storage = storageOf(result);
    if (!stateOf(index) && storage.getDefiningOp<tn::RegionOp>()) {
      claimed.try_emplace(storage, index);
    }
  }
}

uint32_t PlanBuilder::bufferOf(Value storage) {
  DenseMap<Value, uint32_t>::iterator found = buffers.find(storage);
  if (found != buffers.end()) {
    return found->second;
  }
  Operation *op = storage.getDefiningOp();
  TENON_CHECK((isa<tn::WeightOp, tn::ConstantOp, tn::PackOp>(op)),
              "what no region makes is a weight or a constant");
  uint32_t weight = weights.add(op);
  auto [entry, isNew] = constBuffers.try_emplace(weight, 0);
  if (isNew) {
    entry->second = addBuffer(engine::Space::Const, storage.getType());
    plan.buffers[entry->second].weight = weight;
    notes.buffers[entry->second].value = weights.list()[weight].name;
  }
  buffers[storage] = entry->second;
  return entry->second;
}

uint32_t PlanBuilder::bufferToReuse(tn::RegionOp region, int64_t position) const {
  for (auto [number, input] : llvm::enumerate(region.getInputs())) {
    Value storage = storageOf(input);
    DenseMap<Value, uint32_t>::const_iterator found = buffers.find(storage);
    bool dies = found != buffers.end() && lastRead.lookup(storage) == position &&
                plan.buffers[found->second].space == engine::Space::Arena;
    if (dies && region.getStrategy() == dispatch::kElementwise && mayWriteOver(region, number)) {
      return found->second;
    }
  }
  return engine::kNone;
}

/// The state that `output` replaces, if nobody reads the old one any more: then it is updated in
/// place.
uint32_t PlanBuilder::stateToWrite(tn::RegionOp region, Value output, int64_t position) const {
  for (const tn::State &state : states) {
    if (storageOf(block->getTerminator()->getOperand(state.result)) != output) {
      continue;
    }
    DenseMap<Value, int64_t>::const_iterator read = lastRead.find(state.argument);
    int64_t last = read == lastRead.end() ? -1 : read->second;
    bool isOverwritten = false;
    for (auto [number, input] : llvm::enumerate(region.getInputs())) {
      isOverwritten |= storageOf(input) == state.argument && mayWriteOver(region, number, output);
    }
    if (last < position || (last == position && isOverwritten)) {
      return buffers.lookup(state.argument);
    }
  }
  return engine::kNone;
}

uint32_t PlanBuilder::makeOutput(tn::RegionOp region, Value output, int64_t position) {
  DenseMap<Value, size_t>::iterator claim = claimed.find(output);
  uint32_t buffer = engine::kNone;
  if (uint32_t state = stateToWrite(region, output, position); state != engine::kNone) {
    buffer = state;
    notes.buffers[buffer].inPlace.push_back(labelOf(region));
  } else if (claim != claimed.end()) {
    buffer = addBuffer(engine::Space::Output, output.getType());
    outputBuffers[claim->second] = buffer;
  } else if (uint32_t reused = bufferToReuse(region, position); reused != engine::kNone) {
    buffer = reused;
    notes.buffers[buffer].inPlace.push_back(labelOf(region));
  } else {
    buffer = addBuffer(engine::Space::Arena, output.getType());
  }
  if (notes.buffers[buffer].value.empty()) {
    notes.buffers[buffer].value = labelOf(region);
  }
  buffers[output] = buffer;
  return buffer;
}

uint32_t PlanBuilder::addTemporary(const codegen::Program &bytes,
                                   ArrayRef<engine::ExprId> symbols) {
  engine::Buffer buffer;
  buffer.device = request.device;
  buffer.size = sizes.substitute(bytes, symbols);
  buffer.firstUse = engine::kNone;
  plan.buffers.push_back(buffer);
  notes.buffers.push_back({.value = "between two kernels of a region", .inPlace = {}});
  return static_cast<uint32_t>(plan.buffers.size() - 1);
}

void PlanBuilder::addStep(const codegen::RegionStep &step, ArrayRef<uint32_t> regionBuffers,
                          ArrayRef<engine::ExprId> symbols) {
  uint32_t index = static_cast<uint32_t>(plan.instructions.size());
  engine::Instruction instruction;
  instruction.kind =
      step.call.empty() ? engine::InstructionKind::Launch : engine::InstructionKind::Call;
  instruction.device = request.device;
  for (uint32_t buffer : step.buffers) {
    instruction.buffers.push_back(regionBuffers[buffer]);
    touch(regionBuffers[buffer], index);
  }
  instruction.reads = step.reads;
  instruction.isSpare = step.isSpare;
  for (const codegen::Program &size : step.sizes) {
    instruction.sizes.push_back(sizes.substitute(size, symbols));
  }
  plan.instructions.push_back(std::move(instruction));
}

void PlanBuilder::addRegion(tn::RegionOp region, size_t regionIndex, int64_t position) {
  const codegen::RegionCode &code = request.levels.front().regions[regionIndex];
  std::vector<engine::ExprId> symbols;
  for (AffineExpr symbol : request.regionSymbols[regionIndex]) {
    symbols.push_back(sizes.translate(symbol));
  }
  SmallVector<uint32_t> regionBuffers;
  for (Value input : region.getInputs()) {
    regionBuffers.push_back(bufferOf(storageOf(input)));
  }
  for (Value output : region.getOutputs()) {
    regionBuffers.push_back(makeOutput(region, output, position));
  }
  for (const codegen::Program &bytes : code.temporaries) {
    regionBuffers.push_back(addTemporary(bytes, symbols));
  }
  for (auto [index, step] : llvm::enumerate(code.steps)) {
    if (step.isCopy && regionBuffers[step.buffers.front()] == regionBuffers[step.buffers.back()]) {
      continue;
    }
    addStep(step, regionBuffers, symbols);
    plan.instructions.back().label = labelOf(region);
    notes.strategies.push_back(region.getStrategy().str());
    origins.push_back({regionIndex, index, symbols});
  }
}

void PlanBuilder::addCopy(uint32_t from, uint32_t to, std::string label) {
  engine::Instruction copy;
  copy.kind = engine::InstructionKind::Copy;
  copy.device = request.device;
  copy.label = std::move(label);
  copy.buffers = {from, to};
  copy.reads = 1;
  copy.sizes = {plan.buffers[to].size};
  touch(from, static_cast<uint32_t>(plan.instructions.size()));
  touch(to, static_cast<uint32_t>(plan.instructions.size()));
  plan.instructions.push_back(std::move(copy));
  notes.strategies.push_back("copy");
}

void PlanBuilder::addOutput(size_t index, Value result) {
  StringRef name = portName(function.getResultAttrDict(index));
  if (!outputBuffers.contains(index)) {
    uint32_t from = bufferOf(storageOf(result));
    uint32_t to = addBuffer(engine::Space::Output, result.getType());
    outputBuffers[index] = to;
    addCopy(from, to, strCat("copy to ", name.str()));
  }
  uint32_t buffer = outputBuffers[index];
  notes.buffers[buffer].value = name.str();
  SmallVector<engine::ExprId> dims = sizes.translate(tn::getDims(result.getType()));
  plan.outputs.push_back({.name = name.str(),
                          .dtype = dtypeOf(result.getType()),
                          .dims = {dims.begin(), dims.end()},
                          .buffer = buffer});
}

/// New values that were not written in place are copied into their states, after everything that
/// reads the old ones; what comes from another state goes by way of the arena, as that one may
/// change too.
void PlanBuilder::keepStates() {
  struct Kept {
    uint32_t from, to;
    std::string label;
  };
  SmallVector<Kept> copies;
  for (const tn::State &state : states) {
    Value result = block->getTerminator()->getOperand(state.result);
    StringRef name = portName(function.getArgAttrDict(state.argument.getArgNumber()));
    Kept kept{bufferOf(storageOf(result)), buffers.lookup(state.argument),
              strCat("keep ", name.str())};
    if (kept.from == kept.to) {
      continue;
    }
    if (plan.buffers[kept.from].space == engine::Space::State) {
      uint32_t between = addBuffer(engine::Space::Arena, result.getType());
      notes.buffers[between].value = kept.label;
      addCopy(kept.from, between, kept.label);
      kept.from = between;
    }
    copies.push_back(std::move(kept));
  }
  for (Kept &kept : copies) {
    addCopy(kept.from, kept.to, std::move(kept.label));
  }
}

void PlanBuilder::addOutputs() {
  for (auto [index, result] : llvm::enumerate(block->getTerminator()->getOperands())) {
    if (!stateOf(index)) {
      addOutput(index, result);
    }
  }
  keepStates();
  engine::Instruction end;
  end.kind = engine::InstructionKind::Return;
  end.device = request.device;
  plan.instructions.push_back(std::move(end));
}

/// The variants differ in kernels, grids and scratch only; their expressions share one table.
std::vector<engine::Variant> PlanBuilder::makeVariants() {
  std::vector<std::vector<engine::Instruction>> instructions;
  for (const LevelCode &level : request.levels) {
    llvm::StringMap<uint32_t> kernels;
    for (auto [index, symbol] : llvm::enumerate(level.kernels)) {
      kernels[symbol] = static_cast<uint32_t>(index);
    }
    std::vector<engine::Instruction> own = plan.instructions;
    for (auto [instruction, origin] : llvm::zip(own, origins)) {
      const codegen::RegionStep &step = level.regions[origin.region].steps[origin.step];
      instruction.call = step.call;
      if (instruction.kind != engine::InstructionKind::Launch) {
        continue;
      }
      instruction.kernel = kernels.at(step.symbol);
      instruction.grid = sizes.substitute(step.grid, origin.symbols);
      instruction.threads = step.threads;
      if (!step.scratch.empty()) {
        instruction.scratch = sizes.substitute(step.scratch, origin.symbols);
      }
    }
    instructions.push_back(std::move(own));
  }
  std::vector<engine::Variant> variants;
  for (auto [level, own] : llvm::zip_equal(request.levels, instructions)) {
    engine::Variant variant{.level = level.level, .plan = plan, .kernels = level.kernels};
    variant.plan.instructions = own;
    variants.push_back(std::move(variant));
  }
  return variants;
}

Result<BuiltPlan> PlanBuilder::run() {
  llvm::DenseMap<Operation *, size_t> indexOf;
  for (tn::RegionOp region : block->getOps<tn::RegionOp>()) {
    indexOf.try_emplace(region, indexOf.size());
  }
  dispatch::CostModel costs(module, dispatch::cpuProfile());
  order = orderRegions(
      block, [&](Value value) { return costs.bytesOf(value); }, request.device == engine::kGpu);
  addInputs();
  findLastReads();
  claimOutputs();
  for (auto [position, region] : llvm::enumerate(order)) {
    addRegion(region, indexOf.lookup(region), static_cast<int64_t>(position));
  }
  addOutputs();
  if (!sizes.unboundSymbol().empty()) {
    return Status::error(ErrorId::InternalError,
                         strCat("symbol '", sizes.unboundSymbol(), "' is not a dim of any input"),
                         "give that dimension a constant with --shape");
  }
  ArenaSummary arena = layOutArena(plan);
  BuiltPlan built;
  built.arenaBytes = arena.bytes;
  built.arenaLowerBound = arena.lowerBound;
  built.memoryRecord = memoryRecord(plan, arena, notes, weights.list());
  built.variants = makeVariants();
  if (!built.variants.empty()) {
    built.placementRecord = placementRecord(built.variants.front(), notes, weights.list());
  }
  return built;
}

} // namespace

Result<BuiltPlan> buildPlan(const PlanRequest &request, WeightTable &weights) {
  return PlanBuilder(request, weights).run();
}

} // namespace tenon::plan
