// Sweeps every expanded function over its domain and compares with libm in long double, within the
// errors that MathFormulas.h states; then the special values. Relies on LoadedCode to run the code.
#include "compiler/codegen/common/math/VectorMath.h"
#include "compiler/codegen/cpu/base/Emit.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"
#include "test/unit/codegen/LoadedCode.h"
#include "llvm/Support/FormatVariadic.h"

#include <cmath>
#include <functional>
#include <gtest/gtest.h>
#include <limits>

namespace tenon::codegen::cpu {
namespace {

constexpr size_t kLanes = 16;
using Apply = void(const void *a, const void *b, void *y);

/// Code for `op` on vectors of 16 `element`; `types` follows the colon of the op.
std::string emitFunction(llvm::StringRef symbol, llvm::StringRef op, llvm::StringRef vector,
                         llvm::StringRef types, bool binary, engine::CpuLevel level) {
  mlir::DialectRegistry registry;
  registerEmitDialects(registry);
  mlir::MLIRContext context(registry, mlir::MLIRContext::Threading::DISABLED);
  std::string text = llvm::formatv(
      R"(func.func @{0}(%pa: !llvm.ptr, %pb: !llvm.ptr, %py: !llvm.ptr) {{
           %a = llvm.load %pa {{alignment = 1} : !llvm.ptr -> {2}
           %b = llvm.load %pb {{alignment = 1} : !llvm.ptr -> {2}
           %y = {1} {3} : {4}
           llvm.store %y, %py {{alignment = 1} : {5}, !llvm.ptr
           return
         })",
      symbol, op, vector, binary ? "%a, %b" : "%a", types,
      types.split(" to ").second.empty() ? vector : types.split(" to ").second);
  mlir::OwningOpRef<mlir::ModuleOp> module =
      mlir::parseSourceString<mlir::ModuleOp>(text, &context);
  EXPECT_TRUE(module) << text;
  mlir::RewritePatternSet patterns(&context);
  populateExpandMathPatterns(patterns);
  populateExpandRoundingPatterns(patterns);
  EXPECT_TRUE(succeeded(mlir::applyPatternsGreedily(*module, std::move(patterns))));
  EXPECT_TRUE(succeeded(lowerToLlvmDialect(*module)));
  llvm::Expected<std::string> object = emitObject(*module, level);
  EXPECT_TRUE(bool(object)) << (object ? "" : llvm::toString(object.takeError()));
  return std::move(*object);
}

/// Result elements for argument elements, computed by generated code.
template <typename T>
std::vector<T> apply(llvm::StringRef op, llvm::StringRef element, std::vector<T> a,
                     std::vector<T> b = {}, engine::CpuLevel level = machineLevels().back()) {
  std::string vector = llvm::formatv("vector<16x{0}>", element);
  std::string object = emitFunction("f", op, vector, vector, !b.empty(), level);
  LoadedCode code(level, {object}, {"f"});
  Apply *function = code.function<Apply>("f");
  size_t count = a.size();
  a.resize((count + kLanes - 1) / kLanes * kLanes, T(1));
  b.resize(a.size(), T(1));
  std::vector<T> y(a.size());
  for (size_t i = 0; i < a.size(); i += kLanes) {
    function(&a[i], &b[i], &y[i]);
  }
  y.resize(count);
  return y;
}

/// `count` arguments: half spread evenly over [low, high], half over the magnitudes in it.
template <typename T> std::vector<T> sweep(double low, double high, size_t count) {
  std::vector<T> values;
  double most = std::max(std::abs(low), std::abs(high));
  for (size_t i = 0; i < count; ++i) {
    double t = double(i) / (count - 1);
    values.push_back(T(low + (high - low) * t));
    double magnitude = most * std::pow(1e-9, t);
    double value = (i % 2 && low < 0) ? -magnitude : magnitude;
    if (value >= low && value <= high) {
      values.push_back(T(value));
    }
  }
  return values;
}

struct Case {
  const char *op;
  long double (*reference)(long double);
  double low, high;
  /// Largest relative error; results below `floor` count as `floor` in it.
  double f32, f64;
  double floor = 1e-30;
};

template <typename T> double worstError(const Case &c, llvm::StringRef element, size_t count) {
  std::vector<T> x = sweep<T>(c.low, c.high, count);
  std::vector<T> y = apply<T>(c.op, element, x);
  double worst = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    long double expected = c.reference(x[i]);
    double error =
        std::abs(double(y[i] - expected)) / std::max(double(std::abs(expected)), c.floor);
    // A NaN result must count.
    if (!(error <= worst)) {
      worst = std::isnan(error) ? INFINITY : error;
    }
  }
  return worst;
}

const Case kCases[] = {
    {"math.exp", std::exp, -87, 88.7, 1.5e-7, 1e-14},
    {"math.exp2", std::exp2, -125, 127, 1.5e-7, 1e-12},
    {"math.expm1", std::expm1, -20, 88, 3e-7, 1e-12},
    {"math.expm1", std::expm1, -1, 1, 3e-7, 1e-12},
    {"math.log", std::log, 1e-37, 1e38, 1.5e-7, 1e-14},
    {"math.log", std::log, 0.5, 2, 1.5e-7, 1e-13, 1e-7},
    {"math.log2", std::log2, 1e-37, 1e38, 1.5e-7, 1e-12},
    {"math.log10", std::log10, 1e-37, 1e38, 1.5e-7, 1e-12},
    {"math.log1p", std::log1p, -0.99999, 1e9, 2.5e-7, 1e-12},
    {"math.log1p", std::log1p, -0.5, 1, 2.5e-7, 1e-12},
    {"math.sin", std::sin, -1000, 1000, 1.5e-7, 1e-12, 1e-4},
    {"math.cos", std::cos, -1000, 1000, 1.5e-7, 1e-12, 1e-4},
    {"math.tan", std::tan, -100, 100, 1.5e-7, 1e-10, 1e-4},
    {"math.asin", std::asin, -1, 1, 1.5e-7, 1e-12},
    {"math.acos", std::acos, -1, 0.999, 1.5e-7, 1e-12},
    {"math.atan", std::atan, -1e6, 1e6, 1.5e-7, 1e-12},
    {"math.sinh", std::sinh, -88, 88, 1.5e-7, 1e-12},
    {"math.cosh", std::cosh, -88, 88, 1.5e-7, 1e-12},
    {"math.tanh", std::tanh, -20, 20, 3e-7, 1e-12},
    {"math.tanh", std::tanh, -1, 1, 3e-7, 1e-12},
    {"math.asinh", std::asinh, -1e6, 1e6, 1.5e-7, 1e-12},
    {"math.acosh", std::acosh, 1.001, 1e6, 1.5e-7, 1e-12},
    {"math.atanh", std::atanh, -0.999, 0.999, 1.5e-7, 1e-12},
    {"math.erf", std::erf, -6, 6, 4e-7, 1e-15},
    {"math.erf", std::erf, -1, 1, 4e-7, 1e-15},
    {"math.rsqrt", [](long double x) { return 1 / std::sqrt(x); }, 1e-30, 1e30, 1.5e-7, 1e-15},
};

TEST(VectorMath, ErrorsAreAsStated) {
  for (const Case &c : kCases) {
    double f32 = worstError<float>(c, "f32", 20000);
    double f64 = worstError<double>(c, "f64", 20000);
    EXPECT_LE(f32, c.f32) << c.op << " f32";
    EXPECT_LE(f64, c.f64) << c.op << " f64";
    printf("%-12s [%g, %g] f32 %.2g f64 %.2g\n", c.op, c.low, c.high, f32, f64);
  }
}

TEST(VectorMath, SweepSeesAWrongFunction) {
  Case wrong = kCases[0];
  wrong.reference = [](long double x) { return std::exp(x) * (1 + 1e-6L); };
  EXPECT_GT(worstError<float>(wrong, "f32", 1000), wrong.f32);
}

TEST(VectorMath, EachLevelAgrees) {
  for (engine::CpuLevel level : machineLevels()) {
    std::vector<float> x = sweep<float>(-80, 80, 1000);
    std::vector<float> y = apply<float>("math.exp", "f32", x, {}, level);
    for (size_t i = 0; i < x.size(); ++i) {
      EXPECT_NEAR(y[i] / std::exp(double(x[i])), 1, 1.5e-7) << nameOf(level) << " exp " << x[i];
    }
  }
}

constexpr float kInf = std::numeric_limits<float>::infinity();
const float kNan = std::nanf("1");

template <typename T>
void expectSpecial(llvm::StringRef op, llvm::StringRef element, const std::vector<T> &x,
                   const std::vector<double> &expected, const std::vector<T> &second = {}) {
  std::vector<T> y = apply<T>(op, element, x, second);
  for (size_t i = 0; i < x.size(); ++i) {
    bool same = std::isnan(expected[i]) ? std::isnan(y[i]) : y[i] == T(expected[i]);
    EXPECT_TRUE(same) << op.str() << " " << element.str() << " of " << x[i] << " is " << y[i];
  }
}

template <typename T> void expectSpecials(llvm::StringRef element) {
  expectSpecial<T>("math.exp", element, {kInf, -kInf, kNan, 0, 1000, -1000},
                   {kInf, 0, kNan, 1, kInf, 0});
  expectSpecial<T>("math.log", element, {kInf, -kInf, kNan, 0, -0.f, -1, 1},
                   {kInf, kNan, kNan, -kInf, -kInf, kNan, 0});
  expectSpecial<T>("math.tanh", element, {kInf, -kInf, kNan, 0}, {1, -1, kNan, 0});
  expectSpecial<T>("math.erf", element, {kInf, -kInf, kNan, 0, 7, -7}, {1, -1, kNan, 0, 1, -1});
  expectSpecial<T>("math.log1p", element, {kInf, -1, -2, kNan, 0}, {kInf, -kInf, kNan, kNan, 0});
  expectSpecial<T>("math.expm1", element, {kInf, -kInf, kNan, 0}, {kInf, -1, kNan, 0});
  expectSpecial<T>("math.atan", element, {kInf, kNan}, {M_PI_2, kNan});
  expectSpecial<T>("math.asin", element, {1, -1, 2, kNan}, {M_PI_2, -M_PI_2, kNan, kNan});
  expectSpecial<T>("math.acos", element, {1, 2, kNan}, {0, kNan, kNan});
  expectSpecial<T>("math.sin", element, {kInf, kNan, 0}, {kNan, kNan, 0});
  expectSpecial<T>("math.acosh", element, {1, 0.5, kInf, kNan, -1e9f, -kInf},
                   {0, kNan, kInf, kNan, kNan, kNan});
  expectSpecial<T>("math.asinh", element, {kInf, -kInf, kNan}, {kInf, -kInf, kNan});
  expectSpecial<T>("math.atanh", element, {1, -1, 2, kNan}, {kInf, -kInf, kNan, kNan});
  expectSpecial<T>("math.sinh", element, {kInf, -kInf, kNan}, {kInf, -kInf, kNan});
  expectSpecial<T>("math.cosh", element, {kInf, -kInf, kNan}, {kInf, kInf, kNan});
  std::vector<T> base = {2, -2, -2, -8, 0, 0, kInf, 1, kNan, 4, -kInf};
  std::vector<T> exponent = {10, 3, 4, 0.5, 2, -1, 2, kNan, 0, 0.5, 3};
  std::vector<double> power = {1024, -8, 16, kNan, 0, kInf, kInf, 1, 1, 2, -kInf};
  for (T x : {T(-0.f), T(0), T(-1), T(1), T(0.5), T(-2), T(kInf), T(-kInf), T(kNan)}) {
    for (T n : {T(-3), T(-2), T(-0.5), T(0), T(0.5), T(1), T(2), T(kInf), T(-kInf), T(kNan)}) {
      base.push_back(x);
      exponent.push_back(n);
      power.push_back(std::pow(x, n));
    }
  }
  std::vector<T> y = apply<T>("math.powf", element, base, exponent);
  for (size_t i = 0; i < base.size(); ++i) {
    bool same = std::isnan(power[i]) ? std::isnan(y[i])
                                     : y[i] == T(power[i]) || std::abs(y[i] / power[i] - 1) < 1e-12;
    EXPECT_TRUE(same) << "pow " << base[i] << " " << exponent[i] << " is " << y[i];
  }
  expectSpecial<T>("arith.remf", element, {7, -7, 7.5, 5, kInf, 3}, {1, -1, 1.5, 5, kNan, kNan},
                   {3, 3, 2, kInf, 2, 0});
  std::vector<T> dividends, divisors;
  std::vector<double> rests;
  using Limits = std::numeric_limits<T>;
  std::vector<T> numbers = {0,
                            T(-0.f),
                            1,
                            -1,
                            3,
                            T(0.1),
                            T(-5.5),
                            1e30,
                            T(1e-30),
                            kInf,
                            kNan,
                            1e38,
                            Limits::max(),
                            Limits::denorm_min(),
                            Limits::lowest(),
                            3 * Limits::denorm_min(),
                            Limits::min()};
  for (T a : numbers) {
    for (T b : numbers) {
      dividends.push_back(a);
      divisors.push_back(b);
      rests.push_back(std::fmod(a, b));
    }
  }
  expectSpecial<T>("arith.remf", element, dividends, rests, divisors);
}

TEST(VectorMath, SpecialValuesOfF32) { expectSpecials<float>("f32"); }
TEST(VectorMath, SpecialValuesOfF64) { expectSpecials<double>("f64"); }

/// Numbers of every magnitude from 2^30 on, among them those of f32 next to a multiple of pi / 2.
template <typename T> std::vector<T> largeAngles() {
  std::vector<T> angles = {T(0x1.f65976p125f),
                           T(0x1.d0f9ep80f),
                           T(1e15),
                           T(1e16),
                           T(-1e22),
                           T(0x1p45),
                           std::numeric_limits<T>::max(),
                           std::numeric_limits<T>::lowest()};
  uint64_t state = 1;
  for (int exponent = 30; exponent < std::numeric_limits<T>::max_exponent; ++exponent) {
    for (int i = 0; i < 100; ++i) {
      state = state * 6364136223846793005 + 1442695040888963407;
      T mantissa = T(1 + double(state >> 12) * 0x1p-52);
      mantissa = mantissa < T(2) ? mantissa : T(1);
      angles.push_back(std::ldexp(i % 2 ? -mantissa : mantissa, exponent));
    }
  }
  return angles;
}

template <typename T>
double worstOfLargeAngles(llvm::StringRef op, llvm::StringRef element, engine::CpuLevel level,
                          long double (*reference)(long double), double floor) {
  std::vector<T> x = largeAngles<T>();
  // Small, infinite and undefined ones beside them, in the same vectors.
  for (size_t i = 3; i < x.size(); i += 7) {
    x[i] = i % 2 ? T(i) : T(i % 3 ? kInf : kNan);
  }
  std::vector<T> y = apply<T>(op, element, x, {}, level);
  double worst = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    if (!std::isfinite(x[i])) {
      EXPECT_TRUE(std::isnan(y[i])) << op.str() << " of " << x[i];
      continue;
    }
    long double expected = reference(x[i]);
    double error = double(std::abs(y[i] - expected)) / std::max(double(std::abs(expected)), floor);
    worst = error <= worst ? worst : std::isnan(error) ? INFINITY : error;
  }
  return worst;
}

TEST(VectorMath, LargeAngles) {
  for (engine::CpuLevel level : machineLevels()) {
    EXPECT_LE(worstOfLargeAngles<float>("math.sin", "f32", level, std::sin, 1e-30), 1.5e-7);
    EXPECT_LE(worstOfLargeAngles<float>("math.cos", "f32", level, std::cos, 1e-30), 1.5e-7);
    EXPECT_LE(worstOfLargeAngles<float>("math.tan", "f32", level, std::tan, 1e-30), 1.5e-7);
    EXPECT_LE(worstOfLargeAngles<double>("math.sin", "f64", level, std::sin, 1), 1e-15);
    EXPECT_LE(worstOfLargeAngles<double>("math.cos", "f64", level, std::cos, 1), 1e-15);
  }
}

TEST(VectorMath, SubnormalLogarithm) {
  std::vector<float> x = {1e-40f, 1e-44f, 2e-39f};
  std::vector<float> y = apply<float>("math.log", "f32", x);
  for (size_t i = 0; i < x.size(); ++i) {
    EXPECT_NEAR(y[i], std::log(double(x[i])), 2e-5);
  }
}

TEST(VectorMath, HalfPrecision) {
  std::vector<_Float16> half = {_Float16(0.5), _Float16(-3), _Float16(11), _Float16(0)};
  std::vector<_Float16> y = apply<_Float16>("math.exp", "f16", half);
  for (size_t i = 0; i < half.size(); ++i) {
    EXPECT_EQ(float(y[i]), float(_Float16(std::exp(float(half[i])))));
  }
  // bf16 is the upper half of f32.
  std::vector<uint16_t> brain = {0x3f00, 0xc040, 0x4130, 0x0000};
  std::vector<uint16_t> z = apply<uint16_t>("math.tanh", "bf16", brain);
  for (size_t i = 0; i < brain.size(); ++i) {
    float x = std::bit_cast<float>(uint32_t(brain[i]) << 16);
    float value = std::bit_cast<float>(uint32_t(z[i]) << 16);
    EXPECT_NEAR(value, std::tanh(x), 0.004);
  }
}

TEST(VectorMath, RoundingToHalfNeedsNoCalls) {
  for (engine::CpuLevel level : {engine::CpuLevel::X86_64_V3, engine::CpuLevel::Avx512VnniBf16}) {
    for (const char *types :
         {"vector<16xf64> to vector<16xf16>", "vector<16xf64> to vector<16xbf16>"}) {
      EXPECT_FALSE(
          emitFunction("f", "arith.truncf", "vector<16xf64>", types, false, level).empty());
    }
    for (const char *types :
         {"vector<16xf32> to vector<16xf16>", "vector<16xf32> to vector<16xbf16>"}) {
      EXPECT_FALSE(
          emitFunction("f", "arith.truncf", "vector<16xf32>", types, false, level).empty());
    }
  }
}

TEST(VectorMath, IntegerPower) {
  std::vector<int64_t> y = apply<int64_t>("math.ipowi", "i64", {2, -3, 7, 3}, {10, 3, 0, -1});
  EXPECT_EQ(y, (std::vector<int64_t>{1024, -27, 1, -6148914691236517205}));
}

} // namespace
} // namespace tenon::codegen::cpu
