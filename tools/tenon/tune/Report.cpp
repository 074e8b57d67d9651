// What tuning gained, region by region.

#include "tools/tenon/target/LocalStore.h"
#include "tools/tenon/tune/Tuner.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>

namespace tenon::tool {
namespace {

const char *nameOf(ProblemState state) {
  switch (state) {
  case ProblemState::Measured:
    return "measured";
  case ProblemState::Known:
    return "known";
  case ProblemState::Undecided:
    return "undecided";
  case ProblemState::Left:
    return "left";
  case ProblemState::Skipped:
    return "skipped";
  case ProblemState::TooShort:
    return "too short";
  case ProblemState::FreeSizes:
    return "free sizes";
  }
  return "";
}

std::string regionsText(const TunedProblem &problem) {
  return problem.labels.size() == 1
             ? problem.labels.front()
             : fmt::format("{} ({} of them)", problem.labels.front(), problem.labels.size());
}

/// What became of a problem, in words.
std::string gainText(const TunedProblem &problem) {
  switch (problem.state) {
  case ProblemState::Measured:
  case ProblemState::Known:
    return problem.isTuned()
               ? fmt::format("{:.1f} us, {:.1f} us untuned: {} instead of {}", problem.microseconds,
                             problem.untunedMicroseconds, problem.kernel, problem.untuned)
               : fmt::format("{:.1f} us: none of {} is faster than {}", problem.untunedMicroseconds,
                             problem.raced, problem.untuned);
  case ProblemState::Left:
    return "not measured: the time was over";
  case ProblemState::Undecided:
  case ProblemState::Skipped:
  case ProblemState::TooShort:
  case ProblemState::FreeSizes:
    return problem.why;
  }
  return "";
}

size_t countOf(const TuneResult &result, ProblemState state) {
  return static_cast<size_t>(std::ranges::count(result.problems, state, &TunedProblem::state));
}

std::string headText(const TuneResult &result) {
  std::string text = deviceText(result.device, result.threads, result.level) + "\n";
  text +=
      fmt::format("{} measured in {:.1f} s, {} known, {} undecided, {} left, {} without a choice",
                  countOf(result, ProblemState::Measured), result.tuneSeconds,
                  countOf(result, ProblemState::Known), countOf(result, ProblemState::Undecided),
                  countOf(result, ProblemState::Left), countOf(result, ProblemState::Skipped));
  for (auto [state, what] : {std::pair(ProblemState::TooShort, "too short to matter"),
                             std::pair(ProblemState::FreeSizes, "of sizes that vary")}) {
    size_t count = countOf(result, state);
    text += count > 0 ? fmt::format(", {} {}", count, what) : "";
  }
  text += "\n";
  if (countOf(result, ProblemState::Left) > 0) {
    text += "the time was over: run it again to continue\n";
  }
  if (!result.whole) {
    return text + "a run is unchanged: no kernel was replaced\n";
  }
  const WholeGain &whole = *result.whole;
  text += fmt::format("a run takes {:.4g} ms, {:.4g} ms untuned, medians of alternating runs: "
                      "{:.2f} x as fast ({:.2f} to {:.2f}); {:.2f} x by the kernels alone\n",
                      whole.tunedSeconds * 1e3, whole.untunedSeconds * 1e3, whole.ratio, whole.low,
                      whole.high, result.predictedRatio());
  return whole.isWithdrawn ? text + "slower as a whole: the untuned kernels are used\n" : text;
}

/// A run as predicted from the measurements so far: a few lines from the first to the last, each
/// with a bar for what is left of the untuned run.
std::string plotOf(const TuneResult &result) {
  constexpr size_t kMaxLines = 8;
  constexpr double kWidth = 60;
  std::string text = "predicted time of a run from the measurements so far, starting untuned\n";
  size_t count = result.best.size(), lines = std::min(count, kMaxLines);
  for (size_t line = 0; line < lines; ++line) {
    const auto &[seconds, run] = result.best[lines == 1 ? 0 : line * (count - 1) / (lines - 1)];
    size_t length = static_cast<size_t>(kWidth * run / result.runSeconds);
    text +=
        fmt::format("{:>8.1f} s  {:>10.4g} ms  {}\n", seconds, run * 1e3, std::string(length, '#'));
  }
  return text;
}

} // namespace

std::string tuneText(const TuneResult &result) {
  std::string text = headText(result);
  text += result.best.size() > 1 && result.runSeconds > 0 ? plotOf(result) : "";
  text += "share of a run, and gain by kernel, with weights as cold as in the model\n";
  for (const TunedProblem &problem : result.problems) {
    if (problem.state == ProblemState::Skipped || problem.state == ProblemState::TooShort) {
      continue; // nothing to choose
    }
    double share = result.runSeconds > 0 ? problem.seconds / result.runSeconds : 0;
    std::string gain = problem.isTuned() ? fmt::format("{:.2f} x", problem.gain()) : "";
    text += fmt::format("{:>5.1f} %  {:>6}  {}\n                 {}\n", share * 100, gain,
                        regionsText(problem), gainText(problem));
    for (const std::string &refused : problem.refused) {
      text += fmt::format("                 not measured: {}\n", refused);
    }
  }
  return text;
}

Json describeTuning(const TuneResult &result) {
  Json problems = Json::array(), best = Json::array();
  for (const TunedProblem &problem : result.problems) {
    problems.push_back({{"regions", problem.labels},
                        {"state", nameOf(problem.state)},
                        {"why", problem.why},
                        {"run_us", problem.seconds * 1e6},
                        {"kernel", problem.kernel},
                        {"untuned", problem.untuned},
                        {"time_us", problem.microseconds},
                        {"untuned_us", problem.untunedMicroseconds},
                        {"gain", problem.gain()},
                        {"kernels_raced", problem.raced},
                        {"rounds", problem.rounds},
                        {"disturbed_rounds", problem.disturbed},
                        {"refused", problem.refused}});
  }
  for (const auto &[seconds, run] : result.best) {
    best.push_back({{"elapsed_s", seconds}, {"run_us", run * 1e6}});
  }
  Json whole;
  if (result.whole) {
    whole = {{"run_us", result.whole->tunedSeconds * 1e6},
             {"untuned_us", result.whole->untunedSeconds * 1e6},
             {"speedup", result.whole->ratio},
             {"low", result.whole->low},
             {"high", result.whole->high},
             {"by_races", result.predictedRatio()},
             {"withdrawn", result.whole->isWithdrawn}};
  }
  return {{"engine", result.engine},
          {"device", result.device},
          {"threads", result.threads},
          {"level", result.level},
          {"tune_s", result.tuneSeconds},
          {"measured", countOf(result, ProblemState::Measured)},
          {"known", countOf(result, ProblemState::Known)},
          {"left", countOf(result, ProblemState::Left)},
          {"disturbed", countOf(result, ProblemState::Undecided) > 0},
          {"whole", whole},
          {"problems", problems},
          {"best_so_far", best}};
}

} // namespace tenon::tool
