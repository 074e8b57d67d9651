// Relies on the phases' shares of a compilation, which are alike for most models.
#include "compiler/api/CompileOptions.h"

#include "support/LanguageStep.h"

namespace tenon::pipeline {

double overallFraction(Phase phase, double fraction) {
  /// Where each phase begins; the last entry is the end.
  constexpr std::array<double, kPhaseNames.size() + 1> kStarts = {0,   0.03, 0.04, 0.15,
                                                                  0.2, 0.85, 0.9,  1};
  size_t index = static_cast<size_t>(phase);
  return kStarts[index] + (kStarts[index + 1] - kStarts[index]) * fraction;
}

/// On CPUs, products of bf16 over pages decode weights of few bits when they are compiled, which
/// doubles what a token reads.
uint64_t pagesOf(const CompileOptions &options) {
  bool hasPages = options.levels.empty() || options.precision != opt::Precision::Bf16;
  return options.pages.value_or(hasPages ? kMaxPages : 0);
}

} // namespace tenon::pipeline
