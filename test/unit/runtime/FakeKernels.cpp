// Does what the PTX says on host memory, block after block.

#include "test/unit/runtime/FakeKernels.h"

#include "engine/CollectiveAbi.h"
#include "engine/KernelAbi.h"
#include "runtime/device/cuda/CudaApi.h"
#include "test/unit/runtime/FakeDriver.h"

#include <algorithm>
#include <atomic>
#include <thread>

namespace tenon::test {
namespace {

using runtime::cuda::kSuccess;

template <typename T> T *at(const KernelCall &call, size_t index) {
  return reinterpret_cast<T *>(call.arguments[index]);
}

int scale(const KernelCall &call) {
  int64_t count =
      std::min<int64_t>(int64_t(call.grid) * call.block, static_cast<int64_t>(call.arguments[2]));
  for (int64_t i = 0; i < count; ++i) {
    at<float>(call, 1)[i] = 2 * at<float>(call, 0)[i];
  }
  return kSuccess;
}

int add(const KernelCall &call) {
  int64_t count =
      std::min<int64_t>(int64_t(call.grid) * call.block, static_cast<int64_t>(call.arguments[3]));
  for (int64_t i = 0; i < count; ++i) {
    at<float>(call, 2)[i] = at<float>(call, 0)[i] + at<float>(call, 1)[i];
  }
  return kSuccess;
}

int reverse(const KernelCall &call) {
  if (call.sharedBytes < call.block * sizeof(float)) {
    return kIllegalAddress;
  }
  for (size_t block = 0; block < call.grid; ++block) {
    for (size_t i = 0; i < call.block; ++i) {
      at<float>(call, 1)[block * call.block + i] =
          at<float>(call, 0)[block * call.block + call.block - 1 - i];
    }
  }
  return kSuccess;
}

/// By the tensor map, which the PTX ignores.
int copyRows(const KernelCall &call) {
  const FakeTensorMap &map = call.maps[0];
  for (uint64_t row = 0; row < map.rows; ++row) {
    const uint16_t *from = reinterpret_cast<const uint16_t *>(map.address + row * map.rowBytes);
    std::copy_n(from, map.columns, at<uint16_t>(call, 1) + row * map.columns);
  }
  return kSuccess;
}

int copyChecked(const KernelCall &call) {
  int64_t count =
      std::min<int64_t>(int64_t(call.grid) * call.block, static_cast<int64_t>(call.arguments[2]));
  for (int64_t i = 0; i < count; ++i) {
    at<float>(call, 1)[i] = at<float>(call, 0)[i];
    if (at<float>(call, 0)[i] < 0) {
      at<char>(call, 3)[TENON_KERNEL_INDEX_RANGE] = 1;
    }
  }
  return kSuccess;
}

/// What a kernel that adds up over two ranks has behind its own buffers.
struct Group {
  char *own, *other; ///< of what both share
  int32_t *status;
  int64_t count, rank, polls;
};

Group groupOf(const KernelCall &call, size_t first) {
  int64_t rank = static_cast<int64_t>(call.arguments[first + 4]);
  return {at<char>(call, first + static_cast<size_t>(rank)),
          at<char>(call, first + 1 - static_cast<size_t>(rank)), at<int32_t>(call, first + 2),
          static_cast<int64_t>(call.arguments[first + 3]), rank,
          // Each of them lets the other rank's thread go on.
          std::min<int64_t>(static_cast<int64_t>(call.arguments[first + 5]), 100000)};
}

/// Sums of both ranks by the contract: what a rank sends lies in the other's memory, beside the
/// number of the run. The driver is free for others while one waits.
void addUp(const Group &group, const float *summands, size_t floats, float *sums) {
  uint32_t run = ++*reinterpret_cast<uint32_t *>(group.own);
  bool isShort = floats * sizeof(float) <= size_t(engine::kOneShotBytes);
  size_t words = isShort ? engine::kCollectiveWords + run % 2 * 2 * engine::kOneShotBytes
                         : engine::collectiveParts(2) + run % 2 * floats * sizeof(float);
  size_t flag = engine::kCollectiveFlags + run % 2 * sizeof(uint32_t);
  std::copy_n(summands, floats, reinterpret_cast<float *>(group.other + words));
  std::atomic_ref(*reinterpret_cast<uint32_t *>(group.other + flag)).store(run);
  driver().mutex.unlock();
  std::atomic_ref sent(*reinterpret_cast<uint32_t *>(group.own + flag));
  for (int64_t polls = group.polls; polls > 0 && sent.load() != run; --polls) {
    std::this_thread::yield();
  }
  driver().mutex.lock();
  if (sent.load() != run) {
    *group.status = static_cast<int32_t>(2 - group.rank);
  }
  for (size_t i = 0; i < floats; ++i) {
    sums[i] = summands[i] + reinterpret_cast<float *>(group.own + words)[i];
  }
}

/// tenon_all_reduce_one_f32_2 and tenon_all_reduce_two_f32_2.
int allReduce(const KernelCall &call) {
  Group group = groupOf(call, 2);
  addUp(group, at<float>(call, 0), static_cast<size_t>(group.count) * 4, at<float>(call, 1));
  return kSuccess;
}

/// Rows of four floats: the sum and a residual, and twice that in place of a norm.
int normedSum(const KernelCall &call) {
  Group group = groupOf(call, 5);
  size_t floats = static_cast<size_t>(group.count) * 4;
  float *hidden = at<float>(call, 3), *norm = at<float>(call, 4);
  addUp(group, at<float>(call, 0), floats, hidden);
  for (size_t i = 0; i < floats; ++i) {
    hidden[i] += at<float>(call, 1)[i];
    norm[i] = 2 * hidden[i];
  }
  return kSuccess;
}

const KernelInfo kKernels[] = {{"test_scale", 2, 3, scale},
                               {"test_add", 3, 4, add},
                               {"test_reverse", 2, 2, reverse},
                               {"test_mapped", 2, 3, copyRows, 1},
                               {"test_checked", 2, 4, copyChecked},
                               {"tenon_all_reduce_one_f32_2", 4, 9, allReduce},
                               {"tenon_all_reduce_two_f32_2", 4, 9, allReduce},
                               {"test_normed_sum", 7, 12, normedSum}};

} // namespace

const KernelInfo *findKernel(std::string_view name) {
  const KernelInfo *found =
      std::ranges::find_if(kKernels, [&](const KernelInfo &kernel) { return kernel.name == name; });
  return found == std::end(kKernels) ? nullptr : found;
}

} // namespace tenon::test
