// Two threads besides those of models: this one listens to the front, the other loads and unloads,
// so that a load that takes long delays no shared buffer and no end.

#include "server/worker/Worker.h"

#include "server/ipc/Control.h"
#include "server/worker/LoadedModel.h"
#include "server/worker/Sandbox.h"

#include <csignal>
#include <deque>
#include <malloc.h>
#include <unistd.h>

namespace tenon::server {
namespace {

class Loader {
public:
  explicit Loader(SharedBufferTable &buffers) : buffers(buffers), thread([this] { work(); }) {
    thread.detach();
  }

  void add(ControlMessage message) {
    std::lock_guard guard(lock);
    messages.push_back(std::move(message));
    added.notify_one();
  }

private:
  [[noreturn]] void work() {
    for (;;) {
      ControlMessage message;
      {
        std::unique_lock guard(lock);
        added.wait(guard, [&] { return !messages.empty(); });
        message = std::move(messages.front());
        messages.pop_front();
      }
      ControlMessage answer = perform(message);
      if (!sendControl(kWorkerSocket, answer).isOk()) {
        _exit(1); // the front would wait for the answer for ever
      }
    }
  }

  ControlMessage perform(ControlMessage &message) {
    ControlMessage answer;
    answer.key = message.key;
    if (message.kind == ControlMessage::Kind::Unload) {
      models.erase(message.key);
      malloc_trim(0); // what was freed goes back to the system, for the next model or for others
      answer.kind = ControlMessage::Kind::Unloaded;
      return answer;
    }
    Status failure = load(message, answer);
    if (!failure.isOk()) {
      answer.kind = ControlMessage::Kind::LoadFailed;
      answer.value = static_cast<uint64_t>(failure.id());
      answer.text = encodeError(failure.message(), failure.hint());
    }
    return answer;
  }

  Status load(ControlMessage &message, ControlMessage &answer) {
    try {
      TENON_ASSIGN(std::unique_ptr<LoadedModel> model,
                   LoadedModel::load(message, buffers, kWorkerDoneEvent));
      answer.kind = ControlMessage::Kind::Loaded;
      answer.text = encodeModelInfo(model->info());
      models[message.key] = std::move(model);
      malloc_trim(0); // what loading alone needed
      return Status::ok();
    } catch (const std::exception &) {
      return Status::error(ErrorId::OutOfMemory, "out of memory to load the model");
    }
  }

  SharedBufferTable &buffers;
  std::mutex lock;
  std::condition_variable added;
  std::deque<ControlMessage> messages;
  std::map<uint64_t, std::unique_ptr<LoadedModel>> models; ///< of the loader's thread
  std::thread thread;
};

} // namespace

int runWorker() {
  // Ctrl-C reaches the whole group; the front decides when the worker ends.
  std::signal(SIGINT, SIG_IGN);
  std::signal(SIGTERM, SIG_IGN);
  std::signal(SIGPIPE, SIG_IGN);
  // What threads free is there for the others: an arena of each would keep it, the more the more
  // often they wait for each other.
  mallopt(M_ARENA_MAX, 1);
  enterSandbox();
  SharedBufferTable buffers;
  Loader loader(buffers);
  for (;;) {
    ControlMessage message;
    bool isEnd = false, isNone = false;
    Status received = receiveControl(kWorkerSocket, true, message, &isEnd, &isNone);
    if (isEnd || !received.isOk()) {
      // Threads may be within a run: nothing is taken apart under them.
      _exit(isEnd ? 0 : 1);
    }
    if (message.kind == ControlMessage::Kind::Buffer && message.descriptors.size() == 1) {
      Result<std::unique_ptr<SharedMemory>> buffer =
          SharedMemory::open(std::move(message.descriptors[0]), message.value);
      if (!buffer.isOk()) {
        _exit(1);
      }
      buffers.add(static_cast<uint32_t>(message.key), std::move(*buffer));
    } else if (message.kind == ControlMessage::Kind::DropBuffer) {
      buffers.drop(static_cast<uint32_t>(message.key));
    } else {
      loader.add(std::move(message));
    }
  }
}

} // namespace tenon::server
