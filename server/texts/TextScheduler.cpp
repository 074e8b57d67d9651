// Ids are never used twice: what a worker still sends of an answer that was cancelled means none.

#include "server/texts/TextScheduler.h"

#include "server/protocol/ErrorMap.h"
#include "support/WallClock.h"

#include <boost/asio/post.hpp>
#include <fmt/format.h>

#include <algorithm>

namespace tenon::server {

Status TextScheduler::checkText(const TextRun &run) const {
  if (!version.isKnown()) {
    return Status::ok(); // resume looks again
  }
  if (!version.language) {
    return Status::error(ErrorId::NotServed,
                         fmt::format("{} is not a language model", version.title()),
                         "GET v1/models lists those that are");
  }
  bool isChat = std::holds_alternative<std::vector<ChatMessage>>(run.ask.prompt);
  return isChat && !version.language->hasTemplate
             ? Status::error(ErrorId::ChatTemplateMissing,
                             fmt::format("{} has no chat template", version.title()),
                             "send the prompt to v1/completions")
             : Status::ok();
}

Status TextScheduler::admitText(const TextRun &run) const {
  TENON_TRY(checkText(run));
  uint64_t open = answers.size();
  for (const std::shared_ptr<TextRun> &each : line) {
    open += each->ask.count;
  }
  uint64_t waits = open - std::min(open, lastLoad.running);
  return waits < context.maxQueued
             ? Status::ok()
             : Status::error(ErrorId::QueueFull,
                             fmt::format("{} answers are already waiting for model '{}'", waits,
                                         version.model),
                             "send fewer requests at once, or try again later");
}

Status TextScheduler::submit(const std::shared_ptr<TextRun> &run) {
  Status status = admitText(*run);
  if (!status.isOk()) {
    version.statistics->rejected += status.id() == ErrorId::QueueFull;
    count(*run, status);
    return status;
  }
  run->ask.id = lastId + 1;
  lastId += run->ask.count;
  version.lastUse = run->arrival;
  line.push_back(run);
  // Later: the caller must have the run before anything of it comes.
  boost::asio::post(context.executor, [this, held = run->version] {
    residency.wake(held);
    dispatchTexts();
  });
  return Status::ok();
}

void TextScheduler::dispatchTexts() {
  while (channel && version.takesRuns() && !line.empty()) {
    std::shared_ptr<TextRun> run = line.front();
    line.pop_front();
    if (uint64_t &left = run->ask.timeoutMicroseconds; left > 0) {
      uint64_t since = nanosecondsSince(run->arrival) / 1000;
      if (since >= left) {
        expire(run);
        continue;
      }
      left -= since;
    }
    for (uint64_t i = 0; i < run->ask.count; ++i) {
      answers[run->ask.id + i] = {run, run->arrival};
    }
    version.statistics->queue.add(nanosecondsSince(run->arrival));
    run->sent = Clock::now();
    channel->send(run->ask);
    run->ask.prompt = std::string();
    run->charge.release();
  }
}

/// A request has reached its time while the model was loaded.
void TextScheduler::expire(const std::shared_ptr<TextRun> &run) {
  Status why = Status::error(
      ErrorId::RequestTimedOut,
      fmt::format("{} was loaded for longer than the request's timeout", version.title()),
      "allow more time");
  count(*run, why);
  run->unended = 0;
  run->notify(TextFailed{run->ask.id, why});
}

void TextScheduler::cancel(const std::shared_ptr<TextRun> &run) {
  run->forget();
  if (run->unended == 0) {
    return;
  }
  run->unended = 0;
  version.statistics->cancelled += !run->isFailed;
  line.remove(run);
  for (uint64_t i = 0; i < run->ask.count; ++i) {
    if (answers.erase(run->ask.id + i) > 0 && channel) {
      channel->send(TextCancel{run->ask.id + i});
    }
  }
  residency.settle(version);
}

std::string TextScheduler::describe() const {
  return version.language
             ? fmt::format("a language model of {} positions{}", version.language->positions,
                           version.language->hasTemplate ? ""
                                                         : ", without a chat "
                                                           "template")
             : BatchScheduler::describe();
}

void TextScheduler::resume() {
  BatchScheduler::resume();
  Descriptor socket = version.takeTextSocket();
  if (version.language && socket.isOpen()) {
    TextChannel::Events events;
    events.onStep = [this](const TextStep &step) {
      std::shared_ptr<Version> held = version.shared_from_this();
      handle(step);
    };
    events.onEnd = [this](bool isDamaged) {
      std::shared_ptr<Version> held = version.shared_from_this();
      channel.reset();
      // Answers of its process end with that: the reason is how it ends.
      if ((isDamaged || !answers.empty()) && version.worker() && version.worker()->isRunning()) {
        version.worker()->breakOff();
      }
    };
    channel = std::make_unique<TextChannel>(context.executor, std::move(socket), std::move(events));
  }
  std::list<std::shared_ptr<TextRun>> kept;
  for (const std::shared_ptr<TextRun> &run : std::exchange(line, {})) {
    Status status = checkText(*run); // it came before the model was known
    if (status.isOk()) {
      kept.push_back(run);
    } else {
      count(*run, status);
      run->unended = 0;
      run->notify(TextFailed{run->ask.id, status});
    }
  }
  line.splice(line.begin(), kept);
  dispatchTexts();
}

void TextScheduler::handle(const TextStep &step) {
  lastLoad = step.load.value_or(lastLoad);
  bool hadSome = !answers.empty();
  for (const TextEvent &event : step.events) {
    std::visit([&](const auto &each) { handle(each); }, event);
  }
  if (hadSome && answers.empty()) {
    residency.settle(version);
  }
}

void TextScheduler::handle(const TextBegun &begun) {
  std::map<uint64_t, Open>::iterator found = answers.find(begun.id);
  if (found != answers.end() && begun.id == found->second.run->ask.id) {
    version.statistics->texts.promptTokens += begun.promptTokens;
    found->second.run->notify(begun);
  }
}

void TextScheduler::handle(const TextPiece &piece) {
  std::map<uint64_t, Open>::iterator found = answers.find(piece.id);
  if (found == answers.end()) {
    return; // it was cancelled
  }
  Open &open = found->second;
  std::shared_ptr<TextRun> run = open.run;
  TextStatistics &texts = version.statistics->texts;
  uint64_t since = nanosecondsSince(open.lastPiece);
  (std::exchange(open.hasBegun, true) ? texts.nextToken : texts.firstToken).add(since);
  open.lastPiece = Clock::now();
  ++texts.answerTokens;
  texts.cachedTokens += piece.cachedTokens;
  bool isLast = piece.finish != TextFinish::None;
  if (isLast) {
    answers.erase(found);
    end(run);
  }
  run->notify(piece);
}

void TextScheduler::handle(const TextFailed &failed) {
  std::map<uint64_t, Open>::iterator found = answers.find(failed.id);
  if (found == answers.end()) {
    return;
  }
  std::shared_ptr<TextRun> run = found->second.run;
  answers.erase(found);
  if (!std::exchange(run->isFailed, true)) {
    count(*run, failed.why);
  }
  end(run);
  run->notify(failed);
}

void TextScheduler::handle(const TextPreempted &preempted) {
  std::map<uint64_t, Open>::iterator found = answers.find(preempted.id),
                                     winner = answers.find(preempted.winner);
  if (found == answers.end() || winner == answers.end() ||
      Clock::now() - noted < std::chrono::seconds(1)) {
    return;
  }
  noted = Clock::now();
  std::string why = preempted.pagesShort > 0
                        ? fmt::format("pages are short by {}", preempted.pagesShort)
                        : "as many answers run as may";
  residency.log(fmt::format("{}: an answer of {} gives way to one of {}, since {}; {} tokens are "
                            "computed again",
                            version.title(), found->second.run->name, winner->second.run->name, why,
                            preempted.tokensLost));
}

void TextScheduler::end(const std::shared_ptr<TextRun> &run) {
  --run->unended;
  if (run->unended > 0 || run->isFailed) {
    return;
  }
  VersionStatistics &statistics = *version.statistics;
  uint64_t total = nanosecondsSince(run->arrival);
  statistics.success.add(total);
  statistics.request.add(total);
  statistics.lastInference = static_cast<uint64_t>(wallClock());
}

bool TextScheduler::workerEnded(const Status &why) {
  channel.reset();
  lastLoad = {};
  std::vector<uint64_t> ids;
  for (const auto &[id, open] : answers) {
    ids.push_back(id);
  }
  for (uint64_t id : ids) {
    handle(TextFailed{id, why});
  }
  return !ids.empty();
}

void TextScheduler::fail(const Status &why) {
  BatchScheduler::fail(why);
  for (const std::shared_ptr<TextRun> &run : std::exchange(line, {})) {
    // What is wrong with the version is no error of the request's.
    Status told = wireStatusOf(why.id()).http >= 500 ? why : version.readiness();
    count(*run, told);
    run->unended = 0;
    run->notify(TextFailed{run->ask.id, told});
  }
}

void TextScheduler::count(const TextRun &run, const Status &why) {
  unsigned http = wireStatusOf(why.id()).http;
  VersionStatistics &statistics = *version.statistics;
  statistics.failure.add(nanosecondsSince(run.arrival));
  statistics.invalid += http >= 400 && http < 500 && why.id() != ErrorId::QueueFull;
  statistics.timedOut += why.id() == ErrorId::RequestTimedOut;
}

} // namespace tenon::server
