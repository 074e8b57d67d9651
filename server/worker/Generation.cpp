// The front reads at any time, so that a send waits for it alone, and for no client.

#include "server/worker/Generation.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <iterator>
#include <optional>
#include <utility>

#include <malloc.h>
#include <sys/socket.h>
#include <unistd.h>

namespace tenon::server {
namespace {

/// Of one message of the front; it refuses larger bodies itself.
constexpr uint64_t kMaxCommand = uint64_t(4) << 30;
/// Without requests before steps are rehearsed, and the heap is cut to what is in use.
constexpr std::chrono::milliseconds kQuiet{200};

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
Generation::create(std::unique_ptr<generate::LanguageModel> model, generate::ServiceOptions options,
                   std::function<void(const Status &)> onFailure) {
  std::unique_ptr<Generation> made(new Generation(std::move(model)));
  made->onFailure = std::move(onFailure);
  options.onPreemption = [self = made.get()](const generate::Preemption &preemption) {
    self->preempted.push_back({preemption.id, preemption.winner,
                               static_cast<uint64_t>(preemption.tokensLost),
                               static_cast<uint64_t>(preemption.pagesShort)});
  };
  TENON_ASSIGN(made->service, generate::TextService::create(*made->model, options));
  return made;
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

Status Generation::prepare(const TextAsk &ask) {
  TENON_ASSIGN(std::vector<int32_t> prompt, asks.tokensOf(ask));
  const generate::ModelFacts &facts = service->modelFacts();
  TENON_TRY(facts.checkRoom(prompt.size()));
  generate::GenerateOptions options = optionsOf(ask.options);
  TENON_ASSIGN(options.format, asks.formatOf(ask));
  TENON_ASSIGN(std::optional<generate::ToolFormat> tools, asks.toolsOf(ask));
  options.shown = tools ? tools->markers : std::vector<int32_t>();
  // The last token of an answer needs no position.
  int64_t room = facts.positions - static_cast<int64_t>(prompt.size()) + 1;
  options.maxTokens = ask.options.maxTokens == 0
                          ? room
                          : std::min(static_cast<int64_t>(ask.options.maxTokens), room);
  std::optional<generate::ServiceClock::time_point> deadline;
  if (ask.timeoutMicroseconds > 0) {
    deadline = generate::ServiceClock::now() + std::chrono::microseconds(ask.timeoutMicroseconds);
  }
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
    request.priority = -ask.priority;
    request.deadline = deadline;
    pending.submissions.push_back({std::move(request), ask.options.givesTokens,
                                   tools ? asks.parserOf(ask, *tools) : nullptr});
  }
  added.notify_one();
  return Status::ok();
}

void Generation::work() {
  TextStep first; // what there is, before anything is asked
  report(first);
  auto hasWork = [&] {
    return isEnding || !service->isIdle() || !pending.submissions.empty() ||
           !pending.cancelled.empty();
  };
  for (bool rehearses = true;;) {
    Work work;
    {
      std::unique_lock guard(lock);
      // A first request often comes right behind the load.
      bool isQuiet = !added.wait_for(guard, kQuiet, hasWork);
      while (isQuiet && rehearses && !hasWork()) {
        guard.unlock();
        rehearses = service->rehearse();
        guard.lock();
      }
      if (isQuiet && !hasWork()) {
        malloc_trim(0); // what steps freed goes back to the system
      }
      added.wait(guard, hasWork);
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
  out.load = TextLoad{.running = static_cast<uint64_t>(counted.running),
                      .waiting = static_cast<uint64_t>(counted.waiting),
                      .pages = static_cast<uint64_t>(counted.pages),
                      .pagesUsed = static_cast<uint64_t>(counted.pagesUsed),
                      .prefixTokens = counted.scheduler.reusedTokens,
                      .preemptions = counted.scheduler.preemptions,
                      .recomputedTokens = counted.scheduler.recomputedTokens,
                      .draftTokens = counted.scheduler.draftTokens,
                      .acceptedTokens = counted.scheduler.acceptedTokens};
  send(encodeStep(out));
}

void Generation::take(Work work, TextStep &out) {
  for (Submission &submission : work.submissions) {
    uint64_t id = submission.request.id;
    Status status = service->submit(std::move(submission.request));
    if (status.isOk()) {
      open[id] = {submission.givesTokens, std::move(submission.parser)};
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
    std::unordered_map<uint64_t, Open>::iterator found = open.find(id);
    if (found == open.end()) {
      return; // the front does not wait for it any more
    }
    if (!piece.isOk()) {
      out.events.push_back(TextFailed{id, piece.takeStatus()});
      open.erase(found);
      return;
    }
    TextPiece described = describe(id, found->second, *piece);
    bool isLast = described.finish != TextFinish::None;
    out.events.push_back(std::move(described));
    if (isLast) {
      open.erase(found);
      service->cancel(id); // where a call of a tool is all that was asked for
    }
  });
  std::ranges::copy(std::exchange(preempted, {}), std::back_inserter(out.events));
  if (!status.isOk()) {
    onFailure(status);
    endAll(status, out);
  }
}

void Generation::endAll(const Status &why, TextStep &out) {
  for (const auto &[id, answer] : open) {
    service->cancel(id);
    out.events.push_back(TextFailed{id, why});
  }
  open.clear();
}

TextToken Generation::describe(const generate::Draw &draw, bool givesTokens) const {
  return {draw.token, draw.logprob,
          givesTokens ? std::string(model->tokenizer().bytesOf(draw.token)) : std::string()};
}

TextPiece Generation::describe(uint64_t id, const Open &answer,
                               const generate::Piece &piece) const {
  TextPiece described;
  described.id = id;
  described.text = piece.text;
  described.token = describe(piece.draw, answer.givesTokens);
  for (const generate::Draw &draw : piece.top) {
    described.top.push_back(describe(draw, true));
  }
  described.finish = finishOf(piece.finish);
  described.cachedTokens = static_cast<uint64_t>(piece.reused);
  if (answer.parser) {
    generate::ToolText parsed = answer.parser->add(piece.text);
    if (piece.finish) {
      parsed.append(answer.parser->finish());
    } else if (answer.parser->isOver()) {
      described.finish = TextFinish::Stop;
    }
    described.text = std::move(parsed.content);
    for (generate::CallPart &part : parsed.parts) {
      described.calls.push_back(
          {part.index, std::move(part.id), std::move(part.name), std::move(part.arguments)});
    }
  }
  described.waited = static_cast<uint64_t>(piece.waited * 1e9);
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
