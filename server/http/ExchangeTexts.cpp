// Replies of language models, whole and in parts.

#include "server/http/Exchange.h"
#include "server/http/ServerContext.h"

#include <memory>
#include <string>
#include <utility>

namespace tenon::server {

void HttpExchange::continueText() {
  TextCall::Events events;
  events.onFailure = [self = shared_from_this()](const Status &why) {
    self->text = nullptr;
    self->fail(why);
  };
  events.onWhole = [self = shared_from_this()](std::string json) {
    self->text = nullptr;
    self->answerText(std::move(json));
  };
  events.onBegin = [self = shared_from_this()] {
    self->parts = std::make_shared<ReplyStream>();
    self->reply = HttpReply();
    self->reply.contentType = "text/event-stream";
    self->reply.fields.emplace_back("Cache-Control", "no-cache");
    self->reply.stream = self->parts;
    self->answer(std::move(self->reply));
  };
  events.onPart = [self = shared_from_this()](std::string part, bool isLast) {
    self->sendPart(std::move(part), isLast);
  };
  for (TextAsk &ask : asked->asks) {
    // What a client asked is not to be told by the time that another's answer takes.
    ask.salt = request.client;
  }
  asked->trace = request.trace;
  Result<std::shared_ptr<TextCall>> begun =
      server.api.continueText(std::move(*asked), server.memory, std::move(events));
  body = nullptr;
  if (!begun.isOk()) {
    fail(begun.status());
    return;
  }
  text = std::move(*begun);
}

void HttpExchange::sendPart(std::string part, bool isLast) {
  text = isLast ? nullptr : text;
  if (!parts->append(std::move(part), isLast) && text) {
    std::exchange(text, nullptr)->cancel();
    parts->append(openAiErrorEvent(Status::error(ErrorId::ClientTooSlow,
                                                 "the client takes the answer too slowly")),
                  true);
  }
}

} // namespace tenon::server
