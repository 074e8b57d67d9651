// How the rows of a batch pass each operation of `tn`: the rules behind RowIndependence.h.
#pragma once

#include "compiler/graph/SymbolDims.h"
#include "llvm/ADT/DenseMap.h"

namespace tenon::tn {

/// What is known of a value: it is the same whatever the batch holds (Absent); it has the rows
/// along one axis, in order and of equal length (Carried); it has the number of each row along an
/// axis (Numbered), or indices whose first is that (Indexed), so that who picks by them picks from
/// the row's own; or rows have met (Mixed).
struct Rows {
  enum class Kind { Absent, Carried, Numbered, Indexed, Mixed };
  Kind kind = Kind::Absent;
  int64_t axis = 0;              ///< of all but Absent and Mixed
  mlir::Operation *op = nullptr; ///< of Mixed: where; null for an argument
  const char *how = "";          ///< of Mixed, in words

  static Rows along(int64_t axis) { return {Kind::Carried, axis}; }
  static Rows numbered(int64_t axis) { return {Kind::Numbered, axis}; }
  static Rows indexed(int64_t axis) { return {Kind::Indexed, axis}; }
  static Rows mixed(mlir::Operation *op, const char *how) { return {Kind::Mixed, 0, op, how}; }

  bool isAbsent() const { return kind == Kind::Absent; }
  bool isCarried() const { return kind == Kind::Carried; }
  bool isNumbered() const { return kind == Kind::Numbered; }
  bool isIndexed() const { return kind == Kind::Indexed; }
  bool isMixed() const { return kind == Kind::Mixed; }
  /// Whether it is right for a row alone, where its number is 0, only beside the row's own data.
  bool isByNumber() const { return isNumbered() || isIndexed(); }
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
  /// Whether what is no row does not differ along an axis that rows are on; others do not matter.
  bool isCommonAlong(mlir::Value value, int64_t axis) const;

private:
  llvm::DenseMap<mlir::Value, Rows> values;
};

/// What a result is by the rule of its operation, none of whose operands is mixed. Whether the
/// result's type says the same is the caller's to ask.
Rows ruleOf(const KnownRows &known, mlir::Operation *op, mlir::OpResult result);

} // namespace tenon::tn
