// Gives every value a buffer, every step of a region an instruction and every buffer a place.
// Relies on regions and reshapes being all that computes.
#include "compiler/plan/BuildPlan.h"

#include "compiler/dispatch/Cost.h"
#include "compiler/dispatch/Names.h"
#include "compiler/dispatch/Strategy.h"
#include "compiler/plan/Arena.h"
#include "compiler/plan/Order.h"
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
        weights(weightTable), sizes(module, function.getArgumentTypes(), plan) {}

  Result<BuiltPlan> run();

private:
  void addInputs();
  void findLastReads();
  void claimOutputs();
  uint32_t addBuffer(engine::Space space, Type type);
  uint32_t bufferOf(Value storage);
  uint32_t addTemporary(const codegen::Program &bytes, ArrayRef<engine::ExprId> symbols);
  uint32_t makeOutput(tn::RegionOp region, Value output, int64_t position);
  uint32_t bufferToReuse(tn::RegionOp region, int64_t position) const;
  void addRegion(tn::RegionOp region, size_t regionIndex, int64_t position);
  void addStep(const codegen::RegionStep &step, ArrayRef<uint32_t> regionBuffers,
               ArrayRef<engine::ExprId> symbols);
  void addOutputs();
  void touch(uint32_t buffer, uint32_t instruction);
  std::vector<engine::Variant> makeVariants();
  StringRef portName(DictionaryAttr attributes) const;

  const PlanRequest &request;
  ModuleOp module;
  func::FuncOp function;
  Block *block;
  WeightTable &weights;
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

void PlanBuilder::addInputs() {
  for (auto [index, argument] : llvm::enumerate(function.getArguments())) {
    StringRef name = portName(function.getArgAttrDict(index));
    uint32_t buffer = addBuffer(engine::Space::Input, argument.getType());
    notes.buffers[buffer].value = name.str();
    buffers[argument] = buffer;
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
    if (storage.getDefiningOp<tn::RegionOp>()) {
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

/// An elementwise region may write over an operand that dies here: each element is read where it is
/// written. With several results it might read after it wrote, so these get their own.
uint32_t PlanBuilder::bufferToReuse(tn::RegionOp region, int64_t position) const {
  if (region.getStrategy() != dispatch::kElementwise || region.getNumResults() != 1) {
    return engine::kNone;
  }
  Type type = region.getResult(0).getType();
  SmallVector<Value> storages;
  for (Value input : region.getInputs()) {
    storages.push_back(storageOf(input));
  }
  for (auto [input, storage, argument] :
       llvm::zip_equal(region.getInputs(), storages, region.getBody().getArguments())) {
    DenseMap<Value, uint32_t>::const_iterator found = buffers.find(storage);
    bool dies = found != buffers.end() && lastRead.lookup(storage) == position &&
                plan.buffers[found->second].space == engine::Space::Arena;
    bool samePlace = llvm::all_of(argument.getUsers(), [](Operation *user) {
      return user->hasTrait<tn::TnElementwise>() || isa<tn::YieldOp>(user);
    });
    bool sameType = dtypeOf(input.getType()) == dtypeOf(type) &&
                    tn::sameDims(tn::getDims(input.getType()), tn::getDims(type));
    if (dies && samePlace && sameType && llvm::count(storages, storage) == 1) {
      return found->second;
    }
  }
  return engine::kNone;
}

uint32_t PlanBuilder::makeOutput(tn::RegionOp region, Value output, int64_t position) {
  DenseMap<Value, size_t>::iterator claim = claimed.find(output);
  uint32_t buffer = engine::kNone;
  if (claim != claimed.end()) {
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
    addStep(step, regionBuffers, symbols);
    plan.instructions.back().label = labelOf(region);
    notes.strategies.push_back(region.getStrategy().str());
    origins.push_back({regionIndex, index, symbols});
  }
}

void PlanBuilder::addOutputs() {
  for (auto [index, result] : llvm::enumerate(block->getTerminator()->getOperands())) {
    StringRef name = portName(function.getResultAttrDict(index));
    if (!outputBuffers.contains(index)) {
      uint32_t from = bufferOf(storageOf(result));
      uint32_t to = addBuffer(engine::Space::Output, result.getType());
      outputBuffers[index] = to;
      engine::Instruction copy;
      copy.kind = engine::InstructionKind::Copy;
      copy.device = request.device;
      copy.label = strCat("copy to ", name.str());
      copy.buffers = {from, to};
      copy.reads = 1;
      copy.sizes = {plan.buffers[to].size};
      touch(from, static_cast<uint32_t>(plan.instructions.size()));
      touch(to, static_cast<uint32_t>(plan.instructions.size()));
      plan.instructions.push_back(std::move(copy));
      notes.strategies.push_back("copy");
    }
    uint32_t buffer = outputBuffers[index];
    notes.buffers[buffer].value = name.str();
    SmallVector<engine::ExprId> dims = sizes.translate(tn::getDims(result.getType()));
    plan.outputs.push_back({.name = name.str(),
                            .dtype = dtypeOf(result.getType()),
                            .dims = {dims.begin(), dims.end()},
                            .buffer = buffer});
  }
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
  order = orderRegions(block, [&](Value value) { return costs.bytesOf(value); });
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
