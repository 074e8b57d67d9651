// The front reads at any time, so that a send waits for it alone, and for no client.

#include "server/worker/Generation.h"

#include "generate/session/Chat.h"

#include <algorithm>
#include <array>
#include <cerrno>

#include <sys/socket.h>
#include <unistd.h>

namespace tenon::server {
namespace {

/// Of one message of the front; it refuses larger bodies itself.
constexpr uint64_t kMaxCommand = uint64_t(4) << 30;

generate::GenerateOptions optionsOf(const TextOptions &asked) {
  generate::GenerateOptions options;
  options.sampling = {.temperature = asked.temperature,
                      .topK = static_cast<int64_t>(asked.topK),
                      .topP = asked.topP,
                      .minP = asked.minP,
                      .repetition = asked.repetition,
                      .frequency = asked.frequency,
                      .presence = asked.presence,
                      .seed = asked.seed,
                      .bias = asked.bias};
  options.stops = asked.stops;
  options.topTokens = static_cast<int64_t>(asked.topTokens);
  return options;
}

TextFinish finishOf(const std::optional<generate::Finish> &finish) {
  if (!finish) {
    return TextFinish::None;
  }
  switch (*finish) {
  case generate::Finish::Stop:
    return TextFinish::Stop;
  case generate::Finish::Length:
    return TextFinish::Length;
  case generate::Finish::End:
  case generate::Finish::Cancelled:
    break;
  }
  return TextFinish::End;
}

} // namespace

Result<std::unique_ptr<Generation>>
Generation::create(std::unique_ptr<generate::LanguageModel> model,
                   const generate::ServiceOptions &options) {
  TENON_ASSIGN(std::unique_ptr<generate::TextService> service,
               generate::TextService::create(*model, options));
  return std::unique_ptr<Generation>(new Generation(std::move(model), std::move(service)));
}

void Generation::start(Descriptor textSocket) {
  socket = std::move(textSocket);
  reader = std::thread([this] { read(); });
  stepper = std::thread([this] { work(); });
}

Generation::~Generation() {
  if (!reader.joinable()) {
    return;
  }
  shutdown(socket.get(), SHUT_RDWR); // the reader wakes, and has the other end
  reader.join();
  stepper.join();
}

void Generation::read() {
  TextFrames frames(kMaxCommand);
  std::array<char, 64 << 10> buffer;
  bool isGood = true;
  while (isGood) {
    ssize_t bytes = recv(socket.get(), buffer.data(), buffer.size(), 0);
    if (bytes < 0 && errno == EINTR) {
      continue;
    }
    if (bytes <= 0) {
      break;
    }
    frames.append({buffer.data(), static_cast<size_t>(bytes)});
    for (bool hasMore = true; isGood && hasMore;) {
      Result<std::optional<std::string_view>> message = frames.next();
      isGood = message.isOk();
      hasMore = isGood && message->has_value();
      isGood = isGood && (!hasMore || handle(**message));
    }
  }
  shutdown(socket.get(), SHUT_RDWR);
  std::lock_guard guard(lock);
  isEnding = true;
  added.notify_one();
}

bool Generation::handle(std::string_view message) {
  Result<TextCommand> command = decodeCommand(message);
  if (!command.isOk()) {
    return false;
  }
  if (const TextCancel *cancel = std::get_if<TextCancel>(&*command)) {
    std::lock_guard guard(lock);
    pending.cancelled.push_back(cancel->id);
    added.notify_one();
    return true;
  }
  const TextAsk &ask = std::get<TextAsk>(*command);
  Status status;
  try {
    status = prepare(ask);
  } catch (const std::exception &) {
    status = Status::error(ErrorId::OutOfMemory, "out of memory for a prompt");
  }
  if (!status.isOk()) {
    TextStep failed;
    for (uint64_t i = 0; i < ask.count; ++i) {
      failed.events.push_back(TextFailed{ask.id + i, status});
    }
    send(encodeStep(failed));
  }
  return true;
}

Result<std::vector<int32_t>> Generation::tokensOf(const TextAsk &ask) const {
  if (const std::vector<int32_t> *tokens = std::get_if<std::vector<int32_t>>(&ask.prompt)) {
    return *tokens;
  }
  if (const std::string *text = std::get_if<std::string>(&ask.prompt)) {
    return model->tokenizer().encode(*text);
  }
  std::vector<generate::Message> messages;
  for (const ChatMessage &message : std::get<std::vector<ChatMessage>>(ask.prompt)) {
    messages.push_back({message.role, message.content});
  }
  TENON_ASSIGN(generate::jinja::Text text,
               generate::renderChat(model->facts().chatTemplate, messages, model->tokenizer()));
  return generate::encodeChat(text, model->tokenizer());
}

Status Generation::prepare(const TextAsk &ask) {
  TENON_ASSIGN(std::vector<int32_t> prompt, tokensOf(ask));
  const generate::ModelFacts &facts = service->modelFacts();
  TENON_TRY(facts.checkRoom(prompt.size()));
  generate::GenerateOptions options = optionsOf(ask.options);
  // The last token of an answer needs no position.
  int64_t room = facts.positions - static_cast<int64_t>(prompt.size()) + 1;
  options.maxTokens = ask.options.maxTokens == 0
                          ? room
                          : std::min(static_cast<int64_t>(ask.options.maxTokens), room);
  TextStep begun;
  begun.events.push_back(TextBegun{ask.id, prompt.size()});
  send(encodeStep(begun));
  std::lock_guard guard(lock);
  for (uint64_t i = 0; i < ask.count; ++i) {
    generate::TextRequest request;
    request.id = ask.id + i;
    request.prompt = prompt;
    request.options = options;
    request.options.sampling.seed += i;
    request.salt = ask.salt;
    pending.submissions.push_back({std::move(request), ask.options.givesTokens});
  }
  added.notify_one();
  return Status::ok();
}

void Generation::work() {
  TextStep first; // what there is, before anything is asked
  report(first);
  for (;;) {
    Work work;
    {
      std::unique_lock guard(lock);
      added.wait(guard, [&] {
        return isEnding || !service->isIdle() || !pending.submissions.empty() ||
               !pending.cancelled.empty();
      });
      if (isEnding) {
        return;
      }
      work = std::exchange(pending, {});
    }
    TextStep out;
    take(std::move(work), out);
    if (!service->isIdle()) {
      step(out);
    }
    report(out);
  }
}

void Generation::report(TextStep &out) {
  generate::ServiceStatistics counted = service->statistics();
  out.load = {.running = static_cast<uint64_t>(counted.running),
              .waiting = static_cast<uint64_t>(counted.waiting),
              .pages = static_cast<uint64_t>(counted.pages),
              .pagesUsed = static_cast<uint64_t>(counted.pagesUsed),
              .prefixTokens = counted.scheduler.reusedTokens,
              .preemptions = counted.scheduler.preemptions,
              .recomputedTokens = counted.scheduler.recomputedTokens};
  send(encodeStep(out));
}

void Generation::take(Work work, TextStep &out) {
  for (Submission &submission : work.submissions) {
    uint64_t id = submission.request.id;
    Status status = service->submit(std::move(submission.request));
    if (status.isOk()) {
      open[id] = submission.givesTokens;
    } else {
      out.events.push_back(TextFailed{id, std::move(status)});
    }
  }
  // Behind the submissions: what is cancelled came before.
  for (uint64_t id : work.cancelled) {
    if (open.erase(id) > 0) {
      service->cancel(id);
    }
  }
}

void Generation::step(TextStep &out) {
  Status status = service->step([&](uint64_t id, Result<generate::Piece> piece) {
    std::unordered_map<uint64_t, bool>::iterator found = open.find(id);
    if (found == open.end()) {
      return; // the front does not wait for it any more
    }
    if (!piece.isOk()) {
      out.events.push_back(TextFailed{id, piece.takeStatus()});
      open.erase(found);
      return;
    }
    out.events.push_back(describe(id, found->second, *piece));
    if (piece->finish) {
      open.erase(found);
    }
  });
  if (!status.isOk()) {
    endAll(status, out);
  }
}

void Generation::endAll(const Status &why, TextStep &out) {
  for (const auto &[id, givesTokens] : open) {
    service->cancel(id);
    out.events.push_back(TextFailed{id, why});
  }
  open.clear();
}

TextToken Generation::describe(const generate::Draw &draw, bool givesTokens) const {
  return {draw.token, draw.logprob,
          givesTokens ? std::string(model->tokenizer().bytesOf(draw.token)) : std::string()};
}

TextPiece Generation::describe(uint64_t id, bool givesTokens, const generate::Piece &piece) const {
  TextPiece described;
  described.id = id;
  described.text = piece.text;
  described.token = describe(piece.draw, givesTokens);
  for (const generate::Draw &draw : piece.top) {
    described.top.push_back(describe(draw, true));
  }
  described.finish = finishOf(piece.finish);
  described.cachedTokens = static_cast<uint64_t>(piece.reused);
  return described;
}

void Generation::send(const std::string &message) {
  std::lock_guard guard(sending);
  for (size_t sent = 0; sent < message.size();) {
    ssize_t bytes =
        ::send(socket.get(), message.data() + sent, message.size() - sent, MSG_NOSIGNAL);
    if (bytes < 0 && errno == EINTR) {
      continue;
    }
    if (bytes <= 0) {
      return; // the front has gone, or the model is unloaded: the reader ends it
    }
    sent += static_cast<size_t>(bytes);
  }
}

} // namespace tenon::server
