// The kernel families of CPUs (docs/adr/0015). Each fills a kernel's body with loops, linalg on
// memrefs, vectors and product calls, and says what the grid is.
#pragma once

#include "compiler/codegen/cpu/KernelBuilder.h"
#include "engine/CpuLevel.h"

#include <array>

namespace tenon::codegen::cpu {

/// Fills `kernel` for the `tn` function `source`. Gives the number of grid points as an expression
/// over the region's symbols. Errors are reported as diagnostics.
using LowerFn = mlir::FailureOr<mlir::AffineExpr> (*)(KernelBuilder &kernel,
                                                      mlir::func::FuncOp source,
                                                      engine::CpuLevel level);

/// A row of the table in CpuCodegen.cpp. One family serves each strategy, so there is no choice yet.
struct KernelFamily {
  llvm::StringLiteral name;
  /// What it is in the field's words, for people.
  llvm::StringLiteral what;
  /// The strategies whose regions it computes.
  std::array<llvm::StringRef, 4> strategies;
  LowerFn lower;
};

mlir::FailureOr<mlir::AffineExpr> lowerTiled(KernelBuilder &kernel, mlir::func::FuncOp source,
                                             engine::CpuLevel level);
mlir::FailureOr<mlir::AffineExpr> lowerContraction(KernelBuilder &kernel, mlir::func::FuncOp source,
                                                   engine::CpuLevel level);
mlir::FailureOr<mlir::AffineExpr> lowerAttention(KernelBuilder &kernel, mlir::func::FuncOp source,
                                                 engine::CpuLevel level);

} // namespace tenon::codegen::cpu
