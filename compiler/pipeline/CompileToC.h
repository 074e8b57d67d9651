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
  size_t layers = 0;
  std::vector<std::string> peakNodes; ///< at which most of the arena is live
};

/// `options.output` and what belongs to other targets are not read. What the importer lacks is an
/// error, TN0301; what has no kernel are the gaps.
/// `roundsTwice`: results are those of TensorFlow Lite Micro.
Result<CompiledToC> compileToC(const CompileOptions &options, const std::string &name,
                               bool roundsTwice);

/// TN0301 with one line a gap.
Status gapReport(const std::string &model, const std::vector<codegen::edge::Gap> &gaps);

} // namespace tenon::pipeline
