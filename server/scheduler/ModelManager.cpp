// What callers ask of the models: loading, unloading, finding. The states of versions are in
// Loads.cpp, workers in Workers.cpp, requests in Requests.cpp and Runs.cpp.

#include "server/scheduler/ModelManager.h"

#include <boost/asio/post.hpp>
#include <fmt/format.h>

#include <algorithm>

namespace tenon::server {
namespace {

Status noVersion(const std::string &model, const std::string &version) {
  return Status::error(ErrorId::NoSuchModel,
                       fmt::format("model '{}' has no version '{}'", model, version),
                       "v2/repository/index lists models and versions");
}

} // namespace

ModelManager::ModelManager(boost::asio::any_io_executor executor,
                           std::unique_ptr<ModelRepository> repository, ModelManagerOptions options)
    : executor(executor), repository(std::move(repository)), options(std::move(options)),
      deadline(executor) {
  makeSlot(Device(), Device().name(), true);
}

ModelManager::~ModelManager() = default;

Status ModelManager::start() {
  TENON_ASSIGN(std::vector<FoundModel> found, repository->scan());
  if (!slots[0]->start()) {
    return Status::error(ErrorId::ThreadStartFailed, "the worker process cannot be started");
  }
  for (bool isPinned : {true, false}) { // those that are pinned take what they need
    for (FoundModel &model : found) {
      if (model.config.isPinned == isPinned) {
        beginLoads(model, true);
      }
    }
  }
  repository->watch([this](const std::string &name) {
    boost::asio::post(executor, [this, name] {
      load(name, [](Status) {}); // the log and the index have how it ended
    });
  });
  return Status::ok();
}

void ModelManager::load(const std::string &name, std::function<void(Status)> onEnd) {
  Result<FoundModel> found = repository->find(name);
  Status problem = draining ? Status::error(ErrorId::ServerStopping, "the server is stopping")
                   : !found.isOk() ? found.takeStatus()
                                   : found->problem;
  if (!problem.isOk()) {
    Result<std::shared_ptr<Version>> present = find(name, "");
    bool serves = present.isOk() && (*present)->isServing();
    if (found.isOk() && !draining && !serves) {
      beginLoads(std::move(*found), false); // each fails, and says why from then on
    } else {
      if (found.isOk() && models.contains(name)) {
        models[name].problem = problem;
      }
      notifyProblem(name, problem);
    }
    onEnd(problem);
    return;
  }
  std::vector<std::shared_ptr<Version>> begun = beginLoads(std::move(*found), false);
  std::shared_ptr<size_t> pending = std::make_shared<size_t>(begun.size());
  std::shared_ptr<Status> first = std::make_shared<Status>();
  for (const std::shared_ptr<Version> &version : begun) {
    std::function<void()> callback = [this, version, begun, pending, first, onEnd] {
      if (first->isOk() && !version->problem.isOk()) {
        *first = version->problem;
      }
      if (--*pending > 0) {
        return;
      }
      models[version->model].problem = *first;
      // A load that a later one or an unload overtook decides nothing.
      bool isCurrent = std::all_of(begun.begin(), begun.end(), [](const auto &each) {
        return each->state == VersionState::Ready;
      });
      if (first->isOk() && isCurrent) {
        // What the repository does not ask for any more goes; what a later load asked for has a
        // later key.
        std::map<int64_t, std::shared_ptr<Version>> present = models[version->model].versions;
        for (auto &[number, other] : present) {
          if (std::find(begun.begin(), begun.end(), other) == begun.end() &&
              other->key < begun.back()->key) {
            models[version->model].versions.erase(number);
            unloadVersion(other);
          }
        }
      }
      onEnd(*first);
    };
    if (version->state == VersionState::Loading) {
      version->onCompleted.push_back(std::move(callback));
    } else {
      callback(); // it could not even be opened
    }
  }
}

void ModelManager::unload(const std::string &name, std::function<void(Status)> onEnd) {
  std::map<std::string, Model>::iterator found = models.find(name);
  if (found == models.end()) {
    onEnd(noModel(name));
    return;
  }
  found->second.problem = Status::ok();
  // One more than there are, so that the caller is notified once, after the loop.
  std::shared_ptr<size_t> pending = std::make_shared<size_t>(1);
  std::function<void()> callback = [pending, onEnd] {
    if (--*pending == 0) {
      onEnd(Status::ok());
    }
  };
  std::vector<std::shared_ptr<Version>> versions;
  for (auto &[number, version] : found->second.versions) {
    versions.push_back(version);
  }
  // Those that are loaded to take the place of one.
  for (const std::unique_ptr<WorkerSlot> &slot : slots) {
    for (const auto &[key, version] : slot->versions()) {
      if (version->model == name && version->state == VersionState::Loading &&
          std::find(versions.begin(), versions.end(), version) == versions.end()) {
        versions.push_back(version);
      }
    }
  }
  for (std::shared_ptr<Version> &version : versions) {
    unloadVersion(version);
    if (version->state == VersionState::Unloading) {
      ++*pending;
      version->onCompleted.push_back(callback);
    }
  }
  callback();
}

bool ModelManager::isReady() const {
  if (draining ||
      std::any_of(slots.begin(), slots.end(),
                  [](const std::unique_ptr<WorkerSlot> &slot) { return slot->isRestarting(); })) {
    return false;
  }
  return std::all_of(models.begin(), models.end(), [](const auto &model) {
    // A load that failed while another version serves leaves the model as it was.
    bool isProblem = !model.second.problem.isOk();
    for (const auto &[number, version] : model.second.versions) {
      if (!version->isServing() && version->state != VersionState::Unloaded) {
        return false;
      }
      isProblem = isProblem && !version->isServing();
    }
    return !isProblem;
  });
}

std::vector<Device> ModelManager::devices() const {
  std::vector<Device> devices = {Device()};
  for (uint64_t gpu = 0; gpu < options.gpus.size(); ++gpu) {
    devices.push_back(Device{gpu});
  }
  return devices;
}

uint64_t ModelManager::evictions(const Device &device) const {
  std::map<Device, uint64_t>::const_iterator found = evicted.find(device);
  return found == evicted.end() ? 0 : found->second;
}

Result<std::shared_ptr<Version>> ModelManager::find(const std::string &model,
                                                    const std::string &version) const {
  std::map<std::string, Model>::const_iterator found = models.find(model);
  if (found == models.end()) {
    return noModel(model);
  }
  const std::map<int64_t, std::shared_ptr<Version>> &versions = found->second.versions;
  if (version.empty() && versions.empty()) {
    return noVersion(model, version);
  }
  if (version.empty()) {
    for (std::map<int64_t, std::shared_ptr<Version>>::const_reverse_iterator it = versions.rbegin();
         it != versions.rend(); ++it) {
      if (it->second->isServing()) {
        return it->second;
      }
    }
    return versions.rbegin()->second;
  }
  std::map<int64_t, std::shared_ptr<Version>>::const_iterator at =
      versions.find(versionNumber(version).value_or(-1));
  return at == versions.end() ? noVersion(model, version)
                              : Result<std::shared_ptr<Version>>(at->second);
}

Status ModelManager::readiness(const Version &version) const {
  std::string what = fmt::format("model '{}'{}{}", version.model,
                                 version.number.empty() ? "" : " version ", version.number);
  switch (version.state) {
  case VersionState::Ready:
  case VersionState::Cold:
    return Status::ok();
  case VersionState::Failed:
    if (version.problem.id() == ErrorId::ModelQuarantined) {
      return version.problem;
    }
    return Status::error(
        ErrorId::ModelNotReady,
        fmt::format("{} could not be loaded: {}", what, version.problem.toString()),
        "mend the cause, then load the model again");
  case VersionState::Loading:
    return Status::error(ErrorId::ModelNotReady, what + " is being loaded",
                         "try again when v2/models/NAME/ready says so");
  case VersionState::Unloading:
  case VersionState::Unloaded:
    break;
  }
  return Status::error(
      ErrorId::ModelNotReady, what + " was unloaded",
      fmt::format("POST v2/repository/models/{}/load loads it again", version.model));
}

} // namespace tenon::server
