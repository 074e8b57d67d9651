// The numbers that tune recurrent layers, each with its unit and where it comes from.
#pragma once

#include <cstdint>

namespace tenon::codegen::cuda::tuning {

/// Weights of 32 bits that a thread holds through all steps, and threads of a block then: two
/// thirds of a multiprocessor's registers (derived).
inline constexpr int64_t kHeldWeights = 80, kHeldThreads = 512;
/// Threads of a block that reads its weights again in each step: as many loads on the way as can
/// be. Chosen, not measured.
inline constexpr int64_t kReadThreads = 1024;
/// The same with peepholes, for which 64 registers are too few: ptxas spills at 512 and 1,024.
inline constexpr int64_t kPeepholeThreads = 768;
/// Blocks of a cluster at most. Chosen, not measured.
inline constexpr int64_t kMaxClusterBlocks = 8;
/// Seconds of a step apart from the weights that it reads: barriers, the way through shared memory,
/// gates; of a cluster and of one block. An LSTM of 256 units took 0.98 to 1.16 us a step on an
/// H200, one of 64 units 0.36 us.
inline constexpr double kStepSeconds = 1.1e-6, kBlockStepSeconds = 0.36e-6;
/// Of the multiprocessors, those that clusters can use: there, 16 clusters of 8 blocks took two
/// waves on 132.
inline constexpr double kClusterShare = 0.94;

/// Of persistent recurrences: weights of 32 bits that each of 256 threads holds through all steps
/// (nearly half of its registers: no more leaves room for sums), and rows of the batch of a group
/// at most. Derived; chosen.
inline constexpr int64_t kPersistentWords = 112, kPersistentRows = 128;
/// Bytes of a block's shared memory up to which it keeps what its registers do not hold: what GPUs
/// with as much have (a layer does not fit on others). Derived.
inline constexpr int64_t kPersistentShared = 227 * 1024;
/// Cycles a second; multiply-adds of mma.sync and of FP32 (each beside loads of the state) and
/// exponentials and reciprocals that a multiprocessor does in a cycle; bytes of shared memory.
/// Derived, the first two so that 110 engines measured on an H200 agree.
inline constexpr double kClock = 1.7e9, kMmaPerCycle = 1200, kFmaPerCycle = 96,
                        kSpecialPerCycle = 16, kSharedPerCycle = 128;
/// Exponentials and reciprocals of a gate.
inline constexpr double kSpecialsOfGate = 2.5;
/// How often a sum of one part of the depth passes through shared memory, with the addresses.
inline constexpr double kSumPasses = 3;
/// Bytes a second that all blocks together read of states in the L2: from 8 to 32 rows, and from 32
/// to 128, LSTMs of 1,024 units took so much longer than products and sums do.
inline constexpr double kStateBandwidth = 8.4e12;
/// Seconds of a step apart from products and copies: until all blocks of the grid have each other's
/// state through the L2 (a store and a look), and for each further chunk of rows; those of a
/// cluster through shared memory, and the threads of one block. From the same layers.
inline constexpr double kGridExchange = 0.95e-6, kGridChunk = 0.3e-6, kClusterExchange = 0.37e-6,
                        kBlockExchange = 0.15e-6;
/// How often a thread looks for states in all steps together before it gives up: about 20 seconds.
inline constexpr int64_t kGridLooks = int64_t(1) << 25;

} // namespace tenon::codegen::cuda::tuning
