// Short names for what loop nests over tensors are built from: scalars, elements, loops.
#pragma once

#include "compiler/codegen/common/lower/Lowering.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Arith/Utils/Utils.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

namespace tenon::codegen {

/// Scalars, tensors and loops at one place of the code.
class Code {
public:
  Code(mlir::OpBuilder &builder, mlir::Location place) : b(builder), location(place) {}

  /// A size as an index value.
  static mlir::Value sizeOf(Lowering &lowering, mlir::AffineExpr size) {
    return getValueOrCreateConstantIndexOp(lowering.builder, lowering.location,
                                           lowering.size(size));
  }

  mlir::Value index(int64_t value) {
    return mlir::arith::ConstantIndexOp::create(b, location, value);
  }
  mlir::Value integer(int64_t value) {
    return mlir::arith::ConstantOp::create(b, location, b.getI64IntegerAttr(value));
  }
  mlir::Value asInteger(mlir::Value x) {
    return mlir::arith::IndexCastOp::create(b, location, b.getI64Type(), x);
  }
  mlir::Value asIndex(mlir::Value x) {
    return mlir::arith::IndexCastOp::create(b, location, b.getIndexType(), x);
  }
  mlir::Value add(mlir::Value x, mlir::Value y) {
    return mlir::arith::AddIOp::create(b, location, x, y);
  }
  mlir::Value sub(mlir::Value x, mlir::Value y) {
    return mlir::arith::SubIOp::create(b, location, x, y);
  }
  /// Of a number that is not negative.
  mlir::Value half(mlir::Value x) { return mlir::arith::DivUIOp::create(b, location, x, index(2)); }
  mlir::Value select(mlir::Value condition, mlir::Value x, mlir::Value y) {
    return mlir::arith::SelectOp::create(b, location, condition, x, y);
  }
  mlir::Value compare(mlir::arith::CmpIPredicate predicate, mlir::Value x, mlir::Value y) {
    return mlir::arith::CmpIOp::create(b, location, predicate, x, y);
  }
  mlir::Value both(mlir::Value x, mlir::Value y) {
    return mlir::arith::AndIOp::create(b, location, x, y);
  }
  mlir::Value either(mlir::Value x, mlir::Value y) {
    return mlir::arith::OrIOp::create(b, location, x, y);
  }
  mlir::Value isMore(mlir::Value x, mlir::Value y) {
    return mlir::arith::CmpFOp::create(b, location, mlir::arith::CmpFPredicate::OGT, x, y);
  }
  mlir::Value isSame(mlir::Value x, mlir::Value y) {
    return mlir::arith::CmpFOp::create(b, location, mlir::arith::CmpFPredicate::OEQ, x, y);
  }
  mlir::Value at(mlir::Value tensor, mlir::ValueRange position) {
    return mlir::tensor::ExtractOp::create(b, location, tensor, position);
  }
  mlir::Value put(mlir::Value element, mlir::Value tensor, mlir::ValueRange position) {
    return mlir::tensor::InsertOp::create(b, location, element, tensor, position);
  }
  /// Whether an element of a tensor of bools is true.
  mlir::Value holds(mlir::Value tensor, mlir::ValueRange position) {
    mlir::Value element = at(tensor, position);
    mlir::Value no = mlir::arith::ConstantOp::create(b, location, b.getZeroAttr(element.getType()));
    return compare(mlir::arith::CmpIPredicate::ne, element, no);
  }

  using BodyFn = llvm::function_ref<llvm::SmallVector<mlir::Value>(Code, mlir::Value at,
                                                                   mlir::ValueRange carried)>;
  /// A loop from 0 to `end`.
  mlir::ResultRange loop(mlir::Value end, mlir::ValueRange carried, BodyFn body) {
    return mlir::scf::ForOp::create(b, location, index(0), end, index(1), carried,
                                    [&](mlir::OpBuilder &inner, mlir::Location,
                                        mlir::Value position, mlir::ValueRange values) {
                                      Code code(inner, location);
                                      mlir::scf::YieldOp::create(inner, location,
                                                                 body(code, position, values));
                                    })
        .getResults();
  }
  using StateFn = llvm::function_ref<llvm::SmallVector<mlir::Value>(Code, mlir::ValueRange state)>;
  /// A loop as long as `goesOn` says so.
  mlir::ResultRange loopWhile(mlir::ValueRange state,
                              llvm::function_ref<mlir::Value(Code, mlir::ValueRange)> goesOn,
                              StateFn body) {
    return mlir::scf::WhileOp::create(
               b, location, state.getTypes(), state,
               [&](mlir::OpBuilder &inner, mlir::Location, mlir::ValueRange values) {
                 Code code(inner, location);
                 mlir::scf::ConditionOp::create(inner, location, goesOn(code, values), values);
               },
               [&](mlir::OpBuilder &inner, mlir::Location, mlir::ValueRange values) {
                 Code code(inner, location);
                 mlir::scf::YieldOp::create(inner, location, body(code, values));
               })
        .getResults();
  }

  mlir::OpBuilder &b;
  mlir::Location location;
};

} // namespace tenon::codegen
