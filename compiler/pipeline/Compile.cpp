// The door of the pipeline: an engine from the cache or from a compilation, and after a fault of
// the compiler a reproducer.
#include "compiler/pipeline/Compilation.h"
#include "compiler/pipeline/CompileCache.h"
#include "compiler/pipeline/PhaseDump.h"
#include "compiler/pipeline/Reports.h"
#include "compiler/pipeline/Reproducer.h"
#include "support/text/Text.h"

#include <chrono>

using namespace mlir;

namespace tenon::pipeline {
namespace {

/// The engine of an unchanged model, if the cache holds it. Asking for checks or dumps means
/// compiling; so does a dumped phase, whose weights are files that are not stamped, and a kernel of
/// the user's for GPUs, of which an engine from a machine without one was not checked.
bool mayReuseEngine(const CompileOptions &options, const CompileHooks &hooks) {
  return !options.verify && !options.strict && !options.stopAfter && options.dumpPhases.empty() &&
         !hooks.afterPhase && !hooks.afterPass && !hooks.afterFormRegions &&
         hooks.extraPasses.empty() && hooks.cpuFamilies == &codegen::cpu::kernelFamilies() &&
         options.passes.empty() && !isPhaseDump(options.model) &&
         (options.kernelLibraries.empty() || options.gpus.empty());
}

/// Leaves what a crash has damaged as it is: destructors rely on what may be broken.
void abandonIfDamaged(std::unique_ptr<Compilation> compilation) {
  if (compilation->isDamaged()) {
    (void)compilation.release();
  }
}

/// The module before the phase that failed, made again; empty if that fails too.
std::string textBefore(Phase failed, const CompileOptions &options, const CompileHooks &hooks,
                       const CompileCache &cache, const ModelIdentity &identity) {
  if (failed == Phase::Import) {
    return "";
  }
  CompileOptions again = options;
  again.stopAfter = static_cast<Phase>(static_cast<int>(std::min(failed, Phase::Codegen)) - 1);
  again.output.clear();
  again.dumpPhases.clear();
  again.verify = false;
  CompileHooks passes;
  passes.extraPasses = hooks.extraPasses;
  passes.cpuFamilies = hooks.cpuFamilies;
  EngineWeights weights;
  std::unique_ptr<Compilation> compilation =
      std::make_unique<Compilation>(again, passes, cache, identity, weights);
  bool isWhole = compilation->run().isOk();
  std::string text = isWhole ? compilation->text() : "";
  abandonIfDamaged(std::move(compilation));
  return text;
}

/// Runs a compilation; a fault of the compiler leaves a reproducer.
Status runAndReport(std::unique_ptr<Compilation> &compilation, const CompileOptions &options,
                    const CompileHooks &hooks, const CompileCache &cache,
                    const ModelIdentity &identity) {
  Status status = compilation->run();
  if (status.code() != Code::Internal) {
    return status;
  }
  std::string text = compilation->failedRegion();
  Phase failed = compilation->lastPhase();
  abandonIfDamaged(std::move(compilation));
  if (options.reproducer.empty()) {
    return status;
  }
  if (text.empty()) {
    text = textBefore(failed, options, hooks, cache, identity);
  }
  return withReproducer(std::move(status), options, text);
}

} // namespace

Result<CompileSummary> compile(const CompileOptions &options, const CompileHooks &hooks) {
  std::chrono::steady_clock::time_point start = std::chrono::steady_clock::now();
  auto seconds = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  TENON_ASSIGN(ModelIdentity identity, identify(options));
  CompileCache cache(options.cacheFolder);
  if (!cache.problem() && options.notice) {
    options.notice(strCat("the compile cache is not used: ", cache.problem().message()));
  }
  if (mayReuseEngine(options, hooks)) {
    std::optional<std::string> note = cache.fetchFile(identity.key, options.output);
    std::optional<CompileSummary> summary = note ? summaryFromNote(*note) : std::nullopt;
    if (summary) {
      summary->engine = options.output;
      summary->fromCache = true;
      summary->compileSeconds = seconds();
      return *summary;
    }
  }
  EngineWeights weights;
  std::unique_ptr<Compilation> compilation =
      std::make_unique<Compilation>(options, hooks, cache, identity, weights);
  TENON_TRY(runAndReport(compilation, options, hooks, cache, identity));
  if (mayReuseEngine(options, hooks)) {
    cache.storeFile(identity.key, options.output, identity.data, noteOf(compilation->summary));
  }
  cache.trim();
  compilation->summary.compileSeconds = seconds();
  return compilation->summary;
}

} // namespace tenon::pipeline
