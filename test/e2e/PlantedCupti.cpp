// A stand-in of CUPTI beside PlantedGpu.cpp: ranges and passes as the real one asks for them, and
// values of counters that TENON_PLANTED_TIMES says ("counter.processors 71"). "counter.refused 35"
// makes it answer that code to the range profiler's start, "counter.crash 1" a crash when a pass
// begins.

#include "tools/tenon/profile/CuptiApi.h"

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <fstream>
#include <string>
#include <vector>

using namespace tenon::tool::cupti;

namespace tenon::tool::cupti {

struct HostObject {};
struct RangeObject {
  std::vector<std::string> ranges; ///< of the first pass
  size_t pass = 0, counted = 0, atMost = 0;
  bool isConfigured = false, isStarted = false, isOpen = false;
};
struct Subscriber {
  Callback callback = nullptr;
  void *user = nullptr;
};

} // namespace tenon::tool::cupti

namespace {

constexpr int kInvalid = 1;
constexpr size_t kPasses = 3, kBytes = 64;

HostObject theHost;
RangeObject theProfiler;
Subscriber theSubscriber;

double planted(const std::string &wanted) {
  const char *path = std::getenv("TENON_PLANTED_TIMES");
  std::ifstream file(path ? path : "");
  std::string name;
  double value = 0, found = 0;
  while (file >> name >> value) {
    found = name == wanted ? value : found;
  }
  return found;
}

void onEvent(int site) {
  CallbackData data{site};
  theSubscriber.callback(theSubscriber.user, kDriverApi, kEventRecord, &data);
}

/// The planted driver tells of its events.
int listen(bool isWanted) {
  using Listen = void (*)(void (*)(int));
  void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  Listen tell = driver ? reinterpret_cast<Listen>(dlsym(driver, "tenonPlantedListen")) : nullptr;
  if (!tell) {
    return kInvalid;
  }
  tell(isWanted ? onEvent : nullptr);
  return kSuccess;
}

} // namespace

#define PLANTED extern "C" __attribute__((visibility("default"))) int

PLANTED cuptiProfilerInitialize(Initialize *) { return kSuccess; }
PLANTED cuptiDeviceGetChipName(GetChipName *get) {
  get->chip = "GH100";
  return kSuccess;
}
PLANTED cuptiProfilerHostInitialize(HostInitialize *begin) {
  begin->host = &theHost;
  return std::strcmp(begin->chip, "GH100") == 0 ? kSuccess : kInvalid;
}
PLANTED cuptiProfilerHostDeinitialize(HostDeinitialize *) { return kSuccess; }
PLANTED cuptiProfilerHostConfigAddMetrics(AddMetrics *add) {
  return add->count > 0 ? kSuccess : kInvalid;
}
PLANTED cuptiProfilerHostGetConfigImageSize(GetConfigSize *get) {
  get->bytes = kBytes;
  return kSuccess;
}
PLANTED cuptiProfilerHostGetConfigImage(GetConfig *get) {
  return get->bytes == kBytes ? kSuccess : kInvalid;
}
PLANTED cuptiProfilerHostEvaluateToGpuValues(Evaluate *evaluate) {
  // In the order in which they are asked for.
  const char *names[] = {"processors", "memory", "dram", "tensor", "warps", "nanoseconds"};
  for (size_t i = 0; i < evaluate->count; ++i) {
    evaluate->values[i] = planted(std::string("counter.") + names[i]);
  }
  return evaluate->range < theProfiler.counted ? kSuccess : kInvalid;
}
PLANTED cuptiRangeProfilerEnable(Enable *enable) {
  theProfiler = RangeObject();
  enable->profiler = &theProfiler;
  return static_cast<int>(planted("counter.refused"));
}
PLANTED cuptiRangeProfilerDisable(OfProfiler *) { return kSuccess; }
PLANTED cuptiRangeProfilerSetConfig(SetConfig *set) {
  theProfiler.isConfigured = set->range == kUserRange && set->replay == kUserReplay;
  theProfiler.atMost = set->rangesOfPass;
  return theProfiler.isConfigured ? kSuccess : kInvalid;
}
PLANTED cuptiRangeProfilerStart(OfProfiler *) {
  if (planted("counter.crash") != 0) {
    std::raise(SIGSEGV);
  }
  theProfiler.isStarted = true;
  theProfiler.counted = 0;
  return theProfiler.isConfigured ? kSuccess : kInvalid;
}
PLANTED cuptiRangeProfilerStop(Stop *stop) {
  theProfiler.isStarted = false;
  stop->isLast = ++theProfiler.pass == kPasses;
  return theProfiler.isOpen ? kInvalid : kSuccess;
}
PLANTED cuptiRangeProfilerPushRange(PushRange *push) {
  if (!theProfiler.isStarted || theProfiler.isOpen || theProfiler.counted == theProfiler.atMost) {
    return kInvalid;
  }
  theProfiler.isOpen = true;
  theProfiler.ranges.resize(theProfiler.counted + 1);
  theProfiler.ranges[theProfiler.counted++] = push->name;
  return kSuccess;
}
PLANTED cuptiRangeProfilerPopRange(OfProfiler *) {
  bool isRight = theProfiler.isOpen;
  theProfiler.isOpen = false;
  return isRight ? kSuccess : kInvalid;
}
PLANTED cuptiRangeProfilerDecodeData(Decode *) {
  return theProfiler.pass == kPasses ? kSuccess : kInvalid;
}
PLANTED cuptiRangeProfilerGetCounterDataSize(GetDataSize *get) {
  get->bytes = kBytes;
  return kSuccess;
}
PLANTED cuptiRangeProfilerCounterDataImageInitialize(InitializeData *) { return kSuccess; }
PLANTED cuptiRangeProfilerGetCounterDataInfo(GetDataInfo *get) {
  get->ranges = theProfiler.counted;
  return kSuccess;
}
PLANTED cuptiRangeProfilerCounterDataGetRangeInfo(GetRangeInfo *get) {
  get->name = theProfiler.ranges[get->range].c_str();
  return kSuccess;
}
PLANTED cuptiSubscribe(Subscriber **subscriber, Callback callback, void *user) {
  theSubscriber = {callback, user};
  *subscriber = &theSubscriber;
  return kSuccess;
}
PLANTED cuptiUnsubscribe(Subscriber *) { return listen(false); }
PLANTED cuptiEnableCallback(uint32_t, Subscriber *, int domain, uint32_t function) {
  return domain == kDriverApi && function == kEventRecord ? listen(true) : kInvalid;
}
