// Gives every value a buffer, every step of a region an instruction and every buffer a place.
// Relies on regions and reshapes being all that computes.
#include "compiler/plan/BuildPlan.h"

#include "compiler/dispatch/Cost.h"
#include "compiler/graph/RowIndependence.h"
#include "compiler/graph/Stages.h"
#include "compiler/graph/TnRare.h"
#include "compiler/plan/Arena.h"
#include "compiler/plan/Branches.h"
#include "compiler/plan/Order.h"
#include "compiler/plan/PlanBuilder.h"
#include "support/Check.h"
#include "support/text/Text.h"
#include "llvm/ADT/StringMap.h"

using namespace mlir;

namespace tenon::plan {

StringRef PlanBuilder::portName(DictionaryAttr attributes) const {
  StringAttr name = attributes ? attributes.getAs<StringAttr>("tn.name") : StringAttr();
  TENON_CHECK(name, "every input and output of the model function carries tn.name");
  return name.getValue();
}

/// Inputs that the caller gives; states belong to the session.
SmallVector<BlockArgument> PlanBuilder::ports() {
  SmallVector<BlockArgument> arguments;
  for (BlockArgument argument : function.getArguments()) {
    if (!stateOf(argument)) {
      arguments.push_back(argument);
    }
  }
  return arguments;
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

void PlanBuilder::addStep(const codegen::RegionStep &step, ArrayRef<uint32_t> regionBuffers,
                          ArrayRef<engine::ExprId> symbols) {
  uint32_t index = static_cast<uint32_t>(plan.instructions.size());
  engine::Instruction instruction;
  instruction.kind = step.collective     ? engine::InstructionKind::Collective
                     : step.call.empty() ? engine::InstructionKind::Launch
                                         : engine::InstructionKind::Call;
  if (step.collective) {
    instruction.collective = step.collective->kind;
    instruction.dtype = step.collective->dtype;
  }
  instruction.device = request.device;
  for (uint32_t buffer : step.buffers) {
    instruction.buffers.push_back(regionBuffers[buffer]);
    touch(regionBuffers[buffer], index);
  }
  instruction.reads = step.reads;
  instruction.isFallback = step.isFallback;
  for (const codegen::Program &size : step.sizes) {
    instruction.sizes.push_back(sizes.substitute(size, symbols));
  }
  plan.instructions.push_back(std::move(instruction));
}

/// What a region counts rows by is read before its kernels run.
void PlanBuilder::addSizes(tn::RegionOp region, size_t regionIndex) {
  region.walk([&](tn::TakeFirstOp take) {
    unsigned input = cast<BlockArgument>(take.getCount()).getArgNumber();
    engine::Instruction size;
    size.kind = engine::InstructionKind::Size;
    size.device = request.device;
    size.label = labelOf(region);
    size.buffers = {bufferOf(storageOf(region.getInputs()[input]))};
    size.reads = 1;
    size.symbol = sizes.dataSymbol(take.symbol());
    touch(size.buffers[0], static_cast<uint32_t>(plan.instructions.size()));
    plan.instructions.push_back(std::move(size));
    notes.strategies.push_back("size");
    notes.regions.push_back(region.getRecord().value_or(-1));
    origins.push_back({regionIndex, 0, {}});
  });
}

/// Memory is laid out before data has decided a size, for the largest that it can be.
Status PlanBuilder::checkGrowth() const {
  for (auto [index, buffer] : llvm::enumerate(plan.buffers)) {
    if (!sizes.growsWithData(buffer.size)) {
      return Status::error(ErrorId::ModelHasGaps,
                           strCat("the size of '", notes.buffers[index].value,
                                  "' shrinks as data selects more elements"),
                           "select a constant number of elements");
    }
  }
  return Status::ok();
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
    regionBuffers.push_back(makeOutput(region, regionIndex, output, position));
  }
  for (const codegen::Program &bytes : code.temporaries) {
    regionBuffers.push_back(addTemporary(bytes, symbols));
  }
  addSizes(region, regionIndex);
  std::string constraint = constraintOf(region);
  for (auto [index, step] : llvm::enumerate(code.steps)) {
    if (step.isCopy && regionBuffers[step.buffers.front()] == regionBuffers[step.buffers.back()]) {
      continue;
    }
    addStep(step, regionBuffers, symbols);
    plan.instructions.back().label = labelOf(region);
    plan.instructions.back().stages = regionStages.of(region);
    plan.instructions.back().constraint = constraint;
    notes.strategies.push_back(region.getStrategy().str());
    notes.regions.push_back(region.getRecord().value_or(-1));
    origins.push_back({regionIndex, index, symbols});
  }
}

/// The symbol along which every port is rows that do not meet; kNone where there is none.
uint32_t PlanBuilder::batchSymbol() const {
  if (plan.inputs.empty() || plan.inputs.front().dims.empty()) {
    return engine::kNone;
  }
  engine::ExprId rows = plan.inputs.front().dims.front();
  std::optional<uint32_t> symbol = plan.exprs.symbolIndex(rows);
  bool isBatch = symbol && states.empty() &&
                 llvm::all_of(tn::outputRows(module),
                              [](const tn::OutputRows &each) { return each.isIndependent; });
  auto isWithinRow = [&](engine::ExprId dim) {
    return llvm::none_of(plan.exprs.program(dim), [&](const engine::ExprTerm &term) {
      return term.op == engine::ExprOp::Symbol && term.value == int64_t(*symbol);
    });
  };
  for (const std::vector<engine::Port> *ports : {&plan.inputs, &plan.outputs}) {
    for (const engine::Port &port : *ports) {
      for (auto [index, dim] : llvm::enumerate(port.dims)) {
        isBatch = isBatch && ((index == 0 && dim == rows) || isWithinRow(dim));
      }
      isBatch = isBatch && (ports == &plan.inputs || (!port.dims.empty() && port.dims[0] == rows));
    }
  }
  return isBatch ? *symbol : engine::kNone;
}

void PlanBuilder::addCopy(uint32_t from, uint32_t to, uint64_t stages, std::string label) {
  engine::Instruction copy;
  copy.kind = engine::InstructionKind::Copy;
  copy.device = request.device;
  copy.stages = stages;
  copy.label = std::move(label);
  copy.buffers = {from, to};
  copy.reads = 1;
  copy.sizes = {plan.buffers[to].size};
  touch(from, static_cast<uint32_t>(plan.instructions.size()));
  touch(to, static_cast<uint32_t>(plan.instructions.size()));
  plan.instructions.push_back(std::move(copy));
  notes.strategies.push_back("copy");
  notes.regions.push_back(-1);
}

void PlanBuilder::addOutput(size_t index, Value result) {
  StringRef name = portName(function.getResultAttrDict(index));
  if (!outputBuffers.contains(index)) {
    uint32_t from = bufferOf(storageOf(result));
    uint32_t to = addBuffer(engine::Space::Output, result.getType());
    outputBuffers[index] = to;
    // One stage gives it to the caller.
    uint64_t having = plan.stages == 1 ? 0 : regionStages.having(storageOf(result));
    uint64_t one = plan.stages == 1 ? 0 : having == 0 ? 1 : having & (~having + 1);
    addCopy(from, to, one, strCat("copy to ", name.str()));
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
    uint64_t stages;
    std::string label;
  };
  SmallVector<Kept> copies;
  for (const tn::State &state : states) {
    Value result = block->getTerminator()->getOperand(state.result);
    StringRef name = portName(function.getArgAttrDict(state.argument.getArgNumber()));
    Kept kept{bufferOf(storageOf(result)), buffers.lookup(state.argument),
              regionStages.having(storageOf(result)), strCat("keep ", name.str())};
    if (kept.from == kept.to) {
      continue;
    }
    if (plan.buffers[kept.from].space == engine::Space::State) {
      uint32_t between = addBuffer(engine::Space::Arena, result.getType());
      notes.buffers[between].value = kept.label;
      addCopy(kept.from, between, kept.stages, kept.label);
      kept.from = between;
    }
    copies.push_back(std::move(kept));
  }
  for (Kept &kept : copies) {
    addCopy(kept.from, kept.to, kept.stages, std::move(kept.label));
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

engine::TensorMap PlanBuilder::tensorMap(const codegen::TensorMapArgument &map,
                                         ArrayRef<engine::ExprId> symbols) {
  return {.buffer = map.buffer,
          .elementBytes = static_cast<uint8_t>(map.elementBytes),
          .rows = sizes.substitute(map.rows, symbols),
          .columns = sizes.substitute(map.columns, symbols),
          .rowBytes = sizes.substitute(map.rowBytes, symbols),
          .boxRows = static_cast<uint16_t>(map.boxRows),
          .boxColumns = static_cast<uint16_t>(map.boxColumns)};
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
      if (instruction.kind == engine::InstructionKind::Size) {
        continue;
      }
      const codegen::RegionStep &step = level.regions[origin.region].steps[origin.step];
      instruction.call = step.call;
      if (!step.symbol.empty()) {
        instruction.kernel = kernels.at(step.symbol);
        instruction.threads = step.threads;
      }
      if (instruction.kind != engine::InstructionKind::Launch) {
        continue;
      }
      instruction.grid = sizes.substitute(step.grid, origin.symbols);
      instruction.canFail = step.canFail;
      instruction.cluster = step.cluster;
      instruction.isDependentLaunch = step.isDependentLaunch;
      if (!step.scratch.empty()) {
        instruction.scratch = sizes.substitute(step.scratch, origin.symbols);
      }
      for (const codegen::TensorMapArgument &map : step.tensorMaps) {
        instruction.tensorMaps.push_back(tensorMap(map, origin.symbols));
      }
    }
    instructions.push_back(std::move(own));
  }
  // Behind all other expressions, which so keep their numbers.
  for (std::vector<engine::Instruction> &own : instructions) {
    addWork(own);
  }
  std::vector<engine::Variant> variants;
  for (auto [level, own] : llvm::zip_equal(request.levels, instructions)) {
    engine::Variant variant{.level = level.level, .plan = plan, .kernels = level.kernels};
    variant.plan.instructions = own;
    // Ranks exchange in one order.
    if (request.target && request.device == engine::kGpu && plan.ranks == 1) {
      partBranches(variant.plan, *request.target);
    }
    variants.push_back(std::move(variant));
  }
  return variants;
}

Result<BuiltPlan> PlanBuilder::run() {
  llvm::DenseMap<Operation *, size_t> indexOf;
  for (tn::RegionOp region : block->getOps<tn::RegionOp>()) {
    indexOf.try_emplace(region, indexOf.size());
  }
  dispatch::CostModel costs(module, target::cpuTarget());
  order = orderRegions(
      block, [&](Value value) { return costs.bytesOf(value); }, request.device == engine::kGpu);
  if (order.size() != indexOf.size()) {
    return Status::error(ErrorId::InternalError, "sizes that data decides wait for each other",
                         "report this with the model");
  }
  plan.stages = tn::stagesOf(module);
  plan.ranks = weights.ranks() * plan.stages;
  if (plan.stages > 1) {
    TENON_TRY(regionStages.find());
  }
  sizes.addDataSymbols(order);
  if (plan.stages > 1 && plan.knownSymbols() != plan.symbols.size()) {
    return Status::error(ErrorId::BadArgument,
                         strCat("--pp ", plan.stages,
                                ": data decides sizes of the model, which other stages would have "
                                "to know"),
                         "compile without --pp");
  }
  sizes.addConstraints();
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
  TENON_TRY(checkGrowth());
  for (engine::Instruction &instruction : plan.instructions) {
    bool isPassed = instruction.kind == engine::InstructionKind::Collective &&
                    instruction.collective == engine::CollectiveKind::SendReceive;
    instruction.symbol = isPassed ? batchSymbol() : instruction.symbol;
  }
  ArenaSummary arena = layOutArena(plan);
  BuiltPlan built;
  built.arenaBytes = arena.bytes;
  built.arenaLowerBound = arena.lowerBound;
  llvm::SmallSetVector<uint32_t, 16> read;
  for (const engine::Buffer &buffer : plan.buffers) {
    if (buffer.weight != engine::kNone) {
      read.insert(buffer.weight);
    }
  }
  built.memoryRecord =
      memoryRecord(plan, arena, notes, weights.list(), weights.forms(read.getArrayRef()));
  built.variants = makeVariants();
  if (!built.variants.empty()) {
    built.placementRecord = placementRecord(built.variants.front(), notes, weights.list());
  }
  return built;
}

Result<BuiltPlan> buildPlan(const PlanRequest &request, WeightTable &weights) {
  return PlanBuilder(request, weights).run();
}

} // namespace tenon::plan
