// How the rows of a batch pass each operation of `tn`: the rules behind RowIndependence.h.
#pragma once

#include "compiler/graph/SymbolDims.h"
#include "llvm/ADT/DenseMap.h"

namespace tenon::tn {

/// What is known of a value: it is the same whatever the batch holds (Absent); it has the rows
/// along one axis, in order and of equal length (Carried); or rows have met (Mixed).
struct Rows {
  enum class Kind { Absent, Carried, Mixed };
  Kind kind = Kind::Absent;
  int64_t axis = 0;              ///< of Carried
  mlir::Operation *op = nullptr; ///< of Mixed: where; null for an argument
  const char *how = "";          ///< of Mixed, in words

  static Rows along(int64_t axis) { return {Kind::Carried, axis}; }
  static Rows mixed(mlir::Operation *op, const char *how) { return {Kind::Mixed, 0, op, how}; }

  bool isAbsent() const { return kind == Kind::Absent; }
  bool isCarried() const { return kind == Kind::Carried; }
  bool isMixed() const { return kind == Kind::Mixed; }
  bool isAlong(int64_t other) const { return isCarried() && axis == other; }
};

/// What is known of the values of a function so far, and what its dims say of the batch.
class KnownRows : public SymbolDims {
public:
  /// Of a function whose batch is the symbol.
  using SymbolDims::SymbolDims;

  Rows of(mlir::Value value) const { return values.lookup(value); }
  void set(mlir::Value value, Rows known) { values[value] = known; }

  bool isAbsent(mlir::Value value) const { return !value || of(value).isAbsent(); }
  /// Whether all have rows along the same axis.
  bool isSame(mlir::ValueRange all) const;

private:
  llvm::DenseMap<mlir::Value, Rows> values;
};

/// What a result is by the rule of its operation, none of whose operands is mixed. Whether the
/// result's type says the same is the caller's to ask.
Rows ruleOf(const KnownRows &known, mlir::Operation *op, mlir::OpResult result);

} // namespace tenon::tn
