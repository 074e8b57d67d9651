// The numbers that decide between library calls and our kernels, each with its unit and where it
// comes from.
#pragma once

#include <cstdint>

namespace tenon::codegen::cuda::tuning {

// cudnn_attention. Measured on an H200 in f16, cuDNN against our kernels without and with products
// of warpgroups: 64 x 16 heads of 384 x 384 x 64 with a mask 159 us, 198 and 93, without 107, - and
// 90; 64 x 12 heads of 197 x 197 x 64 without 47, about 60 and 34; 384 x 384 x 64 of one sequence
// 10.5, 7.9 and 5.9. At 4,096 x 4,096 x 128 without a mask cuDNN reaches 627 TFLOP/s, ours below
// 350 in all of these.

/// Pairs of queries and keys, over all heads, from which on the call is worth it.
inline constexpr int64_t kMinPairs = int64_t(16) << 20;
/// Queries and keys, against warpgroups, without a mask: of heads up to 64 wide, and of wider ones
/// (in us, ours second: 8 x 16 x 512 x 512 x 80 34.9 and 40.9, 4 x 16 x 512 x 512 x 96 19.8
/// and 20.2, 8 x 8 x 512 x 512 x 32 15.0 and 10.6).
inline constexpr int64_t kMinLength = 1024, kMinWideLength = 512, kNarrowCalledHead = 64;
/// Columns of the widest head that is left to it. Chosen, not measured.
inline constexpr int64_t kWidestCalledHead = 128;

// Predicted times, fitted to calls on an H200: cuBLASLt 11 % off over 87 products (root mean
// square).

/// Seconds besides what bytes and operations take: of a call, of a product and of a convolution.
inline constexpr double kCallSeconds = 1e-6, kMatmulSeconds = 3.4e-6, kConvSeconds = 4.3e-6;
/// Of its time, what each of the library's later proposals is predicted to take longer. Chosen, so
/// that the first of them are measured among the best kernels.
inline constexpr double kProposalShare = 0.03;
/// Seconds of an element of a product's depth, and of a filter's.
inline constexpr double kDepthSeconds = 1.45e-9, kConvDepthSeconds = 1.7e-9;
/// Of convolutions of 16-bit floats: seconds of a grouped one and its operations a second: 24 and
/// 48 channels of a group, 0.4 to 8.3 GFLOP, took 77 to 966 us, 1.8 times off at most; but those of
/// ResNeXt-50, 4 to 32 channels and 0.9 GFLOP, about 27 us on average. Channels up to which a depth
/// takes longer, and how much: 7 x 7 of 256 pictures 1,260 us, 3 x 3 of 32 and 8 pictures 33
/// and 12.
inline constexpr double kGroupedConvSeconds = 50e-6, kGroupedConvRate = 11e12;
inline constexpr int64_t kNarrowConvChannels = 8;
inline constexpr double kNarrowConvFactor = 10;
/// Seconds that each of the first bytes takes besides; how much longer all take with rows on odd
/// borders, and operations (64 and 600 rows of 50,257 x 768 took 155 and 546 us).
inline constexpr double kFewBytesSeconds = 0.22e-12, kFewBytes = 12e6, kOddRows = 2.8,
                        kOddFlops = 7.5;

} // namespace tenon::codegen::cuda::tuning
