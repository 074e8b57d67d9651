// Rules that act: on drift that lasts, and on a canary that is worse. What is done is logged,
// posted to the webhook, and where a registry is rolled back also recorded there.

#pragma once

#include "server/monitoring/DeliveryQueue.h"
#include "server/monitoring/alerts/Canary.h"
#include "server/monitoring/drift/DriftMonitor.h"
#include "server/traffic/Traffic.h"

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

namespace tenon::server {

/// Windows with drift in a row, until something is done about it.
constexpr uint64_t kWindowsToAct = 3;

class Alerts {
public:
  /// Goes back from `version` of a model in the registry that the models come from, and gives the
  /// version that is served then; TN1006 where the alias is elsewhere by then. Any thread.
  using RegistryRollback = std::function<Result<int64_t>(const std::string &model, int64_t version,
                                                         const std::string &reason)>;

  /// `thread` does what waits for the registry; it is stopped before this goes. What could not be
  /// delivered is told by `onFailure`, in any thread.
  Alerts(boost::asio::any_io_executor executor, const MonitoringOptions &options, Log log,
         TaskThread &thread, DriftMonitor &drift, std::function<void(const Status &)> onFailure);
  /// Before anything else is called. `registryRollback` may be empty: then traffic is rolled back.
  void begin(const ModelCatalog &catalog, TrafficControl &traffic,
             RegistryRollback registryRollback);

  /// A window of the version was compared.
  void evaluateDrift(const MonitoredVersion &version);
  void evaluateCanaries();
  /// Somebody changed the traffic of the model: rules may act again.
  void personActed(const std::string &model);
  /// A version is there: rules may act again, unless it is the one that they went back to.
  void versionLoaded(const std::string &model, int64_t number);
  /// Appends Prometheus' text.
  void appendMetrics(std::string &text) const;
  const DeliveryQueue *deliveries() const { return webhooks.get(); } ///< null: no webhook
  void stop() { webhooks = nullptr; }

private:
  /// Whether requests that name no version may go to this one.
  bool getsTraffic(const std::string &model, const std::string &version) const;
  void act(MonitoringAction action, const std::string &event, const std::string &model,
           const std::string &version, const std::string &reason, std::optional<int64_t> stable);
  void rollBack(const std::string &model, const std::string &version, const std::string &reason,
                std::optional<int64_t> stable);
  void endRollback(const std::string &model, const std::string &version, const std::string &reason,
                   const Result<int64_t> &to);
  void post(const std::string &event, const std::string &model, const std::string &version,
            const std::string &reason);

  boost::asio::any_io_executor executor;
  const MonitoringOptions &options;
  const Log log;
  TaskThread &thread;
  DriftMonitor &drift;
  const ModelCatalog *models = nullptr;
  TrafficControl *traffic = nullptr;
  RegistryRollback registryRollback;
  struct CanaryState {
    std::string canary, stable;
    uint64_t orders = 0;
    RequestCounts canaryBefore, stableBefore;
  };
  std::map<std::string, CanaryState> canaries; ///< by model
  /// Models that a rule rolled back, and to which version of a registry (0: not there yet, or
  /// none); nothing more is done about them until a person acts.
  std::map<std::string, int64_t> acted;
  std::map<std::string, uint64_t> rollbacks; ///< by model, of rules
  std::unique_ptr<DeliveryQueue> webhooks;
};

} // namespace tenon::server
