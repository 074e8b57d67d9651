// Tests the operations that move elements on small tensors worked out by hand.
// Relies on starts and sizes being checked again when they are evaluated.
#include "ReferenceFixture.h"

using namespace tenon;
using namespace tenon::reference;

namespace {

const Tensor &sixElements() {
  static const Tensor tensor = make(DType::I16, {2, 3}, {1, 2, 3, 4, 5, 6});
  return tensor;
}

TEST_F(ReferenceTest, ReshapesAndTransposes) {
  expectTensor(evaluate("tn.reshape %0", sixElements(), "tensor<3x2xi16>"), {3, 2},
               {1, 2, 3, 4, 5, 6});
  expectTensor(evaluate("tn.transpose %0 [1, 0]", sixElements(), "tensor<3x2xi16>"), {3, 2},
               {1, 4, 2, 5, 3, 6});
  expectTensor(evaluate("tn.transpose %0 [1, 2, 0]", make(DType::Bool, {2, 1, 2}, {1, 0, 1, 1}),
                        "tensor<1x2x2xi1>"),
               {1, 2, 2}, {1, 1, 0, 1});
}

TEST_F(ReferenceTest, BroadcastsAndConcatenates) {
  expectTensor(evaluate("tn.broadcast %0", make(DType::I64, {2, 1}, {7, 8}), "tensor<2x2x3xi64>"),
               {2, 2, 3}, {7, 7, 7, 8, 8, 8, 7, 7, 7, 8, 8, 8});
  Tensor other = make(DType::I16, {2, 1}, {9, 10});
  expectTensor(evaluate("tn.concat %0, %1, %2 {axis = 1 : i64}",
                        {sixElements(), other, sixElements()}, "tensor<2x7xi16>"),
               {2, 7}, {1, 2, 3, 9, 1, 2, 3, 4, 5, 6, 10, 4, 5, 6});
  expectTensor(evaluate("tn.concat %0, %1 {axis = 0 : i64}",
                        {make(DType::F32, {0, 2}, {}), floats({1, 2}, {1, 2})}, "tensor<1x2xf32>"),
               {1, 2}, {1, 2});
}

TEST_F(ReferenceTest, Slices) {
  expectTensor(
      evaluate("tn.slice %0 {starts = affine_map<() -> (1, 2)>, steps = array<i64: 1, -2>}",
               sixElements(), "tensor<1x2xi16>"),
      {1, 2}, {6, 4});
  expectTensor(evaluate("tn.slice %0 {starts = affine_map<() -> (0, 1)>, steps = array<i64: 1, "
                        "9223372036854775807>}",
                        sixElements(), "tensor<2x1xi16>"),
               {2, 1}, {2, 5});
  expectTensor(evaluate("tn.slice %0 {starts = affine_map<() -> (2, 0)>, steps = array<i64: 1, 1>}",
                        sixElements(), "tensor<0x3xi16>"),
               {0, 3}, {});
}

TEST_F(ReferenceTest, Pads) {
  Tensor x = make(DType::I32, {3}, {1, 2, 3});
  auto pad = [&](const char *mode, const char *begin, const char *end, const char *result) {
    return evaluate(std::string("tn.pad <") + mode + "> %0 {begins = array<i64: " + begin +
                        ">, ends = array<i64: " + end + ">}",
                    x, result);
  };
  expectTensor(pad("constant", "1", "2", "tensor<6xi32>"), {6}, {0, 1, 2, 3, 0, 0});
  expectTensor(pad("edge", "2", "1", "tensor<6xi32>"), {6}, {1, 1, 1, 2, 3, 3});
  expectTensor(pad("reflect", "2", "2", "tensor<7xi32>"), {7}, {3, 2, 1, 2, 3, 2, 1});
  expectTensor(pad("reflect", "5", "0", "tensor<8xi32>"), {8}, {2, 1, 2, 3, 2, 1, 2, 3});
  expectTensor(pad("wrap", "2", "2", "tensor<7xi32>"), {7}, {2, 3, 1, 2, 3, 1, 2});
  expectTensor(pad("constant", "-1", "1", "tensor<3xi32>"), {3}, {2, 3, 0});
  expectTensor(evaluate("tn.pad <constant> %0 value %1 {begins = array<i64: 1>, ends = array<i64: "
                        "0>}",
                        {x, make(DType::I32, {}, {-4})}, "tensor<4xi32>"),
               {4}, {-4, 1, 2, 3});
}

TEST_F(ReferenceTest, CountsAndTriangles) {
  expectTensor(evaluate("tn.iota %0, %1", {floats({}, {1}), floats({}, {0.5})}, "tensor<4xf32>"),
               {4}, {1, 1.5, 2, 2.5});
  expectTensor(evaluate("tn.iota %0, %1", {make(DType::I8, {}, {126}), make(DType::I8, {}, {1})},
                        "tensor<3xi8>"),
               {3}, {126, 127, -128});
  expectTensor(evaluate("tn.trilu %0 {diagonal = 0 : i64, upper = true}", sixElements(), ""),
               {2, 3}, {1, 2, 3, 0, 5, 6});
  expectTensor(evaluate("tn.trilu %0 {diagonal = -1 : i64, upper = false}", sixElements(), ""),
               {2, 3}, {0, 0, 0, 4, 0, 0});
  expectTensor(evaluate("tn.trilu %0 {diagonal = 9223372036854775807 : i64, upper = false}",
                        sixElements(), ""),
               {2, 3}, {1, 2, 3, 4, 5, 6});
}

TEST_F(ReferenceTest, PacksDimsInTiles) {
  // A [N = 3, K = 2] weight: K x N in panels of 2, the last one filled with zeros.
  Tensor weight = floats({3, 2}, {11, 12, 21, 22, 31, 32});
  expectTensor(
      evaluate("tn.pack %0 outer_dims_perm = [0, 1] inner_dims_pos = [0] inner_tiles = [2]", weight,
               "tensor<2x2x2xf32>"),
      {2, 2, 2}, {11, 21, 12, 22, 31, 0, 32, 0});
  // Two groups of two columns in panels of three.
  expectTensor(
      evaluate(
          "tn.pack %0 outer_dims_perm = [1, 2, 0] inner_dims_pos = [1, 1] inner_tiles = [2, 3]",
          floats({1, 4}, {1, 2, 3, 4}), "tensor<2x1x1x3xf32>"),
      {2, 1, 1, 3}, {1, 2, 0, 3, 4, 0});
  expectTensor(evaluate("tn.pack %0 outer_dims_perm = [1, 0]", weight, "tensor<2x3xf32>"), {2, 3},
               {11, 21, 31, 12, 22, 32});
}

TEST_F(ReferenceTest, PacksForDotProductsOfNeighbours) {
  // Against the formulas by which instructions of 2 and 4 neighbours of K are said to read their
  // operand.
  struct Case {
    const char *attributes, *type;
    std::vector<int64_t> dims;
    int64_t (*place)(int64_t k, int64_t n);
  };
  constexpr int64_t kDepth = 10, kColumns = 20;
  const Case cases[] = {
      {"outer_dims_perm = [0, 1] inner_dims_pos = [0] inner_tiles = [2]",
       "tensor<5x20x2xf32>",
       {5, 20, 2},
       [](int64_t k, int64_t n) { return (k / 2 * 20 + n) * 2 + k % 2; }},
      {"outer_dims_perm = [0, 1] inner_dims_pos = [0] inner_tiles = [4]",
       "tensor<3x20x4xf32>",
       {3, 20, 4},
       [](int64_t k, int64_t n) { return (k / 4 * 20 + n) * 4 + k % 4; }},
      {"outer_dims_perm = [1, 0] inner_dims_pos = [1, 0] inner_tiles = [16, 4]",
       "tensor<2x3x16x4xf32>",
       {2, 3, 16, 4},
       [](int64_t k, int64_t n) { return ((n / 16 * 3 + k / 4) * 16 + n % 16) * 4 + k % 4; }},
      // Blocks of 8 of K, each in steps of 4: dim 2 is the loop over steps.
      {"outer_dims_perm = [1, 0, 2] inner_dims_pos = [0, 1, 0] inner_tiles = [8, 16, 4]",
       "tensor<2x2x2x16x4xf32>",
       {2, 2, 2, 16, 4},
       [](int64_t k, int64_t n) {
         return (((n / 16 * 2 + k / 8) * 2 + k % 8 / 4) * 16 + n % 16) * 4 + k % 4;
       }},
      // Tiles of 3 that do not fill those of 4.
      {"outer_dims_perm = [0, 2, 1] inner_dims_pos = [0, 0] inner_tiles = [4, 3]",
       "tensor<3x2x20x3xf32>",
       {3, 2, 20, 3},
       [](int64_t k, int64_t n) { return ((k / 4 * 2 + k % 4 / 3) * 20 + n) * 3 + k % 4 % 3; }},
  };
  Tensor weight = random(DType::F32, {kDepth, kColumns}, 1);
  std::vector<double> values = valuesOf(weight);
  for (const Case &c : cases) {
    int64_t size = 1;
    for (int64_t dim : c.dims) {
      size *= dim;
    }
    std::vector<double> expected(size, 0);
    for (int64_t k = 0; k < kDepth; ++k) {
      for (int64_t n = 0; n < kColumns; ++n) {
        expected[c.place(k, n)] = values[k * kColumns + n];
      }
    }
    Tensor packed = evaluate(std::string("tn.pack %0 ") + c.attributes, weight, c.type);
    expectTensor(packed, c.dims, expected);
    expectTensor(evaluate(std::string("tn.unpack %0 ") + c.attributes, packed, "tensor<10x20xf32>"),
                 {kDepth, kColumns}, values);
  }
}

TEST_F(ReferenceTest, UnpackingGivesTheWeightBack) {
  Tensor weight = random(DType::F32, {6, 2, 3}, 1);
  const std::string attributes =
      " outer_dims_perm = [0, 1, 2] inner_dims_pos = [0] inner_tiles = [4]";
  Tensor packed = evaluate("tn.pack %0" + attributes, weight, "tensor<2x2x3x4xf32>");
  expectTensor(evaluate("tn.unpack %0" + attributes, packed, "tensor<6x2x3xf32>"), {6, 2, 3},
               valuesOf(weight));
}

TEST_F(ReferenceTest, TransformsFiltersAndBack) {
  Tensor weight = random(DType::F32, {3, 2, 3, 3}, 1);
  for (const char *m : {"2", "4"}) {
    std::string side = std::to_string(*m - '0' + 2),
                attributes = std::string(" {m = ") + m + " : i64}";
    Tensor filter = evaluate("tn.winograd_filter %0" + attributes, weight,
                             "tensor<3x2x" + side + "x" + side + "xf32>");
    std::vector<double> back =
        valuesOf(evaluate("tn.winograd_taps %0" + attributes, filter, "tensor<3x2x3x3xf32>"));
    std::vector<double> taps = valuesOf(weight), filters = valuesOf(filter);
    for (size_t i = 0; i < taps.size(); ++i) {
      EXPECT_NEAR(taps[i], back[i], 1e-5) << m;
    }
    // The last point is infinity: the last tap as it is.
    int64_t last = (*m - '0' + 2) * (*m - '0' + 2) - 1;
    EXPECT_EQ(filters[last], taps[8]);
  }
}

TEST_F(ReferenceTest, Quantizes) {
  Tensor x = floats({2, 3}, {0, 1, 2.5, -1000, 3.5, 1000});
  expectTensor(evaluate("tn.quantize %0, %1, %2 {axis = 0 : i64}",
                        {x, floats({}, {1}), make(DType::U8, {}, {10})}, "tensor<2x3xui8>"),
               {2, 3}, {10, 11, 12, 0, 14, 255});
  expectTensor(evaluate("tn.quantize %0, %1, %2 {axis = 0 : i64}",
                        {x, floats({2}, {0.5, 100}), make(DType::I8, {2}, {0, -1})},
                        "tensor<2x3xi8>"),
               {2, 3}, {0, 2, 5, -11, -1, 9});
  expectTensor(evaluate("tn.dequantize %0, %1, %2 {axis = 1 : i64}",
                        {make(DType::I8, {1, 2}, {-128, 5}), floats({2}, {0.5, 2}),
                         make(DType::I8, {2}, {0, 1})},
                        "tensor<1x2xf32>"),
               {1, 2}, {-64, 8});
}

} // namespace
