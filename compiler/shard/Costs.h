// Seconds of an operation on one rank, and of what ranks exchange. A roofline: bytes at the rate of
// memory or products at their peak, whichever takes longer, and the start of a kernel. What kernels
// fuse costs nothing there.
#pragma once

#include "compiler/shard/Graph.h"
#include "compiler/target/Collectives.h"
#include "compiler/target/Target.h"

namespace tenon::shard {

/// The values of a module's symbols for which time is predicted.
using Symbols = llvm::SmallVector<int64_t>;

class Costs {
public:
  /// With `isHalf`, values of FP32 are taken to become FP16 or BF16 (`--precision`).
  Costs(const Graph &theGraph, const target::Target &theTarget,
        const target::Collectives &theCollectives, int64_t theRanks, bool halves, Symbols sizes)
      : graph(theGraph), target(theTarget), collectives(theCollectives), ranks(theRanks),
        isHalf(halves), symbols(std::move(sizes)) {}

  /// Of one rank.
  double seconds(mlir::Operation *op, const Strategy &strategy) const;
  /// Of a chain of elementwise operations, by its last one: what it reads and writes. The search
  /// does not ask for it, as chains are cut like what they read.
  double loopSeconds(mlir::Operation *op, const Strategy &strategy) const;
  /// What a rank exchanges to have `to` of a value of which it has `from`.
  struct Message {
    std::optional<target::Collective> kind; ///< none: what it has is enough
    int64_t bytes = 0;                      ///< of the whole value
    double seconds = 0;
  };
  Message convert(mlir::Value value, const State &from, const State &to) const;

  /// Bytes of a value, all of it, as it lies in memory.
  int64_t bytesOf(mlir::Value value) const;
  /// Bytes of the weights behind a constant, as they are stored.
  int64_t bytesOfConstant(mlir::Value constant) const;
  int64_t bytesOfWeight(tn::WeightOp weight) const;

private:
  int64_t bytesOfElement(mlir::Type element) const;

  const Graph &graph;
  const target::Target &target;
  const target::Collectives &collectives;
  int64_t ranks;
  bool isHalf;
  Symbols symbols;
};

} // namespace tenon::shard
