// `tenon compile`: a model becomes an engine file, or a folder of C for boards.

#include "support/LanguageStep.h"
#include "support/threads/ThreadPool.h"
#include "tools/tenon/Verb.h"
#include "tools/tenon/cli/BoardFlags.h"
#include "tools/tenon/cli/KernelFlags.h"
#include "tools/tenon/cli/Options.h"
#include "tools/tenon/cli/SharedFlags.h"
#include "tools/tenon/cli/Terminal.h"
#include "tools/tenon/compile/CompileToFile.h"
#include "tools/tenon/compile/CompileToFolder.h"
#include "tools/tenon/print/ExplainParts.h"
#include "tools/tenon/print/Narrowings.h"
#include "tools/tenon/target/LocalStore.h"
#include "tools/tenon/target/TargetFlags.h"
#include "tools/tenon/tune/Tuner.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <memory>
#include <string>

namespace tenon::tool {
namespace {

std::string passText(const pipeline::PassInfo &pass) {
  std::string change =
      pass.edits == 0 ? "nothing changed"
      : !pass.largestChange
          ? "its numbers were not checked"
          : fmt::format("outputs change by at most {:.3g} of their largest element",
                        *pass.largestChange);
  return fmt::format("pass {} ({}): {} nodes before, {} after; {}", pass.name, pass.phase,
                     pass.nodesBefore, pass.nodesAfter, change);
}

/// Why an engine is larger than its model; empty if it is about as large.
std::string weightsText(const std::vector<pipeline::WeightInfo> &weights) {
  constexpr double kNotable = 1.25;
  uint64_t bytes = 0, sourceBytes = 0;
  std::string forms;
  for (const pipeline::WeightInfo &form : weights) {
    bytes += form.bytes;
    sourceBytes += form.sourceBytes;
    forms += fmt::format("{} {} {}", forms.empty() ? ":" : ",", formatBytes(form.bytes), form.form);
  }
  double ratio =
      sourceBytes == 0 ? 1 : static_cast<double>(bytes) / static_cast<double>(sourceBytes);
  return ratio < kNotable
             ? ""
             : fmt::format(
                   "weights take {:.1f} times the {} of the model's{}; --max-weights limits them",
                   ratio, formatBytes(sourceBytes), forms);
}

std::string float8Text(const pipeline::Float8Summary &float8, const std::string &engine) {
  std::string text = fmt::format("--precision fp8: {} of {} matmuls multiply 8-bit floats",
                                 float8.products, float8.products + float8.others);
  if (float8.fasterInHalf > 0) {
    text += fmt::format("; {} stay in fp16, where they are predicted to take {}, not {}",
                        float8.fasterInHalf, timeText(float8.halfMicroseconds),
                        timeText(float8.float8Microseconds));
  }
  return text + (float8.others == 0
                     ? ""
                     : fmt::format("; tenon explain precision {} says why for each", engine));
}

void report(const pipeline::CompileSummary &result, Terminal &terminal) {
  if (terminal.json()) {
    terminal.printJson("compile", summaryJson(result));
    return;
  }
  for (const pipeline::PassInfo &pass : result.passes) {
    terminal.note(passText(pass));
  }
  terminal.note(
      fmt::format("{}: {} in {:.2f} s{}; {} weights, {} regions ({} different), arena {} (at least "
                  "{} are live at once)",
                  result.engine, formatBytes(result.engineBytes), result.compileSeconds,
                  result.fromCache ? " from the cache" : "", formatBytes(result.weightsBytes),
                  result.regions, result.uniqueRegions, formatBytes(result.arenaBytes),
                  formatBytes(result.arenaLowerBoundBytes)));
  for (const pipeline::Narrowing &narrowing : result.narrowed) {
    terminal.note(narrowingText(narrowing));
  }
  if (std::string text = weightsText(result.weights); !text.empty()) {
    terminal.note(text);
  }
  if (result.float8) {
    terminal.note(float8Text(*result.float8, result.engine));
  }
}

/// Fills the store for CPUs or for GPUs. Where nothing can be measured the engine is compiled as it
/// would be without.
Status tuneOn(pipeline::CompileOptions compile, const CompileRequest &request, double seconds,
              Terminal &terminal) {
  TuneRequest tune;
  tune.compile = std::move(compile);
  tune.compile.output.clear();
  tune.compile.stopAfter.reset();
  tune.compile.dumpPhases.clear();
  tune.compile.verify = false;
  tune.seconds = seconds;
  TENON_ASSIGN(tune.store, storeFolder(request.store));
  Result<TuneResult> tuned = tuneModel(tune, terminal);
  if (tuned) {
    terminal.note(tuneText(*tuned));
    return Status::ok();
  }
  bool isAnswer = tuned.status().id() == ErrorId::NothingToTune ||
                  tuned.status().id() == ErrorId::MachineTooBusy ||
                  (!tune.compile.gpus.empty() && tuned.status().id() == ErrorId::EngineNoVariant);
  if (isAnswer) {
    terminal.note(fmt::format("not tuned: {}", tuned.status().toString()));
  }
  return isAnswer ? Status::ok() : tuned.takeStatus();
}

/// For all kinds of devices that the engine is for, each with as much of the time.
Status tuneFirst(const CompileRequest &request, double seconds, Terminal &terminal) {
  pipeline::CompileOptions onCpu = request.options, onGpu = request.options;
  onCpu.gpus.clear();
  onGpu.levels.clear();
  onGpu.addsLevels = false;
  bool areBoth = !onCpu.levels.empty() && !onGpu.gpus.empty();
  double each = areBoth ? seconds / 2 : seconds;
  TENON_TRY(onCpu.levels.empty() ? Status::ok()
                                 : tuneOn(std::move(onCpu), request, each, terminal));
  return onGpu.gpus.empty() ? Status::ok() : tuneOn(std::move(onGpu), request, each, terminal);
}

/// `--target c` and `--target elf:CORE`.
Status compileForBoard(CompileRequest &request, const BoardRequest &board,
                       const pipeline::BoardTarget &target, Terminal &terminal) {
  TENON_ASSIGN(CompiledFolder made, compileToFolder(request, board, target));
  if (terminal.json()) {
    Json report = parseJson(made.compiled.folder.report);
    report.erase("schema");
    report["folder"] = made.folder;
    terminal.printJson("edge", std::move(report));
    return Status::ok();
  }
  terminal.note(fmt::format(
      "{}: {} layers; {}{}", made.folder, made.compiled.layers, takenText(made.compiled),
      target.isLibrary ? "" : fmt::format("; make -C {} test runs its self-test", made.folder)));
  return Status::ok();
}

Status compile(CompileRequest &request, const BoardRequest &board, double budget,
               Terminal &terminal) {
  pipeline::CompileOptions &options = request.options;
  listen(options, terminal);
  options.cancel = terminal.cancelFlag();
  if (budget > 0) {
    request.tune = [&] { return tuneFirst(request, budget, terminal); };
  }
  TENON_ASSIGN(std::optional<pipeline::BoardTarget> forBoard, boardTarget(request.target.targets));
  if (forBoard) {
    return compileForBoard(request, board, *forBoard, terminal);
  }
  TENON_TRY(checkBoardFlags(board, forBoard.has_value()));
  TENON_ASSIGN(pipeline::CompileSummary result, compileToFile(request));
  if (result.engine.empty() && !options.stopAfter) {
    terminal.note("the region compiles");
  } else if (!options.stopAfter) {
    report(result, terminal);
  } else if (terminal.json()) {
    terminal.printJson(
        "compile", {{"stopped_after", nameOf(*options.stopAfter)}, {"dumps", options.dumpPhases}});
  } else {
    terminal.note(fmt::format("stopped after {}", nameOf(*options.stopAfter)));
  }
  return Status::ok();
}

} // namespace

Action declareCompile(CLI::App &command) {
  std::shared_ptr<CompileRequest> flags = std::make_shared<CompileRequest>();
  std::shared_ptr<double> budget = std::make_shared<double>(0); // seconds; 0 for no tuning
  pipeline::CompileOptions &request = flags->options;
  request.threads = usableCpus();
  command.add_option("MODEL", request.model, "The model (ONNX, .pt2 of torch.export, .tflite)")
      ->required();
  addOutput(command, request.output,
            "Where to write the engine; by default the model's name with .tenon. With --target c "
            "a folder; by default the model's name");
  std::shared_ptr<BoardRequest> board = std::make_shared<BoardRequest>();
  command.add_option("--name", board->name,
                     "For --target c: what names in C begin with; by default the model's name");
  declareBoardFlags(command, *board);
  addChoice(command, "--rounding", board->rounding, kRoundings,
            "For --target c: round each result once, or as TensorFlow Lite Micro does, whose bytes "
            "the results then are");
  declareTargetFlags(command, flags->target);
  CLI::Option *target = command.get_option("--target");
  target->description(target->get_description() +
                      ". Or c: a folder of C99 for boards, of a model in 8 bits, or "
                      "elf:CORE: a static library for elf:cortex-m4 and others; "
                      "docs/guides/edge.md");
  command
      .add_option(
          "--shape", flags->shapes,
          "Dimensions of an input: name:1x128, ranges name:[1..8]x[1..512], ? keeps the model's")
      ->allow_extra_args(false);
  command
      .add_option("--session", flags->session,
                  "Value of a symbol that sizes state, in sessions that are made without one: "
                  "pages=64; by default the largest (repeat for more)")
      ->allow_extra_args(false);
  command
      .add_option(
          "--optimize-for", flags->optimizeFor,
          "Sizes at which an engine of free sizes is as fast as one of fixed sizes: 1,8,32 for "
          "the only free one, or name:8x128 (repeat for more; ? stays free)")
      ->allow_extra_args(false);
  addNumber(
      command, "--pages", {0, kMaxPages}, [flags](uint64_t pages) { flags->options.pages = pages; },
      "For language models: the most pages of 32 positions in which a session keeps keys and "
      "values of its sequences; 0 for a session of one sequence without pages. By default as many "
      "as a session asks for, but without pages for --precision bf16 on CPUs");
  addChoice(command, "--cache", flags->cache, kCaches,
            "Over pages: keep the model's type in pages, or codes of 8 bits with a scale for each "
            "position and head of keys, which take less memory");
  command.add_flag(
      "--invariant", request.invariant,
      "Over pages: a token's logits have the same bits alone, beside others, in "
      "chunks and from shared pages; with --tp 1, 2 or 4 also on each of these numbers of "
      "ranks. tenon explain kernels says what it costs");
  addNumber(
      command, "--tp", {1, engine::kMaxPlanRanks},
      [flags](uint64_t ranks) { flags->options.tensorParallel = ranks; },
      "Ranks that run the model together, each with a part of its matrices: on a CPU, crews of its "
      "threads; tenon explain sharding predicts what GPUs gain");
  addNumber(
      command, "--pp", {1, engine::kMaxPlanRanks},
      [flags](uint64_t stages) { flags->options.pipelineParallel = stages; },
      "Stages, each with a part of the layers and the ranks of --tp: for models whose weights do "
      "not fit otherwise, or for slow links");
  command
      .add_option(
          "--pin", request.pins,
          "With --tp: cut a matrix so: NODE=column, row or replicate; * stands for any text "
          "(repeat for more)")
      ->allow_extra_args(false);
  command.add_flag(
      "--cubin", flags->wantsCubin,
      "For GPUs: also store machine code made by ptxas, so that loading compiles nothing; "
      "language models have it without this flag if a ptxas is found");
  command.add_option("--ptxas", flags->ptxas,
                     "The ptxas for --cubin; by default the first one found");
  command.add_flag("--guard", request.guard,
                   "Check the loads and stores of CPU code against its buffers (slow; for finding "
                   "bugs in Tenon)");
  command
      .add_option(
          "--tap", flags->extraOutputs,
          "Make this inner value of the model an output too (repeat for more), or all of them")
      ->allow_extra_args(false);
  command
      .add_option(
          "--plugin", flags->plugins,
          "Load your own passes from a shared object (repeat for more); docs/guides/passes.md")
      ->allow_extra_args(false);
  declareKernelFlags(command, flags->ownKernels);
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
  addTimes(command, "--max-weights", kMaxWeights, request.maxWeights,
           "Limit of a device's weights, as a multiple of the model's; excludes kernels that store "
           "more, which may cost time");
  declareStrictFlag(command, request.strict);
  command.add_flag("--verify", request.verify,
                   "Check the numbers against the reference after each pass");
  addChoice(command, "--stop-after", flags->stopAfter,
            {pipeline::kPhaseNames.begin(), pipeline::kPhaseNames.end()},
            "Stop after this phase and write its text, if it has one, to -o");
  command.add_option("--dump-phases", request.dumpPhases,
                     "Write the IR after each phase into this folder");
  command.add_option(
      "--reproducer", request.reproducer,
      "Where to write a reproducer if the compiler fails; by default beside the output");
  declareThreadsFlag(command, request.threads,
                     "Threads to compile with; by default all usable CPUs");
  command.add_flag("--force", flags->force,
                   "Replace an engine for other targets at the default path");
  addSeconds(command, "--budget", {0, kLongestSeconds}, *budget,
             "First measure kernels for up to this time (60s, 2m), as tenon tune does");
  declareStoreFlag(command, flags->store);
  command.add_flag("--no-cache", flags->noCache,
                   "Do not use the compile cache, nor the tuning store unless --store names it");
  return [flags, board, budget](Terminal &terminal) {
    return compile(*flags, *board, *budget, terminal);
  };
}

} // namespace tenon::tool
