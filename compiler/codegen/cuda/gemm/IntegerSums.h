// Sums of products of small integers (graph/NarrowIntegers.h) that are multiplied as floats. The
// products of one stage of the depth add up in FP32, from 1.5 * 2^23 on: there neighbouring floats
// are 1 apart and their bits are those of an integer, so nothing is rounded as long as the sum of a
// stage is less than 2^22 in magnitude. Between stages these integers are added.
#pragma once

#include "compiler/codegen/cuda/base/ThreadBuilder.h"
#include "compiler/codegen/cuda/gemm/GemmMatch.h"
#include "compiler/graph/NarrowIntegers.h"

namespace tenon::codegen::cuda {

inline constexpr float kIntegerZero = 12582912.0f; ///< 1.5 * 2^23
inline constexpr int32_t kIntegerZeroBits = 0x4b400000;
/// The most places of the depth in a stage.
inline constexpr int64_t kIntegerDepth = 64;
static_assert(kIntegerDepth * tn::kMaxNarrow * tn::kMaxNarrow < (1 << 22));

/// Whether a product accumulators integers.
inline bool sumsIntegers(const GemmTensors &tensors) {
  return mlir::getElementTypeOrSelf(tensors.sum.getType()).isInteger(32);
}

/// `stage` gives `accumulators` with its products added. Adds them to integers.
template <typename Stage>
ThreadBuilder::Values addIntegers(const ThreadBuilder &t, mlir::ValueRange accumulators,
                                  Stage stage) {
  ThreadBuilder::Values zeros(accumulators.size(), t.f32(kIntegerZero)), result;
  for (auto [sum, added] : llvm::zip_equal(accumulators, stage(zeros))) {
    mlir::Value bits = t.bitcast(t.i32Type(), added);
    result.push_back(t.add(sum, t.sub(bits, t.i32(kIntegerZeroBits))));
  }
  return result;
}

} // namespace tenon::codegen::cuda
