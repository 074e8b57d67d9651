// The front's end of a language model's text socket: commands go out, steps come in, and neither
// side waits for the other. One thread, that of the executor.

#pragma once

#include "server/ipc/Descriptor.h"
#include "server/ipc/TextMessages.h"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>

#include <deque>
#include <functional>
#include <memory>
#include <string>

namespace tenon::server {

class TextChannel {
public:
  struct Events {
    std::function<void(TextStep)> onStep;
    /// The worker closed its end (`isDamaged`: or broke the rules); called once, and nothing after
    /// it. The channel may be destroyed in both.
    std::function<void(bool isDamaged)> onEnd;
  };

  TextChannel(boost::asio::any_io_executor executor, Descriptor socket, Events events);
  ~TextChannel() { *isAlive = false; }
  TextChannel(const TextChannel &) = delete;
  TextChannel &operator=(const TextChannel &) = delete;

  void send(const TextCommand &command);

private:
  void awaitSteps();
  /// Reads what is there, up to a bound. Whether the channel goes on.
  bool readSteps();
  bool takeSteps();
  void write();
  void end(bool isDamaged);

  Events events;
  boost::asio::posix::stream_descriptor socket;
  TextFrames frames;
  std::deque<std::string> outgoing;
  size_t sent = 0; ///< bytes of the first
  bool isWaitingToWrite = false;
  /// Handlers of waits that outlive the object see it empty.
  std::shared_ptr<bool> isAlive = std::make_shared<bool>(true);
};

} // namespace tenon::server
