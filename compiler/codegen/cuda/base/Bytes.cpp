// Quantized numbers between bytes and f32 without the conversion unit, which does a fraction of
// what adders do: a float between 2^23 and 2^24 holds an integer in its low bits. Relies on
// quantization as ExpandQuantize.cpp and casts of floats (common/math/ScalarBody.cpp) write it.
#include "compiler/codegen/cuda/base/MathCuda.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/PatternMatch.h"

#include <cmath>

using namespace mlir;

namespace tenon::codegen::cuda {
namespace {

constexpr unsigned kBytesBenefit = 10;
/// 2^23, of whose bits those of a byte are the low ones, and 1.5 * 2^23, beside which the low bits
/// of negative integers are theirs.
constexpr double kByteZero = 8388608.0, kIntegerZero = 12582912.0;
constexpr int32_t kByteZeroBits = 0x4b000000;

std::optional<double> constantOf(Value value) {
  FloatAttr attribute;
  return matchPattern(value, m_Constant(&attribute)) ? std::optional(attribute.getValueAsDouble())
                                                     : std::nullopt;
}

Value number(PatternRewriter &rewriter, Location location, double value) {
  return arith::ConstantOp::create(rewriter, location,
                                   rewriter.getF32FloatAttr(static_cast<float>(value)));
}

/// x of select(x ? bound, x, bound), and the bound.
struct Held {
  Value x;
  double bound;
};
std::optional<Held> heldBy(Value value, arith::CmpFPredicate predicate) {
  arith::SelectOp select = value.getDefiningOp<arith::SelectOp>();
  arith::CmpFOp holds =
      select ? select.getCondition().getDefiningOp<arith::CmpFOp>() : arith::CmpFOp();
  std::optional<double> bound = select ? constantOf(select.getFalseValue()) : std::nullopt;
  if (!holds || !bound || holds.getPredicate() != predicate ||
      holds.getLhs() != select.getTrueValue() || constantOf(holds.getRhs()) != bound) {
    return std::nullopt;
  }
  return Held{select.getTrueValue(), *bound};
}

/// The float that saturate() makes a byte of behind a test for NaN; null for anything else.
Value saturated(arith::SelectOp op) {
  arith::SelectOp top = op.getTrueValue().getDefiningOp<arith::SelectOp>();
  Operation *integer = top ? top.getFalseValue().getDefiningOp() : nullptr;
  if (!isa_and_nonnull<arith::FPToUIOp, arith::FPToSIOp>(integer)) {
    return {};
  }
  Value x = integer->getOperand(0);
  for (int step = 0; step < 2; ++step) {
    Operation *bound = x.getDefiningOp();
    if (!isa_and_nonnull<arith::MaxNumFOp, arith::MinNumFOp, LLVM::MaxNumOp, LLVM::MinNumOp>(
            bound)) {
      return {};
    }
    x = bound->getOperand(0);
  }
  return x;
}

/// A sum that is rounded, moved by a zero point and held to the range of a byte.
struct NarrowLevel : OpRewritePattern<arith::SelectOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(arith::SelectOp op, PatternRewriter &rewriter) const override {
    Value x = op.getType().isInteger(8) ? saturated(op) : Value();
    std::optional<Held> most = x ? heldBy(x, arith::CmpFPredicate::OLT) : std::nullopt;
    std::optional<Held> least = most ? heldBy(most->x, arith::CmpFPredicate::OGT) : std::nullopt;
    if (!least || !x.getType().isF32() || least->bound < -128 || most->bound > 255) {
      return failure();
    }
    x = least->x;
    double zero = 0;
    if (arith::AddFOp sum = x.getDefiningOp<arith::AddFOp>()) {
      std::optional<double> added = constantOf(sum.getRhs());
      if (!added || *added != std::nearbyint(*added) || std::abs(*added) > 255) {
        return failure();
      }
      zero = *added;
      x = sum.getLhs();
    }
    math::RoundEvenOp round = x.getDefiningOp<math::RoundEvenOp>();
    if (!round) {
      return failure();
    }
    Location location = op.getLoc();
    // Bounds are whole numbers: held before it is rounded, it is the same.
    Value level = withoutRelu(round.getOperand(), least->bound - zero);
    level = LLVM::MaxNumOp::create(rewriter, location, level.getType(), level,
                                   number(rewriter, location, least->bound - zero));
    level = LLVM::MinNumOp::create(rewriter, location, level.getType(), level,
                                   number(rewriter, location, most->bound - zero));
    int32_t more = static_cast<int32_t>(zero);
    double base = kIntegerZero;
    if (more == 0 && !isCombined(op)) {
      // An even number more, so that halves are rounded as before, which integers take off again.
      base += 2;
      more = -2;
    }
    level = arith::AddFOp::create(rewriter, location, level, number(rewriter, location, base));
    Value bits = arith::BitcastOp::create(rewriter, location, rewriter.getI32Type(), level);
    if (more != 0) {
      Value difference =
          arith::ConstantOp::create(rewriter, location, rewriter.getI32IntegerAttr(more));
      bits = arith::AddIOp::create(rewriter, location, bits, difference);
    }
    rewriter.replaceOpWithNewOp<arith::TruncIOp>(op, op.getType(), bits);
    return success();
  }

private:
  /// Whether bits of words are made of the byte. Where it is stored alone, ptxas (13.0) takes the
  /// register for the number that it is as a float, and converts it.
  static bool isCombined(Value byte) {
    constexpr int64_t kWord = 4;
    return llvm::all_of(byte.getUsers(), [](Operation *user) {
      LLVM::InsertElementOp packed = dyn_cast<LLVM::InsertElementOp>(user);
      return isa<arith::UIToFPOp, arith::SIToFPOp, arith::ExtUIOp>(user) ||
             (packed && cast<VectorType>(packed.getType()).getNumElements() % kWord == 0);
    });
  }

  /// What a bound of 0 and more makes of negative numbers anyway.
  static Value withoutRelu(Value x, double least) {
    arith::SelectOp select = x.getDefiningOp<arith::SelectOp>();
    arith::CmpFOp isBelow =
        select ? select.getCondition().getDefiningOp<arith::CmpFOp>() : arith::CmpFOp();
    bool isRelu = isBelow && isBelow.getLhs() == select.getFalseValue() &&
                  constantOf(isBelow.getRhs()) == 0 && constantOf(select.getTrueValue()) == 0 &&
                  (isBelow.getPredicate() == arith::CmpFPredicate::OLT ||
                   isBelow.getPredicate() == arith::CmpFPredicate::ULT);
    return isRelu && least >= 0 ? select.getFalseValue() : x;
  }
};

template <typename Op> struct WidenByte : OpRewritePattern<Op> {
  using OpRewritePattern<Op>::OpRewritePattern;

  LogicalResult matchAndRewrite(Op op, PatternRewriter &rewriter) const override {
    if (!op.getIn().getType().isInteger(8) || !op.getType().isF32()) {
      return failure();
    }
    Location location = op.getLoc();
    Value byte = op.getIn();
    double zero = kByteZero;
    if (isa<arith::SIToFPOp>(op)) {
      Value half = arith::ConstantOp::create(rewriter, location, rewriter.getI8IntegerAttr(-128));
      byte = arith::XOrIOp::create(rewriter, location, byte, half);
      zero += 128;
    }
    Value wide = arith::ExtUIOp::create(rewriter, location, rewriter.getI32Type(), byte);
    Value base =
        arith::ConstantOp::create(rewriter, location, rewriter.getI32IntegerAttr(kByteZeroBits));
    Value bits = arith::OrIOp::create(rewriter, location, wide, base);
    Value level = arith::BitcastOp::create(rewriter, location, rewriter.getF32Type(), bits);
    rewriter.replaceOpWithNewOp<arith::SubFOp>(op, level, number(rewriter, location, zero));
    return success();
  }
};

/// A byte as f32 less its zero point: one subtraction, which is exact.
struct JoinZeroPoint : OpRewritePattern<arith::SubFOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(arith::SubFOp op, PatternRewriter &rewriter) const override {
    arith::SubFOp level = op.getLhs().getDefiningOp<arith::SubFOp>();
    std::optional<double> base = level ? constantOf(level.getRhs()) : std::nullopt;
    std::optional<double> zero = constantOf(op.getRhs());
    bool isByte = base && (*base == kByteZero || *base == kByteZero + 128) &&
                  level.getLhs().getDefiningOp<arith::BitcastOp>();
    if (!isByte || !zero || *zero != std::nearbyint(*zero) || std::abs(*zero) > 255) {
      return failure();
    }
    rewriter.replaceOpWithNewOp<arith::SubFOp>(op, level.getLhs(),
                                               number(rewriter, op.getLoc(), *base + *zero));
    return success();
  }
};

} // namespace

void populateBytePatterns(RewritePatternSet &patterns) {
  patterns.add<NarrowLevel, JoinZeroPoint, WidenByte<arith::UIToFPOp>, WidenByte<arith::SIToFPOp>>(
      patterns.getContext(), kBytesBenefit);
}

} // namespace tenon::codegen::cuda
