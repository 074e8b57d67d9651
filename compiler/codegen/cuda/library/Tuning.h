// The numbers that decide between library calls and our kernels, each with its unit and where it
// comes from.
#pragma once

#include <cstdint>

namespace tenon::codegen::cuda::tuning {

// cudnn_attention. Measured on an H200 in f16, cuDNN against our kernels without and with products
// of warpgroups: 64 x 16 heads of 384 x 384 x 64 with a mask 159 us, 198 and 93, without 107, - and
// 90; 64 x 12 heads of 197 x 197 x 64 without 47, about 60 and 34; 384 x 384 x 64 of one sequence
// 10.5, 7.9 and 5.9. At 4,096 x 4,096 x 128 without a mask cuDNN reaches 627 TFLOP/s, ours below 350
// in all of these.

/// Pairs of queries and keys, over all heads, from which on the call is worth it.
inline constexpr int64_t kLeastPairs = int64_t(16) << 20;
/// Queries and keys, against warpgroups, without a mask.
inline constexpr int64_t kLeastLength = 1024;

} // namespace tenon::codegen::cuda::tuning
