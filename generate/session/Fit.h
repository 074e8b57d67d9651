// What a language model takes of memory, and the longest conversation that fits into what is there.
// Relies on the ports that compiler/frontend/language gives an engine.
#pragma once

#include "runtime/core/MemoryForecast.h"
#include "support/Result.h"

#include <cstdint>

namespace tenon::generate {

struct Fit {
  uint64_t weights = 0;   ///< bytes: of the engine's file on a CPU, copied to a GPU
  uint64_t position = 0;  ///< bytes of the keys and values of one position
  uint64_t session = 0;   ///< bytes that a session holds, of one sequence once that is full
  uint64_t available = 0; ///< bytes that weights and session may take
  int64_t positions = 0;  ///< of a sequence of the engine
  int64_t trained = 0;    ///< positions that the model was trained for
  int64_t longest = 0;    ///< positions that would fit, at most `trained`; 0 for none

  bool fits() const { return weights + session <= available; }
};

/// What the record "language" says of an engine's positions.
struct Positions {
  int64_t compiled = 0, trained = 0;
  int64_t paged = 0;       ///< positions of all pages of a session; 0 without pages
  uint64_t tableBytes = 0; ///< of each position, in the weights
};

/// Allocates nothing of what it counts. TN0615 for an engine without a language model's inputs.
Result<Fit> fitOf(const runtime::MemoryForecast &forecast, const Positions &positions,
                  uint64_t available);

/// TN0606 with what is needed, what is there and what would fit; ok where it fits.
Status checkFit(const Fit &fit);

} // namespace tenon::generate
