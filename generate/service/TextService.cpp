// Implements a round: the scheduler's step becomes a batch, its logits become pieces. What the
// caller is handed comes last, since it may submit and cancel from within.
#include "generate/service/TextService.h"

#include "support/text/Text.h"

#include <algorithm>

namespace tenon::generate {
namespace {

Status checkService(const ServiceOptions &options) {
  const std::pair<std::string_view, int64_t> numbers[] = {
      {"requests that run", options.maxRunning},
      {"requests that wait", options.maxWaiting},
      {"tokens of a step", options.stepTokens},
      {"prompt tokens of a step", options.promptTokens}};
  if (options.draftTokens < 0) {
    return Status::error(ErrorId::BadArgument,
                         strCat(options.draftTokens, " tokens on a guess: they are from 0"));
  }
  for (auto [what, number] : numbers) {
    if (number < 1) {
      return Status::error(ErrorId::BadArgument,
                           strCat("at most ", number, ' ', what, ": a service has at least one"));
    }
  }
  return Status::ok();
}

/// Positions that a sequence of the model may have in the engine's pages.
int64_t positionsOf(const ModelFacts &facts, const PageFacts &pages) {
  return std::min(facts.positions, pages.page * std::min(pages.pages, pages.table));
}

SchedulerOptions schedulerOptions(const ModelFacts &facts, const PageFacts &pages,
                                  const ServiceOptions &options) {
  int64_t tokens = std::min(options.stepTokens, pages.tokens);
  return {.page = pages.page,
          .pages = pages.pages,
          .positions = positionsOf(facts, pages),
          .stepTokens = tokens,
          .promptTokens = options.promptTokens,
          .maxRunning = std::min({options.maxRunning, pages.sequences, pages.rows, tokens}),
          .maxWaiting = options.maxWaiting,
          .draftTokens = options.draftTokens,
          .maxRows = pages.rows,
          .policy = options.policy};
}

double secondsOf(ServiceClock::duration time) {
  return std::chrono::duration<double>(time).count();
}

} // namespace

Result<std::unique_ptr<TextService>> TextService::create(const LanguageModel &model,
                                                         const ServiceOptions &options) {
  TENON_TRY(checkService(options));
  int64_t pages = options.pages;
  if (pages == 0 && model.pages()) {
    const PageFacts &paged = *model.pages();
    pages = std::min(paged.pages, paged.table * options.maxRunning);
  }
  TENON_ASSIGN(std::unique_ptr<StepEngine> engine,
               model.pages() ? PagedEngine::create(model, options.threads, pages)
                             : SequenceEngine::create(model, options.maxRunning, options.threads));
  return create(model.tokenizer(), model.facts(), std::move(engine), options);
}

Result<std::unique_ptr<TextService>> TextService::create(const Tokenizer &tokenizer,
                                                         const ModelFacts &facts,
                                                         std::unique_ptr<StepEngine> engine,
                                                         const ServiceOptions &options) {
  TENON_TRY(checkService(options));
  return std::unique_ptr<TextService>(
      new TextService(tokenizer, facts, std::move(engine), options));
}

TextService::TextService(const Tokenizer &theTokenizer, const ModelFacts &theFacts,
                         std::unique_ptr<StepEngine> theEngine, const ServiceOptions &theOptions)
    : tokenizer(&theTokenizer), facts(theFacts), engine(std::move(theEngine)), options(theOptions),
      scheduler(schedulerOptions(theFacts, engine->facts(), theOptions)) {
  facts.positions = positionsOf(theFacts, engine->facts());
  counted.pages = engine->facts().pages;
}

Status TextService::submit(TextRequest request) {
  TENON_ASSIGN(AnswerWriter writer,
               AnswerWriter::create(*tokenizer, facts, request.prompt, request.options));
  uint64_t id = request.id, size = request.prompt.size();
  Arrival arrival{.id = id,
                  .prompt = std::move(request.prompt),
                  .maxTokens = request.options.maxTokens,
                  .priority = request.priority,
                  .salt = std::move(request.salt)};
  if (request.deadline) {
    arrival.deadline = request.deadline->time_since_epoch().count();
  }
  TENON_ASSIGN(uint64_t serial, scheduler.submit(std::move(arrival)));
  answers.emplace(id, Answer{std::move(writer), serial, options.now(), std::nullopt});
  ++counted.submitted;
  counted.promptTokens += size;
  return Status::ok();
}

void TextService::end(uint64_t id) {
  scheduler.end(id);
  answers.erase(id);
}

void TextService::cancel(uint64_t id) {
  counted.cancelled += answers.contains(id) ? 1 : 0;
  end(id);
}

void TextService::fillBatch(const Step &planned) {
  const PageFacts &pages = engine->facts();
  batch = {};
  batch.starts.push_back(0);
  for (const Work &work : planned.work) {
    for (int64_t position = work.start; position < work.end; ++position) {
      int64_t known = static_cast<int64_t>(work.tokens.size());
      batch.tokens.push_back(position < known ? work.tokens[position]
                                              : work.draft[position - known]);
      batch.positions.push_back(position);
      batch.slots.push_back(work.pages[position / pages.page] * pages.page + position % pages.page);
    }
    batch.starts.push_back(static_cast<int64_t>(batch.tokens.size()));
    batch.lengths.push_back(work.end);
    batch.pages.insert(batch.pages.end(), work.pages.begin(), work.pages.end());
    batch.pages.resize(batch.lengths.size() * pages.table);
    for (int64_t row = work.rows; row > 0; --row) {
      batch.rows.push_back(static_cast<int64_t>(batch.tokens.size()) - row);
    }
  }
  if (batch.rows.empty()) {
    batch.rows.push_back(0); // a step has a row, which nobody reads here
  }
}

Status TextService::step(const Take &take) {
  Step planned = scheduler.next(options.now().time_since_epoch().count());
  Status status;
  if (!planned.work.empty()) {
    ++counted.steps;
    fillBatch(planned);
    logits.resize(batch.rows.size() * facts.vocabulary);
    status = engine->run(batch, logits);
    if (status.isOk()) {
      scheduler.complete(planned);
    }
  }
  for (const Preemption &preemption : planned.preemptions) {
    if (options.onPreemption) {
      options.onPreemption(preemption);
    }
  }
  // Each leaves the service before anything is handed out: its number may be used again at once.
  for (const Refusal &refusal : planned.refusals) {
    answers.erase(refusal.id);
  }
  counted.failed += planned.refusals.size();
  for (Refusal &refusal : planned.refusals) {
    take(refusal.id, std::move(refusal.status));
  }
  if (!status.isOk()) {
    fail(planned, status, take);
    return status;
  }
  std::span<const float> rest = logits;
  for (const Work &work : planned.work) {
    size_t size = static_cast<size_t>(work.rows * facts.vocabulary);
    handOut(work, rest.first(size), take);
    rest = rest.subspan(size);
  }
  return Status::ok();
}

TextService::Answer *TextService::answerOf(const Work &work) {
  auto found = answers.find(work.id);
  bool isIt = found != answers.end() && found->second.serial == work.serial;
  return isIt ? &found->second : nullptr;
}

void TextService::fail(const Step &planned, const Status &status, const Take &take) {
  for (const Work &work : planned.work) {
    if (answerOf(work)) {
      end(work.id);
      ++counted.failed;
      take(work.id, status);
    }
  }
}

/// As far as what is drawn is what was guessed.
void TextService::handOut(const Work &work, std::span<const float> rows, const Take &take) {
  for (int64_t number = 0; number < work.rows; ++number) {
    if (!handOutOne(work, number, rows.subspan(number * facts.vocabulary, facts.vocabulary),
                    take)) {
      return;
    }
  }
}

/// False where the rows behind this one are of no use.
bool TextService::handOutOne(const Work &work, int64_t number, std::span<const float> row,
                             const Take &take) {
  Answer *answer = answerOf(work);
  if (!answer) {
    return false;
  }
  Result<Piece> piece = answer->writer.write(row, work.end - work.rows + 1 + number);
  if (!piece) {
    end(work.id);
    ++counted.failed;
    take(work.id, std::move(piece));
    return false;
  }
  ServiceClock::time_point now = options.now();
  if (answer->lastPiece) {
    counted.nextToken.add(secondsOf(now - *answer->lastPiece));
  } else {
    counted.firstToken.add(secondsOf(now - answer->submitted));
    piece->reused = work.reused;
  }
  answer->lastPiece = now;
  ++counted.generatedTokens;
  bool isGuessed = number + 1 < work.rows && piece->draw.token == work.draft[number];
  bool isLast = piece->finish.has_value();
  if (isLast) {
    end(work.id);
    ++counted.finished;
  } else {
    scheduler.append(work.id, piece->draw.token, isGuessed);
  }
  take(work.id, std::move(piece));
  return isGuessed && !isLast;
}

ServiceStatistics TextService::statistics() const {
  ServiceStatistics result = counted;
  result.running = scheduler.running();
  result.waiting = scheduler.waiting();
  result.pagesUsed = result.pages - scheduler.pages().free();
  result.pagesKept = scheduler.pages().kept();
  result.scheduler = scheduler.counts();
  return result;
}

} // namespace tenon::generate
