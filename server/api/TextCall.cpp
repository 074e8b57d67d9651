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
  uint64_t format = ask.options.schema.size() + ask.options.tools.list.size();
  if (const std::string *text = std::get_if<std::string>(&ask.prompt)) {
    return format + text->size();
  }
  if (const std::vector<int32_t> *tokens = std::get_if<std::vector<int32_t>>(&ask.prompt)) {
    return format + tokens->size() * sizeof(int32_t);
  }
  uint64_t bytes = format;
  for (const ChatMessage &message : std::get<std::vector<ChatMessage>>(ask.prompt)) {
    bytes += sizeof(message) + message.content.size() + message.calls.size();
  }
  return bytes;
}

} // namespace

TextCall::TextCall(ErrorRing &errors, const OpenAiRequest &request, Events events)
    : errors(errors), model(request.model), answers(request.answers), id(makeId(request.isChat)),
      streams(request.streams), events(std::move(events)), reply(request, id, wallClock() / 1000),
      unended(request.asks.size() * request.answers) {
  record.trace = request.trace;
  record.model = model;
  record.id = id;
  record.isChat = request.isChat;
  record.time = wallClock();
}

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
      (*run)->name = call->id;
      call->record.version = (*run)->version->number;
      call->runs.push_back(std::move(*run));
    }
    if (!status.isOk()) {
      errors.add(request.model, status);
      call->report(nameOf(status.id()), true);
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
    record.promptTokens += begun->promptTokens;
    return;
  }
  const TextPiece *given = std::get_if<TextPiece>(&event);
  if (!given) {
    return;
  }
  const TextPiece &piece = *given;
  uint64_t choice = prompt * answers + (piece.id - runs[prompt]->ask.id);
  count(piece);
  unended -= piece.finish != TextFinish::None;
  if (events.onPiece) {
    takePiece(choice, piece);
    return;
  }
  reply.add(choice, piece);
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

void TextCall::takePiece(uint64_t choice, const TextPiece &piece) {
  bool isLast = unended == 0;
  if (!isLast) {
    events.onPiece(choice, piece, record, false);
    return;
  }
  isOver = true;
  report(record.end, false);
  Events last = std::exchange(events, {});
  cancelRuns();
  last.onPiece(choice, piece, record, true);
}

void TextCall::count(const TextPiece &piece) {
  if (record.answerTokens == 0) {
    uint64_t since = nanosecondsSince(arrival);
    // What is waited in the worker is a part of it; the way there is counted as waiting, too.
    uint64_t sent =
        static_cast<uint64_t>(std::chrono::nanoseconds(runs.front()->sent - arrival).count());
    record.queue = std::min(sent + piece.waited, since);
    record.prefill = since - record.queue;
  }
  ++record.answerTokens;
  record.cachedTokens += piece.cachedTokens;
  if (piece.finish != TextFinish::None) {
    record.end = piece.finish == TextFinish::Length ? "length" : "stop";
  }
}

void TextCall::report(std::string_view end, bool isFailed) {
  record.end = end;
  record.isFailed = isFailed;
  record.total = nanosecondsSince(arrival);
  if (record.answerTokens == 0) {
    record.queue = record.total;
  }
  if (auto onEnd = std::exchange(events.onEnd, nullptr)) {
    onEnd(record);
  }
}

void TextCall::finish() {
  isOver = true;
  report(record.end, false);
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
  report(nameOf(why.id()), true);
  Events last = std::exchange(events, {});
  cancelRuns();
  if (hasBegun && !last.onPiece) {
    last.onPart(openAiErrorEvent(why), true);
  } else {
    last.onFailure(why);
  }
}

void TextCall::cancel() {
  if (!isOver) {
    report("cancelled", false);
  }
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
