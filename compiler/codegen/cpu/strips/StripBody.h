// The body of a linalg.generic for one vector of iterations: the vector operations that compute the
// values that differ between the lanes (StripLanes.h). Values that all lanes share stay scalars.
#pragma once

#include "compiler/codegen/cpu/strips/StripLanes.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/IR/Builders.h"

#include <optional>

namespace tenon::codegen::cpu {

class StripBody {
public:
  /// How well the body runs along `loop`: more contiguous accesses, higher. None if it has no
  /// vector form.
  static std::optional<int64_t> score(mlir::linalg::GenericOp op, unsigned loop);
  /// Whether more loads read neighbours where no index is held back (isInterior).
  static bool gainsInterior(mlir::linalg::GenericOp op, unsigned loop);

  /// `ivs` are the indices of all loops (of lane 0 for the strip). With `width` 1 everything is
  /// scalar. `active`, if not null, is the number of lanes that count.
  StripBody(mlir::linalg::GenericOp op, mlir::OpBuilder &builder, mlir::ArrayRef<mlir::Value> ivs,
            unsigned strip, int64_t width, mlir::Value active);

  /// Whether (i1) no minimum, maximum or comparison holds an index back in any lane. A body that is
  /// emitted where this holds may be told so by `assumeInterior`.
  mlir::Value isInterior();
  void assumeInterior() { interior = true; }
  /// Takes this vector for an operand instead of reading it.
  void give(mlir::OpOperand &operand, mlir::Value vector) { given[&operand] = vector; }

  /// The vector (or scalar) of an operand's elements.
  mlir::Value read(mlir::OpOperand &operand) { return loadOperand(operand).value; }
  /// The present elements of the results.
  mlir::SmallVector<mlir::Value> loadResults();
  /// What the body yields for these accumulators.
  mlir::SmallVector<mlir::Value> emit(mlir::ValueRange accumulators);
  void storeResults(mlir::ValueRange values);

private:
  struct LaneValue {
    mlir::Value value;
    Lanes lanes;
    /// An index that is `base` plus the lane's number where `within` holds, else `other`.
    mlir::Value within = {}, base = {}, other = {};
  };
  StripPlace place() const { return {strip, isVector(), interior}; }
  bool isVector() const { return width > 1; }
  mlir::Value broadcast(mlir::Value scalar);
  mlir::Value asVector(const LaneValue &value);
  mlir::Value mask();
  LaneValue loadOperand(mlir::OpOperand &operand);
  LaneValue loadMemref(mlir::Value memref, mlir::ValueRange indices, bool contiguous);
  mlir::Value loadBackwards(mlir::Value memref, llvm::ArrayRef<LaneValue> indices);
  mlir::Value loadEverySecond(mlir::Value memref, llvm::ArrayRef<LaneValue> indices);
  /// Elements anywhere, one a lane.
  mlir::Value gather(mlir::Value memref, llvm::ArrayRef<LaneValue> indices);
  std::optional<LaneValue> loadWithin(mlir::memref::LoadOp load,
                                      llvm::ArrayRef<LaneValue> operands);
  LaneValue loadAt(mlir::memref::LoadOp load, llvm::ArrayRef<LaneValue> operands);
  mlir::Value lastLane(const LaneValue &value);
  mlir::Value holdsInAll(mlir::Value condition);
  mlir::Value constantVector(int64_t value);
  mlir::Value applyVector(mlir::AffineExpr expression, llvm::ArrayRef<mlir::Value> dims,
                          llvm::ArrayRef<mlir::Value> symbols);
  mlir::Value divideAsFloats(mlir::Operation &operation, mlir::Value a, mlir::Value b);
  mlir::Value divideLanes(mlir::Operation &operation, mlir::Value a, mlir::Value b);
  std::optional<LaneValue> emitSpecial(mlir::Operation &operation,
                                       llvm::ArrayRef<LaneValue> operands, Lanes result);
  llvm::SmallVector<LaneValue> operandsOf(mlir::Operation &operation);
  LaneValue emitOp(mlir::Operation &operation);
  mlir::SmallVector<mlir::Value> operandIndices(mlir::OpOperand &operand);

  mlir::linalg::GenericOp op;
  mlir::OpBuilder &builder;
  mlir::Location location;
  mlir::ArrayRef<mlir::Value> ivs;
  unsigned strip;
  int64_t width;
  mlir::Value active, activeMask;
  bool interior = false;
  llvm::DenseMap<mlir::Value, LaneValue> values;
  llvm::DenseMap<mlir::OpOperand *, mlir::Value> given;
};

} // namespace tenon::codegen::cpu
