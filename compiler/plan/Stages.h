// Which pipeline stages run a region of a cut model. Relies on compiler/shard sending every value
// that a later stage needs, but for those that each stage computes from inputs.
#pragma once

#include "compiler/graph/State.h"
#include "compiler/graph/Tn.h"
#include "support/Result.h"
#include "llvm/ADT/DenseMap.h"

namespace tenon::plan {

class RegionStages {
public:
  RegionStages(mlir::Block *modelBlock, llvm::ArrayRef<tn::State> modelStates)
      : block(modelBlock), states(modelStates) {}

  /// Of a function of regions. InternalError where a region needs values of two stages.
  Status find();

  /// Bit s for stage s; of a region that sends, also that of the stage behind. 0 for a model of one
  /// stage.
  uint64_t of(tn::RegionOp region) const { return stages.lookup(region); }
  /// Those that have a value; 0 for all, as of inputs and weights.
  uint64_t having(mlir::Value storage) const;

private:
  void findReceived(tn::RegionOp region);
  bool addReaders();
  bool addToMaker(mlir::Value storage, uint64_t more);
  uint64_t reading(tn::RegionOp region) const;
  Status check() const;

  mlir::Block *block;
  llvm::ArrayRef<tn::State> states;
  llvm::DenseMap<mlir::Operation *, uint64_t> stages;
  /// The stage of regions behind something that was sent.
  llvm::DenseMap<mlir::Operation *, uint64_t> received;
  llvm::DenseMap<mlir::Value, uint64_t> readersOfState;
};

} // namespace tenon::plan
