// Sums along the strip: vectors of partial sums, several at a time, folded at the end.
#include "compiler/codegen/cpu/base/IndexMath.h"
#include "compiler/codegen/cpu/strips/HoistUniform.h"
#include "compiler/codegen/cpu/strips/StripNest.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/Transforms/Transforms.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace tenon::codegen::cpu {
namespace {

/// Independent accumulators of a sum along the strip, to hide the latency of the addition.
constexpr int64_t kAccumulators = 4;

/// What leaves the accumulator unchanged, as a vector.
Value neutralVector(OpBuilder &builder, Location location, Operation *combiner, int64_t lanes) {
  TypedAttr neutral = *arith::getNeutralElement(combiner);
  VectorType type = VectorType::get(lanes, neutral.getType());
  return arith::ConstantOp::create(builder, location, DenseElementsAttr::get(type, neutral));
}

Value combine(OpBuilder &builder, Location location, Operation *combiner, Value a, Value b) {
  OperationState state(location, combiner->getName());
  state.addOperands({a, b});
  state.addTypes(a.getType());
  state.addAttributes(combiner->getAttrs());
  return builder.create(state)->getResult(0);
}

} // namespace

/// A sum along the strip: vectors of partial sums, folded into the accumulator at the end.
void StripNest::buildReductionStrip() {
  SmallVector<unsigned> others = loopsWhere(true);
  unsigned results = op.getNumDpsInits();
  SmallVector<Value> partial;
  for (int64_t copy = 0; copy < kAccumulators; ++copy) {
    for (Operation *combiner : combiners) {
      partial.push_back(neutralVector(builder, location, combiner, lanes));
    }
  }
  Value size = sizes[*strip];
  Value width = constant(lanes), block = constant(lanes * kAccumulators);
  auto floorTo = [&](Value value, Value step) -> Value {
    Value rest = arith::RemUIOp::create(builder, location, value, step);
    return arith::SubIOp::create(builder, location, value, rest);
  };
  Value blocks = floorTo(size, block), whole = floorTo(size, width);
  SmallVector<Value> sums = reductionLoops(others, partial, [&](ValueRange carried) {
    scf::ForOp main = scf::ForOp::create(builder, location, constant(0), blocks, block, carried);
    {
      OpBuilder::InsertionGuard guard(builder);
      builder.setInsertionPointToStart(main.getBody());
      SmallVector<Value> next;
      for (int64_t copy = 0; copy < kAccumulators; ++copy) {
        ivs[*strip] = arith::AddIOp::create(builder, location, main.getInductionVar(),
                                            constant(copy * lanes));
        llvm::append_range(
            next, element(lanes, main.getRegionIterArgs().slice(copy * results, results), Value()));
      }
      scf::YieldOp::create(builder, location, next);
    }
    hoistUniform(main);
    SmallVector<Value> state(main.getResults());
    scf::ForOp left = scf::ForOp::create(builder, location, blocks, whole, width,
                                         ValueRange(state).take_front(results));
    {
      OpBuilder::InsertionGuard guard(builder);
      builder.setInsertionPointToStart(left.getBody());
      ivs[*strip] = left.getInductionVar();
      scf::YieldOp::create(builder, location, element(lanes, left.getRegionIterArgs(), Value()));
    }
    hoistUniform(left);
    std::optional<int64_t> constantSize = getConstantIntValue(size);
    SmallVector<Value> first(left.getResults());
    if (!constantSize || *constantSize % lanes != 0) {
      ivs[*strip] = whole;
      Value rest = arith::SubIOp::create(builder, location, size, whole);
      first = element(lanes, first, rest);
    }
    llvm::copy(first, state.begin());
    return state;
  });
  ivs[*strip] = constant(0);
  StripBody outside(op, builder, ivs, *strip, 1, Value());
  SmallVector<Value> totals = outside.loadResults();
  for (unsigned i = 0; i < results; ++i) {
    Value sum = sums[i];
    for (int64_t copy = 1; copy < kAccumulators; ++copy) {
      sum = combine(builder, location, combiners[i], sum, sums[copy * results + i]);
    }
    Value folded = combineLanes(builder, location, sum, [&](Value a, Value b) {
      return combine(builder, location, combiners[i], a, b);
    });
    totals[i] = combine(builder, location, combiners[i], totals[i], folded);
  }
  outside.storeResults(totals);
}

} // namespace tenon::codegen::cpu
