// The states of versions: loads go to their workers, and what is unloaded goes once it is idle.
//
//   state      held by                     left by
//   Loading    a worker; Model::versions,  completeLoad: Ready or Failed;
//              unless one there is Ready   unloadVersion (an unload): Unloaded
//   Ready      a worker, Model::versions   unloadVersion: Unloading; evict: Cold;
//                                          the worker's end: Loading again
//   Unloading  a worker                    finishUnload, when nothing of it waits or runs: Unloaded
//   Failed     Model::versions             a new load, which takes its place
//   Unloaded   Model::versions             a new load, which takes its place
//   Cold       Model::versions             reload (a request): Loading; unloadVersion: Unloaded;
//                                          a new load, which takes its place
//
// A version whose instance runs is in a worker, which points into it.

#include "engine/Levels.h"
#include "server/scheduler/Describe.h"
#include "server/scheduler/ModelManager.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include <fcntl.h>

namespace tenon::server {
namespace {

std::string nameOf(const Version &version) {
  return fmt::format("model '{}'{}{}", version.model, version.number.empty() ? "" : " version ",
                     version.number);
}

/// Opens the engine's file for the first worker; for the next ones it is that file, whatever has
/// its name by then.
Status openEngine(Version &version) {
  struct stat info = {};
  if (version.file.isOpen()) {
    bool isSame = fstat(version.file.get(), &info) == 0 &&
                  info.st_size == version.fileInfo.st_size &&
                  info.st_mtim.tv_sec == version.fileInfo.st_mtim.tv_sec &&
                  info.st_mtim.tv_nsec == version.fileInfo.st_mtim.tv_nsec;
    return isSame ? Status::ok()
                  : Status::error(ErrorId::FileReadFailed,
                                  fmt::format("the engine '{}' was changed after it was loaded",
                                              version.path),
                                  "load the model again");
  }
  version.file = Descriptor(open(version.path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (version.file.isOpen() && fstat(version.file.get(), &version.fileInfo) == 0) {
    return Status::ok();
  }
  if (errno == EMFILE || errno == ENFILE) {
    return Status::error(ErrorId::TooManyFiles, "no descriptors for a model's engine",
                         "raise the limit with `ulimit -n`");
  }
  return Status::error(ErrorId::FileNotFound,
                       fmt::format("the engine '{}' cannot be opened: {}", version.path,
                                   std::generic_category().message(errno)),
                       "mend that, then load the model again");
}

Status noRoom(const Version &version, uint64_t budget) {
  return Status::error(
      ErrorId::MemoryBudgetExceeded,
      fmt::format(
          "it takes {} bytes or more, which the budget of {} does not have beside what is pinned",
          neededBytes(version), budget),
      fmt::format("raise --{}memory-budget, or pin fewer models",
                  version.device->isCpu() ? "" : "gpu-"));
}

std::string readyLine(const Version &version) {
  std::string line = nameOf(version) + " is ready";
  bool hasProof = version.batch && version.batch->batching != BatchInfo::State::None;
  return hasProof ? fmt::format("{}; {}", line, describeBatching(version)) : line;
}

} // namespace

std::vector<std::shared_ptr<Version>> ModelManager::beginLoads(FoundModel found, bool isStart) {
  Model &model = models[found.name];
  model.name = found.name;
  model.problem = found.problem;
  std::vector<std::shared_ptr<Version>> begun;
  for (const std::string &note : found.config.notes) {
    options.log(note, LogLevel::Warning);
  }
  if (found.versions.empty()) {
    found.versions.emplace_back(); // what is asked of the model, and counted of it, needs one
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
    std::shared_ptr<Version> &present = model.versions[versionNumber(each.version).value_or(0)];
    if (present) {
      version->statistics = present->statistics;
    }
    if (!present || !present->isServing()) {
      present = version; // else it takes its place once it is ready
    }
    begun.push_back(version);
    Status problem = found.problem.isOk() ? each.problem : found.problem;
    problem.isOk() ? loadAgain(version) : completeLoad(version, problem.prefix(nameOf(*version)));
  }
  return begun;
}

Status ModelManager::place(Version &version) {
  if (version.device) {
    return Status::ok();
  }
  bool runsOnGpu = false;
  if (!options.gpus.empty() && version.config.placement.kind != Placement::Kind::Cpu) {
    TENON_TRY(openEngine(version)); // its size counts too
    Result<std::vector<engine::Architecture>> architectures =
        engine::readArchitectures(version.file.get());
    // What is wrong with an engine, the worker tells.
    runsOnGpu =
        architectures.isOk() && std::find(architectures->begin(), architectures->end(),
                                          engine::Architecture::Nvptx) != architectures->end();
  }
  std::vector<uint64_t> taken(options.gpus.size());
  for (const std::unique_ptr<WorkerSlot> &slot : slots) {
    for (const auto &[key, each] : slot->versions()) {
      if (!slot->device.isCpu()) {
        taken[*slot->device.gpu] += neededBytes(*each);
      }
    }
  }
  TENON_ASSIGN(version.device, chooseDevice(version.config.placement, runsOnGpu, taken));
  return Status::ok();
}

void ModelManager::loadAgain(const std::shared_ptr<Version> &version) {
  if (version->state != VersionState::Unloading) {
    version->state = VersionState::Loading;
  }
  Status placed = place(*version);
  if (!placed.isOk()) {
    completeLoad(version, placed.prefix(nameOf(*version)));
    return;
  }
  WorkerSlot &slot = chooseSlot(*version);
  WorkerSlot *from = std::exchange(version->worker, &slot);
  uint64_t oldKey = std::exchange(version->key, ++lastKey);
  slot.add(version);
  if (from) {
    from->remove(oldKey);
    releaseIfEmpty(*from);
  }
  version->needsLoad = true;
  version->isLeaving = false;
  sendNextLoad(slot);
}

void ModelManager::sendNextLoad(WorkerSlot &slot) {
  while (!slot.isLoading() && !slot.isRestarting() && !slot.isStopped()) {
    std::shared_ptr<Version> version = slot.nextLoad();
    if (!version) {
      return;
    }
    Status problem = openEngine(*version);
    Room room = problem.isOk() ? makeRoom(*version) : Room::Free;
    if (room == Room::Later && version->isInitial) {
      version->state = VersionState::Cold;
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
      problem = noRoom(*version, memoryBudget(slot.device));
    }
    if (problem.isOk() && !slot.start()) {
      return; // it tells when it could
    }
    version->isInitial = false;
    version->bytes = neededBytes(*version);
    if (problem.isOk()) {
      problem = slot.load(*version, options.threads);
    }
    if (!problem.isOk()) {
      leaveWorker(*version);
      completeLoad(version, problem.prefix(nameOf(*version)));
    }
  }
}

void ModelManager::loadAnswered(WorkerSlot &slot, const std::shared_ptr<Version> &version,
                                const ControlMessage &message) {
  Status problem;
  if (message.kind == ControlMessage::Kind::LoadFailed) {
    problem = decodeError(message.value, message.text);
    bool mayUseCpu = problem.id() == ErrorId::EngineNoVariant && !slot.device.isCpu() &&
                     version->config.placement.kind == Placement::Kind::Auto;
    if (mayUseCpu && version->state == VersionState::Loading) {
      options.log(fmt::format("{} runs on the CPU: {}", nameOf(*version), problem.toString()),
                  LogLevel::Warning);
      version->device = Device();
      loadAgain(version);
      return;
    }
  } else {
    Result<ModelInfo> info = decodeModelInfo(message.text);
    problem = info.isOk() ? Status::ok() : info.takeStatus();
    if (problem.isOk()) {
      constexpr uint64_t kMaxBytes = uint64_t(1) << 50; // no sum overflows
      version->ports = std::move(info->ports);
      version->sharedBytes = std::min(info->sharedBytes, kMaxBytes);
      // Of the first load it was an estimate; later ones take what runs took before.
      version->bytes =
          std::max(version->batch ? version->bytes : 0, std::min(info->bytes, kMaxBytes));
      if (!version->batch) {
        version->batch = std::move(info->batch);
      }
      problem = checkConfig(*version);
      uint64_t budget = memoryBudget(slot.device);
      if (problem.isOk() && !slot.device.isCpu() && budget > 0 && version->bytes > budget) {
        problem = noRoom(*version, budget);
      }
    }
  }
  if (!problem.isOk()) {
    leaveWorker(*version);
  }
  completeLoad(version, problem.prefix(nameOf(*version)));
}

void ModelManager::completeLoad(const std::shared_ptr<Version> &version, Status problem) {
  if (problem.isOk() && version->state == VersionState::Unloading) {
    dispatch(*version); // a version that goes, and whose requests outlived a worker
    finishUnload(*version);
    return;
  }
  version->problem = problem;
  version->state = problem.isOk() ? VersionState::Ready : VersionState::Failed;
  if (problem.isOk()) {
    checkQueued(*version);
  }
  problem.isOk() ? options.log(readyLine(*version))
                 : options.log(problem.toString(), LogLevel::Error);
  if (problem.isOk()) {
    std::shared_ptr<Version> &present =
        models[version->model].versions[*versionNumber(version->number)];
    if (present->order > version->order) {
      unloadVersion(version); // a later load is under way
    } else if (present != version) {
      std::shared_ptr<Version> old = std::exchange(present, version);
      unloadVersion(old);
    }
    dispatch(*version);
  } else {
    notifyProblem(version->model, problem);
    version->instances.clear();
    version->file = Descriptor();
    for (std::shared_ptr<Request> &request : version->queue.takeAll()) {
      end(request, Result<InferResult>(readiness(*version)));
    }
  }
  notifyCompleted(*version);
  retryLoads();
}

void ModelManager::notifyCompleted(Version &version) {
  std::vector<std::function<void()>> waiting = std::move(version.onCompleted);
  version.onCompleted.clear();
  for (std::function<void()> &callback : waiting) {
    callback();
  }
}

void ModelManager::unloadVersion(const std::shared_ptr<Version> &version) {
  if (version->state == VersionState::Failed || version->state == VersionState::Unloaded ||
      version->state == VersionState::Cold) {
    version->state = VersionState::Unloaded;
    version->file = Descriptor();
    return;
  }
  version->state = VersionState::Unloading;
  version->isLeaving = false;
  version->problem = Status::ok();
  finishUnload(*version);
}

void ModelManager::finishUnload(Version &version) {
  if (version.state != VersionState::Unloading || !version.queue.empty() || version.isRunning()) {
    return;
  }
  std::shared_ptr<Version> held =
      version.shared_from_this(); // the worker may have the last other pointer
  version.state = VersionState::Unloaded;
  leaveWorker(version);
  version.instances.clear();
  version.file = Descriptor();
  notifyCompleted(version);
  retryLoads();
}

} // namespace tenon::server
