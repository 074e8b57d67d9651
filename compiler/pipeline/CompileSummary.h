// What a compilation gave, for the compiler's callers and for the tools that print it. Free of MLIR, so that
// code that is built with exceptions can include it.
#pragma once

#include <cstdint>
#include <string>

namespace tenon::pipeline {

/// What `compile --json` prints.
struct CompileSummary {
  std::string engine;
  double compileSeconds = 0;
  uint64_t engineBytes = 0;
  uint64_t weightsBytes = 0;
  uint64_t regions = 0;
  uint64_t uniqueRegions = 0;
  /// At the smallest declared shape when the model has symbols.
  uint64_t arenaBytes = 0;
  uint64_t arenaLowerBoundBytes = 0;
  bool fromCache = false;
};

} // namespace tenon::pipeline
