// `tenon bench`: load time, first result, then warm runs; with --ab two engines in turn, so that what
// disturbs the machine disturbs both. Times are of the steady clock around Session::run; on a GPU each is paired
// with the GPU's own time of runs whose tensors stay there.

#include "engine/CudaArch.h"
#include "support/MappedFile.h"
#include "support/Shape.h"
#include "tools/tenon/EngineSource.h"
#include "tools/tenon/GpuBench.h"
#include "tools/tenon/Inputs.h"
#include "tools/tenon/Runner.h"
#include "tools/tenon/Statistics.h"
#include "tools/tenon/Terminal.h"
#include "tools/tenon/Verb.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <memory>

namespace tenon::tool {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kMinRuns = 10;
constexpr size_t kMaxRuns = 100000;
/// Runs in a row before the other contender has its turn.
constexpr size_t kBlock = 5;
constexpr double kWarmupShare = 0.2;
/// On a GPU a sample of a short run is a few in a row, so that the clock's own time does not count.
constexpr size_t kMinGpuRuns = 200;
constexpr unsigned kInARow = 10;
constexpr double kInARowBelowMs = 2;
/// Of the caller on a GPU, which are mostly copies: enough for a median.
constexpr size_t kMostHostRuns = 50;
constexpr unsigned kRegionRuns = 20;

struct BenchFlags {
  OpenRequest open;
  InputFlags inputs;
  std::string other;
  unsigned threads = 0;
  double seconds = 2;
  int runs = 0;
  bool noCache = false;
  bool isCold = false;
  bool wantsProbes = false;
  bool wantsRegions = false;
};

size_t ceilDiv(size_t a, size_t b) { return (a + b - 1) / b; }

double millisecondsSince(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

double peakRssMib() {
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

/// One engine under measurement.
struct Contender {
  std::string path;
  double compileSeconds = 0;
  double loadMs = 0;        ///< from opening the file to a session prepared for the shapes
  double firstResultMs = 0; ///< from opening the file to the first outputs
  std::shared_ptr<const runtime::Engine> engine;
  std::unique_ptr<Runner> runner;
  std::vector<double> times; ///< of the caller, with host tensors
  std::vector<double> gpuTimes;
  unsigned inARow = 1; ///< runs of one sample of the GPU's clock
  std::unique_ptr<ColdRuns> cold;

  bool isGpu() const { return engine->gpu().has_value(); }
  size_t runsOfSample() const { return cold ? cold->sets() : inARow; }

  /// What decides how long to measure.
  const std::vector<double> &samples() const { return isGpu() ? gpuTimes : times; }

  Status runOnce(bool keep) {
    if (!isGpu() || times.size() < kMostHostRuns) {
      Clock::time_point start = Clock::now();
      TENON_TRY(runner->run());
      double host = millisecondsSince(start);
      if (keep) {
        times.push_back(host);
      }
    }
    return isGpu() ? sampleGpu(keep) : Status::ok();
  }

  Status sampleGpu(bool keep) {
    TENON_ASSIGN(double seconds, cold ? cold->seconds() : runner->session().timeRuns(inARow));
    if (keep) {
      gpuTimes.push_back(seconds * 1000);
    }
    return Status::ok();
  }

  Status prepareGpu(bool isCold) {
    TENON_ASSIGN(double seconds, runner->session().timeRuns(2));
    inARow = seconds * 1000 < kInARowBelowMs ? kInARow : 1;
    if (isCold) {
      TENON_ASSIGN(cold, ColdRuns::create(engine, runner->inputs()));
    }
    return Status::ok();
  }
};

/// Reads the file once so that `load` measures loading, not the disk.
Status readThrough(const std::string &path) {
  TENON_ASSIGN(FileReader file, FileReader::open(path));
  constexpr uint64_t kPiece = uint64_t(1) << 20;
  std::vector<std::byte> piece(kPiece);
  for (uint64_t offset = 0; offset < file.size(); offset += kPiece) {
    uint64_t size = std::min(kPiece, file.size() - offset);
    TENON_TRY(file.read(offset, MutableBytes(piece).first(size)));
  }
  return Status::ok();
}

Result<Contender> load(const BenchFlags &flags, const std::string &path, Terminal &terminal) {
  OpenRequest request = flags.open;
  request.path = path;
  request.shapes = flags.inputs.shapes;
  request.useCache = !flags.noCache;
  Contender contender;
  contender.path = path;
  TENON_ASSIGN(EngineSource source, EngineSource::prepare(request, terminal));
  contender.compileSeconds = source.compileSeconds();
  TENON_TRY(readThrough(source.path()));

  Clock::time_point start = Clock::now();
  TENON_ASSIGN(contender.engine, source.open());
  double openMs = millisecondsSince(start);
  TENON_ASSIGN(std::vector<Tensor> inputs, makeInputs(flags.inputs, *contender.engine));
  start = Clock::now();
  TENON_ASSIGN(Runner runner, Runner::create(contender.engine, std::move(inputs), flags.threads));
  contender.loadMs = openMs + millisecondsSince(start);
  TENON_TRY(runner.run());
  contender.firstResultMs = openMs + millisecondsSince(start);
  contender.runner = std::make_unique<Runner>(std::move(runner));
  if (contender.isGpu()) {
    TENON_TRY(contender.prepareGpu(flags.isCold));
  } else if (flags.isCold || flags.wantsProbes || flags.wantsRegions) {
    return Status::error(ErrorId::BadArgument,
                         fmt::format("{} runs at {}: --cold, --probes and --regions are for a GPU", path,
                                     contender.engine->variant().level),
                         "name a GPU's architecture with --target when compiling");
  }
  return contender;
}

/// A few runs in a row, the first of which only brings back the caches and threads that the other used.
Status runBlock(Contender &contender, size_t runs, bool isAlone) {
  if (!isAlone) {
    TENON_TRY(contender.runOnce(false));
  }
  for (size_t i = 0; i < runs; ++i) {
    TENON_TRY(contender.runOnce(true));
  }
  return Status::ok();
}

/// Runs the contenders in turn until the time or the number of runs is reached.
Status measure(const BenchFlags &flags, std::vector<Contender> &contenders, Terminal &terminal) {
  double budget = flags.seconds * 1000;
  double warmup = budget * kWarmupShare;
  Clock::time_point start = Clock::now();
  for (int round = 0; round < 3 || (flags.runs == 0 && millisecondsSince(start) < warmup); ++round) {
    for (Contender &contender : contenders) {
      TENON_TRY(contender.runOnce(false));
    }
  }
  start = Clock::now();
  const Contender &first = contenders.front();
  size_t sample = first.isGpu() ? first.runsOfSample() : 1;
  size_t wanted = flags.runs > 0 ? ceilDiv(static_cast<size_t>(flags.runs), sample) : kMaxRuns;
  size_t least = flags.runs > 0 ? wanted : first.isGpu() ? ceilDiv(kMinGpuRuns, sample) : kMinRuns;
  const std::vector<double> &counted = first.samples();
  for (size_t round = 0;
       counted.size() < wanted && (counted.size() < least || millisecondsSince(start) < budget); ++round) {
    size_t runs = std::min(kBlock, wanted - counted.size());
    for (size_t i = 0; i < contenders.size(); ++i) {
      TENON_TRY(runBlock(contenders[(i + round) % contenders.size()], runs, contenders.size() == 1));
    }
    double part = flags.runs > 0 ? static_cast<double>(counted.size()) / static_cast<double>(wanted)
                                 : millisecondsSince(start) / budget;
    terminal.progress("bench", std::min(part, 1.0));
  }
  return Status::ok();
}

int64_t batchOf(const Contender &contender) {
  const std::vector<Tensor> &inputs = contender.runner->inputs();
  bool hasBatch = !inputs.empty() && !inputs[0].dims.empty();
  return hasBatch ? inputs[0].dims[0] : 1;
}

Json quantiles(const LatencySummary &summary) {
  return {{"min", summary.min}, {"median", summary.median}, {"p90", summary.p90}, {"p99", summary.p99}};
}

/// Time of each instruction by itself, in the order of the plan.
Result<Json> describeRegions(Contender &contender) {
  TENON_ASSIGN(std::vector<runtime::StepTime> times, contender.runner->session().timeSteps(kRegionRuns));
  Json regions = Json::array();
  for (const runtime::StepTime &time : times) {
    const engine::Instruction &instruction = contender.engine->plan().instructions[time.instruction];
    bool isCall = instruction.kind == engine::InstructionKind::Call;
    bool isLaunch = instruction.kind == engine::InstructionKind::Launch;
    regions.push_back({{"instruction", time.instruction},
                       {"label", instruction.label},
                       {"kind", isCall ? "library" : isLaunch ? "kernel" : "copy"},
                       {"kernel", isLaunch ? contender.engine->variant().kernels[instruction.kernel] : ""},
                       {"time_us", time.seconds * 1e6}});
  }
  return regions;
}

Result<Json> describeGpu(Contender &contender, const BenchFlags &flags) {
  runtime::Session &session = contender.runner->session();
  runtime::RunFacts facts = session.facts();
  runtime::MemoryUse use = session.memoryUse();
  Json gpu = {{"time_ms", quantiles(summarizeLatency(contender.gpuTimes))},
              {"runs", contender.gpuTimes.size() * contender.runsOfSample()},
              {"in_a_row", contender.runsOfSample()},
              {"cold", contender.cold != nullptr},
              {"kernels", facts.kernels},
              {"calls", facts.calls},
              {"moves", facts.moves},
              {"graph", facts.usedGraph},
              {"graph_refusal", facts.graphRefusal},
              {"memory_bytes", use.weightBytes + use.arenaBytes + use.stateBytes + use.workspaceBytes + use.portBytes}};
  if (flags.wantsProbes) {
    TENON_ASSIGN(GpuProbe probe, probeGpu(*contender.engine->gpu()));
    gpu["copy_tb_s"] = probe.copyTerabytes;
    gpu["product_tf_s"] = probe.productTeraflops ? Json(*probe.productTeraflops) : Json();
  }
  if (flags.wantsRegions) {
    TENON_ASSIGN(gpu["regions"], describeRegions(contender));
  }
  return gpu;
}

Json describe(const Contender &contender) {
  LatencySummary latency = summarizeLatency(contender.times);
  double total = 0;
  for (double time : contender.times) {
    total += time;
  }
  double perSecond =
      static_cast<double>(contender.times.size()) * static_cast<double>(batchOf(contender)) / total * 1000;
  Runner &runner = *contender.runner;
  Json inputs = Json::object();
  for (const Tensor &input : runner.inputs()) {
    inputs[input.name] = formatDims(input.dims);
  }
  return {{"engine", contender.path},
          {"latency_ms", quantiles(latency)},
          {"throughput_per_s", perSecond},
          {"compile_s", contender.compileSeconds},
          {"load_ms", contender.loadMs},
          {"first_result_ms", contender.firstResultMs},
          {"peak_rss_mib", peakRssMib()},
          {"threads", runner.session().threads()},
          {"isa", runner.session().engine().variant().level},
          {"runs", contender.times.size()},
          {"batch", batchOf(contender)},
          {"inputs", inputs},
          {"arena_bytes", runner.session().memoryUse().arenaBytes}};
}

std::string gpuText(const Json &gpu) {
  const Json &time = gpu["time_ms"];
  std::string text = fmt::format(
      "  GPU         min {:.4f}  median {:.4f}  p90 {:.4f}  p99 {:.4f} ms over {} runs, {} in a row{}\n"
      "  launches    {} kernels, {} library calls, {} copies{}\n  GPU memory  {}\n",
      time["min"].get<double>(), time["median"].get<double>(), time["p90"].get<double>(), time["p99"].get<double>(),
      gpu["runs"].get<size_t>(), gpu["in_a_row"].get<size_t>(), gpu["cold"] ? " on cold tensors" : "",
      gpu["kernels"].get<size_t>(), gpu["calls"].get<size_t>(), gpu["moves"].get<size_t>(),
      gpu["graph"] ? " in one graph" : ", one by one", formatBytes(gpu["memory_bytes"].get<uint64_t>()));
  if (gpu["graph_refusal"] != "") {
    text += fmt::format("  no graph    {}\n", gpu["graph_refusal"].get<std::string>());
  }
  if (gpu.contains("copy_tb_s")) {
    text += fmt::format("  probes      copy {:.2f} TB/s, product of 8192 {}\n", gpu["copy_tb_s"].get<double>(),
                        gpu["product_tf_s"].is_null() ? "without cuBLASLt"
                                                      : fmt::format("{:.0f} TF/s", gpu["product_tf_s"].get<double>()));
  }
  double sum = 0;
  for (const Json &region : gpu.value("regions", Json::array())) {
    sum += region["time_us"].get<double>();
    text += fmt::format("  {:>9.2f} us  {:<8} {}\n", region["time_us"].get<double>(), region["kind"].get<std::string>(),
                        region["label"].get<std::string>());
  }
  return sum == 0 ? text : text + fmt::format("  {:>9.2f} us  together, each by itself and in caches\n", sum);
}

std::string text(const Json &result) {
  const Json &latency = result["latency_ms"];
  std::string shapes;
  for (auto &[name, dims] : result["inputs"].items()) {
    shapes += fmt::format(" {}:{}", name, dims.get<std::string>());
  }
  std::string compiled;
  if (result["compile_s"] != 0.0) {
    compiled = fmt::format("compile     {:.2f} s\n", result["compile_s"].get<double>());
  }
  return fmt::format(
      "{}\n  inputs     {}\n  level       {}, {} threads\n  latency     min {:.3f}  median {:.3f}  p90 {:.3f}  "
      "p99 {:.3f} ms over {} runs\n  throughput  {:.1f} per second at batch {}\n  {}load        {:.2f} ms, "
      "first result after {:.2f} ms\n  peak memory {:.1f} MiB, arena {}\n",
      result["engine"].get<std::string>(), shapes, result["isa"].get<std::string>(),
      result["threads"].get<unsigned>(), latency["min"].get<double>(), latency["median"].get<double>(),
      latency["p90"].get<double>(), latency["p99"].get<double>(), result["runs"].get<size_t>(),
      result["throughput_per_s"].get<double>(), result["batch"].get<int64_t>(),
      compiled.empty() ? "" : compiled + "  ", result["load_ms"].get<double>(),
      result["first_result_ms"].get<double>(), result["peak_rss_mib"].get<double>(),
      formatBytes(result["arena_bytes"].get<uint64_t>())) + (result.contains("gpu") ? gpuText(result["gpu"]) : "");
}

Status report(std::vector<Contender> &contenders, const BenchFlags &flags, Terminal &terminal) {
  std::vector<Json> results;
  for (Contender &contender : contenders) {
    results.push_back(describe(contender));
    if (contender.isGpu()) {
      TENON_ASSIGN(results.back()["gpu"], describeGpu(contender, flags));
    }
  }
  if (contenders.size() == 1) {
    terminal.json() ? terminal.printJson("bench", results[0]) : terminal.print(text(results[0]));
    return Status::ok();
  }
  bool isGpu = contenders[0].isGpu() && contenders[1].isGpu();
  RatioSummary ratio = isGpu ? compareLatency(contenders[0].gpuTimes, contenders[1].gpuTimes)
                             : compareLatency(contenders[0].times, contenders[1].times);
  if (terminal.json()) {
    results[0]["ab"] = {{"other", results[1]},
                        {"ratio_of_minima", ratio.ofMinima},
                        {"ratio_of_medians", ratio.ofMedians},
                        {"interval_95", {ratio.low, ratio.high}}};
    terminal.printJson("bench", results[0]);
    return Status::ok();
  }
  terminal.print(text(results[0]));
  terminal.print(text(results[1]));
  terminal.print(fmt::format("the second takes {:.3f} x the first's time{} (medians; 95 % between {:.3f} and "
                             "{:.3f}), {:.3f} x by the minima",
                             ratio.ofMedians, isGpu ? " on the GPU" : "", ratio.low, ratio.high, ratio.ofMinima));
  return Status::ok();
}

Status bench(BenchFlags &flags, Terminal &terminal) {
  std::vector<Contender> contenders;
  TENON_ASSIGN(Contender first, load(flags, flags.open.path, terminal));
  contenders.push_back(std::move(first));
  if (!flags.other.empty()) {
    TENON_ASSIGN(Contender second, load(flags, flags.other, terminal));
    contenders.push_back(std::move(second));
  }
  TENON_TRY(measure(flags, contenders, terminal));
  return report(contenders, flags, terminal);
}

} // namespace

Action declareBench(CLI::App &command) {
  std::shared_ptr<BenchFlags> flags = std::make_shared<BenchFlags>();
  command.add_option("MODEL", flags->open.path, "An engine, or a model (.onnx) to compile first")
      ->required();
  command.add_option("--ab", flags->other, "A second engine or model, measured alternately");
  declareSeededFlags(command, flags->inputs);
  declareFileFlags(command, flags->inputs);
  command.add_option("--threads", flags->threads, "Threads; all usable CPUs by default");
  command.add_option("--variant,--isa", flags->open.variant,
                     "CPU level or GPU architecture to use instead of the best (see doctor)");
  command.add_option("--seconds", flags->seconds, "How long to measure")->check(CLI::PositiveNumber);
  command.add_option("--runs", flags->runs, "Measure exactly this many runs instead")
      ->check(CLI::PositiveNumber);
  command.add_flag("--cold", flags->isCold, "On a GPU: through more tensors in turn than its caches hold");
  command.add_flag("--regions", flags->wantsRegions, "On a GPU: also the time of each instruction by itself");
  command.add_flag("--probes", flags->wantsProbes, "On a GPU: also what copying and a large product reach");
  declareTargetFlags(command, flags->open.target);
  command.add_flag("--no-cache", flags->noCache, "Compile a model without the cache");
  return [flags](Terminal &terminal) { return bench(*flags, terminal); };
}

} // namespace tenon::tool
