// An optimized `tn` module of a quantized model → a program of 8-bit calls. Relies on QDQ as
// optimize leaves it: channels last, weights behind tn.dequantize.
#pragma once

#include "compiler/codegen/edge/Program.h"
#include "compiler/graph/WeightStore.h"
#include "mlir/IR/BuiltinOps.h"

namespace tenon::codegen::edge {

/// With gaps, the program is not whole: all are found at once.
struct Lowered {
  Program program;
  std::vector<Gap> gaps;
};

/// `roundsTwice`: with the roundings of TensorFlow Lite Micro, from whose results none differs.
Lowered lower(mlir::ModuleOp module, tn::WeightStore &weights, bool roundsTwice);

} // namespace tenon::codegen::edge
