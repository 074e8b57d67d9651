// Which regions may write their result over one of their operands.
#pragma once

#include "compiler/graph/Tn.h"

namespace tenon::plan {

/// Whether the region may write `output` (null: its only result) over its input of that number: an
/// elementwise region reads each element where it writes it (with several results it might read
/// after it wrote, so these get their own), so do kernels that end in elementwise operations and
/// say so (`readsAtEnds`, codegen::RegionStep::mayOverwriteInputs), and a scatter starts from a
/// copy of its data, which then is no copy.
bool mayWriteOver(tn::RegionOp region, unsigned number, bool readsAtEnds, mlir::Value output = {});

} // namespace tenon::plan
