// Products of 8-bit floats on GPUs that have them (graph/Float8.h): those of a quantized model,
// and, where the user asks for it, those of 16-bit floats that gain by it. Relies on the module
// being in the form for one GPU: what follows leaves constants as they are.
#pragma once

#include "compiler/opt/ConvertPrecision.h"
#include "compiler/target/Target.h"

namespace tenon::opt {

/// How products become ones of 8-bit floats.
struct Float8Options {
  /// Also of 16-bit floats with constant weights, whose numbers are quantized here: `--precision
  /// fp8`.
  bool quantizes = false;
  /// All that may, not only those that are predicted to take less time: for tests.
  bool isAlways = false;
};

/// Notes in the record which products are and, if it quantizes, why others are not.
llvm::LogicalResult float8Products(mlir::ModuleOp module, tn::WeightStore &weights,
                                   const target::Target &device, const Float8Options &options,
                                   PrecisionRecord &record);

} // namespace tenon::opt
