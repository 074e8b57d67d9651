// Tests reductions, running sums, softmax and normalizations on small values worked out by hand.
// Relies on ONNX's definitions, also for empty reductions.
#include "ReferenceFixture.h"

#include <limits>

using namespace tenon;
using namespace tenon::reference;

namespace {

const Tensor &sixFloats() {
  static const Tensor tensor = floats({2, 3}, {1, 2, 3, 4, 5, 9});
  return tensor;
}

TEST_F(ReferenceTest, Reduces) {
  auto reduce = [&](const char *kind, const char *axes, const char *keep, const char *result) {
    return evaluate(std::string("tn.reduce <") + kind + "> %0 {axes = array<i64: " + axes +
                        ">, keepdims = " + keep + "}",
                    sixFloats(), result);
  };
  expectTensor(reduce("sum", "1", "false", "tensor<2xf32>"), {2}, {6, 18});
  expectTensor(reduce("sum", "0", "true", "tensor<1x3xf32>"), {1, 3}, {5, 7, 12});
  expectTensor(reduce("mean", "0, 1", "false", "tensor<f32>"), {}, {4});
  expectTensor(reduce("prod", "1", "false", "tensor<2xf32>"), {2}, {6, 180});
  expectTensor(reduce("max", "0", "false", "tensor<3xf32>"), {3}, {4, 5, 9});
  expectTensor(reduce("min", "1", "true", "tensor<2x1xf32>"), {2, 1}, {1, 4});
}

TEST_F(ReferenceTest, ReducesTheMiddleOfATensor) {
  std::vector<double> values(24);
  std::vector<double> sums(8);
  for (int i = 0; i < 24; ++i) {
    values[i] = i;
    sums[i / 12 * 4 + i % 4] += i;
  }
  expectTensor(evaluate("tn.reduce <sum> %0 {axes = array<i64: 1>, keepdims = false}",
                        make(DType::I32, {2, 3, 4}, values), "tensor<2x4xi32>"),
               {2, 4}, sums);
}

TEST_F(ReferenceTest, EmptyReductionsGiveTheNeutralElement) {
  auto reduce = [&](const char *kind, DType dtype, const char *element) {
    return evaluate(std::string("tn.reduce <") + kind +
                        "> %0 {axes = array<i64: 1>, keepdims = false}",
                    make(dtype, {1, 0}, {}), std::string("tensor<1x") + element + ">");
  };
  expectTensor(reduce("sum", DType::F32, "f32"), {1}, {0});
  expectTensor(reduce("prod", DType::F32, "f32"), {1}, {1});
  expectTensor(reduce("max", DType::F32, "f32"), {1}, {-kInf});
  expectTensor(reduce("min", DType::F32, "f32"), {1}, {kInf});
  expectTensor(reduce("mean", DType::F32, "f32"), {1}, {kNan});
  expectTensor(reduce("max", DType::I8, "i8"), {1}, {-128});
  expectTensor(reduce("min", DType::U8, "ui8"), {1}, {255});
  EXPECT_EQ(errorOf("tn.reduce <mean> %0 {axes = array<i64: 1>, keepdims = false}",
                    make(DType::I32, {1, 0}, {}), "tensor<1xi32>"),
            ErrorId::RunBadArithmetic);
}

TEST_F(ReferenceTest, SumsOfFloatsDoNotLoseSmallAddends) {
  // In float, 1e8 swallows every 1.
  std::vector<double> values(101, 1);
  values[0] = 1e8;
  expectTensor(evaluate("tn.reduce <sum> %0 {axes = array<i64: 0>, keepdims = false}",
                        floats({101}, values), "tensor<f32>"),
               {}, {float(1e8 + 100)});
}

TEST_F(ReferenceTest, FindsIndices) {
  Tensor x = floats({2, 4}, {3, 7, 7, 1, 2, 2, 5, 5});
  auto arg = [&](const char *largest, const char *last) {
    return evaluate(std::string("tn.arg_reduce %0 {axis = 1 : i64, keepdims = true, largest = ") +
                        largest + ", lastIndex = " + last + "}",
                    x, "tensor<2x1xi64>");
  };
  expectTensor(arg("true", "false"), {2, 1}, {1, 2});
  expectTensor(arg("true", "true"), {2, 1}, {2, 3});
  expectTensor(arg("false", "false"), {2, 1}, {3, 0});
  expectTensor(arg("false", "true"), {2, 1}, {3, 1});
}

TEST_F(ReferenceTest, RunningSums) {
  auto cumsum = [&](const char *axis, const char *exclusive, const char *reverse) {
    return evaluate(std::string("tn.cumsum %0 {axis = ") + axis +
                        " : i64, exclusive = " + exclusive + ", reverse = " + reverse + "}",
                    sixFloats(), "");
  };
  expectTensor(cumsum("1", "false", "false"), {2, 3}, {1, 3, 6, 4, 9, 18});
  expectTensor(cumsum("0", "false", "false"), {2, 3}, {1, 2, 3, 5, 7, 12});
  expectTensor(cumsum("1", "true", "false"), {2, 3}, {0, 1, 3, 0, 4, 9});
  expectTensor(cumsum("1", "false", "true"), {2, 3}, {6, 5, 3, 18, 14, 9});
  expectTensor(cumsum("1", "true", "true"), {2, 3}, {5, 3, 0, 14, 9, 0});
}

TEST_F(ReferenceTest, Softmax) {
  Tensor x = floats({2, 2}, {0, 1000, 0, 1000.6931471805599});
  expectTensor(evaluate("tn.softmax %0 {axis = 1 : i64}", x, ""), {2, 2}, {0, 1, 0, 1}, 1e-6);
  expectTensor(evaluate("tn.softmax %0 {axis = 0 : i64}", x, ""), {2, 2},
               {0.5, 1.0 / 3, 0.5, 2.0 / 3}, 2e-5);
  expectTensor(evaluate("tn.softmax %0 {axis = 0 : i64, log}", x, "", Precision::F64), {2, 2},
               {-0.6931471805599453, -1.0986229, -0.6931471805599453, -0.4054651}, 5e-5);
}

TEST_F(ReferenceTest, LayerNorm) {
  // Mean 2, variance 2/3 in the first row.
  Tensor x = floats({2, 3}, {1, 2, 3, 5, 5, 5});
  Tensor scale = floats({3}, {1, 2, 3});
  Tensor bias = floats({3}, {10, 20, 30});
  double unit = 1 / std::sqrt(2.0 / 3 + 1e-5);
  expectTensor(
      evaluate("tn.layer_norm %0 scale %1 bias %2 {axis = 1 : i64, epsilon = 1.0e-5 : f64}",
               {x, scale, bias}, "tensor<2x3xf32>"),
      {2, 3}, {10 - unit, 20, 30 + 3 * unit, 10, 20, 30}, 1e-5);
  expectTensor(evaluate("tn.layer_norm %0 {axis = 0 : i64, epsilon = 0.25 : f64}",
                        floats({2, 2}, {1, 1, 3, 3}), "tensor<2x2xf32>"),
               {2, 2}, {-0.894427191, -0.894427191, 0.894427191, 0.894427191}, 1e-6);
  expectTensor(evaluate("tn.layer_norm %0 bias %1 {axis = 1 : i64, epsilon = 1.0e-5 : f64}",
                        {x, floats({1}, {7})}, "tensor<2x3xf32>"),
               {2, 3}, {7 - unit, 7, 7 + unit, 7, 7, 7}, 1e-5);
}

TEST_F(ReferenceTest, RmsNorm) {
  expectTensor(evaluate("tn.rms_norm %0 scale %1 {axis = 1 : i64, epsilon = 0.0 : f64}",
                        {floats({1, 2}, {3, 4}), floats({2}, {1, 10})}, "tensor<1x2xf32>"),
               {1, 2}, {3 / std::sqrt(12.5), 40 / std::sqrt(12.5)}, 1e-6);
}

TEST_F(ReferenceTest, GroupNorm) {
  // Two groups of two channels with one position each.
  Tensor x = floats({1, 4, 1}, {1, 3, 10, 30});
  expectTensor(evaluate("tn.group_norm %0, %1, %2 {groups = 2 : i64, epsilon = 0.0 : f64}",
                        {x, floats({4}, {1, 2, 3, 4}), floats({4}, {0, 0, 0, 100})},
                        "tensor<1x4x1xf32>"),
               {1, 4, 1}, {-1, 2, -3, 104}, 1e-6);
}

TEST_F(ReferenceTest, BatchNorm) {
  const char *first =
      "tn.batch_norm %0, %1, %2, %3, %4 {epsilon = 0.0 : f64, channelsLast = false}";
  const char *last = "tn.batch_norm %0, %1, %2, %3, %4 {epsilon = 0.0 : f64, channelsLast = true}";
  Tensor scale = floats({2}, {2, 3});
  Tensor bias = floats({2}, {1, -1});
  Tensor mean = floats({2}, {1, 2});
  Tensor variance = floats({2}, {4, 9});
  expectTensor(evaluate(first, {floats({1, 2, 2}, {1, 3, 2, 5}), scale, bias, mean, variance},
                        "tensor<1x2x2xf32>"),
               {1, 2, 2}, {1, 3, -1, 2}, 1e-6);
  expectTensor(evaluate(last, {floats({1, 2, 2}, {1, 2, 3, 5}), scale, bias, mean, variance},
                        "tensor<1x2x2xf32>"),
               {1, 2, 2}, {1, -1, 3, 2}, 1e-6);
}

} // namespace
