// What a node of any model needs to become `tn` operations: helpers that emit them, and the rule
// that the first failure sticks: after it every helper does nothing and values are null. Relies on
// ModuleBuilder, which owns what is built.
#pragma once

#include "compiler/frontend/common/ModuleBuilder.h"

namespace tenon::frontend {

class Emitter {
public:
  Emitter(ModuleBuilder &moduleBuilder, mlir::Location location)
      : owner(moduleBuilder), place(location) {}
  virtual ~Emitter() = default;

  //===--- Failing ---===//
  bool failed() const { return hasFailed; }
  /// Tenon lacks something.
  virtual void gap(const llvm::Twine &why, const llvm::Twine &workaround = "") = 0;
  /// The model contradicts the definition of the operator.
  virtual void error(ErrorId id, const llvm::Twine &what) = 0;
  /// True if all sizes are at least 0 for certain; an error if one is negative, else a gap.
  bool requireNotNegative(llvm::ArrayRef<mlir::AffineExpr> sizes, llvm::StringRef what);
  /// Proves what the operator needs of sizes or makes it a constraint of the model; else an error
  /// if it cannot hold for constants, and a gap for symbols. `what` names the sizes.
  bool require(tn::ConstraintKind kind, mlir::AffineExpr left, mlir::AffineExpr right,
               llvm::StringRef what);

  //===--- Emitting ---===//
  mlir::OpBuilder &builder();
  mlir::Location location() const { return place; }
  Symbols &symbols();
  mlir::AffineExpr constantSize(int64_t value) { return symbols().constant(value); }

  /// An operation whose result type follows from its operands.
  template <typename Op, typename... Args> mlir::Value make(Args &&...args) {
    return makeTyped<Op>(mlir::Type(), std::forward<Args>(args)...);
  }
  /// An operation whose result type is given.
  template <typename Op, typename... Args> mlir::Value makeTyped(mlir::Type type, Args &&...args) {
    mlir::OperationState state(place, Op::getOperationName());
    Op::build(builder(), state, type, std::forward<Args>(args)...);
    mlir::Operation *op = finish(state);
    return op ? op->getResult(0) : mlir::Value();
  }
  /// An elementwise operation with a result of x's type.
  template <typename Op, typename... Args> mlir::Value unary(mlir::Value x, Args &&...args) {
    return x ? makeTyped<Op>(x.getType(), x, std::forward<Args>(args)...) : x;
  }
  /// Infers types if state has a null one, creates and verifies; null after a failure. What the
  /// operation assumes of symbols becomes a constraint of the model; where it determines one, all
  /// that is imported is written without it.
  mlir::Operation *finish(mlir::OperationState &state);

  mlir::Value add(mlir::Value a, mlir::Value b);
  mlir::Value sub(mlir::Value a, mlir::Value b);
  mlir::Value mul(mlir::Value a, mlir::Value b);
  mlir::Value div(mlir::Value a, mlir::Value b);
  mlir::Value max(mlir::Value a, mlir::Value b);
  mlir::Value min(mlir::Value a, mlir::Value b);
  mlir::Value compare(mlir::Value a, tn::Predicate predicate, mlir::Value b);
  mlir::Value select(mlir::Value condition, mlir::Value a, mlir::Value b);
  /// Indices that a model counts from the start of a dim only: a negative one, which a gather or
  /// scatter would count from the end, becomes one that no dim has, so that the run fails.
  mlir::Value fromStart(mlir::Value indices);
  /// A rank-0 constant of the element type (of x's, if a value is given).
  mlir::Value scalar(double value, mlir::Type element);
  mlir::Value scalarLike(double value, mlir::Value x);
  /// A constant of a float type; large ones become weights.
  mlir::Value realConstant(llvm::ArrayRef<double> values, llvm::ArrayRef<int64_t> shape,
                           mlir::Type element);
  /// 0, 1, 2, ... as a list of i64.
  mlir::Value positions(mlir::AffineExpr count);
  /// A size as a scalar of any element type.
  mlir::Value sizeValue(mlir::AffineExpr size, mlir::Type element);
  mlir::Value integerConstant(llvm::ArrayRef<int64_t> values, llvm::ArrayRef<int64_t> shape,
                              mlir::Type element);
  /// As ONNX's Cast with these attributes, also from and to types that are only stored.
  mlir::Value cast(mlir::Value x, mlir::Type element, bool saturate = true,
                   llvm::StringRef round = "up");
  /// Floats of less than 32 bits as f32, others as they are: what squares, sums and their roots are
  /// computed in, which a narrow type rounds to 0 or overflows to infinity.
  mlir::Value widened(mlir::Value x);
  mlir::Value reshape(mlir::Value x, llvm::ArrayRef<mlir::AffineExpr> dims);
  mlir::Value transpose(mlir::Value x, llvm::ArrayRef<int64_t> permutation);
  mlir::Value broadcast(mlir::Value x, llvm::ArrayRef<mlir::AffineExpr> dims);
  mlir::Value reduce(tn::ReduceKind kind, mlir::Value x, llvm::ArrayRef<int64_t> axes,
                     bool keepdims);
  mlir::Value concat(llvm::ArrayRef<mlir::Value> parts, int64_t axis);
  /// The `count` largest or smallest along an axis and their indices; null after a failure.
  tn::TopKOp topK(mlir::Value x, int64_t axis, mlir::AffineExpr count, bool largest,
                  bool sorted = true);
  /// Elements [start, start + size) along one axis.
  mlir::Value sliceAxis(mlir::Value x, int64_t axis, mlir::AffineExpr start, mlir::AffineExpr size);
  /// A 1-D or scalar x as [1, ..., n, ..., 1] of the rank, n at `axis`, to broadcast along it.
  mlir::Value alongAxis(mlir::Value x, int64_t axis, int64_t rank);
  mlir::Value materialize(const Sizes &sizes, mlir::Type element);

  /// The name of the node, after which what the importer makes for it is called.
  virtual std::string label() const = 0;

protected:
  /// Writes what was imported, the node's inputs included, without the symbols that are determined.
  virtual void bringUpToDate() { owner.bringUpToDate(); }

  ModuleBuilder &owner;
  mlir::Location place;
  bool hasFailed = false;

private:
  mlir::Operation *create(mlir::OperationState &state);
  void alignOperands(mlir::OperationState &state);
  bool requireSizesOf(mlir::Operation *op);
  void refuse(const mlir::OperationState &state);
};

} // namespace tenon::frontend
