// Loads and unloads, and whom the end of a worker is blamed on: a version that ran or was loaded
// when its worker crashed gets one of its own. Then the others notice nothing of the next crash,
// which is its own without doubt. One file: loads, unloads and ends of workers change one state of
// a version, which is seen at once.

#include "server/residency/Residency.h"

#include "engine/Levels.h"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <set>
#include <utility>

#include <sys/wait.h>

namespace tenon::server {
namespace {

constexpr unsigned kMaxCrashes = 2;

/// Whether a process ended by a fault of its own, not by somebody who killed it.
bool isCrash(int how) {
  if (WIFSIGNALED(how)) {
    int signal = WTERMSIG(how);
    return signal != SIGKILL && signal != SIGTERM && signal != SIGINT && signal != SIGHUP;
  }
  return WIFEXITED(how) && WEXITSTATUS(how) != 0;
}

std::string describeEnd(int how) {
  return WIFSIGNALED(how) ? fmt::format("was killed by signal {}", WTERMSIG(how))
                          : fmt::format("exited with {}", WEXITSTATUS(how));
}

Status noRoom(const Version &version, uint64_t budget) {
  return Status::error(ErrorId::MemoryBudgetExceeded,
                       fmt::format("it needs {} bytes or more, but the budget of {} does not have "
                                   "that much besides pinned models",
                                   version.neededBytes(), budget),
                       fmt::format("raise --{}memory-budget, or pin fewer models",
                                   version.device()->isCpu() ? "" : "gpu-"));
}

} // namespace

Residency::Residency(boost::asio::any_io_executor executor, ResidencyOptions given, Events events)
    : executor(executor), options(std::move(given)), events(std::move(events)),
      pool(executor, options.workerCommand, options.gpus, options.requestMemory, workerEvents()) {}

WorkerSlot::Events Residency::workerEvents() {
  WorkerSlot::Events events;
  events.onStart = [this](WorkerSlot &slot) { sendNextLoad(slot); };
  events.onLoad = [this](WorkerSlot &slot, const ControlMessage &message) {
    loadAnswered(slot, message);
    sendNextLoad(slot);
    retryLoads();
  };
  events.onFreed = [this] { retryLoads(); };
  events.onAnswer = [this](Instance &instance) {
    std::shared_ptr<Version> version = byKey.at(instance.key); // answers may unload or replace it
    version->scheduler->answered(instance);
    settle(*version);
  };
  events.onEnd = [this](WorkerSlot &slot, const WorkerEnd &end) { workerEnded(slot, end); };
  events.log = options.log;
  return events;
}

Status Residency::start() {
  return pool.start()
             ? Status::ok()
             : Status::error(ErrorId::ThreadStartFailed, "the worker process cannot be started");
}

Status Residency::place(Version &version) {
  if (version.place) {
    return Status::ok();
  }
  EngineNeeds needs;
  if (pool.gpuCount() > 0 && version.config.placement.kind != Placement::Kind::Cpu) {
    TENON_TRY(version.file.open(version.path)); // its size counts too
    Result<engine::EngineTargets> targets = engine::readTargets(version.file.descriptor());
    if (targets.isOk()) { // what is wrong with an engine, the worker tells
      auto isGpu = [](engine::Architecture each) { return each == engine::Architecture::Nvptx; };
      needs = {!std::ranges::all_of(targets->architectures, isGpu),
               std::ranges::any_of(targets->architectures, isGpu), targets->ranks};
    }
  }
  std::vector<uint64_t> taken(pool.gpuCount());
  for (const auto &[key, each] : byKey) {
    for (uint64_t gpu : each->slot->device.gpus) {
      taken[gpu] += each->neededBytes();
    }
  }
  TENON_ASSIGN(version.place, chooseDevice(version.config.placement, needs, taken));
  return Status::ok();
}

void Residency::load(const std::shared_ptr<Version> &version, bool isInitial) {
  version->isInitial = isInitial;
  if (version->current != VersionState::Unloading) {
    version->current = VersionState::Loading;
  }
  if (!version->remote.empty() && !version->file.isOpen()) {
    fetch(version);
    return;
  }
  Status placed = place(*version);
  if (!placed.isOk()) {
    fail(version, placed.prefix(version->title()));
    return;
  }
  bool isAlone = version->config.hasOwnWorker || version->isSuspect || version->crashes > 0;
  WorkerSlot &slot = pool.choose(
      *version->place, isAlone ? fmt::format("{}/{}", version->model, version->number) : "",
      version->slot);
  WorkerSlot *from = std::exchange(version->slot, &slot);
  uint64_t oldKey = std::exchange(version->key, ++lastKey);
  byKey[version->key] = version;
  slot.add(version->key);
  if (from) {
    byKey.erase(oldKey);
    from->remove(oldKey, version->taken);
    pool.releaseIfEmpty(*from);
  }
  version->isLeaving = false;
  sendNextLoad(slot);
}

void Residency::sendNextLoad(WorkerSlot &slot) {
  while (!slot.isLoading() && !slot.isRestarting() && !slot.isStopped()) {
    uint64_t key = slot.nextLoad();
    if (key == 0) {
      return;
    }
    std::shared_ptr<Version> version = byKey.at(key);
    Status problem = version->file.open(version->path);
    bool hasDraft = problem.isOk() && !version->draftPath.empty();
    problem = hasDraft ? version->draft.open(version->draftPath) : std::move(problem);
    Room room = problem.isOk() ? makeRoom(*version) : Room::Free;
    if (room == Room::Later && version->isInitial) {
      version->current = VersionState::Cold;
      version->isInitial = false;
      leaveWorker(*version);
      notifyCompleted(*version);
      continue;
    }
    if (room == Room::Later) {
      slot.waitsForRoom = true;
      return;
    }
    if (room == Room::Never) {
      problem = noRoom(*version, budget(slot.device));
    }
    if (problem.isOk() && !slot.start()) {
      return; // it tells when it could
    }
    version->isInitial = false;
    version->taken = version->neededBytes();
    if (problem.isOk()) {
      BatchPolicy policy = version->batch ? BatchPolicy() : version->scheduler->policy();
      uint64_t most = budget(slot.device), held = heldBytes(slot.device) + version->taken;
      policy.memory = most == 0 ? 0 : most - std::min(held, most - 1);
      LoadRequest request = {version->sha256,
                             policy,
                             textRoom(*version, slot.device),
                             version->config.draftTokens.value_or(0),
                             hasDraft,
                             version->draftSha256};
      Result<LoadedPlaces> sent =
          slot.load(key, version->file.descriptor(), version->draft.descriptor(),
                    encodeLoad(request), version->config.instances, options.threads);
      if (sent.isOk()) {
        version->places = std::move(*sent);
      } else {
        problem = sent.takeStatus();
      }
    }
    if (!problem.isOk()) {
      leaveWorker(*version);
      fail(version, problem.prefix(version->title()));
    }
  }
}

void Residency::loadAnswered(WorkerSlot &slot, const ControlMessage &message) {
  std::map<uint64_t, std::shared_ptr<Version>>::iterator found = byKey.find(message.key);
  if (found == byKey.end()) {
    return; // it has gone meanwhile
  }
  std::shared_ptr<Version> version = found->second;
  bool isLoaded = message.kind == ControlMessage::Kind::Loaded;
  Status problem =
      isLoaded ? takeInfo(*version, message.text) : decodeError(message.value, message.text);
  bool mayUseCpu = !isLoaded && problem.id() == ErrorId::EngineNoVariant && !slot.device.isCpu() &&
                   version->config.placement.kind == Placement::Kind::Auto;
  if (mayUseCpu && version->current == VersionState::Loading) {
    options.log(fmt::format("{} runs on the CPU: {}", version->title(), problem.toString()),
                LogLevel::Warning);
    version->place = Device();
    load(version);
  } else if (problem.isOk()) {
    complete(version);
  } else {
    leaveWorker(*version);
    fail(version, problem.prefix(version->title()));
  }
}

Status Residency::takeInfo(Version &version, std::string_view text) {
  TENON_ASSIGN(ModelInfo info, decodeModelInfo(text));
  logPhases(version, info.phases);
  version.learn(std::move(info));
  TENON_TRY(version.scheduler->check());
  uint64_t most = budget(*version.place);
  bool isOver = !version.place->isCpu() && most > 0 && version.taken > most;
  return isOver ? noRoom(version, most) : Status::ok();
}

/// "model 'm' was loaded in 812 ms (file 204, engine 561, tokenizer 30, session 17)"
void Residency::logPhases(const Version &version, const std::vector<LoadPhase> &phases) const {
  double whole = 0;
  std::string parts;
  for (const LoadPhase &phase : phases) {
    whole += phase.seconds;
    parts += fmt::format("{}{} {:.0f}", parts.empty() ? "" : ", ", phase.name, phase.seconds * 1e3);
  }
  options.log(fmt::format("{} was loaded in {:.0f} ms ({})", version.title(), whole * 1e3, parts));
}

void Residency::complete(const std::shared_ptr<Version> &version) {
  if (version->current == VersionState::Unloading) { // its requests outlived a worker
    version->scheduler->resume();
    finishUnload(*version);
    return;
  }
  version->failure = Status::ok();
  version->current = VersionState::Ready;
  std::string what = version->scheduler->describe();
  options.log(fmt::format("{} is ready{}{}", version->title(), what.empty() ? "" : "; ", what));
  events.onReady(version);
  version->scheduler->resume();
  notifyCompleted(*version);
  retryLoads();
}

void Residency::fail(const std::shared_ptr<Version> &version, const Status &why) {
  version->failure = why;
  version->current = VersionState::Failed;
  options.log(why.toString(), LogLevel::Error);
  events.onFailure(*version);
  version->release();
  version->scheduler->fail(why);
  notifyCompleted(*version);
  retryLoads();
}

void Residency::notifyCompleted(Version &version) {
  for (std::function<void()> &callback : std::exchange(version.onCompleted, {})) {
    callback();
  }
}

void Residency::whenCompleted(Version &version, std::function<void()> then) {
  bool isUnderWay =
      version.current == VersionState::Loading || version.current == VersionState::Unloading;
  isUnderWay ? version.onCompleted.push_back(std::move(then)) : then();
}

void Residency::whenKnown(const std::shared_ptr<Version> &version, std::function<void()> then) {
  bool comes = (version->current == VersionState::Cold && !version->isHeldBack()) ||
               (version->current == VersionState::Loading && version->isOnDemand);
  if (version->isKnown() || !comes) {
    then();
    return;
  }
  version->onCompleted.push_back(std::move(then));
  version->lastUse = Clock::now();
  wake(version);
}

void Residency::wake(const std::shared_ptr<Version> &version) {
  if (version->current == VersionState::Cold && !version->isHeldBack()) {
    version->isOnDemand = true;
    version->isSuspect = false;
    load(version);
  }
}

void Residency::unload(const std::shared_ptr<Version> &version) {
  if (version->current == VersionState::Failed || version->current == VersionState::Unloaded ||
      version->current == VersionState::Cold) {
    version->current = VersionState::Unloaded;
    version->file.close();
    version->draft.close();
    return;
  }
  version->current = VersionState::Unloading;
  version->isLeaving = false;
  version->failure = Status::ok();
  finishUnload(*version);
}

void Residency::finishUnload(Version &version) {
  if (version.current != VersionState::Unloading || !version.scheduler->isIdle()) {
    return;
  }
  std::shared_ptr<Version> held =
      version.shared_from_this(); // this may have the last other pointer
  version.current = VersionState::Unloaded;
  leaveWorker(version);
  version.release();
  notifyCompleted(version);
  retryLoads();
}

void Residency::settle(Version &version) {
  finishUnload(version);
  retryLoads();
}

void Residency::leaveWorker(Version &version) {
  if (WorkerSlot *slot = std::exchange(version.slot, nullptr)) {
    std::shared_ptr<Version> held = version.shared_from_this();
    byKey.erase(version.key);
    slot->remove(version.key, version.taken);
    pool.releaseIfEmpty(*slot);
  }
}

std::vector<std::shared_ptr<Version>> Residency::versionsOf(const WorkerSlot &slot) const {
  std::vector<std::shared_ptr<Version>> versions;
  for (const auto &[key, version] : byKey) {
    if (version->slot == &slot) {
      versions.push_back(version);
    }
  }
  return versions;
}

std::vector<std::shared_ptr<Version>> Residency::loading(const std::string &model) const {
  std::vector<std::shared_ptr<Version>> versions;
  for (const auto &[key, version] : byKey) {
    if (version->model == model && version->current == VersionState::Loading) {
      versions.push_back(version);
    }
  }
  for (const std::shared_ptr<Version> &version : fetching) {
    if (version->model == model && version->current == VersionState::Loading) {
      versions.push_back(version);
    }
  }
  return versions;
}

void Residency::workerEnded(WorkerSlot &slot, const WorkerEnd &ended) {
  if (slot.isStopped()) {
    pool.discard(slot);
    retryLoads();
    return;
  }
  std::map<uint64_t, std::shared_ptr<Version>>::iterator cause = byKey.find(ended.cause);
  std::string how = cause == byKey.end() ? describeEnd(ended.how)
                                         : fmt::format("ended for {}: {}", cause->second->title(),
                                                       ended.why.message());
  options.log(fmt::format("the worker process {} {}; it is restarted", slot.name, how),
              LogLevel::Error);
  std::set<std::shared_ptr<Version>> suspects;
  std::vector<std::pair<std::shared_ptr<Version>, Instance *>> running;
  for (Instance *instance : ended.running) {
    running.emplace_back(byKey.at(instance->key), instance);
    suspects.insert(running.back().first);
  }
  Status lost = Status::error(
      ErrorId::WorkerLost,
      cause == byKey.end() ? fmt::format("the worker process {} while it ran the request", how)
                           : fmt::format("the worker process {}", how),
      "see the server's log; the worker is restarted");
  for (const auto &[version, instance] : running) {
    version->scheduler->lost(*instance, lost);
  }
  for (const std::shared_ptr<Version> &version : versionsOf(slot)) {
    if (version->scheduler->workerEnded(lost)) {
      suspects.insert(version);
    }
  }
  if (std::map<uint64_t, std::shared_ptr<Version>>::iterator loading = byKey.find(ended.loading);
      loading != byKey.end()) {
    suspects.insert(loading->second);
  }
  if (cause != byKey.end()) {
    suspects = {cause->second}; // and nobody else
  }
  for (const std::shared_ptr<Version> &version : suspects) {
    version->isSuspect = version->isSuspect || isCrash(ended.how);
    version->crashes += isCrash(ended.how) && suspects.size() == 1;
  }
  for (const std::shared_ptr<Version> &version : versionsOf(slot)) {
    bool wasSent = slot.wasSent(version->key);
    version->places = {};
    if (version->crashes >= kMaxCrashes) {
      leaveWorker(*version);
      fail(version,
           Status::error(
               ErrorId::ModelQuarantined,
               fmt::format("{} crashed its worker process {} times and is not loaded again",
                           version->title(), version->crashes),
               "replace the engine, then load it again"));
    } else if (version->current == VersionState::Unloading && version->scheduler->isIdle()) {
      finishUnload(*version); // what it ran is answered
    } else if (wasSent) {
      version->isOnDemand = version->isOnDemand && version->current == VersionState::Loading;
      load(version);
    }
  }
  retryLoads();
}

} // namespace tenon::server
