// Bounds of values, where constants and bounded functions give them: what tells whether a number
// may leave the range of a narrow float. Relies on operations standing in order.
#pragma once

#include "compiler/opt/Constants.h"
#include "llvm/ADT/DenseMap.h"

#include <optional>

namespace tenon::opt {

/// All elements lie in [low, high].
struct Range {
  double low;
  double high;

  double magnitude() const;
};

class Ranges {
public:
  explicit Ranges(Constants &weightConstants) : constants(weightConstants) {}

  /// Notes what follows for the results of an operation; operands come before.
  void add(mlir::Operation *op);
  std::optional<Range> of(mlir::Value value) const;
  /// The bounds of a constant's finite elements. Large weights that only products or lookups read
  /// are not looked at.
  std::optional<Range> ofFinite(mlir::Value constant) const;

private:
  std::optional<Range> infer(mlir::Operation *op) const;
  std::optional<Range> binary(mlir::Operation *op) const;

  Constants &constants;
  llvm::DenseMap<mlir::Value, Range> known;
};

} // namespace tenon::opt
