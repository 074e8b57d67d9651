// What a compilation gave, for the compiler's callers and for the tools that print it. Free of
// MLIR, so that code that is built with exceptions can include it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tenon::pipeline {

/// What a pass of the user's did.
struct PassInfo {
  std::string name;
  std::string phase;
  uint64_t nodesBefore = 0;
  uint64_t nodesAfter = 0;
  uint64_t edits = 0;
  double seconds = 0; ///< with the checks
  /// Of an output, relative to its largest element; none where nothing was changed or checked.
  std::optional<double> largestChange = {};
};

/// Weights that lie in one way: plan::WeightForm.
struct WeightInfo {
  std::string form;
  uint64_t arrays = 0;
  uint64_t bytes = 0;
  uint64_t sourceBytes = 0;
};

/// A region that is far from what its bytes and operations need, whatever kernel computes it.
struct SlowRegion {
  std::string target; ///< of the first variant of those that have the region
  std::string label;
  std::string kernel;
  std::string why;
};

/// A condition by which a node takes fewer sizes than the model or the user declares.
struct Narrowing {
  std::string node;  ///< empty of a guard of the export
  std::string needs; ///< "512 is at least n"

  /// "node 'Add_3' needs that 512 is at least n"
  std::string text() const {
    return (node.empty() ? "a guard of the export" : "node '" + node + "'") + " needs that " +
           needs;
  }
};

/// A region, and what the tuning store had of it (docs/guides/tune.md).
enum class TunedState {
  Hit,      ///< its record is used
  NoChoice, ///< one kernel alone computes it: there is nothing to look up
  FreeSizes,
  Miss,   ///< it was not measured
  Stale,  ///< it was, on another machine or by other kernels
  Unused, ///< its record does not fit, or the user disabled what it names
};

struct TunedRegion {
  std::string label;
  std::string problem; ///< tuning::Problem::hash; empty if its sizes vary
  std::string kernel;  ///< that it got
  std::string untuned; ///< that it gets without the store
  std::string miss;    ///< why there is no record of it, or why it is not used; empty if it is
  TunedState state = TunedState::Miss; ///< NoChoice only where compiling stops after dispatch
  double microseconds = 0, untunedMicroseconds = 0; ///< of the record
};

/// What `--precision fp8` became on the first device.
struct Float8Summary {
  int64_t products = 0, others = 0; ///< that multiply 8-bit floats, and that do not
  int64_t fasterInHalf = 0;         ///< of the others, those that stay in fp16 for their time
  double halfMicroseconds = 0, float8Microseconds = 0; ///< which these are predicted to take
};

/// What `compile --json` prints.
struct CompileSummary {
  std::string engine;
  double compileSeconds = 0;
  uint64_t engineBytes = 0;
  uint64_t weightsBytes = 0;
  std::vector<WeightInfo> weights; ///< of all plans together
  uint64_t regions = 0;
  uint64_t uniqueRegions = 0;
  /// At the smallest declared shape when the model has symbols.
  uint64_t arenaBytes = 0;
  uint64_t arenaLowerBoundBytes = 0;
  bool fromCache = false;
  std::vector<PassInfo> passes;    ///< in the order in which they ran
  std::vector<Narrowing> narrowed; ///< in the order of the nodes
  /// What the engine records of rows and padded places (schema tenon.rows/1); empty of an engine
  /// from the cache, and of a phase before dispatch.
  std::string rows;
  std::vector<SlowRegion> slow;        ///< none of an engine from the cache
  std::optional<Float8Summary> float8; ///< with `--precision fp8`; none of an engine from the cache
  std::vector<TunedRegion> tuned; ///< with a store: every region; none of an engine from the cache
};

} // namespace tenon::pipeline
