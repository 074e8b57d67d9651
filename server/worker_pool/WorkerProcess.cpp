// posix_spawn with exactly the descriptors of Control.h; a pidfd tells of the end.

#include "server/worker_pool/WorkerProcess.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <csignal>
#include <fstream>

#include <fcntl.h>
#include <spawn.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

namespace tenon::server {
namespace {

namespace asio = boost::asio;

constexpr uint64_t kMinBufferBytes = 64 << 10;
constexpr uint64_t kMaxBufferBytes = uint64_t(4) << 30;
/// Shared buffers beyond this, or this part of the budget, are freed when they come back.
constexpr uint64_t kMaxIdle = 256 << 20;
constexpr uint64_t kMaxIdlePart = 4;
constexpr int kSocketBuffer = 1 << 20;

Status notStarted(std::string_view what) {
  return Status::error(ErrorId::ThreadStartFailed,
                       fmt::format("a worker process cannot be started: {}", what),
                       "check the limits of processes, memory and open files (ulimit -a)");
}

/// The environment of a worker: ours, but for the GPUs.
std::vector<std::string> environmentOf(const WorkerProcess::Command &command) {
  constexpr std::string_view kVisible("CUDA_VISIBLE_DEVICES=");
  std::vector<std::string> environment = {std::string(kVisible) + command.visibleGpus};
  for (char **each = environ; *each; ++each) {
    if (!std::string_view(*each).starts_with(kVisible)) {
      environment.emplace_back(*each);
    }
  }
  return environment;
}

/// As posix_spawn takes them.
std::vector<char *> pointersTo(const std::vector<std::string> &texts) {
  std::vector<char *> pointers;
  for (const std::string &text : texts) {
    pointers.push_back(const_cast<char *>(text.c_str()));
  }
  pointers.push_back(nullptr);
  return pointers;
}

Result<pid_t> spawn(const WorkerProcess::Command &command, int socket, int doneEvent) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  // Both targets lie above 2, and both sources above both targets: see the caller.
  posix_spawn_file_actions_adddup2(&actions, socket, kWorkerSocket);
  posix_spawn_file_actions_adddup2(&actions, doneEvent, kWorkerDoneEvent);
  posix_spawn_file_actions_addclosefrom_np(&actions, kWorkerDoneEvent + 1);
  const std::vector<std::string> environment = environmentOf(command);
  pid_t process = -1;
  int error = posix_spawn(&process, command.arguments[0].c_str(), &actions, nullptr,
                          pointersTo(command.arguments).data(), pointersTo(environment).data());
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) {
    return notStarted(std::generic_category().message(error));
  }
  return process;
}

/// Few sizes, so that buffers fit others; a quarter more than asked at most.
uint64_t bufferSize(uint64_t bytes) {
  uint64_t step = std::bit_ceil(std::max(bytes, kMinBufferBytes)) / 8;
  return std::max(kMinBufferBytes, (bytes + step - 1) / step * step);
}

/// The same descriptor above those that a worker starts with.
Descriptor above(Descriptor descriptor) {
  return Descriptor(fcntl(descriptor.get(), F_DUPFD_CLOEXEC, kWorkerDoneEvent + 1));
}

} // namespace

Result<std::shared_ptr<SharedBuffer>> SharedBufferPool::take(uint64_t bytes) {
  if (bytes > kMaxBufferBytes) {
    return Status::error(ErrorId::RequestTooLarge,
                         fmt::format("inputs or outputs of the request need {} bytes, more than {}",
                                     bytes, kMaxBufferBytes));
  }
  uint64_t size = bufferSize(bytes);
  MemoryCharge charge(budget);
  TENON_TRY(charge.resize(size));
  std::unique_ptr<SharedBuffer> buffer;
  std::vector<std::unique_ptr<SharedBuffer>> &stack = idle[size];
  if (!stack.empty()) {
    buffer = std::move(stack.back());
    stack.pop_back();
    idleBytes -= size;
  } else {
    buffer = std::make_unique<SharedBuffer>();
    buffer->number = ++lastNumber;
    TENON_ASSIGN(buffer->memory, SharedMemory::create(size));
    ControlMessage message = {ControlMessage::Kind::Buffer, buffer->number, size, "", {}};
    message.descriptors.push_back(buffer->memory->takeDescriptor());
    if (!sendControl(socket, message).isOk()) {
      return Status::error(ErrorId::WorkerLost,
                           "the worker process ended before it ran the request",
                           "see the server's log; the worker is restarted");
    }
  }
  buffer->charge = std::move(charge);
  return std::shared_ptr<SharedBuffer>(
      buffer.release(), [pool = weak_from_this()](SharedBuffer *back) {
        std::unique_ptr<SharedBuffer> owned(back);
        if (std::shared_ptr<SharedBufferPool> alive = pool.lock()) {
          alive->giveBack(std::move(owned));
        }
      });
}

void SharedBufferPool::giveBack(std::unique_ptr<SharedBuffer> buffer) {
  uint64_t size = buffer->memory->bytes().size();
  buffer->charge.release();
  if (socket < 0) {
    return;
  }
  uint64_t most = budget ? std::min(kMaxIdle, budget->limit() / kMaxIdlePart) : kMaxIdle;
  if (idleBytes + size > most) {
    // Where the message is lost the worker keeps a mapping; it is about to end then.
    static_cast<void>(
        sendControl(socket, {ControlMessage::Kind::DropBuffer, buffer->number, 0, "", {}}));
    return;
  }
  idleBytes += size;
  idle[size].push_back(std::move(buffer));
}

Result<std::unique_ptr<WorkerProcess>> WorkerProcess::start(asio::any_io_executor executor,
                                                            const Command &command, Events events) {
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) {
    return notStarted("no socket");
  }
  Descriptor ours = above(Descriptor(pair[0])), theirs = above(Descriptor(pair[1]));
  Descriptor done = above(Descriptor(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)));
  if (!ours.isOpen() || !theirs.isOpen() || !done.isOpen()) {
    return notStarted("no descriptor");
  }
  for (int socket : {ours.get(), theirs.get()}) {
    setsockopt(socket, SOL_SOCKET, SO_SNDBUF, &kSocketBuffer, sizeof(kSocketBuffer));
  }
  TENON_ASSIGN(pid_t process, spawn(command, theirs.get(), done.get()));
  std::unique_ptr<WorkerProcess> worker(new WorkerProcess(executor, std::move(events)));
  worker->process = process;
  Descriptor exited(static_cast<int>(syscall(SYS_pidfd_open, process, 0)));
  if (!exited.isOpen()) {
    return notStarted("no descriptor of the process");
  }
  worker->pool = std::make_shared<SharedBufferPool>(ours.get(), command.budget);
  worker->socket.assign(ours.release());
  worker->done.assign(done.release());
  worker->exited.assign(exited.release());
  worker->awaitMessage();
  worker->awaitAnswers();
  worker->awaitEnd();
  return worker;
}

WorkerProcess::~WorkerProcess() {
  *isAlive = false;
  if (pool) {
    pool->close();
  }
  if (process > 0) {
    kill(process, SIGKILL);
    waitpid(process, nullptr, 0);
  }
}

void WorkerProcess::send(const ControlMessage &message) {
  if (process > 0 && !sendControl(socket.native_handle(), message).isOk()) {
    end();
  }
}

void WorkerProcess::end() {
  if (process > 0) {
    kill(process, SIGKILL);
  }
}

bool WorkerProcess::isConfined() const {
  std::ifstream status(fmt::format("/proc/{}/status", process));
  std::string line;
  while (std::getline(status, line)) {
    if (line.starts_with("Seccomp:")) {
      return line.ends_with("2"); // filter mode
    }
  }
  return false;
}

void WorkerProcess::awaitMessage() {
  socket.async_wait(asio::posix::stream_descriptor::wait_read,
                    [this, alive = isAlive](boost::system::error_code error) {
                      bool isEnd = false, isNone = false;
                      while (*alive && !error && !isNone) {
                        ControlMessage message;
                        Status status =
                            receiveControl(socket.native_handle(), false, message, &isEnd, &isNone);
                        if (isEnd) {
                          return; // awaitEnd tells of it
                        }
                        if (!status.isOk()) {
                          kill(process, SIGKILL);
                          return;
                        }
                        if (!isNone) {
                          events.onMessage(std::move(message));
                        }
                      }
                      if (*alive && !error) {
                        awaitMessage();
                      }
                    });
}

void WorkerProcess::awaitAnswers() {
  done.async_wait(asio::posix::stream_descriptor::wait_read,
                  [this, alive = isAlive](boost::system::error_code error) {
                    if (!*alive || error) {
                      return;
                    }
                    uint64_t count = 0;
                    if (read(done.native_handle(), &count, sizeof(count)) == sizeof(count)) {
                      events.onAnswers();
                    }
                    if (*alive) {
                      awaitAnswers();
                    }
                  });
}

void WorkerProcess::awaitEnd() {
  exited.async_wait(asio::posix::stream_descriptor::wait_read,
                    [this, alive = isAlive](boost::system::error_code error) {
                      if (!*alive || error) {
                        return;
                      }
                      int how = 0;
                      waitpid(process, &how, 0);
                      process = -1;
                      pool->close();
                      takeLastWords();
                      std::function<void(int)> onEnd = std::move(events.onEnd);
                      onEnd(how);
                    });
}

void WorkerProcess::takeLastWords() {
  for (bool isEnd = false, isNone = false; !isEnd && !isNone;) {
    ControlMessage message;
    if (!receiveControl(socket.native_handle(), false, message, &isEnd, &isNone).isOk()) {
      return;
    }
    if (!isEnd && !isNone && message.kind == ControlMessage::Kind::Ending) {
      events.onMessage(std::move(message)); // others' answers come too late
    }
  }
}

} // namespace tenon::server
