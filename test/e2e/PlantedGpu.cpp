// A stand-in for NVIDIA's driver that runs nothing and takes the times that a test plants: a clock
// of its own, which launches, copies and fills move on. TENON_PLANTED_TIMES names a file of lines
// "kernel microseconds", where the kernel is a name, "*", or "each-start" for what a launch takes
// besides where no graph holds it; TENON_PLANTED_LOG one to which it writes the names of kernels as
// they are loaded. Results are whatever memory holds.

#include "runtime/device/cuda/CudaApi.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <vector>

using namespace tenon::runtime::cuda;

namespace {

/// Bytes a second of copies, read and written together.
constexpr double kMemoryRate = 4.0e12;
constexpr size_t kMemory = size_t(8) << 30;
constexpr int kMultiprocessorCount = 132, kL2 = 50 << 20;

double clockSeconds = 0;

std::map<std::string, double> &plantedTimes() {
  static std::map<std::string, double> times = [] {
    std::map<std::string, double> read;
    const char *path = std::getenv("TENON_PLANTED_TIMES");
    std::ifstream file(path ? path : "");
    std::string name;
    double microseconds = 0;
    while (file >> name >> microseconds) {
      read[name] = microseconds * 1e-6;
    }
    return read;
  }();
  return times;
}

double secondsOf(const std::string &kernel) {
  for (const std::string &name : {kernel, std::string("*")}) {
    if (auto found = plantedTimes().find(name); found != plantedTimes().end()) {
      return found->second;
    }
  }
  return 1e-6;
}

} // namespace

namespace tenon::runtime::cuda {

struct CudaFunctionObject {
  double seconds;
};
struct CudaModuleObject {
  std::vector<std::unique_ptr<CudaFunctionObject>> functions;
};
struct CudaNodeObject {};
struct CudaGraphObject {
  double seconds = 0;
};
struct CudaGraphExecObject {
  double seconds = 0;
};
struct CudaStreamObject {
  std::shared_ptr<double> captured; ///< seconds of what was captured, of all streams together
  CudaNodeObject node;
  NodeHandle last = nullptr;
};
struct CudaEventObject {
  double at = 0;
  std::shared_ptr<double> captured;
};

} // namespace tenon::runtime::cuda

namespace {

int work(StreamHandle stream, double seconds) {
  (stream && stream->captured ? *stream->captured : clockSeconds) += seconds;
  if (stream) {
    stream->last = &stream->node;
  }
  return kSuccess;
}

int context = 0;

void (*listener)(int) = nullptr;

/// That a call to cuEventRecord begins (0) or ends (1).
void tell(int site) {
  if (listener) {
    listener(site);
  }
}

std::vector<StreamHandle> &streams() {
  static std::vector<StreamHandle> all;
  return all;
}

} // namespace

#define PLANTED extern "C" __attribute__((visibility("default"))) int

/// For stand-ins of libraries.
extern "C" __attribute__((visibility("default"))) void
tenonPlantedListen(void (*newListener)(int)) {
  listener = newListener;
}
PLANTED tenonPlantedWork(StreamHandle stream, double seconds) { return work(stream, seconds); }

PLANTED cuInit(unsigned) { return kSuccess; }
PLANTED cuDriverGetVersion(int *version) {
  *version = 13000;
  return kSuccess;
}
PLANTED cuGetErrorName(int, const char **name) {
  *name = "CUDA_ERROR_PLANTED";
  return kSuccess;
}
PLANTED cuGetErrorString(int, const char **text) {
  *text = "an error of the stand-in";
  return kSuccess;
}
PLANTED cuDeviceGetCount(int *count) {
  *count = 1;
  return kSuccess;
}
PLANTED cuDeviceGet(int *device, int) {
  *device = 0;
  return kSuccess;
}
PLANTED cuDeviceGetName(char *name, int length, int) {
  std::strncpy(name, "NVIDIA H200", static_cast<size_t>(length));
  return kSuccess;
}
PLANTED cuDeviceGetAttribute(int *value, int attribute, int) {
  *value = attribute == kCapabilityMajor    ? 9
           : attribute == kCapabilityMinor  ? 0
           : attribute == kSharedBytesOptIn ? 227 << 10
           : attribute == kL2Bytes          ? kL2
                                            : kMultiprocessorCount;
  return kSuccess;
}
PLANTED cuDeviceTotalMem_v2(size_t *bytes, int) {
  *bytes = kMemory;
  return kSuccess;
}
PLANTED cuDevicePrimaryCtxRetain(ContextHandle *handle, int) {
  *handle = reinterpret_cast<ContextHandle>(&context);
  return kSuccess;
}
PLANTED cuDevicePrimaryCtxRelease_v2(int) { return kSuccess; }
PLANTED cuCtxGetCurrent(ContextHandle *handle) {
  *handle = reinterpret_cast<ContextHandle>(&context);
  return kSuccess;
}
PLANTED cuDeviceCanAccessPeer(int *can, int, int) {
  *can = 0;
  return kSuccess;
}
PLANTED cuCtxEnablePeerAccess(ContextHandle, unsigned) { return kSuccess; }
PLANTED cuCtxPushCurrent_v2(ContextHandle) { return kSuccess; }
PLANTED cuCtxPopCurrent_v2(ContextHandle *) { return kSuccess; }
PLANTED cuMemGetInfo_v2(size_t *free, size_t *total) {
  *free = *total = kMemory;
  return kSuccess;
}

// Memory that nothing touches costs no pages.
PLANTED cuMemAlloc_v2(DevicePointer *pointer, size_t bytes) {
  void *memory = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  *pointer = reinterpret_cast<DevicePointer>(memory);
  return memory ? kSuccess : kOutOfMemory;
}
PLANTED cuMemFree_v2(DevicePointer pointer) {
  std::free(reinterpret_cast<void *>(pointer));
  return kSuccess;
}
PLANTED cuMemAllocHost_v2(void **pointer, size_t bytes) {
  *pointer = std::calloc(1, std::max<size_t>(bytes, 1));
  return *pointer ? kSuccess : kOutOfMemory;
}
PLANTED cuMemFreeHost(void *pointer) {
  std::free(pointer);
  return kSuccess;
}
PLANTED cuMemcpyHtoDAsync_v2(DevicePointer, const void *, size_t bytes, StreamHandle stream) {
  return work(stream, static_cast<double>(bytes) / kMemoryRate);
}
PLANTED cuMemcpyDtoHAsync_v2(void *to, DevicePointer, size_t bytes, StreamHandle stream) {
  std::memset(to, 0, bytes);
  return work(stream, static_cast<double>(bytes) / kMemoryRate);
}
PLANTED cuMemcpyDtoDAsync_v2(DevicePointer, DevicePointer, size_t bytes, StreamHandle stream) {
  return work(stream, 2 * static_cast<double>(bytes) / kMemoryRate);
}
PLANTED cuMemcpyPeerAsync(DevicePointer, ContextHandle, DevicePointer, ContextHandle, size_t bytes,
                          StreamHandle stream) {
  return work(stream, 2 * static_cast<double>(bytes) / kMemoryRate);
}
PLANTED cuMemsetD8Async(DevicePointer, unsigned char, size_t bytes, StreamHandle stream) {
  return work(stream, static_cast<double>(bytes) / kMemoryRate);
}

PLANTED cuStreamCreate(StreamHandle *stream, unsigned) {
  *stream = streams().emplace_back(new CudaStreamObject());
  return kSuccess;
}
PLANTED cuStreamDestroy_v2(StreamHandle stream) {
  std::erase(streams(), stream);
  delete stream;
  return kSuccess;
}
PLANTED cuStreamSynchronize(StreamHandle) { return kSuccess; }
PLANTED cuStreamWaitEvent(StreamHandle stream, EventHandle event, unsigned) {
  if (event->captured) {
    stream->captured = event->captured;
  }
  return kSuccess;
}
PLANTED cuStreamBeginCapture_v2(StreamHandle stream, int) {
  stream->captured = std::make_shared<double>(0);
  return kSuccess;
}
PLANTED cuStreamEndCapture(StreamHandle stream, GraphHandle *graph) {
  *graph = new CudaGraphObject{*stream->captured};
  for (StreamHandle each : streams()) {
    each->captured.reset();
  }
  return kSuccess;
}
PLANTED cuStreamGetCaptureInfo_v3(StreamHandle stream, int *, uint64_t *, GraphHandle *,
                                  const NodeHandle **nodes, const void **, size_t *count) {
  *nodes = &stream->last;
  *count = stream->last ? 1 : 0;
  return kSuccess;
}

PLANTED cuEventCreate(EventHandle *event, unsigned) {
  *event = new CudaEventObject();
  return kSuccess;
}
PLANTED cuEventDestroy_v2(EventHandle event) {
  delete event;
  return kSuccess;
}
PLANTED cuEventRecord(EventHandle event, StreamHandle stream) {
  tell(0);
  event->at = clockSeconds;
  event->captured = stream ? stream->captured : nullptr;
  tell(1);
  return kSuccess;
}
PLANTED cuEventSynchronize(EventHandle) { return kSuccess; }
PLANTED cuEventElapsedTime(float *milliseconds, EventHandle start, EventHandle end) {
  *milliseconds = static_cast<float>((end->at - start->at) * 1e3);
  return kSuccess;
}

PLANTED cuGraphInstantiateWithFlags(GraphExecHandle *exec, GraphHandle graph, unsigned long long) {
  *exec = new CudaGraphExecObject{graph->seconds};
  return kSuccess;
}
PLANTED cuGraphExecUpdate_v2(GraphExecHandle exec, GraphHandle graph, GraphUpdateInfo *) {
  exec->seconds = graph->seconds;
  return kSuccess;
}
PLANTED cuGraphExecKernelNodeSetParams_v2(GraphExecHandle, NodeHandle, const KernelNodeParams *) {
  return kSuccess;
}
PLANTED cuGraphLaunch(GraphExecHandle exec, StreamHandle stream) {
  return work(stream, exec->seconds);
}
PLANTED cuGraphExecDestroy(GraphExecHandle exec) {
  delete exec;
  return kSuccess;
}
PLANTED cuGraphDestroy(GraphHandle graph) {
  delete graph;
  return kSuccess;
}

PLANTED cuModuleLoadDataEx(ModuleHandle *module, const void *, unsigned, int *, void **) {
  *module = new CudaModuleObject();
  return kSuccess;
}
PLANTED cuModuleUnload(ModuleHandle module) {
  delete module;
  return kSuccess;
}
PLANTED cuModuleGetFunction(FunctionHandle *function, ModuleHandle module, const char *name) {
  if (const char *path = std::getenv("TENON_PLANTED_LOG")) {
    std::ofstream(path, std::ios::app) << name << '\n';
  }
  module->functions.push_back(std::make_unique<CudaFunctionObject>(secondsOf(name)));
  *function = module->functions.back().get();
  return kSuccess;
}
PLANTED cuFuncGetAttribute(int *value, int, FunctionHandle) {
  *value = 0;
  return kSuccess;
}
PLANTED cuFuncSetAttribute(FunctionHandle, int, int) { return kSuccess; }
PLANTED cuLaunchKernelEx(const LaunchConfig *config, FunctionHandle function, void **, void **) {
  bool isCaptured = config->stream && config->stream->captured;
  auto slowed = plantedTimes().find("each-start");
  double start = slowed == plantedTimes().end() || isCaptured ? 0 : slowed->second;
  return work(config->stream, function->seconds + start);
}
PLANTED cuTensorMapEncodeTiled(EncodedTensorMap *, int, unsigned, void *, const uint64_t *,
                               const uint64_t *, const unsigned *, const unsigned *, int, int, int,
                               int) {
  return kSuccess;
}
