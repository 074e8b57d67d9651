// Values that share the memory of another: nothing is computed for them.
#pragma once

#include "compiler/graph/Tn.h"

namespace tenon::tn {

/// What a value is a view of: a reshape's operand, or of a slice of the first rows of what a
/// scatter wrote, as a cache is read, the whole. Null for a value of its own. A slice that is a
/// result of the function is none: a result has memory of its own size.
mlir::Value viewedBy(mlir::Value value);

} // namespace tenon::tn
