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

/// tenon_all_reduce_one_f32_2 by its contract: what a rank sends lies in the other's memory, beside
/// the number of the run. The driver is free for others while one waits.
int allReduce(const KernelCall &call) {
  int64_t rank = static_cast<int64_t>(call.arguments[6]);
  // Each of them lets the other rank's thread go on.
  int64_t polls = std::min<int64_t>(static_cast<int64_t>(call.arguments[7]), 100000);
  size_t floats = static_cast<size_t>(call.arguments[5]) * 4;
  char *own = at<char>(call, 2 + rank), *other = at<char>(call, 3 - rank);
  uint32_t run = ++*reinterpret_cast<uint32_t *>(own);
  size_t words = engine::kCollectiveWords + run % 2 * 2 * engine::kOneShotBytes;
  size_t flag = engine::kCollectiveFlags + run % 2 * sizeof(uint32_t);
  std::copy_n(at<float>(call, 0), floats, reinterpret_cast<float *>(other + words));
  std::atomic_ref(*reinterpret_cast<uint32_t *>(other + flag)).store(run);
  driver().mutex.unlock();
  std::atomic_ref sent(*reinterpret_cast<uint32_t *>(own + flag));
  for (; polls > 0 && sent.load() != run; --polls) {
    std::this_thread::yield();
  }
  driver().mutex.lock();
  if (sent.load() != run) {
    *at<int32_t>(call, 4) = static_cast<int32_t>(2 - rank);
  }
  for (size_t i = 0; i < floats; ++i) {
    at<float>(call, 1)[i] = at<float>(call, 0)[i] + reinterpret_cast<float *>(own + words)[i];
  }
  return kSuccess;
}

const KernelInfo kKernels[] = {
    {"test_scale", 2, 3, scale},         {"test_add", 3, 4, add},
    {"test_reverse", 2, 2, reverse},     {"test_mapped", 2, 3, copyRows, 1},
    {"test_checked", 2, 4, copyChecked}, {"tenon_all_reduce_one_f32_2", 4, 9, allReduce}};

} // namespace

const KernelInfo *findKernel(std::string_view name) {
  const KernelInfo *found =
      std::ranges::find_if(kKernels, [&](const KernelInfo &kernel) { return kernel.name == name; });
  return found == std::end(kKernels) ? nullptr : found;
}

} // namespace tenon::test
