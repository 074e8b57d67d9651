// Each step is a range of the range profiler. Where a step begins and ends is known from the two
// events that Session::timeSteps records for it, which CUPTI's callbacks of the driver tell; all
// passes are replayed by timing the steps again.

#include "tools/tenon/profile/Counters.h"

#include "runtime/device/cuda/CudaDevice.h"
#include "tools/tenon/profile/CuptiApi.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <string>
#include <string_view>

namespace tenon::tool {
namespace cupti {
namespace {

constexpr std::string_view kFiles[] = {"libcupti.so.13", "libcupti.so.12"};
/// It opens them by their names alone.
constexpr std::string_view kParts[] = {"libnvperf_host.so", "libnvperf_target.so"};
constexpr library::LibraryName kCupti = {"CUPTI", kFiles, "nvidia-cuda-cupti", kParts};

} // namespace

Result<Api> openApi() {
  Result<library::OpenLibrary> open = library::openLibrary(kCupti, "");
  for (const std::string &folder : library::installedFolders()) {
    // Toolkits may keep it beside their libraries.
    open = open.isOk() ? std::move(open)
                       : library::openLibrary(kCupti, folder + "/../extras/CUPTI/lib64");
  }
  TENON_TRY(open.status());
  Api api;
  api.library = *open;
  library::openParts(kCupti, api.library);
  library::FunctionFinder functions(kCupti, api.library);
#define TENON_FIND(member, symbol, parameters) functions.find(symbol, api.member);
  TENON_CUPTI_FUNCTIONS(TENON_FIND)
#undef TENON_FIND
  TENON_TRY(functions.status());
  return api;
}

} // namespace cupti

namespace {

/// The names by which Nsight Compute shows them too, in the order of StepCounters, and the
/// nanoseconds of a range.
constexpr size_t kMetricCount = 6;
const char *kMetrics[kMetricCount] = {
    "sm__throughput.avg.pct_of_peak_sustained_elapsed",
    "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed",
    "dram__throughput.avg.pct_of_peak_sustained_elapsed",
    "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed",
    "sm__warps_active.avg.pct_of_peak_sustained_active",
    "gpu__time_duration.sum",
};
/// Runs of a step in its range: beginning and ending one takes as long as some kernels.
constexpr unsigned kRepeats = 10;
/// More would not be counters that a machine reads.
constexpr size_t kMostPasses = 64;

/// A session of the range profiler, and the ranges that callbacks begin and end.
class StepCounter {
public:
  explicit StepCounter(const cupti::Api &functions) : api(functions) {}
  ~StepCounter();
  StepCounter(const StepCounter &) = delete;
  StepCounter &operator=(const StepCounter &) = delete;

  Status open(const runtime::cuda::CudaDevice &device, int gpu);
  /// For so many ranges.
  Status configure(size_t ranges);
  /// One pass over the steps; whether it was the last.
  Result<bool> countOnce(Runner &runner);
  /// Of each range that was counted, by its number: the step of `steps`.
  Result<std::vector<std::pair<size_t, StepCounters>>>
  read(const std::vector<runtime::StepTime> &steps);

private:
  static Status check(int code, const char *doing);
  static void onCall(void *user, int domain, uint32_t function, const cupti::CallbackData *data);
  void onEvent(int site);

  const cupti::Api &api;
  cupti::HostObject *host = nullptr;
  cupti::RangeObject *profiler = nullptr;
  cupti::Subscriber *subscriber = nullptr;
  std::vector<uint8_t> config, data;
  size_t events = 0; ///< recorded in this pass
  int failure = cupti::kSuccess;
};

Status StepCounter::check(int code, const char *doing) {
  if (code == cupti::kSuccess) {
    return Status::ok();
  }
  if (code == cupti::kHardwareBusy) {
    return Status::error(ErrorId::LibraryFailed, "another program reads the GPU's counters",
                         "wait for its end; the profile goes on without counters");
  }
  bool isForbidden = code == cupti::kNoPrivileges || code == cupti::kNoPrivilegesVirtual;
  return Status::error(
      ErrorId::LibraryFailed,
      isForbidden ? std::string("the driver leaves the GPU's counters to root (ERR_NVGPUCTRPERM)")
                  : fmt::format("CUPTI answered {} for {}", code, doing),
      isForbidden ? "let the administrator set NVreg_RestrictProfilingToAdminUsers=0, or run as "
                    "root"
                  : "the profile goes on without counters");
}

StepCounter::~StepCounter() {
  if (subscriber) {
    api.unsubscribe(subscriber);
  }
  if (profiler) {
    cupti::OfProfiler disable;
    disable.profiler = profiler;
    api.disable(&disable);
  }
  if (host) {
    cupti::HostDeinitialize end;
    end.host = host;
    api.hostDeinitialize(&end);
  }
}

Status StepCounter::open(const runtime::cuda::CudaDevice &device, int gpu) {
  cupti::Initialize initialize;
  TENON_TRY(check(api.initialize(&initialize), "the start"));
  cupti::GetChipName chip;
  chip.device = static_cast<size_t>(gpu);
  TENON_TRY(check(api.getChipName(&chip), "the chip's name"));
  cupti::HostInitialize begin;
  begin.chip = chip.chip;
  TENON_TRY(check(api.hostInitialize(&begin), "the chip's metrics"));
  host = begin.host;
  cupti::AddMetrics add;
  add.host = host;
  add.names = kMetrics;
  add.count = kMetricCount;
  TENON_TRY(check(api.addMetrics(&add), "the metrics"));
  cupti::GetConfigSize size;
  size.host = host;
  TENON_TRY(check(api.getConfigSize(&size), "the configuration's size"));
  config.resize(size.bytes);
  cupti::GetConfig get;
  get.host = host;
  get.bytes = config.size();
  get.config = config.data();
  TENON_TRY(check(api.getConfig(&get), "the configuration"));
  cupti::Enable enable;
  enable.context = device.context();
  TENON_TRY(check(api.enable(&enable), "the range profiler"));
  profiler = enable.profiler;
  TENON_TRY(check(api.subscribe(&subscriber, onCall, this), "callbacks"));
  return check(api.enableCallback(1, subscriber, cupti::kDriverApi, cupti::kEventRecord),
               "callbacks of events");
}

Status StepCounter::configure(size_t ranges) {
  cupti::GetDataSize size;
  size.profiler = profiler;
  size.names = kMetrics;
  size.count = kMetricCount;
  size.ranges = ranges;
  size.nodes = static_cast<uint32_t>(ranges);
  TENON_TRY(check(api.getDataSize(&size), "the size of counters"));
  data.assign(size.bytes, 0);
  cupti::InitializeData initialize;
  initialize.profiler = profiler;
  initialize.bytes = data.size();
  initialize.data = data.data();
  TENON_TRY(check(api.initializeData(&initialize), "counters"));
  cupti::SetConfig set;
  set.profiler = profiler;
  set.configBytes = config.size();
  set.config = config.data();
  set.dataBytes = data.size();
  set.data = data.data();
  set.rangesOfPass = ranges;
  return check(api.setConfig(&set), "the passes");
}

void StepCounter::onCall(void *user, int, uint32_t function, const cupti::CallbackData *data) {
  if (function == cupti::kEventRecord) {
    static_cast<StepCounter *>(user)->onEvent(data->site);
  }
}

/// Behind a step's first event begins its range, ahead of its second one the range ends.
void StepCounter::onEvent(int site) {
  bool isEnter = site == cupti::kEnter, isFirst = events % 2 == 0;
  int code = cupti::kSuccess;
  if (isFirst && !isEnter) {
    std::string name = std::to_string(events / 2);
    cupti::PushRange push;
    push.profiler = profiler;
    push.name = name.c_str();
    code = api.pushRange(&push);
  } else if (!isFirst && isEnter) {
    cupti::OfProfiler pop;
    pop.profiler = profiler;
    code = api.popRange(&pop);
  }
  events += isEnter ? 0 : 1;
  failure = failure == cupti::kSuccess ? code : failure;
}

Result<bool> StepCounter::countOnce(Runner &runner) {
  events = 0;
  cupti::OfProfiler start;
  start.profiler = profiler;
  TENON_TRY(check(api.start(&start), "a pass"));
  Status timed = runner.session().timeSteps(kRepeats).status();
  cupti::Stop stop;
  stop.profiler = profiler;
  TENON_TRY(check(api.stop(&stop), "a pass's end"));
  TENON_TRY(timed);
  TENON_TRY(check(failure, "a step's range"));
  return stop.isLast != 0;
}

Result<std::vector<std::pair<size_t, StepCounters>>>
StepCounter::read(const std::vector<runtime::StepTime> &steps) {
  cupti::Decode decode;
  decode.profiler = profiler;
  TENON_TRY(check(api.decode(&decode), "reading counters"));
  cupti::GetDataInfo info;
  info.data = data.data();
  info.bytes = data.size();
  TENON_TRY(check(api.getDataInfo(&info), "the ranges"));
  std::vector<std::pair<size_t, StepCounters>> found;
  for (size_t range = 0; range < info.ranges; ++range) {
    double values[kMetricCount] = {};
    cupti::Evaluate evaluate;
    evaluate.host = host;
    evaluate.data = data.data();
    evaluate.bytes = data.size();
    evaluate.range = range;
    evaluate.names = kMetrics;
    evaluate.count = kMetricCount;
    evaluate.values = values;
    TENON_TRY(check(api.evaluate(&evaluate), "a range's counters"));
    cupti::GetRangeInfo get;
    get.data = data.data();
    get.bytes = data.size();
    get.range = range;
    TENON_TRY(check(api.getRangeInfo(&get), "a range's name"));
    std::string_view name = get.name ? get.name : "";
    size_t number = 0;
    std::from_chars(name.data(), name.data() + name.size(), number);
    if (number >= steps.size()) {
      continue;
    }
    // Shares are of the range, in which the GPU also waits for its beginning and end.
    double ofKernels = kRepeats * steps[number].seconds * 1e9;
    double idle = ofKernels > 0 ? std::max(values[5] / ofKernels, 1.0) : 1;
    auto share = [&](double percent) { return std::min(percent / 100 * idle, 1.0); };
    found.push_back({number,
                     {.instruction = steps[number].instruction,
                      .processors = share(values[0]),
                      .memory = share(values[1]),
                      .dram = share(values[2]),
                      .tensorPipe = share(values[3]),
                      .warps = values[4] / 100}});
  }
  return found;
}

} // namespace

Json toJson(const std::vector<StepCounters> &steps) {
  Json rows = Json::array();
  for (const StepCounters &step : steps) {
    rows.push_back(
        {step.instruction, step.processors, step.memory, step.dram, step.tensorPipe, step.warps});
  }
  return {{"steps", std::move(rows)}};
}

std::vector<StepCounters> countersOf(const Json &json) {
  std::vector<StepCounters> steps;
  for (const Json &row : json.value("steps", Json::array())) {
    steps.push_back({.instruction = row.at(0).get<uint32_t>(),
                     .processors = row.at(1).get<double>(),
                     .memory = row.at(2).get<double>(),
                     .dram = row.at(3).get<double>(),
                     .tensorPipe = row.at(4).get<double>(),
                     .warps = row.at(5).get<double>()});
  }
  return steps;
}

Result<std::vector<StepCounters>> countSteps(Runner &runner) {
  TENON_ASSIGN(cupti::Api api, cupti::openApi());
  int gpu = *runner.session().engine().gpu();
  TENON_ASSIGN(std::shared_ptr<const runtime::cuda::CudaDevice> device,
               runtime::cuda::CudaDevice::open(runtime::cuda::kDriverLibrary, gpu));
  runtime::cuda::ContextScope scope(*device);
  TENON_ASSIGN(std::vector<runtime::StepTime> steps, runner.session().timeSteps(kRepeats));
  StepCounter counter(api);
  TENON_TRY(counter.open(*device, gpu));
  TENON_TRY(counter.configure(steps.size()));
  bool isLast = false;
  for (size_t pass = 0; !isLast && pass < kMostPasses; ++pass) {
    TENON_ASSIGN(isLast, counter.countOnce(runner));
  }
  TENON_ASSIGN(auto ranges, counter.read(steps));
  if (!isLast || ranges.size() != steps.size()) {
    return Status::error(
        ErrorId::LibraryFailed,
        fmt::format("CUPTI counted {} ranges for {} steps", ranges.size(), steps.size()),
        "the profile goes on without counters");
  }
  std::vector<StepCounters> counted;
  for (const auto &[number, counters] : ranges) {
    counted.push_back(counters);
  }
  return counted;
}

} // namespace tenon::tool
