// Attention regions on a GPU: a generated kernel in the flash form (running maximum and sum, scores
// never in memory). Relies on the region holding one tn.attention with movement ops around it.
#pragma once

#include "compiler/codegen/common/region/RegionCode.h"
#include "compiler/target/Target.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"

namespace tenon::codegen::cuda {

/// Appends the region's kernels, whose names begin with `symbol`, to `module` and their steps and
/// temporaries to `code`. False, with nothing appended, if the region is not of this form or of a
/// type or head size that these kernels do not do (f64, heads of more than 256).
bool emitAttention(mlir::ModuleOp module, mlir::func::FuncOp source, llvm::StringRef symbol,
                   const target::Target &gpu, RegionCode &code);

} // namespace tenon::codegen::cuda
