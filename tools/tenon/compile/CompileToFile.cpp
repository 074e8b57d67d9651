// Relies on the pipeline for the engine itself; what is written goes to its place at once.
#include "tools/tenon/compile/CompileToFile.h"

#include "runtime/tensors/ShapeText.h"
#include "support/Environment.h"
#include "support/threads/ThreadPool.h"
#include "tools/plugin/GraphApi.h"
#include "tools/plugin/Plugin.h"
#include "tools/tenon/engines/EngineSource.h"
#include "tools/tenon/engines/OutputCheck.h"
#include "tools/tenon/inputs/FileKind.h"
#include "tools/tenon/model/CompilerBridge.h"
#include "tools/tenon/print/Narrowings.h"
#include "tools/tenon/quant/QuantizeLanguage.h"
#include "tools/tenon/target/LocalStore.h"
#include "tools/tenon/target/Ptxas.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

namespace tenon::tool {
namespace {

Status refusedOption(const std::string &problem) {
  return Status::error(ErrorId::BadArgument, problem, "tenon compile --help shows the usage");
}

Status checkChoices(const char *name, const std::vector<std::string> &values,
                    const std::vector<std::string> &choices) {
  for (const std::string &value : values) {
    std::string problem = choiceProblem(value, choices);
    if (!problem.empty()) {
      return refusedOption(fmt::format("{}: {}", name, problem));
    }
  }
  return Status::ok();
}

/// Of callers that have no command line, whose parser says the same.
Status checkValues(const CompileRequest &request) {
  TENON_TRY(checkChoices("--precision", {request.target.precision}, kPrecisions));
  TENON_TRY(checkChoices("--allow", request.target.allow, kAllowances));
  const std::optional<double> &weights = request.options.maxWeights;
  if (weights && !(*weights >= kMaxWeights.low && *weights <= kMaxWeights.high)) {
    return refusedOption(fmt::format("--max-weights {:f}: give a number from {} to {}, as 1.5x",
                                     *weights, kMaxWeights.low, kMaxWeights.high));
  }
  unsigned threads = request.options.threads;
  if (threads > kThreads.high && threads != usableCpus()) {
    return refusedOption(fmt::format("--threads {}: give a whole number from {} to {}", threads,
                                     kThreads.low, kThreads.high));
  }
  return Status::ok();
}

/// "model.tenon" for "some/model.onnx".
std::string defaultOutput(const std::string &model) {
  size_t slash = model.rfind('/');
  std::string name = slash == std::string::npos ? model : model.substr(slash + 1);
  return (name.ends_with(".onnx") ? name.substr(0, name.size() - 5) : name) + ".tenon";
}

/// Those of the caller, then those of the plug-ins in their order.
Status collectPasses(CompileRequest &request) {
  std::vector<pipeline::UserPass> &passes = request.options.passes;
  std::ranges::transform(request.passes, std::back_inserter(passes), userPassOf);
  for (const std::string &plugin : request.plugins) {
    TENON_ASSIGN(std::vector<tenon_pass> own, loadPlugin(plugin));
    std::ranges::transform(own, std::back_inserter(passes), userPassOf);
  }
  return Status::ok();
}

bool asksForCubin(const CompileRequest &request) {
  return request.wantsCubin || !request.ptxas.empty();
}

/// Has machine code put beside the PTX; what makes it is added to `programs`.
Status applyCubin(CompileRequest &request, std::vector<std::string> &programs) {
  bool isForGpu = !request.options.gpus.empty();
  // The driver compiles those for seconds, and a server's worker cannot keep what it made.
  bool isUsual = isForGpu && isLanguageModel(request.options.model);
  if (!asksForCubin(request) && !isUsual) {
    return Status::ok();
  }
  if (!isForGpu) {
    return Status::error(ErrorId::BadArgument, "--cubin is for GPUs, but no target is a GPU",
                         "name a GPU architecture: --target cuda:sm_90");
  }
  Result<Ptxas> ptxas = Ptxas::find(request.ptxas);
  if (!ptxas.isOk()) {
    return asksForCubin(request) ? ptxas.takeStatus() : Status::ok();
  }
  programs.push_back(ptxas->file());
  request.options.assembler = assemblerOf(std::move(*ptxas));
  return Status::ok();
}

/// A ptxas that nobody asked for, and that is too old, leaves the PTX to the driver.
Result<pipeline::CompileSummary> compileWithCubin(CompileRequest &request) {
  Result<pipeline::CompileSummary> made = compileModel(request.options);
  bool isRejected = !made.isOk() && made.status().id() == ErrorId::LibraryUnsupported;
  if (!isRejected || asksForCubin(request)) {
    return made;
  }
  request.options.assembler.reset();
  return compileModel(request.options);
}

/// NODE=FAMILY{NAME=NUMBER,...}: a node's name may have an = too.
Status readKernels(CompileRequest &request) {
  for (const std::string &text : request.kernels) {
    size_t equals = text.substr(0, text.find('{')).rfind('=');
    if (equals == std::string::npos) {
      return Status::error(ErrorId::BadArgument,
                           fmt::format("--kernel {} does not name a node", text),
                           "for example --kernel layer1=gemm_skinny{tile=64x48}");
    }
    request.options.kernels.push_back({text.substr(0, equals), text.substr(equals + 1)});
  }
  return Status::ok();
}

Json passesJson(const std::vector<pipeline::PassInfo> &passes) {
  Json list = Json::array();
  for (const pipeline::PassInfo &pass : passes) {
    bool isFinite = pass.largestChange && std::isfinite(*pass.largestChange);
    list.push_back({{"name", pass.name},
                    {"phase", pass.phase},
                    {"nodes_before", pass.nodesBefore},
                    {"nodes_after", pass.nodesAfter},
                    {"edits", pass.edits},
                    {"seconds", pass.seconds},
                    {"largest_change", isFinite ? Json(*pass.largestChange) : Json()}});
  }
  return list;
}

Json weightsJson(const std::vector<pipeline::WeightInfo> &weights) {
  Json list = Json::array();
  for (const pipeline::WeightInfo &form : weights) {
    list.push_back({{"form", form.form},
                    {"arrays", form.arrays},
                    {"bytes", form.bytes},
                    {"source_bytes", form.sourceBytes}});
  }
  return list;
}

Json float8Json(const std::optional<pipeline::Float8Summary> &float8) {
  if (!float8) {
    return Json();
  }
  return {{"products", float8->products},
          {"others", float8->others},
          {"faster_in_fp16", float8->fasterInHalf},
          {"fp16_us", float8->halfMicroseconds},
          {"float8_us", float8->float8Microseconds}};
}

} // namespace

Result<pipeline::CompileSummary> compileToFile(CompileRequest &request) {
  pipeline::CompileOptions &options = request.options;
  TENON_TRY(checkValues(request));
  TENON_TRY(readKernels(request));
  if (!request.stopAfter.empty()) {
    options.stopAfter =
        static_cast<pipeline::Phase>(std::ranges::find(pipeline::kPhaseNames, request.stopAfter) -
                                     pipeline::kPhaseNames.begin());
  }
  if (request.cache != "keep") {
    options.cache = request.cache == "int8" ? DType::I8 : DType::F8E4M3FN;
  }
  TENON_ASSIGN(options.shapes, parseShapeArguments(request.shapes));
  for (const std::string &text : request.session) {
    TENON_ASSIGN(SessionArgument preset, parseSessionArgument(text));
    options.presets.push_back({std::move(preset.symbol), preset.value});
  }
  TENON_ASSIGN(options.optimizeFor, parseSizesArguments(request.optimizeFor));
  TENON_TRY(applyTarget(request.target, options, options.notice));
  for (const std::string &name : request.extraOutputs) {
    options.extraOutputs.push_back(name == "all" ? "*" : name);
  }
  TENON_TRY(isModel(options.model, Takes::Model).takeStatus());
  std::vector<std::string> programs;
  TENON_TRY(applyCubin(request, programs));
  if (options.output.empty() && !options.stopAfter) {
    options.output = defaultOutput(options.model);
    TENON_TRY(request.force ? Status::ok() : checkReplacedEngine(options));
  }
  TENON_TRY(collectPasses(request));
  TENON_TRY(applyKernels(request.ownKernels, options));
  TENON_TRY(checkOutput(options.reproducer, options.model, programs));
  const std::string &made = options.output.empty() ? options.model : options.output;
  if (options.reproducer.empty()) {
    options.reproducer = reproducerOf(made);
  }
  options.passDump = made + ".pass";
  TENON_TRY(checkDumpFolder(options.dumpPhases, options.model, options.output));
  TENON_TRY(checkOutput(options.output, options.model, programs));
  options.cacheFolder = request.noCache ? "" : userCacheFolder();
  if (request.tune) {
    TENON_TRY(request.tune());
  }
  if (!request.noCache || !request.store.empty()) {
    TENON_ASSIGN(options.tuned,
                 localDatabase(request.store, !options.gpus.empty(), options.notice));
  }
  return compileWithCubin(request);
}

Json summaryJson(const pipeline::CompileSummary &summary) {
  return {{"engine", summary.engine},
          {"compile_s", summary.compileSeconds},
          {"engine_bytes", summary.engineBytes},
          {"weights_bytes", summary.weightsBytes},
          {"weights", weightsJson(summary.weights)},
          {"regions", summary.regions},
          {"unique_regions", summary.uniqueRegions},
          {"arena_bytes", summary.arenaBytes},
          {"arena_lower_bound_bytes", summary.arenaLowerBoundBytes},
          {"from_cache", summary.fromCache},
          {"narrowed", narrowedJson(summary.narrowed)},
          {"passes", passesJson(summary.passes)},
          {"float8", float8Json(summary.float8)}};
}

} // namespace tenon::tool
