// Bounds of activations that hold for any input, from what norms and bounded functions give and
// from the weights behind them: what 8-bit floats need as a scale. Relies on no data.
#pragma once

#include "compiler/opt/Constants.h"
#include "llvm/ADT/DenseMap.h"

#include <optional>
#include <vector>

namespace tenon::opt {

/// The elements of a constant of f32, f16 or bf16; empty for others.
std::vector<float> floatsOf(const Constants &constants, mlir::Value constant);

class Float8Bounds {
public:
  explicit Float8Bounds(Constants &weightConstants) : constants(weightConstants) {}

  /// What no element exceeds in magnitude; none where nothing is known.
  std::optional<double> of(mlir::Value value) { return of(value, kMaxSteps); }

private:
  /// Operations followed from a value to the norm that bounds it.
  static constexpr int kMaxSteps = 16;

  std::optional<double> of(mlir::Value value, int steps);
  std::optional<double> infer(mlir::Operation *op, int steps);
  std::optional<double> ofNorm(mlir::Operation *norm);
  std::optional<double> ofProduct(tn::MatmulOp product, int steps);
  double magnitudeOf(mlir::Value constant);

  Constants &constants;
  llvm::DenseMap<mlir::Value, std::optional<double>> known;
};

} // namespace tenon::opt
