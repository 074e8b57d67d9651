// Small questions that patterns ask about operations, dims and permutations, and the way to run
// patterns. Relies on graph/Shape.h for symbolic dims.
#pragma once

#include "compiler/graph/Shape.h"
#include "compiler/opt/Constants.h"
#include "mlir/IR/PatternMatch.h"

#include <optional>

namespace tenon::opt {

/// A pattern that may look into constants.
template <typename Op> class Pattern : public mlir::OpRewritePattern<Op> {
public:
  Pattern(mlir::MLIRContext *context, tn::WeightStore &weights)
      : mlir::OpRewritePattern<Op>(context), constants(weights) {}

protected:
  Constants constants;
};

/// Applies the patterns until nothing changes; dead operations go away on the way.
llvm::LogicalResult runPatterns(mlir::ModuleOp module, mlir::RewritePatternSet &&patterns);

inline mlir::RankedTensorType tensorType(mlir::Value value) {
  return mlir::cast<mlir::RankedTensorType>(value.getType());
}

/// The result of `value op scalar`, in either order when `op` commutes.
struct WithScalar {
  mlir::Value value;
  double scalar;
};

/// Splits a two-operand operation of that kind into a value and a scalar constant. For kinds that
/// do not commute, the scalar is the second operand.
template <typename Op>
std::optional<WithScalar> matchScalar(mlir::Value result, Constants &constants) {
  Op op = result.getDefiningOp<Op>();
  if (!op) {
    return std::nullopt;
  }
  // The value must already have the result's shape: a scalar constant may not broadcast it.
  if (std::optional<double> scalar = constants.scalar(op.getB());
      scalar && op.getA().getType() == op.getType()) {
    return WithScalar{op.getA(), *scalar};
  }
  if (!op->template hasTrait<mlir::OpTrait::IsCommutative>()) {
    return std::nullopt;
  }
  if (std::optional<double> scalar = constants.scalar(op.getA());
      scalar && op.getB().getType() == op.getType()) {
    return WithScalar{op.getB(), *scalar};
  }
  return std::nullopt;
}

/// `x * s`, also spelled as a division by 1/s, and of 16-bit floats computed in f32.
std::optional<WithScalar> matchScale(mlir::Value result, Constants &constants);

/// The constant value of each dim, or nothing if one is symbolic.
std::optional<llvm::SmallVector<int64_t>> staticShape(mlir::Value value);

bool isOne(mlir::AffineExpr dim);

/// Whether each element of the result is one of its first operand: what a scale or zero point of
/// the whole tensor passes through. False for null.
bool isMoved(mlir::Operation *op);

/// Operand and result have the same rank and sizes.
bool sameShape(mlir::Value a, mlir::Value b);

using Permutation = llvm::SmallVector<int64_t>;

bool isIdentity(llvm::ArrayRef<int64_t> permutation);
Permutation inverse(llvm::ArrayRef<int64_t> permutation);
/// The transpose that does `first`, then `second`.
Permutation compose(llvm::ArrayRef<int64_t> first, llvm::ArrayRef<int64_t> second);
/// The identity with the last two dims swapped.
Permutation swapLast(int64_t rank);

template <typename T>
llvm::SmallVector<T> permuted(llvm::ArrayRef<T> values, llvm::ArrayRef<int64_t> permutation) {
  llvm::SmallVector<T> result;
  for (int64_t from : permutation) {
    result.push_back(values[from]);
  }
  return result;
}

/// A transpose; the value itself if the permutation is the identity.
mlir::Value transpose(mlir::OpBuilder &builder, mlir::Location location, mlir::Value value,
                      llvm::ArrayRef<int64_t> permutation);

/// A reshape to these dims; the value itself if it has them.
mlir::Value reshape(mlir::OpBuilder &builder, mlir::Location location, mlir::Value value,
                    llvm::ArrayRef<mlir::AffineExpr> dims);

/// A pad by constants: of `number`, a scalar of the value's element type, or of zero where it is
/// null.
mlir::Value pad(mlir::OpBuilder &builder, mlir::Location location, mlir::Value value,
                llvm::ArrayRef<int64_t> begins, llvm::ArrayRef<int64_t> ends,
                mlir::Value number = {});

/// A cast to this element type; the value itself if it has it.
mlir::Value castTo(mlir::OpBuilder &builder, mlir::Location location, mlir::Value value,
                   mlir::Type element);

/// The constant with another shape, as a constant again; null if that has no form.
mlir::Value withShape(mlir::OpBuilder &builder, mlir::Value constant, mlir::RankedTensorType type);

/// A copy of an operation with one result that has other operands and another result type.
mlir::Operation *rebuild(mlir::OpBuilder &builder, mlir::Operation *op, mlir::ValueRange operands,
                         mlir::Type type);

/// Dims [inBegin, inEnd) of one shape hold the same elements as [outBegin, outEnd) of another.
struct DimGroup {
  unsigned inBegin, inEnd, outBegin, outEnd;
};

/// The finest split of a reshape into groups of equal size; fails if the products cannot be
/// compared.
mlir::FailureOr<llvm::SmallVector<DimGroup>> groupDims(llvm::ArrayRef<mlir::AffineExpr> in,
                                                       llvm::ArrayRef<mlir::AffineExpr> out);

/// Whether every dim of the operand is the result's or the constant 1: none may turn out to be 1
/// when the model runs.
bool isDecided(tn::BroadcastOp broadcast);

} // namespace tenon::opt
