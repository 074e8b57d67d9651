// A quantized model becomes a folder for boards, of C99 or with a library: all of `tenon compile
// --target c` and `--target elf:CORE` but the command line and what is printed.
#pragma once

#include "compiler/pipeline/CompileToC.h"
#include "support/Result.h"
#include "tools/tenon/compile/Board.h"
#include "tools/tenon/compile/CompileToFile.h"

#include <optional>
#include <string>
#include <vector>

namespace tenon::tool {

/// The board where the targets are `c`, `c:CORE` or `elf:CORE` alone, nothing where they are for
/// engines; an error where one stands beside others.
Result<std::optional<pipeline::BoardTarget>> boardTarget(const std::vector<std::string> &targets);

struct CompiledFolder {
  std::string folder;
  pipeline::CompiledToC compiled;
};

/// Writes the folder, which may exist; nothing where the model has gaps (TN0301) or does not fit
/// (TN0851).
Result<CompiledFolder> compileToFolder(CompileRequest &request, const BoardRequest &board,
                                       const pipeline::BoardTarget &target);

} // namespace tenon::tool
