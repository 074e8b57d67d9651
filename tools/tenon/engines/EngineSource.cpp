// Implements the way from a path to an open engine.

#include "tools/tenon/engines/EngineSource.h"

#include "support/Environment.h"
#include "support/files/PrivateFolder.h"
#include "support/threads/ThreadPool.h"
#include "tools/tenon/engines/ChildProcess.h"
#include "tools/tenon/inputs/FileKind.h"
#include "tools/tenon/model/CompilerBridge.h"
#include "tools/tenon/target/LocalStore.h"
#include "tools/tenon/target/Target.h"
#include "tools/tenon/task/TaskListener.h"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

namespace tenon::tool {
namespace {

/// Beside the compile cache, which may be linked from there; where there is none that can be
/// written to, among the machine's temporary files.
Result<ScratchFolder> makeFolder(const std::string &cache) {
  if (!cache.empty()) {
    Result<PrivateFolder> parent = PrivateFolder::open(cache);
    Result<ScratchFolder> folder =
        parent ? ScratchFolder::create(cache, "run") : parent.takeStatus();
    if (folder) {
      return folder;
    }
  }
  return ScratchFolder::create("tenon-run");
}

Result<double> compileInChild(const pipeline::CompileOptions &request) {
  auto compile = [&]() -> Json {
    Result<pipeline::CompileSummary> compiled = compileModel(request);
    return compiled ? Json{{"seconds", compiled->compileSeconds}}
                    : describeError(compiled.status());
  };
  Status silence = Status::error(ErrorId::InternalError, "the compiler ended without a result",
                                 "run tenon compile on the model to see where, and report it");
  TENON_ASSIGN(Json report, inChild(compile, silence));
  return report.value("seconds", 0.0);
}

} // namespace

std::string reproducerOf(const std::string &path) { return path + ".reproducer.mlir"; }

Result<EngineSource> EngineSource::prepare(const OpenRequest &request, TaskListener &listener) {
  EngineSource source;
  if (!request.variant.empty()) {
    TENON_ASSIGN(source.variant, parseVariant(request.variant));
  }
  TENON_ASSIGN(bool model, isModel(request.path, Takes::Either));
  source.verifyWeights = request.verifyWeights && !model;
  if (!model) {
    source.enginePath = request.path;
    return source;
  }
  pipeline::CompileOptions compile;
  compile.model = request.path;
  TENON_TRY(applyTarget(request.target, compile, listener.notice()));
  std::string cache = userCacheFolder();
  compile.cacheFolder = request.useCache ? cache : "";
  if (request.useCache) {
    TENON_ASSIGN(compile.tuned, localDatabase("", !compile.gpus.empty(), listener.notice()));
  }
  compile.threads = usableCpus();
  compile.extraOutputs = request.extraOutputs;
  compile.observed = request.observed;
  TENON_ASSIGN(compile.shapes, parseShapeArguments(request.shapes));
  listen(compile, listener);
  TENON_ASSIGN(source.folder, makeFolder(cache));
  source.enginePath = source.folder->path() + "/model.tenon";
  compile.output = source.enginePath;
  compile.reproducer = reproducerOf(std::filesystem::path(request.path).filename().string());
  TENON_ASSIGN(source.seconds, compileInChild(compile));
  listener.clearProgress();
  return source;
}

Result<std::shared_ptr<const runtime::Engine>> EngineSource::open() const {
  runtime::EngineOptions options;
  options.variant = variant;
  options.verifyWeights = verifyWeights;
  return runtime::Engine::open(enginePath, options);
}

} // namespace tenon::tool
