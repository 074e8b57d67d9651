// Which buffer a value gets: a place of its own, that of a value that is not needed any more, or at
// once the place where the model's result or state goes. Relies on the order of regions.
#include "compiler/plan/PlanBuilder.h"

#include "compiler/dispatch/Names.h"
#include "compiler/dispatch/Strategy.h"
#include "compiler/plan/Order.h"
#include "compiler/plan/Overwrite.h"
#include "support/Check.h"
#include "support/text/Text.h"

#include <limits>

using namespace mlir;

namespace tenon::plan {
namespace {

/// Names of a label beyond these are counted, not printed.
constexpr size_t kLabelNames = 3;
constexpr int64_t kLivesToEnd = std::numeric_limits<int64_t>::max();

} // namespace

std::string labelOf(Operation *op) {
  std::vector<std::string> names = dispatch::nodeNames(op->getLoc());
  if (names.size() <= kLabelNames) {
    return dispatch::nameOf(op);
  }
  return strCat(names[0], '+', names[1], '+', names[2], "+ ", names.size() - kLabelNames, " more");
}

std::string constraintOf(tn::RegionOp region) {
  std::string text;
  region.walk([&](tn::RequireOp required) {
    text += text.empty() ? "" : "; or not: ";
    text += required.getWhat();
  });
  return text;
}

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

const tn::State *PlanBuilder::stateOf(BlockArgument argument) const {
  auto found = llvm::find_if(states, [&](const tn::State &s) { return s.argument == argument; });
  return found == states.end() ? nullptr : found;
}

const tn::State *PlanBuilder::stateOf(size_t result) const {
  auto found = llvm::find_if(states, [&](const tn::State &s) { return s.result == result; });
  return found == states.end() ? nullptr : found;
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

/// Whether the kernels of all variants, which share the plan, read what they may overwrite in time.
bool PlanBuilder::readsAtEnds(size_t regionIndex) const {
  return llvm::all_of(request.levels, [&](const LevelCode &level) {
    const std::vector<codegen::RegionStep> &steps = level.regions[regionIndex].steps;
    return steps.size() == 1 && steps.front().mayOverwriteInputs;
  });
}

uint32_t PlanBuilder::bufferToReuse(tn::RegionOp region, size_t regionIndex,
                                    int64_t position) const {
  bool atEnds = readsAtEnds(regionIndex);
  if (region.getStrategy() != dispatch::kElementwise && !atEnds) {
    return engine::kNone;
  }
  for (auto [number, input] : llvm::enumerate(region.getInputs())) {
    Value storage = storageOf(input);
    DenseMap<Value, uint32_t>::const_iterator found = buffers.find(storage);
    bool dies = found != buffers.end() && lastRead.lookup(storage) == position &&
                plan.buffers[found->second].space == engine::Space::Arena;
    if (dies && mayWriteOver(region, number, atEnds)) {
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
      isOverwritten |= storageOf(input) == state.argument &&
                       mayWriteOver(region, number, /*readsAtEnds=*/false, output);
    }
    if (last < position || (last == position && isOverwritten)) {
      return buffers.lookup(state.argument);
    }
  }
  return engine::kNone;
}

uint32_t PlanBuilder::makeOutput(tn::RegionOp region, size_t regionIndex, Value output,
                                 int64_t position) {
  DenseMap<Value, size_t>::iterator claim = claimed.find(output);
  uint32_t buffer = engine::kNone;
  if (uint32_t state = stateToWrite(region, output, position); state != engine::kNone) {
    buffer = state;
    notes.buffers[buffer].inPlace.push_back(labelOf(region));
  } else if (claim != claimed.end()) {
    buffer = addBuffer(engine::Space::Output, output.getType());
    outputBuffers[claim->second] = buffer;
  } else if (uint32_t reused = bufferToReuse(region, regionIndex, position);
             reused != engine::kNone) {
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

} // namespace tenon::plan
