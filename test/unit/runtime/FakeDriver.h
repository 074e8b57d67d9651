// What the parts of the stand-in for NVIDIA's driver share: its state, and the beginning of each
// of its functions, which counts the call and fails if a test has asked for it.

#pragma once

#include "test/unit/runtime/FakeCuda.h"
#include "test/unit/runtime/FakeObjects.h"

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <string_view>

namespace tenon::test {

constexpr int kInvalidValue = 1;
constexpr int kInvalidPtx = 218;
constexpr int kNotFoundCode = 500;
constexpr int kCaptureUnsupported = 900;
constexpr int kCaptureUnjoined = 904;
constexpr int kInvalidContext = 201;

class Driver : public FakeCuda {
public:
  /// With as many devices as CUDA_VISIBLE_DEVICES names, if it names some.
  Driver() {
    const char *visible = std::getenv("CUDA_VISIBLE_DEVICES");
    std::string_view names = visible ? visible : "";
    devices += static_cast<int>(std::count(names.begin(), names.end(), ','));
    memoryLimit = std::getenv("TENON_FAKE_GPU") ? size_t(64) << 30 : memoryLimit;
  }
  void reset() override {
    counts.clear();
    early = 0;
    compiled = 0;
    captured.clear();
    failures.clear();
    driverVersion = 13000;
    devices = 1;
    otherName = "";
    reachesPeers = true;
    capability = 90;
    jitLog = "";
    memoryLimit = size_t(1) << 30;
  }
  void fail(const std::string &function, int code, int calls) override {
    failures[function] = {code, calls};
  }
  int calls(const std::string &function) const override {
    std::map<std::string, int>::const_iterator found = counts.find(function);
    return found == counts.end() ? 0 : found->second;
  }
  size_t deviceBytes() const override { return bytesOf(deviceBlocks); }
  size_t pinnedBytes() const override { return bytesOf(pinnedBlocks); }
  int contextsRetained() const override { return retained; }
  int earlyLaunches() const override { return early; }
  int compilations() const override { return compiled; }
  std::vector<FakeNode> lastGraph() const override { return captured; }

  /// Counts a call; the code that it shall fail with, or success.
  int begin(const char *function) {
    ++counts[function];
    std::map<std::string, Failure>::iterator found = failures.find(function);
    if (found == failures.end() || found->second.calls-- > 0) {
      return runtime::cuda::kSuccess;
    }
    int code = found->second.code;
    failures.erase(found);
    return code;
  }
  bool isDevice(uint64_t pointer, size_t bytes) const { return isIn(deviceBlocks, pointer, bytes); }
  /// What allocating does while a stream captures in this thread.
  bool isCapturing() const { return capturing != 0; }

  /// The context must be current for whatever touches memory, streams or modules.
  static bool hasContext() { return !contexts.empty(); }

  std::recursive_mutex mutex;

  using Blocks = std::map<uint64_t, size_t>;
  static bool isIn(const Blocks &blocks, uint64_t pointer, size_t bytes) {
    Blocks::const_iterator after = blocks.upper_bound(pointer);
    if (after == blocks.begin()) {
      return false;
    }
    --after;
    return pointer + bytes <= after->first + after->second;
  }
  static size_t bytesOf(const Blocks &blocks) {
    size_t bytes = 0;
    for (const auto &[start, size] : blocks) {
      bytes += size;
    }
    return bytes;
  }

  struct Failure {
    int code;
    int calls;
  };
  std::map<std::string, int> counts;
  std::map<std::string, Failure> failures;
  Blocks deviceBlocks;
  Blocks pinnedBlocks;
  int retained = 0;
  int early = 0;
  int compiled = 0;
  std::vector<FakeNode> captured;
  static thread_local int capturing;
  static thread_local std::vector<runtime::cuda::ContextHandle> contexts;
};

Driver &driver();

/// Does the work of a stream now, or records it.
int submit(runtime::cuda::StreamHandle stream, std::unique_ptr<runtime::cuda::CudaNodeObject> node);
int submitWork(runtime::cuda::StreamHandle stream, std::function<int()> work);

/// Runs a kernel now.
int runKernel(const runtime::cuda::CudaFunctionObject &function, const KernelCall &call);

/// Reads the arguments of a launch as the driver does: now.
int readCall(const runtime::cuda::CudaFunctionObject &function, unsigned grid, unsigned block,
             unsigned shared, void **params, KernelCall &call);

} // namespace tenon::test

#define FAKE(name)                                                                                 \
  std::lock_guard<std::recursive_mutex> guard(driver().mutex);                                     \
  if (int failure = driver().begin(#name)) {                                                       \
    return failure;                                                                                \
  }
#define FAKE_IN_CONTEXT(name)                                                                      \
  FAKE(name)                                                                                       \
  if (!driver().hasContext()) {                                                                    \
    return kInvalidContext;                                                                        \
  }

#define EXPORT extern "C" __attribute__((visibility("default")))
