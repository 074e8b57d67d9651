// The order in which tn.top_k gives elements, for codes of every target.
#pragma once

#include "compiler/graph/Tn.h"
#include "mlir/IR/Builders.h"

namespace tenon::codegen {

/// An element, widened, and its i64 index along the axis.
struct Ranked {
  mlir::Value value, index;
};

/// Whether `a` stands before `other`: NaN is larger than every number; of equal ones the lower
/// index is first. A total order.
mlir::Value isBefore(mlir::OpBuilder &builder, mlir::Location location, tn::TopKOp op, Ranked a,
                     Ranked other);

/// Whether so many are taken from a row that it is brought in order, and not passed over for each.
bool takesMany(tn::TopKOp op);

} // namespace tenon::codegen
