// Regions that are one exchange between ranks. They have no kernel: their step says what is
// exchanged, and the runtime's device how.
#pragma once

#include "compiler/codegen/common/region/RegionCode.h"
#include "compiler/target/Target.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <optional>

namespace tenon::codegen {

/// Whether ranks exchange something in a region, alone or before what else it does.
bool hasExchange(mlir::func::FuncOp source);

/// The step of a region of one tn.all_reduce, of one tn.send_receive, or of one tn.all_gather of
/// whole parts along a first dim of the ranks; nothing for another region.
std::optional<RegionStep> collectiveStep(mlir::func::FuncOp source);

/// Predicted seconds of such a region among GPUs, from the end of the kernel before to its own.
double collectiveSeconds(mlir::func::FuncOp source, const target::Target &gpu);

} // namespace tenon::codegen
