// How two partial results of a reduction are brought together. Relies on the bodies that Reduce.cpp
// makes.
#pragma once

#include "mlir/Dialect/Linalg/IR/Linalg.h"

#include <optional>

namespace tenon::codegen::cuda {

/// The values of all accumulators of one reduction.
using Accumulators = llvm::SmallVector<mlir::Value>;

class Combiner {
public:
  /// Nothing if the body does not combine its accumulators in a known way.
  static std::optional<Combiner> of(mlir::linalg::GenericOp op);

  /// The result over the elements of both.
  Accumulators combine(mlir::OpBuilder &builder, mlir::Location location, mlir::ValueRange a,
                       mlir::ValueRange b) const;
  /// The same of many, in pairs.
  Accumulators combine(mlir::OpBuilder &builder, mlir::Location location,
                       llvm::SmallVector<Accumulators> all) const;

  /// What single elements start from, as good as `neutral` and without an instruction.
  Accumulators start(mlir::OpBuilder &builder, mlir::Location location,
                     const Accumulators &neutral) const;

private:
  /// The op that combines the only accumulator with an element; null for an arg_reduce.
  mlir::Operation *single = nullptr;
  /// Of an arg_reduce: the comparison that an element must pass.
  mlir::Operation *comparison = nullptr;
};

} // namespace tenon::codegen::cuda
