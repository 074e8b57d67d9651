// One request to a language model, from what was asked to its reply: the texts that it needs, and
// what is made of their pieces. One thread, that of the models.

#pragma once

#include "server/api/ErrorRing.h"
#include "server/api/ModelServer.h"
#include "server/protocol/OpenAiReply.h"
#include "server/protocol/OpenAiRequest.h"
#include "server/protocol/TextRecord.h"

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
    /// Where it is set, a request that streams gets each piece as it is instead of the latter two,
    /// and errors behind pieces by onFailure. The record holds what has been counted so far.
    std::function<void(uint64_t choice, const TextPiece &piece, const TextRecord &record,
                       bool isLast)>
        onPiece;
    /// How the request ended, before the last of the others.
    std::function<void(const TextRecord &)> onEnd;
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
  void takePiece(uint64_t choice, const TextPiece &piece);
  void count(const TextPiece &piece);
  /// Reports the end.
  void report(std::string_view end, bool isFailed);

  ErrorRing &errors;
  const std::string model;
  const uint64_t answers; ///< of each prompt
  const std::string id;
  const bool streams;
  Events events;
  OpenAiReply reply;
  std::vector<std::shared_ptr<TextRun>> runs; ///< by prompt
  uint64_t unended;                           ///< choices
  bool hasBegun = false, isOver = false;
  TextRecord record;
  Clock::time_point arrival = Clock::now();
};

} // namespace tenon::server
