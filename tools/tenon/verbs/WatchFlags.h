// The options of `tenon serve` about what it watches.

#pragma once

#include "server/watch/WatchOptions.h"
#include "support/Result.h"

#include <CLI/CLI.hpp>

#include <string>
#include <vector>

namespace tenon::tool {

struct WatchFlags {
  std::vector<std::string> references;
  std::string onDrift, onCanary;
  double labelAgeSeconds = 86400;
};

/// Both stay as long as the command.
void declareWatchFlags(CLI::App &command, WatchFlags &flags, server::WatchOptions &options);
/// Fills what declareWatchFlags could not; TN0105 for what does not fit together.
Status readWatchFlags(const WatchFlags &flags, server::WatchOptions &options);

} // namespace tenon::tool
