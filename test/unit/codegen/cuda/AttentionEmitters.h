// The two emitters with which the tests of attention run its kernels.
#pragma once

#include "HandKernelCheck.h"
#include "compiler/codegen/cuda/AttentionKernels.h"
#include "compiler/codegen/cuda/Strategies.h"

namespace tenon::codegen::cuda {

/// Of the tile that is chosen for the shape.
inline mlir::FailureOr<bool> emitChosen(RegionBuilder &region) { return emitAttention(region); }

/// Of a tile that would else only be chosen for large shapes.
inline Emitter emitTile(AttentionTile tile) {
  return [tile](RegionBuilder &region) {
    emitTensorCoreAttention(*region.kernels, region.symbol, *matchAttention(region.source), tile,
                            region.arch, region.code);
    return true;
  };
}

} // namespace tenon::codegen::cuda
