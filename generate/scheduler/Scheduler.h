// Which tokens of which request the next step computes, and in which pages their keys and values
// lie. It reads no clock and runs nothing: equal calls give equal steps.
#pragma once

#include "generate/scheduler/PagePool.h"
#include "support/Result.h"

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace tenon::generate {

enum class PagePolicy : uint8_t {
  Recompute, ///< admits what fits now; where pages run short, a request loses its own and waits
  Reserve,   ///< admits a request only with all pages that it may need
};

struct SchedulerOptions {
  int64_t page = 0;         ///< positions of a page
  int64_t pages = 0;        ///< that requests share
  int64_t positions = 0;    ///< of one sequence, at most: no more than all pages have
  int64_t stepTokens = 0;   ///< tokens of a step, at most
  int64_t promptTokens = 0; ///< of those, of prompts in a step that also continues answers
  int64_t maxRunning = 0;   ///< requests of a step, at most: no more than stepTokens
  int64_t maxWaiting = 0;   ///< requests that wait, at most
  /// Tokens of an answer that a step computes on a guess, at most; 0 guesses none. Guesses take the
  /// room that a step has left.
  int64_t draftTokens = 0;
  int64_t maxRows = 0; ///< tokens of a step whose logits are asked for, at least maxRunning
  PagePolicy policy = PagePolicy::Recompute;
};

/// A request as the scheduler sees it.
struct Arrival {
  uint64_t id = 0;
  std::vector<int32_t> prompt;
  int64_t maxTokens = 0;                ///< of the answer
  int64_t priority = 0;                 ///< a larger one goes first; of equal ones who came first
  std::string salt = {};                ///< requests of one salt share pages
  std::optional<int64_t> deadline = {}; ///< in the time that `next` is given
};

/// What a step computes of one request: the positions from `start` to `end`.
struct Work {
  uint64_t id = 0;
  uint64_t serial = 0; ///< no two requests have one
  int64_t start = 0, end = 0;
  /// The logits at so many of its last positions are asked for: none within a prompt, else those of
  /// the last token and of each of the draft.
  int64_t rows = 0;
  int64_t reused = 0; ///< tokens that were in shared pages when the request first ran
  // Valid until the next call of anything but `complete`.
  std::span<const int32_t> tokens; ///< of the sequence, from its first
  std::span<const int32_t> pages;  ///< of the sequence, in order
  std::vector<int32_t> draft = {}; ///< tokens behind those, which are guesses
};

/// A request that lost its pages and waits for others.
struct Preemption {
  uint64_t id = 0;
  uint64_t winner = 0;    ///< the request that needed pages, or to run
  int64_t tokensLost = 0; ///< to be computed again, but for those in pages that are still kept
  /// Pages that the winner needed beyond those that were free; 0 where maxRunning requests ran.
  int64_t pagesShort = 0;
};

/// A request that the scheduler ended.
struct Refusal {
  uint64_t id = 0;
  Status status;
};

struct Step {
  std::vector<Work> work; ///< at most one of each request
  std::vector<Preemption> preemptions;
  std::vector<Refusal> refusals; ///< requests at their deadline: TN0813
  int64_t left = 0;              ///< tokens that it could also compute
};

struct SchedulerCounts {
  uint64_t computedTokens = 0;   ///< of prompts and answers, each time that they were computed
  uint64_t reusedTokens = 0;     ///< that were in shared pages when their request first ran
  uint64_t recomputedTokens = 0; ///< computed once more after a preemption
  uint64_t preemptions = 0;
  uint64_t draftTokens = 0;    ///< that were computed on a guess
  uint64_t acceptedTokens = 0; ///< of those, that were drawn
};

/// One thread at a time. A round is `next`, `speculate` where answers are guessed, the step,
/// `complete`, and for each request that drew `append` or `end`.
class Scheduler {
public:
  /// The options are in their ranges.
  explicit Scheduler(const SchedulerOptions &theOptions);

  /// Gives the request's serial. TN0105 for an id that has not ended; TN0616 for a prompt with more
  /// tokens than a sequence may have; TN0812 where maxWaiting requests wait.
  Result<uint64_t> submit(Arrival arrival);
  /// Frees its pages, of which the full ones are kept for others until their room is needed. An id
  /// that has ended is left alone.
  void end(uint64_t id);
  /// Plans a step. Running requests come before waiting ones, each by priority and age; but one
  /// that waits takes the places and pages of running ones of lower priority, where it needs them,
  /// unless the policy is Reserve.
  /// `promptTokens` bounds those of prompts beside answers, as the option does.
  Step next(int64_t now, int64_t promptTokens = std::numeric_limits<int64_t>::max());
  /// Tokens of a guess that its request could have, if the step had room for all.
  int64_t mayGuess(const Work &work) const;
  /// How a work goes on, at most so many tokens.
  using Guess = std::function<std::span<const int32_t>(const Work &work, int64_t count)>;
  /// Gives the step's answers drafts, as far as it has room.
  void speculate(Step &step, const Guess &guess) const;
  /// The step was run: its tokens are in their pages.
  void complete(const Step &step);
  /// The token that a running request drew, and whether it is the next of its draft: its keys and
  /// values are in their place then.
  void append(uint64_t id, int32_t token, bool isOfDraft = false);

  int64_t running() const { return static_cast<int64_t>(runningOnes.size()); }
  int64_t waiting() const { return static_cast<int64_t>(waitingOnes.size()); }
  const PagePool &pages() const { return pool; }
  const SchedulerCounts &counts() const { return counted; }

private:
  struct Request {
    Arrival arrival; ///< its prompt grows by what is drawn
    uint64_t serial = 0;
    int64_t prompt = 0;               ///< tokens
    int64_t computed = 0;             ///< tokens that are in pages
    int64_t lost = 0;                 ///< tokens that were in pages when it was preempted
    std::optional<int64_t> reused;    ///< since it first ran
    std::vector<int32_t> pages = {};  ///< none while it waits
    std::vector<uint64_t> chain = {}; ///< of its pages that are full, in order

    int64_t size() const { return static_cast<int64_t>(arrival.prompt.size()); }
    int64_t remaining() const { return size() - computed; }
  };
  struct Before {
    bool operator()(const Request *left, const Request *right) const;
  };
  enum class Admission : uint8_t { Admitted, Deferred, Blocked };

  int64_t pagesOf(int64_t tokens) const { return (tokens + options.page - 1) / options.page; }
  int64_t mayNeed(const Request &request) const;
  PageContents contentsOf(const Request &request, size_t number) const;
  void expire(int64_t now, Step &step);
  Status expiryOf(const Request &request) const;
  bool grow(Request &request, int64_t end, Step &step);
  void preempt(Request &victim, const Request &winner, int64_t pagesShort, Step &step);
  void release(Request &request);
  std::vector<PagePool::Match> sharedPages(const Request &request) const;
  bool isBeingComputed(const Request &request, std::span<const PagePool::Match> shared) const;
  int64_t missingPages(const Request &request, std::span<const PagePool::Match> shared,
                       int64_t growing) const;
  int64_t growingPages(std::span<Request *const> others) const;
  int64_t freedBy(std::span<Request *const> victims) const;
  int64_t promptBudget(int64_t promptTokens) const;
  void displace(int64_t promptTokens, Step &step);
  Admission admit(Request &request);
  void plan(Request &request, int64_t count, Step &step) const;
  void nameFullPages(Request &request);

  SchedulerOptions options;
  PagePool pool;
  std::unordered_map<uint64_t, Request> requests;
  std::set<Request *, Before> waitingOnes;
  std::vector<Request *> runningOnes;               ///< in the order of Before
  std::set<std::pair<int64_t, uint64_t>> deadlines; ///< with ids
  int64_t promised = 0; ///< free pages that running requests may yet need, of policy Reserve
  uint64_t serials = 0;
  SchedulerCounts counted;
};

} // namespace tenon::generate
