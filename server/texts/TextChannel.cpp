// System calls that do not block, between waits of Asio.

#include "server/texts/TextChannel.h"

#include <array>
#include <cerrno>

#include <sys/socket.h>

namespace tenon::server {
namespace {

/// Of one message of a worker: a step of some hundred answers with twenty tokens to choose from has
/// less.
constexpr uint64_t kMaxStep = 8 << 20;
/// What is read before others have their turn.
constexpr size_t kMaxRead = 1 << 20;

} // namespace

TextChannel::TextChannel(boost::asio::any_io_executor executor, Descriptor given, Events events)
    : events(std::move(events)), socket(executor, given.release()), frames(kMaxStep) {
  awaitSteps();
}

void TextChannel::awaitSteps() {
  socket.async_wait(boost::asio::posix::stream_descriptor::wait_read,
                    [this, alive = isAlive](boost::system::error_code error) {
                      if (*alive && !error && readSteps()) {
                        awaitSteps();
                      }
                    });
}

bool TextChannel::readSteps() {
  std::shared_ptr<bool> alive = isAlive;
  std::array<char, 64 << 10> buffer;
  for (size_t total = 0; total < kMaxRead;) {
    ssize_t bytes = recv(socket.native_handle(), buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (bytes < 0 && errno == EINTR) {
      continue;
    }
    if (bytes < 0 && errno == EAGAIN) {
      return true;
    }
    if (bytes <= 0) {
      end(false);
      return false;
    }
    total += static_cast<size_t>(bytes);
    frames.append({buffer.data(), static_cast<size_t>(bytes)});
    if (!takeSteps()) {
      return false;
    }
  }
  return *alive;
}

bool TextChannel::takeSteps() {
  std::shared_ptr<bool> alive = isAlive;
  while (*alive) {
    Result<std::optional<std::string_view>> message = frames.next();
    if (message.isOk() && !message->has_value()) {
      return true;
    }
    Result<TextStep> step =
        message.isOk() ? decodeStep(**message) : Result<TextStep>(message.takeStatus());
    if (!step.isOk()) {
      end(true);
      return false;
    }
    std::function<void(TextStep)> onStep = events.onStep;
    onStep(std::move(*step));
  }
  return false;
}

void TextChannel::send(const TextCommand &command) {
  outgoing.push_back(encodeCommand(command));
  if (!isWaitingToWrite) {
    write();
  }
}

void TextChannel::write() {
  while (!outgoing.empty()) {
    const std::string &message = outgoing.front();
    ssize_t bytes = ::send(socket.native_handle(), message.data() + sent, message.size() - sent,
                           MSG_DONTWAIT | MSG_NOSIGNAL);
    if (bytes < 0 && errno == EINTR) {
      continue;
    }
    if (bytes < 0 && errno == EAGAIN) {
      isWaitingToWrite = true;
      socket.async_wait(boost::asio::posix::stream_descriptor::wait_write,
                        [this, alive = isAlive](boost::system::error_code error) {
                          if (*alive && !error) {
                            isWaitingToWrite = false;
                            write();
                          }
                        });
      return;
    }
    if (bytes <= 0) {
      outgoing.clear(); // whoever reads finds the end
      sent = 0;
      return;
    }
    sent += static_cast<size_t>(bytes);
    if (sent == message.size()) {
      outgoing.pop_front();
      sent = 0;
    }
  }
}

void TextChannel::end(bool isDamaged) {
  std::function<void(bool)> onEnd = std::move(events.onEnd);
  onEnd(isDamaged);
}

} // namespace tenon::server
