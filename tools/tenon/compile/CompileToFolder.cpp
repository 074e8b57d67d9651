// Relies on the pipeline for what the files hold; each goes to its place at once.
#include "tools/tenon/compile/CompileToFolder.h"

#include "runtime/tensors/ShapeText.h"
#include "support/files/AtomicFile.h"
#include "support/files/FileError.h"
#include "support/files/OutputPath.h"
#include "tools/tenon/inputs/FileKind.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <span>

namespace tenon::tool {
namespace {

constexpr std::string_view kBoard = "c";

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
      {request.tune != nullptr, "--budget"}};
  for (auto [isGiven, flag] : given) {
    if (isGiven) {
      return Status::error(ErrorId::BadArgument,
                           fmt::format("{} is for engines, and --target c makes none", flag),
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

Status checkLimits(const std::string &model, const BoardRequest &board,
                   const pipeline::CompiledToC &compiled) {
  uint64_t arena = static_cast<uint64_t>(compiled.arenaBytes);
  if (board.ram > 0 && arena > board.ram) {
    return Status::error(
        ErrorId::MemoryBudgetExceeded,
        fmt::format("{}: the arena has {} bytes, {} more than --ram", model, arena,
                    arena - board.ram),
        fmt::format("most is live at {}: make what these read or write smaller, or raise --ram",
                    fmt::join(compiled.peakNodes, ", ")));
  }
  uint64_t constants =
      static_cast<uint64_t>(compiled.folder.weightBytes + compiled.folder.scaleBytes);
  if (board.flash > 0 && constants > board.flash) {
    return Status::error(ErrorId::MemoryBudgetExceeded,
                         fmt::format("{}: the constants have {} bytes, {} more than --flash", model,
                                     constants, constants - board.flash),
                         "make the model narrower, for example with tenon prune before it is "
                         "quantized, or raise --flash");
  }
  return Status::ok();
}

} // namespace

Result<bool> isForBoard(const std::vector<std::string> &targets) {
  std::string all = fmt::format("{}", fmt::join(targets, ","));
  if (all == kBoard) {
    return true;
  }
  if (fmt::format(",{},", all).find(fmt::format(",{},", kBoard)) != std::string::npos) {
    return Status::error(ErrorId::BadArgument,
                         "--target c makes a folder of C, not a part of an engine",
                         "compile once for c and once for the other targets");
  }
  return false;
}

Result<CompiledFolder> compileToFolder(CompileRequest &request, const BoardRequest &board) {
  pipeline::CompileOptions &options = request.options;
  TENON_TRY(checkEngineFlags(request));
  TENON_ASSIGN(options.shapes, parseShapeArguments(request.shapes));
  TENON_TRY(isModel(options.model, Takes::Model).takeStatus());
  TENON_ASSIGN(std::string identifier, nameFor(options.model, board.name));
  CompiledFolder result;
  result.folder = options.output.empty() ? identifier : options.output;
  TENON_TRY(checkOutputFolder(result.folder));
  TENON_ASSIGN(result.compiled,
               pipeline::compileToC(options, identifier, board.rounding != kRoundings.front()));
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
