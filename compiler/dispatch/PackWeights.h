// Weight packing for contractions; see PackWeights.cpp.
#pragma once

#include "mlir/IR/Block.h"

namespace tenon::dispatch {

/// Every constant B operand of an f32 contraction becomes tn.pack and tn.unpack; equal packs are
/// made once.
void packWeights(mlir::Block *block);

} // namespace tenon::dispatch
