// How one reduction is shared out among threads and blocks. Relies on estimates where sizes vary.
#pragma once

#include "compiler/codegen/cuda/rows/Tuning.h"

namespace tenon::codegen::cuda {

using tuning::kSpreadThreads;

/// What the sharing depends on.
struct SpreadInfo {
  int64_t processors = 1;         ///< of the target
  int64_t results = 1, steps = 1; ///< of the reduction, or guesses of them
  int64_t elementBytes = 4;       ///< of what is reduced
  /// Whether its elements lie side by side along the reduction, else along the results; and what
  /// divides the number of those that do.
  bool isInnerReduced = false;
  int64_t multiple = 1;
};

struct Spread {
  /// Elements that a thread takes at once: of the results, or of the reduction.
  int64_t lanes = 1, steps = 1;
  /// Threads of a block along results and along the reduction.
  int64_t width = 1, height = kSpreadThreads;
  /// Blocks that share a result.
  int64_t parts = 1;
};

Spread spreadOut(const SpreadInfo &info);

} // namespace tenon::codegen::cuda
