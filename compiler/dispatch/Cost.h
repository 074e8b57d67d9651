// The cost model: bytes, work and time of operations run as one kernel. Relies on the shapes of the
// values, with symbols at a representative value, and on a device profile.
#pragma once

#include "compiler/dispatch/Records.h"
#include "compiler/graph/Shape.h"
#include "compiler/target/Target.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/DenseMap.h"

namespace tenon::dispatch {

class CostModel {
public:
  CostModel(mlir::ModuleOp module, const target::Target &deviceProfile);

  /// Bytes of a value.
  int64_t bytesOf(mlir::Value value) const;
  /// Elements of a list of dims.
  int64_t countOf(llvm::ArrayRef<mlir::AffineExpr> dims) const;
  /// Arithmetic operations of one op; transcendental functions count for several.
  double workOf(mlir::Operation *op) const;
  /// The cost of `ops`, none before one that it reads from, as one kernel: values from outside are
  /// read once, values used outside are written once, others computed wherever they are read.
  /// With `isGenerated`, products are not those of a library.
  Cost costOf(llvm::ArrayRef<mlir::Operation *> ops, bool isGenerated = false) const;

  /// Neighbours as two kernels, and as one, of which no product is a library's if `isGenerated`.
  struct BothWays {
    Cost apart, fused;
  };
  BothWays compare(llvm::ArrayRef<mlir::Operation *> producers,
                   llvm::ArrayRef<mlir::Operation *> consumers, bool isGenerated = false) const;

  const target::Target &profile() const { return device; }
  /// What stands for each symbol of the module.
  llvm::ArrayRef<int64_t> sizes() const { return symbols; }

private:
  double peakOf(mlir::Operation *op, bool isGenerated) const;
  double productRate(llvm::ArrayRef<mlir::Operation *> ops, bool isGenerated) const;
  /// Elements that the readers of a value want: at the same places, which counts once, and at
  /// places of their own.
  struct Readers {
    double together = 0;
    double apart = 0;
  };
  using Reads = llvm::DenseMap<mlir::Value, Readers>;
  void countReads(mlir::Operation *op, double times, Reads &reads) const;
  int64_t bytesRead(mlir::Value value, llvm::ArrayRef<mlir::Operation *> ops) const;

  target::Target device;
  llvm::SmallVector<int64_t> symbols;
};

/// Operations of `op` in the time of one of FP32, on a CPU: 1 but for products of 8-bit integers
/// and of bf16.
double narrowRate(mlir::Operation *op, const target::Target &cpu);

/// The cost of a region that was cut out of the model, as one kernel.
Cost costOfRegion(mlir::Block &body, const target::Target &target, bool isGenerated);

/// The size at which is decided for each symbol of a module: its largest, at most 128. Decisions
/// are for batches too; what people read is for the likely sizes (support/LikelySize.h).
llvm::SmallVector<int64_t> representativeSymbols(mlir::ModuleOp module);

} // namespace tenon::dispatch
