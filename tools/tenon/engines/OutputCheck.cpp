// Implements the checks. The files that a model names are only looked for where something exists
// that could be one of them.

#include "tools/tenon/engines/OutputCheck.h"

#include "engine/Reader.h"
#include "support/files/OutputPath.h"
#include "tools/tenon/inputs/FileKind.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

namespace tenon::tool {
namespace {

namespace fs = std::filesystem;

bool isSamePlace(const fs::path &a, const fs::path &b) {
  std::error_code ignored;
  return fs::weakly_canonical(a, ignored) == fs::weakly_canonical(b, ignored);
}

} // namespace

Status checkOutput(const std::string &output, const std::string &source,
                   std::vector<std::string> others) {
  if (output.empty()) {
    return Status::ok();
  }
  others.push_back(source);
  std::error_code ignored;
  Result<bool> model = isModel(source, Takes::Either);
  if (model && *model && fs::exists(output, ignored)) {
    std::ranges::move(dataFilesOf(source), std::back_inserter(others));
  }
  return resolveOutput(output, others).takeStatus();
}

Status checkDumpFolder(const std::string &folder, const std::string &model,
                       const std::string &output) {
  if (folder.empty()) {
    return Status::ok();
  }
  TENON_TRY(checkOutputFolder(folder));
  if (!output.empty() && isSamePlace(folder, output)) {
    return Status::error(ErrorId::OutputNotRegular,
                         fmt::format("the output '{}' is the folder of --dump-phases", output),
                         "give a file other than that folder");
  }
  fs::path weights = fs::path(folder) / "weights";
  std::error_code ignored;
  // A dump goes on in its own folder, where it writes the same weights again.
  if (!fs::exists(weights, ignored) || model.ends_with(".mlir")) {
    return Status::ok();
  }
  for (const std::string &file : dataFilesOf(model)) {
    if (isSamePlace(fs::path(file).parent_path(), weights)) {
      return Status::error(
          ErrorId::OutputIsInput,
          fmt::format("a dump to '{}' could overwrite the input '{}'", folder, file),
          "give another folder with --dump-phases");
    }
  }
  return Status::ok();
}

Status checkReplacedEngine(const pipeline::CompileOptions &request) {
  Result<std::unique_ptr<engine::EngineFile>> old = engine::EngineFile::open(request.output);
  if (!old) {
    return Status::ok(); // there is none, or none that could be used
  }
  auto isForGpu = [](const engine::Variant &variant) {
    return variant.architecture == engine::Architecture::Nvptx;
  };
  std::span<const engine::Variant> variants = (*old)->variants();
  bool losesGpu = request.gpus.empty() && std::ranges::any_of(variants, isForGpu);
  bool losesCpu = request.levels.empty() && !std::ranges::all_of(variants, isForGpu);
  if (!losesGpu && !losesCpu) {
    return Status::ok();
  }
  return Status::error(ErrorId::BadArgument,
                       fmt::format("'{}' is an engine for {}, but the new one would not be",
                                   request.output, losesGpu ? "GPUs" : "CPUs"),
                       "compile one for both with --target cpu,cuda, name another file with -o, or "
                       "replace it with --force");
}

} // namespace tenon::tool
