// The kernel families of a device, and the one place that chooses among them: by predicted times.
// Relies on the order of rows where those are close.
//
// A `Region` has its `tn` function (`source`), `strategy()` and `target()`.
#pragma once

#include "compiler/codegen/common/region/FamilyScope.h"
#include "compiler/codegen/common/region/KernelFamily.h"
#include "compiler/dispatch/Cost.h"
#include "compiler/dispatch/Strategy.h"
#include "compiler/graph/Invariance.h"
#include "compiler/graph/Tn.h"
#include "compiler/target/Target.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/Error.h"

#include <cmath>

namespace tenon::codegen {

template <typename Region> class FamilyTable {
public:
  using Family = KernelFamily<Region>;

  explicit FamilyTable(llvm::ArrayRef<const Family *> families) : rows(families) {}

  llvm::ArrayRef<const Family *> families() const { return rows; }
  std::vector<std::string> names() const;
  /// Null if there is none of that name.
  const Family *find(llvm::StringRef name) const;
  /// Features of CPU levels on which a choice may depend.
  uint32_t features() const;

  /// Asks every family that the region concerns. An error says why none takes it, or not as
  /// requested, or that a prediction is no time.
  llvm::Expected<dispatch::KernelSelection> select(Region &region,
                                                   const dispatch::KernelRequest &request) const;
  /// Every configuration of every family that takes the region.
  llvm::Expected<std::vector<dispatch::KernelCandidate>> candidates(Region &region) const;
  /// Adds the code of a choice. Fails after a diagnostic.
  llvm::LogicalResult emit(Region &region, const dispatch::KernelChoice &choice) const;

  /// The answer of a family, with a choice if it takes the region.
  static FamilyMatch match(const Family &family, Region &region);
  /// All configurations of a family that has taken the region.
  static std::vector<dispatch::KernelChoice> configsOf(const Family &family, Region &region,
                                                       const FamilyMatch &match);
  /// Predicted microseconds of one of them, from the end of the kernel before to its own.
  static llvm::Expected<double> microsecondsOf(const Family &family, Region &region,
                                               const FamilyMatch &match,
                                               const dispatch::KernelChoice &choice);
  /// KernelFamily::order; empty of a family that does not say it.
  static std::string orderOf(const Family &family, Region &region, const FamilyMatch &match,
                             const dispatch::KernelChoice &choice) {
    return family.order ? family.order(region, match.problem, choice) : "";
  }
  /// How it wants the region's weight to be laid out; none if it lies as wanted.
  static std::optional<dispatch::WeightLayout> weightsOf(const Family &family, Region &region,
                                                         const FamilyMatch &match) {
    return family.weights ? family.weights(region, match.problem) : std::nullopt;
  }

private:
  static bool serves(const Family &family, llvm::StringRef strategy) {
    return family.strategies.front().empty() || llvm::is_contained(family.strategies, strategy);
  }
  /// Whether it is of a kind that the family computes at all.
  static bool concerns(const Family &family, Region &region);
  bool isDisabledBy(llvm::ArrayRef<std::string> disabled, const Family &family) const;
  static llvm::Expected<dispatch::KernelChoice> adjusted(const Family &family, Region &region,
                                                         const FamilyMatch &match,
                                                         const dispatch::KernelChoice &wanted);

  llvm::ArrayRef<const Family *> rows;
};

template <typename Region> std::vector<std::string> FamilyTable<Region>::names() const {
  std::vector<std::string> names;
  for (const Family *family : rows) {
    names.push_back(family->name.str());
  }
  return names;
}

template <typename Region>
const KernelFamily<Region> *FamilyTable<Region>::find(llvm::StringRef name) const {
  auto found = llvm::find_if(rows, [&](const Family *family) { return family->name == name; });
  return found == rows.end() ? nullptr : *found;
}

template <typename Region> uint32_t FamilyTable<Region>::features() const {
  uint32_t features = 0;
  for (const Family *family : rows) {
    features |= family->features;
  }
  return features;
}

/// A product may have another strategy because no family of products takes it.
template <typename Region>
bool FamilyTable<Region>::concerns(const Family &family, Region &region) {
  mlir::Block &body = region.source.getBody().front();
  bool isProduct =
      llvm::any_of(body, [](mlir::Operation &op) { return op.hasTrait<tn::TnContraction>(); });
  bool isServed = serves(family, region.strategy()) ||
                  (isProduct && llvm::is_contained(family.strategies, dispatch::kContraction));
  return isServed && holdsAny(body, family.needs);
}

template <typename Region>
FamilyMatch FamilyTable<Region>::match(const Family &family, Region &region) {
  if (!serves(family, region.strategy())) {
    FamilyMatch other = concerns(family, region) ? family.match(region) : FamilyMatch();
    return FamilyMatch::refuse(
        other || other.why.empty() ? "it computes regions of other strategies" : other.why);
  }
  const target::Target &target = region.target();
  if (uint32_t lacking = family.features & ~target.cpuFeatures) {
    engine::Architecture architecture = engine::rowOf(target.level).architecture;
    return FamilyMatch::refuse("the level lacks " + engine::featureText(architecture, lacking));
  }
  if (family.needsElements && hasEmptyBuffer(region.source)) {
    return FamilyMatch::refuse("a buffer has no elements");
  }
  FamilyMatch match = family.match(region);
  if (match && !match.choice) {
    match.choice = configsOf(family, region, match).front();
  }
  if (match && tn::isInvariant(region.source) &&
      orderOf(family, region, match, *match.choice).empty()) {
    return FamilyMatch::refuse("--invariant: other rows may change the order of its sums");
  }
  if (match && match.why.empty()) {
    match.why = family.what.str();
  }
  return match;
}

template <typename Region>
std::vector<dispatch::KernelChoice>
FamilyTable<Region>::configsOf(const Family &family, Region &region, const FamilyMatch &match) {
  std::vector<dispatch::KernelChoice> choices;
  if (family.configs) {
    choices = family.configs(region, match.problem);
    if (tn::isInvariant(region.source)) {
      llvm::erase_if(choices, [&](const dispatch::KernelChoice &choice) {
        return orderOf(family, region, match, choice).empty();
      });
    }
    return choices;
  }
  for (int64_t value : family.candidates) {
    if (value > 0) {
      choices.push_back({family.name.str(), {{family.parameter.str(), {value}}}});
    }
  }
  if (choices.empty()) {
    choices.push_back(match.choice.value_or(dispatch::KernelChoice{family.name.str(), {}}));
  }
  return choices;
}

template <typename Region>
llvm::Expected<double> FamilyTable<Region>::microsecondsOf(const Family &family, Region &region,
                                                           const FamilyMatch &match,
                                                           const dispatch::KernelChoice &choice) {
  double microseconds =
      family.seconds ? (family.seconds(region, match.problem, choice) +
                        (family.epilogueSeconds ? family.epilogueSeconds(region) : 0)) *
                           1e6
                     : dispatch::costOfRegion(region.source.getBody().front(), region.target(),
                                              /*isGenerated=*/true)
                           .microseconds;
  if (!std::isfinite(microseconds) || microseconds <= 0) {
    return llvm::createStringError("the prediction for " + choice.text() +
                                   " is no time: " + std::to_string(microseconds) + " us");
  }
  return microseconds;
}

/// By its own name, or by that of a library's call where it may have one.
template <typename Region>
bool FamilyTable<Region>::isDisabledBy(llvm::ArrayRef<std::string> disabled,
                                       const Family &family) const {
  return llvm::any_of(disabled, [&](const std::string &name) {
    const Family *other = find(name);
    return name == family.name || (family.mayCall && other && other->isCall);
  });
}

/// What the user asks for where it is a configuration; else the family's own choice with it, if it
/// can be compiled so; else why not.
template <typename Region>
llvm::Expected<dispatch::KernelChoice>
FamilyTable<Region>::adjusted(const Family &family, Region &region, const FamilyMatch &match,
                              const dispatch::KernelChoice &wanted) {
  if (wanted.parameters.empty()) {
    return *match.choice;
  }
  std::vector<dispatch::KernelChoice> configs = configsOf(family, region, match);
  if (llvm::is_contained(configs, wanted)) {
    return wanted;
  }
  dispatch::KernelChoice choice = *match.choice;
  for (const auto &[name, numbers] : wanted.parameters) {
    auto found = choice.parameters.find(name);
    if (found == choice.parameters.end() || found->second.size() != numbers.size()) {
      return llvm::createStringError("'" + wanted.text() + "' does not fit the parameters of '" +
                                     match.choice->text() + "'");
    }
    found->second = numbers;
  }
  if (choice == *match.choice || llvm::is_contained(configs, choice)) {
    return choice;
  }
  return llvm::createStringError(
      "'" + choice.text() + "' is not a configuration for this region; " + "it has " +
      configs.front().text() + (configs.size() > 1 ? " and others" : ""));
}

template <typename Region>
llvm::Expected<dispatch::KernelSelection>
FamilyTable<Region>::select(Region &region, const dispatch::KernelRequest &request) const {
  dispatch::KernelSelection selection;
  std::optional<size_t> best;
  std::string answers;
  for (const Family *family : rows) {
    FamilyMatch own = match(*family, region);
    dispatch::CandidateRecord record{family->name.str(), "refused", own.why, 0, ""};
    if (own) {
      bool isDisabled = isDisabledBy(request.disabled, *family);
      bool isWanted = !request.wanted || request.wanted->family == family->name;
      if (isWanted && request.wanted) {
        llvm::Expected<dispatch::KernelChoice> asked =
            adjusted(*family, region, own, *request.wanted);
        if (!asked) {
          return asked.takeError();
        }
        own.choice = *asked;
      }
      llvm::Expected<double> microseconds = microsecondsOf(*family, region, own, *own.choice);
      if (!microseconds) {
        return microseconds.takeError();
      }
      record = {own.choice->text(), isDisabled ? "disabled" : "possible", own.why, *microseconds,
                tn::isInvariant(region.source) ? orderOf(*family, region, own, *own.choice) : ""};
      bool isBetter =
          !best || *microseconds < family->switchMargin * selection.candidates[*best].microseconds;
      if (!isDisabled && isWanted && isBetter) {
        best = selection.candidates.size();
        selection.chosen = *own.choice;
        selection.microseconds = *microseconds;
        selection.weight = weightsOf(*family, region, own);
      }
    }
    answers += "; " + record.kernel + " " + record.verdict + ": " + record.why;
    if (own || concerns(*family, region)) {
      selection.candidates.push_back(std::move(record));
    }
  }
  if (!best) {
    return llvm::createStringError("no kernel family takes it" + answers);
  }
  selection.candidates[*best].verdict = "chosen";
  return selection;
}

template <typename Region>
llvm::Expected<std::vector<dispatch::KernelCandidate>>
FamilyTable<Region>::candidates(Region &region) const {
  std::vector<dispatch::KernelCandidate> candidates;
  for (const Family *family : rows) {
    FamilyMatch own = match(*family, region);
    if (!own) {
      continue;
    }
    for (dispatch::KernelChoice &choice : configsOf(*family, region, own)) {
      llvm::Expected<double> microseconds = microsecondsOf(*family, region, own, choice);
      if (!microseconds) {
        return microseconds.takeError();
      }
      candidates.push_back({std::move(choice), *microseconds, weightsOf(*family, region, own)});
    }
  }
  return candidates;
}

/// What the chosen family cannot emit is a fault, never a reason to try another.
template <typename Region>
llvm::LogicalResult FamilyTable<Region>::emit(Region &region,
                                              const dispatch::KernelChoice &choice) const {
  const Family *family = find(choice.family);
  if (!family) {
    return region.source.emitError("there is no kernel family '") << choice.family << "'";
  }
  FamilyMatch own = match(*family, region);
  if (!own) {
    return region.source.emitError("the kernel ")
           << choice.text() << " does not take it: " << own.why;
  }
  if (weightsOf(*family, region, own)) {
    return region.source.emitError("the weight is not laid out for ") << choice.text();
  }
  if (choice != *own.choice && !llvm::is_contained(configsOf(*family, region, own), choice)) {
    return region.source.emitError("'")
           << choice.text() << "' is not a configuration for this region";
  }
  if (failed(family->emit(region, own.problem, choice))) {
    return region.source.emitError("the chosen kernel ") << choice.text() << " cannot compute it";
  }
  return llvm::success();
}

} // namespace tenon::codegen
