// Relies on the pipeline up to optimize, and on codegen/edge for the rest.
#include "compiler/pipeline/CompileToC.h"

#include "compiler/codegen/edge/Lower.h"
#include "compiler/pipeline/Pipeline.h"
#include "support/text/Text.h"

namespace tenon::pipeline {

Result<CompiledToC> compileToC(const CompileOptions &options, const std::string &name,
                               bool roundsTwice) {
  CompileOptions upToOptimize = options;
  upToOptimize.stopAfter = Phase::Optimize;
  upToOptimize.output.clear();
  codegen::edge::Lowered lowered;
  CompileHooks hooks;
  hooks.afterPass = [&](std::string_view pass, mlir::ModuleOp module, tn::WeightStore &weights) {
    if (pass == nameOf(Phase::Optimize)) {
      lowered = codegen::edge::lower(module, weights, roundsTwice);
    }
    return Status::ok();
  };
  TENON_TRY(compile(upToOptimize, hooks).takeStatus());
  CompiledToC result;
  result.gaps = std::move(lowered.gaps);
  if (result.gaps.empty()) {
    codegen::edge::planArena(lowered.program);
    result.folder = codegen::edge::printFolder(lowered.program, name);
    result.arenaBytes = lowered.program.arenaBytes;
    result.layers = lowered.program.calls.size();
    result.peakNodes = std::move(lowered.program.peakNodes);
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
