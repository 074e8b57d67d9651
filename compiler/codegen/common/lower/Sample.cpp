// Draws of tokens by one thread a row: where top-k and top-p end is found bit by bit of the logits'
// keys, by a pass over the row for each, so that nothing is sorted. Loop nests; on GPUs blocks do
// the same together.
#include "compiler/codegen/common/lower/Compute.h"
#include "compiler/codegen/common/lower/LoopCode.h"
#include "compiler/codegen/common/math/Draws.h"
#include "compiler/graph/TnRare.h"

#include <limits>

using namespace mlir;
using namespace tenon::tn;

namespace tenon::codegen {
namespace {

using Values = SmallVector<Value>;

class Sample {
public:
  Sample(Lowering &lowering, SampleOp op)
      : lowering(lowering), op(op), logits(lowering.materialize(op.getLogits())),
        numbers(lowering.materialize(op.getNumbers())),
        integers(lowering.materialize(op.getIntegers())) {}

  LogicalResult bind();

private:
  /// Where what is drawn from ends: keys below `key`, and the first `equals` of those with it.
  struct Cut {
    Value key;    ///< i32
    Value equals; ///< i64
  };
  /// Of the row being drawn from.
  struct Row {
    Value number; ///< index
    Value largest, first;
    Value isFinite;
    Value last; ///< the last key that min-p leaves
    LogitScale scale;
  };
  Value real(Code code, Value row, int64_t which) {
    return code.at(numbers, {row, code.index(which)});
  }
  Value whole(Code code, Value row, int64_t which) {
    return code.at(integers, {row, code.index(which)});
  }
  Row look(Code code, Value number);
  Value scaled(Code code, const Row &row, Value token) {
    return row.scale.scaled(code.b, code.location, code.at(logits, {row.number, token}));
  }
  /// How many keys are below one, or their shares.
  Value countBelow(Code code, const Row &row, Value key);
  Value sharesBelow(Code code, const Row &row, Value key);
  using Measure = Value (Sample::*)(Code, const Row &, Value key);
  /// The largest key below which the measure (i64) is less than `wanted`, and what it is there.
  std::pair<Value, Value> find(Code code, const Row &row, Measure measure, Value wanted);
  Cut cutByCount(Code code, const Row &row);
  Cut cutByShares(Code code, const Row &row, Cut cut);
  Value drawn(Code code, const Row &row, Cut cut);
  Value logprob(Code code, const Row &row, Value token);

  Lowering &lowering;
  SampleOp op;
  Value logits, numbers, integers;
  Value length; ///< of a row
};

/// The first of the largest logits, and whether all are finite.
Sample::Row Sample::look(Code code, Value number) {
  Value least = arith::ConstantOp::create(
      code.b, code.location, code.b.getF32FloatAttr(-std::numeric_limits<float>::infinity()));
  Value zero = arith::ConstantOp::create(code.b, code.location, code.b.getF32FloatAttr(0));
  Value yes = arith::ConstantOp::create(code.b, code.location, code.b.getBoolAttr(true));
  ResultRange found = code.loop(
      length, {least, code.integer(0), yes}, [&](Code inner, Value i, ValueRange carried) {
        Value logit = inner.at(logits, {number, i});
        Value isMore = inner.isMore(logit, carried[0]);
        // The difference of an infinity to itself is not a number.
        Value difference = arith::SubFOp::create(inner.b, inner.location, logit, logit);
        return Values{inner.select(isMore, logit, carried[0]),
                      inner.select(isMore, inner.asInteger(i), carried[1]),
                      inner.both(carried[2], inner.isSame(difference, zero))};
      });
  Value last = lastKey(code.b, code.location, real(code, number, 2));
  LogitScale scale = LogitScale::make(code.b, code.location, found[0], real(code, number, 0));
  return {number, found[0], found[1], found[2], last, scale};
}

Value Sample::countBelow(Code code, const Row &row, Value key) {
  return code.loop(length, code.integer(0), [&](Code inner, Value i, ValueRange carried) {
    Value own = logitKey(inner.b, inner.location, scaled(inner, row, i));
    Value isIn = inner.both(inner.compare(arith::CmpIPredicate::slt, own, key),
                            inner.compare(arith::CmpIPredicate::sle, own, row.last));
    Value one = inner.select(isIn, inner.integer(1), inner.integer(0));
    return Values{inner.add(carried[0], one)};
  })[0];
}

Value Sample::sharesBelow(Code code, const Row &row, Value key) {
  return code.loop(length, code.integer(0), [&](Code inner, Value i, ValueRange carried) {
    Value logit = scaled(inner, row, i), own = logitKey(inner.b, inner.location, logit);
    Value isIn = inner.both(inner.compare(arith::CmpIPredicate::slt, own, key),
                            inner.compare(arith::CmpIPredicate::sle, own, row.last));
    Value share = shareOf(inner.b, inner.location, exponential(inner.b, inner.location, logit));
    return Values{inner.add(carried[0], inner.select(isIn, share, inner.integer(0)))};
  })[0];
}

std::pair<Value, Value> Sample::find(Code code, const Row &row, Measure measure, Value wanted) {
  auto key = [](Code at, int64_t value) -> Value {
    return arith::ConstantOp::create(at.b, at.location, at.b.getI32IntegerAttr(value));
  };
  ResultRange found =
      code.loop(code.index(kKeyBits), {key(code, 0), code.integer(0)},
                [&](Code inner, Value i, ValueRange carried) {
                  Value distance = inner.sub(inner.index(kKeyBits - 1), i);
                  Value shift = arith::IndexCastOp::create(inner.b, inner.location,
                                                           inner.b.getI32Type(), distance);
                  Value bit = arith::ShLIOp::create(inner.b, inner.location, key(inner, 1), shift);
                  Value tried = inner.either(carried[0], bit);
                  Value below = (this->*measure)(inner, row, tried);
                  Value isLess = inner.compare(arith::CmpIPredicate::slt, below, wanted);
                  return Values{inner.select(isLess, tried, carried[0]),
                                inner.select(isLess, below, carried[1])};
                });
  return {found[0], found[1]};
}

Sample::Cut Sample::cutByCount(Code code, const Row &row) {
  Value topK = whole(code, row.number, 0);
  Value isAsked = code.compare(arith::CmpIPredicate::sgt, topK, code.integer(0));
  Value most = code.integer(std::numeric_limits<int64_t>::max());
  auto [key, below] = find(code, row, &Sample::countBelow, code.select(isAsked, topK, most));
  return {key, code.sub(topK, below)};
}

/// Of what top-k left.
Sample::Cut Sample::cutByShares(Code code, const Row &row, Cut cut) {
  Value topP = real(code, row.number, 1);
  Value one = arith::ConstantOp::create(code.b, code.location, code.b.getF64FloatAttr(1));
  Value isAsked = code.isMore(one, topP);
  auto divided = [&](Value a, Value b) -> Value {
    return arith::CeilDivSIOp::create(code.b, code.location, a, b);
  };
  Value each = shareOfKey(code.b, code.location, cut.key);
  Value equals = arith::MulIOp::create(code.b, code.location, each, cut.equals);
  Value shares = code.add(sharesBelow(code, row, cut.key), equals);
  Value wanted = wantedShares(code.b, code.location, topP, shares);
  auto [key, below] = find(code, row, &Sample::sharesBelow, wanted);
  Value own = shareOfKey(code.b, code.location, key);
  Value count = divided(code.sub(wanted, below),
                        arith::MaxSIOp::create(code.b, code.location, own, code.integer(1)));
  return {code.select(isAsked, key, cut.key), code.select(isAsked, count, cut.equals)};
}

/// The largest with its noise, the first of equal ones.
Value Sample::drawn(Code code, const Row &row, Cut cut) {
  Value least = arith::ConstantOp::create(
      code.b, code.location, code.b.getF64FloatAttr(-std::numeric_limits<double>::infinity()));
  Value seed = whole(code, row.number, 1), position = whole(code, row.number, 2);
  return code.loop(
      length, {code.integer(-1), least, code.integer(0)},
      [&](Code inner, Value i, ValueRange carried) {
        OpBuilder &b = inner.b;
        Location location = inner.location;
        Value logit = scaled(inner, row, i), key = logitKey(b, location, logit);
        Value isEqual = inner.compare(arith::CmpIPredicate::eq, key, cut.key);
        Value isFirst = inner.compare(arith::CmpIPredicate::slt, carried[2], cut.equals);
        Value isIn = inner.either(inner.compare(arith::CmpIPredicate::slt, key, cut.key),
                                  inner.both(isEqual, isFirst));
        isIn = inner.both(isIn, inner.compare(arith::CmpIPredicate::sle, key, row.last));
        Value number = inner.asInteger(i);
        Value token = arith::TruncIOp::create(b, location, b.getI32Type(), number);
        Value noise = gumbel(b, location, uniform(b, location, seed, position, token));
        Value wide = arith::ExtFOp::create(b, location, b.getF64Type(), logit);
        Value noisy = arith::AddFOp::create(b, location, wide, noise);
        Value isBest = inner.both(isIn, inner.isMore(noisy, carried[1]));
        Value one = inner.select(isEqual, inner.integer(1), inner.integer(0));
        return Values{inner.select(isBest, number, carried[0]),
                      inner.select(isBest, noisy, carried[1]), inner.add(carried[2], one)};
      })[0];
}

Value Sample::logprob(Code code, const Row &row, Value token) {
  OpBuilder &b = code.b;
  auto difference = [&](Code at, Value index) -> Value {
    Value logit = at.at(logits, {row.number, index});
    return arith::SubFOp::create(at.b, at.location, logit, row.largest);
  };
  auto wide = [](Code at, Value x) -> Value {
    return arith::ExtFOp::create(at.b, at.location, at.b.getF64Type(), x);
  };
  Value zero = arith::ConstantOp::create(b, code.location, b.getF64FloatAttr(0));
  Value sum = code.loop(length, zero, [&](Code inner, Value i, ValueRange carried) {
    Value each = exponential(inner.b, inner.location, difference(inner, i));
    return Values{arith::AddFOp::create(inner.b, inner.location, carried[0], wide(inner, each))};
  })[0];
  Value own = wide(code, difference(code, code.asIndex(token)));
  Value result = arith::SubFOp::create(b, code.location, own, logarithm(b, code.location, sum));
  return arith::TruncFOp::create(b, code.location, b.getF32Type(), result);
}

LogicalResult Sample::bind() {
  if (!logits || !numbers || !integers) {
    return failure();
  }
  OpBuilder &b = lowering.builder;
  Dims dims = getDims(op.getLogits().getType());
  length = Code::sizeOf(lowering, dims[1]);
  Value ids = lowering.filled({dims[0]}, b.getI64IntegerAttr(-1));
  Value logprobs =
      lowering.filled({dims[0]}, b.getF32FloatAttr(std::numeric_limits<float>::quiet_NaN()));
  ResultRange all =
      Code(b, lowering.location)
          .loop(Code::sizeOf(lowering, dims[0]), {ids, logprobs},
                [&](Code code, Value number, ValueRange carried) {
                  Row row = look(code, number);
                  Value zero =
                      arith::ConstantOp::create(code.b, code.location, code.b.getF64FloatAttr(0));
                  Value isDrawn = code.isMore(real(code, number, 0), zero);
                  scf::IfOp token = scf::IfOp::create(
                      code.b, code.location, code.both(isDrawn, row.isFinite),
                      [&](OpBuilder &inner, Location) {
                        Code at(inner, code.location);
                        Cut cut = cutByShares(at, row, cutByCount(at, row));
                        scf::YieldOp::create(inner, code.location, drawn(at, row, cut));
                      },
                      [&](OpBuilder &inner, Location) {
                        scf::YieldOp::create(inner, code.location, row.first);
                      });
                  Value logprobOf = logprob(code, row, token.getResult(0));
                  Value id = code.select(row.isFinite, token.getResult(0), code.integer(-1));
                  Value none = code.at(carried[1], number);
                  return Values{
                      code.put(id, carried[0], number),
                      code.put(code.select(row.isFinite, logprobOf, none), carried[1], number)};
                });
  lowering.bind(op.getIds(), all[0]);
  lowering.bind(op.getLogprobs(), all[1]);
  return success();
}

} // namespace

LogicalResult computeSample(Lowering &lowering, Operation *op) {
  return Sample(lowering, cast<SampleOp>(op)).bind();
}

} // namespace tenon::codegen
