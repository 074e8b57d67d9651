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

/// Where an engine's variant runs, and what that has.
struct Place {
  size_t variant = 0;
  bool isGpu = false;
  uint64_t available = 0;
  generate::Positions positions;
};

Result<std::optional<Place>> placeOf(const engine::EngineFile &file, const std::string &variant,
                                     uint64_t maxMemory) {
  Result<std::string_view> record = file.record("language");
  if (!record || file.variants().empty()) {
    return std::optional<Place>();
  }
  Place place;
  TENON_ASSIGN(place.positions, generate::positionsIn(*record));
  TENON_ASSIGN(place.variant, variantInUse(file, variant));
  place.isGpu = file.variants()[place.variant].architecture == engine::Architecture::Nvptx;
  place.available = maxMemory;
  if (maxMemory == 0) {
    Result<uint64_t> found = place.isGpu ? freeGpuMemory() : Result<uint64_t>(freeMemory());
    if (!found) {
      return std::optional<Place>(); // opening the engine says why
    }
    place.available = *found;
  }
  return std::optional(place);
}

/// Of the record of its tokens, which only a CPU's worker holds.
uint64_t tokenizerBytes(const engine::EngineFile &file, const Place &place) {
  Result<std::string_view> tokenizer = file.record("tokenizer");
  return tokenizer && !place.isGpu ? tokenizer->size() : 0;
}

std::string shrinkText(const generate::Fit &fit, std::string_view what) {
  return fmt::format("{} positions need {}, and {} are free: {} {}", fit.positions,
                     formatBytes(fit.weights + fit.session), formatBytes(fit.available), what,
                     fit.longest);
}

} // namespace

Result<std::optional<generate::Fit>> fitOfEngine(const engine::EngineFile &file,
                                                 const FitRequest &request) {
  TENON_ASSIGN(std::optional<Place> place, placeOf(file, request.variant, request.maxMemory));
  if (!place) {
    return std::optional<generate::Fit>();
  }
  place->positions.keepsTables = request.keepsTables;
  runtime::MemoryForecast forecast(file, place->variant, request.threads);
  TENON_ASSIGN(generate::Fit fit,
               generate::fitOf(forecast, place->positions, request.positions, place->available));
  return std::optional(fit);
}

Result<std::optional<generate::ServiceFit>> serviceFitOfEngine(const engine::EngineFile &file,
                                                               const std::string &variant,
                                                               const UsersRequest &request) {
  std::optional<Place> place;
  if (request.users > 0) {
    TENON_ASSIGN(place, placeOf(file, variant, request.maxMemory));
  }
  if (!place) {
    return std::optional<generate::ServiceFit>();
  }
  TENON_TRY(generate::checkTokens(place->positions, static_cast<int64_t>(request.tokens)));
  runtime::MemoryForecast forecast(file, place->variant, /*threads=*/0);
  generate::ServiceRequest wanted = {.users = static_cast<int64_t>(request.users),
                                     .tokens = static_cast<int64_t>(request.tokens),
                                     .fileBytes = place->isGpu ? 0 : file.fileBytes(),
                                     .tokenizerBytes = tokenizerBytes(file, *place),
                                     .available = place->available};
  std::unique_ptr<engine::EngineFile> draft;
  std::optional<runtime::MemoryForecast> draftForecast;
  std::optional<generate::DraftForecast> guesses;
  if (!request.draftModel.empty()) {
    TENON_ASSIGN(draft, engine::EngineFile::open(request.draftModel));
    TENON_ASSIGN(std::optional<Place> of, placeOf(*draft, variant, request.maxMemory));
    if (!of) {
      return Status::error(ErrorId::NotALanguageModel,
                           fmt::format("{} is not a language model", request.draftModel),
                           "name the engine of a smaller model of the same tokens");
    }
    draftForecast.emplace(*draft, of->variant, /*threads=*/0);
    guesses.emplace(*draftForecast, of->positions, of->isGpu ? 0 : draft->fileBytes(),
                    tokenizerBytes(*draft, *of));
    wanted.draft = &*guesses;
  }
  TENON_ASSIGN(generate::ServiceFit fit,
               generate::serviceFitOf(forecast, place->positions, wanted));
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
      FitRequest ofFile = {request.open.variant, request.threads, request.maxMemory, positions,
                           /*keepsTables=*/!isFile || mayShrink};
      TENON_ASSIGN(fit, fitOfEngine(*file, ofFile));
      bool isPaged = fit && fit->page > 0;
      if (isPaged && mayShrink && !fit->fits() && fit->longest > 0) {
        listener.note(shrinkText(*fit, "taking"));
        ofFile.positions = fit->longest;
        TENON_ASSIGN(fit, fitOfEngine(*file, ofFile));
      } else if (fit && isFile && !fit->fits() && (!isPaged || fit->longest == 0)) {
        ofFile.keepsTables = false;
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

std::string serviceFitText(const generate::ServiceFit &fit) {
  return fmt::format("{} users of {} tokens need {}: weights {}, runs {}, worker {}, keys and "
                     "values {}{}; {} "
                     "users fit into {}",
                     fit.users, fit.tokens, formatBytes(fit.needed()), formatBytes(fit.weights),
                     formatBytes(fit.runs), formatBytes(fit.worker), formatBytes(fit.cache),
                     generate::draftText(fit), fit.maxUsers, formatBytes(fit.available));
}

Json serviceFitJson(const generate::ServiceFit &fit) {
  return {{"users", fit.users},           {"tokens", fit.tokens},
          {"needed_bytes", fit.needed()}, {"weights_bytes", fit.weights},
          {"runs_bytes", fit.runs},       {"worker_bytes", fit.worker},
          {"cache_bytes", fit.cache},     {"draft_bytes", fit.draft},
          {"pages", fit.pages},           {"available_bytes", fit.available},
          {"max_users", fit.maxUsers}};
}

} // namespace tenon::tool
