// Weight packing for contractions; see PackWeights.cpp.
#pragma once

#include "compiler/target/Target.h"
#include "mlir/IR/Block.h"

namespace tenon::dispatch {

/// The constant weight of every contraction that reads it in a layout of its own becomes tn.pack
/// and tn.unpack; equal packs are made once.
void packWeights(mlir::Block *block, const target::Target &device);

} // namespace tenon::dispatch
