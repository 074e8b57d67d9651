// Monitors what models are asked and answer: drift of inputs and outputs, accuracy by labels that
// come later, canaries, traces; and acts where the options say so. One thread, that of the models;
// comparing with a reference is done by a thread of its own.

#pragma once

#include "server/batching/Observer.h"
#include "server/monitoring/DeliveryQueue.h"
#include "server/monitoring/MonitoringOptions.h"
#include "server/monitoring/TaskThread.h"
#include "server/monitoring/alerts/Canary.h"
#include "server/monitoring/drift/DriftWindow.h"
#include "server/monitoring/drift/Predictions.h"
#include "server/monitoring/tracing/Tracer.h"
#include "server/protocol/Log.h"
#include "server/traffic/Traffic.h"
#include "support/random/Random.h"

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::server {

/// How often windows of unchanged data are called drift.
constexpr double kDriftFalseAlarms = 0.01;
/// Windows with drift in a row, until something is done about it.
constexpr uint64_t kWindowsToAct = 3;

/// A version as it is monitored.
struct MonitoredVersion {
  std::string model, number;
  uint64_t order = 0;                              ///< of the load
  std::string path;                                ///< of the reference; empty: none
  std::shared_ptr<const DriftReference> reference; ///< once it is read
  Status problem;                                  ///< why it cannot be compared with
  std::shared_ptr<DriftWindow> window;             ///< the thread's
  std::optional<DriftReport> last;
  uint64_t windows = 0, drifted = 0, inARow = 0; ///< drifted: of the windows; inARow: the last ones
  uint64_t collected = 0;                        ///< rows in the window that is not full
  std::shared_ptr<SampledAccuracy> accuracy = std::make_shared<SampledAccuracy>();
  std::string action; ///< what was done about it
};

class Monitoring final : public RequestObserver {
public:
  /// Goes back from `version` in the registry that the models come from, and gives the version that
  /// is served then; TN1006 where the alias is elsewhere by then. Any thread.
  using RegistryRollback =
      std::function<Result<int64_t>(int64_t version, const std::string &reason)>;

  Monitoring(boost::asio::any_io_executor executor, const MonitoringOptions &options,
             std::string serverVersion, Log log);
  ~Monitoring() override;
  /// Before anything else is called. `registryRollback` may be empty: then traffic is rolled
  /// back.
  void begin(const ModelCatalog &catalog, TrafficControl &traffic,
             RegistryRollback registryRollback);

  void answered(const Request &request, const InferResult &result) override;
  void replied(const InferResult &result, uint64_t copyOutNanoseconds) override;
  void failed(const Request &request) override;

  /// Monitors what is there now of all models.
  void follow(const std::map<std::string, Model> &all);
  /// Gives the thread what was sampled, unless it still has what it was given.
  void handOver();
  bool isIdle() const { return !isBusy; }
  /// Called ten times a second.
  void tick(Clock::time_point now);
  /// Somebody changed the traffic of the model: rules may act again.
  void personActed(const std::string &model);
  /// At the end, before the executor goes.
  void stop();

  /// The last window beside the reference, and the accuracy, as JSON; TN0810 where the version is
  /// not monitored, TN0840.
  Result<std::string> describe(const std::string &model, const std::string &version) const;
  /// Labels as a client sends them, [{"id": "a", "label": 3}]; TN0806, TN0841 where none is of a
  /// request that is kept.
  Result<std::string> label(const std::string &model, std::string_view text);
  /// Prometheus' text.
  std::string metrics() const;

private:
  /// Sampled rows on their way to the thread.
  struct Batch {
    struct Piece {
      uint64_t rows, offset, bytes;
    };
    std::vector<std::shared_ptr<MonitoredVersion>> targets; ///< one for each request
    std::vector<Piece> pieces;                              ///< one for each port of its reference
    std::vector<std::byte> bytes;
  };
  /// Model and number.
  struct KeyLess {
    using is_transparent = void;
    using View = std::pair<std::string_view, std::string_view>;
    bool operator()(const View &a, const View &b) const { return a < b; }
  };
  using Versions =
      std::map<std::pair<std::string, std::string>, std::shared_ptr<MonitoredVersion>, KeyLess>;

  void readReference(const std::shared_ptr<MonitoredVersion> &version, ModelPorts ports);
  void sample(const std::shared_ptr<MonitoredVersion> &version, const Request &request,
              const InferResult &result);
  static std::vector<DriftReport> addToWindow(const Batch &batch, size_t request, size_t &piece);
  void take(const std::shared_ptr<MonitoredVersion> &version, std::vector<DriftReport> reports,
            uint64_t collected);
  /// Calls `callback` in the thread of the models.
  void notify(std::function<void()> callback);

  // Rules.cpp
  bool getsTraffic(const std::string &model, const std::string &version) const;
  void evaluateDrift(MonitoredVersion &version);
  void evaluateCanaries();
  void act(MonitoringAction action, const std::string &event, const std::string &model,
           const std::string &version, const std::string &reason, std::optional<int64_t> stable);
  void rollBack(const std::string &model, const std::string &version, const std::string &reason,
                std::optional<int64_t> stable);
  void endRollback(const std::string &model, const std::string &version, const std::string &reason,
                   const Result<int64_t> &to);
  void post(const std::string &event, const std::string &model, const std::string &version,
            const std::string &reason);

  boost::asio::any_io_executor executor;
  const MonitoringOptions options;
  Log log;
  const ModelCatalog *models = nullptr;
  TrafficControl *traffic = nullptr;
  RegistryRollback registryRollback;
  Random random{1};
  uint64_t ticks = 0;
  Versions versions;
  Predictions predictions;
  std::map<std::string, std::pair<uint64_t, uint64_t>> labels; ///< by model: known and unknown
  std::shared_ptr<Batch> batch;
  std::shared_ptr<Batch> spare;
  bool isBusy = false; ///< the thread has a batch
  uint64_t droppedRows = 0;
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
  std::unique_ptr<Tracer> tracer;
  std::unique_ptr<TaskThread> thread;
};

} // namespace tenon::server
