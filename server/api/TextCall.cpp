// A stream begins with the first piece: what is wrong with a prompt has a status of HTTP.

#include "server/api/TextCall.h"

#include "support/WallClock.h"

#include <fmt/format.h>

#include <random>

namespace tenon::server {
namespace {

std::string makeId(bool isChat) {
  std::random_device device;
  uint64_t bits = (static_cast<uint64_t>(device()) << 32) | device();
  return fmt::format("{}-{:016x}", isChat ? "chatcmpl" : "cmpl", bits);
}

/// Bytes of a prompt, as the front holds it.
uint64_t bytesOf(const TextAsk &ask) {
  if (const std::string *text = std::get_if<std::string>(&ask.prompt)) {
    return text->size();
  }
  if (const std::vector<int32_t> *tokens = std::get_if<std::vector<int32_t>>(&ask.prompt)) {
    return tokens->size() * sizeof(int32_t);
  }
  uint64_t bytes = 0;
  for (const ChatMessage &message : std::get<std::vector<ChatMessage>>(ask.prompt)) {
    bytes += sizeof(message) + message.content.size() + message.calls.size();
  }
  return bytes;
}

} // namespace

TextCall::TextCall(ErrorRing &errors, const OpenAiRequest &request, Events events)
    : errors(errors), model(request.model), answers(request.answers), streams(request.streams),
      events(std::move(events)), reply(request, makeId(request.isChat), wallClock() / 1000),
      unended(request.asks.size() * request.answers) {}

Result<std::shared_ptr<TextCall>> TextCall::begin(ModelServer &models, ErrorRing &errors,
                                                  MemoryBudget &budget, OpenAiRequest request,
                                                  Events events) {
  std::shared_ptr<TextCall> call(new TextCall(errors, request, std::move(events)));
  for (uint64_t i = 0; i < request.asks.size(); ++i) {
    uint64_t bytes = bytesOf(request.asks[i]);
    Result<std::shared_ptr<TextRun>> run =
        models.submitText(request.model, std::move(request.asks[i]), budget,
                          [call, i](const TextEvent &event) { call->take(i, event); });
    Status status = run.isOk() ? (*run)->charge.resize(bytes) : run.takeStatus();
    if (run.isOk()) {
      call->runs.push_back(std::move(*run));
    }
    if (!status.isOk()) {
      errors.add(request.model, status);
      call->cancel();
      return status;
    }
  }
  return call;
}

void TextCall::take(uint64_t prompt, const TextEvent &event) {
  std::shared_ptr<TextCall> self = shared_from_this();
  if (isOver) {
    return;
  }
  if (const TextFailed *failed = std::get_if<TextFailed>(&event)) {
    fail(failed->why);
    return;
  }
  if (const TextBegun *begun = std::get_if<TextBegun>(&event)) {
    reply.begin(begun->promptTokens);
    return;
  }
  const TextPiece &piece = std::get<TextPiece>(event);
  reply.add(prompt * answers + (piece.id - runs[prompt]->ask.id), piece);
  unended -= piece.finish != TextFinish::None;
  if (unended == 0) {
    finish();
    return;
  }
  if (streams && !std::exchange(hasBegun, true)) {
    events.onBegin();
  }
  if (std::string made = reply.takeEvents(); !made.empty() && !isOver) {
    events.onPart(std::move(made), false);
  }
}

void TextCall::finish() {
  isOver = true;
  reply.finish();
  Events last = std::exchange(events, {});
  cancelRuns();
  if (!streams) {
    last.onWhole(reply.whole());
    return;
  }
  if (!std::exchange(hasBegun, true)) {
    last.onBegin();
  }
  last.onPart(reply.takeEvents(), true);
}

void TextCall::fail(const Status &why) {
  isOver = true;
  errors.add(model, why);
  Events last = std::exchange(events, {});
  cancelRuns();
  if (hasBegun) {
    last.onPart(openAiErrorEvent(why), true);
  } else {
    last.onFailure(why);
  }
}

void TextCall::cancel() {
  isOver = true;
  events = {};
  cancelRuns();
}

void TextCall::cancelRuns() {
  for (const std::shared_ptr<TextRun> &run : std::exchange(runs, {})) {
    TextScheduler::of(*run->version).cancel(run);
  }
}

} // namespace tenon::server
