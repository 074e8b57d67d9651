// From a region's `tn` ops to linalg on tensors. Every op is either an access (its element at given
// indices is computed from elements of its operands, so it fuses into whoever reads it) or a
// computation of its own (reductions, norms, convolutions); one table a kind.
#pragma once

#include "compiler/graph/Shape.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/IR/Builders.h"

#include <map>
#include <utility>
#include <vector>

namespace tenon::codegen {

class Body;

/// Lowers the values of one region. Tensors have storage types and no encodings.
class Lowering {
public:
  /// `symbols` are the values (of index type) of the region's symbols.
  Lowering(mlir::OpBuilder &builder, mlir::Location location, mlir::ValueRange symbols);

  /// States that a `tn` value is held by this tensor.
  void bind(mlir::Value value, mlir::Value tensor) { tensors[value] = tensor; }
  /// The tensor of a value, or null if none holds it yet.
  mlir::Value tensorOf(mlir::Value value) const { return tensors.lookup(value); }
  /// The tensor of a value, computed if need be. Null after an error, which has been reported.
  mlir::Value materialize(mlir::Value value);

  /// A tensor of these dims with undefined contents, and one filled with a number.
  mlir::Value empty(llvm::ArrayRef<mlir::AffineExpr> dims, mlir::Type storage);
  mlir::Value filled(llvm::ArrayRef<mlir::AffineExpr> dims, mlir::TypedAttr value);
  /// The value (of index type, or folded) of an expression over the symbols.
  mlir::OpFoldResult size(mlir::AffineExpr expression);

  mlir::OpBuilder &builder;
  mlir::Location location;
  mlir::SmallVector<mlir::Value> symbols;

private:
  llvm::DenseMap<mlir::Value, mlir::Value> tensors;
};

/// The body of one linalg.generic under construction. Indices are affine expressions over the loops
/// (d0 ...), the region's symbols, and dims beyond the loops that stand for values computed in the
/// body.
class Body {
public:
  /// One loop for each dim of `space`.
  Body(Lowering &lowering, llvm::ArrayRef<mlir::AffineExpr> space,
       llvm::ArrayRef<mlir::Type> accumulators = {});

  /// The element of a `tn` value, in storage type; null after an error, which has been reported.
  mlir::Value at(mlir::Value value, llvm::ArrayRef<mlir::AffineExpr> indices);
  /// The element of a tensor; `dims`, if given, are the tensor's.
  mlir::Value load(mlir::Value tensor, llvm::ArrayRef<mlir::AffineExpr> indices,
                   llvm::ArrayRef<mlir::AffineExpr> dims = {});
  /// The index value of an expression, and the expression that stands for an index value.
  mlir::Value index(mlir::AffineExpr expression);
  mlir::AffineExpr asIndex(mlir::Value index);
  mlir::AffineExpr loop(unsigned i) const;
  mlir::SmallVector<mlir::AffineExpr> loops() const;
  mlir::Value accumulator(unsigned i) const { return block->getArgument(i); }

  /// Ends the body with these elements and makes the op. Loops in `reductions` reduce.
  mlir::linalg::GenericOp finish(mlir::ValueRange yields, mlir::ValueRange inits,
                                 llvm::ArrayRef<mlir::AffineMap> maps,
                                 llvm::ArrayRef<unsigned> reductions = {});

  Lowering &lowering;
  /// Inserts at the end of the body.
  mlir::OpBuilder builder;

private:
  bool isOperandMap(llvm::ArrayRef<mlir::AffineExpr> indices,
                    llvm::ArrayRef<mlir::AffineExpr> dims) const;
  void addShapeOperand(llvm::ArrayRef<mlir::AffineMap> maps);

  mlir::SmallVector<mlir::AffineExpr> space;
  unsigned loopCount;
  std::unique_ptr<mlir::Block> block;
  struct Input {
    mlir::Value tensor;
    mlir::AffineMap map;
    mlir::Value element;
  };
  mlir::SmallVector<Input> inputs;
  mlir::SmallVector<mlir::Value> indexValues;
  std::map<std::pair<void *, std::vector<const void *>>, mlir::Value> known;
};

/// Computes the element of result 0 of `op` at `indices`.
using ElementFn = mlir::Value (*)(Body &body, mlir::Operation *op,
                                  llvm::ArrayRef<mlir::AffineExpr> indices);
/// Binds the results of `op` to tensors.
using ComputeFn = mlir::LogicalResult (*)(Lowering &lowering, mlir::Operation *op);

/// The tables, by op name; null if the op is not of that kind. A new op is a row in one of them.
ElementFn findElementFn(mlir::Operation *op);
ComputeFn findCompute(mlir::Operation *op);

} // namespace tenon::codegen
