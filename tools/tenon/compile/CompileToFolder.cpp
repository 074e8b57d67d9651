// Relies on the pipeline for what the files hold; each goes to its place at once.
#include "tools/tenon/compile/CompileToFolder.h"

#include "compiler/codegen/edge/Library.h"
#include "runtime/tensors/ShapeText.h"
#include "support/files/AtomicFile.h"
#include "support/files/FileError.h"
#include "support/files/OutputPath.h"
#include "tools/tenon/inputs/FileKind.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <span>

namespace tenon::tool {
namespace {

/// Flags that say something about engines.
Status checkEngineFlags(const CompileRequest &request) {
  const pipeline::CompileOptions &options = request.options;
  std::pair<bool, std::string_view> given[] = {
      {request.target.precision != "keep", "--precision"},
      {!request.target.allow.empty(), "--allow"},
      {!request.target.states.empty(), "--state"},
      {!request.optimizeFor.empty(), "--optimize-for"},
      {!request.session.empty(), "--session"},
      {!request.kernels.empty(), "--kernel"},
      {!request.stopAfter.empty(), "--stop-after"},
      {request.wantsCubin, "--cubin"},
      {options.maxWeights.has_value(), "--max-weights"},
      {options.pages.has_value(), "--pages"},
      {request.cache != "keep", "--cache"},
      {options.invariant, "--invariant"},
      {options.guard, "--guard"},
      {!request.target.deviceProfile.empty(), "--device-profile"},
      {!request.extraOutputs.empty(), "--tap"},
      {!request.plugins.empty(), "--plugin"},
      {!request.ownKernels.libraries.empty(), "--kernel-library"},
      {request.tune != nullptr, "--budget"}};
  for (auto [isGiven, flag] : given) {
    if (isGiven) {
      return Status::error(ErrorId::BadArgument,
                           fmt::format("{} is for engines, and a board has none", flag),
                           "leave it out");
    }
  }
  return Status::ok();
}

Result<std::string> nameFor(const std::string &model, const std::string &name) {
  std::string made = name.empty() ? std::filesystem::path(model).stem().string() : name;
  if (!codegen::edge::isIdentifier(made)) {
    return Status::error(ErrorId::BadArgument,
                         fmt::format("'{}' cannot begin the names of functions in C", made),
                         "give letters, digits and _ with --name, for example --name kws");
  }
  return made;
}

} // namespace

Result<std::optional<pipeline::BoardTarget>> boardTarget(const std::vector<std::string> &targets) {
  std::string all = fmt::format("{}", fmt::join(targets, ","));
  bool isAny = false;
  for (std::string_view rest = all; !rest.empty();) {
    std::string_view one = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(one.size() + 1, rest.size()));
    isAny |= one == "c" || one.starts_with("c:") || one == "elf" || one.starts_with("elf:");
  }
  if (!isAny) {
    return std::optional<pipeline::BoardTarget>();
  }
  if (all.find(',') != std::string::npos) {
    return Status::error(ErrorId::BadArgument,
                         fmt::format("--target {} makes files for a board, not a part of an engine",
                                     all.find("elf") == std::string::npos ? "c" : "elf"),
                         "compile once for the board and once for the other targets");
  }
  pipeline::BoardTarget target;
  target.isLibrary = all.starts_with("elf");
  size_t colon = all.find(':');
  if (colon != std::string::npos) {
    target.core = all.substr(colon + 1);
  }
  bool isMissing = target.isLibrary && colon == std::string::npos;
  if (isMissing || codegen::edge::coreNamed(target.core) == nullptr) {
    return Status::error(
        ErrorId::BadArgument,
        isMissing ? "--target elf names no core"
                  : fmt::format("--target {} names a core that is not known", all),
        fmt::format("give one of {}: --target elf:cortex-m4", codegen::edge::coreNames()));
  }
  return std::optional(target);
}

Result<CompiledFolder> compileToFolder(CompileRequest &request, const BoardRequest &board,
                                       const pipeline::BoardTarget &target) {
  pipeline::CompileOptions &options = request.options;
  TENON_TRY(checkEngineFlags(request));
  TENON_ASSIGN(options.shapes, parseShapeArguments(request.shapes));
  TENON_TRY(isModel(options.model, Takes::Model).takeStatus());
  TENON_ASSIGN(std::string identifier, nameFor(options.model, board.name));
  CompiledFolder result;
  result.folder = options.output.empty() ? identifier : options.output;
  TENON_TRY(checkOutputFolder(result.folder));
  pipeline::BoardTarget rounded = target;
  rounded.roundsTwice = board.rounding != kRoundings.front();
  TENON_ASSIGN(result.compiled, pipeline::compileToC(options, identifier, rounded, planOf(board)));
  if (!result.compiled.gaps.empty()) {
    return pipeline::gapReport(options.model, result.compiled.gaps);
  }
  TENON_TRY(checkLimits(options.model, board, result.compiled));
  std::error_code error;
  std::filesystem::create_directories(result.folder, error);
  if (error) {
    return writeError(error.value(), "create", result.folder);
  }
  for (const codegen::edge::File &file : result.compiled.folder.files) {
    std::string path = (std::filesystem::path(result.folder) / file.name).string();
    TENON_ASSIGN(AtomicFile out, AtomicFile::create(path));
    TENON_TRY(out.append(std::as_bytes(std::span(file.content.data(), file.content.size()))));
    TENON_TRY(out.commit());
  }
  return result;
}

} // namespace tenon::tool
