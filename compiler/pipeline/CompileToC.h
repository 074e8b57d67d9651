// A model file → a folder of C99 for boards (codegen/edge), by the phases up to optimize. Free of
// MLIR.
#pragma once

#include "compiler/api/CompileOptions.h"
#include "compiler/codegen/edge/Program.h"

namespace tenon::pipeline {

/// What a board gets.
struct BoardTarget {
  bool isLibrary = false;         ///< and not C
  std::string core = "cortex-m4"; ///< one of codegen::edge::coreNames()
  bool roundsTwice = false;       ///< results are those of TensorFlow Lite Micro
};

/// How the arena is laid out.
struct BoardPlan {
  uint64_t ram = 0;            ///< a larger arena is avoided by rows; 0 for no limit
  bool isByRows = false;       ///< rows in any case
  bool isInputByRows = false;  ///< the input is given row by row
  bool isChannelsLast = false; ///< pictures that come in are [n, h, w, c]
  bool wantsChoices = false;   ///< find what other flags make of it, even where it fits

  bool operator==(const BoardPlan &) const = default;
};

/// What flags beside those given make of the arena.
struct BoardChoice {
  std::string flags;
  int64_t arenaBytes = 0;
  int64_t rowBytes = 0; ///< tables of rows, which are constants too
};

/// What the folder holds, or the gaps for which there is none.
struct CompiledToC {
  codegen::edge::Folder folder; ///< empty with gaps
  std::vector<codegen::edge::Gap> gaps;
  int64_t arenaBytes = 0, stackBytes = 0;
  size_t layers = 0;
  bool isByRows = false;
  std::vector<std::string> peakNodes; ///< at which most of the arena is live
  /// Those with a smaller arena, the least change first; only where the arena is too large or
  /// they are wanted.
  std::vector<BoardChoice> choices;
};

/// `options.output` and what belongs to other targets are not read. What the importer lacks is an
/// error, TN0301; what has no kernel are the gaps.
Result<CompiledToC> compileToC(const CompileOptions &options, const std::string &name,
                               const BoardTarget &target, const BoardPlan &plan);

/// TN0301 with one line a gap.
Status gapReport(const std::string &model, const std::vector<codegen::edge::Gap> &gaps);

} // namespace tenon::pipeline
