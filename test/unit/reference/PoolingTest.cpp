// Tests pooling on windows worked out by hand and resampling on ONNX's own published examples.
// Relies on ceil mode dropping windows that would start in the padding at the end.
#include "ReferenceFixture.h"

#include <limits>

using namespace tenon;
using namespace tenon::reference;

namespace {

std::string pool(const std::string &op, const std::string &size, const std::string &stride,
                 const std::string &pads, const std::string &rest) {
  return op + " %0 {kernel = array<i64: " + size + ">, strides = array<i64: " + stride +
         ">, pads = array<i64: " + pads + ">, " + rest + "}";
}

TEST_F(ReferenceTest, MaxPool) {
  Tensor x = floats({1, 1, 4, 4}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16});
  const std::string rest = "dilations = array<i64: 1, 1>, ceilMode = false, channelsLast = false";
  expectTensor(
      evaluate(pool("tn.max_pool", "2, 2", "2, 2", "0, 0, 0, 0", rest), x, "tensor<1x1x2x2xf32>"),
      {1, 1, 2, 2}, {6, 8, 14, 16});
  expectTensor(
      evaluate(pool("tn.max_pool", "3, 3", "2, 2", "1, 1, 0, 0", rest), x, "tensor<1x1x2x2xf32>"),
      {1, 1, 2, 2}, {6, 8, 14, 16});
  const std::string dilated =
      "dilations = array<i64: 2, 2>, ceilMode = false, channelsLast = false";
  expectTensor(evaluate(pool("tn.max_pool", "2, 2", "1, 1", "0, 0, 0, 0", dilated), x,
                        "tensor<1x1x2x2xf32>"),
               {1, 1, 2, 2}, {11, 12, 15, 16});
  // Negative data: padding is never the largest.
  expectTensor(evaluate(pool("tn.max_pool", "3", "1", "1, 1",
                             "dilations = array<i64: 1>, ceilMode = false, channelsLast = false"),
                        make(DType::I8, {1, 1, 2}, {-5, -7}), "tensor<1x1x2xi8>"),
               {1, 1, 2}, {-5, -5});
}

TEST_F(ReferenceTest, MaxPoolPassesNanOn) {
  double nan = std::numeric_limits<double>::quiet_NaN();
  expectTensor(evaluate(pool("tn.max_pool", "2", "1", "0, 0",
                             "dilations = array<i64: 1>, ceilMode = false, channelsLast = false"),
                        floats({1, 1, 3}, {1, nan, 2}), "tensor<1x1x2xf32>"),
               {1, 1, 2}, {nan, nan});
}

TEST_F(ReferenceTest, AvgPoolCountsPaddingWhenAsked) {
  Tensor x = floats({1, 1, 3}, {3, 6, 9});
  auto average = [&](const char *count, const char *ceil, const char *pads, const char *result) {
    return evaluate(pool("tn.avg_pool", "2", "2", pads,
                         std::string("dilations = array<i64: 1>, ceilMode = ") + ceil +
                             ", countIncludePad = " + count + ", channelsLast = false"),
                    x, result);
  };
  expectTensor(average("false", "false", "1, 0", "tensor<1x1x2xf32>"), {1, 1, 2}, {3, 7.5});
  expectTensor(average("true", "false", "1, 0", "tensor<1x1x2xf32>"), {1, 1, 2}, {1.5, 7.5});
  // The last window of ceil mode reaches beyond everything: that part never counts.
  expectTensor(average("true", "true", "0, 0", "tensor<1x1x2xf32>"), {1, 1, 2}, {4.5, 9});
}

TEST_F(ReferenceTest, PoolsChannelsLast) {
  Tensor x = floats({1, 2, 2}, {1, 10, 3, 40});
  expectTensor(
      evaluate(pool("tn.avg_pool", "2", "1", "0, 0",
                    "dilations = array<i64: 1>, ceilMode = false, countIncludePad = false, "
                    "channelsLast = true"),
               x, "tensor<1x1x2xf32>"),
      {1, 1, 2}, {2, 25});
}

struct Resize {
  const char *mode;
  const char *coordinates;
  const char *nearest = "round_prefer_floor";
  const char *rest = "excludeOutside = false, antialias = false, extrapolation = 0.0 : f64, roi = "
                     "array<f64>";

  std::string text(const std::string &scales) const {
    return std::string("tn.resize <") + mode + "> %0 {coordinates = \"" + coordinates +
           "\", nearest = \"" + nearest + "\", scales = array<f64: " + scales +
           ">, cubicA = -0.75 : f64, " + rest + "}";
  }
};

const Tensor &sixteen() {
  static const Tensor tensor =
      floats({1, 1, 4, 4}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16});
  return tensor;
}

TEST_F(ReferenceTest, ResizesNearest) {
  Tensor x = floats({1, 1, 2, 2}, {1, 2, 3, 4});
  expectTensor(evaluate(Resize{"nearest", "half_pixel"}.text("1.0, 1.0, 2.0, 3.0"), x,
                        "tensor<1x1x4x6xf32>"),
               {1, 1, 4, 6},
               {1, 1, 1, 2, 2, 2, 1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4, 3, 3, 3, 4, 4, 4});
  expectTensor(evaluate(Resize{"nearest", "asymmetric", "floor"}.text("0.5"),
                        floats({4}, {1, 2, 3, 4}), "tensor<2xf32>"),
               {2}, {1, 3});
  expectTensor(evaluate(Resize{"nearest", "half_pixel", "ceil"}.text("0.5"),
                        floats({4}, {1, 2, 3, 4}), "tensor<2xf32>"),
               {2}, {2, 4});
}

TEST_F(ReferenceTest, ResizesLinear) {
  // ONNX: test_resize_upsample_scales_linear and its align_corners form.
  Tensor x = floats({1, 1, 2, 2}, {1, 2, 3, 4});
  expectTensor(
      evaluate(Resize{"linear", "half_pixel"}.text("1.0, 1.0, 2.0, 2.0"), x, "tensor<1x1x4x4xf32>"),
      {1, 1, 4, 4},
      {1, 1.25, 1.75, 2, 1.5, 1.75, 2.25, 2.5, 2.5, 2.75, 3.25, 3.5, 3, 3.25, 3.75, 4}, 1e-6);
  std::vector<double> corners;
  for (int i = 0; i < 16; ++i) {
    corners.push_back(1 + i / 4 * 2.0 / 3 + i % 4 / 3.0);
  }
  expectTensor(evaluate(Resize{"linear", "align_corners"}.text("1.0, 1.0, 2.0, 2.0"), x,
                        "tensor<1x1x4x4xf32>"),
               {1, 1, 4, 4}, corners, 1e-6);
  // ONNX: test_resize_downsample_scales_linear, the upper row.
  expectTensor(evaluate(Resize{"linear", "half_pixel"}.text("1.0, 1.0, 0.6, 0.6"),
                        floats({1, 1, 2, 4}, {1, 2, 3, 4, 5, 6, 7, 8}), "tensor<1x1x1x2xf32>"),
               {1, 1, 1, 2}, {2.6666665, 4.3333331}, 1e-5);
}

TEST_F(ReferenceTest, ResizesCubic) {
  // ONNX: test_resize_downsample_scales_cubic.
  expectTensor(evaluate(Resize{"cubic", "half_pixel"}.text("1.0, 1.0, 0.8, 0.8"), sixteen(),
                        "tensor<1x1x3x3xf32>"),
               {1, 1, 3, 3},
               {1.47119141, 2.78125, 4.08251953, 6.71142578, 8.02148438, 9.32275391, 11.91650391,
                13.2265625, 14.52783203},
               1e-5);
  // ONNX: test_resize_downsample_scales_cubic_A_n0p5_exclude_outside has A = -0.5.
  Resize exclude = {"cubic", "half_pixel", "round_prefer_floor",
                    "excludeOutside = true, antialias = false, extrapolation = 0.0 : f64, roi = "
                    "array<f64>"};
  std::string op = exclude.text("1.0, 1.0, 0.8, 0.8");
  op.replace(op.find("-0.75"), 5, "-0.5");
  expectTensor(evaluate(op, sixteen(), "tensor<1x1x3x3xf32>"), {1, 1, 3, 3},
               {1.36812675, 2.6695014, 4.0133367, 6.57362535, 7.875, 9.2188353, 11.94896657,
                13.25034122, 14.59417652},
               1e-5);
}

TEST_F(ReferenceTest, ResizesWithAntialias) {
  // ONNX: test_resize_downsample_scales_linear_antialias.
  Resize antialias = {"linear", "half_pixel", "round_prefer_floor",
                      "excludeOutside = false, antialias = true, extrapolation = 0.0 : f64, roi = "
                      "array<f64>"};
  expectTensor(evaluate(antialias.text("1.0, 1.0, 0.6, 0.6"), sixteen(), "tensor<1x1x2x2xf32>"),
               {1, 1, 2, 2}, {2.875, 4.5, 9.375, 11.0}, 1e-5);
}

TEST_F(ReferenceTest, ResizeCropsAndExtrapolates) {
  // ONNX: test_resize_tf_crop_and_resize_extrapolation_value.
  Resize crop = {"linear", "tf_crop_and_resize", "round_prefer_floor",
                 "excludeOutside = false, antialias = false, extrapolation = 10.0 : f64, roi = "
                 "array<f64: 0.0, 0.0, 0.4, 0.6, 1.0, 1.0, 1.2, 1.7>"};
  expectTensor(evaluate(crop.text("1.0, 1.0, 0.75, 0.75"), sixteen(), "tensor<1x1x3x3xf32>"),
               {1, 1, 3, 3}, {7.6000004, 10, 10, 12.400001, 10, 10, 10, 10, 10}, 1e-5);
}

} // namespace
