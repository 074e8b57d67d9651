// What --ratio, --latency and --scores of `prune` say.

#pragma once

#include "compiler/prune/Importance.h"
#include "support/Result.h"

#include <string>
#include <vector>

namespace tenon::tool {

/// "30%" or "0.3"; any number, of which the verb says what it would do. Throws
/// CLI::ValidationError.
double parseRatio(const std::string &text);
/// "3ms", "500us", "1s" in ms. Throws CLI::ValidationError.
double parseLatency(const std::string &text);
/// The scores of an npz, all as FP32.
Result<std::vector<prune::ScoreTensor>> readScores(const std::string &path);

} // namespace tenon::tool
