// Random schedules of a service: requests come, share prompts, are cancelled and preempted. What
// each is given is compared with what it is given alone.
#pragma once

#include "generate/service/TextService.h"
#include "support/random/Random.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace tenon::generate {

struct Heard {
  std::vector<int32_t> tokens;
  std::string text;
  std::vector<uint64_t> bits; ///< of each draw: a hash of its logprob and of those listed with it
  std::vector<double> logprobs;
  std::optional<Finish> finish;
  Status error;
  int64_t reused = 0;

  /// Whether its draws are the first of another's: to the bit, or with logprobs as near as this.
  bool begins(const Heard &whole, double tolerance) const {
    bool isNear = tokens.size() <= whole.tokens.size();
    for (size_t i = 0; isNear && i < tokens.size(); ++i) {
      isNear = tokens[i] == whole.tokens[i] &&
               (tolerance == 0 ? bits[i] == whole.bits[i]
                               : std::abs(logprobs[i] - whole.logprobs[i]) <= tolerance);
    }
    return isNear && error.isOk() && whole.text.starts_with(text);
  }
  bool isWhole(const Heard &whole, double tolerance = 0) const {
    return begins(whole, tolerance) && tokens.size() == whole.tokens.size() && text == whole.text &&
           finish == whole.finish;
  }
  void hear(const Piece &piece) {
    uint64_t hash = std::bit_cast<uint64_t>(piece.draw.logprob);
    for (const Draw &draw : piece.top) {
      hash = (hash ^ std::bit_cast<uint64_t>(draw.logprob) ^ static_cast<uint64_t>(draw.token)) *
             0x9E3779B97F4A7C15;
      hash ^= hash >> 31;
    }
    bits.push_back(hash);
    logprobs.push_back(piece.draw.logprob);
    tokens.push_back(piece.draw.token);
    text += piece.text;
    reused += piece.reused;
    finish = piece.finish;
  }
};

/// What schedules run on.
struct Stage {
  const Tokenizer *tokenizer;
  ModelFacts facts;
  std::function<Result<std::unique_ptr<StepEngine>>()> engine;
  std::function<Heard(const TextRequest &)> alone;
  /// Of the draft model of some schedules; empty for none.
  std::function<Result<std::unique_ptr<StepEngine>>()> guesses = {};
  /// What a third of the requests is held to.
  std::vector<std::shared_ptr<grammar::Automaton>> formats = {};
  int64_t maxShared = 20; ///< tokens that prompts have in common
  int64_t maxAnswer = 30;
  int64_t topTokens = 0;
  double tolerance = 0; ///< of logprobs; 0 for equal bits
};

inline ServiceOptions randomOptions(Random &random) {
  ServiceOptions options;
  options.maxRunning = random.within(1, 6);
  options.stepTokens = random.within(1, 64);
  options.promptTokens = random.within(1, 16);
  options.draftTokens = random.one<int64_t>({0, 1, 4});
  options.policy = random.one({PagePolicy::Recompute, PagePolicy::Reserve});
  return options;
}

inline TextRequest randomRequest(Random &random, const Stage &stage, uint64_t id) {
  TextRequest made{.id = id};
  int64_t shared = random.below(stage.maxShared), own = random.within(1, 4);
  for (int64_t i = 0; i < shared; ++i) {
    made.prompt.push_back(static_cast<int32_t>('a' + i % 25));
  }
  for (int64_t i = 0; i < own; ++i) {
    made.prompt.push_back(static_cast<int32_t>(random.within('a', 'd')));
  }
  made.options.maxTokens = random.within(1, stage.maxAnswer);
  made.options.topTokens = stage.topTokens;
  made.options.sampling.temperature = random.one({0.0, 1.0});
  made.options.sampling.seed = random.next();
  made.options.sampling.repetition = random.one({1.0, 1.2});
  made.options.stops = {"q", "xy"};
  size_t format = static_cast<size_t>(random.below(30));
  if (format < 10 && !stage.formats.empty()) {
    made.options.format = stage.formats[format % stage.formats.size()];
  }
  made.priority = random.below(2);
  made.salt = random.one({"", "salt"});
  return made;
}

/// Runs one; the first contradiction, or nothing. Adds to what services counted.
inline std::string runSchedule(const Stage &stage, uint64_t seed, ServiceStatistics &total) {
  Random random(seed);
  std::vector<TextRequest> requests;
  for (int64_t id = random.within(2, 7); id > 0; --id) {
    requests.push_back(randomRequest(random, stage, static_cast<uint64_t>(id)));
  }
  Result<std::unique_ptr<StepEngine>> engine = stage.engine();
  if (!engine) {
    return engine.status().toString();
  }
  ServiceOptions options = randomOptions(random);
  std::unique_ptr<StepEngine> guesses;
  if (stage.guesses && options.draftTokens > 0 && random.chance(0.5)) {
    Result<std::unique_ptr<StepEngine>> draft = stage.guesses();
    if (!draft) {
      return draft.status().toString();
    }
    guesses = std::move(*draft);
  }
  Result<std::unique_ptr<TextService>> made = TextService::create(
      *stage.tokenizer, stage.facts, std::move(*engine), options, std::move(guesses));
  if (!made) {
    return made.status().toString();
  }
  TextService &service = **made;
  std::unordered_map<uint64_t, Heard> heard;
  std::unordered_map<uint64_t, bool> isCancelled;
  size_t sent = 0;
  for (int steps = 0; sent < requests.size() || !service.isIdle(); ++steps) {
    while (sent < requests.size() && (service.isIdle() || random.chance(0.3))) {
      if (Status status = service.submit(requests[sent++]); !status) {
        return status.toString();
      }
    }
    if (random.chance(0.02)) {
      uint64_t id = requests[random.below(static_cast<int64_t>(sent))].id;
      isCancelled[id] = !heard[id].finish;
      service.cancel(id);
    }
    Status status = service.step([&](uint64_t id, Result<Piece> piece) {
      if (piece && !isCancelled[id] && !heard[id].finish) {
        heard[id].hear(*piece);
      } else {
        heard[id].error =
            piece ? Status::error(ErrorId::InternalError, "a piece too much") : piece.takeStatus();
      }
    });
    if (!status || steps > 10'000) {
      return status ? "it does not end" : status.toString();
    }
  }
  for (const TextRequest &request : requests) {
    const Heard &one = heard[request.id];
    Heard whole = stage.alone(request);
    if (!one.error.isOk()) {
      return one.error.toString();
    }
    if (!(isCancelled[request.id] ? one.begins(whole, stage.tolerance)
                                  : one.isWhole(whole, stage.tolerance))) {
      return "another text than alone";
    }
  }
  ServiceStatistics counted = service.statistics();
  total.scheduler.preemptions += counted.scheduler.preemptions;
  total.scheduler.reusedTokens += counted.scheduler.reusedTokens;
  total.scheduler.draftTokens += counted.scheduler.draftTokens;
  total.scheduler.acceptedTokens += counted.scheduler.acceptedTokens;
  total.cancelled += counted.cancelled;
  total.finished += counted.finished;
  total.generatedTokens += counted.generatedTokens;
  return counted.pagesUsed == 0 && counted.submitted == counted.finished + counted.cancelled
             ? ""
             : "pages or requests are left";
}

} // namespace tenon::generate
