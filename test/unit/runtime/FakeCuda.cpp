// Streams do their work at once, unless they capture; what was captured runs in an order that shows
// where an edge is missing. Device memory is host memory that is known,
// so that a host pointer in place of a device pointer is found.

#include "test/unit/runtime/FakeCuda.h"

#include "test/unit/runtime/FakeObjects.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <mutex>

using namespace tenon::runtime::cuda;

namespace tenon::test {
namespace {

constexpr int kInvalidValue = 1;
constexpr int kInvalidPtx = 218;
constexpr int kNotFoundCode = 500;
constexpr int kIllegalAddress = 700;
constexpr int kCaptureUnsupported = 900;
constexpr int kCaptureUnjoined = 904;
constexpr int kInvalidContext = 201;

class Driver : public FakeCuda {
public:
  void reset() override {
    counts.clear();
    early = 0;
    compiled = 0;
    captured.clear();
    failures.clear();
    driverVersion = 13000;
    devices = 1;
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
      return kSuccess;
    }
    int code = found->second.code;
    failures.erase(found);
    return code;
  }
  bool isDevice(uint64_t pointer, size_t bytes) const { return isIn(deviceBlocks, pointer, bytes); }
  /// What allocating does while a stream captures in this thread.
  bool isCapturing() const { return capturing != 0; }

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
  static thread_local std::vector<ContextHandle> contexts;
};

thread_local int Driver::capturing = 0;
thread_local std::vector<ContextHandle> Driver::contexts;

Driver &driver() {
  static Driver *instance = new Driver();
  return *instance;
}

/// Does the work of a stream now, or records it.
int submit(StreamHandle stream, std::unique_ptr<CudaNodeObject> node) {
  if (stream && stream->capture) {
    std::vector<std::unique_ptr<CudaNodeObject>> &nodes = stream->capture->graph.nodes;
    node->index = nodes.size();
    for (const CudaNodeObject *before : stream->last) {
      node->after.push_back(before->index);
    }
    stream->last = {node.get()};
    nodes.push_back(std::move(node));
    return kSuccess;
  }
  return node->function ? node->function->info->run(node->call) : node->work();
}

int submitWork(StreamHandle stream, std::function<int()> work) {
  std::unique_ptr<CudaNodeObject> node = std::make_unique<CudaNodeObject>();
  node->work = std::move(work);
  return submit(stream, std::move(node));
}

/// Reads the arguments as the driver does: now.
int readCall(const CudaFunctionObject &function, unsigned grid, unsigned block, unsigned shared,
             void **params, KernelCall &call) {
  bool isTooLarge = function.hasLargeCluster && !function.mayHaveIt;
  if (grid == 0 || block == 0 || block > 1024 || int64_t(shared) > function.dynamicBytes ||
      isTooLarge) {
    return kInvalidValue;
  }
  call = {grid, block, shared, {}, {}};
  for (size_t i = 0; i < function.info->arguments; ++i) {
    uint64_t value = 0;
    std::memcpy(&value, params[i], sizeof(value));
    call.arguments.push_back(value);
    if (i < function.info->pointers && !driver().isDevice(value, 4)) {
      return kIllegalAddress;
    }
  }
  for (size_t i = 0; i < function.info->maps; ++i) {
    test::FakeTensorMap map;
    std::memcpy(&map, params[function.info->arguments + i], sizeof(map));
    call.maps.push_back(map);
    if (!driver().isDevice(map.address, map.rows * map.rowBytes)) {
      return kIllegalAddress;
    }
  }
  return kSuccess;
}

void copyNodes(const CudaGraphObject &from, CudaGraphExecObject &to) {
  std::vector<std::unique_ptr<CudaNodeObject>> nodes;
  for (size_t i = 0; i < from.nodes.size(); ++i) {
    nodes.push_back(std::make_unique<CudaNodeObject>(*from.nodes[i]));
    // An update keeps the nodes by which the executable graph is known.
    nodes.back()->origin = to.nodes.empty() ? from.nodes[i].get() : to.nodes[i]->origin;
  }
  to.nodes = std::move(nodes);
}

/// Nodes that `node` follows, directly or not, and itself.
void addEarlier(const CudaGraphObject &graph, size_t node, std::vector<bool> &earlier) {
  if (!earlier[node]) {
    earlier[node] = true;
    for (size_t before : graph.nodes[node]->after) {
      addEarlier(graph, before, earlier);
    }
  }
}

/// Whether all that the streams of a capture did is followed by the next node of the first.
bool isJoined(const Capture &capture) {
  std::vector<bool> earlier(capture.graph.nodes.size());
  for (const CudaNodeObject *node : capture.streams[0]->last) {
    addEarlier(capture.graph, node->index, earlier);
  }
  return std::ranges::find(earlier, false) == earlier.end();
}

void describeGraph(const CudaGraphObject &graph) {
  driver().captured.clear();
  for (const std::unique_ptr<CudaNodeObject> &node : graph.nodes) {
    driver().captured.push_back(
        {node->function ? node->function->info->name : "", node->after, node->isEarly});
  }
}

/// Runs nodes as late as their edges allow those before them: of those that may run, the last.
int runNodes(const std::vector<std::unique_ptr<CudaNodeObject>> &nodes) {
  std::vector<bool> done(nodes.size());
  for (size_t count = 0; count < nodes.size(); ++count) {
    size_t next = nodes.size();
    for (size_t i = 0; i < nodes.size(); ++i) {
      bool isReady = !done[i] && std::ranges::all_of(nodes[i]->after,
                                                     [&](size_t before) { return done[before]; });
      next = isReady ? i : next;
    }
    done[next] = true;
    const CudaNodeObject &node = *nodes[next];
    if (int code = node.function ? node.function->info->run(node.call) : node.work()) {
      return code;
    }
  }
  return kSuccess;
}

bool haveEqualEdges(const CudaGraphObject &graph, const CudaGraphExecObject &exec) {
  return std::ranges::equal(
      graph.nodes, exec.nodes,
      [](const std::unique_ptr<CudaNodeObject> &a, const std::unique_ptr<CudaNodeObject> &b) {
        return a->after == b->after && a->isEarly == b->isEarly;
      });
}

/// The context must be current for whatever touches memory, streams or modules.
bool hasContext() { return !driver().contexts.empty(); }

} // namespace
} // namespace tenon::test

using namespace tenon::test;

#define FAKE(name)                                                                                 \
  std::lock_guard<std::recursive_mutex> guard(driver().mutex);                                     \
  if (int failure = driver().begin(#name)) {                                                       \
    return failure;                                                                                \
  }
#define FAKE_IN_CONTEXT(name)                                                                      \
  FAKE(name)                                                                                       \
  if (!hasContext()) {                                                                             \
    return kInvalidContext;                                                                        \
  }

#define EXPORT extern "C" __attribute__((visibility("default")))

EXPORT FakeCuda *tenonFakeCuda() { return &driver(); }

EXPORT int cuInit(unsigned) {
  FAKE(cuInit)
  return driver().devices == 0 ? kNoDevice : kSuccess;
}

EXPORT int cuDriverGetVersion(int *version) {
  FAKE(cuDriverGetVersion)
  *version = driver().driverVersion;
  return kSuccess;
}

EXPORT int cuGetErrorName(int error, const char **name) {
  *name = error == kOutOfMemory ? "CUDA_ERROR_OUT_OF_MEMORY" : "CUDA_ERROR_FAKE";
  return kSuccess;
}

EXPORT int cuGetErrorString(int error, const char **text) {
  *text = error == kOutOfMemory ? "out of memory" : "a fault that the test asked for";
  return kSuccess;
}

EXPORT int cuDeviceGetCount(int *count) {
  FAKE(cuDeviceGetCount)
  *count = driver().devices;
  return kSuccess;
}

EXPORT int cuDeviceGet(int *device, int ordinal) {
  FAKE(cuDeviceGet)
  *device = ordinal;
  return kSuccess;
}

EXPORT int cuDeviceGetName(char *name, int length, int) {
  FAKE(cuDeviceGetName)
  std::strncpy(name, "Fake GPU", static_cast<size_t>(length));
  return kSuccess;
}

EXPORT int cuDeviceGetAttribute(int *value, int attribute, int) {
  FAKE(cuDeviceGetAttribute)
  switch (attribute) {
  case kCapabilityMajor:
    *value = driver().capability / 10;
    return kSuccess;
  case kCapabilityMinor:
    *value = driver().capability % 10;
    return kSuccess;
  case kSharedBytesOptIn:
    *value = 227 << 10;
    return kSuccess;
  default:
    *value = 132;
    return kSuccess;
  }
}

EXPORT int cuDeviceTotalMem_v2(size_t *bytes, int) {
  FAKE(cuDeviceTotalMem_v2)
  *bytes = driver().memoryLimit;
  return kSuccess;
}

EXPORT int cuDevicePrimaryCtxRetain(ContextHandle *context, int) {
  FAKE(cuDevicePrimaryCtxRetain)
  ++driver().retained;
  *context = reinterpret_cast<ContextHandle>(&driver());
  return kSuccess;
}

EXPORT int cuDevicePrimaryCtxRelease_v2(int) {
  FAKE(cuDevicePrimaryCtxRelease_v2)
  --driver().retained;
  return kSuccess;
}

EXPORT int cuCtxGetCurrent(ContextHandle *context) {
  *context = hasContext() ? driver().contexts.back() : nullptr;
  return kSuccess;
}

EXPORT int cuCtxPushCurrent_v2(ContextHandle context) {
  FAKE(cuCtxPushCurrent_v2)
  driver().contexts.push_back(context);
  return kSuccess;
}

EXPORT int cuCtxPopCurrent_v2(ContextHandle *) {
  FAKE(cuCtxPopCurrent_v2)
  driver().contexts.pop_back();
  return kSuccess;
}

EXPORT int cuMemGetInfo_v2(size_t *freeBytes, size_t *totalBytes) {
  FAKE_IN_CONTEXT(cuMemGetInfo_v2)
  *totalBytes = driver().memoryLimit;
  *freeBytes = *totalBytes - driver().deviceBytes();
  return kSuccess;
}

EXPORT int cuMemAlloc_v2(DevicePointer *pointer, size_t bytes) {
  FAKE_IN_CONTEXT(cuMemAlloc_v2)
  if (driver().isCapturing()) {
    return kCaptureUnsupported;
  }
  if (bytes == 0) {
    return kInvalidValue;
  }
  if (bytes > driver().memoryLimit - driver().deviceBytes()) {
    return kOutOfMemory;
  }
  void *memory = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  std::memset(memory, 0xcd, bytes);
  *pointer = reinterpret_cast<DevicePointer>(memory);
  driver().deviceBlocks[*pointer] = bytes;
  return kSuccess;
}

EXPORT int cuMemFree_v2(DevicePointer pointer) {
  FAKE_IN_CONTEXT(cuMemFree_v2)
  if (driver().deviceBlocks.erase(pointer) == 0) {
    return kInvalidValue;
  }
  std::free(reinterpret_cast<void *>(pointer));
  return kSuccess;
}

EXPORT int cuMemAllocHost_v2(void **pointer, size_t bytes) {
  FAKE_IN_CONTEXT(cuMemAllocHost_v2)
  if (driver().isCapturing()) {
    return kCaptureUnsupported;
  }
  *pointer = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  driver().pinnedBlocks[reinterpret_cast<uint64_t>(*pointer)] = bytes;
  return kSuccess;
}

EXPORT int cuMemFreeHost(void *pointer) {
  FAKE_IN_CONTEXT(cuMemFreeHost)
  if (driver().pinnedBlocks.erase(reinterpret_cast<uint64_t>(pointer)) == 0) {
    return kInvalidValue;
  }
  std::free(pointer);
  return kSuccess;
}

namespace {

int copyBytes(uint64_t to, uint64_t from, size_t bytes, StreamHandle stream, bool toDevice,
              bool fromDevice) {
  // What is not on the device must be page-locked, or the copy would not be asynchronous.
  bool isKnown =
      (toDevice ? driver().isDevice(to, bytes) : Driver::isIn(driver().pinnedBlocks, to, bytes)) &&
      (fromDevice ? driver().isDevice(from, bytes)
                  : Driver::isIn(driver().pinnedBlocks, from, bytes));
  if (!isKnown || bytes == 0) {
    return kIllegalAddress;
  }
  return submitWork(stream, [=] {
    std::memcpy(reinterpret_cast<void *>(to), reinterpret_cast<const void *>(from), bytes);
    return kSuccess;
  });
}

} // namespace

EXPORT int cuMemcpyHtoDAsync_v2(DevicePointer to, const void *from, size_t bytes,
                                StreamHandle stream) {
  FAKE_IN_CONTEXT(cuMemcpyHtoDAsync_v2)
  return copyBytes(to, reinterpret_cast<uint64_t>(from), bytes, stream, true, false);
}

EXPORT int cuMemcpyDtoHAsync_v2(void *to, DevicePointer from, size_t bytes, StreamHandle stream) {
  FAKE_IN_CONTEXT(cuMemcpyDtoHAsync_v2)
  return copyBytes(reinterpret_cast<uint64_t>(to), from, bytes, stream, false, true);
}

EXPORT int cuMemcpyDtoDAsync_v2(DevicePointer to, DevicePointer from, size_t bytes,
                                StreamHandle stream) {
  FAKE_IN_CONTEXT(cuMemcpyDtoDAsync_v2)
  return copyBytes(to, from, bytes, stream, true, true);
}

EXPORT int cuMemsetD8Async(DevicePointer to, unsigned char value, size_t bytes,
                           StreamHandle stream) {
  FAKE_IN_CONTEXT(cuMemsetD8Async)
  if (!driver().isDevice(to, bytes)) {
    return kIllegalAddress;
  }
  return submitWork(stream, [=] {
    std::memset(reinterpret_cast<void *>(to), value, bytes);
    return kSuccess;
  });
}

EXPORT int cuStreamCreate(StreamHandle *stream, unsigned) {
  FAKE_IN_CONTEXT(cuStreamCreate)
  *stream = new CudaStreamObject();
  return kSuccess;
}

EXPORT int cuStreamDestroy_v2(StreamHandle stream) {
  FAKE_IN_CONTEXT(cuStreamDestroy_v2)
  delete stream;
  return kSuccess;
}

EXPORT int cuStreamSynchronize(StreamHandle) {
  FAKE_IN_CONTEXT(cuStreamSynchronize)
  return driver().isCapturing() ? kCaptureUnsupported : kSuccess;
}

EXPORT int cuStreamWaitEvent(StreamHandle stream, EventHandle event, unsigned) {
  FAKE_IN_CONTEXT(cuStreamWaitEvent)
  if (!event->capture) {
    return kSuccess;
  }
  if (!stream->capture) {
    stream->capture = event->capture;
    stream->capture->streams.push_back(stream);
    stream->last.clear();
  }
  for (NodeHandle node : event->last) {
    if (std::ranges::find(stream->last, node) == stream->last.end()) {
      stream->last.push_back(node);
    }
  }
  return kSuccess;
}

EXPORT int cuStreamBeginCapture_v2(StreamHandle stream, int) {
  FAKE_IN_CONTEXT(cuStreamBeginCapture_v2)
  stream->capture = std::make_shared<Capture>();
  stream->capture->streams = {stream};
  stream->last.clear();
  ++driver().capturing;
  return kSuccess;
}

EXPORT int cuStreamEndCapture(StreamHandle stream, GraphHandle *graph) {
  std::lock_guard<std::recursive_mutex> guard(driver().mutex);
  --driver().capturing;
  *graph = nullptr;
  std::shared_ptr<Capture> capture = stream->capture;
  bool isWhole = isJoined(*capture);
  for (StreamHandle member : capture->streams) {
    member->capture.reset();
  }
  if (int failure = driver().begin("cuStreamEndCapture")) {
    return failure;
  }
  if (!isWhole) {
    return kCaptureUnjoined;
  }
  describeGraph(capture->graph);
  *graph = new CudaGraphObject(std::move(capture->graph));
  return kSuccess;
}

EXPORT int cuStreamGetCaptureInfo_v3(StreamHandle stream, int *, uint64_t *, GraphHandle *,
                                     const NodeHandle **nodes, const void **, size_t *count) {
  FAKE_IN_CONTEXT(cuStreamGetCaptureInfo_v3)
  *nodes = stream->last.data();
  *count = stream->last.size();
  return kSuccess;
}

EXPORT int cuEventCreate(EventHandle *event, unsigned flags) {
  FAKE_IN_CONTEXT(cuEventCreate)
  *event = new CudaEventObject();
  (*event)->isTimed = flags == kEventWithTiming;
  return kSuccess;
}

EXPORT int cuEventDestroy_v2(EventHandle event) {
  FAKE_IN_CONTEXT(cuEventDestroy_v2)
  delete event;
  return kSuccess;
}

EXPORT int cuEventRecord(EventHandle event, StreamHandle stream) {
  FAKE_IN_CONTEXT(cuEventRecord)
  event->capture = stream ? stream->capture : nullptr;
  event->last = event->capture ? stream->last : std::vector<NodeHandle>();
  event->time = std::chrono::steady_clock::now();
  return kSuccess;
}

EXPORT int cuEventSynchronize(EventHandle) {
  FAKE_IN_CONTEXT(cuEventSynchronize)
  return kSuccess;
}

EXPORT int cuEventElapsedTime(float *milliseconds, EventHandle start, EventHandle end) {
  FAKE_IN_CONTEXT(cuEventElapsedTime)
  if (!start->isTimed || !end->isTimed) {
    return kInvalidValue;
  }
  *milliseconds = std::chrono::duration<float, std::milli>(end->time - start->time).count();
  return kSuccess;
}

EXPORT int cuGraphInstantiateWithFlags(GraphExecHandle *exec, GraphHandle graph,
                                       unsigned long long) {
  FAKE_IN_CONTEXT(cuGraphInstantiateWithFlags)
  *exec = new CudaGraphExecObject();
  copyNodes(*graph, **exec);
  return kSuccess;
}

EXPORT int cuGraphExecUpdate_v2(GraphExecHandle exec, GraphHandle graph, GraphUpdateInfo *) {
  FAKE_IN_CONTEXT(cuGraphExecUpdate_v2)
  if (!haveEqualEdges(*graph, *exec)) {
    return kGraphUpdateFailed;
  }
  copyNodes(*graph, *exec);
  return kSuccess;
}

EXPORT int cuGraphExecKernelNodeSetParams_v2(GraphExecHandle exec, NodeHandle node,
                                             const KernelNodeParams *params) {
  FAKE_IN_CONTEXT(cuGraphExecKernelNodeSetParams_v2)
  for (std::unique_ptr<CudaNodeObject> &own : exec->nodes) {
    if (own->origin == node && own->function) {
      return readCall(*params->function, params->gridX, params->blockX, params->sharedBytes,
                      params->params, own->call);
    }
  }
  return kInvalidValue;
}

EXPORT int cuGraphLaunch(GraphExecHandle exec, StreamHandle) {
  FAKE_IN_CONTEXT(cuGraphLaunch)
  return runNodes(exec->nodes);
}

EXPORT int cuGraphExecDestroy(GraphExecHandle exec) {
  FAKE_IN_CONTEXT(cuGraphExecDestroy)
  delete exec;
  return kSuccess;
}

EXPORT int cuGraphDestroy(GraphHandle graph) {
  FAKE_IN_CONTEXT(cuGraphDestroy)
  delete graph;
  return kSuccess;
}

EXPORT int cuModuleLoadDataEx(ModuleHandle *module, const void *image, unsigned count, int *options,
                              void **values) {
  FAKE_IN_CONTEXT(cuModuleLoadDataEx)
  const char *start = static_cast<const char *>(image);
  // What an assembler made begins with the header of an ELF file.
  constexpr size_t headerBytes = 64;
  bool isCubin = std::memcmp(start, "\x7f\x45LF", 4) == 0;
  std::string text = isCubin ? start + headerBytes : start;
  if (!isCubin) {
    ++driver().compiled;
    const std::string &log = driver().jitLog;
    bool isLogged = count == 2 && options[0] == kJitErrorLog && options[1] == kJitErrorLogBytes;
    bool isForThis = text.find(".target sm_90a") == std::string::npos || driver().capability == 90;
    if (!log.empty() && isLogged) {
      std::strncpy(static_cast<char *>(values[0]), log.c_str(), reinterpret_cast<size_t>(values[1]));
    }
    if (!log.empty() || !isForThis || text.find("\n.version ") == std::string::npos) {
      return kInvalidPtx;
    }
  }
  *module = new CudaModuleObject();
  (*module)->text = std::move(text);
  return kSuccess;
}

EXPORT int cuModuleUnload(ModuleHandle module) {
  FAKE_IN_CONTEXT(cuModuleUnload)
  delete module;
  return kSuccess;
}

EXPORT int cuModuleGetFunction(FunctionHandle *function, ModuleHandle module, const char *name) {
  FAKE_IN_CONTEXT(cuModuleGetFunction)
  const KernelInfo *kernel = findKernel(name);
  size_t start = module->text.find(std::string(".entry ") + name + "(");
  if (kernel && start != std::string::npos) {
    module->functions.push_back(std::make_unique<CudaFunctionObject>());
    module->functions.back()->info = kernel;
    std::string head = module->text.substr(start, module->text.find('{', start) - start);
    module->functions.back()->hasLargeCluster =
        head.find(".reqnctapercluster 16") != std::string::npos;
    *function = module->functions.back().get();
    return kSuccess;
  }
  return kNotFoundCode;
}

EXPORT int cuFuncGetAttribute(int *value, int, FunctionHandle) {
  FAKE_IN_CONTEXT(cuFuncGetAttribute)
  *value = 0;
  return kSuccess;
}

EXPORT int cuFuncSetAttribute(FunctionHandle function, int attribute, int value) {
  FAKE_IN_CONTEXT(cuFuncSetAttribute)
  if (attribute == kNonPortableClusters) {
    function->mayHaveIt = value == 1;
    return kSuccess;
  }
  if (attribute != kMaxDynamicSharedBytes) {
    return kInvalidValue;
  }
  function->dynamicBytes = value;
  return kSuccess;
}

EXPORT int cuLaunchKernelEx(const LaunchConfig *config, FunctionHandle function, void **params,
                            void **) {
  FAKE_IN_CONTEXT(cuLaunchKernelEx)
  std::unique_ptr<CudaNodeObject> node = std::make_unique<CudaNodeObject>();
  node->isEarly = config->attributeCount == 1 &&
                  config->attributes->id == kAttributeProgrammaticSerialization &&
                  config->attributes->value.programmaticSerialization == 1;
  driver().early += node->isEarly;
  node->function = function;
  if (int code = readCall(*function, config->gridX, config->blockX, config->sharedBytes, params,
                          node->call)) {
    return code;
  }
  return submit(config->stream, std::move(node));
}

/// Takes what the real one documents for matrices of 16-bit elements in a swizzle of 128 bytes.
EXPORT int cuTensorMapEncodeTiled(EncodedTensorMap *map, int elementType, unsigned rank,
                                  void *address, const uint64_t *dims, const uint64_t *strides,
                                  const unsigned *box, const unsigned *elementStrides,
                                  int interleave, int swizzle, int l2Promotion, int fill) {
  FAKE(cuTensorMapEncodeTiled)
  constexpr uint64_t most = uint64_t(1) << 32;
  uint64_t start = reinterpret_cast<uint64_t>(address);
  bool isKnown = elementType == kTensorMapUint16 && rank == 2 && interleave == 0 &&
                 swizzle == kTensorMapSwizzle128 && l2Promotion >= 0 && l2Promotion <= 3 &&
                 fill == kTensorMapZeroFill;
  bool isAligned = reinterpret_cast<uint64_t>(map) % 64 == 0 && start != 0 && start % 16 == 0 &&
                   strides[0] % 16 == 0 && strides[0] >> 40 == 0;
  bool isBox = box[0] * 2 == 128 && box[1] >= 1 && box[1] <= 256 && elementStrides[0] == 1 &&
               elementStrides[1] == 1;
  bool hasDims = dims[0] >= 1 && dims[0] <= most && dims[1] >= 1 && dims[1] <= most;
  if (!isKnown || !isAligned || !isBox || !hasDims) {
    return kInvalidValue;
  }
  FakeTensorMap encoded = {start, dims[0], dims[1], strides[0]};
  std::memcpy(map, &encoded, sizeof(encoded));
  return kSuccess;
}
