// Relies on distinct buffers not overlapping, unless each element is read before it is overwritten.
#include "compiler/codegen/cpu/strips/HoistUniform.h"

#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "mlir/Interfaces/ViewLikeInterface.h"
#include "mlir/Transforms/LoopInvariantCodeMotionUtils.h"
#include "llvm/ADT/DenseSet.h"

using namespace mlir;

namespace tenon::codegen::cpu {
namespace {

Value bufferOf(Value memref) {
  while (ViewLikeOpInterface view = memref.getDefiningOp<ViewLikeOpInterface>()) {
    memref = view.getViewSource();
  }
  return memref;
}

/// The buffers that the loop writes; none if it does more than load and store.
std::optional<llvm::DenseSet<Value>> writtenBy(scf::ForOp loop) {
  llvm::DenseSet<Value> written;
  WalkResult result = loop.getBody()->walk([&](Operation *op) {
    MemoryEffectOpInterface effects = dyn_cast<MemoryEffectOpInterface>(op);
    if (!effects) {
      return op->hasTrait<OpTrait::HasRecursiveMemoryEffects>() ? WalkResult::advance()
                                                                : WalkResult::interrupt();
    }
    SmallVector<MemoryEffects::EffectInstance> all;
    effects.getEffects(all);
    for (const MemoryEffects::EffectInstance &effect : all) {
      if (isa<MemoryEffects::Write>(effect.getEffect())) {
        if (!effect.getValue()) {
          return WalkResult::interrupt();
        }
        written.insert(bufferOf(effect.getValue()));
      }
    }
    return WalkResult::advance();
  });
  return result.wasInterrupted() ? std::nullopt : std::optional(written);
}

} // namespace

void hoistUniform(scf::ForOp loop) {
  std::optional<llvm::DenseSet<Value>> written = writtenBy(loop);
  if (!written) {
    return;
  }
  // An index that was read may be checked in the loop before it is used.
  llvm::DenseSet<Value> read;
  auto isRead = [&](Value value) { return read.contains(value); };
  moveLoopInvariantCode(
      {&loop.getRegion()},
      [](Value value, mlir::Region *region) {
        return value.getParentRegion()->isProperAncestor(region);
      },
      [&](Operation *op, mlir::Region *) {
        memref::LoadOp load = dyn_cast<memref::LoadOp>(op);
        return load ? !written->contains(bufferOf(load.getMemRef())) &&
                          llvm::none_of(load.getIndices(), isRead)
                    : isPure(op);
      },
      [&](Operation *op, mlir::Region *) {
        op->moveBefore(loop);
        if (isa<memref::LoadOp>(op) || llvm::any_of(op->getOperands(), isRead)) {
          read.insert(op->result_begin(), op->result_end());
        }
      });
}

} // namespace tenon::codegen::cpu
