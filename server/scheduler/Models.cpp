// Loading, unloading and the life of the worker; requests are in Requests.cpp. One file, since each of the three changes the states of the others.

#include "server/scheduler/Models.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <csignal>

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/wait.h>

namespace tenon::server {
namespace {

/// A worker that ends at once is started this often at most.
constexpr std::chrono::milliseconds kRestartPeriod{200};
constexpr unsigned kMostCrashes = 2;

/// Whether a process ended by a fault of its own, not by somebody who killed it.
bool isCrash(int how) {
  if (WIFSIGNALED(how)) {
    int signal = WTERMSIG(how);
    return signal != SIGKILL && signal != SIGTERM && signal != SIGINT && signal != SIGHUP;
  }
  return WIFEXITED(how) && WEXITSTATUS(how) != 0;
}

std::string describeEnd(int how) {
  return WIFSIGNALED(how) ? fmt::format("was ended by signal {}", WTERMSIG(how)) : fmt::format("exited with {}", WEXITSTATUS(how));
}

Status noVersion(const std::string &model, const std::string &version) {
  return Status::error(ErrorId::NoSuchModel, fmt::format("model '{}' has no version '{}'", model, version), "v2/repository/index lists models and versions");
}

int64_t numberOf(const std::string &version) {
  int64_t number = -1;
  std::from_chars_result result = std::from_chars(version.data(), version.data() + version.size(), number);
  return result.ec == std::errc() && result.ptr == version.data() + version.size() ? number : -1;
}

Result<std::unique_ptr<Instance>> makeInstance(ControlMessage &load) {
  std::unique_ptr<Instance> instance = std::make_unique<Instance>();
  TENON_ASSIGN(instance->memory, SharedMemory::create(kMailboxBytes));
  instance->wake = Descriptor(eventfd(0, EFD_CLOEXEC));
  load.descriptors.emplace_back(dup(instance->memory->descriptor()));
  load.descriptors.emplace_back(dup(instance->wake.get()));
  if (!instance->wake.isOpen() || !load.descriptors.back().isOpen()) {
    return Status::error(ErrorId::TooManyFiles, "no descriptors for an instance of a model", "raise the limit with `ulimit -n`");
  }
  return instance;
}

} // namespace

Models::Models(boost::asio::any_io_executor executor, ModelFolder folder, ModelsOptions options)
    : executor(executor), folder(std::move(folder)), options(std::move(options)), restart(executor), deadline(executor) {}

Models::~Models() = default;

Status Models::start() {
  TENON_ASSIGN(std::vector<FoundModel> found, folder.scan());
  startWorker();
  if (!worker) {
    return Status::error(ErrorId::ThreadStartFailed, "the worker process cannot be started");
  }
  for (FoundModel &model : found) {
    beginLoads(std::move(model));
  }
  return Status::ok();
}

void Models::startWorker() {
  lastStart = Clock::now();
  WorkerProcess::Events events;
  events.onMessage = [this](ControlMessage message) { handle(std::move(message)); };
  events.onAnswers = [this] { collectAnswers(); };
  events.onEnd = [this](int how) { workerEnded(how); };
  Result<std::unique_ptr<WorkerProcess>> started = WorkerProcess::start(executor, options.workerCommand, std::move(events));
  if (!started.isOk()) {
    options.log(started.status().toString());
    restart.expires_after(kRestartPeriod * 5);
    restart.async_wait([this](boost::system::error_code error) {
      if (!error) {
        startWorker();
      }
    });
    return;
  }
  worker = std::move(*started);
  ++starts;
  std::map<uint64_t, std::shared_ptr<Version>> known = std::move(byKey);
  byKey.clear();
  for (auto &[key, version] : known) {
    loadAgain(version);
  }
}

void Models::workerEnded(int how) {
  options.log(fmt::format("the worker process {}; it is started again", describeEnd(how)));
  worker.reset();
  std::vector<std::shared_ptr<Job>> lost;
  std::vector<Version *> blamed;
  for (auto &[version, instance] : running) {
    lost.push_back(std::move(instance->job));
    blamed.push_back(version);
  }
  running.clear();
  if (blamed.empty()) {
    // Loads go one by one, in the order of their keys.
    for (auto &[key, version] : byKey) {
      if (version->state == VersionState::Loading) {
        blamed.push_back(version.get());
        break;
      }
    }
  }
  std::sort(blamed.begin(), blamed.end());
  blamed.erase(std::unique(blamed.begin(), blamed.end()), blamed.end());
  for (Version *version : blamed) {
    version->crashes += isCrash(how);
  }
  std::map<uint64_t, std::shared_ptr<Version>> known = byKey;
  for (auto &[key, version] : known) {
    version->instances.clear();
    if (version->crashes >= kMostCrashes) {
      byKey.erase(key);
      settle(version, Status::error(ErrorId::ModelQuarantined, fmt::format("model '{}' version {} ended its worker process {} times and is not loaded again", version->model, version->number, version->crashes),
                                    "load it again once the engine was replaced"));
    } else if (version->state == VersionState::Unloading && version->queue.empty()) {
      byKey.erase(key);
      version->state = VersionState::Unloaded;
    }
  }
  for (std::shared_ptr<Job> &job : lost) {
    end(job, Status::error(ErrorId::WorkerLost, fmt::format("the worker process {} while it ran the request", describeEnd(how)), "the server's log tells more; the worker is started again"));
  }
  restart.expires_at(std::max(Clock::now(), lastStart + kRestartPeriod));
  restart.async_wait([this](boost::system::error_code error) {
    if (!error) {
      startWorker();
    }
  });
}

std::vector<std::shared_ptr<Version>> Models::beginLoads(FoundModel found) {
  Model &model = models[found.name];
  model.name = found.name;
  model.problem = found.problem;
  std::vector<std::shared_ptr<Version>> begun;
  for (const std::string &note : found.config.notes) {
    options.log(note);
  }
  if (!found.problem.isOk()) {
    options.log(fmt::format("model '{}': {}", found.name, found.problem.toString()));
    return begun;
  }
  for (const FoundVersion &each : found.versions) {
    std::shared_ptr<Version> version = std::make_shared<Version>();
    version->model = found.name;
    version->number = each.version;
    version->path = each.path;
    version->config = found.config;
    std::shared_ptr<Version> &present = model.versions[numberOf(each.version)];
    if (!present || present->state != VersionState::Ready) {
      if (present) {
        std::swap(present->statistics, version->statistics); // counters go on
      }
      present = version; // else it takes its place once it is ready
    }
    begun.push_back(version);
    loadAgain(version);
  }
  return begun;
}

void Models::loadAgain(const std::shared_ptr<Version> &version) {
  version->key = ++lastKey;
  if (version->state != VersionState::Unloading) {
    version->state = VersionState::Loading;
  }
  byKey[version->key] = version;
  if (worker) {
    sendLoad(version); // else it is sent once there is a worker
  }
}

void Models::sendLoad(const std::shared_ptr<Version> &version) {
  ControlMessage load = {ControlMessage::Kind::Load, version->key, options.threads, "", {}};
  load.descriptors.emplace_back(open(version->path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  Status problem = Status::ok();
  if (!load.descriptors[0].isOpen()) {
    problem = Status::error(ErrorId::FileNotFound, fmt::format("the engine '{}' cannot be opened", version->path), "put it back, then load the model again");
  }
  version->instances.clear();
  for (uint64_t i = 0; i < version->config.instances && problem.isOk(); ++i) {
    Result<std::unique_ptr<Instance>> instance = makeInstance(load);
    if (instance.isOk()) {
      version->instances.push_back(std::move(*instance));
    } else {
      problem = instance.takeStatus();
    }
  }
  if (!problem.isOk()) {
    byKey.erase(version->key);
    settle(version, std::move(problem));
    return;
  }
  worker->send(load);
}

void Models::handle(ControlMessage message) {
  std::map<uint64_t, std::shared_ptr<Version>>::iterator found = byKey.find(message.key);
  if (found == byKey.end()) {
    return;
  }
  std::shared_ptr<Version> version = found->second;
  if (message.kind == ControlMessage::Kind::LoadFailed) {
    byKey.erase(found);
    settle(version, decodeError(message.value, message.text).prefix(fmt::format("model '{}' version {}", version->model, version->number)));
  } else if (message.kind == ControlMessage::Kind::Loaded) {
    Result<ModelPorts> ports = decodePorts(message.text);
    Status problem = ports.isOk() ? Status::ok() : ports.takeStatus();
    if (problem.isOk()) {
      version->ports = std::move(*ports);
      problem = checkConfig(*version).prefix(fmt::format("model '{}' version {}", version->model, version->number));
    }
    if (!problem.isOk()) {
      byKey.erase(found);
      worker->send({ControlMessage::Kind::Unload, version->key, 0, "", {}});
    }
    settle(version, std::move(problem));
  }
}

void Models::settle(const std::shared_ptr<Version> &version, Status problem) {
  if (problem.isOk() && version->state == VersionState::Unloading) {
    dispatch(*version); // a version that goes, and whose requests outlived a worker
    finishRetired(*version);
    return;
  }
  version->problem = problem;
  version->state = problem.isOk() ? VersionState::Ready : VersionState::Failed;
  options.log(problem.isOk() ? fmt::format("model '{}' version {} is ready", version->model, version->number) : problem.toString());
  if (problem.isOk()) {
    std::shared_ptr<Version> &present = models[version->model].versions[numberOf(version->number)];
    if (present->key > version->key) {
      retire(version); // a later load is under way
    } else if (present != version) {
      std::swap(present->statistics, version->statistics); // counters of a version go on
      std::shared_ptr<Version> old = std::exchange(present, version);
      retire(old);
    }
    dispatch(*version);
  } else {
    version->instances.clear();
    std::deque<std::shared_ptr<Job>> queued = std::move(version->queue);
    version->queue.clear();
    for (std::shared_ptr<Job> &job : queued) {
      end(job, Result<InferResult>(problem));
    }
  }
  std::vector<std::function<void()>> told = std::move(version->onSettled);
  version->onSettled.clear();
  for (std::function<void()> &tell : told) {
    tell();
  }
}

void Models::retire(const std::shared_ptr<Version> &version) {
  if (version->state == VersionState::Failed || version->state == VersionState::Unloaded) {
    version->state = VersionState::Unloaded;
    return;
  }
  version->state = VersionState::Unloading;
  version->problem = Status::ok();
  finishRetired(*version);
}

void Models::finishRetired(Version &version) {
  bool isBusy = !version.queue.empty() || std::any_of(version.instances.begin(), version.instances.end(), [](const auto &each) { return each->job != nullptr; });
  if (version.state != VersionState::Unloading || isBusy) {
    return;
  }
  version.state = VersionState::Unloaded;
  if (worker) {
    worker->send({ControlMessage::Kind::Unload, version.key, 0, "", {}});
  }
  version.instances.clear();
  std::vector<std::function<void()>> told = std::move(version.onSettled);
  version.onSettled.clear();
  byKey.erase(version.key); // may be the last pointer
  for (std::function<void()> &tell : told) {
    tell();
  }
}

void Models::load(const std::string &name, std::function<void(Status)> onEnd) {
  Result<FoundModel> found = folder.find(name);
  Status problem = draining ? Status::error(ErrorId::ServerStopping, "the server is stopping") : !found.isOk() ? found.takeStatus() : found->problem;
  if (!problem.isOk()) {
    if (found.isOk() && models.contains(name)) {
      models[name].problem = problem;
    }
    onEnd(problem);
    return;
  }
  std::vector<std::shared_ptr<Version>> begun = beginLoads(std::move(*found));
  std::shared_ptr<size_t> pending = std::make_shared<size_t>(begun.size());
  std::shared_ptr<Status> first = std::make_shared<Status>();
  for (const std::shared_ptr<Version> &version : begun) {
    std::function<void()> tell = [this, version, begun, pending, first, onEnd] {
      if (first->isOk() && !version->problem.isOk()) {
        *first = version->problem;
      }
      if (--*pending > 0) {
        return;
      }
      if (first->isOk()) {
        // What the folder does not ask for any more goes.
        std::map<int64_t, std::shared_ptr<Version>> present = models[version->model].versions;
        for (auto &[number, other] : present) {
          if (std::find(begun.begin(), begun.end(), other) == begun.end()) {
            models[version->model].versions.erase(number);
            retire(other);
          }
        }
      }
      onEnd(*first);
    };
    if (version->state == VersionState::Loading) {
      version->onSettled.push_back(std::move(tell));
    } else {
      tell(); // it could not even be opened
    }
  }
}

void Models::unload(const std::string &name, std::function<void(Status)> onEnd) {
  std::map<std::string, Model>::iterator found = models.find(name);
  if (found == models.end()) {
    onEnd(Status::error(ErrorId::NoSuchModel, fmt::format("there is no model '{}'", name), "v2/repository/index lists the models"));
    return;
  }
  found->second.problem = Status::ok();
  // One more than there are, so that the end is told once, after the loop.
  std::shared_ptr<size_t> pending = std::make_shared<size_t>(1);
  std::function<void()> tell = [pending, onEnd] {
    if (--*pending == 0) {
      onEnd(Status::ok());
    }
  };
  std::map<int64_t, std::shared_ptr<Version>> versions = found->second.versions;
  for (auto &[number, version] : versions) {
    retire(version);
    if (version->state == VersionState::Unloading) {
      ++*pending;
      version->onSettled.push_back(tell);
    }
  }
  tell();
}

bool Models::isReady() const {
  if (!worker || draining) {
    return false;
  }
  return std::all_of(models.begin(), models.end(), [](const auto &model) {
    return model.second.problem.isOk() && std::all_of(model.second.versions.begin(), model.second.versions.end(), [](const auto &each) {
             return each.second->state == VersionState::Ready || each.second->state == VersionState::Unloaded;
           });
  });
}

Result<std::shared_ptr<Version>> Models::find(const std::string &model, const std::string &version) const {
  std::map<std::string, Model>::const_iterator found = models.find(model);
  if (found == models.end()) {
    return Status::error(ErrorId::NoSuchModel, fmt::format("there is no model '{}'", model), "v2/repository/index lists the models");
  }
  const std::map<int64_t, std::shared_ptr<Version>> &versions = found->second.versions;
  if (version.empty() && versions.empty()) {
    return found->second.problem.isOk() ? noVersion(model, version) : found->second.problem;
  }
  if (version.empty()) {
    for (std::map<int64_t, std::shared_ptr<Version>>::const_reverse_iterator it = versions.rbegin(); it != versions.rend(); ++it) {
      if (it->second->state == VersionState::Ready) {
        return it->second;
      }
    }
    return versions.rbegin()->second;
  }
  std::map<int64_t, std::shared_ptr<Version>>::const_iterator at = versions.find(numberOf(version));
  return at == versions.end() || at->second->number != version ? noVersion(model, version) : Result<std::shared_ptr<Version>>(at->second);
}

Status Models::readiness(const Version &version) const {
  std::string what = fmt::format("model '{}' version {}", version.model, version.number);
  switch (version.state) {
  case VersionState::Ready:
    return Status::ok();
  case VersionState::Failed:
    if (version.problem.id() == ErrorId::ModelQuarantined) {
      return version.problem;
    }
    return Status::error(ErrorId::ModelNotReady, fmt::format("{} could not be loaded: {}", what, version.problem.toString()), "mend the cause, then load the model again");
  case VersionState::Loading:
    return Status::error(ErrorId::ModelNotReady, what + " is being loaded", "try again when v2/models/NAME/ready says so");
  case VersionState::Unloading:
  case VersionState::Unloaded:
    break;
  }
  return Status::error(ErrorId::ModelNotReady, what + " was unloaded", fmt::format("POST v2/repository/models/{}/load loads it again", version.model));
}

} // namespace tenon::server
