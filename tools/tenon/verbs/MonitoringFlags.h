// The options of `tenon serve` about what it monitors.

#pragma once

#include "server/monitoring/MonitoringOptions.h"
#include "support/Result.h"

#include <string>
#include <vector>

namespace CLI {
class App;
} // namespace CLI

namespace tenon::tool {

struct MonitoringFlags {
  std::vector<std::string> references;
  std::string onDrift, onCanary;
  double labelAgeSeconds = 86400;
};

/// Both stay as long as the command.
void declareMonitoringFlags(CLI::App &command, MonitoringFlags &flags,
                            server::MonitoringOptions &options);
/// Fills what declareMonitoringFlags could not; TN0105 for what does not fit together.
Status readMonitoringFlags(const MonitoringFlags &flags, server::MonitoringOptions &options);

} // namespace tenon::tool
