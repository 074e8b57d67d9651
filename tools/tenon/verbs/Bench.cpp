// `tenon bench`: load time, first result, then warm runs; with --ab two engines in turn, so that
// what disturbs the machine disturbs both. Times are of the steady clock around Session::run; on a
// GPU each is paired with the GPU's own time of runs whose tensors stay there.

#include "support/files/MappedFile.h"
#include "tools/tenon/Verb.h"
#include "tools/tenon/bench/Interleaved.h"
#include "tools/tenon/bench/KernelBench.h"
#include "tools/tenon/bench/Peers.h"
#include "tools/tenon/bench/Statistics.h"
#include "tools/tenon/bench/Subject.h"
#include "tools/tenon/cli/Options.h"
#include "tools/tenon/cli/SharedFlags.h"
#include "tools/tenon/cli/Terminal.h"
#include "tools/tenon/engines/EngineSource.h"
#include "tools/tenon/inputs/Inputs.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <memory>

namespace tenon::tool {
namespace {

using Clock = BenchClock;

constexpr double kShortestBench = 0.001;
/// Of --runs: each is kept until the end.
constexpr uint64_t kMaxRuns = 10'000'000;

struct BenchFlags {
  OpenRequest open;
  InputFlags inputs;
  std::string other;
  runtime::SessionOptions session;
  bool isSerial = false;
  MeasureBudget budget;
  bool noCache = false;
  bool isCold = false;
  BenchDetails details;
  PeersRequest peers;
  std::string kernelsOf; ///< a node, or "all"; empty for whole runs
  size_t mostOfFamily = 0;
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

Result<Subject> load(const BenchFlags &flags, const std::string &path, Terminal &terminal) {
  OpenRequest request = flags.open;
  request.path = path;
  request.shapes = flags.inputs.shapes;
  request.useCache = !flags.noCache;
  Subject subject;
  subject.path = path;
  TENON_ASSIGN(EngineSource source, EngineSource::prepare(request, terminal));
  subject.compileSeconds = source.compileSeconds();
  TENON_TRY(readThrough(source.path()));

  Clock::time_point start = Clock::now();
  TENON_ASSIGN(subject.engine, source.open());
  double openMs = millisecondsSince(start);
  TENON_ASSIGN(double contextMs, contextMilliseconds(*subject.engine));
  // The other subject may have started the GPU.
  subject.contextMs = contextMs < openMs ? contextMs : 0;
  subject.engineMs = openMs - subject.contextMs;
  TENON_ASSIGN(std::vector<Tensor> inputs, makeInputs(flags.inputs, *subject.engine));
  start = Clock::now();
  TENON_ASSIGN(Runner runner, Runner::create(subject.engine, std::move(inputs), flags.session));
  subject.loadMs = subject.engineMs + millisecondsSince(start);
  TENON_TRY(runner.run());
  subject.firstResultMs = openMs + millisecondsSince(start);
  subject.runner = std::make_unique<Runner>(std::move(runner));
  if (subject.isGpu()) {
    TENON_TRY(subject.prepareGpu(flags.isCold, flags.session));
  } else if (flags.isCold || flags.details.probes) {
    return Status::error(ErrorId::BadArgument,
                         fmt::format("{} runs at {}: --cold and --probes are for a GPU", path,
                                     subject.engine->variant().level),
                         "name a GPU's architecture with --target when compiling");
  }
  return subject;
}

Status report(std::vector<Subject> &subjects, const BenchFlags &flags, Terminal &terminal) {
  std::vector<Json> results;
  for (Subject &subject : subjects) {
    TENON_ASSIGN(Json result, subject.describe(flags.details));
    results.push_back(std::move(result));
  }
  if (subjects.size() == 1) {
    terminal.json() ? terminal.printJson("bench", results[0])
                    : terminal.print(benchText(results[0]));
    return Status::ok();
  }
  bool isGpu = subjects[0].isGpu() && subjects[1].isGpu();
  RatioSummary ratio = isGpu ? compareLatency(subjects[0].gpuTimes, subjects[1].gpuTimes)
                             : compareLatency(subjects[0].times, subjects[1].times);
  if (terminal.json()) {
    results[0]["ab"] = {{"other", results[1]},
                        {"ratio_of_minima", ratio.ofMinima},
                        {"ratio_of_medians", ratio.ofMedians},
                        {"interval_95", {ratio.low, ratio.high}},
                        {"differs", ratio.differs()}};
    if (flags.details.intervals) {
      results[0]["ab"]["ratios"] = describeRatios(subjects[0], subjects[1]);
    }
    terminal.printJson("bench", results[0]);
    return Status::ok();
  }
  terminal.print(benchText(results[0]));
  terminal.print(benchText(results[1]));
  terminal.print(
      fmt::format("the second takes {:.3f} x the first's time{} (medians; 95 % between {:.3f} and "
                  "{:.3f}), {:.3f} x by the minima{}",
                  ratio.ofMedians, isGpu ? " on the GPU" : "", ratio.low, ratio.high,
                  ratio.ofMinima, ratio.differs() ? "" : ": no difference shown"));
  return Status::ok();
}

Status bench(BenchFlags &flags, Terminal &terminal) {
  if (!flags.peers.against.empty()) {
    flags.peers.model = flags.open.path;
    flags.peers.shapes = flags.inputs.shapes;
    flags.peers.seconds = flags.budget.seconds;
    flags.peers.threads = flags.session.threads;
    flags.peers.format = terminal.json() ? "json" : flags.peers.format;
    return terminal.ownsProcess()
               ? comparePeers(flags.peers)
               : Status::error(ErrorId::BadArgument, "--against takes the place of the process",
                               "call tenon.compare.run of the Python package");
  }
  if (!flags.peers.output.empty() || flags.peers.format != "table" || flags.peers.device != "cpu") {
    return Status::error(ErrorId::BadArgument,
                         "--format, --output and --device belong to --against",
                         "tenon help bench has an example");
  }
  flags.session.overlapBranches = !flags.isSerial;
  if (!flags.kernelsOf.empty()) {
    flags.open.shapes = flags.inputs.shapes;
    TENON_ASSIGN(std::vector<pipeline::RegionTrials> regions,
                 benchKernels({flags.open, flags.inputs, flags.session, flags.kernelsOf,
                               flags.mostOfFamily, flags.isCold},
                              terminal));
    terminal.json() ? terminal.printJson("kernels", {{"regions", describeTrials(regions)}})
                    : terminal.print(trialsText(regions));
    return Status::ok();
  }
  std::vector<Subject> subjects;
  TENON_ASSIGN(Subject first, load(flags, flags.open.path, terminal));
  subjects.push_back(std::move(first));
  if (!flags.other.empty()) {
    TENON_ASSIGN(Subject second, load(flags, flags.other, terminal));
    subjects.push_back(std::move(second));
  }
  TENON_TRY(measureInterleaved(flags.budget, subjects, terminal));
  return report(subjects, flags, terminal);
}

} // namespace

Action declareBench(CLI::App &command) {
  std::shared_ptr<BenchFlags> flags = std::make_shared<BenchFlags>();
  command
      .add_option("MODEL", flags->open.path, "An engine, or a model (ONNX, .pt2) to compile first")
      ->required();
  command.add_option("--ab", flags->other, "A second engine or model, measured alternately");
  command.add_option(
      "--against", flags->peers.against,
      "With Python: also eager, inductor, max-autotune, onnxruntime, openvino, tensorrt (some "
      "of them, with commas between); MODEL may be model.py:make_model");
  addChoice(command, "--device", flags->peers.device, {"cpu", "cuda"},
            "With --against: where all of them run");
  addChoice(command, "--format", flags->peers.format, {"table", "json", "svg"},
            "With --against: svg is a plot of when compiling pays");
  addOutput(command, flags->peers.output, "With --against: the file that takes it");
  declareSeededFlags(command, flags->inputs);
  declareFileFlags(command, flags->inputs);
  declareThreadsFlag(command, flags->session.threads, "Threads; all usable CPUs by default");
  declareOpenFlags(command, flags->open);
  addSeconds(command, "--seconds", {kShortestBench, kLongestSeconds}, flags->budget.seconds,
             "How long to measure");
  addNumber(
      command, "--runs", {1, kMaxRuns},
      [flags](uint64_t number) { flags->budget.runs = static_cast<size_t>(number); },
      "Measure exactly this many runs instead");
  command.add_flag("--cold", flags->isCold,
                   "On a GPU: through more tensors in turn than its caches hold");
  command.add_flag("--no-overlap", flags->isSerial,
                   "On a GPU: branches of the model one after the other");
  command.add_flag("--regions", flags->details.regions,
                   "Also the time of each instruction; on a GPU by itself");
  command.add_flag(
      "--intervals", flags->details.intervals,
      "With --json: 95 % intervals of median, p99 and throughput, with --ab also of their ratios");
  command.add_flag("--probes", flags->details.probes,
                   "On a GPU: also what copying and a large product reach");
  command.add_option(
      "--kernels", flags->kernelsOf,
      "Instead of the model: every kernel that can compute the region of this node, or "
      "of all, predicted and measured");
  addNumber(
      command, "--per-family", {1, kMaxRuns},
      [flags](uint64_t number) { flags->mostOfFamily = static_cast<size_t>(number); },
      "With --kernels: at most so many configurations of each family");
  declareBudgetFlag(command, flags->session.measureSeconds);
  declareTargetFlags(command, flags->open.target);
  command.add_flag("--no-cache", flags->noCache, "Compile a model without the cache");
  return [flags](Terminal &terminal) { return bench(*flags, terminal); };
}

} // namespace tenon::tool
