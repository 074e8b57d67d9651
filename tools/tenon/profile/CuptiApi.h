// The part of NVIDIA's CUPTI that a profile calls: the range profiler, its host functions, and
// callbacks of the driver. Declared here so that building needs no header of NVIDIA; names, values
// and layouts are those of its binary interface from CUDA 12.6 on, in which each structure tells
// its size up to its last member.

#pragma once

#include "runtime/library/Loader.h"

#include <cstddef>
#include <cstdint>

namespace tenon::tool::cupti {

inline constexpr int kSuccess = 0;
inline constexpr int kHardwareBusy = 26;
/// What drivers answer that leave counters to root (ERR_NVGPUCTRPERM), on virtual GPUs too.
inline constexpr int kNoPrivileges = 35, kNoPrivilegesVirtual = 40;
inline constexpr int kRangeProfiler = 0; ///< of CUpti_ProfilerType
inline constexpr int kUserRange = 2, kUserReplay = 3;
inline constexpr int kDriverApi = 1; ///< of CUpti_CallbackDomain
inline constexpr uint32_t kEventRecord = 119;
inline constexpr int kEnter = 0; ///< of CUpti_ApiCallbackSite

struct HostObject;
struct RangeObject;
struct Subscriber;

#define TENON_CUPTI_SIZE(type, last) (offsetof(type, last) + sizeof(type::last))

struct Initialize {
  size_t size = TENON_CUPTI_SIZE(Initialize, reserved);
  void *reserved = nullptr;
};
struct GetChipName {
  size_t size = TENON_CUPTI_SIZE(GetChipName, chip);
  void *reserved = nullptr;
  size_t device = 0;
  const char *chip = nullptr; ///< set by the call
};
struct HostInitialize {
  size_t size = TENON_CUPTI_SIZE(HostInitialize, host);
  void *reserved = nullptr;
  int type = kRangeProfiler;
  const char *chip = nullptr;
  const uint8_t *availability = nullptr;
  HostObject *host = nullptr; ///< set by the call
};
struct HostDeinitialize {
  size_t size = TENON_CUPTI_SIZE(HostDeinitialize, host);
  void *reserved = nullptr;
  HostObject *host = nullptr;
};
struct AddMetrics {
  size_t size = TENON_CUPTI_SIZE(AddMetrics, count);
  void *reserved = nullptr;
  HostObject *host = nullptr;
  const char **names = nullptr;
  size_t count = 0;
};
struct GetConfigSize {
  size_t size = TENON_CUPTI_SIZE(GetConfigSize, bytes);
  void *reserved = nullptr;
  HostObject *host = nullptr;
  size_t bytes = 0; ///< set by the call
};
struct GetConfig {
  size_t size = TENON_CUPTI_SIZE(GetConfig, config);
  void *reserved = nullptr;
  HostObject *host = nullptr;
  size_t bytes = 0;
  uint8_t *config = nullptr;
};
struct Evaluate {
  size_t size = TENON_CUPTI_SIZE(Evaluate, values);
  void *reserved = nullptr;
  HostObject *host = nullptr;
  const uint8_t *data = nullptr;
  size_t bytes = 0;
  size_t range = 0;
  const char **names = nullptr;
  size_t count = 0;
  double *values = nullptr;
};
struct Enable {
  size_t size = TENON_CUPTI_SIZE(Enable, profiler);
  void *reserved = nullptr;
  void *context = nullptr;
  RangeObject *profiler = nullptr; ///< set by the call
};
/// Of the calls that take no more: disabling, starting, popping a range.
struct OfProfiler {
  size_t size = TENON_CUPTI_SIZE(OfProfiler, profiler);
  void *reserved = nullptr;
  RangeObject *profiler = nullptr;
};
struct SetConfig {
  size_t size = TENON_CUPTI_SIZE(SetConfig, targetNesting);
  void *reserved = nullptr;
  RangeObject *profiler = nullptr;
  size_t configBytes = 0;
  const uint8_t *config = nullptr;
  size_t dataBytes = 0;
  uint8_t *data = nullptr;
  int range = kUserRange;
  int replay = kUserReplay;
  size_t rangesOfPass = 0;
  uint16_t nestingLevels = 1;
  uint16_t leastNesting = 1;
  size_t pass = 0;
  uint16_t targetNesting = 1;
};
struct Stop {
  size_t size = TENON_CUPTI_SIZE(Stop, isLast);
  void *reserved = nullptr;
  RangeObject *profiler = nullptr;
  size_t pass = 0;
  size_t targetNesting = 0;
  uint8_t isLast = 0; ///< set by the call: all passes were made
};
struct PushRange {
  size_t size = TENON_CUPTI_SIZE(PushRange, name);
  void *reserved = nullptr;
  RangeObject *profiler = nullptr;
  const char *name = nullptr;
};
struct Decode {
  size_t size = TENON_CUPTI_SIZE(Decode, dropped);
  void *reserved = nullptr;
  RangeObject *profiler = nullptr;
  size_t dropped = 0; ///< set by the call
};
struct GetDataSize {
  size_t size = TENON_CUPTI_SIZE(GetDataSize, bytes);
  void *reserved = nullptr;
  RangeObject *profiler = nullptr;
  const char **names = nullptr;
  size_t count = 0;
  size_t ranges = 0;
  uint32_t nodes = 0;
  size_t bytes = 0; ///< set by the call
};
struct InitializeData {
  size_t size = TENON_CUPTI_SIZE(InitializeData, data);
  void *reserved = nullptr;
  RangeObject *profiler = nullptr;
  size_t bytes = 0;
  uint8_t *data = nullptr;
};
struct GetDataInfo {
  size_t size = TENON_CUPTI_SIZE(GetDataInfo, ranges);
  void *reserved = nullptr;
  const uint8_t *data = nullptr;
  size_t bytes = 0;
  size_t ranges = 0; ///< set by the call
};
struct GetRangeInfo {
  size_t size = TENON_CUPTI_SIZE(GetRangeInfo, name);
  void *reserved = nullptr;
  const uint8_t *data = nullptr;
  size_t bytes = 0;
  size_t range = 0;
  const char *delimiter = "/";
  const char *name = nullptr; ///< set by the call
};

/// The beginning of what a callback of a driver's function is told.
struct CallbackData {
  int site;
};
using Callback = void (*)(void *user, int domain, uint32_t function, const CallbackData *data);

/// X(member, symbol, parameters): the functions, all of which return a CUptiResult.
#define TENON_CUPTI_FUNCTIONS(X)                                                                   \
  X(initialize, "cuptiProfilerInitialize", (Initialize *))                                         \
  X(getChipName, "cuptiDeviceGetChipName", (GetChipName *))                                        \
  X(hostInitialize, "cuptiProfilerHostInitialize", (HostInitialize *))                             \
  X(hostDeinitialize, "cuptiProfilerHostDeinitialize", (HostDeinitialize *))                       \
  X(addMetrics, "cuptiProfilerHostConfigAddMetrics", (AddMetrics *))                               \
  X(getConfigSize, "cuptiProfilerHostGetConfigImageSize", (GetConfigSize *))                       \
  X(getConfig, "cuptiProfilerHostGetConfigImage", (GetConfig *))                                   \
  X(evaluate, "cuptiProfilerHostEvaluateToGpuValues", (Evaluate *))                                \
  X(enable, "cuptiRangeProfilerEnable", (Enable *))                                                \
  X(disable, "cuptiRangeProfilerDisable", (OfProfiler *))                                          \
  X(setConfig, "cuptiRangeProfilerSetConfig", (SetConfig *))                                       \
  X(start, "cuptiRangeProfilerStart", (OfProfiler *))                                              \
  X(stop, "cuptiRangeProfilerStop", (Stop *))                                                      \
  X(pushRange, "cuptiRangeProfilerPushRange", (PushRange *))                                       \
  X(popRange, "cuptiRangeProfilerPopRange", (OfProfiler *))                                        \
  X(decode, "cuptiRangeProfilerDecodeData", (Decode *))                                            \
  X(getDataSize, "cuptiRangeProfilerGetCounterDataSize", (GetDataSize *))                          \
  X(initializeData, "cuptiRangeProfilerCounterDataImageInitialize", (InitializeData *))            \
  X(getDataInfo, "cuptiRangeProfilerGetCounterDataInfo", (GetDataInfo *))                          \
  X(getRangeInfo, "cuptiRangeProfilerCounterDataGetRangeInfo", (GetRangeInfo *))                   \
  X(subscribe, "cuptiSubscribe", (Subscriber **, Callback, void *user))                            \
  X(unsubscribe, "cuptiUnsubscribe", (Subscriber *))                                               \
  X(enableCallback, "cuptiEnableCallback",                                                         \
    (uint32_t enable, Subscriber *, int domain, uint32_t function))

struct Api {
  library::OpenLibrary library;
#define TENON_DECLARE(member, symbol, parameters) int(*member) parameters = nullptr;
  TENON_CUPTI_FUNCTIONS(TENON_DECLARE)
#undef TENON_DECLARE
};

/// Opens CUPTI and finds every function.
Result<Api> openApi();

} // namespace tenon::tool::cupti
