// What `--target c` is asked beside a model, and whether a model fits.
#pragma once

#include "compiler/pipeline/CompileToC.h"
#include "support/Result.h"

#include <string>
#include <vector>

namespace tenon::tool {

const std::vector<std::string> kBoardLayouts = {"model", "nhwc"};

/// How results of layers are rounded: once, or as TensorFlow Lite Micro does.
const std::vector<std::string> kRoundings = {"once", "tflite"};

struct BoardRequest {
  std::string name;             ///< begins the names in C; empty for that of the model's file
  uint64_t ram = 0;             ///< the arena has at most so many bytes; 0 for no limit
  uint64_t flash = 0;           ///< the same for the constants
  bool isByRows = false;        ///< rows even where whole tensors fit
  bool isInputByRows = false;   ///< the input is given row by row
  std::string layout = "model"; ///< of pictures that come in, one of kBoardLayouts

  std::string rounding = "once";

  bool operator==(const BoardRequest &) const = default;
};

/// TN0105 where one is given and `--target c` is not.
Status checkBoardFlags(const BoardRequest &board, bool isBoard);

pipeline::BoardPlan planOf(const BoardRequest &board);

/// "arena 16000 bytes, stack 1484 bytes, weights 24368 bytes, scales and tables 2954 bytes".
std::string takenText(const pipeline::CompiledToC &compiled);

/// TN0851 with the bytes over, the nodes at the peak and the flags that would make it fit.
Status checkLimits(const std::string &model, const BoardRequest &board,
                   const pipeline::CompiledToC &compiled);

} // namespace tenon::tool
