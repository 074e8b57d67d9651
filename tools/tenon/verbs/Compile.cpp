// `tenon compile`: a model becomes an engine file.

#include "support/Environment.h"
#include "support/threads/ThreadPool.h"
#include "tools/plugin/GraphApi.h"
#include "tools/plugin/Plugin.h"
#include "tools/tenon/Verb.h"
#include "tools/tenon/inputs/FileKind.h"
#include "tools/tenon/inputs/Options.h"
#include "tools/tenon/model/CompilerBridge.h"
#include "tools/tenon/print/Terminal.h"
#include "tools/tenon/target/Ptxas.h"
#include "tools/tenon/target/TargetFlags.h"
#include "tools/tenon/tune/LocalStore.h"
#include "tools/tenon/tune/Tuner.h"
#include "tools/tenon/verbs/EngineSource.h"
#include "tools/tenon/verbs/OutputCheck.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <memory>

namespace tenon::tool {
namespace {

/// Of --max-weights: no layout takes more.
constexpr double kMaxWeights = 1000;

struct CompileFlags {
  pipeline::CompileOptions request;
  std::vector<std::string> shapes;
  std::vector<std::string> optimizeFor;
  TargetFlags target;
  std::vector<std::string> taps;
  std::vector<std::string> plugins;
  std::string stopAfter;
  std::vector<std::string> kernels;
  bool noCache = false;
  bool force = false;
  bool wantsCubin = false;
  std::string ptxas;
  std::string store;
  double budget = 0; ///< seconds; 0 for no tuning
};

/// "model.tenon" for "some/model.onnx".
std::string defaultOutput(const std::string &model) {
  size_t slash = model.rfind('/');
  std::string name = slash == std::string::npos ? model : model.substr(slash + 1);
  return (name.ends_with(".onnx") ? name.substr(0, name.size() - 5) : name) + ".tenon";
}

Json passesJson(const std::vector<pipeline::PassFacts> &passes) {
  Json list = Json::array();
  for (const pipeline::PassFacts &pass : passes) {
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

std::string passText(const pipeline::PassFacts &pass) {
  std::string change =
      pass.edits == 0 ? "nothing changed"
      : !pass.largestChange
          ? "its numbers were not checked"
          : fmt::format("outputs change by at most {:.3g} of their largest element",
                        *pass.largestChange);
  return fmt::format("pass {} ({}): {} nodes before, {} after; {}", pass.name, pass.phase,
                     pass.nodesBefore, pass.nodesAfter, change);
}

Json weightsJson(const std::vector<pipeline::WeightFacts> &weights) {
  Json list = Json::array();
  for (const pipeline::WeightFacts &form : weights) {
    list.push_back({{"form", form.form},
                    {"arrays", form.arrays},
                    {"bytes", form.bytes},
                    {"source_bytes", form.sourceBytes}});
  }
  return list;
}

/// Why an engine is larger than its model; empty if it is about as large.
std::string weightsText(const std::vector<pipeline::WeightFacts> &weights) {
  constexpr double kNotable = 1.25;
  uint64_t bytes = 0, sourceBytes = 0;
  std::string forms;
  for (const pipeline::WeightFacts &form : weights) {
    bytes += form.bytes;
    sourceBytes += form.sourceBytes;
    forms += fmt::format("{} {} {}", forms.empty() ? ":" : ",", formatBytes(form.bytes), form.form);
  }
  double ratio =
      sourceBytes == 0 ? 1 : static_cast<double>(bytes) / static_cast<double>(sourceBytes);
  return ratio < kNotable
             ? ""
             : fmt::format(
                   "weights take {:.1f} times the {} of the model's{}; --max-weights bounds them",
                   ratio, formatBytes(sourceBytes), forms);
}

void report(const pipeline::CompileSummary &result, Terminal &terminal) {
  if (terminal.json()) {
    terminal.printJson("compile", {{"engine", result.engine},
                                   {"compile_s", result.compileSeconds},
                                   {"engine_bytes", result.engineBytes},
                                   {"weights_bytes", result.weightsBytes},
                                   {"weights", weightsJson(result.weights)},
                                   {"regions", result.regions},
                                   {"unique_regions", result.uniqueRegions},
                                   {"arena_bytes", result.arenaBytes},
                                   {"arena_lower_bound_bytes", result.arenaLowerBoundBytes},
                                   {"from_cache", result.fromCache},
                                   {"passes", passesJson(result.passes)}});
    return;
  }
  for (const pipeline::PassFacts &pass : result.passes) {
    terminal.note(passText(pass));
  }
  terminal.note(
      fmt::format("{}: {} in {:.2f} s{}; {} weights, {} regions ({} different), arena {} (at least "
                  "{} are live at once)",
                  result.engine, formatBytes(result.engineBytes), result.compileSeconds,
                  result.fromCache ? " from the cache" : "", formatBytes(result.weightsBytes),
                  result.regions, result.uniqueRegions, formatBytes(result.arenaBytes),
                  formatBytes(result.arenaLowerBoundBytes)));
  if (std::string text = weightsText(result.weights); !text.empty()) {
    terminal.note(text);
  }
}

/// Those of the caller, then those of the plug-ins in their order.
Status collectPasses(const CompileFlags &flags, const Terminal &terminal,
                     std::vector<pipeline::UserPass> &passes) {
  std::ranges::transform(terminal.passes(), std::back_inserter(passes), userPassOf);
  for (const std::string &plugin : flags.plugins) {
    TENON_ASSIGN(std::vector<tenon_pass> own, loadPlugin(plugin));
    std::ranges::transform(own, std::back_inserter(passes), userPassOf);
  }
  return Status::ok();
}

/// Has machine code put beside the PTX; what makes it is added to `programs`.
Status applyCubin(CompileFlags &flags, std::vector<std::string> &programs) {
  if (!flags.wantsCubin && flags.ptxas.empty()) {
    return Status::ok();
  }
  if (flags.request.gpus.empty()) {
    return Status::error(ErrorId::BadArgument, "--cubin is for GPUs, and no target is one",
                         "name a GPU's architecture: --target cuda:sm_90");
  }
  TENON_ASSIGN(Ptxas ptxas, Ptxas::find(flags.ptxas));
  programs.push_back(ptxas.file());
  flags.request.assembler = {ptxas.name(), [ptxas](Bytes ptx, std::string_view arch) {
                               return ptxas.assemble(ptx, arch);
                             }};
  return Status::ok();
}

/// NODE=FAMILY{NAME=NUMBER,...}: a node's name may have an = too.
Status readKernels(const CompileFlags &flags, pipeline::CompileOptions &request) {
  for (const std::string &text : flags.kernels) {
    size_t equals = text.substr(0, text.find('{')).rfind('=');
    if (equals == std::string::npos) {
      return Status::error(ErrorId::BadArgument, fmt::format("--kernel {} names no node", text),
                           "for example --kernel layer1=gemm_skinny{tile=64x48}");
    }
    request.kernels.push_back({text.substr(0, equals), text.substr(equals + 1)});
  }
  return Status::ok();
}

/// Fills the store first. Where nothing can be measured the engine is compiled as it would be
/// without.
Status tuneFirst(const CompileFlags &flags, Terminal &terminal) {
  TuneRequest tune;
  tune.compile = flags.request;
  tune.compile.output.clear();
  tune.compile.stopAfter.reset();
  tune.compile.dumpPhases.clear();
  tune.compile.verify = false;
  tune.seconds = flags.budget;
  TENON_ASSIGN(tune.store, storeFolder(flags.store));
  Result<TuneResult> tuned = tuneModel(tune, terminal);
  if (tuned) {
    terminal.note(tuneText(*tuned));
    return Status::ok();
  }
  bool isAnswer = tuned.status().id() == ErrorId::NothingToTune ||
                  tuned.status().id() == ErrorId::MachineTooBusy;
  if (isAnswer) {
    terminal.note(fmt::format("not tuned: {}", tuned.status().toString()));
  }
  return isAnswer ? Status::ok() : tuned.takeStatus();
}

Status compile(CompileFlags &flags, Terminal &terminal) {
  pipeline::CompileOptions &request = flags.request;
  TENON_TRY(readKernels(flags, request));
  if (!flags.stopAfter.empty()) {
    request.stopAfter = static_cast<pipeline::Phase>(
        std::ranges::find(pipeline::kPhaseNames, flags.stopAfter) - pipeline::kPhaseNames.begin());
  }
  TENON_ASSIGN(request.shapes, parseShapeArguments(flags.shapes));
  TENON_ASSIGN(request.optimizeFor, parseSizesArguments(flags.optimizeFor));
  TENON_TRY(applyTarget(flags.target, request, terminal));
  for (const std::string &tap : flags.taps) {
    request.taps.push_back(tap == "all" ? "*" : tap);
  }
  TENON_TRY(isModel(request.model, Takes::Model).takeStatus());
  std::vector<std::string> programs;
  TENON_TRY(applyCubin(flags, programs));
  if (request.output.empty() && !request.stopAfter) {
    request.output = defaultOutput(request.model);
    TENON_TRY(flags.force ? Status::ok() : checkReplacedEngine(request));
  }
  TENON_TRY(collectPasses(flags, terminal, request.passes));
  TENON_TRY(checkOutput(request.reproducer, request.model, programs));
  if (request.reproducer.empty()) {
    request.reproducer = reproducerOf(request.output.empty() ? request.model : request.output);
  }
  request.passDump = (request.output.empty() ? request.model : request.output) + ".pass";
  TENON_TRY(checkDumpFolder(request.dumpPhases, request.model, request.output));
  TENON_TRY(checkOutput(request.output, request.model, programs));
  request.cacheFolder = flags.noCache ? "" : userCacheFolder();
  listen(request, terminal);
  request.cancel = terminal.cancelFlag();
  if (flags.budget > 0) {
    TENON_TRY(tuneFirst(flags, terminal));
  }
  if (!flags.noCache || !flags.store.empty()) {
    TENON_ASSIGN(request.tuned, localKnowledge(flags.store, terminal));
  }
  TENON_ASSIGN(pipeline::CompileSummary result, compileModel(request));
  if (result.engine.empty() && !request.stopAfter) {
    terminal.note("the region compiles");
  } else if (!request.stopAfter) {
    report(result, terminal);
  } else if (terminal.json()) {
    terminal.printJson(
        "compile", {{"stopped_after", nameOf(*request.stopAfter)}, {"dumps", request.dumpPhases}});
  } else {
    terminal.note(fmt::format("stopped after {}", nameOf(*request.stopAfter)));
  }
  return Status::ok();
}

} // namespace

Action declareCompile(CLI::App &command) {
  std::shared_ptr<CompileFlags> flags = std::make_shared<CompileFlags>();
  pipeline::CompileOptions &request = flags->request;
  request.threads = usableCpus();
  command.add_option("MODEL", request.model, "The model (ONNX, or .pt2 of torch.export)")
      ->required();
  addOutput(command, request.output,
            "Where to write the engine; by default the model's name with .tenon");
  declareTargetFlags(command, flags->target);
  command
      .add_option(
          "--shape", flags->shapes,
          "Dimensions of an input: name:1x128, ranges name:[1..8]x[1..512], ? keeps the model's")
      ->allow_extra_args(false);
  command
      .add_option(
          "--optimize-for", flags->optimizeFor,
          "Sizes at which an engine of free sizes is as fast as one of fixed sizes: 1,8,32 for "
          "the only free one, or name:8x128 (repeat for more; ? stays free)")
      ->allow_extra_args(false);
  command.add_flag(
      "--cubin", flags->wantsCubin,
      "For GPUs: also store machine code made by ptxas, so that loading compiles nothing");
  command.add_option("--ptxas", flags->ptxas,
                     "The ptxas for --cubin; by default the first one found");
  command.add_flag("--guard", request.guard,
                   "Check every load and store of CPU code against its buffers (slow; for finding "
                   "bugs in Tenon)");
  command
      .add_option(
          "--tap", flags->taps,
          "Make this inner value of the model an output too (repeat for more), or all of them")
      ->allow_extra_args(false);
  command
      .add_option("--plugin", flags->plugins,
                  "Load passes of your own from a shared object (repeat for more); docs/passes.md")
      ->allow_extra_args(false);
  command
      .add_option("--kernel", flags->kernels,
                  "Use this kernel for the region of a node: NODE=FAMILY or "
                  "NODE=FAMILY{tile=64x48,stages=6} "
                  "(repeat for more); tenon explain kernels lists the choices")
      ->allow_extra_args(false);
  command
      .add_option("--disable-family", request.disabledFamilies,
                  "Do not use this kernel family (repeat for more)")
      ->allow_extra_args(false);
  addTimes(command, "--max-weights", {1, kMaxWeights}, request.maxWeights,
           "The weights of a device take at most so many times the model's; kernels that want them "
           "larger are not chosen, which may cost time");
  command.add_flag("--verify", request.verify,
                   "Check the numbers against the reference after every pass");
  addChoice(command, "--stop-after", flags->stopAfter,
            {pipeline::kPhaseNames.begin(), pipeline::kPhaseNames.end()},
            "Stop after this phase and write its text, if it has one, to -o");
  command.add_option("--dump-phases", request.dumpPhases,
                     "Write the IR after each phase into this folder");
  command.add_option(
      "--reproducer", request.reproducer,
      "Where to write what reproduces a crash of the compiler; by default beside the output");
  declareThreadsFlag(command, request.threads,
                     "Threads to compile with; by default all usable CPUs");
  command.add_flag("--force", flags->force,
                   "Replace an engine for other targets at the default place");
  addSeconds(command, "--budget", {0, kLongestSeconds}, flags->budget,
             "For CPUs: first race kernels for up to this time (60s, 2m), as tenon tune does");
  declareStoreFlag(command, flags->store);
  command.add_flag("--no-cache", flags->noCache,
                   "Do not use the compile cache, nor the tuning store unless --store names it");
  return [flags](Terminal &terminal) { return compile(*flags, terminal); };
}

} // namespace tenon::tool
