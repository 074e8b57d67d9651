// The engine's file says what it takes; the machine or the GPU what it has.
#include "tools/tenon/generate/Fitting.h"

#include "engine/Reader.h"
#include "runtime/core/Engine.h"
#include "support/memory/MachineMemory.h"
#include "tools/tenon/inputs/FileKind.h"
#include "tools/tenon/print/FigureSizes.h"
#include "tools/tenon/print/Format.h"
#include "tools/tenon/target/LocalGpu.h"
#include "tools/tenon/target/Target.h"
#include "tools/tenon/task/TaskListener.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>

namespace tenon::tool {
namespace {

/// The variant that a session takes: the one that is asked for, else one for this machine's GPU,
/// else the best for its CPU.
Result<size_t> variantInUse(const engine::EngineFile &file, const std::string &asked) {
  std::string level = variantOfThisMachine(file);
  for (const engine::Variant &variant : file.variants()) {
    bool isGpu = variant.architecture == engine::Architecture::Nvptx;
    level = isGpu && runtime::Engine::checkRuns(file, variant.level).isOk() ? variant.level : level;
  }
  if (!asked.empty()) {
    TENON_ASSIGN(level, parseVariant(asked));
  }
  auto found = std::ranges::find(file.variants(), level, &engine::Variant::level);
  // Where none runs, the first says what it would take.
  return found == file.variants().end() ? 0 : static_cast<size_t>(found - file.variants().begin());
}

std::string shrinkText(const generate::Fit &fit, std::string_view what) {
  return fmt::format("{} positions need {}, and {} are free: {} {}", fit.positions,
                     formatBytes(fit.weights + fit.session), formatBytes(fit.available), what,
                     fit.longest);
}

} // namespace

Result<std::optional<generate::Fit>> fitOfEngine(const engine::EngineFile &file,
                                                 const FitRequest &request) {
  Result<std::string_view> record = file.record("language");
  if (!record || file.variants().empty()) {
    return std::optional<generate::Fit>();
  }
  TENON_ASSIGN(generate::Positions positions, generate::positionsIn(*record));
  TENON_ASSIGN(size_t index, variantInUse(file, request.variant));
  bool isGpu = file.variants()[index].architecture == engine::Architecture::Nvptx;
  uint64_t available = request.maxMemory;
  if (available == 0) {
    Result<uint64_t> ofGpu = isGpu ? freeGpuMemory() : Result<uint64_t>(freeMemory());
    if (!ofGpu) {
      return std::optional<generate::Fit>(); // opening the engine says why
    }
    available = *ofGpu;
  }
  runtime::MemoryForecast forecast(file, index, request.threads);
  TENON_ASSIGN(generate::Fit fit,
               generate::fitOf(forecast, positions, request.positions, available));
  return std::optional(fit);
}

Result<FittingModel> openFitting(FittingRequest request, TaskListener &listener) {
  TENON_ASSIGN(bool isFile, isModel(request.open.path, Takes::Either));
  bool mayShrink = request.context == 0;
  if (isFile && request.context > 0) {
    request.open.shapes = {fmt::format("context:[1..{}]", request.context)};
  }
  int64_t positions = static_cast<int64_t>(request.context);
  for (;;) {
    std::optional<generate::Fit> fit;
    bool isShrunk = false;
    auto check = [&](const std::string &path) -> Status {
      TENON_ASSIGN(std::unique_ptr<engine::EngineFile> file, engine::EngineFile::open(path));
      FitRequest ofFile = {request.open.variant, request.threads, request.maxMemory, positions};
      TENON_ASSIGN(fit, fitOfEngine(*file, ofFile));
      if (fit && fit->page > 0 && mayShrink && !fit->fits() && fit->longest > 0) {
        listener.note(shrinkText(*fit, "taking"));
        ofFile.positions = fit->longest;
        TENON_ASSIGN(fit, fitOfEngine(*file, ofFile));
      }
      isShrunk = fit && !fit->fits() && fit->longest > 0 && mayShrink && isFile;
      return fit ? generate::checkFit(*fit) : Status::ok();
    };
    Result<OpenModel> opened = OpenModel::open(request.open, listener, check);
    if (!opened && isShrunk) {
      listener.note(shrinkText(*fit, "compiling for"));
      request.open.shapes = {fmt::format("context:[1..{}]", fit->longest)};
      mayShrink = false;
      continue;
    }
    if (!opened) {
      return opened.takeStatus();
    }
    return FittingModel{std::move(*opened), fit.value_or(generate::Fit())};
  }
}

std::string fitText(const generate::Fit &fit) {
  std::string_view whole = fit.longest == fit.trained ? ", all that it was trained for" : "";
  return fmt::format("weights {}, cache {} bytes a token; {} for {} positions, {} would fit into "
                     "{}{}",
                     formatBytes(fit.weights), fit.position, formatBytes(fit.session),
                     fit.positions, fit.longest, formatBytes(fit.available), whole);
}

Json fitJson(const generate::Fit &fit) {
  Json facts = {{"weights_bytes", fit.weights},
                {"bytes_per_token", fit.position},
                {"session_bytes", fit.session},
                {"positions", fit.positions},
                {"available_bytes", fit.available},
                {"longest", fit.longest},
                {"trained", fit.trained}};
  if (fit.page > 0) {
    facts["page"] = fit.page;
  }
  return facts;
}

} // namespace tenon::tool
