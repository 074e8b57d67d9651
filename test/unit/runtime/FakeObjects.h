// What the handles of the stand-in for NVIDIA's driver stand for. Relies on FakeKernels for what a
// kernel is.

#pragma once

#include "runtime/device/cuda/CudaApi.h"
#include "test/unit/runtime/FakeKernels.h"

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace tenon::runtime::cuda {

using test::KernelCall;
using test::KernelInfo;

struct CudaFunctionObject {
  const KernelInfo *info;
  std::unique_ptr<const KernelInfo> own;         ///< of a kernel that is interpreted
  std::unique_ptr<KernelInfo> unknown = nullptr; ///< `info` of a kernel that a FakePlan runs
  std::string name = "";                         ///< of such a kernel
  size_t kernelsOfModule = 0;
  int dynamicBytes = 0; ///< that are allowed: a driver takes the static ones from 48 KiB
  bool hasLargeCluster = false, mayHaveIt = false; ///< of more than kPortableCluster blocks
};

struct CudaModuleObject {
  std::string text;
  std::vector<std::unique_ptr<CudaFunctionObject>> functions;
};

struct CudaNodeObject {
  CudaFunctionObject *function = nullptr; ///< of a kernel
  KernelCall call;
  std::function<int()> work; ///< of any other node
  const CudaNodeObject *origin = nullptr;
  size_t index = 0; ///< in its graph
  std::vector<size_t> after;
  bool isEarly = false;
};

struct CudaGraphObject {
  std::vector<std::unique_ptr<CudaNodeObject>> nodes;
};

struct CudaGraphExecObject {
  std::vector<std::unique_ptr<CudaNodeObject>> nodes;
};

/// A capture and the streams that take part in it, the first of which began it.
struct Capture {
  CudaGraphObject graph;
  std::vector<StreamHandle> streams;
};

struct CudaStreamObject {
  std::shared_ptr<Capture> capture;
  std::vector<NodeHandle> last; ///< what the next node follows
};

struct CudaEventObject {
  std::chrono::steady_clock::time_point time;
  bool isTimed = false;
  std::shared_ptr<Capture> capture; ///< that it was recorded in
  std::vector<NodeHandle> last;
};

} // namespace tenon::runtime::cuda
