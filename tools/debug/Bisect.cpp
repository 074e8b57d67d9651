// First the steps of the compilation in order, each against the import; then the rewrites of the
// step by halves; and where every step is right, what the regions give when they run.
#include "support/files/ScratchFolder.h"
#include "support/text/Text.h"
#include "tools/debug/Probe.h"

#include <chrono>

namespace tenon::debug {
namespace {

using Clock = std::chrono::steady_clock;

/// The phase of a step, by its name: what is no phase is a pass of optimize.
std::string phaseOf(const std::string &step) {
  return llvm::is_contained(pipeline::kPhaseNames, step)
             ? step
             : std::string(pipeline::nameOf(pipeline::Phase::Optimize));
}

class Bisector {
public:
  Bisector(const DebugRequest &request, Trial trial) : request(request), trial(std::move(trial)) {}

  Bisection run();

private:
  double secondsLeft() {
    double left = request.seconds - std::chrono::duration<double>(Clock::now() - begun).count();
    result.isInTime = result.isInTime && left > 0;
    return std::max(left, 0.0);
  }
  void nameStep(const Sighting &found);
  void findRewrite(const Sighting &found);
  void findRegion();

  const DebugRequest &request;
  Trial trial;
  Clock::time_point begun = Clock::now();
  Bisection result;
};

void Bisector::nameStep(const Sighting &found) {
  bool isDifferent = found.outcome.kind == Outcome::Kind::Different;
  std::string turn = found.turn > 1 ? strCat(found.pass, " (time ", found.turn, ")") : found.pass;
  result.phase = phaseOf(found.pass);
  result.why = found.outcome.text;
  result.site = found.suspect;
  if (!isDifferent) {
    // The name of a step is known when it is over.
    result.pass = strCat("the one after ", turn);
    result.phase = found.pass == "normalize" ? "optimize" : result.phase;
  } else if (result.phase == "optimize" && found.pass != "optimize") {
    result.pass = turn;
  }
}

/// The first try of a pattern with which the step fails; the step without any does not.
void Bisector::findRewrite(const Sighting &found) {
  auto failsWith = [&](uint64_t tries, Sighting &sighting) {
    sighting = probe(trial, {found.step, tries}, secondsLeft());
    return sighting.outcome.isLike(found.outcome);
  };
  Sighting sighting;
  if (found.tries == 0 || failsWith(0, sighting)) {
    return;
  }
  uint64_t good = 0, bad = found.tries;
  while (bad - good > 1 && secondsLeft() > 0) {
    uint64_t middle = good + (bad - good) / 2;
    (failsWith(middle, sighting) ? bad : good) = middle;
  }
  if (secondsLeft() > 0 && failsWith(bad, sighting)) {
    result.pattern = sighting.pattern;
    result.site = strCat("at ", sighting.place);
  }
}

void Bisector::findRegion() {
  std::string site;
  Outcome outcome = probeRegions(trial, secondsLeft(), site);
  result.why = outcome.text;
  switch (outcome.kind) {
  case Outcome::Kind::Different:
    result.phase = "codegen";
    result.site = site;
    break;
  case Outcome::Kind::Fault:
  case Outcome::Kind::Refused:
    result.phase = "codegen";
    break;
  case Outcome::Kind::Same:
    result.phase = "plan";
    result.why = "with the results of all regions as outputs, the numbers are correct: " +
                 result.outcome.text;
    break;
  default:
    result.phase = "run";
  }
}

Bisection Bisector::run() {
  result.outcome = inChild(secondsLeft(), [&](std::string &) { return evaluateTrial(trial); });
  if (!result.outcome.isFailure()) {
    return result;
  }
  Sighting found = probe(trial, {}, secondsLeft());
  if (found.outcome.kind == Outcome::Kind::TooLong) {
    result.isInTime = false;
  } else if (found.outcome.isFailure()) {
    nameStep(found);
    findRewrite(found);
  } else {
    findRegion();
  }
  return result;
}

} // namespace

Result<Bisection> bisectModel(const DebugRequest &request) {
  TENON_ASSIGN(ScratchFolder folder, ScratchFolder::create("tenon-bisect"));
  TENON_ASSIGN(Trial trial, makeTrial(request, folder.path()));
  return Bisector(request, std::move(trial)).run();
}

} // namespace tenon::debug
