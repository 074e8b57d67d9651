// The states of versions: loads go to the worker one after the other, and what is retired goes once it is idle.
//
//   state      held by                     left by
//   Loading    byKey; Model::versions,     settle: Ready or Failed; retire (an unload): Unloaded
//              unless one there is Ready
//   Ready      byKey, Model::versions      retire: Unloading; the worker's end: Loading again; evict: Cold
//   Unloading  byKey                       finishRetired, when nothing of it waits or runs: Unloaded
//   Failed     Model::versions             a new load, which takes its place
//   Unloaded   Model::versions             a new load, which takes its place
//   Cold       Model::versions             wake (a request): Loading; retire: Unloaded; a new load, which takes its place
//
// A version whose instance runs is in byKey: Models::running points into it.

#include "server/scheduler/Describe.h"
#include "server/scheduler/Models.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include <fcntl.h>
#include <sys/eventfd.h>

namespace tenon::server {
namespace {

Status noDescriptors() { return Status::error(ErrorId::TooManyFiles, "no descriptors for a model's engine and instances", "raise the limit with `ulimit -n`"); }

Result<std::unique_ptr<Instance>> makeInstance(ControlMessage &load) {
  std::unique_ptr<Instance> instance = std::make_unique<Instance>();
  TENON_ASSIGN(instance->memory, SharedMemory::create(kMailboxBytes));
  instance->wake = Descriptor(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  load.descriptors.push_back(instance->memory->takeDescriptor());
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

Status noRoom(const Version &version, uint64_t budget) {
  return Status::error(ErrorId::MemoryBudgetExceeded,
                       fmt::format("model '{}' version {} takes {} bytes or more, which the budget of {} does not have beside what is pinned", version.model, version.number,
                                   std::max<uint64_t>(version.bytes, static_cast<uint64_t>(version.facts.st_size)), budget),
                       "raise --memory-budget, or pin fewer models");
}

std::string readyLine(const Version &version) {
  std::string line = fmt::format("model '{}' version {} is ready", version.model, version.number);
  bool hasProof = version.batch && version.batch->stacking != BatchFacts::State::None;
  return hasProof ? fmt::format("{}; {}", line, describeBatching(version)) : line;
}

} // namespace

std::vector<std::shared_ptr<Version>> Models::beginLoads(FoundModel found, bool isStart) {
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
    version->sha256 = each.sha256;
    version->config = found.config;
    version->isInitial = isStart && !found.config.isPinned;
    version->lastUse = Clock::now();
    version->order = ++lastOrder;
    std::shared_ptr<Version> &present = model.versions[*versionNumber(each.version)];
    if (present) {
      version->statistics = present->statistics;
    }
    if (!present || !present->isServing()) {
      present = version; // else it takes its place once it is ready
    }
    begun.push_back(version);
    each.problem.isOk() ? loadAgain(version) : settle(version, each.problem);
  }
  return begun;
}

void Models::loadAgain(const std::shared_ptr<Version> &version) {
  version->key = ++lastKey;
  if (version->state != VersionState::Unloading) {
    version->state = VersionState::Loading;
  }
  version->needsLoad = true;
  version->isLeaving = false;
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
    Status problem = openEngine(*version);
    Room room = problem.isOk() ? makeRoom(*version) : Room::Free;
    if (room == Room::Later && version->isInitial) {
      version->state = VersionState::Cold;
      version->isInitial = version->needsLoad = false;
      byKey.erase(version->key);
      tellSettled(*version);
      continue;
    }
    if (room == Room::Later) {
      waitsForRoom = true;
      releaseRuns(); // it waits for those that run
      return;
    }
    if (room == Room::Never) {
      problem = noRoom(*version, options.memoryBudget);
    }
    version->needsLoad = version->isInitial = false;
    sendLoad(version, std::move(problem));
  }
}

void Models::sendLoad(const std::shared_ptr<Version> &version, Status problem) {
  BatchWish wish = version->batch ? BatchWish() : wishOf(version->config);
  ControlMessage load = {ControlMessage::Kind::Load, version->key, options.threads, encodeLoad({version->sha256, std::move(wish)}), {}};
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
  version->bytes = std::max(version->bytes, static_cast<uint64_t>(version->facts.st_size));
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
  if (!std::exchange(hasLookedAtWorker, true) && !worker->isConfined()) {
    options.log("the kernel refuses a filter of system calls: the worker process has the rights of the server");
  }
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
    Result<ModelFacts> facts = decodeFacts(message.text);
    Status problem = facts.isOk() ? Status::ok() : facts.takeStatus();
    if (problem.isOk()) {
      version->ports = std::move(facts->ports);
      version->bytes = std::max(version->bytes, std::min(facts->bytes, uint64_t(1) << 50));
      if (!version->batch) {
        version->batch = std::move(facts->batch);
      }
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
  if (problem.isOk()) {
    checkQueued(*version);
  }
  options.log(problem.isOk() ? readyLine(*version) : problem.toString());
  if (problem.isOk()) {
    std::shared_ptr<Version> &present = models[version->model].versions[*versionNumber(version->number)];
    if (present->order > version->order) {
      retire(version); // a later load is under way
    } else if (present != version) {
      std::shared_ptr<Version> old = std::exchange(present, version);
      retire(old);
    }
    dispatch(*version);
  } else {
    version->instances.clear();
    version->file = Descriptor();
    for (std::shared_ptr<Job> &job : version->queue.takeAll()) {
      end(job, Result<InferResult>(problem));
    }
  }
  tellSettled(*version);
  releaseRuns();
}

void Models::tellSettled(Version &version) {
  std::vector<std::function<void()>> told = std::move(version.onSettled);
  version.onSettled.clear();
  for (std::function<void()> &tell : told) {
    tell();
  }
}

void Models::retire(const std::shared_ptr<Version> &version) {
  if (version->state == VersionState::Failed || version->state == VersionState::Unloaded || version->state == VersionState::Cold) {
    version->state = VersionState::Unloaded;
    version->file = Descriptor();
    return;
  }
  version->state = VersionState::Unloading;
  version->isLeaving = false;
  version->problem = Status::ok();
  finishRetired(*version);
}

void Models::finishRetired(Version &version) {
  if (version.state != VersionState::Unloading || !version.queue.empty() || version.isRunning()) {
    return;
  }
  version.state = VersionState::Unloaded;
  if (worker) {
    worker->send({ControlMessage::Kind::Unload, version.key, 0, "", {}});
  }
  version.instances.clear();
  version.file = Descriptor();
  std::shared_ptr<Version> held = version.shared_from_this(); // byKey may have the last other pointer
  byKey.erase(version.key);
  tellSettled(version);
  releaseRuns();
  retryLoads();
}

} // namespace tenon::server
