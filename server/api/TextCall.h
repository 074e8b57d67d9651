// One request of OpenAI's interface, from what was asked to its reply: the texts that it needs, and
// what is made of their pieces. One thread, that of the models.

#pragma once

#include "server/api/ErrorRing.h"
#include "server/api/ModelServer.h"
#include "server/protocol/OpenAiReply.h"
#include "server/protocol/OpenAiRequest.h"

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace tenon::server {

class TextCall : public std::enable_shared_from_this<TextCall> {
public:
  /// What the transport does with a reply. Of the first three one is called, once; the fourth as
  /// often as there is something, behind onBegin.
  struct Events {
    std::function<void(const Status &)> onFailure;
    std::function<void(std::string json)> onWhole;
    std::function<void()> onBegin; ///< the reply is a stream
    /// Nothing comes behind the last.
    std::function<void(std::string events, bool isLast)> onPart;
  };

  /// Where an error is given, nothing is called.
  static Result<std::shared_ptr<TextCall>> begin(ModelServer &models, ErrorRing &errors,
                                                 MemoryBudget &budget, OpenAiRequest request,
                                                 Events events);
  /// The client has gone: nothing is called any more.
  void cancel();

private:
  TextCall(ErrorRing &errors, const OpenAiRequest &request, Events events);
  /// Something of prompt `prompt` came.
  void take(uint64_t prompt, const TextEvent &event);
  void fail(const Status &why);
  void finish();
  void cancelRuns();

  ErrorRing &errors;
  const std::string model;
  const uint64_t answers; ///< of each prompt
  const bool streams;
  Events events;
  OpenAiReply reply;
  std::vector<std::shared_ptr<TextRun>> runs; ///< by prompt
  uint64_t unended;                           ///< choices
  bool hasBegun = false, isOver = false;
};

} // namespace tenon::server
