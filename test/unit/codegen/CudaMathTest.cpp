// The GPU's forms of math functions against libm, run on the CPU: each approximate instruction is
// stood in for by the exact function, off by the error that its manual allows, either way. Relies
// on LoadedCode to run the code.
#include "compiler/codegen/cuda/base/MathCuda.h"

#include "compiler/codegen/common/math/VectorMath.h"
#include "compiler/codegen/cpu/base/Emit.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"
#include "test/unit/codegen/LoadedCode.h"
#include "llvm/Support/FormatVariadic.h"

#include <cmath>
#include <gtest/gtest.h>
#include <limits>

namespace tenon::codegen::cuda {
namespace {

using namespace mlir;

/// Replaces the approximate instructions by exact functions times 1 + `sign` * what PTX allows.
struct StandIn : OpRewritePattern<LLVM::CallIntrinsicOp> {
  StandIn(MLIRContext *context, double sign) : OpRewritePattern(context), sign(sign) {}

  LogicalResult matchAndRewrite(LLVM::CallIntrinsicOp op,
                                PatternRewriter &rewriter) const override {
    Location loc = op.getLoc();
    auto number = [&](double value) -> Value {
      return arith::ConstantOp::create(rewriter, loc, rewriter.getF64FloatAttr(value));
    };
    Value x = arith::ExtFOp::create(rewriter, loc, rewriter.getF64Type(), op.getArgs()[0]);
    Value y;
    double error = 0;
    if (op.getIntrin() == "llvm.nvvm.ex2.approx.ftz.f32") {
      y = math::Exp2Op::create(rewriter, loc, x);
      error = 0x1p-22;
    } else if (op.getIntrin() == "llvm.nvvm.rcp.approx.ftz.f") {
      y = arith::DivFOp::create(rewriter, loc, number(1), x);
      error = 0x1p-23;
    } else if (op.getIntrin() == "llvm.nvvm.rsqrt.approx.f") {
      Value root = math::SqrtOp::create(rewriter, loc, x);
      y = arith::DivFOp::create(rewriter, loc, number(1), root);
      error = 0x1.12p-23; // 2^-22.9
    } else if (op.getIntrin() == "llvm.nvvm.lg2.approx.f") {
      y = math::Log2Op::create(rewriter, loc, x);
      y = arith::AddFOp::create(rewriter, loc, y, number(sign * 0x1p-22));
    } else {
      return failure();
    }
    y = arith::MulFOp::create(rewriter, loc, y, number(1 + sign * error));
    rewriter.replaceOpWithNewOp<arith::TruncFOp>(op, op.getResult(0).getType(), y);
    return success();
  }

  double sign;
};

/// The CPU multiplies and adds halves as floats.
struct HalfFma : OpRewritePattern<math::FmaOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(math::FmaOp op, PatternRewriter &rewriter) const override {
    if (!op.getType().isF16()) {
      return failure();
    }
    SmallVector<Value> wide;
    for (Value operand : op->getOperands()) {
      wide.push_back(arith::ExtFOp::create(rewriter, op.getLoc(), rewriter.getF32Type(), operand));
    }
    Value result = math::FmaOp::create(rewriter, op.getLoc(), wide[0], wide[1], wide[2]);
    rewriter.replaceOpWithNewOp<arith::TruncFOp>(op, op.getType(), result);
    return success();
  }
};

using Apply = void(const float *x, const float *second, float *y);

/// Code of @f, which holds `body` between loads of %x and %z and a store of %y, all f32.
std::string emitFunction(StringRef body, double sign) {
  DialectRegistry registry;
  cpu::registerEmitDialects(registry);
  MLIRContext context(registry, MLIRContext::Threading::DISABLED);
  std::string text =
      llvm::formatv(R"(func.func @f(%px: !llvm.ptr, %pz: !llvm.ptr, %py: !llvm.ptr) {{
      %x = llvm.load %px : !llvm.ptr -> f32
      %z = llvm.load %pz : !llvm.ptr -> f32
      {0}
      llvm.store %y, %py : f32, !llvm.ptr
      return
    })",
                    body);
  OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(text, &context);
  EXPECT_TRUE(module) << text;
  RewritePatternSet patterns(&context);
  populateMathCudaPatterns(patterns);
  populateExpandMathPatterns(patterns);
  EXPECT_TRUE(succeeded(applyPatternsGreedily(*module, std::move(patterns))));
  RewritePatternSet standIns(&context);
  standIns.add<StandIn>(&context, sign);
  standIns.add<HalfFma>(&context);
  populateExpandMathPatterns(standIns);
  populateExpandRoundingPatterns(standIns);
  EXPECT_TRUE(succeeded(applyPatternsGreedily(*module, std::move(standIns))));
  EXPECT_TRUE(succeeded(cpu::lowerToLlvmDialect(*module)));
  llvm::Expected<std::string> object = cpu::emitObject(*module, cpu::machineLevels().back());
  EXPECT_TRUE(bool(object)) << (object ? "" : llvm::toString(object.takeError()));
  return std::move(*object);
}

/// The results of `body` for each pair of arguments.
std::vector<float> apply(StringRef body, double sign, const std::vector<float> &x,
                         const std::vector<float> &z) {
  std::string object = emitFunction(body, sign);
  cpu::LoadedCode code(cpu::machineLevels().back(), {object}, {"f"});
  Apply *function = code.function<Apply>("f");
  std::vector<float> y(x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    function(&x[i], &z[i], &y[i]);
  }
  return y;
}

/// Half spread evenly over [low, high], half over the magnitudes in it.
std::vector<float> sweep(double low, double high, bool isHalf) {
  constexpr size_t kCount = 20000;
  std::vector<float> values;
  double most = std::max(std::abs(low), std::abs(high));
  for (size_t i = 0; i < kCount; ++i) {
    double t = double(i) / (kCount - 1);
    double magnitude = most * std::pow(1e-9, t);
    for (double value : {low + (high - low) * t, (i % 2 && low < 0) ? -magnitude : magnitude}) {
      if (value >= low && value <= high) {
        values.push_back(isHalf ? float(_Float16(value)) : float(value));
      }
    }
  }
  return values;
}

struct Case {
  const char *op; ///< on %x
  double (*reference)(double);
  double low, high;
  double error;
  bool isRelative = true;
  double perUnit = 0;      ///< what the error grows by with |x|
  const char *before = ""; ///< lines that `op` needs
  bool isInUnits = false;  ///< of the last place of an f16
};

/// What GELU of the value of this name begins with, as ScalarBody.cpp has it.
std::string beforeGelu(StringRef x) {
  return llvm::formatv(R"(%c = arith.constant 0.7071067811865476 : f32
      %a = arith.constant 0.5 : f32
      %s = arith.mulf {0}, %c : f32
      %f = math.erf %s : f32
      %i = arith.mulf {0}, %a : f32
      %j = arith.mulf %i, %f : f32)",
                       x);
}
const std::string kBeforeGelu = beforeGelu("%x");
constexpr const char *kGelu = "arith.addf %i, %j";
double gelu(double x) { return 0.5 * x * std::erfc(-x / std::sqrt(2.0)); }

/// What an error is measured in where the result should be this.
double unitOf(const Case &c, double expected) {
  if (c.isInUnits) {
    constexpr int kDigits = 10, kMin = -24;
    return std::max(std::ldexp(1, std::ilogb(expected) - kDigits), std::ldexp(1, kMin));
  }
  return c.isRelative ? std::abs(expected) : 1;
}

/// The largest error beyond what `c` grants by `perUnit`, of results as they are.
double worstError(const Case &c, StringRef body, double sign, bool isHalf) {
  std::vector<float> x = sweep(c.low, c.high, isHalf);
  std::vector<float> y = apply(body, sign, x, x);
  double worst = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    double expected = c.reference(x[i]);
    double error = std::abs(y[i] - expected) / unitOf(c, expected);
    error = std::max(0.0, error - c.perUnit * std::abs(x[i]));
    worst = std::isnan(error) ? INFINITY : std::max(worst, error);
  }
  return worst;
}

/// The same of results that are rounded to f16: what is rounded is their difference from libm's,
/// enlarged to be seen.
double worstHalfError(const Case &c, double sign) {
  std::vector<float> x = sweep(c.low, c.high, false), expected(x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    expected[i] = c.reference(x[i]);
  }
  std::string body = llvm::formatv(R"(%large = arith.constant 1.0e6 : f32
      {1}
      %r = {0} : f32
      %d = arith.subf %r, %z : f32
      %e = arith.mulf %d, %large : f32
      %h = arith.truncf %e : f32 to f16
      %y = arith.extf %h : f16 to f32)",
                                   c.op, c.before);
  std::vector<float> y = apply(body, sign, x, expected);
  double worst = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    double error = std::abs(y[i]) * 1e-6 / unitOf(c, expected[i]);
    worst = std::isnan(error) ? INFINITY : std::max(worst, error);
  }
  return worst;
}

TEST(MathCuda, ErrorsOfSingle) {
  const Case cases[] = {
      {"math.exp %x", std::exp, -87, 88.7, 3.4e-7},
      {"math.exp %x", std::exp, -1, 1, 3.1e-7},
      {"math.exp2 %x", std::exp2, -125, 127, 3.1e-7},
      {"math.rsqrt %x", [](double x) { return 1 / std::sqrt(x); }, 1e-30, 1e30, 2e-7},
      {"math.tanh %x", std::tanh, -20, 20, 3e-7},
      {"math.log %x", std::log, 2, 1e38, 1.5e-7},
  };
  for (const Case &c : cases) {
    for (double sign : {-1.0, 1.0}) {
      std::string body = "%y = " + std::string(c.op) + " : f32";
      double error = worstError(c, body, sign, false);
      EXPECT_LE(error, c.error) << c.op << " in [" << c.low << ", " << c.high << "]";
      printf("%-14s [%g, %g] %.2g\n", c.op, c.low, c.high, error);
    }
  }
}

TEST(MathCuda, ExponentialOfHalf) {
  Case c = {"math.exp", std::exp, -87, 88.5, 3.1e-7, true, 7.5e-8};
  for (double sign : {-1.0, 1.0}) {
    double error = worstError(c, R"(%h = arith.truncf %x : f32 to f16
        %w = arith.extf %h : f16 to f32
        %y = math.exp %w : f32)",
                              sign, true);
    EXPECT_LE(error, c.error);
  }
}

TEST(MathCuda, ErrorsOfWhatEndsInHalf) {
  const Case cases[] = {
      {"math.tanh %x", std::tanh, -20, 20, 1e-6, false},
      {"math.erf %x", std::erf, -20, 20, 1e-6, false},
      {"math.erf %x", std::erf, -1, 1, 1e-6, false},
      {"math.log %x", std::log, 0.1, 10, 5e-7, false},
      {"math.log %x", std::log, 10, 1e30, 3e-7},
      {kGelu, gelu, -20, 20, 0.15, false, 0, kBeforeGelu.c_str(), true},
  };
  for (const Case &c : cases) {
    for (double sign : {-1.0, 1.0}) {
      double error = worstHalfError(c, sign);
      EXPECT_LE(error, c.error) << c.op << " in [" << c.low << ", " << c.high << "]";
      printf("%-14s [%g, %g] to half %.2g\n", c.op, c.low, c.high, error);
    }
  }
}

TEST(MathCuda, GeluOfHalf) {
  std::string body = llvm::formatv(R"(%g = arith.truncf %z : f32 to f16
      %w = arith.extf %g : f16 to f32
      {0}
      %r = {1} : f32
      %h = arith.truncf %r : f32 to f16
      %y = arith.extf %h : f16 to f32)",
                                   beforeGelu("%w"), kGelu);
  Case c = {kGelu, gelu, -20, 20, 3, false, 0, "", true};
  double error = worstError(c, body, 1, true);
  printf("gelu of f16: %.2g units\n", error);
  EXPECT_LE(error, c.error);
  float infinity = INFINITY;
  EXPECT_EQ(apply(body, 1, {infinity}, {infinity}), std::vector<float>{infinity});
  for (float x : {-infinity, NAN}) {
    EXPECT_TRUE(std::isnan(apply(body, 1, {x}, {x}).front())) << x;
  }
}

TEST(MathCuda, SweepSeesAnErrorOfAMillionth) {
  Case wrong = {"math.exp %x", [](double x) { return std::exp(x) * (1 + 1e-6); }, -10, 10, 3e-7};
  EXPECT_GT(worstError(wrong, "%y = math.exp %x : f32", 1, false), wrong.error);
  Case halfWrong = {"math.erf %x", [](double x) { return std::erf(x) + 3e-6; }, -3, 3, 1e-6, false};
  EXPECT_GT(worstHalfError(halfWrong, 1), halfWrong.error);
  Case geluWrong = {
      kGelu, [](double x) { return gelu(x) + 2e-6; }, -20, 20, 0.15, false, 0, kBeforeGelu.c_str(),
      true};
  EXPECT_GT(worstHalfError(geluWrong, 1), geluWrong.error);
}

TEST(MathCuda, SpecialValues) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  const float nan = std::nanf("1");
  std::vector<float> x = {kInf, -kInf, nan, 0, 1000, -1000};
  auto expect = [&](std::string body, std::vector<float> expected) {
    std::vector<float> y = apply(body, 0, x, x);
    for (size_t i = 0; i < x.size(); ++i) {
      EXPECT_TRUE(std::isnan(expected[i]) ? std::isnan(y[i]) : y[i] == expected[i])
          << body << " of " << x[i] << " is " << y[i];
    }
  };
  constexpr const char *kToHalf = R"( : f32
      %h = arith.truncf %r : f32 to f16
      %y = arith.extf %h : f16 to f32)";
  expect("%y = math.exp %x : f32", {kInf, 0, nan, 1, kInf, 0});
  expect(std::string("%r = math.tanh %x") + kToHalf, {1, -1, nan, 0, 1, -1});
  expect(std::string("%r = math.erf %x") + kToHalf, {1, -1, nan, 0, 1, -1});
  expect(kBeforeGelu + "\n%r = " + kGelu + kToHalf, {kInf, nan, nan, 0, 1000, 0});
  expect(std::string("%r = math.log %x") + kToHalf,
         {kInf, nan, nan, -kInf, float(_Float16(6.907755)), nan});
}

} // namespace
} // namespace tenon::codegen::cuda
