// Region formation: what joins, what must not, and that the record says why. Relies on parsing `tn`
// text and on the verifier for what dispatch leaves.
#include "test/unit/dispatch/DispatchFixture.h"

#include "llvm/ADT/StringSet.h"

namespace tenon::dispatch {
namespace {

TEST_F(DispatchTest, EpilogueTakesBiasActivationAndResidual) {
  Regions regions = run("(%x: tensor<4x8xf32>, %r: tensor<4x16xf32>) -> tensor<4x16xf32>", R"(
    %w = tn.weight "w" : tensor<8x16xf32>
    %b = tn.weight "b" : tensor<16xf32>
    %0 = tn.matmul %x, %w : (tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<4x16xf32>
    %1 = tn.add %0, %b : (tensor<4x16xf32>, tensor<16xf32>) -> tensor<4x16xf32>
    %2 = tn.gelu %1 : tensor<4x16xf32>
    %3 = tn.add %r, %2 : (tensor<4x16xf32>, tensor<4x16xf32>) -> tensor<4x16xf32>
    return %3 : tensor<4x16xf32>)");
  EXPECT_EQ(regions, (Regions{"contraction(unpack, matmul, add, gelu, add)"}));
  func::FuncOp function = *module->getOps<func::FuncOp>().begin();
  tn::PackOp pack = *function.getOps<tn::PackOp>().begin();
  EXPECT_EQ(cast<RankedTensorType>(pack.getY().getType()).getShape(),
            (ArrayRef<int64_t>{1, 8, 32}));
  EXPECT_TRUE(records.edges.empty());
}

TEST_F(DispatchTest, DetourIsTakenOnlyIfItCloses) {
  llvm::StringRef head = R"(
    %w = tn.weight "w" : tensor<8x16xf32>
    %0 = tn.matmul %x, %w : (tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<4x16xf32>
    %1 = tn.sigmoid %0 : tensor<4x16xf32>
    %2 = tn.mul %0, %1 : (tensor<4x16xf32>, tensor<4x16xf32>) -> tensor<4x16xf32>
)";
  EXPECT_EQ(run("(%x: tensor<4x8xf32>) -> tensor<4x16xf32>",
                (head + "return %2 : tensor<4x16xf32>").str()),
            (Regions{"contraction(unpack, matmul, sigmoid, mul)"}));
  EXPECT_EQ(run("(%x: tensor<4x8xf32>) -> (tensor<4x16xf32>, tensor<4x16xf32>)",
                (head + "return %1, %2 : tensor<4x16xf32>, tensor<4x16xf32>").str()),
            (Regions{"contraction(unpack, matmul)", "elementwise(sigmoid, mul)"}));
  EXPECT_EQ(ruleOf("tn.matmul", "tn.sigmoid"), "second-result");
}

TEST_F(DispatchTest, NoCycleThroughAnotherRegion) {
  Regions regions = run("(%x: tensor<8x8xf32>) -> tensor<8x8xf32>", R"(
    %0 = tn.exp %x : tensor<8x8xf32>
    %1 = tn.matmul %0, %0 : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    %2 = tn.softmax %1 {axis = 0 : i64} : tensor<8x8xf32>
    %3 = tn.sub %0, %2 : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    return %3 : tensor<8x8xf32>)");
  EXPECT_EQ(regions, (Regions{"elementwise(exp)", "contraction(matmul)", "single(softmax)",
                              "elementwise(sub)"}));
  EXPECT_EQ(ruleOf("tn.exp", "tn.sub"), "cycle");
  EXPECT_EQ(ruleOf("tn.exp", "tn.matmul"), "contraction-reads-often");
  EXPECT_EQ(ruleOf("tn.matmul", "tn.softmax"), "compiled-alone");
}

TEST_F(DispatchTest, EpilogueWaitsForItsOtherOperand) {
  // The add joins the first product although the second stands between them.
  Regions regions = run("(%x: tensor<8x8xf32>) -> tensor<8x8xf32>", R"(
    %0 = tn.matmul %x, %x : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    %1 = tn.matmul %x, %x {transposeA} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    %2 = tn.add %0, %1 : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    return %2 : tensor<8x8xf32>)");
  EXPECT_EQ(regions, (Regions{"contraction(matmul)", "contraction(matmul, add)"}));
}

TEST_F(DispatchTest, RowsTakeTheResidualAndKeepTheSum) {
  Regions regions =
      run("(%x: tensor<4x8xf32>, %r: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>)", R"(
    %s = tn.weight "s" : tensor<8xf32>
    %0 = tn.add %x, %r : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
    %1 = tn.layer_norm %0 scale %s {axis = 1 : i64, epsilon = 1.0e-5 : f64} : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
    %2 = tn.relu %1 : tensor<4x8xf32>
    return %0, %2 : tensor<4x8xf32>, tensor<4x8xf32>)");
  EXPECT_EQ(regions, (Regions{"rows(add, layer_norm, relu)"}));
}

TEST_F(DispatchTest, RowsMustBeTrailing) {
  Regions regions =
      run("(%x: tensor<4x8xf32>, %i: tensor<4x8xi64>) -> (tensor<8xf32>, tensor<4xi64>)", R"(
    %0 = tn.reduce <sum> %x {axes = array<i64: 0>, keepdims = false} : (tensor<4x8xf32>) -> tensor<8xf32>
    %1 = tn.reduce <sum> %i {axes = array<i64: 1>, keepdims = false} : (tensor<4x8xi64>) -> tensor<4xi64>
    return %0, %1 : tensor<8xf32>, tensor<4xi64>)");
  EXPECT_EQ(regions, (Regions{"single(reduce)", "rows(reduce)"}));
}

/// Replaces "$t" by a tensor type of such elements and "$e" by these.
std::string withElement(std::string text, const std::string &element) {
  for (auto [name, value] :
       {std::pair("$t", "tensor<4x8x" + element + ">"), std::pair("$e", element)}) {
    for (size_t at = text.find(name); at != std::string::npos; at = text.find(name, at)) {
      text.replace(at, 2, value);
    }
  }
  return text;
}

TEST_F(DispatchTest, ChainsOfEveryTypeAreOneRegion) {
  for (const char *element :
       {"f16", "bf16", "f32", "f64", "i8", "ui8", "i16", "i32", "ui32", "i64"}) {
    Regions regions = run(withElement("(%x: $t, %y: $t) -> $t", element), withElement(R"(
    %0 = tn.add %x, %y : ($t, $t) -> $t
    %1 = tn.mul %0, %y : ($t, $t) -> $t
    %2 = tn.max %1, %x : ($t, $t) -> $t
    return %2 : $t)",
                                                                                      element));
    EXPECT_EQ(regions, (Regions{"elementwise(add, mul, max)"})) << element;
  }
  EXPECT_EQ(run("(%x: tensor<9xi1>, %y: tensor<9xi1>) -> tensor<9xi1>", R"(
    %0 = tn.not %x : tensor<9xi1>
    %1 = tn.and %0, %y : (tensor<9xi1>, tensor<9xi1>) -> tensor<9xi1>
    return %1 : tensor<9xi1>)"),
            (Regions{"elementwise(not, and)"}));
  EXPECT_EQ(run("(%x: tensor<9xi8>, %s: tensor<f32>) -> tensor<9xui8>", R"(
    %0 = tn.cast %x : (tensor<9xi8>) -> tensor<9xf32>
    %1 = tn.mul %0, %s : (tensor<9xf32>, tensor<f32>) -> tensor<9xf32>
    %2 = tn.cast %1 : (tensor<9xf32>) -> tensor<9xbf16>
    %3 = tn.cast %2 : (tensor<9xbf16>) -> tensor<9xui8>
    return %3 : tensor<9xui8>)"),
            (Regions{"elementwise(cast, mul, cast, cast)"}));
}

TEST_F(DispatchTest, RowsOfEveryTypeTakeTheirNeighbours) {
  for (const char *element : {"f16", "bf16", "f32", "f64"}) {
    Regions regions =
        run(withElement("(%x: $t, %y: $t) -> tensor<4x8xui8>", element), withElement(R"(
    %0 = tn.add %x, %y : ($t, $t) -> $t
    %1 = tn.softmax %0 {axis = 1 : i64} : $t
    %2 = tn.cast %1 : ($t) -> tensor<4x8xui8>
    return %2 : tensor<4x8xui8>)",
                                                                                     element));
    EXPECT_EQ(regions, (Regions{"rows(add, softmax, cast)"})) << element;
  }
  for (const char *element : {"i8", "i16", "i32", "i64"}) {
    Regions regions =
        run(withElement("(%x: tensor<4x8xf32>) -> tensor<4x1x$e>", element), withElement(R"(
    %0 = tn.cast %x : (tensor<4x8xf32>) -> $t
    %1 = tn.reduce <max> %0 {axes = array<i64: 1>, keepdims = true} : ($t) -> tensor<4x1x$e>
    %2 = tn.neg %1 : tensor<4x1x$e>
    return %2 : tensor<4x1x$e>)",
                                                                                         element));
    EXPECT_EQ(regions, (Regions{"rows(cast, reduce, neg)"})) << element;
  }
}

TEST_F(DispatchTest, ProductsOfEveryTypeTakeWhatFollows) {
  for (const char *element : {"f16", "bf16", "f32", "i32"}) {
    Regions regions =
        run(withElement("(%x: tensor<4x16x$e>, %w: tensor<16x8x$e>, %b: tensor<8x$e>) -> "
                        "tensor<4x8xui8>",
                        element),
            withElement(R"(
    %0 = tn.matmul %x, %w : (tensor<4x16x$e>, tensor<16x8x$e>) -> $t
    %1 = tn.add %0, %b : ($t, tensor<8x$e>) -> $t
    %2 = tn.relu %1 : $t
    %3 = tn.cast %2 : ($t) -> tensor<4x8xui8>
    return %3 : tensor<4x8xui8>)",
                        element));
    EXPECT_EQ(regions, (Regions{"contraction(matmul, add, relu, cast)"})) << element;
    EXPECT_TRUE(records.edges.empty());
  }
}

TEST_F(DispatchTest, RowLargerThanTheCacheStandsAlone) {
  Regions regions = run("(%x: tensor<2x400000xf32>) -> tensor<2x400000xf32>", R"(
    %0 = tn.exp %x : tensor<2x400000xf32>
    %1 = tn.softmax %0 {axis = 1 : i64} : tensor<2x400000xf32>
    return %1 : tensor<2x400000xf32>)");
  EXPECT_EQ(regions, (Regions{"elementwise(exp)", "rows(softmax)"}));
  EXPECT_EQ(ruleOf("tn.exp", "tn.softmax"), "row-too-large");
}

TEST_F(DispatchTest, ElementwiseChainCarriesScalarsAndMovement) {
  Regions regions = run("(%x: tensor<4x8xf32>) -> (tensor<8x4xf32>, tensor<8x4xf32>)", R"(
    %c = tn.constant dense<2.0> : tensor<f32> : tensor<f32>
    %0 = tn.transpose %x [1, 0] : (tensor<4x8xf32>) -> tensor<8x4xf32>
    %1 = tn.mul %0, %c : (tensor<8x4xf32>, tensor<f32>) -> tensor<8x4xf32>
    %2 = tn.exp %1 : tensor<8x4xf32>
    return %1, %2 : tensor<8x4xf32>, tensor<8x4xf32>)");
  EXPECT_EQ(regions, (Regions{"elementwise(constant, transpose, mul, exp)"}));
}

TEST_F(DispatchTest, MovementReadsInputsOnly) {
  Regions regions = run("(%x: tensor<4x4xf32>) -> tensor<4x4xf32>", R"(
    %0 = tn.exp %x : tensor<4x4xf32>
    %1 = tn.transpose %0 [1, 0] : (tensor<4x4xf32>) -> tensor<4x4xf32>
    return %1 : tensor<4x4xf32>)");
  EXPECT_EQ(regions, (Regions{"elementwise(exp)", "elementwise(transpose)"}));
  EXPECT_EQ(ruleOf("tn.exp", "tn.transpose"), "movement-reads-inputs");
}

TEST_F(DispatchTest, ReshapesStayOutsideAndAreNamed) {
  Regions regions = run("(%x: tensor<4x8xf32>) -> tensor<32xf32>", R"(
    %0 = tn.exp %x : tensor<4x8xf32>
    %1 = tn.reshape %0 : (tensor<4x8xf32>) -> tensor<32xf32>
    %2 = tn.neg %1 : tensor<32xf32>
    return %2 : tensor<32xf32>)");
  EXPECT_EQ(regions, (Regions{"elementwise(exp)", "elementwise(neg)"}));
  EXPECT_EQ(ruleOf("tn.exp", "tn.neg"), "reshape-between");
}

TEST_F(DispatchTest, ConvolutionsPackOrGoDepthwise) {
  Regions regions = run("(%x: tensor<1x8x8x4xf32>) -> tensor<1x8x8x4xf32>", R"(
    %w = tn.weight "w" : tensor<4x4x3x3xf32>
    %d = tn.weight "d" : tensor<4x1x3x3xf32>
    %0 = tn.conv %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, groups = 1 : i64, channelsLast = true} : (tensor<1x8x8x4xf32>, tensor<4x4x3x3xf32>) -> tensor<1x8x8x4xf32>
    %1 = tn.relu %0 : tensor<1x8x8x4xf32>
    %2 = tn.conv %1, %d {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, groups = 4 : i64, channelsLast = true} : (tensor<1x8x8x4xf32>, tensor<4x1x3x3xf32>) -> tensor<1x8x8x4xf32>
    %3 = tn.relu %2 : tensor<1x8x8x4xf32>
    return %3 : tensor<1x8x8x4xf32>)");
  EXPECT_EQ(regions, (Regions{"contraction(unpack, conv, relu)", "depthwise(unpack, conv, relu)"}));
}

TEST_F(DispatchTest, EqualPacksAreMadeOnce) {
  run("(%x: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>)", R"(
    %w = tn.weight "w" : tensor<8x8xf32>
    %0 = tn.matmul %x, %w : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    %1 = tn.matmul %0, %w : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    %2 = tn.matmul %0, %w {transposeB} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    return %1, %2 : tensor<4x8xf32>, tensor<4x8xf32>)");
  func::FuncOp function = *module->getOps<func::FuncOp>().begin();
  EXPECT_EQ(llvm::range_size(function.getOps<tn::PackOp>()), 2);
}

TEST_F(DispatchTest, RecordsCarryCostsOfBothWays) {
  run("(%x: tensor<64x64xf32>) -> tensor<64x64xf32>", R"(
    %0 = tn.exp %x : tensor<64x64xf32>
    %1 = tn.transpose %0 [1, 0] : (tensor<64x64xf32>) -> tensor<64x64xf32>
    return %1 : tensor<64x64xf32>)");
  ASSERT_EQ(records.edges.size(), 1u);
  const EdgeRecord &edge = records.edges.front();
  EXPECT_EQ(edge.apart.bytes, 4 * 64 * 64 * 4);
  EXPECT_EQ(edge.fused.bytes, 2 * 64 * 64 * 4);
  EXPECT_EQ(edge.apart.launches, 2);
  EXPECT_EQ(edge.fused.launches, 1);
  EXPECT_GT(edge.apart.microseconds, edge.fused.microseconds);
}

TEST_F(DispatchTest, LooksOnlySoFar) {
  // Between the two stand more regions than dispatch looks through; the work stays linear.
  std::string body = "%p = tn.exp %x : tensor<4x4xf32>\n%0 = tn.softmax %y {axis = 0 : i64} : "
                     "tensor<4x4xf32>\n";
  int count = 5000;
  for (int i = 1; i < count; ++i) {
    body += "%" + std::to_string(i) + " = tn.softmax %" + std::to_string(i - 1) +
            " {axis = 0 : i64} : tensor<4x4xf32>\n";
  }
  body += "%c = tn.neg %p : tensor<4x4xf32>\nreturn %c, %" + std::to_string(count - 1) +
          " : tensor<4x4xf32>, tensor<4x4xf32>";
  run("(%x: tensor<4x4xf32>, %y: tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>)", body);
  EXPECT_EQ(ruleOf("tn.exp", "tn.neg"), "too-far");
  auto isTooFar = [](const EdgeRecord &edge) { return edge.rule == "too-far"; };
  EXPECT_EQ(llvm::find_if(records.edges, isTooFar)->decided,
            "more than 4096 operations between them");
}

TEST_F(DispatchTest, GpuProductTakesWhatItsFastestKernelComputes) {
  Regions regions = runOnGpu(
      "(%x: tensor<64x8xf16>, %r: tensor<64x16xf16>) -> (tensor<64x16xf16>, tensor<64x16xf16>)", R"(
    %w = tn.weight "w" : tensor<8x16xf16>
    %b = tn.weight "b" : tensor<16xf16>
    %0 = tn.matmul %x, %w : (tensor<64x8xf16>, tensor<8x16xf16>) -> tensor<64x16xf16>
    %1 = tn.add %r, %0 : (tensor<64x16xf16>, tensor<64x16xf16>) -> tensor<64x16xf16>
    %2 = tn.add %1, %b : (tensor<64x16xf16>, tensor<16xf16>) -> tensor<64x16xf16>
    %3 = tn.gelu %2 {approximate} : tensor<64x16xf16>
    %4 = tn.add %3, %r : (tensor<64x16xf16>, tensor<64x16xf16>) -> tensor<64x16xf16>
    %5 = tn.matmul %x, %w : (tensor<64x8xf16>, tensor<8x16xf16>) -> tensor<64x16xf16>
    %6 = tn.gelu %5 : tensor<64x16xf16>
    return %4, %6 : tensor<64x16xf16>, tensor<64x16xf16>)");
  // No call ends so: the products are small enough for a kernel of our own.
  EXPECT_EQ(regions,
            (Regions{"contraction(matmul, add, add, gelu, add)", "contraction(matmul, gelu)"}));
  EXPECT_EQ(records.regions.front().target, "cuda");
}

TEST_F(DispatchTest, GpuRowsAddTheResidualThatOnlyTheyRead) {
  auto body = [](const char *readers) {
    return std::string(R"(
    %w = tn.weight "w" : tensor<8x16xf16>
    %b = tn.weight "b" : tensor<16xf16>
    %0 = tn.matmul %x, %w : (tensor<64x8xf16>, tensor<8x16xf16>) -> tensor<64x16xf16>
    %1 = tn.add %0, %b : (tensor<64x16xf16>, tensor<16xf16>) -> tensor<64x16xf16>
    %2 = tn.add %1, %r : (tensor<64x16xf16>, tensor<64x16xf16>) -> tensor<64x16xf16>
    %3 = tn.softmax %2 {axis = 1 : i64} : tensor<64x16xf16>
    return )") +
           readers + " : tensor<64x16xf16>, tensor<64x16xf16>";
  };
  llvm::StringRef signature =
      "(%x: tensor<64x8xf16>, %r: tensor<64x16xf16>) -> (tensor<64x16xf16>, tensor<64x16xf16>)";
  EXPECT_EQ(runOnGpu(signature, body("%3, %r")),
            (Regions{"contraction(matmul, add)", "rows(add, softmax)"}));
  EXPECT_EQ(ruleOf("tn.add", "tn.add"), "added-in-rows");
  auto isAdded = [](const EdgeRecord &edge) { return edge.rule == "added-in-rows"; };
  EXPECT_EQ(llvm::find_if(records.edges, isAdded)->decided,
            "measurements of both ways: the bytes are the same");
  EXPECT_EQ(runOnGpu(signature, body("%3, %2")),
            (Regions{"contraction(matmul, add, add)", "rows(softmax)"}));
}

TEST_F(DispatchTest, GpuProductWithTwoReadersStandsAlone) {
  Regions regions = runOnGpu("(%x: tensor<8x8xf32>) -> (tensor<8x8xf32>, tensor<8x8xf32>)", R"(
    %0 = tn.matmul %x, %x : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    %1 = tn.relu %0 : tensor<8x8xf32>
    return %0, %1 : tensor<8x8xf32>, tensor<8x8xf32>)");
  EXPECT_EQ(regions, (Regions{"contraction(matmul)", "elementwise(relu)"}));
  EXPECT_EQ(ruleOf("tn.matmul", "tn.relu"), "second-result");
}

TEST_F(DispatchTest, GpuConvolutionsReadTheirWeightInTheLibrarysOrder) {
  Regions regions = runOnGpu("(%x: tensor<1x8x8x16xf16>) -> tensor<1x8x8x4xf16>", R"(
    %w = tn.weight "w" : tensor<4x16x3x5xf16>
    %b = tn.weight "b" : tensor<4xf16>
    %d = tn.weight "d" : tensor<4x1x3x3xf16>
    %0 = tn.conv %x, %w bias %b {strides = array<i64: 1, 1>, pads = array<i64: 1, 2, 1, 2>, dilations = array<i64: 1, 1>, groups = 1 : i64, channelsLast = true} : (tensor<1x8x8x16xf16>, tensor<4x16x3x5xf16>, tensor<4xf16>) -> tensor<1x8x8x4xf16>
    %1 = tn.relu %0 : tensor<1x8x8x4xf16>
    %2 = tn.conv %1, %d {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, groups = 4 : i64, channelsLast = true} : (tensor<1x8x8x4xf16>, tensor<4x1x3x3xf16>) -> tensor<1x8x8x4xf16>
    %3 = tn.clamp %2 {lo = 0.0 : f64, hi = 6.0 : f64} : tensor<1x8x8x4xf16>
    return %3 : tensor<1x8x8x4xf16>)");
  EXPECT_EQ(regions,
            (Regions{"contraction(unpack, conv, relu)", "depthwise(unpack, conv, clamp)"}));
  func::FuncOp function = *module->getOps<func::FuncOp>().begin();
  tn::PackOp pack = *function.getOps<tn::PackOp>().begin();
  EXPECT_EQ(cast<RankedTensorType>(pack.getY().getType()).getShape(),
            (ArrayRef<int64_t>{4, 3, 5, 16}));
  EXPECT_EQ(pack.getOuterDimsPerm(), (ArrayRef<int64_t>{0, 2, 3, 1}));
  EXPECT_TRUE(pack.getInnerTiles().empty());
}

TEST_F(DispatchTest, GpuAttentionReadsPartsAndWritesAnOrder) {
  Regions regions = runOnGpu("(%x: tensor<2x5x12x8xf16>) -> tensor<2x5x4x8xf16>", R"(
    %0 = tn.slice %x {starts = affine_map<() -> (0, 0, 0, 0)>, steps = array<i64: 1, 1, 1, 1>} : (tensor<2x5x12x8xf16>) -> tensor<2x5x4x8xf16>
    %1 = tn.transpose %0 [0, 2, 1, 3] : (tensor<2x5x4x8xf16>) -> tensor<2x4x5x8xf16>
    %2 = tn.slice %x {starts = affine_map<() -> (0, 0, 4, 0)>, steps = array<i64: 1, 1, 1, 1>} : (tensor<2x5x12x8xf16>) -> tensor<2x5x4x8xf16>
    %3 = tn.slice %x {starts = affine_map<() -> (0, 0, 8, 0)>, steps = array<i64: 1, 1, 1, 1>} : (tensor<2x5x12x8xf16>) -> tensor<2x5x4x8xf16>
    %4 = tn.attention %1, %2, %3 {causal = false, headsInner = array<i1: false, true, true, false>, scale = 1.0 : f64} : (tensor<2x4x5x8xf16>, tensor<2x5x4x8xf16>, tensor<2x5x4x8xf16>) -> tensor<2x4x5x8xf16>
    %5 = tn.transpose %4 [0, 2, 1, 3] : (tensor<2x4x5x8xf16>) -> tensor<2x5x4x8xf16>
    return %5 : tensor<2x5x4x8xf16>)");
  ASSERT_EQ(regions.size(), 1u) << llvm::join(regions, "; ");
  EXPECT_TRUE(llvm::StringRef(regions.front()).starts_with("attention("));
  module->walk([&](tn::RegionOp region) { EXPECT_EQ(region.getInputs().size(), 1u); });
}

TEST_F(DispatchTest, GpuAttentionMakesItsOwnViewOfWhatOthersRead) {
  Regions regions = runOnGpu("(%q: tensor<1x2x3x8xf32>, %x: tensor<1x2x9x8xf32>) -> "
                             "(tensor<1x2x3x8xf32>, tensor<1x2x5x8xf32>)",
                             R"(
    %0 = tn.slice %x {starts = affine_map<() -> (0, 0, 4, 0)>, steps = array<i64: 1, 1, 1, 1>} : (tensor<1x2x9x8xf32>) -> tensor<1x2x5x8xf32>
    %1 = tn.attention %q, %0, %0 {causal = false, headsInner = array<i1: false, false, false, false>, scale = 1.0 : f64} : (tensor<1x2x3x8xf32>, tensor<1x2x5x8xf32>, tensor<1x2x5x8xf32>) -> tensor<1x2x3x8xf32>
    return %1, %0 : tensor<1x2x3x8xf32>, tensor<1x2x5x8xf32>)");
  EXPECT_EQ(regions, (Regions{"elementwise(slice)", "attention(slice, slice, attention)"}));
}

TEST_F(DispatchTest, GpuRotaryEmbeddingIsOneKernel) {
  Regions regions = runOnGpu("(%x: tensor<1x4x2x8xf16>, %c: tensor<4x1x8xf16>, %s: "
                             "tensor<4x1x8xf16>) -> tensor<1x4x2x8xf16>",
                             R"(
    %0 = tn.slice %x {starts = affine_map<() -> (0, 0, 0, 0)>, steps = array<i64: 1, 1, 1, 1>} : (tensor<1x4x2x8xf16>) -> tensor<1x4x2x4xf16>
    %1 = tn.slice %x {starts = affine_map<() -> (0, 0, 0, 4)>, steps = array<i64: 1, 1, 1, 1>} : (tensor<1x4x2x8xf16>) -> tensor<1x4x2x4xf16>
    %2 = tn.neg %1 : tensor<1x4x2x4xf16>
    %3 = tn.concat %2, %0 {axis = 3 : i64} : (tensor<1x4x2x4xf16>, tensor<1x4x2x4xf16>) -> tensor<1x4x2x8xf16>
    %4 = tn.mul %x, %c : (tensor<1x4x2x8xf16>, tensor<4x1x8xf16>) -> tensor<1x4x2x8xf16>
    %5 = tn.mul %3, %s : (tensor<1x4x2x8xf16>, tensor<4x1x8xf16>) -> tensor<1x4x2x8xf16>
    %6 = tn.add %4, %5 : (tensor<1x4x2x8xf16>, tensor<1x4x2x8xf16>) -> tensor<1x4x2x8xf16>
    return %6 : tensor<1x4x2x8xf16>)");
  EXPECT_EQ(regions, (Regions{"elementwise(slice, slice, neg, concat, mul, mul, add)"}));
}

TEST_F(DispatchTest, GpuRowsTakeEmbeddingsAndKeepTheSum) {
  llvm::StringRef signature =
      "(%i: tensor<2x4xi64>, %p: tensor<1x4xi64>) -> (tensor<2x4x8xf16>, tensor<2x4x8xf16>)";
  Regions regions = runOnGpu(signature, R"(
    %w = tn.weight "w" : tensor<100x8xf16>
    %v = tn.weight "v" : tensor<10x8xf16>
    %0 = tn.gather %w, %i {axis = 0 : i64} : (tensor<100x8xf16>, tensor<2x4xi64>) -> tensor<2x4x8xf16>
    %1 = tn.gather %v, %p {axis = 0 : i64} : (tensor<10x8xf16>, tensor<1x4xi64>) -> tensor<1x4x8xf16>
    %2 = tn.add %0, %1 : (tensor<2x4x8xf16>, tensor<1x4x8xf16>) -> tensor<2x4x8xf16>
    %3 = tn.layer_norm %2 {axis = 2 : i64, epsilon = 1.0e-5 : f64} : (tensor<2x4x8xf16>) -> tensor<2x4x8xf16>
    return %2, %3 : tensor<2x4x8xf16>, tensor<2x4x8xf16>)");
  EXPECT_EQ(regions, (Regions{"rows(gather, gather, add, layer_norm)"}));
}

TEST_F(DispatchTest, GpuRowsTakeWhatTheirConsumersRead) {
  Regions regions = runOnGpu("(%x: tensor<4x8xf16>, %z: tensor<4x8xf16>) -> tensor<4x8xf16>", R"(
    %0 = tn.rms_norm %x {axis = 1 : i64, epsilon = 1.0e-5 : f64} : (tensor<4x8xf16>) -> tensor<4x8xf16>
    %1 = tn.neg %z : tensor<4x8xf16>
    %2 = tn.silu %1 : tensor<4x8xf16>
    %3 = tn.mul %0, %2 : (tensor<4x8xf16>, tensor<4x8xf16>) -> tensor<4x8xf16>
    return %3 : tensor<4x8xf16>)");
  EXPECT_EQ(regions, (Regions{"rows(neg, silu, rms_norm, mul)"}));
}

TEST_F(DispatchTest, GpuTransposeOfComputedValuesStandsAlone) {
  Regions regions = runOnGpu("(%x: tensor<64x64xf32>) -> tensor<64x64xf32>", R"(
    %0 = tn.exp %x : tensor<64x64xf32>
    %1 = tn.transpose %0 [1, 0] : (tensor<64x64xf32>) -> tensor<64x64xf32>
    return %1 : tensor<64x64xf32>)");
  EXPECT_EQ(regions, (Regions{"elementwise(exp)", "elementwise(transpose)"}));
  EXPECT_EQ(ruleOf("tn.exp", "tn.transpose"), "movement-reads-inputs");
}

TEST_F(DispatchTest, UnknownDimIsRefused) {
  module = parseSourceString<ModuleOp>(R"(
    func.func @main(%x: tensor<?x4xf32>) -> tensor<?x4xf32> {
      %0 = tn.exp %x : tensor<?x4xf32>
      return %0 : tensor<?x4xf32>
    })",
                                       &context);
  ASSERT_TRUE(module);
  std::string message;
  ScopedDiagnosticHandler handler(&context,
                                  [&](Diagnostic &diagnostic) { message = diagnostic.str(); });
  EXPECT_TRUE(
      failed(dispatch(*module, target::cpuTarget(), [](tn::RegionOp) { return 1.0; }, records)));
  EXPECT_NE(message.find("not known before running"), std::string::npos) << message;
}

} // namespace
} // namespace tenon::dispatch
