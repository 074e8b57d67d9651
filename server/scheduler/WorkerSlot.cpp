// The process is started by its first load, and then again whenever it ends while it has versions.

#include "server/scheduler/WorkerSlot.h"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>

#include <fcntl.h>
#include <sys/eventfd.h>
#include <unistd.h>

namespace tenon::server {
namespace {

/// A worker that ends at once is started this often at most.
constexpr std::chrono::milliseconds kRestartPeriod{200};

Status noDescriptors() {
  return Status::error(ErrorId::TooManyFiles, "no descriptors for a model's engine and instances",
                       "raise the limit with `ulimit -n`");
}

Result<std::unique_ptr<Instance>> makeInstance(ControlMessage &load) {
  std::unique_ptr<Instance> instance = std::make_unique<Instance>();
  TENON_ASSIGN(instance->memory, SharedMemory::create(kRequestSlotBytes));
  instance->wake = Descriptor(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  load.descriptors.push_back(instance->memory->takeDescriptor());
  load.descriptors.emplace_back(dup(instance->wake.get()));
  if (!instance->wake.isOpen() || !load.descriptors.back().isOpen()) {
    return noDescriptors();
  }
  return instance;
}

} // namespace

WorkerSlot::WorkerSlot(boost::asio::any_io_executor executor, std::string name, Device device,
                       bool isShared, WorkerProcess::Command command, Events events)
    : name(std::move(name)), device(device), isShared(isShared), command(std::move(command)),
      events(std::move(events)), restart(executor) {}

bool WorkerSlot::start() {
  if (isRunning()) {
    return true;
  }
  lastStart = Clock::now();
  WorkerProcess::Events processEvents;
  processEvents.onMessage = [this](ControlMessage message) { handle(std::move(message)); };
  processEvents.onAnswers = [this] { collectAnswers(); };
  processEvents.onEnd = [this](int how) { ended(how); };
  Result<std::unique_ptr<WorkerProcess>> started =
      WorkerProcess::start(restart.get_executor(), command, std::move(processEvents));
  if (!started.isOk()) {
    events.log(started.status().toString(), LogLevel::Error);
    startAgainAt(lastStart + kRestartPeriod * 5);
    return false;
  }
  process = std::move(*started);
  restarting = false;
  ++startCount;
  return true;
}

void WorkerSlot::startAgainAt(Clock::time_point time) {
  restarting = true;
  restart.expires_at(time);
  restart.async_wait([this](boost::system::error_code error) {
    if (!error && !isEnded && start()) {
      events.onStart(*this);
    }
  });
}

void WorkerSlot::stop() {
  isEnded = true;
  restart.cancel();
  if (process) {
    process->end();
  }
}

void WorkerSlot::add(const std::shared_ptr<Version> &version) { byKey[version->key] = version; }

void WorkerSlot::remove(uint64_t key) {
  std::map<uint64_t, std::shared_ptr<Version>>::iterator found = byKey.find(key);
  if (found == byKey.end()) {
    return;
  }
  std::shared_ptr<Version> version = std::move(found->second);
  byKey.erase(found);
  if (!version->needsLoad && isRunning()) {
    leaving[key] = version->bytes;
    process->send({ControlMessage::Kind::Unload, key, 0, "", {}});
  }
}

std::shared_ptr<Version> WorkerSlot::nextLoad() const {
  std::map<uint64_t, std::shared_ptr<Version>>::const_iterator next = std::find_if(
      byKey.begin(), byKey.end(), [](const auto &each) { return each.second->needsLoad; });
  return next == byKey.end() ? nullptr : next->second;
}

Status WorkerSlot::load(Version &version, unsigned threads) {
  BatchPolicy policy = version.batch ? BatchPolicy() : batchPolicyOf(version.config);
  ControlMessage load = {device.isCpu() ? ControlMessage::Kind::Load
                                        : ControlMessage::Kind::LoadOnGpu,
                         version.key,
                         threads,
                         encodeLoad({version.sha256, std::move(policy)}),
                         {}};
  load.descriptors.emplace_back(dup(version.file.get()));
  if (!load.descriptors[0].isOpen()) {
    return noDescriptors();
  }
  version.instances.clear();
  for (uint64_t i = 0; i < version.config.instances; ++i) {
    TENON_ASSIGN(std::unique_ptr<Instance> instance, makeInstance(load));
    version.instances.push_back(std::move(instance));
  }
  version.needsLoad = false;
  sentKey = version.key;
  process->send(load);
  return Status::ok();
}

void WorkerSlot::run(Version &version, Instance &instance) {
  running.emplace_back(&version, &instance);
  instance.slot().requests.fetch_add(1, std::memory_order_release);
  uint64_t one = 1;
  [[maybe_unused]] ssize_t written = write(instance.wake.get(), &one, sizeof(one));
}

uint64_t WorkerSlot::heldBytes() const {
  uint64_t sum = 0;
  for (const auto &[key, version] : byKey) {
    sum += version->needsLoad ? 0 : version->bytes;
  }
  for (const auto &[key, bytes] : leaving) {
    sum += bytes;
  }
  return sum;
}

uint64_t WorkerSlot::freedSoon() const {
  uint64_t sum = 0;
  for (const auto &[key, version] : byKey) {
    bool goes = version->isLeaving || version->state == VersionState::Unloading;
    sum += goes && !version->needsLoad ? version->bytes : 0;
  }
  for (const auto &[key, bytes] : leaving) {
    sum += bytes;
  }
  return sum;
}

void WorkerSlot::handle(ControlMessage message) {
  if (message.kind == ControlMessage::Kind::Unloaded && leaving.erase(message.key) > 0) {
    events.onFreed();
    return;
  }
  bool isAnswer = message.kind == ControlMessage::Kind::Loaded ||
                  message.kind == ControlMessage::Kind::LoadFailed;
  if (!isAnswer || sentKey == 0 || message.key != sentKey || isEnded) {
    return; // an answer that nobody asked for, of a worker that engines may have taken over: a
            // version that runs stays as it is
  }
  sentKey = 0;
  if (!std::exchange(hasLookedAtProcess, true) && !process->isConfined()) {
    events.log(fmt::format("the kernel refuses a filter of system calls: the worker process {} has "
                           "the rights of the server",
                           name),
               LogLevel::Warning);
  }
  std::map<uint64_t, std::shared_ptr<Version>>::iterator found = byKey.find(message.key);
  events.onLoad(*this, found == byKey.end() ? nullptr : found->second, std::move(message));
}

void WorkerSlot::collectAnswers() {
  std::vector<std::pair<Version *, Instance *>> answered;
  std::erase_if(running, [&](const std::pair<Version *, Instance *> &each) {
    RequestSlot &slot = each.second->slot();
    bool hasAnswer = slot.answers.load(std::memory_order_acquire) ==
                     slot.requests.load(std::memory_order_relaxed);
    // A process that has gone does not go on where it lacked room.
    bool isTaken =
        hasAnswer && (isRunning() || readAnswer(slot).outcome != RequestSlot::Outcome::NeedsRoom);
    if (isTaken) {
      answered.push_back(each);
    }
    return isTaken;
  });
  for (auto &[version, instance] : answered) {
    events.onAnswer(*version, *instance);
  }
}

void WorkerSlot::ended(int how) {
  collectAnswers(); // those that it gave before its end
  process.reset();
  leaving.clear();
  std::map<uint64_t, std::shared_ptr<Version>>::iterator loading =
      byKey.find(std::exchange(sentKey, 0));
  WorkerEnd end = {how, loading == byKey.end() ? nullptr : loading->second,
                   std::exchange(running, {})};
  if (!isEnded) {
    ++lossCount;
    startAgainAt(std::max(Clock::now(), lastStart + kRestartPeriod));
  }
  events.onEnd(*this, end);
}

} // namespace tenon::server
