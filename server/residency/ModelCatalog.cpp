// A model that is loaded anew keeps its place until all of it is ready.

#include "server/residency/ModelCatalog.h"

#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

namespace tenon::server {
namespace {

Status noVersion(const std::string &model, const std::string &version) {
  return Status::error(ErrorId::NoSuchModel,
                       fmt::format("model '{}' has no version '{}'", model, version),
                       "v2/repository/index lists models and versions");
}

constexpr std::chrono::seconds kFirstRetry{1}; // doubled with each further failure
constexpr unsigned kMostDoublings = 6;

ResidencyOptions withProvide(ResidencyOptions options, decltype(options.provide) provide) {
  options.provide = std::move(provide);
  return options;
}

bool isRemote(const FoundModel &model) {
  return std::ranges::any_of(model.versions,
                             [](const FoundVersion &each) { return !each.remote.empty(); });
}

} // namespace

ModelCatalog::ModelCatalog(boost::asio::any_io_executor executor,
                           std::unique_ptr<ModelRepository> repository, ResidencyOptions options,
                           Events events)
    : residency(
          executor,
          withProvide(std::move(options),
                      [this](const std::vector<RemoteFile> &files, ModelRepository::OnFile onEnd) {
                        provide(files, std::move(onEnd));
                      }),
          {[this](const std::shared_ptr<Version> &version) { take(version); },
           [this](const Version &version) { notifyProblem(version.model, version.problem()); }}),
      executor(executor), repository(std::move(repository)), events(std::move(events)) {}

Status ModelCatalog::start() {
  TENON_ASSIGN(std::vector<FoundModel> found, repository->scan());
  TENON_TRY(residency.start());
  for (bool isPinned : {true, false}) { // those that are pinned take what they need
    for (FoundModel &model : found) {
      if (model.config.isPinned == isPinned) {
        beginLoads(model, When::AtStart);
      }
    }
  }
  repository->watch([this](const std::string &name) {
    boost::asio::post(executor, [this, name] { follow(name); });
  });
  return Status::ok();
}

std::vector<std::shared_ptr<Version>> ModelCatalog::beginLoads(FoundModel found, When when) {
  Model &model = models[found.name];
  model.name = found.name;
  model.problem = found.problem;
  model.preferred = found.preferred;
  std::vector<std::shared_ptr<Version>> begun;
  for (const std::string &note : found.config.notes) {
    residency.log(note, LogLevel::Warning);
  }
  if (found.versions.empty()) {
    found.versions.emplace_back(); // what is asked of the model, and counted of it, needs one
  }
  for (const FoundVersion &each : found.versions) {
    std::shared_ptr<Version> version =
        std::make_shared<Version>(found.name, each, found.config, ++lastOrder);
    version->scheduler = events.makeScheduler(*version);
    std::shared_ptr<Version> &present = model.versions[versionNumber(each.version).value_or(0)];
    if (present) {
      version->statistics = present->statistics;
    }
    if (!present || !present->isServing()) {
      present = version; // else it takes its place once it is ready
    }
    begun.push_back(version);
    Status problem = found.problem.isOk() ? each.problem : found.problem;
    bool mayWait = when != When::Now && !found.config.isPinned;
    std::error_code none;
    if (!problem.isOk()) {
      residency.fail(version, problem.prefix(version->title()));
    } else if (mayWait && !each.remote.empty() &&
               (when == When::OnDemand || !std::filesystem::exists(each.path, none))) {
      residency.leaveCold(version);
    } else {
      residency.load(version, mayWait && when == When::AtStart);
    }
  }
  return begun;
}

void ModelCatalog::take(const std::shared_ptr<Version> &version) {
  std::shared_ptr<Version> &present =
      models[version->model].versions[*versionNumber(version->number)];
  if (present && present->order > version->order) {
    residency.unload(version); // a later load is under way
  } else if (present != version) {
    std::shared_ptr<Version> old = std::exchange(present, version);
    residency.unload(old);
  }
}

void ModelCatalog::load(const std::string &name, std::function<void(Status)> onEnd) {
  Result<FoundModel> found = repository->find(name);
  Status problem = draining ? Status::error(ErrorId::ServerStopping, "the server is stopping")
                   : !found.isOk() ? found.takeStatus()
                                   : found->problem;
  if (!problem.isOk()) {
    Result<std::shared_ptr<Version>> present = find(name, "");
    bool serves = present.isOk() && (*present)->isServing();
    if (found.isOk() && !draining && !serves) {
      beginLoads(std::move(*found), When::Now); // each fails, and says why from then on
    } else {
      if (found.isOk() && models.contains(name)) {
        models[name].problem = problem;
      }
      notifyProblem(name, problem);
    }
    onEnd(problem);
    return;
  }
  isRemote(*found) ? loadProvided(*found, std::move(onEnd))
                   : loadFound(std::move(*found), When::Now, std::move(onEnd));
}

void ModelCatalog::provide(const std::vector<RemoteFile> &files, ModelRepository::OnFile onEnd) {
  repository->provide(files, [executor = executor, onEnd = std::move(onEnd)](
                                 Result<std::shared_ptr<Descriptor>> engine) {
    boost::asio::post(executor,
                      [onEnd, engine = std::move(engine)]() mutable { onEnd(std::move(engine)); });
  });
}

void ModelCatalog::loadProvided(const FoundModel &found, std::function<void(Status)> onEnd) {
  std::shared_ptr<size_t> pending = std::make_shared<size_t>(found.versions.size());
  std::shared_ptr<Status> first = std::make_shared<Status>();
  for (const FoundVersion &each : found.versions) {
    provide(each.remote, [this, name = found.name, pending, first,
                          onEnd](Result<std::shared_ptr<Descriptor>> engine) {
      *first = first->isOk() ? engine.takeStatus() : *first;
      if (--*pending > 0) {
        return;
      }
      Result<FoundModel> now = repository->find(name); // another one by now, maybe
      Status problem = !first->isOk() ? *first : now.isOk() ? now->problem : now.takeStatus();
      if (problem.isOk()) {
        retries.erase(name);
        loadFound(std::move(*now), When::Now, onEnd);
        return;
      }
      if (isWarm(name)) {
        problem.prefix(fmt::format(
            "model '{}' cannot be followed; the previous version stays in service", name));
        models[name].problem = problem;
        followLater(name);
      } else if (now.isOk()) {
        beginLoads(std::move(*now), When::OnDemand); // its first request tries again
      }
      residency.log(problem.toString(), LogLevel::Error);
      notifyProblem(name, problem);
      onEnd(problem);
    });
  }
}

bool ModelCatalog::isWarm(const std::string &name) const {
  std::map<std::string, Model>::const_iterator found = models.find(name);
  return !residency.loading(name).empty() ||
         (found != models.end() &&
          std::ranges::any_of(found->second.versions, [](const auto &version) {
            return version.second->state() == VersionState::Ready;
          }));
}

void ModelCatalog::follow(const std::string &name) {
  Result<FoundModel> found = repository->find(name);
  if (found.isOk() && found->problem.isOk() && isRemote(*found) && !isWarm(name) && !draining &&
      !found->config.isPinned) {
    loadFound(std::move(*found), When::OnDemand, [](Status) {});
    return;
  }
  load(name, [](Status) {}); // the log and the index have how it ended
}

void ModelCatalog::followLater(const std::string &name) {
  Retry &retry = retries[name];
  if (retry.isPending) {
    return;
  }
  retry.isPending = true;
  std::shared_ptr<boost::asio::steady_timer> timer = std::make_shared<boost::asio::steady_timer>(
      executor, kFirstRetry * (1U << std::min(retry.failures, kMostDoublings)));
  ++retry.failures;
  timer->async_wait([this, name, timer](const boost::system::error_code &error) {
    if (!error && !draining) {
      retries[name].isPending = false;
      follow(name);
    }
  });
}

void ModelCatalog::loadFound(FoundModel found, When when, std::function<void(Status)> onEnd) {
  std::vector<std::shared_ptr<Version>> begun = beginLoads(std::move(found), when);
  std::shared_ptr<size_t> pending = std::make_shared<size_t>(begun.size());
  std::shared_ptr<Status> first = std::make_shared<Status>();
  for (const std::shared_ptr<Version> &version : begun) {
    residency.whenCompleted(*version, [this, version, begun, pending, first, onEnd] {
      if (first->isOk() && !version->problem().isOk()) {
        *first = version->problem();
      }
      if (--*pending > 0) {
        return;
      }
      Model &model = models[version->model];
      model.problem = *first;
      if (first->isOk()) {
        unloadOthers(model, begun);
      }
      onEnd(*first);
    });
  }
}

void ModelCatalog::unloadOthers(Model &model, const std::vector<std::shared_ptr<Version>> &begun) {
  // A load that a later one or an unload overtook decides nothing.
  if (!std::all_of(begun.begin(), begun.end(), [](const auto &each) {
        return each->state() == VersionState::Ready || each->state() == VersionState::Cold;
      })) {
    return;
  }
  std::map<int64_t, std::shared_ptr<Version>> present = model.versions;
  for (auto &[number, other] : present) {
    // What a later load asked for has a later order.
    if (std::find(begun.begin(), begun.end(), other) == begun.end() &&
        other->order < begun.back()->order) {
      model.versions.erase(number);
      residency.unload(other);
    }
  }
}

void ModelCatalog::unload(const std::string &name, std::function<void(Status)> onEnd) {
  std::map<std::string, Model>::iterator found = models.find(name);
  if (found == models.end()) {
    onEnd(noModel(name));
    return;
  }
  found->second.problem = Status::ok();
  // Those that are loaded to take the place of one, too.
  std::vector<std::shared_ptr<Version>> versions = residency.loading(name);
  for (auto &[number, version] : found->second.versions) {
    if (std::find(versions.begin(), versions.end(), version) == versions.end()) {
      versions.push_back(version);
    }
  }
  // One more than there are, so that the caller is notified once, after the loop.
  std::shared_ptr<size_t> pending = std::make_shared<size_t>(versions.size() + 1);
  std::function<void()> callback = [pending, onEnd] {
    if (--*pending == 0) {
      onEnd(Status::ok());
    }
  };
  for (std::shared_ptr<Version> &version : versions) {
    residency.unload(version);
    residency.whenCompleted(*version, callback);
  }
  callback();
}

bool ModelCatalog::isReady() const {
  const std::vector<std::unique_ptr<WorkerSlot>> &workers = residency.workers().all();
  if (draining || std::any_of(workers.begin(), workers.end(),
                              [](const auto &slot) { return slot->isRestarting(); })) {
    return false;
  }
  return std::all_of(models.begin(), models.end(), [](const auto &model) {
    // A load that failed while another version serves leaves the model as it was.
    bool isProblem = !model.second.problem.isOk();
    for (const auto &[number, version] : model.second.versions) {
      if (!version->isServing() && version->state() != VersionState::Unloaded) {
        return false;
      }
      isProblem = isProblem && !version->isServing();
    }
    return !isProblem;
  });
}

Result<const Model *> ModelCatalog::model(const std::string &name) const {
  std::map<std::string, Model>::const_iterator found = models.find(name);
  return found == models.end() ? noModel(name) : Result<const Model *>(&found->second);
}

Result<std::shared_ptr<Version>> ModelCatalog::find(const std::string &name,
                                                    const std::string &version) const {
  TENON_ASSIGN(const Model *model, this->model(name));
  const std::map<int64_t, std::shared_ptr<Version>> &versions = model->versions;
  if (version.empty() && versions.empty()) {
    return noVersion(name, version);
  }
  if (version.empty()) {
    std::map<int64_t, std::shared_ptr<Version>>::const_iterator preferred =
        versions.find(model->preferred);
    if (preferred != versions.end() && preferred->second->isServing()) {
      return preferred->second;
    }
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
  return at == versions.end() ? noVersion(name, version)
                              : Result<std::shared_ptr<Version>>(at->second);
}

} // namespace tenon::server
