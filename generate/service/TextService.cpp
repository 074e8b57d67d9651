// Implements a round: the scheduler's step becomes a batch, its logits become pieces. What the
// caller is handed comes last, since it may submit and cancel from within.
#include "generate/service/TextService.h"

#include "generate/scheduler/PromptLookup.h"
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
                                  const DraftModel *draft, const ServiceOptions &options) {
  int64_t tokens = std::min(options.stepTokens, pages.tokens);
  tokens = draft ? std::min(tokens, draft->stepTokens()) : tokens;
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
  auto make = [&](const LanguageModel &of) {
    return of.pages() ? PagedEngine::create(of, options.threads, std::min(pages, of.pages()->pages))
                      : SequenceEngine::create(of, options.maxRunning, options.threads);
  };
  TENON_ASSIGN(std::unique_ptr<StepEngine> engine, make(model));
  std::unique_ptr<StepEngine> guesses;
  if (options.draft) {
    TENON_TRY(DraftModel::checkTokens(options.draft->tokenizer(), model.tokenizer()));
    TENON_ASSIGN(guesses, make(*options.draft));
  }
  return create(model.tokenizer(), model.facts(), std::move(engine), options, std::move(guesses));
}

Result<std::unique_ptr<TextService>> TextService::create(const Tokenizer &tokenizer,
                                                         const ModelFacts &facts,
                                                         std::unique_ptr<StepEngine> engine,
                                                         const ServiceOptions &options,
                                                         std::unique_ptr<StepEngine> guesses) {
  TENON_TRY(checkService(options));
  std::unique_ptr<DraftModel> draft;
  if (guesses) {
    TENON_ASSIGN(draft,
                 DraftModel::create(std::move(guesses), engine->facts(), options.maxRunning));
  }
  return std::unique_ptr<TextService>(
      new TextService(tokenizer, facts, std::move(engine), std::move(draft), options));
}

TextService::TextService(const Tokenizer &theTokenizer, const ModelFacts &theFacts,
                         std::unique_ptr<StepEngine> theEngine,
                         std::unique_ptr<DraftModel> theDraft, const ServiceOptions &theOptions)
    : tokenizer(&theTokenizer), facts(theFacts), engine(std::move(theEngine)),
      draft(std::move(theDraft)), options(theOptions),
      scheduler(schedulerOptions(theFacts, engine->facts(), draft.get(), theOptions)) {
  facts.positions = positionsOf(theFacts, engine->facts());
  counted.pages = engine->facts().pages;
}

Result<uint64_t> TextService::memory() const {
  TENON_ASSIGN(uint64_t bytes, engine->memory());
  if (draft) {
    TENON_ASSIGN(uint64_t guesses, draft->memory());
    bytes += guesses;
  }
  return bytes;
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
  answers.emplace(id, Answer{std::move(writer), serial, options.now(), {}, {}});
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

void TextService::begin(const Step &planned) {
  ServiceClock::time_point now = options.now();
  for (const Work &work : planned.work) {
    if (Answer *answer = answerOf(work); answer && !answer->begun) {
      answer->begun = now;
    }
  }
}

/// Gives answers guesses of how they go on.
Status TextService::speculate(Step &planned) {
  if (!draft) {
    scheduler.speculate(planned,
                        [](const Work &work, int64_t count) { return lookUp(work.tokens, count); });
    return Status::ok();
  }
  std::vector<int64_t> counts;
  for (const Work &work : planned.work) {
    counts.push_back(scheduler.mayGuess(work));
  }
  TENON_TRY(draft->run(planned, counts,
                       [&](const Work &work, std::span<const float> row, int64_t length) {
                         return answerOf(work)->writer.guess(row, length);
                       }));
  scheduler.speculate(planned,
                      [&](const Work &work, int64_t count) { return draft->guess(work, count); });
  return Status::ok();
}

void TextService::chooseRows(const Step &planned, StepBatch &batch) {
  fetched.clear();
  size_t count = 0;
  for (const Work &work : planned.work) {
    Answer *answer = answerOf(work);
    bool isNeeded = !engine->draws() || (answer && answer->writer.readsLogits());
    for (int64_t i = 0; i < work.rows; ++i) {
      if (isNeeded && engine->draws()) {
        batch.fetched.push_back(static_cast<int64_t>(fetched.size()));
      }
      fetched.push_back(count);
      count += isNeeded ? 1 : 0;
    }
  }
  logits.resize((engine->draws() ? count : batch.rows.size()) * facts.vocabulary);
}

/// What the draw behind each row depends on.
void TextService::addDraws(const Step &planned, StepBatch &batch) {
  for (const Work &work : planned.work) {
    Answer *answer = answerOf(work);
    for (int64_t row = work.rows; row > 0; --row) {
      batch.draws.push_back(answer ? answer->writer.parameters(work.end - row + 1)
                                   : DrawParameters());
    }
  }
  batch.draws.resize(batch.rows.size());
}

Status TextService::run(Step &planned) {
  ++counted.steps;
  begin(planned);
  ServiceClock::time_point begun = options.now();
  TENON_TRY(speculate(planned));
  StepBatch batch = batchOf(planned.work, engine->facts());
  chooseRows(planned, batch);
  if (engine->draws()) {
    addDraws(planned, batch);
  }
  drawn.resize(batch.draws.size());
  TENON_TRY(engine->run(batch, logits, drawn));
  int64_t prompts = 0, continued = 0;
  for (const Work &work : planned.work) {
    int64_t count = work.end - work.start - static_cast<int64_t>(work.draft.size());
    (count == 1 ? continued : prompts) += count;
  }
  pace.ran(secondsOf(options.now() - begun), prompts, continued > 0);
  scheduler.complete(planned);
  return Status::ok();
}

Status TextService::step(const Take &take) {
  Step planned =
      scheduler.next(options.now().time_since_epoch().count(), pace.tokens(options.promptTokens));
  Status status = planned.work.empty() ? Status::ok() : run(planned);
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
  int64_t firstRow = 0;
  for (const Work &work : planned.work) {
    handOut(work, firstRow, take);
    firstRow += work.rows;
  }
  return Status::ok();
}

bool TextService::rehearse() { return engine->rehearse(options.stepTokens, options.maxRunning); }

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
void TextService::handOut(const Work &work, int64_t firstRow, const Take &take) {
  int64_t number = 0;
  while (number < work.rows && handOutOne(work, number, firstRow + number, take)) {
    ++number;
  }
}

Result<Piece> TextService::pieceOf(AnswerWriter &writer, int64_t row, int64_t length) const {
  if (!drawn.empty() && !writer.readsLogits()) {
    return writer.write(drawn[row], length);
  }
  size_t size = static_cast<size_t>(facts.vocabulary);
  return writer.write(std::span(logits).subspan(fetched[row] * size, size), length);
}

/// False where the rows behind this one are of no use.
bool TextService::handOutOne(const Work &work, int64_t number, int64_t row, const Take &take) {
  Answer *answer = answerOf(work);
  if (!answer) {
    return false;
  }
  Result<Piece> piece = pieceOf(answer->writer, row, work.end - work.rows + 1 + number);
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
    piece->waited = secondsOf(*answer->begun - answer->submitted);
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
