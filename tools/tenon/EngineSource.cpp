// Implements the way from a path to an open engine.

#include "tools/tenon/EngineSource.h"

#include "support/Environment.h"
#include "support/ThreadPool.h"
#include "tools/tenon/CompilerBridge.h"
#include "tools/tenon/FileKind.h"
#include "tools/tenon/Target.h"
#include "tools/tenon/Terminal.h"

#include <fmt/format.h>

#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <utility>

namespace tenon::tool {
namespace {

namespace fs = std::filesystem;

Result<std::string> makeTemporaryFolder() {
  std::error_code error;
  fs::path parent = fs::path(cacheFolder()) / "run";
  fs::create_directories(parent, error);
  std::string pattern = (parent / "XXXXXX").string();
  if (error || !mkdtemp(pattern.data())) {
    return Status::error(ErrorId::FileWriteFailed,
                         fmt::format("cannot make a folder in '{}': {}", parent.string(),
                                     error ? error.message() : std::strerror(errno)),
                         "set XDG_CACHE_HOME to a folder that may be written to");
  }
  return pattern;
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

std::string cacheFolder() {
  std::string folder = userCacheFolder();
  return folder.empty() ? "/tmp/tenon" : folder;
}

std::string reproducerOf(const std::string &path) { return path + ".reproducer.mlir"; }

Result<EngineSource> EngineSource::prepare(const OpenRequest &request, Terminal &terminal) {
  EngineSource source;
  if (!request.variant.empty()) {
    TENON_ASSIGN(source.variant, parseVariant(request.variant));
  }
  TENON_ASSIGN(bool model, isModel(request.path, Takes::Either));
  if (!model) {
    source.enginePath = request.path;
    return source;
  }
  CompileRequest compile;
  compile.model = request.path;
  TENON_TRY(applyTarget(request.target, compile));
  compile.cacheFolder = request.useCache ? cacheFolder() : "";
  compile.threads = usableCpus();
  compile.progress = [&](std::string_view phase, double fraction) {
    terminal.progress(phase, fraction);
  };
  TENON_ASSIGN(compile.shapes, parseShapeArguments(request.shapes));
  TENON_ASSIGN(source.temporaryFolder, makeTemporaryFolder());
  source.enginePath = source.temporaryFolder + "/model.tenon";
  compile.output = source.enginePath;
  compile.reproducer = reproducerOf(fs::path(request.path).filename().string());
  TENON_ASSIGN(source.seconds, compileInChild(compile));
  terminal.clearProgress();
  return source;
}

EngineSource::EngineSource(EngineSource &&other) noexcept { *this = std::move(other); }

EngineSource &EngineSource::operator=(EngineSource &&other) noexcept {
  std::swap(enginePath, other.enginePath);
  std::swap(temporaryFolder, other.temporaryFolder);
  std::swap(variant, other.variant);
  std::swap(seconds, other.seconds);
  return *this;
}

EngineSource::~EngineSource() {
  if (!temporaryFolder.empty()) {
    std::error_code ignored;
    fs::remove_all(temporaryFolder, ignored);
  }
}

Result<std::shared_ptr<const runtime::Engine>> EngineSource::open() const {
  runtime::EngineOptions options;
  options.variant = variant;
  return runtime::Engine::open(enginePath, options);
}

} // namespace tenon::tool
