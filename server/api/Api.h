// The operations of the server, free of transports: one table says what each is called, who may
// ask for it, how it is performed and what it answers.

#pragma once

#include "server/api/ErrorRing.h"
#include "server/api/ModelServer.h"
#include "server/api/Operations.h"
#include "server/api/RecentTexts.h"
#include "server/api/RecentTraffic.h"
#include "server/api/RegistryAdmin.h"
#include "server/api/TextCall.h"
#include "server/monitoring/Monitoring.h"
#include "server/protocol/Answer.h"
#include "support/WallClock.h"

#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace tenon::server {

struct ConnectionCounts {
  size_t open = 0;
  uint64_t beyondLimit = 0; ///< that came while there were as many as may be
};

class Api {
public:
  /// The table; in Api.cpp.
  struct Operations;

  /// `admin` may be null.
  Api(ModelServer &models, ErrorRing &errors, RegistryAdmin *admin, Monitoring &monitoring,
      const ConnectionCounts &connections, std::string version)
      : models(models), errors(errors), admin(admin), monitoring(monitoring),
        connections(connections), version(std::move(version)) {}

  using OnAnswer = std::function<void(Result<Answer>)>;
  /// Everything but inferences. `body` is the JSON of operations that take one, or empty;
  /// `onAnswer` is called once, now or later, and writes the answer at once.
  void perform(const Question &asked, std::string_view body, OnAnswer onAnswer);

  /// Makes and sends the reply, now or later. The request has what of it the reply needs.
  using OnResult = std::function<void(Result<InferResult>, std::shared_ptr<Request>)>;
  /// Queues an inference for the model and version that are `asked`. `onResult` is called once,
  /// unless the request is cancelled before; never where this gives an error. What `request` refers
  /// to stays until then.
  Result<std::shared_ptr<Request>> infer(const Question &asked, InferRequest request,
                                         OnResult onResult);
  void cancel(const std::shared_ptr<Request> &pending) {
    BatchScheduler::of(*pending->version).cancel(pending);
  }
  /// Has a language model do what is asked, as TextCall::begin.
  Result<std::shared_ptr<TextCall>> continueText(OpenAiRequest request, MemoryBudget &budget,
                                                 TextCall::Events events) {
    events.onEnd = [this](const TextRecord &record) {
      texts.add(record);
      monitoring.continued(record);
    };
    return TextCall::begin(models, errors, budget, std::move(request), std::move(events));
  }
  /// A result could not be turned into a reply.
  void replyFailed(const Request &request, const Status &status);
  /// The reply to a result is written: `begun` is when its making began.
  void countReply(InferResult &result, Clock::time_point begun);

  /// An error that a request of the model had elsewhere than here, for the page.
  void note(std::string_view model, const Status &status) { errors.add(model, status); }

  /// TN0818 where the models come from a folder; TN0815 where nobody there knows the token.
  Result<RegistryAdmin *> registry(const Question &asked) const;

  bool isReady() const { return models.catalog.isReady(); }

private:
  Result<Answer> answer(const Question &asked);

  ModelServer &models;
  ErrorRing &errors;
  RegistryAdmin *admin;
  Monitoring &monitoring;
  const ConnectionCounts &connections;
  std::string version;
  int64_t started = wallClock();
  RecentTraffic recent;
  RecentTexts texts;
};

/// The places of a result's outputs among the model's ports that the request asks for, with how it
/// wants them.
struct AskedOutput {
  size_t port;
  bool isBinary;
};
std::vector<AskedOutput> askedOutputs(const Version &version, const InferRequest &request);
/// The elements of an output, in its shared buffer.
Bytes elementsOf(const InferResult &result, size_t port);

} // namespace tenon::server
