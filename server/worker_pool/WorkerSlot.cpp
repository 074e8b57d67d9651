// The process is started by its first load, and then again whenever it ends while something is
// loaded there.

#include "server/worker_pool/WorkerSlot.h"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

namespace tenon::server {
namespace {

/// A worker that ends at once is started this often at most.
constexpr std::chrono::milliseconds kRestartPeriod{200};

using Clock = std::chrono::steady_clock;

Status noDescriptors() {
  return Status::error(ErrorId::TooManyFiles,
                       "no file descriptors are left for a model's engine and instances",
                       "raise the limit with `ulimit -n`");
}

Result<std::unique_ptr<Instance>> makeInstance(ControlMessage &load) {
  std::unique_ptr<Instance> instance = std::make_unique<Instance>();
  instance->key = load.key;
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
  processEvents.onMessage = [this](ControlMessage message) { handle(message); };
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

void WorkerSlot::remove(uint64_t key, uint64_t bytes) {
  bool isThere = wasSent(key) && isRunning();
  keys.erase(key);
  if (isThere) {
    leaving[key] = bytes;
    process->send({ControlMessage::Kind::Unload, key, 0, "", {}});
  }
}

bool WorkerSlot::wasSent(uint64_t key) const {
  std::map<uint64_t, bool>::const_iterator found = keys.find(key);
  return found != keys.end() && found->second;
}

uint64_t WorkerSlot::nextLoad() const {
  std::map<uint64_t, bool>::const_iterator next =
      std::find_if(keys.begin(), keys.end(), [](const auto &each) { return !each.second; });
  return next == keys.end() ? 0 : next->first;
}

Result<LoadedPlaces> WorkerSlot::load(uint64_t key, int file, int draft, const std::string &text,
                                      uint64_t count, unsigned threads) {
  ControlMessage load = {device.isCpu() ? ControlMessage::Kind::Load
                                        : ControlMessage::Kind::LoadOnGpu,
                         key,
                         threads,
                         text,
                         {}};
  load.descriptors.emplace_back(dup(file));
  int pair[2];
  if (!load.descriptors[0].isOpen() ||
      socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) {
    return noDescriptors();
  }
  LoadedPlaces places;
  places.textSocket = Descriptor(pair[0]);
  load.descriptors.emplace_back(pair[1]);
  for (uint64_t i = 0; i < count; ++i) {
    TENON_ASSIGN(std::unique_ptr<Instance> instance, makeInstance(load));
    places.instances.push_back(std::move(instance));
  }
  if (draft >= 0) {
    load.descriptors.emplace_back(dup(draft));
    if (!load.descriptors.back().isOpen()) {
      return noDescriptors();
    }
  }
  keys[key] = true;
  sentKey = key;
  process->send(load);
  return places;
}

void WorkerSlot::run(Instance &instance) {
  running.push_back(&instance);
  instance.slot().requests.fetch_add(1, std::memory_order_release);
  uint64_t one = 1;
  [[maybe_unused]] ssize_t written = write(instance.wake.get(), &one, sizeof(one));
}

uint64_t WorkerSlot::leavingBytes() const {
  uint64_t sum = 0;
  for (const auto &[key, bytes] : leaving) {
    sum += bytes;
  }
  return sum;
}

void WorkerSlot::handle(const ControlMessage &message) {
  if (message.kind == ControlMessage::Kind::Unloaded && leaving.erase(message.key) > 0) {
    events.onFreed();
    return;
  }
  if (message.kind == ControlMessage::Kind::Ending && keys.contains(message.key)) {
    endKey = message.key;
    endReason = decodeError(message.value, message.text);
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
    events.log(fmt::format("the kernel rejects the system call filter: the worker process {} has "
                           "the same rights as the server",
                           name),
               LogLevel::Warning);
  }
  events.onLoad(*this, message);
}

void WorkerSlot::collectAnswers() {
  std::vector<Instance *> answered;
  std::erase_if(running, [&](Instance *each) {
    RequestSlot &slot = each->slot();
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
  for (Instance *instance : answered) {
    events.onAnswer(*instance);
  }
}

void WorkerSlot::ended(int how) {
  collectAnswers(); // those that it gave before its end
  process.reset();
  leaving.clear();
  uint64_t loading = std::exchange(sentKey, 0);
  WorkerEnd end = {how, keys.contains(loading) ? loading : 0, std::exchange(running, {}),
                   std::exchange(endKey, 0), std::exchange(endReason, Status::ok())};
  if (!isEnded) {
    ++lossCount;
    startAgainAt(std::max(Clock::now(), lastStart + kRestartPeriod));
  }
  events.onEnd(*this, end);
}

} // namespace tenon::server
