// Implements samples and their description. Times of the caller are of the steady clock around
// Session::run; on a GPU each sample is of the GPU's own clock over runs whose tensors stay there.

#include "tools/tenon/bench/Subject.h"

#include "support/Shape.h"
#include "tools/tenon/bench/Statistics.h"
#include "tools/tenon/print/Format.h"

#include <fmt/format.h>
#include <sys/resource.h>

namespace tenon::tool {
namespace {

/// On a GPU a sample of a short run is a few in a row, so that the clock's own time does not count.
constexpr unsigned kInARow = 10;
constexpr double kInARowBelowMs = 2;
/// Of the caller on a GPU, which are mostly copies: enough for a median.
constexpr size_t kMaxHostRuns = 10;
/// Milliseconds of them after which one counted run is enough: with large tensors they take a
/// thousand times as long as the GPU.
constexpr double kMaxHostMs = 300;
constexpr unsigned kRegionRuns = 20;

double peakRssMib() {
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

int64_t batchOf(const std::vector<Tensor> &inputs) {
  bool hasBatch = !inputs.empty() && !inputs[0].dims.empty();
  return hasBatch ? inputs[0].dims[0] : 1;
}

Json quantiles(const LatencySummary &summary) {
  return {
      {"min", summary.min}, {"median", summary.median}, {"p90", summary.p90}, {"p99", summary.p99}};
}

/// Ends that are no numbers become null.
Json describe(const Estimate &found) {
  return {{"value", found.value}, {"interval_95", {found.low, found.high}}};
}

std::string gpuText(const Json &gpu) {
  const Json &time = gpu["time_ms"];
  std::string text =
      fmt::format("  GPU         min {:.4f}  median {:.4f}  p90 {:.4f}  p99 {:.4f} ms over {} "
                  "runs, {} in a row{}\n"
                  "  launches    {} kernels, {} library calls, {} copies{}, {} beside others\n"
                  "  GPU memory  {}\n"
                  "  context     {:.1f} ms, then code and weights {:.1f} ms\n",
                  time["min"].get<double>(), time["median"].get<double>(),
                  time["p90"].get<double>(), time["p99"].get<double>(), gpu["runs"].get<size_t>(),
                  gpu["in_a_row"].get<size_t>(), gpu["cold"] ? " on cold tensors" : "",
                  gpu["kernels"].get<size_t>(), gpu["calls"].get<size_t>(),
                  gpu["moves"].get<size_t>(), gpu["graph"] ? " in one graph" : ", one by one",
                  gpu["overlapped"].get<size_t>(), formatBytes(gpu["memory_bytes"].get<uint64_t>()),
                  gpu["context_ms"].get<double>(), gpu["engine_ms"].get<double>());
  if (gpu["graph_refusal"] != "") {
    text += fmt::format("  no graph    {}\n", gpu["graph_refusal"].get<std::string>());
  }
  if (gpu.contains("copy_tb_s")) {
    text += fmt::format("  probes      copy {:.2f} TB/s, {:.2f} us a small kernel in a graph, "
                        "product of 8192 {}\n",
                        gpu["copy_tb_s"].get<double>(), gpu["kernel_us"].get<double>(),
                        gpu["product_tf_s"].is_null()
                            ? "without cuBLASLt"
                            : fmt::format("{:.0f} TF/s", gpu["product_tf_s"].get<double>()));
  }
  return text;
}

/// Of a count by the plan in a region's time; a dash where the plan has none.
std::string rateText(const Json &region, const char *count, const char *unit) {
  double seconds = region["time_us"].get<double>() * 1e-6;
  return region[count].is_null() || seconds <= 0
             ? fmt::format("{:>8} {}", "-", unit)
             : fmt::format("{:>8.1f} {}", region[count].get<double>() / seconds * 1e-9, unit);
}

std::string regionsText(const Json &result) {
  std::string text;
  double sum = 0;
  for (const Json &region : result["regions"]) {
    sum += region["time_us"].get<double>();
    text +=
        fmt::format("  {:>9.2f} us {} {}  {:<8} {}\n", region["time_us"].get<double>(),
                    rateText(region, "flops", "GFLOP/s"), rateText(region, "bytes_moved", "GB/s"),
                    region["kind"].get<std::string>(), region["label"].get<std::string>());
  }
  return text + fmt::format("  {:>9.2f} us  together, {}\n", sum,
                            result.contains("gpu") ? "each by itself and in caches"
                                                   : "each within whole runs");
}

std::string subjectText(const Json &result) {
  const Json &latency = result["latency_ms"];
  std::string shapes;
  for (auto &[name, dims] : result["inputs"].items()) {
    shapes += fmt::format(" {}:{}", name, dims.get<std::string>());
  }
  std::string compiled;
  if (result["compile_s"] != 0.0) {
    compiled = fmt::format("compile     {:.2f} s\n", result["compile_s"].get<double>());
  }
  return fmt::format("{}\n  inputs     {}\n  level       {}, {} threads\n  latency     min {:.3f}  "
                     "median {:.3f}  p90 {:.3f}  "
                     "p99 {:.3f} ms over {} runs\n  throughput  {:.1f} per second at batch {}\n  "
                     "{}load        {:.2f} ms, "
                     "first result after {:.2f} ms\n  peak memory {:.1f} MiB, arena {}\n",
                     result["engine"].get<std::string>(), shapes, result["isa"].get<std::string>(),
                     result["threads"].get<unsigned>(), latency["min"].get<double>(),
                     latency["median"].get<double>(), latency["p90"].get<double>(),
                     latency["p99"].get<double>(), result["runs"].get<size_t>(),
                     result["throughput_per_s"].get<double>(), result["batch"].get<int64_t>(),
                     compiled.empty() ? "" : compiled + "  ", result["load_ms"].get<double>(),
                     result["first_result_ms"].get<double>(), result["peak_rss_mib"].get<double>(),
                     formatBytes(result["arena_bytes"].get<uint64_t>())) +
         (result.contains("gpu") ? gpuText(result["gpu"]) : "") +
         (result.contains("regions") ? regionsText(result) : "");
}

} // namespace

std::string benchText(const Json &result) {
  std::string text = subjectText(result);
  if (!result.contains("ab")) {
    return text;
  }
  const Json &second = result["ab"];
  return text + subjectText(second["other"]) +
         fmt::format("{} takes {:.3f} x the time of {} (median; 95 % interval {:.3f} to {:.3f}), "
                     "{}\n",
                     second["other"]["engine"].get<std::string>(),
                     second["ratio_of_medians"].get<double>(), result["engine"].get<std::string>(),
                     second["interval_95"][0].get<double>(), second["interval_95"][1].get<double>(),
                     second["differs"] ? "a difference" : "no difference beyond noise");
}

double millisecondsSince(BenchClock::time_point start) {
  return std::chrono::duration<double, std::milli>(BenchClock::now() - start).count();
}

Status Subject::prepareGpu(bool isCold, const runtime::SessionOptions &options) {
  TENON_ASSIGN(double seconds, runner->session().timeRuns(2));
  inARow = seconds * 1000 < kInARowBelowMs ? kInARow : 1;
  if (isCold) {
    TENON_ASSIGN(cold, ColdRuns::create(engine, runner->inputs(), options));
  }
  return Status::ok();
}

Status Subject::runOnce(bool keep) {
  bool isLong = hostMs > kMaxHostMs && (!keep || !times.empty());
  if (!isGpu() || (times.size() < kMaxHostRuns && !isLong)) {
    BenchClock::time_point start = BenchClock::now();
    TENON_TRY(runner->run());
    double host = millisecondsSince(start);
    hostMs += host;
    if (keep) {
      times.push_back(host);
    }
  }
  return isGpu() ? sampleGpu(keep) : Status::ok();
}

Status Subject::sampleGpu(bool keep) {
  TENON_ASSIGN(double seconds, cold ? cold->seconds() : runner->session().timeRuns(inARow));
  if (keep) {
    gpuTimes.push_back(seconds * 1000);
  }
  return Status::ok();
}

Result<Json> Subject::describe(const BenchDetails &details) {
  Json result = describeRuns();
  if (isGpu()) {
    TENON_ASSIGN(result["gpu"], describeGpu(details));
  }
  if (details.regions) {
    TENON_ASSIGN(result["regions"], describeRegions());
  }
  if (details.intervals) {
    result["intervals"] = describeIntervals(*this);
  }
  return result;
}

Json describeIntervals(const Subject &subject) {
  const std::vector<double> &times = subject.samples();
  Estimate mean = estimateMean(times);
  double rate = static_cast<double>(batchOf(subject.runner->inputs())) * 1000;
  return {{"median_ms", describe(estimateQuantile(times, 0.5))},
          {"p99_ms", describe(estimateQuantile(times, 0.99))},
          {"throughput_per_s", describe({rate / mean.value, rate / mean.high, rate / mean.low})}};
}

Json describeRatios(const Subject &own, const Subject &other) {
  Estimate mean = estimateMeanRatio(own.samples(), other.samples());
  return {{"median", describe(estimateQuantileRatio(own.samples(), other.samples(), 0.5))},
          {"p99", describe(estimateQuantileRatio(own.samples(), other.samples(), 0.99))},
          {"throughput", describe({1 / mean.value, 1 / mean.high, 1 / mean.low})}};
}

Json Subject::describeRuns() const {
  double total = 0;
  for (double time : times) {
    total += time;
  }
  int64_t batch = batchOf(runner->inputs());
  Json inputs = Json::object();
  for (const Tensor &input : runner->inputs()) {
    inputs[input.name] = formatDims(input.dims);
  }
  return {{"engine", path},
          {"latency_ms", quantiles(summarizeLatency(times))},
          {"throughput_per_s",
           static_cast<double>(times.size()) * static_cast<double>(batch) / total * 1000},
          {"compile_s", compileSeconds},
          {"load_ms", loadMs},
          {"first_result_ms", firstResultMs},
          {"peak_rss_mib", peakRssMib()},
          {"threads", runner->session().threads()},
          {"isa", engine->variant().level},
          {"runs", times.size()},
          {"batch", batch},
          {"inputs", inputs},
          {"arena_bytes", runner->session().memoryUse().arenaBytes}};
}

Result<Json> Subject::describeGpu(const BenchDetails &details) {
  runtime::RunInfo info = runner->session().info();
  runtime::MemoryUse use = runner->session().memoryUse();
  Json gpu = {{"time_ms", quantiles(summarizeLatency(gpuTimes))},
              {"runs", gpuTimes.size() * runsOfSample()},
              {"in_a_row", runsOfSample()},
              {"cold", cold != nullptr},
              {"context_ms", contextMs},
              {"engine_ms", engineMs},
              {"kernels", info.kernels},
              {"calls", info.calls},
              {"moves", info.moves},
              {"overlapped", info.overlapped},
              {"graph", info.usedGraph},
              {"graph_refusal", info.graphRefusal},
              {"memory_bytes", use.weightBytes + use.arenaBytes + use.stateBytes +
                                   use.workspaceBytes + use.portBytes}};
  if (details.probes) {
    TENON_ASSIGN(GpuProbe probe, probeGpu(*engine->gpu()));
    gpu["copy_tb_s"] = probe.copyTerabytes;
    gpu["kernel_us"] = probe.kernelSeconds * 1e6;
    gpu["product_tf_s"] = probe.productTeraflops ? Json(*probe.productTeraflops) : Json();
  }
  return gpu;
}

/// Time of each instruction, in the order of the plan.
Result<Json> Subject::describeRegions() {
  TENON_ASSIGN(std::vector<runtime::StepTime> steps, runner->session().timeSteps(kRegionRuns));
  Json regions = Json::array();
  for (const runtime::StepTime &step : steps) {
    const engine::Instruction &instruction =
        runner->session().activePlan().instructions[step.instruction];
    bool isCall = instruction.kind == engine::InstructionKind::Call;
    bool isLaunch = instruction.kind == engine::InstructionKind::Launch;
    regions.push_back({{"instruction", step.instruction},
                       {"label", instruction.label},
                       {"kind", isCall     ? "library"
                                : isLaunch ? "kernel"
                                           : "copy"},
                       {"kernel", isLaunch ? engine->variant().kernels[instruction.kernel] : ""},
                       {"time_us", step.seconds * 1e6},
                       {"flops", step.flops ? Json(*step.flops) : Json()},
                       {"bytes_moved", step.bytesMoved ? Json(*step.bytesMoved) : Json()}});
  }
  return regions;
}

} // namespace tenon::tool
