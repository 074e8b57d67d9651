// What a kernel family is (docs/adr/0015): kernels that people know by one name, with everything
// that decides about them and the code that emits them. `match` finds once what the family has to
// know of a region, the problem; its other functions get that. A family is a row in the table of
// its device; FamilyTable.h chooses among them.
#pragma once

#include "compiler/dispatch/KernelChoice.h"
#include "mlir/IR/Diagnostics.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/ADT/Twine.h"
#include "llvm/Support/ErrorHandling.h"

#include <any>
#include <array>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tenon::codegen {

/// Why a region is not of the kind that a family computes.
struct MatchFailure {
  std::string why;
};

/// What has to be known of a region, or why it is not of that kind.
template <typename Problem> class MatchResult {
public:
  MatchResult(Problem value) : problem(std::move(value)) {}
  MatchResult(MatchFailure failure) : reason(std::move(failure.why)) {}

  explicit operator bool() const { return problem.has_value(); }
  Problem &operator*() { return *problem; }
  const Problem &operator*() const { return *problem; }
  Problem *operator->() { return &*problem; }
  const Problem *operator->() const { return &*problem; }
  /// Empty if there is a problem.
  const std::string &why() const { return reason; }

private:
  std::optional<Problem> problem;
  std::string reason;
};

/// A family's answer about a region: the problem, the configuration that it would take and why; or
/// why it does not compute such a region or should not.
struct FamilyMatch {
  /// Empty if the region is refused. Copyable; its type is the family's own.
  std::any problem;
  /// Why it is refused, or suits; empty of one that suits as the family's `what` says.
  std::string why;
  /// None for the row's first candidate.
  std::optional<dispatch::KernelChoice> choice;

  template <typename Problem> static FamilyMatch take(Problem problem) {
    return {std::move(problem), {}, {}};
  }
  template <typename Problem>
  static FamilyMatch take(Problem problem, dispatch::KernelChoice choice, llvm::Twine why) {
    return {std::move(problem), why.str(), std::move(choice)};
  }
  static FamilyMatch refuse(const llvm::Twine &why) { return {{}, why.str(), {}}; }

  explicit operator bool() const { return problem.has_value(); }
};

/// The problem of a family that takes any region, and has to know nothing of it.
struct AnyRegion {};

/// Functions are pure but for the code that `emit` adds to the region, and leave no diagnostic
/// unless they fail. `Region` is the device's (cpu/base/Region.h, cuda/base/Region.h).
template <typename Region> struct KernelFamily {
  llvm::StringLiteral name;
  /// What it is in the field's words, for people.
  llvm::StringLiteral what;
  /// The strategies whose regions it is asked about; none for all.
  std::array<llvm::StringRef, 6> strategies = {};
  /// The beginnings of the operations without which it never computes a region; none for any.
  std::array<llvm::StringRef, 2> needs = {};
  /// Features of a CPU level (engine/Level.h) without which it does not run.
  uint32_t features = 0;
  /// Whether it computes no region that has a buffer without elements.
  bool needsElements = false;
  FamilyMatch (*match)(Region &region);
  /// The name and the values of its one parameter, its own choice first; none where `match` gives
  /// the choice, or where it has but one configuration.
  llvm::StringLiteral parameter = "";
  std::array<int64_t, 4> candidates = {};
  /// All configurations that it can be compiled with; null for `candidates`, or the one of `match`.
  std::vector<dispatch::KernelChoice> (*configs)(Region &, const std::any &problem) = nullptr;
  /// Predicted seconds from the end of the kernel before to its own, for one of its configurations:
  /// finite and more than zero. Null if bytes and operations by the target's rates say enough.
  double (*seconds)(Region &, const std::any &problem, const dispatch::KernelChoice &) = nullptr;
  /// What those seconds are made of, by name. Null if the family does not say.
  dispatch::TimeParts (*parts)(Region &, const std::any &problem,
                               const dispatch::KernelChoice &) = nullptr;
  /// Predicted seconds that come on top: of what follows a product in its region. Null for none.
  double (*epilogueSeconds)(Region &) = nullptr;
  /// How the region's constant weight must be laid out for it; none if it lies so already. Null if
  /// the family reads all inputs as they lie.
  std::optional<dispatch::WeightLayout> (*weights)(Region &, const std::any &problem) = nullptr;
  /// Adds the code. Fails after a diagnostic, also for a choice that is not one of its
  /// configurations.
  llvm::LogicalResult (*emit)(Region &, const std::any &problem, const dispatch::KernelChoice &);
  /// Of the time predicted for the best row before it, what it must be predicted to take to be
  /// chosen instead.
  double switchMargin = dispatch::kSwitchMargin;
  /// By what its results have other roundings than the plain formula; null for most.
  const dispatch::Approximation *approximation = nullptr;
  /// The order of the sums in a row of results, where it depends on the row's own sizes alone: of
  /// kernels with equal texts a row gets the same bits, beside any other rows. Empty where other
  /// rows change it. Regions of invariant models get no other family; one that is null says nothing
  /// of it.
  std::string (*order)(Region &, const std::any &problem, const dispatch::KernelChoice &) = nullptr;
  /// Where a row count varies, rows at most of its kernels for few of them, and rows from which on
  /// it is worth a kernel of its own; none for most families.
  std::array<int64_t, 5> fewRows = {};
  int64_t (*manyRows)(Region &) = nullptr;
  /// Whether its kernels are other families', each for a range of a size that varies.
  bool isSplitBySizes = false;
  /// Whether it is a library's call, or may have one among its steps.
  bool isCall = false, mayCall = false;
  /// Raised when its code or its configurations change so that what was measured of it before says
  /// nothing any more (compiler/tuning).
  unsigned revision = 1;
};

template <auto Function> struct OnProblem;
template <typename Result, typename Region, typename Problem, typename... Rest,
          Result (*Function)(Region &, const Problem &, Rest...)>
struct OnProblem<Function> {
  static Result call(Region &region, const std::any &problem, Rest... rest) {
    return Function(region, *std::any_cast<Problem>(&problem), rest...);
  }
};
/// A function over a family's own kind of problem, as a row has it.
template <auto Function> inline constexpr auto on = &OnProblem<Function>::call;

/// `order` of a family that adds up nothing, and of one whose rows are each summed alone, in one
/// order for all configurations.
template <typename Region>
std::string noSums(Region &, const std::any &, const dispatch::KernelChoice &) {
  return "no sums";
}
template <typename Region>
std::string alongRows(Region &, const std::any &, const dispatch::KernelChoice &) {
  return "along the row";
}

/// The configuration that a choice of the family states.
template <typename Config>
Config configOf(const dispatch::KernelChoice &choice, Config config = {}) {
  if (llvm::Error error = dispatch::readParameters(choice, config)) {
    llvm::reportFatalInternalError(llvm::Twine(choice.text()) + ": " +
                                   llvm::toString(std::move(error)));
  }
  return config;
}

/// The value of a family's one parameter.
inline int64_t candidateOf(const dispatch::KernelChoice &choice) {
  return choice.parameters.begin()->second.front();
}

} // namespace tenon::codegen
