// The two emitters with which the tests of attention run its kernels.
#pragma once

#include "compiler/codegen/cuda/attention/AttentionKernels.h"
#include "test/unit/codegen/emulator/HandKernelCheck.h"

namespace tenon::codegen::cuda {

/// Of the tile that is chosen for the shape.
inline const Emitter emitChosen =
    byFamily({"attention_stream", "attention_flash", "attention_simt"});

/// Of a tile that would else only be chosen for large shapes.
inline Emitter emitTile(AttentionTile tile) {
  return [tile](RegionBuilder &region) {
    emitTensorCoreAttention(region, *matchAttention(region.source), tile);
    return true;
  };
}

} // namespace tenon::codegen::cuda
