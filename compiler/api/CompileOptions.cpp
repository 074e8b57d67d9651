// Relies on the phases' shares of a compilation, which are alike for most models.
#include "compiler/api/CompileOptions.h"

namespace tenon::pipeline {

double overallFraction(Phase phase, double fraction) {
  /// Where each phase begins; the last entry is the end.
  constexpr std::array<double, kPhaseNames.size() + 1> kStarts = {0,   0.03, 0.04, 0.15,
                                                                  0.2, 0.85, 0.9,  1};
  size_t index = static_cast<size_t>(phase);
  return kStarts[index] + (kStarts[index + 1] - kStarts[index]) * fraction;
}

} // namespace tenon::pipeline
