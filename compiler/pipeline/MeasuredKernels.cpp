// Candidates are asked for only where the store has the problem: finding them parses the region.
#include "compiler/pipeline/MeasuredKernels.h"

#include "support/Status.h"
#include "support/text/Text.h"

#include <cstdio>
#include <set>

namespace tenon::pipeline {
namespace {

std::string microsecondsText(double microseconds) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.4g us", microseconds);
  return text;
}

} // namespace

std::string familiesOf(llvm::ArrayRef<dispatch::KernelCandidate> candidates) {
  std::set<std::string> families;
  for (const dispatch::KernelCandidate &candidate : candidates) {
    families.insert(candidate.kernel.family);
  }
  std::string text;
  for (const std::string &family : families) {
    text += strCat(text.empty() ? "" : ", ", family, ' ', kernelFamilyRevision(family));
  }
  return text;
}

MeasuredKernels::MeasuredKernels(const tuning::TuningDatabase &store,
                                 llvm::ArrayRef<CodeTarget> codeTargets,
                                 const std::function<void(std::string_view text)> &notice,
                                 bool asksForChoices)
    : database(store), target(codeTargets.front()), told(notice), countsChoices(asksForChoices) {
  for (const CodeTarget &each : codeTargets) {
    levels.push_back(each.level);
  }
}

const tuning::TuningDatabase::Answer &MeasuredKernels::ask(const codegen::RegionSource &source,
                                                           TunedRegion &region) {
  auto [entry, isNew] = known.try_emplace(source.text);
  tuning::Problem problem = tuning::problemOf(source.text);
  region.problem = problem.hash;
  if (!isNew) {
    return entry->second;
  }
  if (database.hasProblem(problem)) {
    llvm::Expected<std::vector<dispatch::KernelCandidate>> all = target.candidates(source.text);
    if (all) {
      problem.families = familiesOf(*all);
    } else {
      llvm::consumeError(all.takeError()); // the choice has found kernels: a miss, at most
    }
  }
  entry->second = database.find(problem, levels);
  return entry->second;
}

bool MeasuredKernels::hasChoice(const codegen::RegionSource &source) const {
  llvm::Expected<std::vector<dispatch::KernelCandidate>> all = target.candidates(source.text);
  if (!all) {
    llvm::consumeError(all.takeError());
    return false;
  }
  return all->size() > 1;
}

MeasuredKernels::Found MeasuredKernels::find(const codegen::RegionSource &source,
                                             const std::string &label,
                                             const dispatch::KernelChoice &untuned,
                                             llvm::ArrayRef<std::string> disabled) {
  TunedRegion &region = regions.emplace_back();
  region.label = label;
  region.kernel = region.untuned = untuned.text();
  if (!source.symbols.empty()) {
    region.miss = "its sizes vary: give them with --shape";
    region.state = TunedState::FreeSizes;
    return {};
  }
  const tuning::TuningDatabase::Answer &answer = ask(source, region);
  region.miss = answer.miss;
  region.state = answer.record    ? TunedState::Hit
                 : answer.isStale ? TunedState::Stale
                                  : TunedState::Miss;
  if (!answer.record) {
    if (countsChoices && !answer.isStale && !hasChoice(source)) {
      region.state = TunedState::NoChoice;
      region.miss = strCat(region.untuned, " is the only kernel for it");
    }
    return {};
  }
  llvm::Expected<dispatch::KernelChoice> kernel =
      dispatch::KernelChoice::parse(answer.record->kernel);
  if (!kernel) {
    refuse(llvm::toString(kernel.takeError()));
    return {};
  }
  if (llvm::is_contained(disabled, kernel->family)) {
    region.miss = strCat("its family is disabled: ", answer.record->kernel);
    region.state = TunedState::Unused;
    return {};
  }
  region.kernel = answer.record->kernel;
  region.microseconds = answer.record->microseconds();
  region.untunedMicroseconds = answer.record->untunedMicroseconds();
  return {std::move(*kernel),
          strCat("the fastest of ", answer.record->trials.size(),
                 " that tenon tune measured: ", microsecondsText(region.microseconds), ", ",
                 answer.record->untuned, " took ", microsecondsText(region.untunedMicroseconds))};
}

void MeasuredKernels::refuse(std::string_view why) {
  TunedRegion &region = regions.back();
  region.kernel = region.untuned;
  region.miss = strCat("its record does not fit it: ", why);
  region.state = TunedState::Unused;
  if (told && refused.insert(region.problem).second) {
    told(strCat(nameOf(ErrorId::BadTuningStore), ": the record of ", region.label,
                " in the tuning store is not used: ", why));
  }
}

} // namespace tenon::pipeline
