// The text of a request among others is its text alone, whatever comes, goes and is preempted.
#include "generate/service/TextService.h"

#include "generate/grammar/Formats.h"
#include "support/random/Random.h"
#include "test/unit/generate/HashEngine.h"
#include "test/unit/generate/Schedules.h"
#include "test/unit/generate/SmallVocabulary.h"

#include <gtest/gtest.h>

#include <map>

namespace tenon::generate {
namespace {

const Tokenizer &bytes() {
  static const Tokenizer made = [] {
    Vocabulary vocabulary = smallVocabulary();
    vocabulary.ends = {256};
    return *Tokenizer::create(std::move(vocabulary));
  }();
  return made;
}

ModelFacts factsOf(int64_t positions) {
  ModelFacts facts;
  facts.positions = positions;
  facts.vocabulary = static_cast<int64_t>(bytes().size());
  return facts;
}

/// Objects, and a pattern that forbids much of what is guessed.
std::vector<std::shared_ptr<grammar::Automaton>> formats() {
  static grammar::Formats made(bytes(), static_cast<int64_t>(bytes().size()));
  std::vector<std::shared_ptr<grammar::Automaton>> all = {*made.object()};
  for (const char *schema :
       {R"({"type": "array", "items": {"type": "integer"}})",
        R"({"type": "string", "pattern": "^(ab|ac)*$"})",
        R"({"type": "object", "properties": {"a": {"enum": ["b", "bc"]}}, "required": ["a"]})"}) {
    all.push_back(*made.schema(schema));
  }
  return all;
}

/// The answer without a service.
Heard alone(const TextRequest &request, const ModelFacts &facts) {
  Result<AnswerWriter> writer =
      AnswerWriter::create(bytes(), facts, request.prompt, request.options);
  std::vector<int32_t> tokens = request.prompt;
  std::vector<float> logits(facts.vocabulary);
  Heard heard;
  while (!heard.finish) {
    hashLogits(tokens, logits);
    heard.hear(*writer->write(logits, static_cast<int64_t>(tokens.size())));
    tokens.push_back(heard.tokens.back());
  }
  return heard;
}

/// Of few pages of a few positions.
Stage randomStage(uint64_t seed) {
  Random random(~seed);
  int64_t page = random.one<int64_t>({1, 2, 3, 8});
  ModelFacts facts = factsOf(random.within(24, 48));
  int64_t table = (facts.positions + page - 1) / page;
  PageFacts pages{.page = page,
                  .pages = random.within(table, table * 3),
                  .table = table,
                  .tokens = random.within(4, 64),
                  .sequences = random.within(1, 6),
                  .rows = random.within(1, 6),
                  .vocabulary = facts.vocabulary};
  bool draws = seed % 2 == 1;
  auto make = [draws](const PageFacts &of) -> Result<std::unique_ptr<StepEngine>> {
    return std::unique_ptr<StepEngine>(std::make_unique<HashEngine>(of, draws));
  };
  // The draft model guesses right, but where it is not given what was said or drawn by chance.
  PageFacts drafts = pages;
  drafts.pages += random.below(3);
  drafts.tokens = std::max<int64_t>(pages.tokens, 12);
  return {.tokenizer = &bytes(),
          .facts = facts,
          .engine = [=] { return make(pages); },
          .alone = [facts](const TextRequest &request) { return alone(request, facts); },
          .guesses = [=] { return make(drafts); },
          .formats = formats()};
}

TEST(TextService, HeldAnswersAreOfTheirFormat) {
  ModelFacts facts = factsOf(400);
  int64_t whole = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    Random random(seed);
    TextRequest request{.prompt = {'a', 'b'}};
    request.options.maxTokens = 300;
    request.options.sampling.temperature = 1;
    request.options.sampling.seed = seed;
    std::vector<std::shared_ptr<grammar::Automaton>> all = formats();
    request.options.format = all[seed % all.size()];
    Heard heard = alone(request, facts);
    grammar::Place place = request.options.format->start();
    grammar::Effort effort = 0;
    for (char byte : heard.text) {
      place = *request.options.format->nextSymbol(place, static_cast<unsigned char>(byte), effort);
    }
    bool isCut = heard.finish == Finish::Length;
    EXPECT_EQ(300U, isCut ? heard.tokens.size() : 300U);
    EXPECT_TRUE(isCut ? !place.stacks.empty() : place.isWhole) << heard.text;
    whole += isCut ? 0 : 1;
  }
  EXPECT_GT(whole, 150);
}

TEST(TextService, TextOfRandomSchedulesIsTheTextAlone) {
  ServiceStatistics total;
  for (uint64_t seed = 0; seed < 10'000; ++seed) {
    ASSERT_EQ("", runSchedule(randomStage(seed), seed, total)) << "seed " << seed;
  }
  EXPECT_GT(total.scheduler.preemptions, 1000U);
  EXPECT_GT(total.scheduler.reusedTokens, 10'000U);
  EXPECT_GT(total.cancelled, 1000U);
  EXPECT_GT(total.scheduler.acceptedTokens, 10'000U);
  EXPECT_GT(total.scheduler.draftTokens, total.scheduler.acceptedTokens);
}

TEST(TextService, DraftModelThatIsRightIsBelieved) {
  ModelFacts facts = factsOf(64);
  PageFacts pages{.page = 4,
                  .pages = 64,
                  .table = 16,
                  .tokens = 64,
                  .sequences = 4,
                  .rows = 40,
                  .vocabulary = facts.vocabulary};
  auto run = [&](int64_t draftTokens, bool hasDraft) {
    Result<std::unique_ptr<TextService>> made = TextService::create(
        bytes(), facts, std::make_unique<HashEngine>(pages), {.draftTokens = draftTokens},
        hasDraft ? std::make_unique<HashEngine>(pages) : nullptr);
    std::unique_ptr<TextService> service = std::move(*made);
    std::map<uint64_t, std::string> texts;
    for (uint64_t id : {1, 2, 3}) {
      TextRequest request{.id = id, .prompt = {static_cast<int32_t>('a' + id), 'b'}};
      request.options.maxTokens = 40;
      EXPECT_TRUE(service->submit(request).isOk());
    }
    while (!service->isIdle()) {
      EXPECT_TRUE(service->step([&](uint64_t id, Result<Piece> piece) { texts[id] += piece->text; })
                      .isOk());
    }
    return std::pair(texts, service->statistics());
  };
  auto [plain, without] = run(0, false);
  auto [guessed, with] = run(3, true);
  EXPECT_EQ(plain, guessed);
  // It is the same model: what it guesses is drawn, up to an answer's end.
  EXPECT_EQ(with.scheduler.draftTokens, with.scheduler.acceptedTokens);
  EXPECT_LT(with.steps * 2, without.steps);
}

/// An engine whose steps take a time for each, and one for each token and for each that it looks
/// back at, by a clock of its own.
class TimedEngine final : public StepEngine {
public:
  TimedEngine(const PageFacts &facts, double step, double token, double *theClock)
      : engine(facts), perStep(step), perToken(token), clock(theClock) {}

  const PageFacts &facts() const override { return engine.facts(); }
  Result<uint64_t> memory() const override { return engine.memory(); }
  Status run(const StepBatch &batch, std::span<float> logits, std::span<Draw>) override {
    double looked = 0;
    for (int64_t position : batch.positions) {
      looked += static_cast<double>(position) / 4096; // twice as much at the end
    }
    *clock += perStep + perToken * (static_cast<double>(batch.tokens.size()) + looked);
    std::ranges::fill(logits, 0.0F);
    logits[97] = 1;
    return Status::ok();
  }

private:
  HashEngine engine;
  double perStep, perToken, *clock;
};

/// Seconds between the tokens of seven answers while a prompt of 4,096 tokens comes, and what that
/// took.
std::pair<std::vector<double>, double> waits(double step, double token) {
  ModelFacts facts = factsOf(8192);
  PageFacts pages{.page = 32,
                  .pages = 8 * 256,
                  .table = 256,
                  .tokens = 512,
                  .sequences = 8,
                  .rows = 8,
                  .vocabulary = facts.vocabulary};
  double clock = 0;
  Result<std::unique_ptr<TextService>> service = TextService::create(
      bytes(), facts, std::make_unique<TimedEngine>(pages, step, token, &clock), {.now = [&] {
        return ServiceClock::time_point(std::chrono::duration_cast<ServiceClock::duration>(
            std::chrono::duration<double>(clock)));
      }});
  std::vector<double> between;
  std::map<uint64_t, double> last;
  double begun = 0, answered = 0;
  auto take = [&](uint64_t id, Result<Piece>) {
    if (id == 100) {
      answered = answered == 0 ? clock : answered;
    } else if (begun > 0) {
      between.push_back(clock - last[id]);
    }
    last[id] = clock;
  };
  for (uint64_t id = 0; id < 7; ++id) {
    TextRequest request{.id = id, .prompt = std::vector<int32_t>(20, static_cast<int32_t>('a'))};
    request.options.maxTokens = 8000;
    EXPECT_TRUE((*service)->submit(request).isOk());
  }
  for (int i = 0; i < 100; ++i) {
    EXPECT_TRUE((*service)->step(take).isOk());
  }
  begun = clock;
  EXPECT_TRUE((*service)->submit({.id = 100, .prompt = std::vector<int32_t>(4096, 98)}).isOk());
  while (answered == 0) {
    EXPECT_TRUE((*service)->step(take).isOk());
  }
  return {between, answered - begun};
}

TEST(TextService, AnswersWaitLittleForALongPrompt) {
  // Steps for which a token is a small part, as on GPUs, and a large one, as on CPUs.
  for (double token : {1e-5, 1e-4, 1e-3}) {
    constexpr double kStep = 0.01;
    auto [between, prompt] = waits(kStep, token);
    std::ranges::sort(between);
    double plain = kStep + 7 * token, p99 = between[between.size() * 99 / 100];
    EXPECT_LE(p99, 2 * plain) << token;
    EXPECT_LE(between.back(), 2.2 * plain) << token; // while it learns
    // The prompt is not starved: it has about as much time as the answers.
    EXPECT_LE(prompt, 4096 * token * 1.5 * 3 + 20 * plain) << token;
  }
}

TEST(TextService, DraftModelHasToFit) {
  ModelFacts facts = factsOf(64);
  PageFacts pages{.page = 4,
                  .pages = 16,
                  .table = 16,
                  .tokens = 64,
                  .sequences = 8,
                  .rows = 8,
                  .vocabulary = facts.vocabulary};
  auto refusal = [&](int64_t PageFacts::*fact, int64_t value) {
    PageFacts other = pages;
    other.*fact = value;
    return std::string(TextService::create(bytes(), facts, std::make_unique<HashEngine>(pages), {},
                                           std::make_unique<HashEngine>(other))
                           .status()
                           .message());
  };
  EXPECT_EQ("the draft model has 15 pages, and the model 16", refusal(&PageFacts::pages, 15));
  EXPECT_EQ("the draft model has 8 positions in a page, and the model 4",
            refusal(&PageFacts::page, 8));
  EXPECT_EQ("the draft model has 32 positions, and the model 64", refusal(&PageFacts::table, 8));
  EXPECT_EQ("the draft model has 7 sequences in a step, and the model 8",
            refusal(&PageFacts::sequences, 7));
  EXPECT_EQ("the draft model has 15 tokens in a step, and the model 16",
            refusal(&PageFacts::tokens, 15));
  Vocabulary other = smallVocabulary();
  std::swap(other.tokens['a'], other.tokens['b']);
  EXPECT_EQ("token 97 of the draft model is not that of the model",
            std::string(DraftModel::checkTokens(*Tokenizer::create(other), bytes()).message()));
}

/// Sixteen pages of four positions for sequences of up to 32.
struct Small {
  HashEngine *engine;
  std::unique_ptr<TextService> service;
  std::vector<Preemption> preemptions;
  ServiceClock::time_point now;
  std::map<uint64_t, Heard> heard;

  explicit Small(ServiceOptions options = {}, int64_t pages = 16, bool draws = false) {
    options.now = [this] { return now; };
    options.onPreemption = [this](const Preemption &each) { preemptions.push_back(each); };
    std::unique_ptr<HashEngine> made =
        std::make_unique<HashEngine>(PageFacts{.page = 4,
                                               .pages = pages,
                                               .table = 8,
                                               .tokens = 64,
                                               .sequences = 8,
                                               .rows = 8,
                                               .vocabulary = static_cast<int64_t>(bytes().size())},
                                     draws);
    engine = made.get();
    service = std::move(*TextService::create(bytes(), factsOf(32), std::move(made), options));
  }

  Status submit(uint64_t id, std::string_view prompt, int64_t maxTokens = 8) {
    TextRequest request{.id = id, .prompt = {prompt.begin(), prompt.end()}};
    request.options.maxTokens = maxTokens;
    return service->submit(std::move(request));
  }

  Status step() {
    now += std::chrono::milliseconds(20);
    return service->step([&](uint64_t id, Result<Piece> piece) { take(id, std::move(piece)); });
  }

  void take(uint64_t id, Result<Piece> piece) {
    if (piece) {
      heard[id].hear(*piece);
    } else {
      heard[id].error = piece.takeStatus();
    }
  }
};

TEST(TextService, LogitsAreThoseOfAnswersThatReadThem) {
  Small small({}, 16, true);
  for (uint64_t id : {1, 2, 3}) {
    TextRequest request{.id = id, .prompt = {'a', 'b', static_cast<int32_t>('c' + id)}};
    request.options.maxTokens = 5;
    if (id == 2) {
      request.options.sampling.bias = {{7, 1.0}};
    }
    ASSERT_TRUE(small.service->submit(std::move(request)).isOk());
  }
  while (!small.service->isIdle()) {
    ASSERT_TRUE(small.step().isOk());
  }
  EXPECT_EQ(static_cast<int64_t>(small.heard[2].tokens.size()), small.engine->rowsOfLogits);
  EXPECT_LT(0, small.engine->rowsOfLogits);
}

TEST(TextService, StatisticsSayWhatHappened) {
  Small small;
  ASSERT_TRUE(small.submit(1, "abcdefghij", 4).isOk());
  ASSERT_TRUE(small.submit(2, "abcdefghij", 4).isOk()); // waits for the first's two pages
  while (!small.service->isIdle()) {
    ASSERT_TRUE(small.step().isOk());
  }
  EXPECT_EQ(0, small.heard[1].reused);
  EXPECT_EQ(8, small.heard[2].reused);
  EXPECT_TRUE(small.heard[2].isWhole(small.heard[1]));
  ServiceStatistics counted = small.service->statistics();
  EXPECT_EQ(6U, counted.steps); // one without the second's prompt, whose time is known then
  EXPECT_EQ(2U, counted.submitted);
  EXPECT_EQ(2U, counted.finished);
  EXPECT_EQ(20U, counted.promptTokens);
  EXPECT_EQ(8U, counted.generatedTokens);
  EXPECT_EQ(10U + 3 + 2 + 3, counted.scheduler.computedTokens);
  EXPECT_EQ(8U, counted.scheduler.reusedTokens);
  EXPECT_EQ(0, counted.pagesUsed);
  EXPECT_EQ(16, counted.pages);
  EXPECT_GT(counted.pagesKept, 0);
  // After 20 and 60 milliseconds, and then every 20.
  EXPECT_EQ(2U, counted.firstToken.counts[4] + counted.firstToken.counts[6]);
  EXPECT_EQ(6U, counted.nextToken.counts[4]);
  EXPECT_NEAR(0.080, counted.firstToken.sum, 1e-9);
  EXPECT_NEAR(0.120, counted.nextToken.sum, 1e-9);
}

TEST(TextService, PreemptionsAreReported) {
  Small small({.maxRunning = 2}, 8);
  ASSERT_TRUE(small.submit(1, "abcdefgx", 24).isOk());
  ASSERT_TRUE(small.submit(2, "ijklmnop", 24).isOk());
  while (!small.service->isIdle()) {
    ASSERT_TRUE(small.step().isOk());
  }
  ASSERT_EQ(24U, small.heard[1].tokens.size()); // the model does not end them
  ASSERT_EQ(24U, small.heard[2].tokens.size());
  ASSERT_EQ(1U, small.preemptions.size());
  EXPECT_EQ(2U, small.preemptions[0].id);
  EXPECT_EQ(1U, small.preemptions[0].winner);
  EXPECT_EQ(16, small.preemptions[0].tokensLost);
  EXPECT_EQ(1, small.preemptions[0].pagesShort);
  ServiceStatistics counted = small.service->statistics();
  EXPECT_EQ(1U, counted.scheduler.preemptions);
  EXPECT_GT(counted.scheduler.recomputedTokens, 0U);
  EXPECT_LE(counted.scheduler.recomputedTokens, 16U);
}

TEST(TextService, AnErrorEndsItsRequests) {
  Small small;
  small.engine->spoilAt = 2;
  ASSERT_TRUE(small.submit(1, "abc").isOk());
  ASSERT_TRUE(small.submit(2, "bcd").isOk());
  ASSERT_TRUE(small.step().isOk());
  ASSERT_TRUE(small.step().isOk());
  EXPECT_EQ(ErrorId::LogitsNotFinite, small.heard[1].error.id());
  EXPECT_TRUE(small.heard[2].error.isOk());
  small.engine->failAt = 3;
  EXPECT_EQ(ErrorId::OutOfMemory, small.step().id());
  EXPECT_EQ(ErrorId::OutOfMemory, small.heard[2].error.id());
  EXPECT_TRUE(small.service->isIdle());
  EXPECT_EQ(0, small.service->statistics().pagesUsed);
  EXPECT_EQ(2U, small.service->statistics().failed);
  // Also in the step in which it begins.
  small.engine->failAt = 4;
  ASSERT_TRUE(small.submit(3, "abc").isOk());
  EXPECT_EQ(ErrorId::OutOfMemory, small.step().id());
  EXPECT_EQ(0, small.service->statistics().pagesUsed);
  ASSERT_TRUE(small.submit(3, "abc", 1).isOk());
  EXPECT_TRUE(small.step().isOk());
  EXPECT_EQ(1U, small.heard[3].tokens.size());
}

TEST(TextService, CallerComesAndGoesFromWithin) {
  Small small;
  ASSERT_TRUE(small.submit(1, "abc", 3).isOk());
  ASSERT_TRUE(small.submit(2, "bcd", 3).isOk());
  bool isReplaced = false;
  while (!small.service->isIdle()) {
    Status status = small.service->step([&](uint64_t id, Result<Piece> piece) {
      small.take(id, std::move(piece));
      if (!isReplaced) {
        isReplaced = true;
        small.service->cancel(2);
        EXPECT_TRUE(small.submit(2, "xyz", 3).isOk());
      }
    });
    ASSERT_TRUE(status.isOk());
  }
  TextRequest replaced{.id = 2, .prompt = {'x', 'y', 'z'}};
  replaced.options.maxTokens = 3;
  EXPECT_TRUE(small.heard[2].isWhole(alone(replaced, factsOf(32))));
}

TEST(TextService, DeadlinesEndAnswers) {
  Small small;
  TextRequest request{.id = 4, .prompt = {'x', 'y', 'z'}};
  request.options.maxTokens = 20;
  request.deadline = small.now + std::chrono::milliseconds(50);
  ASSERT_TRUE(small.service->submit(request).isOk());
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(small.step().isOk());
  }
  EXPECT_EQ(2U, small.heard[4].tokens.size());
  EXPECT_EQ("TN0813: request 4 is at its deadline with 2 of up to 20 tokens (allow more time, or "
            "send fewer requests)",
            small.heard[4].error.toString());
  EXPECT_TRUE(small.service->isIdle());
}

TEST(TextService, RefusesWhatIsOutOfRange) {
  EXPECT_EQ(ErrorId::BadArgument,
            TextService::create(bytes(), factsOf(8), nullptr, {.maxRunning = 0}).status().id());
  Small small({.maxWaiting = 1}, 5);
  EXPECT_EQ(ErrorId::BadArgument, small.submit(1, "").id());
  EXPECT_EQ(ErrorId::PromptTooLong, small.submit(1, std::string(21, 'a')).id()); // five pages
  EXPECT_TRUE(small.submit(1, "a").isOk());
  EXPECT_EQ(ErrorId::QueueFull, small.submit(2, "a").id());
}

} // namespace
} // namespace tenon::generate
