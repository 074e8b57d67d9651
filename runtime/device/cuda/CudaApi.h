// The functions and types of NVIDIA's driver that Tenon uses, declared from the driver's documented
// interface: no header of NVIDIA is needed to build.

#pragma once

#include <cstddef>
#include <cstdint>

namespace tenon::runtime::cuda {

using DevicePointer = uint64_t;
using ContextHandle = struct CudaContext *;
using ModuleHandle = struct CudaModuleObject *;
using FunctionHandle = struct CudaFunctionObject *;
using StreamHandle = struct CudaStreamObject *;
using EventHandle = struct CudaEventObject *;
using GraphHandle = struct CudaGraphObject *;
using NodeHandle = struct CudaNodeObject *;
using GraphExecHandle = struct CudaGraphExecObject *;

/// What the driver's functions return.
inline constexpr int kSuccess = 0;
inline constexpr int kOutOfMemory = 2;
inline constexpr int kNoDevice = 100;
inline constexpr int kPeerAccessAlreadyEnabled = 704;
inline constexpr int kGraphUpdateFailed = 910;

enum DeviceAttribute : int {
  kMultiprocessors = 16,
  kL2Bytes = 38,
  kCapabilityMajor = 75,
  kCapabilityMinor = 76,
  kSharedBytesOptIn = 97, ///< most shared memory of a block
};

enum FunctionAttribute : int {
  kStaticSharedBytes = 1,
  kMaxDynamicSharedBytes = 8,
  kNonPortableClusters = 14, ///< of more than kPortableCluster blocks, which not all GPUs have
};

inline constexpr int kPortableCluster = 8;

enum JitOption : int {
  kJitErrorLog = 5,
  kJitErrorLogBytes = 6,
};

inline constexpr unsigned kStreamNonBlocking = 1;
inline constexpr unsigned kEventWithTiming = 0;
inline constexpr unsigned kEventNoTiming = 2;
inline constexpr int kCaptureThreadLocal = 1;

/// One kernel launch of a stream.
struct LaunchConfig {
  unsigned gridX = 1;
  unsigned gridY = 1;
  unsigned gridZ = 1;
  unsigned blockX = 1;
  unsigned blockY = 1;
  unsigned blockZ = 1;
  unsigned sharedBytes = 0;
  StreamHandle stream = nullptr;
  struct LaunchAttribute *attributes = nullptr;
  unsigned attributeCount = 0;
};

inline constexpr int kAttributeCooperative = 2;
inline constexpr int kAttributeProgrammaticSerialization = 6;

struct LaunchAttribute {
  int id = 0;
  char padding[4] = {};
  union {
    char size[64];
    int programmaticSerialization;
    int cooperative;
  } value = {};
};
static_assert(sizeof(LaunchAttribute) == 72);

/// A kernel launch of a graph (CUDA_KERNEL_NODE_PARAMS_v2).
struct KernelNodeParams {
  FunctionHandle function = nullptr;
  unsigned gridX = 1;
  unsigned gridY = 1;
  unsigned gridZ = 1;
  unsigned blockX = 1;
  unsigned blockY = 1;
  unsigned blockZ = 1;
  unsigned sharedBytes = 0;
  void **params = nullptr;
  void **extra = nullptr;
  void *kernel = nullptr;
  ContextHandle context = nullptr;
};

/// What the copy engine is told of a matrix (CUtensorMap); a kernel's argument.
struct alignas(64) EncodedTensorMap {
  uint64_t opaque[16] = {};
};

/// Values of cuTensorMapEncodeTiled's enums. What is copied is not computed with, so elements are
/// plain 16-bit integers.
inline constexpr int kTensorMapUint16 = 1;
inline constexpr int kTensorMapNoInterleave = 0;
inline constexpr int kTensorMapSwizzle128 = 3;
inline constexpr int kTensorMapFetch128 = 2; ///< what a miss brings into the L2 cache
inline constexpr int kTensorMapZeroFill = 0;

struct GraphUpdateInfo {
  int result = 0;
  NodeHandle errorNode = nullptr;
  NodeHandle errorFromNode = nullptr;
};

} // namespace tenon::runtime::cuda

/// X(member, symbol, parameters): the functions, all of which return a CUresult.
#define TENON_CUDA_FUNCTIONS(X)                                                                    \
  X(init, "cuInit", (unsigned flags))                                                              \
  X(driverGetVersion, "cuDriverGetVersion", (int *version))                                        \
  X(getErrorName, "cuGetErrorName", (int error, const char **name))                                \
  X(getErrorString, "cuGetErrorString", (int error, const char **text))                            \
  X(deviceGetCount, "cuDeviceGetCount", (int *count))                                              \
  X(deviceGet, "cuDeviceGet", (int *device, int ordinal))                                          \
  X(deviceGetName, "cuDeviceGetName", (char *name, int length, int device))                        \
  X(deviceGetAttribute, "cuDeviceGetAttribute", (int *value, int attribute, int device))           \
  X(deviceTotalMem, "cuDeviceTotalMem_v2", (size_t *bytes, int device))                            \
  X(primaryCtxRetain, "cuDevicePrimaryCtxRetain", (ContextHandle * context, int device))           \
  X(primaryCtxRelease, "cuDevicePrimaryCtxRelease_v2", (int device))                               \
  X(ctxGetCurrent, "cuCtxGetCurrent", (ContextHandle * context))                                   \
  X(deviceCanAccessPeer, "cuDeviceCanAccessPeer", (int *can, int device, int peer))                \
  X(ctxEnablePeerAccess, "cuCtxEnablePeerAccess", (ContextHandle peer, unsigned flags))            \
  X(ctxPushCurrent, "cuCtxPushCurrent_v2", (ContextHandle context))                                \
  X(ctxPopCurrent, "cuCtxPopCurrent_v2", (ContextHandle * context))                                \
  X(memGetInfo, "cuMemGetInfo_v2", (size_t *freeBytes, size_t *totalBytes))                        \
  X(memAlloc, "cuMemAlloc_v2", (DevicePointer * pointer, size_t bytes))                            \
  X(memFree, "cuMemFree_v2", (DevicePointer pointer))                                              \
  X(memAllocHost, "cuMemAllocHost_v2", (void **pointer, size_t bytes))                             \
  X(memFreeHost, "cuMemFreeHost", (void *pointer))                                                 \
  X(memcpyHtoDAsync, "cuMemcpyHtoDAsync_v2",                                                       \
    (DevicePointer to, const void *from, size_t bytes, StreamHandle stream))                       \
  X(memcpyDtoHAsync, "cuMemcpyDtoHAsync_v2",                                                       \
    (void *to, DevicePointer from, size_t bytes, StreamHandle stream))                             \
  X(memcpyDtoDAsync, "cuMemcpyDtoDAsync_v2",                                                       \
    (DevicePointer to, DevicePointer from, size_t bytes, StreamHandle stream))                     \
  X(memcpyPeerAsync, "cuMemcpyPeerAsync",                                                          \
    (DevicePointer to, ContextHandle toContext, DevicePointer from, ContextHandle fromContext,     \
     size_t bytes, StreamHandle stream))                                                           \
  X(memsetD8Async, "cuMemsetD8Async",                                                              \
    (DevicePointer to, unsigned char value, size_t bytes, StreamHandle stream))                    \
  X(streamCreate, "cuStreamCreate", (StreamHandle * stream, unsigned flags))                       \
  X(streamDestroy, "cuStreamDestroy_v2", (StreamHandle stream))                                    \
  X(streamSynchronize, "cuStreamSynchronize", (StreamHandle stream))                               \
  X(streamWaitEvent, "cuStreamWaitEvent",                                                          \
    (StreamHandle stream, EventHandle event, unsigned flags))                                      \
  X(streamBeginCapture, "cuStreamBeginCapture_v2", (StreamHandle stream, int mode))                \
  X(streamEndCapture, "cuStreamEndCapture", (StreamHandle stream, GraphHandle * graph))            \
  X(streamGetCaptureInfo, "cuStreamGetCaptureInfo_v3",                                             \
    (StreamHandle stream, int *status, uint64_t *id, GraphHandle *graph,                           \
     const NodeHandle **dependencies, const void **edges, size_t *count))                          \
  X(eventCreate, "cuEventCreate", (EventHandle * event, unsigned flags))                           \
  X(eventDestroy, "cuEventDestroy_v2", (EventHandle event))                                        \
  X(eventRecord, "cuEventRecord", (EventHandle event, StreamHandle stream))                        \
  X(eventSynchronize, "cuEventSynchronize", (EventHandle event))                                   \
  X(eventElapsedTime, "cuEventElapsedTime",                                                        \
    (float *milliseconds, EventHandle start, EventHandle end))                                     \
  X(graphInstantiate, "cuGraphInstantiateWithFlags",                                               \
    (GraphExecHandle * exec, GraphHandle graph, unsigned long long flags))                         \
  X(graphExecUpdate, "cuGraphExecUpdate_v2",                                                       \
    (GraphExecHandle exec, GraphHandle graph, GraphUpdateInfo * info))                             \
  X(graphExecKernelNodeSetParams, "cuGraphExecKernelNodeSetParams_v2",                             \
    (GraphExecHandle exec, NodeHandle node, const KernelNodeParams *params))                       \
  X(graphLaunch, "cuGraphLaunch", (GraphExecHandle exec, StreamHandle stream))                     \
  X(graphExecDestroy, "cuGraphExecDestroy", (GraphExecHandle exec))                                \
  X(graphDestroy, "cuGraphDestroy", (GraphHandle graph))                                           \
  X(moduleLoadDataEx, "cuModuleLoadDataEx",                                                        \
    (ModuleHandle * module, const void *image, unsigned count, int *options, void **values))       \
  X(moduleUnload, "cuModuleUnload", (ModuleHandle module))                                         \
  X(moduleGetFunction, "cuModuleGetFunction",                                                      \
    (FunctionHandle * function, ModuleHandle module, const char *name))                            \
  X(funcGetAttribute, "cuFuncGetAttribute", (int *value, int attribute, FunctionHandle function))  \
  X(funcSetAttribute, "cuFuncSetAttribute", (FunctionHandle function, int attribute, int value))   \
  X(launchKernel, "cuLaunchKernelEx",                                                              \
    (const LaunchConfig *config, FunctionHandle function, void **params, void **extra))            \
  X(tensorMapEncodeTiled, "cuTensorMapEncodeTiled",                                                \
    (EncodedTensorMap * map, int elementType, unsigned rank, void *address, const uint64_t *dims,  \
     const uint64_t *strides, const unsigned *box, const unsigned *elementStrides, int interleave, \
     int swizzle, int l2Promotion, int fill))
