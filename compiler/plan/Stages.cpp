// What depends on a value that was sent belongs to the stage that received it; all else to the
// stages that read it.
#include "compiler/plan/Stages.h"

#include "compiler/graph/TnShard.h"
#include "compiler/plan/Order.h"
#include "compiler/plan/PlanBuilder.h"
#include "support/text/Text.h"

using namespace mlir;

namespace tenon::plan {
namespace {

tn::SendReceiveOp sendOf(tn::RegionOp region) {
  tn::SendReceiveOp found;
  region->walk([&](tn::SendReceiveOp send) { found = send; });
  return found;
}

} // namespace

void RegionStages::findReceived(tn::RegionOp region) {
  if (tn::SendReceiveOp send = sendOf(region)) {
    stages[region] = uint64_t(3) << send.getStage();
    received[region] = send.getStage() + 1;
    return;
  }
  std::optional<uint64_t> last;
  for (Value input : region.getInputs()) {
    auto found = received.find(storageOf(input).getDefiningOp());
    if (found != received.end()) {
      last = std::max(last.value_or(0), found->second);
    }
  }
  if (last) {
    stages[region] = uint64_t(1) << *last;
    received[region] = *last;
  }
}

/// The stages that read what a region takes.
uint64_t RegionStages::reading(tn::RegionOp region) const {
  uint64_t own = stages.lookup(region);
  return sendOf(region) ? own & (own >> 1) : own;
}

bool RegionStages::addToMaker(Value storage, uint64_t more) {
  tn::RegionOp maker = storage.getDefiningOp<tn::RegionOp>();
  if (!maker || received.contains(maker) || (stages[maker] | more) == stages[maker]) {
    return false;
  }
  stages[maker] |= more;
  return true;
}

/// Whether there were any that were not known.
bool RegionStages::addReaders() {
  bool isNew = false;
  for (Operation &op : llvm::reverse(*block)) {
    tn::RegionOp region = dyn_cast<tn::RegionOp>(op);
    if (!region) {
      continue;
    }
    for (Value input : region.getInputs()) {
      Value storage = storageOf(input);
      isNew |= addToMaker(storage, reading(region));
      if (isa<BlockArgument>(storage)) {
        readersOfState[storage] |= reading(region);
      }
    }
  }
  for (const tn::State &state : states) {
    Value result = storageOf(block->getTerminator()->getOperand(state.result));
    isNew |= addToMaker(result, readersOfState.lookup(state.argument));
  }
  return isNew;
}

uint64_t RegionStages::having(Value storage) const {
  tn::RegionOp maker = storage.getDefiningOp<tn::RegionOp>();
  return !maker ? 0 : sendOf(maker) ? uint64_t(1) << received.lookup(maker) : of(maker);
}

Status RegionStages::check() const {
  auto isMissing = [&](Value storage, uint64_t readers) {
    uint64_t makers = having(storage);
    return makers != 0 && (readers & ~makers) != 0;
  };
  bool isSound = true;
  for (tn::RegionOp region : block->getOps<tn::RegionOp>()) {
    for (Value input : region.getInputs()) {
      isSound &= !isMissing(storageOf(input), reading(region));
    }
  }
  for (const tn::State &state : states) {
    Value result = storageOf(block->getTerminator()->getOperand(state.result));
    isSound &= !isMissing(result, readersOfState.lookup(state.argument));
  }
  return isSound
             ? Status::ok()
             : Status::error(ErrorId::InternalError, "a kernel needs values of two pipeline stages",
                             "report this with the model, or compile without --pp");
}

Status RegionStages::find() {
  for (tn::RegionOp region : block->getOps<tn::RegionOp>()) {
    findReceived(region);
  }
  bool isNew = true;
  while (isNew) {
    isNew = addReaders();
    for (tn::RegionOp region : block->getOps<tn::RegionOp>()) {
      if (!isNew && of(region) == 0) {
        stages[region] = 1; // nothing but the caller reads it
        isNew = true;
      }
    }
  }
  return check();
}

} // namespace tenon::plan
