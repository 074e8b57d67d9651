// Simulates users of a scheduler by a million events: what a step reads must be what was written.
#include "generate/scheduler/Scheduler.h"

#include "generate/scheduler/PromptLookup.h"
#include "support/random/Random.h"
#include "support/text/Text.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

namespace tenon::generate {
namespace {

enum class Planted : uint8_t {
  Nothing,
  OtherPage,    ///< a step is given a page that is not the request's
  LostWrite,    ///< a step writes nothing
  SkippedToken, ///< a step begins one token late
  NeverEnded,   ///< the scheduler does not hear of an end
  EndedTwice,   ///< the scheduler hears of an end too early
  NeverRun,     ///< a request's work is left out
};

struct Users {
  int64_t count = 0;
  int64_t priorities = 1;
  double cancels = 0.02;   ///< of a request, in a step
  double deadlines = 0.05; ///< of requests
  int64_t stems = 3;       ///< beginnings that prompts share
  int64_t maxPrompt = 60, maxAnswer = 40;
  int64_t vocabulary = 1000; ///< with two, pages of other positions hold the same tokens
};

std::span<const int32_t> guessed(const Work &work, int64_t count) {
  return lookUp(work.tokens, count);
}

/// Users who each send a request when their last has ended.
class Simulation {
public:
  Simulation(const SchedulerOptions &theOptions, const Users &theUsers, uint64_t seed,
             Planted thePlanted = Planted::Nothing)
      : options(theOptions), users(theUsers), random(seed), planted(thePlanted),
        scheduler(theOptions), cells(theOptions.pages * theOptions.page) {
    for (int64_t i = 0; i < users.stems; ++i) {
      stems.push_back(tokens(users.maxPrompt));
    }
  }

  /// Runs until so many events have happened, and then until all requests have ended.
  void run(int64_t events) {
    while (fault.empty() && happened < events) {
      while (static_cast<int64_t>(open.size()) < users.count) {
        submit();
      }
      step();
    }
    int64_t patience = kPatience * users.count;
    while (fault.empty() && !open.empty()) {
      step();
      check(patience-- > 0, "requests do not end");
    }
    check(scheduler.running() == 0 && scheduler.waiting() == 0, "requests are left");
    check(scheduler.pages().free() == options.pages, "pages are not given back");
  }

  std::string fault; ///< the first that was found
  int64_t happened = 0;
  int64_t ended = 0, cancelled = 0, expired = 0, asked = 0, given = 0, longest = 0;
  int64_t displaced = 0; ///< requests that gave up their pages to one of higher priority
  uint64_t recomputed() const { return scheduler.counts().recomputedTokens; }
  const SchedulerCounts &counts() const { return scheduler.counts(); }

private:
  /// Steps that a request may take while so many others do.
  static constexpr int64_t kPatience = 400;

  struct Cell {
    int32_t token = -1;
    std::string salt;
    int64_t position = -1, written = -1;
  };
  struct Open {
    std::vector<int32_t> tokens;
    std::string salt;
    int64_t prompt = 0, maxTokens = 0, computed = 0, since = 0, priority = 0;
    bool isDead = false; ///< planted: its work is left out
  };

  void check(bool holds, std::string_view what) {
    if (!holds && fault.empty()) {
      fault = what;
    }
  }

  std::vector<int32_t> tokens(int64_t count) {
    std::vector<int32_t> made;
    for (int64_t i = 0; i < count; ++i) {
      made.push_back(static_cast<int32_t>(random.below(users.vocabulary)));
    }
    return made;
  }

  void submit() {
    ++happened;
    uint64_t id = ++ids;
    Open request;
    request.salt = random.chance(0.5) ? "a" : "b";
    request.since = time;
    std::vector<int32_t> prompt = random.of(stems);
    prompt.resize(random.within(0, static_cast<int64_t>(prompt.size())));
    std::vector<int32_t> rest = tokens(random.within(1, 8));
    prompt.insert(prompt.end(), rest.begin(), rest.end());
    prompt.resize(std::min<size_t>(prompt.size(), options.positions));
    request.tokens = prompt;
    request.prompt = static_cast<int64_t>(prompt.size());
    request.maxTokens = random.within(1, users.maxAnswer);
    request.priority = random.below(users.priorities);
    Arrival arrival{.id = id,
                    .prompt = prompt,
                    .maxTokens = request.maxTokens,
                    .priority = request.priority,
                    .salt = request.salt};
    if (random.chance(users.deadlines)) {
      arrival.deadline = time + random.within(1, 60);
    }
    asked += std::min(request.maxTokens, options.positions - request.prompt + 1);
    Result<uint64_t> serial = scheduler.submit(std::move(arrival));
    check(serial.isOk(), serial.status().message());
    open[id] = std::move(request);
  }

  /// Tokens that it was to be given, and is not.
  int64_t missing(const Open &request) const {
    return std::min(request.maxTokens, options.positions - request.prompt + 1) -
           (static_cast<int64_t>(request.tokens.size()) - request.prompt);
  }

  void end(uint64_t id, bool isWhole) {
    ++happened;
    asked -= isWhole ? 0 : missing(open.at(id));
    longest = std::max(longest, time - open.at(id).since);
    open.erase(id);
    if (planted == Planted::NeverEnded && random.chance(0.01)) {
      return;
    }
    scheduler.end(id);
  }

  void step() {
    ++happened;
    ++time;
    std::vector<uint64_t> gone;
    for (auto &[id, request] : open) {
      check(time - request.since <= kPatience * users.count || users.priorities > 1,
            "a request starves");
      if (random.chance(users.cancels / static_cast<double>(users.count))) {
        gone.push_back(id);
      }
      request.isDead |= planted == Planted::NeverRun && random.chance(0.001);
      if (planted == Planted::EndedTwice && random.chance(0.001)) {
        scheduler.end(id);
      }
    }
    for (uint64_t id : gone) {
      ++cancelled;
      end(id, false);
    }
    Step planned = scheduler.next(time);
    for (const Refusal &refusal : planned.refusals) {
      check(refusal.status.id() == ErrorId::RequestTimedOut &&
                refusal.status.message().find(strCat("request ", refusal.id, ' ')) !=
                    std::string::npos,
            "a refusal does not name its request");
      ++expired;
      ++happened;
      asked -= missing(open.at(refusal.id));
      open.erase(refusal.id);
    }
    for (const Preemption &preemption : planned.preemptions) {
      Open &request = open.at(preemption.id);
      check(preemption.tokensLost == request.computed, "a preemption does not say what was lost");
      int64_t winner = open.at(preemption.winner).priority;
      check(winner >= request.priority, "a request gives up its pages to one of lower priority");
      check(preemption.pagesShort > 0 || winner > request.priority,
            "a preemption does not say what was short");
      displaced += winner > request.priority ? 1 : 0;
      request.computed = 0;
      ++happened;
    }
    scheduler.speculate(planned, guessed);
    check(!planned.work.empty() || open.empty() || planned.refusals.size() > 0,
          "a step does nothing");
    runStep(planned);
  }

  void runStep(Step &planned) {
    int64_t count = 0, prompts = 0, continued = 0;
    for (Work &work : planned.work) {
      if (planted == Planted::SkippedToken && random.chance(0.001)) {
        ++work.start;
      }
      count += work.end - work.start;
      (work.end - work.start == 1 && work.rows == 1 ? continued : prompts) += work.end - work.start;
      write(work);
    }
    check(count <= options.stepTokens, "a step has too many tokens");
    check(continued == 0 || prompts <= options.promptTokens + options.maxRunning ||
              prompts + continued <= options.stepTokens,
          "prompts hold answers up");
    check(static_cast<int64_t>(planned.work.size()) <= options.maxRunning,
          "a step has too many requests");
    for (const Work &work : planned.work) {
      read(work);
    }
    scheduler.complete(planned);
    for (const Work &work : planned.work) {
      Open &request = open.at(work.id);
      if (request.isDead) {
        continue;
      }
      int64_t drafted = static_cast<int64_t>(work.draft.size()), known = work.end - drafted;
      bool isEnd = known == static_cast<int64_t>(request.tokens.size());
      request.computed = known;
      check(work.rows == (isEnd ? 1 + drafted : 0), "logits are asked for at another token");
      bool goesOn = isEnd;
      for (int64_t i = 0; goesOn && i <= drafted; ++i) {
        goesOn = draw(work.id, request, i < drafted ? std::optional(work.draft[i]) : std::nullopt);
      }
    }
  }

  /// Whether it drew what was guessed, and has not ended.
  bool draw(uint64_t id, Open &request, std::optional<int32_t> guess) {
    ++happened;
    ++given;
    // Often what was said before, so that guesses are made and are right.
    int32_t token = random.chance(0.5)
                        ? request.tokens[random.below(std::min<int64_t>(2, request.tokens.size()))]
                        : static_cast<int32_t>(random.below(users.vocabulary));
    token = guess && random.chance(0.5) ? *guess : token;
    request.tokens.push_back(token);
    if (missing(request) == 0) {
      ++ended;
      end(id, true);
      return false;
    }
    request.computed += guess == token ? 1 : 0;
    scheduler.append(id, token, guess == token);
    return guess == token;
  }

  Cell &cell(const Work &work, int64_t position) {
    size_t number = static_cast<size_t>(position / options.page);
    check(number < work.pages.size(), "a request has too few pages");
    int64_t page = number < work.pages.size() ? work.pages[number] : 0;
    if (planted == Planted::OtherPage && random.chance(0.00001)) {
      page = (page + 1) % options.pages;
    }
    return cells[page * options.page + position % options.page];
  }

  static int32_t tokenOf(const Work &work, int64_t position) {
    int64_t known = static_cast<int64_t>(work.tokens.size());
    return position < known ? work.tokens[position] : work.draft[position - known];
  }

  void write(const Work &work) {
    Open &request = open.at(work.id);
    check(std::ranges::equal(work.tokens, request.tokens), "a request has other tokens");
    // What is reused was computed for somebody else.
    check(request.computed == work.start || request.computed == 0,
          "tokens are skipped or computed twice");
    for (int64_t position = work.start; position < work.end; ++position) {
      Cell &place = cell(work, position);
      if ((planted == Planted::LostWrite && random.chance(0.0001)) || request.isDead) {
        continue;
      }
      check(place.written < time, "two requests write one place");
      place = {tokenOf(work, position), request.salt, position, time};
    }
  }

  void read(const Work &work) {
    const Open &request = open.at(work.id);
    for (int64_t position = 0; position < work.end && !request.isDead; ++position) {
      const Cell &place = cell(work, position);
      check(place.token == tokenOf(work, position) && place.position == position &&
                place.salt == request.salt,
            "a request reads what is not its own");
      check(position >= work.start || place.written < time,
            "a request reads what another computes in the same step");
    }
  }

  SchedulerOptions options;
  Users users;
  Random random;
  Planted planted;
  Scheduler scheduler;
  std::vector<Cell> cells;
  std::vector<std::vector<int32_t>> stems;
  std::map<uint64_t, Open> open;
  uint64_t ids = 0;
  int64_t time = 0;
};

SchedulerOptions fewPages() {
  return {.page = 8,
          .pages = 40,
          .positions = 120,
          .stepTokens = 64,
          .promptTokens = 24,
          .maxRunning = 8,
          .maxWaiting = 100,
          .draftTokens = 3,
          .maxRows = 20};
}

TEST(Scheduler, Simulated) {
  constexpr int64_t kEvents = 125'000; // of each of eight
  int64_t happened = 0;
  uint64_t preemptions = 0, reused = 0, accepted = 0;
  int64_t displaced = 0;
  for (PagePolicy policy : {PagePolicy::Recompute, PagePolicy::Reserve}) {
    for (int64_t priorities : {1, 3}) {
      for (int64_t page : {1, 16}) {
        SchedulerOptions options = fewPages();
        options.policy = policy;
        options.pages = options.pages * options.page / page;
        options.page = page;
        Simulation simulation(
            options,
            {.count = 24, .priorities = priorities, .vocabulary = priorities == 1 ? 2 : 1000},
            static_cast<uint64_t>(page * priorities));
        simulation.run(kEvents);
        EXPECT_EQ("", simulation.fault);
        EXPECT_EQ(simulation.asked, simulation.given);
        EXPECT_GT(simulation.ended, 1000);
        EXPECT_GT(simulation.cancelled, 0);
        EXPECT_GT(simulation.expired, 0);
        happened += simulation.happened;
        reused += simulation.counts().reusedTokens;
        accepted += simulation.counts().acceptedTokens;
        preemptions += simulation.counts().preemptions;
        displaced += simulation.displaced;
        if (policy == PagePolicy::Reserve) {
          EXPECT_EQ(0, simulation.counts().preemptions);
          EXPECT_EQ(0, simulation.recomputed());
        }
      }
    }
  }
  EXPECT_GE(happened, 1'000'000);
  EXPECT_GT(preemptions, 100);
  EXPECT_GT(displaced, 100);
  EXPECT_GT(reused, 10'000);
  EXPECT_GT(accepted, 10'000);
}

TEST(Scheduler, PlantedFaultsAreFound) {
  for (Planted planted : {Planted::OtherPage, Planted::LostWrite, Planted::SkippedToken,
                          Planted::NeverEnded, Planted::EndedTwice, Planted::NeverRun}) {
    Simulation simulation(fewPages(), {.count = 16}, 5, planted);
    simulation.run(20'000);
    EXPECT_NE("", simulation.fault) << static_cast<int>(planted);
  }
  Simulation simulation(fewPages(), {.count = 16}, 5);
  simulation.run(20'000);
  EXPECT_EQ("", simulation.fault);
}

Arrival arrivalOf(uint64_t id, std::vector<int32_t> prompt, int64_t maxTokens) {
  return {.id = id, .prompt = std::move(prompt), .maxTokens = maxTokens};
}

std::vector<int32_t> counted(int64_t from, int64_t to) {
  std::vector<int32_t> made;
  for (int64_t i = from; i < to; ++i) {
    made.push_back(static_cast<int32_t>(i));
  }
  return made;
}

TEST(Scheduler, PromptsLeaveRoomToAnswers) {
  SchedulerOptions options = fewPages();
  options.draftTokens = 0;
  Scheduler scheduler(options);
  ASSERT_TRUE(scheduler.submit(arrivalOf(1, {1, 2}, 9)).isOk());
  Step step = scheduler.next(0);
  scheduler.complete(step);
  scheduler.append(1, 3);
  ASSERT_TRUE(scheduler.submit(arrivalOf(2, counted(0, 100), 9)).isOk());
  std::vector<int64_t> ends;
  for (int i = 0; i < 5; ++i) {
    step = scheduler.next(0);
    scheduler.complete(step);
    ASSERT_EQ(2U, step.work.size());
    EXPECT_EQ(1U, step.work[0].id);
    EXPECT_EQ(1, step.work[0].rows);
    scheduler.append(1, 4);
    ends.push_back(step.work[1].end);
  }
  EXPECT_EQ((std::vector<int64_t>{24, 48, 72, 96, 100}), ends);
}

TEST(Scheduler, VictimIsTheYoungestOfTheLowestPriority) {
  SchedulerOptions options = fewPages();
  options.pages = 6;
  options.positions = 48;
  options.draftTokens = 0;
  Scheduler scheduler(options);
  for (uint64_t id : {1, 2, 3}) {
    Arrival arrival = arrivalOf(id, counted(static_cast<int64_t>(id) * 100, id * 100 + 8), 30);
    arrival.priority = id == 2 ? 0 : 1;
    ASSERT_TRUE(scheduler.submit(arrival).isOk());
  }
  std::vector<Preemption> preemptions;
  for (int i = 0; i < 20 && preemptions.empty(); ++i) {
    Step step = scheduler.next(0);
    scheduler.complete(step);
    for (const Work &work : step.work) {
      scheduler.append(work.id, 7);
    }
    preemptions = step.preemptions;
  }
  ASSERT_EQ(1U, preemptions.size());
  EXPECT_EQ(2U, preemptions[0].id);
  EXPECT_EQ(1U, preemptions[0].winner);
  EXPECT_EQ(16, preemptions[0].tokensLost);
  EXPECT_EQ(1, preemptions[0].pagesShort);
}

/// Runs steps until the request with this number has one, and gives what was preempted.
std::vector<Preemption> runUntil(Scheduler &scheduler, uint64_t id, int steps) {
  std::vector<Preemption> preemptions;
  for (bool runs = false; !runs && steps > 0; --steps) {
    Step step = scheduler.next(0);
    scheduler.complete(step);
    preemptions.insert(preemptions.end(), step.preemptions.begin(), step.preemptions.end());
    for (const Work &work : step.work) {
      runs |= work.id == id;
      if (work.rows > 0) {
        scheduler.append(work.id, 7);
      }
    }
  }
  return steps > 0 ? preemptions : std::vector<Preemption>();
}

/// Three requests that run, of two pages each, and one of priority 1 that needs `prompt` tokens.
std::vector<Preemption> urgent(SchedulerOptions options, int64_t prompt) {
  Scheduler scheduler(options);
  for (uint64_t id : {1, 2, 3}) {
    Arrival arrival = arrivalOf(id, counted(static_cast<int64_t>(id) * 100, id * 100 + 12), 20);
    arrival.priority = id == 1 ? 1 : 0;
    EXPECT_TRUE(scheduler.submit(arrival).isOk());
  }
  EXPECT_TRUE(runUntil(scheduler, 3, 2).empty());
  Arrival arrival = arrivalOf(4, counted(400, 400 + prompt), 20);
  arrival.priority = 1;
  EXPECT_TRUE(scheduler.submit(arrival).isOk());
  return runUntil(scheduler, 4, 2);
}

TEST(Scheduler, PrioritiesTakePlacesAndPages) {
  SchedulerOptions options = fewPages();
  options.draftTokens = 0;
  options.pages = 10;
  options.positions = 80;
  // Two pages are free beside one for each that grows, or all three run that may.
  EXPECT_EQ(0U, urgent(options, 8).size());
  std::vector<Preemption> lost = urgent(options, 24);
  ASSERT_EQ(1U, lost.size());
  EXPECT_EQ(3U, lost[0].id);
  EXPECT_EQ(4U, lost[0].winner);
  EXPECT_EQ(12, lost[0].tokensLost);
  EXPECT_EQ(2, lost[0].pagesShort);
  ASSERT_EQ(2U, urgent(options, 40).size());
  options.maxRunning = 3;
  lost = urgent(options, 8);
  ASSERT_EQ(1U, lost.size());
  EXPECT_EQ(3U, lost[0].id);
  EXPECT_EQ(0, lost[0].pagesShort);
  // Nobody loses pages where they would not do: the first has the same priority.
  EXPECT_EQ(0U, urgent(options, 72).size());
  options.policy = PagePolicy::Reserve;
  options.pages = 20;
  EXPECT_EQ(0U, urgent(options, 8).size());
}

TEST(Scheduler, AnswersOfOnePromptComputeItOnce) {
  SchedulerOptions options = fewPages();
  options.draftTokens = 0;
  Scheduler scheduler(options);
  for (uint64_t id = 1; id <= 4; ++id) {
    ASSERT_TRUE(scheduler.submit(arrivalOf(id, counted(0, 50), 5)).isOk());
  }
  int64_t drawn = 0;
  for (int i = 0; i < 10; ++i) {
    Step step = scheduler.next(0);
    scheduler.complete(step);
    for (const Work &work : step.work) {
      if (work.rows == 0) {
        continue;
      }
      ++drawn;
      if (work.tokens.size() == 54) {
        scheduler.end(work.id);
      } else {
        scheduler.append(work.id, static_cast<int32_t>(work.id));
      }
    }
  }
  EXPECT_EQ(20, drawn);
  // The prompt's six full pages once, the two tokens behind them and the four answers by each.
  EXPECT_EQ(48U + 4 * 2 + 4 * 4, scheduler.counts().computedTokens);
  EXPECT_EQ(3U * 48, scheduler.counts().reusedTokens);
  EXPECT_EQ(40, scheduler.pages().free());
}

TEST(Scheduler, NobodyOvertakesWhoWaitsForPages) {
  SchedulerOptions options = fewPages();
  options.pages = 6;
  options.positions = 48;
  Scheduler scheduler(options);
  // One page each, each beginning in a step of its own, and then four for one.
  uint64_t ids = 0;
  auto submitSmall = [&] {
    int64_t id = static_cast<int64_t>(++ids);
    ASSERT_TRUE(scheduler.submit(arrivalOf(ids, {static_cast<int32_t>(id)}, 5)).isOk());
  };
  submitSmall();
  bool hasBegun = false;
  for (int i = 0; i < 20 && !hasBegun; ++i) {
    Step step = scheduler.next(0);
    scheduler.complete(step);
    for (const Work &work : step.work) {
      hasBegun |= work.id == 1000;
      if (work.tokens.size() == 5) {
        scheduler.end(work.id);
      } else if (work.rows > 0) {
        scheduler.append(work.id, static_cast<int32_t>(work.id));
      }
    }
    if (i == 2) {
      ASSERT_TRUE(scheduler.submit(arrivalOf(1000, counted(0, 32), 5)).isOk());
    }
    submitSmall();
  }
  EXPECT_TRUE(hasBegun);
}

TEST(Scheduler, GuessesCountWhereTheyAreDrawn) {
  Scheduler scheduler(fewPages());
  ASSERT_TRUE(scheduler.submit(arrivalOf(1, {5, 6, 7, 8, 5}, 9)).isOk());
  Step step = scheduler.next(0);
  scheduler.complete(step);
  scheduler.append(1, 6);
  step = scheduler.next(0);
  EXPECT_EQ(63, step.left);
  scheduler.speculate(step, guessed);
  scheduler.complete(step);
  ASSERT_EQ(1U, step.work.size());
  // Behind "5 6" at the beginning, as far as the page has room.
  EXPECT_EQ((std::vector<int32_t>{7, 8}), step.work[0].draft);
  EXPECT_EQ(3, step.work[0].rows);
  EXPECT_EQ(5, step.work[0].start);
  EXPECT_EQ(8, step.work[0].end);
  scheduler.append(1, 7, true);
  scheduler.append(1, 9); // 8 was guessed
  step = scheduler.next(0);
  scheduler.speculate(step, guessed);
  EXPECT_EQ(7, step.work[0].start);
  EXPECT_EQ(8, step.work[0].end); // "7 9" is new
  EXPECT_EQ(2U, scheduler.counts().draftTokens);
  EXPECT_EQ(1U, scheduler.counts().acceptedTokens);
}

TEST(Scheduler, PagesAreKeptForTheirSalt) {
  Scheduler scheduler(fewPages());
  std::vector<int64_t> starts;
  for (std::string salt : {"a", "b", "a", "b"}) {
    Arrival arrival = arrivalOf(1, counted(0, 32), 5);
    arrival.salt = salt;
    ASSERT_TRUE(scheduler.submit(arrival).isOk());
    Step step = scheduler.next(0);
    scheduler.complete(step);
    starts.push_back(step.work[0].start);
    scheduler.end(1); // cancelled: its full pages are kept
  }
  // Of the third and fourth all but the last page, whose last token is wanted.
  EXPECT_EQ((std::vector<int64_t>{0, 0, 24, 24}), starts);
  EXPECT_EQ(8, scheduler.pages().kept());
}

TEST(Scheduler, RefusalsNameTheRequestAndTheNumber) {
  SchedulerOptions options = fewPages();
  options.maxWaiting = 2;
  Scheduler scheduler(options);
  auto refused = [&](Arrival arrival) {
    return scheduler.submit(std::move(arrival)).status().toString();
  };
  EXPECT_EQ("TN0616: request 9: 121 tokens do not fit into the 120 positions of a sequence "
            "(shorten the text, or give the service more pages)",
            refused(arrivalOf(9, counted(0, 121), 1)));
  Arrival late = arrivalOf(1, counted(0, 20), 8);
  late.deadline = 10;
  ASSERT_TRUE(scheduler.submit(late).isOk());
  EXPECT_EQ("TN0105: request 1 has not ended (give each request a number of its own)",
            refused(arrivalOf(1, {1}, 1)));
  ASSERT_TRUE(scheduler.submit(arrivalOf(2, {1}, 1)).isOk());
  EXPECT_EQ("TN0812: request 3: 2 requests wait already (send it again later)",
            refused(arrivalOf(3, {1}, 1)));
  Step step = scheduler.next(10);
  ASSERT_EQ(1U, step.refusals.size());
  EXPECT_EQ("TN0813: request 1 is at its deadline with 0 of up to 8 tokens: it waited for 3 pages, "
            "of which 40 are free, behind 0 requests that run (allow more time, or send fewer "
            "requests)",
            step.refusals[0].status.toString());
}

} // namespace
} // namespace tenon::generate
