// What is monitored of requests, and what is done about it.

#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>

namespace tenon::server {

/// What is done where data drift, or a canary is worse. Rollback: for drift of outputs,
/// RollbackAny: also for drift of inputs alone.
enum class MonitoringAction : uint8_t { None, Webhook, Rollback, RollbackAny };

struct MonitoringOptions {
  std::map<std::string, std::string>
      references; ///< files by model; before what a model's configuration or a registry names
  uint64_t window = 1000; ///< rows that are compared with the reference together
  double share = 1;       ///< of the requests that are sampled, for drift and for labels
  MonitoringAction onDrift = MonitoringAction::None, onCanary = MonitoringAction::None;
  std::string webhook;      ///< URL that events are posted to; empty: none
  std::string otlp;         ///< URL of a collector of traces; empty: none
  double traceShare = 0.01; ///< of the requests that come without a trace
  std::chrono::milliseconds labelAge{std::chrono::hours(24)};
};

} // namespace tenon::server
