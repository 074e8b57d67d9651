// Kernels that run at the same time on the GPUs of a group and exchange their data through each
// other's memory, by the contract of engine/CollectiveAbi.h. Relies on every rank starting the same
// kernels in the same order, one at a time.
#pragma once

#include "compiler/codegen/cuda/base/Region.h"
#include "engine/Plan.h"
#include "support/DType.h"
#include "llvm/Support/Error.h"

#include <string>
#include <vector>

namespace tenon::codegen::cuda {

struct AllReduceKernel {
  DType type = DType::BF16; ///< F32, F16 or BF16
  int64_t ranks = 2;
  int64_t threads = 256; ///< of a block
  /// Sums a part on each rank and sends it round, in place of all on each.
  bool isTwoShot = false;
};

/// All-reduce, plus a residual, and the RMSNorm of that: rows of `width` elements. A row's squares
/// are added up as RowNorm (gemm/RowNorm.h) does with kSlices warps.
struct AllReduceNormKernel {
  DType type = DType::BF16;
  /// With one, what stands behind an all-reduce alone: a launch like any other, over rows.
  int64_t ranks = 2;
  int64_t width = 4096; ///< a multiple of the elements of a vector
  float epsilon = 1e-5f;
};
/// Threads that share out the vectors of a row.
int64_t threadsOf(const AllReduceNormKernel &kernel);
/// Each of them sends and writes as many vectors as it has threads.
int64_t blocksOfRow(const AllReduceNormKernel &kernel);

/// Words of all ranks on each, one rank's behind the other's, whatever they are.
struct AllGatherKernel {
  int64_t ranks = 2;
  int64_t threads = 256;
};

/// "tenon_all_gather_2", "tenon_all_reduce_one_bf16_2", "tenon_all_reduce_two_f32_4",
/// "tenon_all_reduce_norm_bf16_2_4096".
std::string nameOf(const AllReduceKernel &kernel);
std::string nameOf(const AllReduceNormKernel &kernel);
std::string nameOf(const AllGatherKernel &kernel);

/// Adds the kernel to the region's, under the region's name.
void emitAllReduce(RegionBuilder &region, const AllReduceKernel &kernel);
void emitAllReduceNorm(RegionBuilder &region, const AllReduceNormKernel &kernel);
void emitAllGather(RegionBuilder &region, const AllGatherKernel &kernel);

/// Names of the kernels that the runtime may start for a collective; none where it takes NCCL.
std::vector<std::string> collectiveKernels(engine::CollectiveKind kind, DType type, int64_t ranks);

/// PTX of one kernel under its name.
llvm::Expected<std::string> collectivePtx(const AllReduceKernel &kernel, const target::Target &gpu);
llvm::Expected<std::string> collectivePtx(const AllReduceNormKernel &kernel,
                                          const target::Target &gpu);
llvm::Expected<std::string> collectivePtx(const AllGatherKernel &kernel, const target::Target &gpu);

} // namespace tenon::codegen::cuda
