// `tenon bench`: load time, first result, then warm runs; with --ab two engines in turn, so that what
// disturbs the machine disturbs both. Times are of the steady clock around Session::run.

#include "support/MappedFile.h"
#include "support/Shape.h"
#include "tools/tenon/EngineSource.h"
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

struct BenchFlags {
  OpenRequest open;
  InputFlags inputs;
  std::string other;
  unsigned threads = 0;
  double seconds = 2;
  int runs = 0;
  bool noCache = false;
};

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
  std::unique_ptr<Runner> runner;
  std::vector<double> times;

  Status runOnce(bool keep) {
    Clock::time_point start = Clock::now();
    Status status = runner->run();
    if (keep) {
      times.push_back(millisecondsSince(start));
    }
    return status;
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
  TENON_ASSIGN(std::shared_ptr<const runtime::Engine> engine, source.open());
  double openMs = millisecondsSince(start);
  TENON_ASSIGN(std::vector<Tensor> inputs, makeInputs(flags.inputs, *engine));
  start = Clock::now();
  TENON_ASSIGN(Runner runner, Runner::create(engine, std::move(inputs), flags.threads));
  contender.loadMs = openMs + millisecondsSince(start);
  TENON_TRY(runner.run());
  contender.firstResultMs = openMs + millisecondsSince(start);
  contender.runner = std::make_unique<Runner>(std::move(runner));
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
  size_t wanted = flags.runs > 0 ? static_cast<size_t>(flags.runs) : kMaxRuns;
  size_t least = flags.runs > 0 ? wanted : kMinRuns;
  std::vector<double> &counted = contenders.front().times;
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
          {"latency_ms",
           {{"min", latency.min}, {"median", latency.median}, {"p90", latency.p90}, {"p99", latency.p99}}},
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
      formatBytes(result["arena_bytes"].get<uint64_t>()));
}

void report(const std::vector<Contender> &contenders, Terminal &terminal) {
  Json result = describe(contenders[0]);
  if (contenders.size() == 1) {
    terminal.json() ? terminal.printJson("bench", result) : terminal.print(text(result));
    return;
  }
  Json other = describe(contenders[1]);
  RatioSummary ratio = compareLatency(contenders[0].times, contenders[1].times);
  if (terminal.json()) {
    result["ab"] = {{"other", other},
                    {"ratio_of_minima", ratio.ofMinima},
                    {"ratio_of_medians", ratio.ofMedians},
                    {"interval_95", {ratio.low, ratio.high}}};
    terminal.printJson("bench", result);
    return;
  }
  terminal.print(text(result));
  terminal.print(text(other));
  terminal.print(fmt::format("the second takes {:.3f} x the first's time (medians; 95 % between {:.3f} and "
                             "{:.3f}), {:.3f} x by the minima",
                             ratio.ofMedians, ratio.low, ratio.high, ratio.ofMinima));
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
  report(contenders, terminal);
  return Status::ok();
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
  declareTargetFlags(command, flags->open.target);
  command.add_flag("--no-cache", flags->noCache, "Compile a model without the cache");
  return [flags](Terminal &terminal) { return bench(*flags, terminal); };
}

} // namespace tenon::tool
