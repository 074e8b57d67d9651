// Implements admission, growth, preemption and sharing. Which request is the victim follows from
// the order in which requests run: whoever is last there came last of the lowest priority.
// One file: a step is planned by parts that read and change the same lists.
#include "generate/scheduler/Scheduler.h"

#include "support/text/Text.h"

#include <algorithm>

namespace tenon::generate {
namespace {

/// Requests that a step passes over since another computes their next page, at most.
constexpr int kMaxDeferred = 32;

} // namespace

bool Scheduler::Before::operator()(const Request *left, const Request *right) const {
  return left->arrival.priority != right->arrival.priority
             ? left->arrival.priority > right->arrival.priority
             : left->serial < right->serial;
}

Scheduler::Scheduler(const SchedulerOptions &theOptions)
    : options(theOptions), pool(theOptions.pages) {}

Result<uint64_t> Scheduler::submit(Arrival arrival) {
  uint64_t id = arrival.id;
  int64_t size = static_cast<int64_t>(arrival.prompt.size());
  if (requests.contains(id)) {
    return Status::error(ErrorId::BadArgument, strCat("request ", id, " has not ended"),
                         "give each request a number of its own");
  }
  if (size > options.positions) {
    return Status::error(ErrorId::PromptTooLong,
                         strCat("request ", id, ": ", size, " tokens do not fit into the ",
                                options.positions, " positions of a sequence"),
                         "shorten the text, or give the service more pages");
  }
  if (waiting() >= options.maxWaiting) {
    return Status::error(ErrorId::QueueFull,
                         strCat("request ", id, ": ", waiting(), " requests wait already"),
                         "send it again later");
  }
  Request &made = requests[id];
  made.serial = ++serials;
  made.prompt = size;
  made.arrival = std::move(arrival);
  waitingOnes.insert(&made);
  if (made.arrival.deadline) {
    deadlines.emplace(*made.arrival.deadline, id);
  }
  return made.serial;
}

/// Pages for a request's last token, if its answer is as long as it may be.
int64_t Scheduler::mayNeed(const Request &request) const {
  // The last token of an answer is not computed.
  return pagesOf(std::min(request.prompt + request.arrival.maxTokens - 1, options.positions));
}

void Scheduler::release(Request &request) {
  if (options.policy == PagePolicy::Reserve) {
    promised -= mayNeed(request) - static_cast<int64_t>(request.pages.size());
  }
  // The last page first: it is of no use without those before it.
  for (size_t i = request.pages.size(); i-- > 0;) {
    pool.release(request.pages[i]);
  }
  request.pages.clear();
  request.chain.clear();
  request.computed = 0;
}

void Scheduler::end(uint64_t id) {
  auto found = requests.find(id);
  if (found == requests.end()) {
    return;
  }
  Request &request = found->second;
  if (waitingOnes.erase(&request) == 0) {
    runningOnes.erase(std::ranges::find(runningOnes, &request));
    release(request);
  }
  if (request.arrival.deadline) {
    deadlines.erase({*request.arrival.deadline, id});
  }
  requests.erase(found);
}

Status Scheduler::expiryOf(const Request &request) const {
  std::string what =
      strCat("request ", request.arrival.id, " is at its deadline with ",
             request.size() - request.prompt, " of up to ", request.arrival.maxTokens, " tokens");
  if (request.pages.empty()) {
    what += strCat(": it waited for ", pagesOf(request.size()), " pages, of which ", pool.free(),
                   " are free, behind ", running(), " requests that run");
  }
  return Status::error(ErrorId::RequestTimedOut, what, "allow more time, or send fewer requests");
}

void Scheduler::expire(int64_t now, Step &step) {
  while (!deadlines.empty() && deadlines.begin()->first <= now) {
    uint64_t id = deadlines.begin()->second;
    step.refusals.push_back({id, expiryOf(requests.at(id))});
    end(id);
  }
}

void Scheduler::preempt(Request &victim, const Request &winner, int64_t pagesShort, Step &step) {
  step.preemptions.push_back({victim.arrival.id, winner.arrival.id, victim.computed, pagesShort});
  ++counted.preemptions;
  victim.lost = std::max(victim.lost, victim.computed);
  release(victim);
  std::erase(runningOnes, &victim);
  waitingOnes.insert(&victim);
}

/// Gives a running request the pages for its tokens up to `end`; false where it lost its own.
bool Scheduler::grow(Request &request, int64_t end, Step &step) {
  while (static_cast<int64_t>(request.pages.size()) < pagesOf(end)) {
    if (pool.free() == 0) {
      Request &victim = *runningOnes.back();
      preempt(victim, request, pagesOf(end) - static_cast<int64_t>(request.pages.size()), step);
      if (&victim == &request) {
        return false;
      }
      continue;
    }
    request.pages.push_back(pool.take());
    promised -= options.policy == PagePolicy::Reserve ? 1 : 0;
  }
  return true;
}

PageContents Scheduler::contentsOf(const Request &request, size_t number) const {
  auto first = request.arrival.prompt.begin() + static_cast<int64_t>(number) * options.page;
  return {.before = 0,
          .salt = number == 0 ? request.arrival.salt : std::string(),
          .tokens = {first, first + options.page}};
}

/// The full pages that a waiting request need not compute. Its last token is computed in any case:
/// somebody wants its logits.
std::vector<PagePool::Match> Scheduler::sharedPages(const Request &request) const {
  std::vector<PagePool::Match> shared;
  size_t full = static_cast<size_t>((request.size() - 1) / options.page);
  while (shared.size() < full) {
    PageContents contents = contentsOf(request, shared.size());
    contents.before = shared.empty() ? 0 : shared.back().chain;
    std::optional<PagePool::Match> match = pool.find(contents);
    if (!match) {
      break;
    }
    shared.push_back(*match);
  }
  return shared;
}

/// Whether a running request is about to fill the next page that a waiting one could share.
bool Scheduler::isBeingComputed(const Request &request,
                                std::span<const PagePool::Match> shared) const {
  int64_t first = static_cast<int64_t>(shared.size()) * options.page, end = first + options.page;
  if (end > request.size() - 1) {
    return false;
  }
  return std::ranges::any_of(runningOnes, [&](const Request *other) {
    bool isBehind =
        other->computed < end && other->size() >= end && other->chain.size() >= shared.size();
    bool followsSame = shared.empty()
                           ? other->arrival.salt == request.arrival.salt
                           : isBehind && other->chain[shared.size() - 1] == shared.back().chain;
    return isBehind && followsSame &&
           std::equal(request.arrival.prompt.begin() + first, request.arrival.prompt.begin() + end,
                      other->arrival.prompt.begin() + first);
  });
}

/// Running requests may soon need one more page each: without them, the next step would preempt
/// what this one admits.
int64_t Scheduler::growingPages(std::span<Request *const> others) const {
  return std::ranges::count_if(others, [&](const Request *other) {
    return mayNeed(*other) > static_cast<int64_t>(other->pages.size());
  });
}

/// Pages that a waiting request needs beyond those that are free, where so many others grow; none
/// are missing if it is not above 0.
int64_t Scheduler::missingPages(const Request &request, std::span<const PagePool::Match> shared,
                                int64_t growing) const {
  bool reserves = options.policy == PagePolicy::Reserve;
  int64_t wanted = reserves ? mayNeed(request) : pagesOf(request.size()) + growing;
  int64_t kept = std::ranges::count_if(
      shared, [&](const PagePool::Match &match) { return pool.references(match.page) == 0; });
  return wanted - static_cast<int64_t>(shared.size()) + kept - (pool.free() - promised);
}

/// Pages that nobody references if these requests give up theirs.
int64_t Scheduler::freedBy(std::span<Request *const> victims) const {
  std::unordered_map<int32_t, int64_t> held;
  for (const Request *victim : victims) {
    for (int32_t page : victim->pages) {
      ++held[page];
    }
  }
  return std::ranges::count_if(
      held, [&](const auto &each) { return each.second == pool.references(each.first); });
}

/// Tokens of prompts in a step beside those who run.
int64_t Scheduler::promptBudget(int64_t promptTokens) const {
  int64_t continuing = std::ranges::count_if(
      runningOnes, [](const Request *request) { return request->remaining() == 1; });
  int64_t left = options.stepTokens - continuing;
  return continuing > 0 ? std::min({left, options.promptTokens, promptTokens}) : left;
}

/// Admits requests that have a higher priority than running ones, which make room where there is
/// none. Nobody loses pages to one that would have to wait nevertheless, for pages or for tokens.
void Scheduler::displace(int64_t promptTokens, Step &step) {
  auto place = waitingOnes.begin();
  for (int deferred = 0; place != waitingOnes.end() && !runningOnes.empty() &&
                         deferred < kMaxDeferred && options.policy == PagePolicy::Recompute;) {
    Request &request = **place++;
    auto first = std::ranges::find_if(runningOnes, [&](const Request *other) {
      return other->arrival.priority < request.arrival.priority;
    });
    if (first == runningOnes.end()) {
      return;
    }
    std::span<Request *const> lower(first, runningOnes.end());
    std::vector<PagePool::Match> shared = sharedPages(request);
    if (isBeingComputed(request, shared)) {
      ++deferred;
      continue;
    }
    std::span<Request *const> higher(runningOnes.begin(), first);
    int64_t ahead = 0;
    for (const Request *other : higher) {
      ahead += other->remaining() == 1 ? 0 : other->remaining();
    }
    if (ahead >= promptBudget(promptTokens)) {
      return;
    }
    if (missingPages(request, shared, growingPages(higher)) > freedBy(lower)) {
      return;
    }
    for (size_t left = lower.size(); left > 0; --left) {
      int64_t missing = missingPages(request, sharedPages(request), growingPages(runningOnes));
      if (missing <= 0 && running() < options.maxRunning) {
        break;
      }
      preempt(*runningOnes.back(), request, std::max<int64_t>(missing, 0), step);
    }
    if (admit(request) != Admission::Admitted) {
      return;
    }
  }
}

Scheduler::Admission Scheduler::admit(Request &request) {
  std::vector<PagePool::Match> shared = sharedPages(request);
  if (isBeingComputed(request, shared)) {
    return Admission::Deferred;
  }
  if (missingPages(request, shared, growingPages(runningOnes)) > 0) {
    return Admission::Blocked;
  }
  int64_t known = pagesOf(request.size());
  for (const PagePool::Match &match : shared) {
    pool.reference(match.page);
    request.pages.push_back(match.page);
    request.chain.push_back(match.chain);
  }
  while (static_cast<int64_t>(request.pages.size()) < known) {
    request.pages.push_back(pool.take());
  }
  promised += options.policy == PagePolicy::Reserve ? mayNeed(request) - known : 0;
  request.computed = static_cast<int64_t>(shared.size()) * options.page;
  if (!request.reused) {
    request.reused = request.computed;
    counted.reusedTokens += static_cast<uint64_t>(request.computed);
  }
  waitingOnes.erase(&request);
  runningOnes.insert(std::ranges::upper_bound(runningOnes, &request, Before()), &request);
  return Admission::Admitted;
}

void Scheduler::plan(Request &request, int64_t count, Step &step) const {
  int64_t end = request.computed + count;
  step.work.push_back({.id = request.arrival.id,
                       .serial = request.serial,
                       .start = request.computed,
                       .end = end,
                       .rows = end == request.size() ? 1 : 0,
                       .reused = request.reused.value_or(0),
                       .tokens = request.arrival.prompt,
                       .pages = request.pages});
}

Step Scheduler::next(int64_t now, int64_t promptTokens) {
  Step step;
  expire(now, step);
  displace(promptTokens, step);
  auto continues = [](const Request *request) { return request->remaining() == 1; };
  int64_t left = promptBudget(promptTokens);
  // Preemptions shorten the list from its end.
  for (size_t i = 0; i < runningOnes.size(); ++i) {
    Request &request = *runningOnes[i];
    int64_t count = continues(&request) ? 1 : std::min(request.remaining(), left);
    if (count > 0 && grow(request, request.computed + count, step)) {
      left -= continues(&request) ? 0 : count;
      plan(request, count, step);
    }
  }
  int deferred = 0;
  for (auto place = waitingOnes.begin(); place != waitingOnes.end() && left > 0 &&
                                         running() < options.maxRunning &&
                                         deferred < kMaxDeferred;) {
    Request &request = **place++;
    Admission admission = admit(request);
    if (admission == Admission::Blocked) {
      break; // those behind it would take what it waits for
    }
    if (admission == Admission::Deferred) {
      ++deferred;
      continue;
    }
    int64_t count = std::min(request.remaining(), left);
    left -= count;
    plan(request, count, step);
  }
  step.left = options.stepTokens;
  for (const Work &work : step.work) {
    step.left -= work.end - work.start;
  }
  return step;
}

int64_t Scheduler::mayGuess(const Work &work) const {
  const Request &request = requests.at(work.id);
  if (work.rows == 0 || request.size() == request.prompt) {
    return 0; // a prompt is not continued yet
  }
  int64_t inPages = static_cast<int64_t>(work.pages.size()) * options.page,
          inAnswer = request.prompt + request.arrival.maxTokens - 1;
  return std::max<int64_t>(std::min({options.draftTokens, inAnswer - request.size(),
                                     std::min(inPages, options.positions) - request.size()}),
                           0);
}

void Scheduler::speculate(Step &step, const Guess &guess) const {
  int64_t rows = options.maxRows;
  for (const Work &work : step.work) {
    rows -= work.rows;
  }
  for (Work &work : step.work) {
    int64_t most = std::min({mayGuess(work), step.left, rows});
    if (most <= 0) {
      continue;
    }
    std::span<const int32_t> draft = guess(work, most);
    int64_t count = static_cast<int64_t>(draft.size());
    work.draft.assign(draft.begin(), draft.end());
    work.end += count;
    work.rows += count;
    step.left -= count;
    rows -= count;
  }
}

void Scheduler::nameFullPages(Request &request) {
  while (static_cast<int64_t>(request.chain.size() + 1) * options.page <= request.computed) {
    PageContents contents = contentsOf(request, request.chain.size());
    contents.before = request.chain.empty() ? 0 : request.chain.back();
    request.chain.push_back(pool.name(request.pages[request.chain.size()], std::move(contents)));
  }
}

void Scheduler::complete(const Step &step) {
  for (const Work &work : step.work) {
    Request &request = requests.at(work.id);
    int64_t drafted = static_cast<int64_t>(work.draft.size()), known = work.end - drafted;
    counted.computedTokens += static_cast<uint64_t>(work.end - work.start);
    counted.draftTokens += static_cast<uint64_t>(drafted);
    counted.recomputedTokens +=
        static_cast<uint64_t>(std::max<int64_t>(std::min(known, request.lost) - work.start, 0));
    request.computed = known;
    nameFullPages(request);
  }
}

void Scheduler::append(uint64_t id, int32_t token, bool isOfDraft) {
  Request &request = requests.at(id);
  request.arrival.prompt.push_back(token);
  if (isOfDraft) {
    ++request.computed;
    ++counted.acceptedTokens;
    nameFullPages(request);
  }
}

} // namespace tenon::generate
