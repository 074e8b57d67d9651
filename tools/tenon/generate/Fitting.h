// A language model that fits into the memory there is: what it will take is known before any of it
// is allocated.
#pragma once

#include "generate/session/Fit.h"
#include "support/json/Json.h"
#include "tools/tenon/generate/OpenModel.h"

#include <optional>
#include <string>

namespace tenon::tool {

struct FittingRequest {
  OpenRequest open;
  uint64_t context = 0; ///< positions that are asked for; 0 for the default
  unsigned threads = 0;
  uint64_t maxMemory = 0; ///< bytes that it may take; 0 for what is free
};

/// Of an engine's file, where its variant runs. None for an engine without a language model, or for
/// a GPU that this machine has not.
Result<std::optional<generate::Fit>> fitOfEngine(const engine::EngineFile &file,
                                                 const std::string &variant, unsigned threads,
                                                 uint64_t maxMemory);

struct FittingModel {
  OpenModel opened;
  generate::Fit fit;
};

/// As OpenModel::open. Where the positions that are asked for do not fit, TN0606; where the default
/// does not, a note and an engine for what fits.
Result<FittingModel> openFitting(FittingRequest request, TaskListener &listener);

/// "weights 137.8 MiB, cache 46080 bytes a token, ..."
std::string fitText(const generate::Fit &fit);
Json fitJson(const generate::Fit &fit);

} // namespace tenon::tool
