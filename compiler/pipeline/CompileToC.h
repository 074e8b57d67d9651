// A model file → a folder of C99 for boards (codegen/edge), by the phases up to optimize. Free of
// MLIR.
#pragma once

#include "compiler/api/CompileOptions.h"
#include "compiler/codegen/edge/Program.h"

namespace tenon::pipeline {

/// What the folder holds, or the gaps for which there is none.
struct CompiledToC {
  codegen::edge::Folder folder; ///< empty with gaps
  std::vector<codegen::edge::Gap> gaps;
  int64_t arenaBytes = 0;
  int64_t wholeBytes = 0;    ///< of the arena without rows
  int64_t leastBytes = 0;    ///< by rows, or that of an input by rows where it is asked for
  int64_t inputRowBytes = 0; ///< with an input by rows; 0 where it cannot be
  bool isByRows = false;
  size_t layers = 0;
  std::vector<std::string> peakNodes; ///< at which most of the arena is live
};

/// How the arena is laid out.
struct BoardPlan {
  uint64_t ram = 0;            ///< more bytes than these are avoided by rows; 0 for no limit
  bool isByRows = false;       ///< in any case
  bool isInputByRows = false;  ///< the input is given row by row
  bool isChannelsLast = false; ///< pictures that come in are [n, h, w, c]
  bool operator==(const BoardPlan &) const = default;
};

/// `options.output` and what belongs to other targets are not read. What the importer lacks is an
/// error, TN0301; what has no kernel are the gaps.
Result<CompiledToC> compileToC(const CompileOptions &options, const std::string &name,
                               const BoardPlan &plan);

/// TN0301 with one line a gap.
Status gapReport(const std::string &model, const std::vector<codegen::edge::Gap> &gaps);

} // namespace tenon::pipeline
