// Transposition in registers: squares where both loops have enough left, and squares under masks at
// their ends. Relies on the body having no reduction.
#include "compiler/codegen/cpu/strips/StripSquares.h"
#include "compiler/codegen/cpu/gemm/PanelPacking.h"

#include "compiler/codegen/cpu/strips/StripBody.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace tenon::codegen::cpu {
namespace {

/// Ops of a body that is still written out for each row of a square.
constexpr size_t kMaxOps = 8;

class Squares {
public:
  Squares(linalg::GenericOp op, OpBuilder &builder, MutableArrayRef<Value> ivs,
          ArrayRef<Value> sizes, unsigned strip, unsigned cross, int64_t lanes)
      : op(op), builder(builder), location(op.getLoc()), ivs(ivs), sizes(sizes), strip(strip),
        cross(cross), lanes(lanes) {
    for (OpOperand &operand : op->getOpOperands()) {
      if (accessOf(op, operand, strip) == Access::Strided) {
        strided.push_back(&operand);
      }
    }
  }

  /// The strip is outside, as the lines that a square's rows lie in are read on along `cross`.
  void build() {
    alongLoop(strip, [&](Value stripAt, Value activeStrip) {
      alongLoop(cross, [&](Value crossAt, Value activeCross) {
        buildSquare(stripAt, activeStrip, crossAt, activeCross);
      });
    });
  }

private:
  Value constant(int64_t value) { return arith::ConstantIndexOp::create(builder, location, value); }

  /// Whole squares of a loop, then what is left of it.
  void alongLoop(unsigned loop, llvm::function_ref<void(Value at, Value active)> body) {
    std::optional<int64_t> size = getConstantIntValue(sizes[loop]);
    Value rest = arith::RemUIOp::create(builder, location, sizes[loop], constant(lanes));
    Value whole = arith::SubIOp::create(builder, location, sizes[loop], rest);
    if (!size || *size >= lanes) {
      scf::ForOp blocks =
          scf::ForOp::create(builder, location, constant(0), whole, constant(lanes));
      OpBuilder::InsertionGuard guard(builder);
      builder.setInsertionPointToStart(blocks.getBody());
      body(blocks.getInductionVar(), Value());
    }
    if (size && *size % lanes == 0) {
      return;
    }
    Value isRest =
        arith::CmpIOp::create(builder, location, arith::CmpIPredicate::ne, rest, constant(0));
    scf::IfOp tail = scf::IfOp::create(builder, location, isRest, /*withElseRegion=*/false);
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(tail.thenBlock());
    body(whole, rest);
  }

  /// Vectors along the strip, one for each of `lanes` steps of `cross`.
  SmallVector<Value> readTransposed(OpOperand &operand, Value stripAt, Value activeStrip,
                                    Value crossAt, Value activeCross) {
    SmallVector<Value> square;
    ivs[cross] = crossAt;
    for (int64_t row = 0; row < lanes; ++row) {
      Value offset = constant(row);
      if (activeStrip) {
        // Rows that do not count repeat the last that does.
        Value last = arith::SubIOp::create(builder, location, activeStrip, constant(1));
        offset = arith::MinSIOp::create(builder, location, offset, last);
      }
      ivs[strip] = arith::AddIOp::create(builder, location, stripAt, offset);
      square.push_back(StripBody(op, builder, ivs, cross, lanes, activeCross).read(operand));
    }
    return transposeSquare(builder, location, std::move(square));
  }

  void buildSquare(Value stripAt, Value activeStrip, Value crossAt, Value activeCross) {
    SmallVector<SmallVector<Value>> vectors;
    for (OpOperand *operand : strided) {
      vectors.push_back(readTransposed(*operand, stripAt, activeStrip, crossAt, activeCross));
    }
    for (int64_t row = 0; row < lanes; ++row) {
      OpBuilder::InsertionGuard guard(builder);
      if (activeCross) {
        Value counts = arith::CmpIOp::create(builder, location, arith::CmpIPredicate::slt,
                                             constant(row), activeCross);
        scf::IfOp isRow = scf::IfOp::create(builder, location, counts, /*withElseRegion=*/false);
        builder.setInsertionPointToStart(isRow.thenBlock());
      }
      ivs[strip] = stripAt;
      ivs[cross] = arith::AddIOp::create(builder, location, crossAt, constant(row));
      StripBody body(op, builder, ivs, strip, lanes, activeStrip);
      for (auto [operand, rows] : llvm::zip(strided, vectors)) {
        body.give(*operand, rows[row]);
      }
      body.storeResults(body.emit(body.loadResults()));
    }
  }

  linalg::GenericOp op;
  OpBuilder &builder;
  Location location;
  MutableArrayRef<Value> ivs;
  ArrayRef<Value> sizes;
  unsigned strip, cross;
  int64_t lanes;
  SmallVector<OpOperand *> strided;
};

} // namespace

std::optional<unsigned> crossLoop(linalg::GenericOp op, unsigned strip) {
  std::optional<unsigned> cross;
  if (op.getBody()->getOperations().size() > kMaxOps || op.getNumReductionLoops() > 0) {
    return std::nullopt;
  }
  for (OpOperand &operand : op->getOpOperands()) {
    if (accessOf(op, operand, strip) != Access::Strided) {
      continue;
    }
    AffineMap map = op.getMatchingIndexingMap(&operand);
    AffineDimExpr last = dyn_cast<AffineDimExpr>(map.getResults().back());
    bool liesAlong = last && hasUnitStride(cast<MemRefType>(operand.get().getType())) &&
                     last.getPosition() != strip &&
                     accessOf(op, operand, last.getPosition()) == Access::Contiguous;
    if (!liesAlong || (cross && *cross != last.getPosition())) {
      return std::nullopt;
    }
    cross = last.getPosition();
  }
  return cross;
}

void buildSquares(linalg::GenericOp op, OpBuilder &builder, MutableArrayRef<Value> ivs,
                  ArrayRef<Value> sizes, unsigned strip, unsigned cross, int64_t lanes) {
  Squares(op, builder, ivs, sizes, strip, cross, lanes).build();
}

} // namespace tenon::codegen::cpu
