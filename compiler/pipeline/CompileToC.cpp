// Relies on the pipeline up to optimize, and on codegen/edge for the rest.
#include "compiler/pipeline/CompileToC.h"

#include "compiler/codegen/edge/Library.h"
#include "compiler/codegen/edge/Lower.h"
#include "compiler/pipeline/Pipeline.h"
#include "support/text/Text.h"

namespace tenon::pipeline {
namespace {

using codegen::edge::Program;

/// The fastest plan that fits, whole tensors or else rows, or the smallest one. None where the
/// input cannot come by rows.
std::optional<Program> planOnce(Program program, const BoardPlan &plan) {
  if (plan.isChannelsLast) {
    codegen::edge::takeChannelsLast(program);
  }
  codegen::edge::planArena(program);
  bool isWhole = !program.states.empty(); // what lives from run to run
  if (plan.isInputByRows) {
    return isWhole ? std::nullopt : codegen::edge::planRows(program, true);
  }
  bool fits = plan.ram == 0 || static_cast<uint64_t>(program.arenaBytes) <= plan.ram;
  if (isWhole || (fits && !plan.isByRows)) {
    return program;
  }
  std::optional<Program> rows = codegen::edge::planRows(program, false);
  bool isSmaller = rows && rows->arenaBytes < program.arenaBytes;
  return isSmaller ? std::move(rows) : std::optional(std::move(program));
}

std::vector<BoardChoice> choicesBeside(const Program &program, const BoardPlan &plan,
                                       int64_t arenaBytes) {
  std::vector<BoardChoice> choices;
  Program turned = program;
  bool canTurn = !plan.isChannelsLast && codegen::edge::takeChannelsLast(turned);
  for (bool isChannelsLast : {false, true}) {
    for (bool isInputByRows : {false, true}) {
      BoardPlan other = plan;
      other.isByRows = true;
      other.isChannelsLast = plan.isChannelsLast || isChannelsLast;
      other.isInputByRows = plan.isInputByRows || isInputByRows;
      bool isKnown = (isChannelsLast && !canTurn) || (isInputByRows && plan.isInputByRows);
      std::optional<Program> made = isKnown ? std::nullopt : planOnce(program, other);
      int64_t least = choices.empty() ? arenaBytes : choices.back().arenaBytes;
      if (!made || made->arenaBytes >= least) {
        continue;
      }
      std::string flags = isInputByRows ? " --input-rows" : plan.isInputByRows ? "" : " --rows";
      flags = (isChannelsLast ? " --layout nhwc" : "") + flags;
      choices.push_back({flags.substr(1), made->arenaBytes, codegen::edge::rowTableBytes(*made)});
    }
  }
  return choices;
}

Result<Program> planFor(const Program &program, const BoardPlan &plan, CompiledToC &result) {
  std::optional<Program> planned = planOnce(program, plan);
  if (!planned) {
    return Status::error(ErrorId::BadArgument,
                         "--input-rows needs a model with one input that layers read row by row",
                         "leave it out, or give --layout nhwc where the model has channels first");
  }
  bool isLarge = plan.ram > 0 && static_cast<uint64_t>(planned->arenaBytes) > plan.ram;
  if (isLarge || plan.wantsChoices) {
    result.choices = choicesBeside(program, plan, planned->arenaBytes);
  }
  return *std::move(planned);
}

} // namespace

Result<CompiledToC> compileToC(const CompileOptions &options, const std::string &name,
                               const BoardTarget &target, const BoardPlan &plan) {
  if (target.isLibrary && plan.isInputByRows) {
    return Status::error(
        ErrorId::BadArgument, "--input-rows is for C, and --target elf makes a library",
        "compile for c, or leave --input-rows out: --rows makes the arena smaller");
  }
  CompileOptions upToOptimize = options;
  upToOptimize.stopAfter = Phase::Optimize;
  upToOptimize.output.clear();
  codegen::edge::Lowered lowered;
  CompileHooks hooks;
  hooks.afterPass = [&](std::string_view pass, mlir::ModuleOp module, tn::WeightStore &weights) {
    if (pass == nameOf(Phase::Optimize)) {
      lowered = codegen::edge::lower(module, weights, target.roundsTwice);
    }
    return Status::ok();
  };
  TENON_TRY(compile(upToOptimize, hooks).takeStatus());
  CompiledToC result;
  result.gaps = std::move(lowered.gaps);
  if (result.gaps.empty()) {
    bool isForC = lowered.program.roundsTwice || !lowered.program.states.empty();
    if (target.isLibrary && isForC) {
      return Status::error(ErrorId::BadArgument,
                           lowered.program.roundsTwice
                               ? "--rounding tflite is for C, and --target elf makes a library"
                               : "a model with state is for C, and --target elf makes a library",
                           "compile for c, with the board's compiler");
    }
    TENON_ASSIGN(codegen::edge::Program planned, planFor(lowered.program, plan, result));
    TENON_ASSIGN(codegen::edge::Footprint footprint,
                 codegen::edge::makeLibrary(planned, name, *codegen::edge::coreNamed(target.core)));
    if (!target.isLibrary) {
      footprint.archive.clear();
    }
    result.folder = codegen::edge::printFolder(planned, name, footprint);
    result.stackBytes = footprint.stackBytes;
    result.arenaBytes = planned.arenaBytes;
    result.layers = planned.calls.size();
    result.isByRows = !planned.steps.empty();
    result.peakNodes = std::move(planned.peakNodes);
  }
  return result;
}

Status gapReport(const std::string &model, const std::vector<codegen::edge::Gap> &gaps) {
  std::string text = strCat(model, ": --target c has no kernel for ", gaps.size(),
                            gaps.size() == 1 ? " node:" : " nodes:");
  for (const codegen::edge::Gap &gap : gaps) {
    text += strCat("\n  node '", gap.node, "': ", gap.op, " (", gap.dtype, ", rank ", gap.rank,
                   "): ", gap.why, gap.workaround.empty() ? "" : "; ", gap.workaround);
  }
  return Status::error(ErrorId::ModelHasGaps, text, "tenon check --target c prints the same list");
}

} // namespace tenon::pipeline
