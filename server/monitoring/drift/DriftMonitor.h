// Samples what versions are asked and answer, and compares it with their references: drift of
// inputs and outputs, accuracy by labels that come later. One thread, that of the models; comparing
// with a reference is done by a thread of its own.

#pragma once

#include "server/batching/Request.h"
#include "server/monitoring/MonitoringOptions.h"
#include "server/monitoring/TaskThread.h"
#include "server/monitoring/drift/DriftWindow.h"
#include "server/monitoring/drift/Predictions.h"
#include "server/protocol/Log.h"
#include "server/residency/ModelCatalog.h"
#include "support/random/Random.h"

#include <boost/asio/any_io_executor.hpp>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::server {

/// How often windows of unchanged data are called drift.
constexpr double kDriftFalseAlarms = 0.01;
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
  uint64_t outputsInARow = 0; ///< of the last windows, those in which an output drifted
  uint64_t collected = 0;     ///< rows in the window that is not full
  std::shared_ptr<SampledAccuracy> accuracy = std::make_shared<SampledAccuracy>();
  std::string action; ///< what was done about it
};

class DriftMonitor {
public:
  struct Events {
    /// A version is monitored that was not.
    std::function<void(const std::string &model, int64_t number)> onVersion;
    /// A window is full, and was compared.
    std::function<void(const MonitoredVersion &)> onWindow;
  };

  /// `thread`, which compares, is stopped before this goes.
  DriftMonitor(boost::asio::any_io_executor executor, const MonitoringOptions &options, Log log,
               TaskThread &thread, Events events);

  /// Monitors what is there now of all models.
  void follow(const std::map<std::string, Model> &all);
  /// The model has run.
  void answered(const Request &request, const InferResult &result);
  /// Gives the thread what was sampled, unless it still has what it was given.
  void handOver();
  bool isIdle() const { return !isBusy; }
  /// What comes from now on counts.
  void restart(const std::string &model);
  /// Remembers what was done about a version, for who asks for its drift.
  void setAction(const std::string &model, const std::string &number, std::string what);

  /// The last window beside the reference, and the accuracy, as JSON; TN0810 where the version is
  /// not monitored, TN0840.
  Result<std::string> describe(const std::string &model, const std::string &number) const;
  /// Labels as a client sends them, [{"id": "a", "label": 3}]; TN0806, TN0841 where none is of a
  /// request that is kept.
  Result<std::string> label(const std::string &model, std::string_view text);
  /// Appends Prometheus' text.
  void appendMetrics(std::string &text) const;

private:
  /// Sampled rows on their way to the thread.
  struct Sample {
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
  static std::vector<DriftReport> addToWindow(const Sample &sample, size_t request, size_t &piece);
  void take(const std::shared_ptr<MonitoredVersion> &version, std::vector<DriftReport> reports,
            uint64_t collected);
  /// Calls `callback` in the thread of the models.
  void notify(std::function<void()> callback);

  boost::asio::any_io_executor executor;
  const MonitoringOptions &options;
  const Log log;
  TaskThread &thread;
  const Events events;
  Random random{1};
  Versions versions;
  Predictions predictions;
  std::map<std::string, std::pair<uint64_t, uint64_t>> labels; ///< by model: known and unknown
  std::shared_ptr<Sample> batch = std::make_shared<Sample>(), spare = std::make_shared<Sample>();
  bool isBusy = false; ///< the thread has a batch
  uint64_t droppedRows = 0;
};

} // namespace tenon::server
