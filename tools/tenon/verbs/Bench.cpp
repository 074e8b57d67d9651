// `tenon bench`: an engine, or two in turn; the kernels of a model; other frameworks beside it.

#include "tools/tenon/Verb.h"
#include "tools/tenon/bench/KernelBench.h"
#include "tools/tenon/bench/MeasureBench.h"
#include "tools/tenon/bench/Peers.h"
#include "tools/tenon/cli/Options.h"
#include "tools/tenon/cli/SharedFlags.h"
#include "tools/tenon/cli/Terminal.h"

#include <CLI/CLI.hpp>

#include <memory>

namespace tenon::tool {
namespace {

constexpr double kShortestBench = 0.001;
/// Of --runs: each is kept until the end.
constexpr uint64_t kMaxRuns = 10'000'000;

struct BenchFlags {
  BenchRequest request;
  bool isSerial = false;
  bool noCache = false;
  PeersRequest peers;
  std::string kernelsOf; ///< a node, or "all"; empty for whole runs
  size_t mostOfFamily = 0;
};

Status against(BenchFlags &flags, const Terminal &terminal) {
  const BenchRequest &request = flags.request;
  flags.peers.model = request.open.path;
  flags.peers.shapes = request.inputs.shapes;
  flags.peers.seconds = request.budget.seconds;
  flags.peers.threads = request.session.threads;
  flags.peers.format = terminal.json() ? "json" : flags.peers.format;
  return terminal.ownsProcess()
             ? comparePeers(flags.peers)
             : Status::error(ErrorId::BadArgument, "--against cannot run inside another process",
                             "call tenon.compare.run of the Python package");
}

Status bench(BenchFlags &flags, Terminal &terminal) {
  BenchRequest &request = flags.request;
  if (!flags.peers.against.empty()) {
    return against(flags, terminal);
  }
  if (!flags.peers.output.empty() || flags.peers.format != "table" || flags.peers.device != "cpu") {
    return Status::error(ErrorId::BadArgument,
                         "--format, --output and --device are options of --against",
                         "tenon help bench has an example");
  }
  request.session.overlapBranches = !flags.isSerial;
  request.open.useCache = !flags.noCache;
  if (!flags.kernelsOf.empty()) {
    TENON_ASSIGN(KernelReport report,
                 benchKernels({request.open, request.inputs, request.session, flags.kernelsOf,
                               flags.mostOfFamily, request.isCold},
                              terminal));
    terminal.json() ? terminal.printJson("kernels", std::move(report.json))
                    : terminal.print(report.text);
    return Status::ok();
  }
  TENON_ASSIGN(request.session.symbols, sessionSymbols(request.inputs));
  TENON_ASSIGN(Json result, measureBench(request, terminal));
  terminal.json() ? terminal.printJson("bench", std::move(result))
                  : terminal.print(benchText(result));
  return Status::ok();
}

} // namespace

Action declareBench(CLI::App &command) {
  std::shared_ptr<BenchFlags> flags = std::make_shared<BenchFlags>();
  command
      .add_option("MODEL", flags->request.open.path,
                  "An engine, or a model (ONNX, .pt2, .tflite) to compile first")
      ->required();
  command.add_option("--ab", flags->request.other,
                     "A second engine or model, measured alternately");
  command.add_option(
      "--against", flags->peers.against,
      "With Python: also measure some of eager, inductor, max-autotune, onnxruntime, openvino, "
      "tensorrt (separated by commas); MODEL may be model.py:make_model");
  addChoice(command, "--device", flags->peers.device, {"cpu", "cuda"},
            "With --against: the device for all of them");
  addChoice(command, "--format", flags->peers.format, {"table", "json", "svg"},
            "With --against: svg plots when compiling pays off");
  addOutput(command, flags->peers.output, "With --against: output file");
  declareSeededFlags(command, flags->request.inputs);
  declareSessionFlag(command, flags->request.inputs);
  declareFileFlags(command, flags->request.inputs);
  declareThreadsFlag(command, flags->request.session.threads,
                     "Threads; all usable CPUs by default");
  declareOpenFlags(command, flags->request.open);
  addSeconds(command, "--seconds", {kShortestBench, kLongestSeconds}, flags->request.budget.seconds,
             "How long to measure");
  addNumber(
      command, "--runs", {1, kMaxRuns},
      [flags](uint64_t number) { flags->request.budget.runs = static_cast<size_t>(number); },
      "Measure exactly this many runs instead");
  command.add_flag("--cold", flags->request.isCold,
                   "On a GPU: cycle through more tensors than its caches hold");
  command.add_flag("--no-overlap", flags->isSerial,
                   "On a GPU: run branches of the model one after the other");
  command.add_flag("--regions", flags->request.details.regions,
                   "Also measure each instruction; on a GPU by itself");
  command.add_flag(
      "--intervals", flags->request.details.intervals,
      "With --json: 95 % intervals of median, p99 and throughput, and with --ab of their ratios");
  command.add_flag("--probes", flags->request.details.probes,
                   "On a GPU: also measure a copy and a large matmul");
  command.add_option("--kernels", flags->kernelsOf,
                     "Instead of the model, measure the kernels that can compute the region of "
                     "this node (or all), beside the prediction");
  addNumber(
      command, "--per-family", {1, kMaxRuns},
      [flags](uint64_t number) { flags->mostOfFamily = static_cast<size_t>(number); },
      "With --kernels: at most N configurations of each family");
  declareBudgetFlag(command, flags->request.session.measureSeconds);
  declareTargetFlags(command, flags->request.open.target);
  command.add_flag("--no-cache", flags->noCache, "Compile a model without the cache");
  return [flags](Terminal &terminal) { return bench(*flags, terminal); };
}

} // namespace tenon::tool
