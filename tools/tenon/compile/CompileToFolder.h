// A quantized model becomes a folder of C99 for boards: all of `tenon compile --target c` but the
// command line and what is printed.
#pragma once

#include "compiler/pipeline/CompileToC.h"
#include "support/Result.h"
#include "tools/tenon/compile/Board.h"
#include "tools/tenon/compile/CompileToFile.h"

#include <string>
#include <vector>

namespace tenon::tool {

/// Whether the targets are `c` alone; an error where it stands beside others.
Result<bool> isForBoard(const std::vector<std::string> &targets);

struct CompiledFolder {
  std::string folder;
  pipeline::CompiledToC compiled;
};

/// Writes the folder, which may exist; nothing where the model has gaps (TN0301) or does not fit
/// (TN0851).
Result<CompiledFolder> compileToFolder(CompileRequest &request, const BoardRequest &board);

} // namespace tenon::tool
