// Builds the micro-kernel that rounds rows of A to signed bytes, a scale for each block: the
// largest magnitude by comparing bits, by which NaN is the largest, then one FMA that rounds to an
// integer in the low bits of a float. What it makes is equal on all levels.
#include "compiler/codegen/cpu/gemm/LowBitEmitter.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;

namespace tenon::codegen::cpu {
namespace {

/// 1.5 times 2 to 23: what is added to it is rounded to an integer, ties to even.
constexpr float kWhole = 12582912.0F;
constexpr int32_t kWholeBits = 0x4B400000;
constexpr int32_t kMagnitude = 0x7FFFFFFF;
/// Bits of the least magnitude whose block is not zeros.
constexpr int32_t kLeastBits = (127 + tn::RoundedBlocks::kLeastExponent) << 23;
/// Numbers of which those by the even places of weights of 4 bits stand first.
constexpr int64_t kTurned = 8;

class RoundBuilder : public LowBitEmitter {
public:
  using LowBitEmitter::LowBitEmitter;

  void build() {
    Type i64 = builder.getI64Type();
    OpBuilder::InsertionGuard guard(builder);
    func::FuncOp function = func::FuncOp::create(
        builder, loc, roundSymbol(layout),
        builder.getFunctionType({pointer, i64, pointer, i64, i64, i64, i64}, {}));
    Block *entry = function.addEntryBlock();
    builder.setInsertionPointToStart(entry);
    ValueRange arguments = entry->getArguments();
    Value depth = arguments[4], size = arguments[5];
    Value step = add(arith::DivUIOp::create(builder, loc, size, constant(4)),
                     constant(RoundedRows::kHeader));
    forRange(constant(0), arguments[6], constant(1), {}, [&](Value row, ValueRange) {
      Value from = offset(arguments[0], mul(row, arguments[1]));
      Value first = offset(arguments[2], mul(row, arguments[3]));
      forRange(constant(0), depth, size, {first}, [&](Value at, ValueRange state) {
        Value rest = arith::SubIOp::create(builder, loc, depth, at);
        roundBlock(offset(from, at), state[0], arith::MinSIOp::create(builder, loc, rest, size),
                   size);
        return SmallVector<Value>{offset(state[0], step)};
      });
      return SmallVector<Value>();
    });
    func::ReturnOp::create(builder, loc);
  }

private:
  Value integer(Type type, int32_t value) {
    TypedAttr one = builder.getI32IntegerAttr(value);
    VectorType vector = dyn_cast<VectorType>(type);
    return arith::ConstantOp::create(
        builder, loc, vector ? TypedAttr(DenseElementsAttr::get(vector, Attribute(one))) : one);
  }
  Value real(float value) {
    return arith::ConstantOp::create(builder, loc, builder.getF32FloatAttr(value));
  }

  /// Elements [first, first + count) of a row, from the beginning of a block on.
  void roundBlock(Value from, Value to, Value count, Value size) {
    Value numbers = offset(to, constant(RoundedRows::kHeader));
    zeroEnd(numbers, count, size);
    Value most = largestBits(from, count);
    Value isTiny = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ult, most,
                                         integer(i32, kLeastBits));
    Value magnitude = arith::BitcastOp::create(builder, loc, f32, most);
    Value limit = real(tn::RoundedBlocks::kMost), zero = real(0);
    Value inverse = arith::SelectOp::create(builder, loc, isTiny, zero,
                                            arith::DivFOp::create(builder, loc, limit, magnitude));
    // What an infinity is taken off itself is NaN.
    Value check = arith::SubFOp::create(builder, loc, magnitude, magnitude);
    Value quotient = arith::DivFOp::create(builder, loc, magnitude, limit);
    Value scale =
        arith::SelectOp::create(builder, loc, isTiny, zero,
                                arith::AddFOp::create(builder, loc, check, quotient).getResult());
    Value sum = roundNumbers(from, numbers, count, inverse);
    LLVM::StoreOp::create(builder, loc, scale, to, 4);
    Value part =
        layout.hasZeroPoints
            ? arith::SIToFPOp::create(builder, loc, f32, sum).getResult()
            : arith::MulIOp::create(builder, loc, sum,
                                    integer(i32, static_cast<int32_t>(-layout.commonZeroPoint())))
                  .getResult();
    LLVM::StoreOp::create(builder, loc, part, offset(to, constant(1)), 4);
  }

  /// Zeros where the last numbers of the block stand or, of a short one, end within a word. Of a
  /// block shorter than that they lie in its header, which is written later.
  void zeroEnd(Value numbers, Value count, Value size) {
    Value whole = arith::AndIOp::create(builder, loc, count, constant(-kTurned));
    Value last = arith::SubIOp::create(builder, loc, size, constant(kTurned));
    Value zero = arith::ConstantOp::create(builder, loc, builder.getI64IntegerAttr(0));
    LLVM::StoreOp::create(builder, loc, zero,
                          byteOf(numbers, arith::MinSIOp::create(builder, loc, whole, last)), 1);
  }

  Value byteOf(Value numbers, Value index) {
    return LLVM::GEPOp::create(builder, loc, pointer, builder.getI8Type(), numbers,
                               ArrayRef<LLVM::GEPArg>{index});
  }

  Value largestBits(Value from, Value count) {
    Value whole = wholeOf(count);
    auto larger = [&](Type type, Value at, Value most) -> Value {
      Value bits = load(type, offset(from, at));
      Value magnitude = arith::AndIOp::create(builder, loc, bits, integer(type, kMagnitude));
      return arith::MaxSIOp::create(builder, loc, most, magnitude);
    };
    Value ofLanes = forRange(constant(0), whole, constant(lanes), {integer(words, 0)},
                             [&](Value at, ValueRange state) {
                               return SmallVector<Value>{larger(words, at, state[0])};
                             })[0];
    Value most = vector::ReductionOp::create(builder, loc, vector::CombiningKind::MAXSI, ofLanes);
    return forRange(whole, count, constant(1), {most}, [&](Value at, ValueRange state) {
      return SmallVector<Value>{larger(i32, at, state[0])};
    })[0];
  }

  /// Stores the numbers; gives their sum.
  Value roundNumbers(Value from, Value numbers, Value count, Value inverse) {
    Value whole = wholeOf(count);
    Value inverses = vector::BroadcastOp::create(builder, loc, floats, inverse);
    Value wholes = vector::BroadcastOp::create(builder, loc, floats, real(kWhole));
    Value ofLanes = forRange(
        constant(0), whole, constant(lanes), {integer(words, 0)}, [&](Value at, ValueRange state) {
          Value element = load(floats, offset(from, at));
          Value sum = vector::FMAOp::create(builder, loc, element, inverses, wholes);
          Value rounded = arith::SubIOp::create(builder, loc,
                                                vector::BitCastOp::create(builder, loc, words, sum),
                                                integer(words, kWholeBits));
          storeBytes(rounded, byteOf(numbers, at));
          return SmallVector<Value>{arith::AddIOp::create(builder, loc, state[0], rounded)};
        })[0];
    Value sum = vector::ReductionOp::create(builder, loc, vector::CombiningKind::ADD, ofLanes);
    return forRange(whole, count, constant(1), {sum}, [&](Value at, ValueRange state) {
      Value element = load(f32, offset(from, at));
      Value moved = LLVM::FMAOp::create(builder, loc, element, inverse, real(kWhole));
      Value rounded =
          arith::SubIOp::create(builder, loc, arith::BitcastOp::create(builder, loc, i32, moved),
                                integer(i32, kWholeBits));
      LLVM::StoreOp::create(builder, loc,
                            arith::TruncIOp::create(builder, loc, builder.getI8Type(), rounded),
                            byteOf(numbers, turned(at)), 1);
      return SmallVector<Value>{arith::AddIOp::create(builder, loc, state[0], rounded)};
    })[0];
  }

  void storeBytes(Value rounded, Value to) {
    VectorType bytes = VectorType::get(lanes, builder.getI8Type());
    Value narrow = arith::TruncIOp::create(builder, loc, bytes, rounded);
    if (layout.bits == 4) {
      SmallVector<int64_t> order;
      for (int64_t at = 0; at < lanes; ++at) {
        int64_t within = at % kTurned, half = kTurned / 2;
        order.push_back(at - within + within % half * 2 + within / half);
      }
      narrow = vector::ShuffleOp::create(builder, loc, narrow, narrow, order);
    }
    LLVM::StoreOp::create(builder, loc, narrow, to, 1);
  }
  /// Where number `at` stands, as storeBytes places it.
  Value turned(Value at) {
    if (layout.bits != 4) {
      return at;
    }
    auto bits = [&](Value value, int64_t mask) -> Value {
      return arith::AndIOp::create(builder, loc, value, constant(mask));
    };
    Value pair = arith::ShRUIOp::create(builder, loc, bits(at, kTurned - 2), constant(1));
    return add(add(bits(at, -kTurned), pair), mul(bits(at, 1), constant(kTurned / 2)));
  }

  Value wholeOf(Value count) {
    return arith::AndIOp::create(builder, loc, count, constant(-lanes));
  }
};

} // namespace

void buildRoundRows(ModuleOp module, engine::CpuLevel level, const tn::BlockRows &layout) {
  RoundBuilder(module, level, layout).build();
}

} // namespace tenon::codegen::cpu
