// Gives every memref.alloc of a kernel its place in the thread's scratch memory.
#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/AffineExpr.h"

namespace tenon::codegen::cpu {

/// Replaces the allocations of a kernel by memrefs into its context's scratch; each has its own
/// place for the whole call. Returns the bytes needed, over the region's symbols.
mlir::FailureOr<mlir::AffineExpr> assignScratch(mlir::func::FuncOp kernel);

} // namespace tenon::codegen::cpu
