// Loading, unloading and the life of the worker; requests are in Requests.cpp. One file, since each of the three changes the states of the others.
//
//   state      held by                     left by
//   Loading    byKey; Model::versions,     settle: Ready or Failed; retire (an unload): Unloaded
//              unless one there is Ready
//   Ready      byKey, Model::versions      retire: Unloading; the worker's end: Loading again
//   Unloading  byKey                       finishRetired, when nothing of it waits or runs: Unloaded
//   Failed     Model::versions             a new load, which takes its place
//   Unloaded   Model::versions             a new load, which takes its place
//
// A version whose instance runs is in byKey: Models::running points into it.

#include "server/scheduler/Models.h"

#include <boost/asio/post.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <system_error>

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

Status noDescriptors() { return Status::error(ErrorId::TooManyFiles, "no descriptors for a model's engine and instances", "raise the limit with `ulimit -n`"); }

Result<std::unique_ptr<Instance>> makeInstance(ControlMessage &load) {
  std::unique_ptr<Instance> instance = std::make_unique<Instance>();
  TENON_ASSIGN(instance->memory, SharedMemory::create(kMailboxBytes));
  instance->wake = Descriptor(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  load.descriptors.emplace_back(dup(instance->memory->descriptor()));
  load.descriptors.emplace_back(dup(instance->wake.get()));
  if (!instance->wake.isOpen() || !load.descriptors.back().isOpen()) {
    return noDescriptors();
  }
  return instance;
}

/// Opens the engine's file for the first worker; for the next ones it is that file, whatever has its name by then.
Status openEngine(Version &version) {
  struct stat facts = {};
  if (version.file.isOpen()) {
    bool isSame = fstat(version.file.get(), &facts) == 0 && facts.st_size == version.facts.st_size && facts.st_mtim.tv_sec == version.facts.st_mtim.tv_sec &&
                  facts.st_mtim.tv_nsec == version.facts.st_mtim.tv_nsec;
    return isSame ? Status::ok() : Status::error(ErrorId::FileReadFailed, fmt::format("the engine '{}' was changed after it was loaded", version.path), "load the model again");
  }
  version.file = Descriptor(open(version.path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (version.file.isOpen() && fstat(version.file.get(), &version.facts) == 0) {
    return Status::ok();
  }
  if (errno == EMFILE || errno == ENFILE) {
    return noDescriptors();
  }
  return Status::error(ErrorId::FileNotFound, fmt::format("the engine '{}' cannot be opened: {}", version.path, std::generic_category().message(errno)), "mend that, then load the model again");
}

} // namespace

Models::Models(boost::asio::any_io_executor executor, std::unique_ptr<ModelSource> source, ModelsOptions options)
    : executor(executor), source(std::move(source)), options(std::move(options)), restart(executor), deadline(executor) {}

Models::~Models() = default;

Status Models::start() {
  TENON_ASSIGN(std::vector<FoundModel> found, source->scan());
  startWorker();
  if (!worker) {
    return Status::error(ErrorId::ThreadStartFailed, "the worker process cannot be started");
  }
  for (FoundModel &model : found) {
    beginLoads(std::move(model));
  }
  source->watch([this](const std::string &name) {
    boost::asio::post(executor, [this, name] {
      load(name, [](Status) {}); // the log and the index have how it ended
    });
  });
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
  collectAnswers(); // those that it gave before its end
  worker.reset();
  sentKey = 0;
  std::vector<std::shared_ptr<Job>> lost;
  std::vector<Version *> blamed;
  for (auto &[version, instance] : running) {
    lost.push_back(std::move(instance->job));
    blamed.push_back(version);
  }
  running.clear();
  for (std::shared_ptr<Job> &job : lost) {
    end(job, Status::error(ErrorId::WorkerLost, fmt::format("the worker process {} while it ran the request", describeEnd(how)), "the server's log tells more; the worker is started again"));
  }
  Version *loading = firstLoading();
  if (loading && !blamed.empty() && isCrash(how)) {
    // The one that loads or one of those that run: the next worker loads all before it runs any, and so tells which.
    runsAfterLoads = true;
    blamed.clear();
  } else if (loading && blamed.empty()) {
    blamed.push_back(loading);
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
    } else {
      finishRetired(*version); // what it ran is answered
    }
  }
  restart.expires_at(std::max(Clock::now(), lastStart + kRestartPeriod));
  restart.async_wait([this](boost::system::error_code error) {
    if (!error) {
      startWorker();
    }
  });
}

Version *Models::firstLoading() const {
  // Loads go one by one, in the order of their keys.
  for (auto &[key, version] : byKey) {
    if (version->state == VersionState::Loading) {
      return version.get();
    }
  }
  return nullptr;
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
    if (present) {
      version->statistics = present->statistics;
    }
    if (!present || present->state != VersionState::Ready) {
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
  version->needsLoad = true;
  byKey[version->key] = version;
  sendNextLoad();
}

void Models::sendNextLoad() {
  // One after the other: the socket holds few messages, and few descriptors that are on their way.
  while (worker && sentKey == 0) {
    std::map<uint64_t, std::shared_ptr<Version>>::iterator next = std::find_if(byKey.begin(), byKey.end(), [](const auto &each) { return each.second->needsLoad; });
    if (next == byKey.end()) {
      return;
    }
    std::shared_ptr<Version> version = next->second;
    version->needsLoad = false;
    sendLoad(version);
  }
}

void Models::sendLoad(const std::shared_ptr<Version> &version) {
  ControlMessage load = {ControlMessage::Kind::Load, version->key, options.threads, "", {}};
  Status problem = openEngine(*version);
  load.descriptors.emplace_back(dup(version->file.get()));
  if (problem.isOk() && !load.descriptors[0].isOpen()) {
    problem = noDescriptors();
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
  sentKey = version->key;
  worker->send(load);
}

void Models::handle(ControlMessage message) {
  if (message.kind != ControlMessage::Kind::Loaded && message.kind != ControlMessage::Kind::LoadFailed) {
    return;
  }
  if (sentKey == 0 || message.key != sentKey) {
    return; // an answer that nobody asked for, of a worker that engines may have taken over: a version that runs stays as it is
  }
  sentKey = 0;
  loadAnswered(std::move(message));
  sendNextLoad();
}

void Models::loadAnswered(ControlMessage message) {
  std::map<uint64_t, std::shared_ptr<Version>>::iterator found = byKey.find(message.key);
  if (found == byKey.end()) {
    return;
  }
  std::shared_ptr<Version> version = found->second;
  if (message.kind == ControlMessage::Kind::LoadFailed) {
    byKey.erase(found);
    settle(version, decodeError(message.value, message.text).prefix(fmt::format("model '{}' version {}", version->model, version->number)));
  } else {
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
      std::shared_ptr<Version> old = std::exchange(present, version);
      retire(old);
    }
    dispatch(*version);
  } else {
    version->instances.clear();
    version->file = Descriptor();
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
  releaseRuns();
}

void Models::releaseRuns() {
  if (!runsAfterLoads || firstLoading()) {
    return;
  }
  runsAfterLoads = false;
  std::map<uint64_t, std::shared_ptr<Version>> held = byKey;
  for (auto &[key, version] : held) {
    dispatch(*version);
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
  version.file = Descriptor();
  std::vector<std::function<void()>> told = std::move(version.onSettled);
  version.onSettled.clear();
  byKey.erase(version.key); // may be the last pointer
  for (std::function<void()> &tell : told) {
    tell();
  }
  releaseRuns();
}

void Models::load(const std::string &name, std::function<void(Status)> onEnd) {
  Result<FoundModel> found = source->find(name);
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
      models[version->model].problem = *first;
      // A load that a later one or an unload overtook decides nothing.
      bool isCurrent = std::all_of(begun.begin(), begun.end(), [](const auto &each) { return each->state == VersionState::Ready; });
      if (first->isOk() && isCurrent) {
        // What the source does not ask for any more goes; what a later load asked for has a later key.
        std::map<int64_t, std::shared_ptr<Version>> present = models[version->model].versions;
        for (auto &[number, other] : present) {
          if (std::find(begun.begin(), begun.end(), other) == begun.end() && other->key < begun.back()->key) {
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
  std::vector<std::shared_ptr<Version>> versions;
  for (auto &[number, version] : found->second.versions) {
    versions.push_back(version);
  }
  // Those that are loaded to take the place of one.
  for (auto &[key, version] : byKey) {
    if (version->model == name && version->state == VersionState::Loading && std::find(versions.begin(), versions.end(), version) == versions.end()) {
      versions.push_back(version);
    }
  }
  for (std::shared_ptr<Version> &version : versions) {
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
    // A load that failed while another version serves leaves the model as it was.
    bool isProblem = !model.second.problem.isOk();
    for (const auto &[number, version] : model.second.versions) {
      if (version->state != VersionState::Ready && version->state != VersionState::Unloaded) {
        return false;
      }
      isProblem = isProblem && version->state != VersionState::Ready;
    }
    return !isProblem;
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
