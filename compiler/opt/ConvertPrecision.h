// `--precision fp16|bf16|fp8`: values become narrow where that is safe; what stays in f32, and why,
// is a record of the engine. Relies on optimized `tn`, where norms, softmax and attention have
// names.
#pragma once

#include "compiler/graph/WeightStore.h"
#include "compiler/opt/Precision.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/STLFunctionalExtras.h"

#include <optional>
#include <string>
#include <vector>

namespace tenon::opt {

/// Which products of which both operands are quantized stay, to become those of integers: all,
/// those that GPUs have kernels for, or none.
enum class QuantizedProducts { Keep, KeepOnGpu, Convert };

/// Why a value is not narrow. Names are stable; tests and users refer to them.
struct PrecisionRule {
  llvm::StringLiteral name;
  llvm::StringLiteral why;
};

/// What the conversion did, and what was allowed to be approximated.
struct PrecisionRecord {
  /// An operation that computes in f32, or one whose result is held to the finite range.
  struct Entry {
    mlir::Location location;
    std::string operation;
    PrecisionRule rule;
  };

  std::optional<Precision> precision; ///< none: the model's own, only `approximated` is filled
  int64_t narrow = 0;                 ///< operations with a narrow result
  std::vector<Entry> wider;
  std::vector<Entry> clamped;
  std::vector<Entry> approximated;
  int64_t float8 = 0;                        ///< products of 8-bit floats
  std::vector<Entry> notFloat8;              ///< products that are not, though that was asked for
  int64_t fasterInHalf = 0;                  ///< those of them that are not because of their time
  double halfSeconds = 0, float8Seconds = 0; ///< which these are predicted to take
  int64_t weights = 0;                       ///< converted, equal ones once
  int64_t weightBytes = 0;

  /// The record "precision" (docs/reference/explain.md). `nodesOf` gives the model nodes of a
  /// location.
  std::string toJson(llvm::function_ref<std::vector<std::string>(mlir::Location)> nodesOf) const;
};

/// Gives every f32 value that no rule keeps the narrow type. Inputs and outputs keep theirs; states
/// (graph/State.h) do not.
llvm::LogicalResult convertPrecision(mlir::ModuleOp module, tn::WeightStore &weights,
                                     Precision precision, QuantizedProducts quantized,
                                     PrecisionRecord &record);

/// Gives GELU of 16-bit floats its tanh form, as only the user may allow.
void approximateGelu(mlir::ModuleOp module, PrecisionRecord &record);

/// Rounds the rows of products of f32 by weights of few bits to signed 8 bits, block by block
/// (tn.round_blocks), as only the user may allow: `--allow int8-activations`. Relies on the passes
/// for a CPU having run.
void roundActivations(mlir::ModuleOp module, PrecisionRecord &record);

} // namespace tenon::opt
