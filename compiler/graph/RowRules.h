// How the rows of a batch pass each operation of `tn`: the rules behind RowIndependence.h.
#pragma once

#include "compiler/graph/Shape.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"

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
class KnownRows {
public:
  /// `batch` counts the rows; `computed` are the symbols that data decides.
  KnownRows(unsigned batch, llvm::ArrayRef<unsigned> computed);

  Rows of(mlir::Value value) const { return values.lookup(value); }
  void set(mlir::Value value, Rows known) { values[value] = known; }
  /// A symbol that data decides, but not the data of rows.
  void setCommon(unsigned symbol) { ofRows.erase(symbol); }

  bool isAbsent(mlir::Value value) const { return !value || of(value).isAbsent(); }
  /// Whether all have rows along the same axis.
  bool isSame(mlir::ValueRange all) const;

  /// Whether the number of rows, or a size that their data decides, is in the expression.
  bool namesRows(mlir::AffineExpr dim) const;
  /// In the types or attributes of the operation.
  bool namesRows(mlir::Operation *op) const;
  /// The only dim that names the batch, as a multiple of it; none if there is no such dim, or one
  /// names rows otherwise.
  std::optional<int64_t> batchAxis(mlir::Type type) const;
  bool isFree(mlir::Type type) const;

private:
  bool isMultiple(mlir::AffineExpr dim) const;

  unsigned batch;
  llvm::DenseSet<unsigned> ofRows; ///< the batch, and sizes that data of rows may decide
  llvm::DenseMap<mlir::Value, Rows> values;
};

/// What a result is by the rule of its operation, none of whose operands is mixed. Whether the
/// result's type says the same is the caller's to ask.
Rows ruleOf(const KnownRows &known, mlir::Operation *op, mlir::OpResult result);

} // namespace tenon::tn
