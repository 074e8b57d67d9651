// The numbers that tune convolutions, each with its unit and where it comes from. What they share
// with products is in gemm/Tuning.h.
#pragma once

#include <cstdint>

namespace tenon::codegen::cuda::tuning {

/// Rows and columns of the tiles that are tried.
inline constexpr int64_t kConvRows[] = {16, 32, 64, 128};
inline constexpr int64_t kConvWidths[] = {16, 32, 64, 128};
/// Columns up to which groups join in a tile: derived, what is multiplied in vain is as much as
/// the groups joined, and tensor cores have it to spare beside the memory.
inline constexpr int64_t kJoinedColumns = 32;

// conv_tensorcore.

/// Places of the depth in a stage, and where that leaves much of the last stage empty: derived.
inline constexpr int64_t kConvDepth = 64, kConvShortDepth = 32;
/// Of the padded depth, what counts as much more.
inline constexpr double kConvMuchMore = 1.1;

/// Of the estimate of bytes, whose blocks are two a multiprocessor and go from tile to tile: what
/// that leaves of the time. Measured on an H200, 52 convolutions of ResNet-50 at batch 256: 0.46 to
/// 0.63, one of short stages 0.89.
inline constexpr double kConvOfTwoBlocks = 0.58;

/// Threads of a block that lays out a filter. Chosen, not measured.
inline constexpr int64_t kFilterBlock = 256;

// conv_depthwise. Chosen, not measured.

/// Threads of a block; of a multiprocessor, below which a thread has fewer outputs.
inline constexpr int64_t kDepthwiseBlock = 256, kDepthwiseThreads = 512;
/// Bytes of channels that neighbouring threads have: derived, a line of the caches.
inline constexpr int64_t kDepthwiseBytes = 128;
/// Sums of a thread, and its outputs beside each other, at most.
inline constexpr int64_t kDepthwiseSums = 32, kDepthwiseWidth = 8;
/// Channels of a thread whose elements are bytes.
inline constexpr int64_t kDepthwiseByteLanes = 8;
/// Taps of a line that are written out.
inline constexpr int64_t kDepthwiseLine = 11;

// conv_direct.

/// Channels of a warp's sums, and of a block, at most; 8 x 16 sums of a warp at most: derived, 96
/// registers.
inline constexpr int64_t kDirectWarpWidth = 64, kDirectMostWidth = 128, kDirectSums = 24;
/// Channels of the input up to which it takes convolutions without groups. Chosen.
inline constexpr int64_t kDirectDenseChannels = 16;
/// Positions of a tile, and along a dim at most.
inline constexpr int64_t kDirectLeastPositions = 48, kDirectMostPositions = 256,
                         kDirectMostLine = 64;
/// Products that are written out; more are a loop over the filter's rows.
inline constexpr int64_t kDirectProducts = 800;
/// Registers of a thread besides one and a half for each sum.
inline constexpr int64_t kDirectRegisters = 72;
/// Of the estimate, fitted to 152 kernels of 16 convolutions on an H200, 14 % off (root mean
/// square; what it chooses takes 1.03 times the best that was measured, 1.23 at most). What
/// mma.sync reaches of a library's products; bytes a second of a multiprocessor's shared memory; of
/// the caches' time, what copies and results take.
inline constexpr double kDirectShare = 0.79, kDirectSharedRate = 210e9, kDirectLoadShare = 0.72;
/// Seconds: from the kernel before to the first block; of a copy, and of a warp's 16 positions on
/// their way out; of a block alone, of each step and of each product in it.
inline constexpr double kDirectSeconds = 0.9e-6, kDirectCopySeconds = 0.32e-9,
                        kDirectStoreSeconds = 15e-9, kDirectStepSeconds = 2.6e-9,
                        kDirectProductSeconds = 0.73e-9;

// conv_simt.

/// Places of the depth in a stage: derived, a pitch of 20 elements reads all banks.
inline constexpr int64_t kConvSimtDepth = 16;
/// Elements of a tile from which on a warp has 64 columns for 32: a thread's accumulators take at
/// most 64 registers.
inline constexpr int64_t kConvSimtWideTile = 8192;

// Both, of the estimate; chosen, not measured.

/// Seconds of a stage at least: a product's, and some for addresses.
inline constexpr double kConvStageSeconds = 0.13e-6;

} // namespace tenon::codegen::cuda::tuning
