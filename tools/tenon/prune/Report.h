// What `prune` says of its work: as text, as JSON, and as a recipe for the module.

#pragma once

#include "compiler/prune/Prune.h"
#include "support/json/Json.h"
#include "tools/tenon/prune/Timing.h"

#include <optional>
#include <string>

namespace tenon::tool {

struct PruneOutcome {
  prune::PruneInfo info;
  std::string model, output, importance;
  double ratio = 0;
  uint64_t bytesBefore = 0, bytesAfter = 0;
  std::optional<Timing> timing;
};

Json pruneJson(const PruneOutcome &outcome);
std::string pruneText(const PruneOutcome &outcome);
/// What tenon.prune.apply carries out on the module that the model was exported from.
Json recipeOf(const PruneOutcome &outcome);

} // namespace tenon::tool
