// A version of a model while the server has it: what it is, where it is loaded, and its state,
// which Residency alone changes.
//
//   state      held by                       left by
//   Loading    a worker, or nobody while     its load's end: Ready or Failed; no memory at the
//              files come; the catalog,      start: Cold; files that do not come for a request:
//              unless one there is Ready     Cold; an unload: Unloading
//   Ready      a worker, the catalog         an unload: Unloading; eviction: Cold; its worker
//                                            ended: Loading again
//   Unloading  a worker                      when nothing of it waits or runs: Unloaded
//   Failed     the catalog                   a new load, which takes its place
//   Unloaded   the catalog                   a new load, which takes its place
//   Cold       the catalog                   a request: Loading; an unload: Unloaded; a new load,
//                                            which takes its place
//
// A version whose instance runs is in a worker, which points into it.

#pragma once

#include "server/admission/Deadlines.h"
#include "server/admission/Statistics.h"
#include "server/ipc/ModelInfo.h"
#include "server/repository/ModelRepository.h"
#include "server/residency/EngineFile.h"
#include "server/residency/Scheduler.h"
#include "server/worker_pool/WorkerSlot.h"

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace tenon::server {

/// Cold: taken out of memory, never loaded for lack of it, or not on this machine; a request loads
/// it.
enum class VersionState { Unloaded, Loading, Ready, Unloading, Failed, Cold };

class Version : public std::enable_shared_from_this<Version> {
public:
  /// `order` is of the load that asked for it: the later one stays.
  Version(std::string model, const FoundVersion &found, const ModelConfig &config, uint64_t order)
      : model(std::move(model)), number(found.version), path(found.path), sha256(found.sha256),
        remote(found.remote), labels(found.labels), draftPath(found.draft),
        draftSha256(found.draftSha256), config(config), order(order) {}

  const std::string model, number, path;
  const std::string sha256; ///< that the engine's bytes must have; empty: any
  /// Its files, where they have to be brought before a load.
  const std::vector<RemoteFile> remote;
  const std::vector<std::string> labels;    ///< as FoundVersion has them
  const std::string draftPath, draftSha256; ///< of its draft model; empty: none
  const ModelConfig config;
  const uint64_t order;
  /// Set once, by who makes the version.
  std::unique_ptr<Scheduler> scheduler;
  /// Of the model and the number: those that are loaded after one another share it.
  std::shared_ptr<VersionStatistics> statistics = std::make_shared<VersionStatistics>();
  Clock::time_point lastUse = Clock::now();

  /// What the worker told when it was first loaded; the next workers load the same file, and prove
  /// nothing again.
  ModelPorts ports;
  std::optional<BatchInfo> batch;
  std::optional<LanguageInfo> language;
  bool isKnown() const { return !ports.outputs.empty(); }

  /// "model 'm' version 1"; no version where the model has none, and the number is empty.
  std::string title() const;
  VersionState state() const { return current; }
  /// Of a failed load, or why the files of a cold version did not come.
  const Status &problem() const { return failure; }
  /// Whether its files did not come, and it is too early to try again.
  bool isHeldBack() const {
    return current == VersionState::Cold && !failure.isOk() && Clock::now() < retryAt;
  }
  /// Whether it takes requests.
  bool isServing() const {
    return current == VersionState::Ready || current == VersionState::Cold ||
           (current == VersionState::Loading && isOnDemand);
  }
  /// Also between two workers, when requests wait for the next.
  bool takesRequests() const {
    return (isServing() && !isHeldBack()) || (current == VersionState::Loading && isKnown());
  }
  /// ok, or why it takes no requests: TN0811, TN0821.
  Status readiness() const;
  /// Whether it is whole in a worker's memory.
  bool isLoaded() const {
    return current == VersionState::Ready || current == VersionState::Unloading;
  }
  /// Whether its instances take runs.
  bool takesRuns() const { return isLoaded() && !isLeaving && slot && slot->isRunning(); }

  const std::optional<Device> &device() const { return place; } ///< once that was decided
  WorkerSlot *worker() const { return slot; } ///< that has or loads it; null: none
  const std::vector<std::unique_ptr<Instance>> &instances() const { return places.instances; }
  /// That of its texts, once after each load; not open where it is no language model.
  Descriptor takeTextSocket() { return std::exchange(places.textSocket, Descriptor()); }
  /// Of memory on its device, as far as it is known.
  uint64_t bytes() const { return taken; }
  /// Those of them that no session holds.
  uint64_t sharedBytes() const { return shared; }
  /// What it takes once it is loaded, as far as it is known: else the size of its files.
  uint64_t neededBytes() const { return taken > 0 ? taken : file.size() + draft.size(); }
  /// A run ended, after which the instance's session holds so much memory.
  void setHeldBytes(Instance &instance, uint64_t bytes);

private:
  friend class Residency;

  /// Of what the worker tells; no sum of them overflows.
  static constexpr uint64_t kMaxBytes = uint64_t(1) << 50;
  /// Takes what the worker told of a load.
  void learn(ModelInfo info);
  /// Its sessions and its file go.
  void release();

  VersionState current = VersionState::Unloaded;
  Status failure;
  EngineFile file, draft;
  std::optional<Device> place;
  WorkerSlot *slot = nullptr;
  /// Names the version to workers; another after each load, so that late messages are told apart.
  uint64_t key = 0;
  LoadedPlaces places;
  uint64_t taken = 0, shared = 0;
  bool isOnDemand = false;    ///< it was cold: takes requests while it is loaded
  bool isInitial = false;     ///< its first load, which takes no memory from others
  bool isLeaving = false;     ///< runs nothing more until it is cold
  unsigned failedFetches = 0; ///< since one ended well
  Clock::time_point retryAt;
  bool isSuspect = false; ///< it ran or was loaded when its worker crashed: the next one is its own
  unsigned crashes = 0;   ///< of a worker that did nothing else
  /// Called once when the load that goes on has ended.
  std::vector<std::function<void()>> onCompleted;
};

} // namespace tenon::server
