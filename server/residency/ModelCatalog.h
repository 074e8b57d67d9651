// The models of a server by name, with their versions: loaded and unloaded as callers and the
// repository ask, and found for requests.

#pragma once

#include "server/residency/Residency.h"

#include <boost/asio/any_io_executor.hpp>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace tenon::server {

struct Model {
  std::string name;
  Status problem; ///< of the last load, and of the repository or the configuration
  std::map<int64_t, std::shared_ptr<Version>> versions;
  int64_t preferred = 0; ///< as FoundModel has it
};

class ModelCatalog {
public:
  struct Events {
    /// Gives a new version what schedules its requests.
    std::function<std::unique_ptr<Scheduler>(Version &)> makeScheduler;
    /// A load failed; may be empty.
    std::function<void(const std::string &model, const Status &problem)> onProblem;
  };

  ModelCatalog(boost::asio::any_io_executor executor, std::unique_ptr<ModelRepository> repository,
               ResidencyOptions options, Events events);

  /// Starts the worker and the loads of all models of the repository; loads what the repository
  /// reports to have changed from then on.
  Status start();
  /// Loads a model as its repository now has it; `onEnd` is called when all its versions are
  /// loaded, or with why one is not. What is loaded serves until the new is ready.
  void load(const std::string &name, std::function<void(Status)> onEnd);
  /// What the repository counts, as Prometheus reads it.
  std::string repositoryMetrics() const { return repository->metrics(); }
  /// Takes no more requests for the model, and forgets it when those that it has are answered.
  void unload(const std::string &name, std::function<void(Status)> onEnd);
  /// Nothing is loaded any more, and the server is not ready.
  void drain() { draining = true; }
  /// At the end: nothing changes any more. It waits for a look at the repository that is under way.
  void stop() { repository.reset(); }

  /// Whether every model that is to be served is.
  bool isReady() const;
  bool isDraining() const { return draining; }
  const std::map<std::string, Model> &all() const { return models; }
  /// TN0810.
  Result<const Model *> model(const std::string &name) const;
  /// TN0810; an empty version means the preferred one, the newest that is ready, or else the
  /// newest.
  Result<std::shared_ptr<Version>> find(const std::string &model, const std::string &version) const;

  Residency residency;

private:
  /// AtStart: those for which no memory is left stay cold, and those whose files are not on this
  /// machine, unless they are pinned. OnDemand: so do all whose files are brought.
  enum class When { Now, AtStart, OnDemand };
  /// Versions of `found` under way to the worker; each load completes once.
  std::vector<std::shared_ptr<Version>> beginLoads(FoundModel found, When when);
  void loadFound(FoundModel found, When when, std::function<void(Status)> onEnd);
  /// Loads the model once its files are here; what serves goes on until then, and if they do not
  /// come.
  void loadProvided(const FoundModel &found, std::function<void(Status)> onEnd);
  /// ModelRepository::provide, which calls back by the executor's thread.
  void provide(const std::vector<RemoteFile> &files, ModelRepository::OnFile onEnd);
  /// The repository has another model of the name.
  void follow(const std::string &name);
  /// Files of a model that is in memory did not come: asks again after a pause.
  void followLater(const std::string &name);
  /// Whether a version of the model is in memory, or on its way there.
  bool isWarm(const std::string &name) const;
  /// All loads of `begun` ended well: what the repository does not ask for any more goes.
  void unloadOthers(Model &model, const std::vector<std::shared_ptr<Version>> &begun);
  /// The version takes its place, unless a later load is under way.
  void take(const std::shared_ptr<Version> &version);
  void notifyProblem(const std::string &model, const Status &problem) const {
    if (events.onProblem) {
      events.onProblem(model, problem);
    }
  }

  boost::asio::any_io_executor executor;
  std::unique_ptr<ModelRepository> repository;
  const Events events;
  std::map<std::string, Model> models;
  struct Retry {
    unsigned failures = 0; ///< since files of the model came
    bool isPending = false;
  };
  std::map<std::string, Retry> retries; ///< by model
  uint64_t lastOrder = 0;
  bool draining = false;
};

} // namespace tenon::server
