// Tests the elementwise operations on values worked out by hand, in every kind of element type.
// Relies on the definitions of ONNX for signs, NaN and ties.
#include "ReferenceFixture.h"

#include <cmath>
#include <limits>

using namespace tenon;
using namespace tenon::reference;

namespace {

TEST_F(ReferenceTest, UnaryFunctionsOfFloats) {
  struct Row {
    const char *op;
    std::vector<double> x, y;
  };
  const Row rows[] = {
      {"tn.abs %0", {-2, 0, 3.5}, {2, 0, 3.5}},
      {"tn.neg %0", {-2, 0, kInf}, {2, 0, -kInf}},
      {"tn.exp %0", {0, 1, -kInf}, {1, 2.718281828459045, 0}},
      {"tn.log %0", {1, 0, -1}, {0, -kInf, kNan}},
      {"tn.sqrt %0", {4, 2, -1}, {2, 1.4142135623730951, kNan}},
      {"tn.rsqrt %0", {4, 0.25}, {0.5, 2}},
      {"tn.reciprocal %0", {4, 0}, {0.25, kInf}},
      {"tn.sin %0", {0, 1.5707963267948966}, {0, 1}},
      {"tn.cos %0", {0, 3.141592653589793}, {1, -1}},
      {"tn.tan %0", {0, 0.7853981633974483}, {0, 1}},
      {"tn.asin %0", {1, 0}, {1.5707963267948966, 0}},
      {"tn.acos %0", {1, 0}, {0, 1.5707963267948966}},
      {"tn.atan %0", {1, -kInf}, {0.7853981633974483, -1.5707963267948966}},
      {"tn.sinh %0", {1}, {1.1752011936438014}},
      {"tn.cosh %0", {1}, {1.5430806348152437}},
      {"tn.tanh %0", {1, kInf}, {0.7615941559557649, 1}},
      {"tn.asinh %0", {1}, {0.881373587019543}},
      {"tn.acosh %0", {2}, {1.3169578969248166}},
      {"tn.atanh %0", {0.5}, {0.5493061443340548}},
      {"tn.erf %0", {0.5, -kInf}, {0.5204998778130465, -1}},
      {"tn.ceil %0", {1.2, -1.2}, {2, -1}},
      {"tn.floor %0", {1.2, -1.2}, {1, -2}},
      {"tn.round %0", {0.5, 1.5, 2.5, -0.5, -1.5}, {0, 2, 2, 0, -2}},
      {"tn.sign %0", {-3, 0, 7, kNan}, {-1, 0, 1, kNan}},
      {"tn.relu %0", {-3, 0, 7, kNan}, {0, 0, 7, kNan}},
      {"tn.sigmoid %0", {0, -1000, 1000}, {0.5, 0, 1}},
      {"tn.silu %0", {0, 1}, {0, 0.7310585786300049}},
      {"tn.gelu %0", {0, 1, -1}, {0, 0.8413447460685429, -0.15865525393145707}},
      {"tn.gelu %0 {approximate}", {1, -1}, {0.8411919906082768, -0.15880800939172324}},
      {"tn.softplus %0", {0, 1000, -1000}, {0.6931471805599453, 1000, 0}},
      {"tn.leaky_relu %0 {alpha = 0.5 : f64}", {-4, 4}, {-2, 4}},
      {"tn.elu %0 {alpha = 2.0 : f64}", {-1, 3}, {-1.2642411176571153, 3}},
      {"tn.hard_sigmoid %0 {alpha = 0.5 : f64, beta = 0.25 : f64}",
       {-4, 0, 1, 4},
       {0, 0.25, 0.75, 1}},
      {"tn.clamp %0 {lo = -1.0 : f64, hi = 2.0 : f64}", {-4, 1, 4, kNan}, {-1, 1, 2, kNan}},
  };
  for (const Row &row : rows) {
    SCOPED_TRACE(row.op);
    int64_t size = row.x.size();
    expectTensor(evaluate(row.op, make(DType::F64, {size}, row.x), ""), {size}, row.y, 1e-14);
    expectTensor(evaluate(row.op, floats({size}, row.x), ""), {size}, row.y, 2e-5);
    expectTensor(evaluate(row.op, make(DType::F16, {size}, row.x), ""), {size}, row.y, 2e-3);
  }
}

TEST_F(ReferenceTest, UnaryFunctionsOfIntegers) {
  expectTensor(evaluate("tn.abs %0", make(DType::I8, {3}, {-128, -3, 5}), ""), {3}, {-128, 3, 5});
  expectTensor(evaluate("tn.neg %0", make(DType::U8, {2}, {1, 0}), ""), {2}, {255, 0});
  expectTensor(evaluate("tn.sign %0", make(DType::I64, {3}, {-9, 0, 4}), ""), {3}, {-1, 0, 1});
  expectTensor(evaluate("tn.not %0", make(DType::Bool, {2}, {1, 0}), ""), {2}, {0, 1});
  expectTensor(evaluate("tn.not %0", make(DType::I8, {2}, {5, -1}), ""), {2}, {-6, 0});
  expectTensor(evaluate("tn.not %0", make(DType::U16, {1}, {5}), ""), {1}, {65530});
  expectTensor(evaluate("tn.relu %0", make(DType::I32, {2}, {-5, 5}), ""), {2}, {0, 5});
  expectTensor(evaluate("tn.clamp %0 {lo = -1.5 : f64, hi = 0x7FF0000000000000 : f64}",
                        make(DType::I32, {3}, {-5, 0, 2147483647}), ""),
               {3}, {-1, 0, 2147483647});
  expectTensor(
      evaluate("tn.clamp %0 {lo = -7.0 : f64, hi = 3.0 : f64}", make(DType::U64, {2}, {0, 9}), ""),
      {2}, {0, 3});
}

TEST_F(ReferenceTest, RoundsToTheElementType) {
  // 1/3 to the nearest float, half and bfloat.
  expectTensor(evaluate("tn.reciprocal %0", floats({1}, {3}), ""), {1}, {1.0f / 3.0f});
  expectTensor(evaluate("tn.reciprocal %0", make(DType::F16, {1}, {3}), ""), {1}, {0.333251953125});
  expectTensor(evaluate("tn.reciprocal %0", make(DType::BF16, {1}, {3}), ""), {1}, {0.333984375});
  // Float64 precision keeps the double.
  expectTensor(evaluate("tn.reciprocal %0", floats({1}, {3}), "", Precision::F64), {1},
               {1.0 / 3.0});
}

TEST_F(ReferenceTest, SmallFloatsCoverTheirWholeRange) {
  // Every half and bfloat survives the way to double and back.
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    Half half;
    half.bits = uint16_t(bits);
    BFloat bfloat;
    bfloat.bits = uint16_t(bits);
    double a = half;
    double b = bfloat;
    EXPECT_TRUE(std::isnan(a) || Half(a).bits == bits) << bits;
    EXPECT_TRUE(std::isnan(b) || BFloat(b).bits == bits) << bits;
  }
  EXPECT_EQ(Half(65519.9).bits, 0x7BFF); // the largest below the tie to infinity
  EXPECT_EQ(Half(65520).bits, 0x7C00);
  EXPECT_EQ(Half(std::ldexp(1.0, -25)).bits, 0); // a tie to even
  EXPECT_EQ(Half(std::ldexp(1.5, -25)).bits, 1);
  EXPECT_EQ(Half(1 + std::ldexp(1.0, -11)).bits, 0x3C00); // a tie to even
  EXPECT_EQ(Half(-1e300).bits, 0xFC00);
  EXPECT_TRUE(std::isnan(double(Half(kNan))));
}

TEST_F(ReferenceTest, BinaryArithmetic) {
  Tensor a = floats({2, 1}, {6, -7});
  Tensor b = floats({3}, {2, -3, 0.5});
  const std::string type = "tensor<2x3xf32>";
  expectTensor(evaluate("tn.add %0, %1", {a, b}, type), {2, 3}, {8, 3, 6.5, -5, -10, -6.5});
  expectTensor(evaluate("tn.sub %0, %1", {a, b}, type), {2, 3}, {4, 9, 5.5, -9, -4, -7.5});
  expectTensor(evaluate("tn.mul %0, %1", {a, b}, type), {2, 3}, {12, -18, 3, -14, 21, -3.5});
  expectTensor(evaluate("tn.div %0, %1", {a, b}, type), {2, 3},
               {3, -2, 12, -3.5, float(7.0 / 3), -14});
  expectTensor(evaluate("tn.mod %0, %1", {a, b}, type), {2, 3}, {0, 0, 0, 1, -1, 0});
  expectTensor(evaluate("tn.mod %0, %1 {fmod}", {a, b}, type), {2, 3}, {0, 0, 0, -1, -1, 0});
  expectTensor(evaluate("tn.max %0, %1", {a, b}, type), {2, 3}, {6, 6, 6, 2, -3, 0.5});
  expectTensor(evaluate("tn.min %0, %1", {a, b}, type), {2, 3}, {2, -3, 0.5, -7, -7, -7});
  expectTensor(
      evaluate("tn.pow %0, %1", {floats({2}, {4, -2}), floats({2}, {0.5, 3})}, "tensor<2xf32>"),
      {2}, {2, -8});
}

TEST_F(ReferenceTest, NanWinsInMaxAndMin) {
  Tensor a = floats({3}, {kNan, 1, kNan});
  Tensor b = floats({3}, {1, kNan, kNan});
  expectTensor(evaluate("tn.max %0, %1", {a, b}, "tensor<3xf32>"), {3}, {kNan, kNan, kNan});
  expectTensor(evaluate("tn.min %0, %1", {a, b}, "tensor<3xf32>"), {3}, {kNan, kNan, kNan});
}

TEST_F(ReferenceTest, IntegerArithmeticWrapsAndTruncates) {
  auto binary = [&](const char *op, DType dtype, double a, double b, double y) {
    SCOPED_TRACE(op);
    std::string element = dtype == DType::I8 ? "i8" : dtype == DType::U8 ? "ui8" : "i32";
    expectTensor(
        evaluate(op, {make(dtype, {1}, {a}), make(dtype, {1}, {b})}, "tensor<1x" + element + ">"),
        {1}, {y});
  };
  binary("tn.add %0, %1", DType::I8, 127, 1, -128);
  binary("tn.sub %0, %1", DType::U8, 0, 1, 255);
  binary("tn.mul %0, %1", DType::I32, 65536, 65536, 0);
  binary("tn.div %0, %1", DType::I32, -7, 2, -3);
  binary("tn.mod %0, %1", DType::I32, -7, 3, 2);
  binary("tn.mod %0, %1", DType::I32, 7, -3, -2);
  binary("tn.mod %0, %1 {fmod}", DType::I32, -7, 3, -1);
  binary("tn.mod %0, %1", DType::I8, -128, -1, 0);
  binary("tn.pow %0, %1", DType::I32, -3, 3, -27);
  binary("tn.pow %0, %1", DType::I32, 2, -1, 0);
  binary("tn.and %0, %1", DType::U8, 12, 10, 8);
  binary("tn.or %0, %1", DType::U8, 12, 10, 14);
  binary("tn.xor %0, %1", DType::U8, 12, 10, 6);
  binary("tn.shift %0, %1 {left}", DType::U8, 129, 1, 2);
  binary("tn.shift %0, %1", DType::U8, 129, 1, 64);
  binary("tn.shift %0, %1", DType::U8, 129, 200, 0);
  binary("tn.max %0, %1", DType::U8, 200, 100, 200);
}

TEST_F(ReferenceTest, LargeIntegersStayExact) {
  Tensor a = *Tensor::create(DType::I64, {1});
  a.as<int64_t>()[0] = (int64_t(1) << 62) + 1;
  Tensor one = make(DType::I64, {1}, {1});
  Tensor sum = evaluate("tn.add %0, %1", {a, one}, "tensor<1xi64>");
  EXPECT_EQ(sum.as<int64_t>()[0], (int64_t(1) << 62) + 2);
  Tensor product = evaluate(
      "tn.pow %0, %1", {make(DType::I64, {1}, {3}), make(DType::I64, {1}, {39})}, "tensor<1xi64>");
  EXPECT_EQ(product.as<int64_t>()[0], 4052555153018976267);
}

TEST_F(ReferenceTest, DivisionByZeroIsAnError) {
  Tensor a = make(DType::I32, {2}, {1, 2});
  Tensor b = make(DType::I32, {2}, {1, 0});
  EXPECT_EQ(errorOf("tn.div %0, %1", {a, b}, "tensor<2xi32>"), ErrorId::RunBadArithmetic);
  EXPECT_EQ(errorOf("tn.mod %0, %1", {a, b}, "tensor<2xi32>"), ErrorId::RunBadArithmetic);
  expectTensor(evaluate("tn.div %0, %1", {floats({1}, {1}), floats({1}, {0})}, "tensor<1xf32>"),
               {1}, {kInf});
}

TEST_F(ReferenceTest, Comparisons) {
  Tensor a = floats({4}, {1, 2, 3, kNan});
  Tensor b = floats({4}, {2, 2, 2, kNan});
  auto compare = [&](const char *predicate, std::vector<double> expected) {
    expectTensor(
        evaluate(std::string("tn.compare %0 <") + predicate + "> %1", {a, b}, "tensor<4xi1>"), {4},
        expected);
  };
  compare("eq", {0, 1, 0, 0});
  compare("ne", {1, 0, 1, 1});
  compare("lt", {1, 0, 0, 0});
  compare("le", {1, 1, 0, 0});
  compare("gt", {0, 0, 1, 0});
  compare("ge", {0, 1, 1, 0});
  Tensor large = make(DType::U64, {1}, {1e19});
  expectTensor(
      evaluate("tn.compare %0 <gt> %1", {large, make(DType::U64, {1}, {5})}, "tensor<1xi1>"), {1},
      {1});
}

TEST_F(ReferenceTest, SelectsAndTests) {
  expectTensor(
      evaluate("tn.select %0, %1, %2",
               {make(DType::Bool, {2, 1}, {1, 0}), floats({3}, {1, 2, 3}), floats({}, {9})},
               "tensor<2x3xf32>"),
      {2, 3}, {1, 2, 3, 9, 9, 9});
  Tensor x = floats({4}, {kNan, kInf, -kInf, 1});
  expectTensor(evaluate("tn.is_nan %0", x, "tensor<4xi1>"), {4}, {1, 0, 0, 0});
  expectTensor(evaluate("tn.is_inf %0 {positive = true, negative = false}", x, "tensor<4xi1>"), {4},
               {0, 1, 0, 0});
  expectTensor(evaluate("tn.is_inf %0 {positive = true, negative = true}", x, "tensor<4xi1>"), {4},
               {0, 1, 1, 0});
}

TEST_F(ReferenceTest, Casts) {
  Tensor x = floats({5}, {1.9, -1.9, 0, 300, kNan});
  expectTensor(evaluate("tn.cast %0", x, "tensor<5xi32>"), {5}, {1, -1, 0, 300, 0});
  expectTensor(evaluate("tn.cast %0", x, "tensor<5xi1>"), {5}, {1, 1, 0, 1, 1});
  expectTensor(evaluate("tn.cast %0", x, "tensor<5xui8>"), {5}, {1, 0, 0, 255, 0});
  expectTensor(evaluate("tn.cast %0", make(DType::I32, {2}, {-1, 70000}), "tensor<2xi16>"), {2},
               {-1, 4464});
  expectTensor(evaluate("tn.cast %0", make(DType::Bool, {2}, {1, 0}), "tensor<2xf16>"), {2},
               {1, 0});
  expectTensor(evaluate("tn.cast %0", make(DType::F64, {1}, {1e300}), "tensor<1xf32>"), {1},
               {kInf});
  // Exactly between two floats of 24 bits: directly from the integer, not by way of a double.
  Tensor odd = *Tensor::create(DType::I64, {1});
  odd.as<int64_t>()[0] = (int64_t(1) << 60) + (int64_t(1) << 36) + 1;
  expectTensor(evaluate("tn.cast %0", odd, "tensor<1xf32>"), {1},
               {std::ldexp(1.0, 60) + std::ldexp(1.0, 37)});
}

} // namespace
