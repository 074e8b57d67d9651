// Implements the running. A pass is foreign code: what it throws or breaks is its own fault, and is
// told as that.
#include "compiler/pipeline/UserPasses.h"

#include "compiler/pipeline/CrashGuard.h"
#include "compiler/pipeline/NumericCheck.h"
#include "compiler/pipeline/PhaseDump.h"
#include "compiler/rewrite/Graph.h"
#include "mlir/IR/Verifier.h"
#include "support/text/Text.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"

#include <chrono>
#include <cmath>

using namespace mlir;

namespace tenon::pipeline {
namespace {

/// The phase whose dump, compiled again, runs the passes of `phase` on it.
Phase phaseBefore(Phase phase) {
  return phase == Phase::Normalize ? Phase::Import : Phase::Normalize;
}

std::string percent(double share) { return llvm::formatv("{0:g}", share).str(); }

} // namespace

Status UserPasses::run(Phase phase, ModuleOp module) {
  for (const UserPass &pass : options.passes) {
    if (pass.phase == phase) {
      TENON_TRY(run(pass, module));
    }
  }
  return Status::ok();
}

Status UserPasses::run(const UserPass &pass, ModuleOp module) {
  OwningOpRef<ModuleOp> before = module.clone();
  Status status = runChecked(pass, *before, module);
  return status ? status : failed(pass, status, *before);
}

Status UserPasses::runChecked(const UserPass &pass, ModuleOp before, ModuleOp module) {
  std::chrono::steady_clock::time_point start = std::chrono::steady_clock::now();
  PassInfo info{.name = pass.name, .phase = std::string(nameOf(pass.phase))};
  rewrite::Graph graph(module, weights, pass.name);
  info.nodesBefore = graph.nodes().size();
  Status status;
  if (std::optional<std::string> crash = crashOf([&] { status = pass.run(graph); })) {
    damaged = true;
    return Status::error(ErrorId::UserPassFailed, *crash);
  }
  info.edits = graph.edits();
  TENON_TRY(std::move(status));
  if (info.edits > 0) {
    TENON_TRY(graph.finish());
    std::string broken;
    ScopedDiagnosticHandler handler(module.getContext(), [&](Diagnostic &diagnostic) {
      broken = broken.empty() ? diagnostic.str() : broken;
      return success();
    });
    if (mlir::failed(verify(module))) {
      return Status::error(ErrorId::UserPassFailed, strCat("it left an invalid graph: ", broken));
    }
    TENON_TRY(checkNumbers(pass, before, module, info));
  }
  info.nodesAfter = graph.nodes().size();
  info.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  done.push_back(std::move(info));
  return Status::ok();
}

Status UserPasses::checkNumbers(const UserPass &pass, ModuleOp before, ModuleOp module,
                                PassInfo &info) {
  if (pass.tolerance < 0) {
    return Status::ok();
  }
  NumericCheck numbers(weights, options.threads);
  TENON_TRY(numbers.start(before));
  TENON_ASSIGN(NumericCheck::Change change, numbers.changeBy(module));
  info.largestChange = change.relative;
  bool holds = pass.tolerance == 0 ? change.isRounding : change.relative <= pass.tolerance;
  if (holds) {
    return Status::ok();
  }
  std::string limit = pass.tolerance == 0 ? "rounding alone" : percent(pass.tolerance);
  return Status::error(ErrorId::UserPassFailed,
                       strCat("output '", change.output, "' changes by ", percent(change.relative),
                              " of its largest element, but the pass allows ", limit, ": ",
                              change.what, "; ", numbers.firstSuspect(module)));
}

Status UserPasses::failed(const UserPass &pass, const Status &why, ModuleOp before) {
  std::string where;
  if (!options.passDump.empty()) {
    std::string folder = strCat(options.passDump, "-", pass.name);
    Status written = PhaseDump(folder).dumpModule(phaseBefore(pass.phase), before, weights);
    where = written ? strCat("; the graph before it is in ", folder)
                    : strCat("; the graph before it could not be written: ", written.message());
  }
  std::string code = why.id() == ErrorId::UserPassFailed ? "" : strCat(nameOf(why.id()), ": ");
  std::string_view hint =
      why.hint().empty() ? "correct the pass, or state its effect in its tolerance" : why.hint();
  return Status::error(
      ErrorId::UserPassFailed,
      strCat("pass '", pass.name, "' (", nameOf(pass.phase), "): ", code, why.message(), where),
      hint);
}

std::string UserPasses::record() const {
  llvm::json::Array passes;
  for (const PassInfo &info : done) {
    llvm::json::Object entry{{"name", info.name},
                             {"phase", info.phase},
                             {"nodes_before", static_cast<int64_t>(info.nodesBefore)},
                             {"nodes_after", static_cast<int64_t>(info.nodesAfter)},
                             {"edits", static_cast<int64_t>(info.edits)}};
    if (info.largestChange) {
      entry["largest_change"] = std::isfinite(*info.largestChange)
                                    ? llvm::json::Value(*info.largestChange)
                                    : llvm::json::Value(nullptr);
    }
    passes.push_back(std::move(entry));
  }
  std::string text;
  llvm::raw_string_ostream(text) << llvm::json::Value(
      llvm::json::Object{{"schema", 1}, {"passes", std::move(passes)}});
  return text;
}

} // namespace tenon::pipeline
