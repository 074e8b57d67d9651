// Monitors what models are asked and answer: drift and accuracy, canaries, traces; and acts where
// the options say so. One thread, that of the models.

#pragma once

#include "server/batching/Observer.h"
#include "server/monitoring/alerts/Alerts.h"
#include "server/monitoring/tracing/Tracer.h"

#include <memory>
#include <string>

namespace tenon::server {

class Monitoring final : public RequestObserver {
public:
  Monitoring(boost::asio::any_io_executor executor, const MonitoringOptions &options,
             std::string serverVersion, Log log);
  ~Monitoring() override;

  void answered(const Request &request, const InferResult &result) override;
  void replied(const InferResult &result, uint64_t copyOutNanoseconds) override;
  void failed(const Request &request) override;
  /// A request to a language model has ended.
  void continued(const TextRecord &record);

  /// Called ten times a second, once the alerts have begun.
  void tick(Clock::time_point now, const ModelCatalog &catalog);
  /// At the end, before the executor goes.
  void stop();
  /// Prometheus' text.
  std::string metrics() const;

private:
  const MonitoringOptions options;
  std::function<void(const Status &)> onFailure; ///< of a delivery
  TaskThread thread;
  std::unique_ptr<Tracer> tracer;
  uint64_t ticks = 0;

public:
  DriftMonitor drift;
  Alerts alerts;
};

} // namespace tenon::server
