// Reads and makes the constants of a module, `tn.constant` and `tn.weight` alike.
// Relies on the weight store for the bytes of weights.
#pragma once

#include "compiler/graph/Tn.h"
#include "compiler/graph/WeightStore.h"
#include "mlir/IR/Builders.h"

#include <optional>

namespace tenon::opt {

/// Results up to this size stay in the IR; larger ones become weights, so that regions that differ
/// in nothing but a bias have one text and are compiled once.
inline constexpr int64_t kInlineBytes = 64;

class Constants {
public:
  explicit Constants(tn::WeightStore &weights) : weights(weights) {}

  /// Whether the value is a tn.constant or a tn.weight.
  static bool isConstant(mlir::Value value);

  /// The elements as doubles, if the value is a constant of numbers. Reads a weight's bytes.
  std::optional<std::vector<double>> elements(mlir::Value value) const;

  /// The one number that all elements are. Weights count only with a single element, so that asking
  /// is cheap.
  std::optional<double> scalar(mlir::Value value) const;

  /// The bytes of a constant: row-major, little-endian, one byte a bool. Empty if it has no such
  /// form.
  std::vector<char> bytes(mlir::Value value) const;

  /// A constant of that type from row-major bytes, in the IR if small. `name` and `pass` say in
  /// dumps where a weight came from.
  mlir::Value make(mlir::OpBuilder &builder, mlir::Location location, mlir::RankedTensorType type,
                   std::vector<char> bytes, llvm::StringRef name, llvm::StringRef pass) const;

  /// The same from numbers, each rounded to the element type (floating point only).
  mlir::Value make(mlir::OpBuilder &builder, mlir::Location location, mlir::RankedTensorType type,
                   llvm::ArrayRef<double> elements, llvm::StringRef name,
                   llvm::StringRef pass) const;

  tn::WeightStore &weights;
};

/// Bytes an element takes in a constant (one for a bool); 0 for types without such a form.
int64_t elementBytes(mlir::Type element);

/// Equal up to the rounding of a constant in that element type.
bool isNear(double value, double expected, mlir::Type element);

} // namespace tenon::opt
