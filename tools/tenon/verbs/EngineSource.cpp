// Implements the way from a path to an open engine.

#include "tools/tenon/verbs/EngineSource.h"

#include "support/Environment.h"
#include "support/files/PrivateFolder.h"
#include "support/threads/ThreadPool.h"
#include "tools/tenon/model/CompilerBridge.h"
#include "tools/tenon/inputs/FileKind.h"
#include "tools/tenon/target/Target.h"
#include "tools/tenon/print/Terminal.h"

#include <fmt/format.h>

#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <utility>

namespace tenon::tool {
namespace {

/// Beside the compile cache, which may be linked from there; where there is none that can be written
/// to, among the machine's temporary files.
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

/// What the child tells the parent: an error, or the seconds that it took.
Json describe(const Result<pipeline::CompileSummary> &result) {
  if (result) {
    return {{"seconds", result->compileSeconds}};
  }
  return {{"error", static_cast<int>(result.status().id())},
          {"message", result.status().message()},
          {"hint", result.status().hint()}};
}

std::string readAll(int descriptor) {
  std::string text;
  char buffer[4096];
  ssize_t got = 0;
  while ((got = read(descriptor, buffer, sizeof(buffer))) > 0 || (got < 0 && errno == EINTR)) {
    text.append(buffer, got > 0 ? static_cast<size_t>(got) : 0);
  }
  return text;
}

Result<double> readReport(const std::string &text) {
  Json report = Json::parse(text, nullptr, false);
  if (!report.is_object()) {
    return Status::error(ErrorId::InternalError, "the compiler ended without an answer",
                         "run tenon compile on the model to see where, and report it");
  }
  if (report.contains("error")) {
    return Status::error(static_cast<ErrorId>(report.value("error", 0)),
                         report.value("message", ""), report.value("hint", ""));
  }
  return report.value("seconds", 0.0);
}

Result<double> compileInChild(const CompileRequest &request) {
  int ends[2];
  if (pipe(ends) != 0) {
    return Status::error(ErrorId::OutOfMemory, "cannot make a pipe");
  }
  pid_t child = fork();
  if (child < 0) {
    close(ends[0]);
    close(ends[1]);
    return Status::error(ErrorId::OutOfMemory, "cannot start a process for the compilation");
  }
  if (child == 0) {
    close(ends[0]);
    std::string text = dumpJson(describe(compileModel(request)));
    ssize_t written = write(ends[1], text.data(), text.size());
    _exit(written == static_cast<ssize_t>(text.size()) ? 0 : 1);
  }
  close(ends[1]);
  std::string text = readAll(ends[0]);
  close(ends[0]);
  waitpid(child, nullptr, 0);
  return readReport(text);
}

} // namespace

std::string reproducerOf(const std::string &path) { return path + ".reproducer.mlir"; }

Result<EngineSource> EngineSource::prepare(const OpenRequest &request, Terminal &terminal) {
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
  CompileRequest compile;
  compile.model = request.path;
  TENON_TRY(applyTarget(request.target, compile, terminal));
  std::string cache = userCacheFolder();
  compile.cacheFolder = request.useCache ? cache : "";
  compile.threads = usableCpus();
  compile.taps = request.taps;
  compile.observed = request.observed;
  compile.progress = [&](std::string_view phase, double fraction) {
    terminal.progress(phase, fraction);
  };
  TENON_ASSIGN(compile.shapes, parseShapeArguments(request.shapes));
  compile.notice = [&](std::string_view text) { terminal.note(text); };
  TENON_ASSIGN(source.folder, makeFolder(cache));
  source.enginePath = source.folder->path() + "/model.tenon";
  compile.output = source.enginePath;
  compile.reproducer = reproducerOf(std::filesystem::path(request.path).filename().string());
  TENON_ASSIGN(source.seconds, compileInChild(compile));
  terminal.clearProgress();
  return source;
}

Result<std::shared_ptr<const runtime::Engine>> EngineSource::open() const {
  runtime::EngineOptions options;
  options.variant = variant;
  options.verifyWeights = verifyWeights;
  return runtime::Engine::open(enginePath, options);
}

} // namespace tenon::tool
