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

struct FitRequest {
  std::string variant; ///< empty for the one that a session takes
  unsigned threads = 0;
  uint64_t maxMemory = 0;   ///< as FittingRequest's
  int64_t positions = 0;    ///< of a sequence; 0 for all of the engine
  bool keepsTables = false; ///< as generate::Positions has it
};

/// Of an engine's file, where its variant runs. None for an engine without a language model, or for
/// a GPU that this machine has not.
Result<std::optional<generate::Fit>> fitOfEngine(const engine::EngineFile &file,
                                                 const FitRequest &request);

/// Users of a server, whose memory is asked for.
struct UsersRequest {
  uint64_t users = 0;  ///< 0: nobody asks
  uint64_t tokens = 0; ///< of each; 0 for all positions of the engine
  uint64_t maxMemory = 0;
  std::string draftModel; ///< the engine of a model that guesses; empty for none
};

/// What `tenon serve` takes for them. None as fitOfEngine; TN0105 for more tokens than the engine
/// has positions.
Result<std::optional<generate::ServiceFit>> serviceFitOfEngine(const engine::EngineFile &file,
                                                               const std::string &variant,
                                                               const UsersRequest &request);

struct FittingModel {
  OpenModel opened;
  generate::Fit fit;
};

/// As OpenModel::open. Where the positions that are asked for do not fit, TN0606; where the default
/// does not, a note and what fits: positions of the session over pages, of an engine without.
Result<FittingModel> openFitting(FittingRequest request, TaskListener &listener);

/// "weights 137.8 MiB, cache 46080 bytes a token, ..."
std::string fitText(const generate::Fit &fit);
Json fitJson(const generate::Fit &fit);
/// "32 users of 4096 tokens need 6.1 GiB: ..."
std::string serviceFitText(const generate::ServiceFit &fit);
Json serviceFitJson(const generate::ServiceFit &fit);

} // namespace tenon::tool
