// A quantized model becomes a folder of C99 for boards: all of `tenon compile --target c` but the
// command line and what is printed.
#pragma once

#include "compiler/pipeline/CompileToC.h"
#include "support/Result.h"
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

/// How results of layers are rounded: once, or as TensorFlow Lite Micro does.
const std::vector<std::string> kRoundings = {"once", "tflite"};

/// What only `--target c` is asked.
struct BoardRequest {
  std::string name;   ///< begins the names in C; empty for that of the model's file
  uint64_t ram = 0;   ///< the arena has at most so many bytes; 0 for no limit
  uint64_t flash = 0; ///< the same for the constants
  std::string rounding = "once";

  bool operator==(const BoardRequest &) const = default;
};

/// Writes the folder, which may exist; nothing where the model has gaps (TN0301) or does not fit
/// (TN0851).
Result<CompiledFolder> compileToFolder(CompileRequest &request, const BoardRequest &board);

} // namespace tenon::tool
