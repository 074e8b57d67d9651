// Regions over zeros, infinities, NaN, extremes and halves, for every target to agree on with the
// reference: elementwise ops of each type, and rows that hold such numbers.
#pragma once

#include "compiler/reference/Tensor.h"

#include <string>
#include <vector>

namespace tenon::codegen {

struct SpecialCase {
  std::string name;
  std::string text; ///< of a module with @kernel
  std::vector<reference::Tensor> inputs;
  std::vector<reference::Tensor> results; ///< the reference's
};

/// Aborts the test's process if a case does not parse or the reference refuses it.
std::vector<SpecialCase> specialCases();

} // namespace tenon::codegen
