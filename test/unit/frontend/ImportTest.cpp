// What importing keeps (names, places, weights), how versions of an operator differ, and the gap
// report. Relies on the printed form of `tn` operations.
#include "test/unit/frontend/ImportFixture.h"
#include "test/unit/frontend/ModelBytes.h"

namespace tenon::onnx::test {
namespace {

using Import = ImportFixture;

const Message kMatrix = valueInfo("x", kFloat, {2, 3});
const Message kCube = valueInfo("x", kFloat, {2, 3, 4});

TEST_F(Import, KeepsNamesOfInputsResultsAndNodes) {
  Result<ImportResult> result = import(oneNode(node("Relu", {"x"}, {"y"}), {kMatrix}));
  ASSERT_TRUE(result);
  ASSERT_TRUE(result->module);
  mlir::func::FuncOp main = result->module->lookupSymbol<mlir::func::FuncOp>("main");
  EXPECT_EQ(main.getArgAttrOfType<mlir::StringAttr>(0, "tn.name"), "x");
  EXPECT_EQ(main.getResultAttrOfType<mlir::StringAttr>(0, "tn.name"), "y");
  mlir::FusedLoc place = llvm::dyn_cast<mlir::FusedLoc>(main.getBody().front().front().getLoc());
  ASSERT_TRUE(place);
  EXPECT_EQ(llvm::cast<mlir::NameLoc>(place.getLocations()[0]).getName(), "n_y");
  EXPECT_EQ(llvm::cast<mlir::StringAttr>(place.getMetadata()), "Relu");
}

TEST_F(Import, LargeConstantsAreViewsOfTheModelAndSmallOnesInline) {
  std::vector<float> large(3 * 40, 1.5f);
  std::string text =
      moduleOf(model(graph({{node("MatMul", {"x", "w"}, {"p"}), node("Add", {"p", "b"}, {"y"})},
                            {kMatrix},
                            {Message().text(1, "y")},
                            {floats("w", {3, 40}, large), floats("b", {1}, {2.0f})}})));
  EXPECT_HAS(text, "tn.weight \"w\" : tensor<3x40xf32>");
  EXPECT_HAS(text, "tn.constant dense<2.000000e+00> : tensor<1xf32>");
  const tn::WeightEntry *entry = store.find("w");
  ASSERT_TRUE(entry);
  EXPECT_TRUE(entry->owned.empty());
  EXPECT_EQ(entry->bytes.size(), large.size() * sizeof(float));
}

TEST_F(Import, AllGapsAreReportedTogether) {
  Result<ImportResult> result =
      import(model(graph({{node("StringConcat", {"x"}, {"a"}), node("Foo", {"a"}, {"b"}),
                           node("Bar", {"x"}, {"c"}, {}, "com.example"), node("Relu", {"b"}, {"d"}),
                           node("Add", {"x", "x"}, {"y"})},
                          {kMatrix},
                          {Message().text(1, "y")},
                          {}})) +
             Message().add(8, opset(1, "com.example")).str());
  ASSERT_TRUE(result) << result.status().toString();
  EXPECT_FALSE(result->module);
  ASSERT_EQ(result->gaps.size(), 3u);
  EXPECT_EQ(result->gaps[0].opType, "StringConcat");
  EXPECT_EQ(result->gaps[0].dtype, "f32");
  EXPECT_EQ(result->gaps[0].rank, 2);
  EXPECT_EQ(result->gaps[0].opset, 17);
  EXPECT_EQ(result->gaps[1].opType, "Foo");
  EXPECT_EQ(result->gaps[1].node, "n_b");
  EXPECT_EQ(result->gaps[2].domain, "com.example");
  for (const Gap &gap : result->gaps) {
    EXPECT_FALSE(gap.why.empty());
    EXPECT_FALSE(gap.workaround.empty());
  }
}

TEST_F(Import, SoftmaxBefore13TakesTheDimsFromItsAxisAsOneRow) {
  Message soft = node("Softmax", {"x"}, {"y"}, {attrInt("axis", 1)});
  std::string old = moduleOf(oneNode(soft, {kCube}, 11));
  EXPECT_HAS(old, "tensor<2x12xf32>");
  std::string now = moduleOf(oneNode(soft, {kCube}, 13));
  EXPECT_HAS_NOT(now, "tensor<2x12xf32>");
  EXPECT_HAS(now, "tn.softmax %arg0 {axis = 1 : i64}");
}

TEST_F(Import, AxesMovedFromAttributeToInput) {
  std::string byAttribute =
      moduleOf(oneNode(node("ReduceSum", {"x"}, {"y"}, {attrInts("axes", {-1})}), {kCube}, 11));
  std::string byInput = moduleOf(
      oneNode(node("ReduceSum", {"x", "axes"}, {"y"}), {kCube}, 13, {int64s("axes", {-1})}));
  EXPECT_HAS(byAttribute, "axes = array<i64: 2>");
  EXPECT_EQ(byAttribute, byInput);
  // ReduceMax still has the attribute in 13 and takes the input from 18 on.
  EXPECT_EQ(errorOf(oneNode(node("ReduceMax", {"x"}, {"y"}, {attrInts("axes", {5})}), {kCube}, 13)),
            ErrorId::OnnxBadAttribute);
  EXPECT_HAS(moduleOf(oneNode(node("ReduceMax", {"x", "axes"}, {"y"}), {kCube}, 18,
                              {int64s("axes", {0})})),
             "axes = array<i64: 0>");
}

TEST_F(Import, ClipBoundsByAttributeAndByInput) {
  std::string old = moduleOf(oneNode(
      node("Clip", {"x"}, {"y"}, {attrFloat("min", 0), attrFloat("max", 6)}), {kMatrix}, 6 + 4));
  std::string now = moduleOf(oneNode(node("Clip", {"x", "lo", "hi"}, {"y"}), {kMatrix}, 13,
                                     {rawTensor("lo", kFloat, {}, bytesOf<float>({0})),
                                      rawTensor("hi", kFloat, {}, bytesOf<float>({6}))}));
  EXPECT_HAS(old, "tn.clamp %arg0 {hi = 6.000000e+00 : f64, lo = 0.000000e+00 : f64}");
  EXPECT_EQ(old, now);
}

TEST_F(Import, SplitSizesByAttributeByInputAndEqual) {
  Message x = valueInfo("x", kFloat, {6});
  auto split = [&](const Message &n, int64_t version, std::vector<Message> initializers) {
    return moduleOf(
        model(graph({{n}, {x}, {Message().text(1, "y"), Message().text(1, "z")}, initializers}),
              version));
  };
  std::string byAttribute =
      split(node("Split", {"x"}, {"y", "z"}, {attrInts("split", {2, 4})}), 11, {});
  EXPECT_HAS(byAttribute, "(tensor<2xf32> {tn.name = \"y\"}, tensor<4xf32> {tn.name = \"z\"})");
  EXPECT_EQ(byAttribute, split(node("Split", {"x", "s"}, {"y", "z"}), 13, {int64s("s", {2, 4})}));
  EXPECT_HAS(split(node("Split", {"x"}, {"y", "z"}), 13, {}),
             "(tensor<3xf32> {tn.name = \"y\"}, tensor<3xf32>");
}

TEST_F(Import, AConstantConditionTakesItsBranchOnly) {
  auto branch = [](std::string_view op) {
    return graph({{node(op, {"x"}, {"r"})}, {}, {Message().text(1, "r")}, {}});
  };
  Message choice =
      node("If", {"c"}, {"y"},
           {attrGraph("then_branch", branch("Relu")), attrGraph("else_branch", branch("Sigmoid"))});
  std::string yes =
      moduleOf(oneNode(choice, {kMatrix}, 17, {rawTensor("c", kBool, {}, std::string(1, '\1'))}));
  EXPECT_HAS(yes, "tn.relu");
  EXPECT_HAS_NOT(yes, "tn.sigmoid");
  std::string both = moduleOf(oneNode(choice, {kMatrix, valueInfo("c", kBool, {})}));
  EXPECT_HAS(both, "tn.select");
}

std::string withFunction(const Message &body) {
  Message function = Message()
                         .text(1, "Scaled")
                         .text(4, "a")
                         .text(5, "r")
                         .text(6, "alpha")
                         .add(7, body)
                         .add(9, opset(17))
                         .text(10, "local");
  Message call = node("Scaled", {"x"}, {"y"}, {attrFloat("alpha", 0.5f)}, "local");
  return oneNode(call, {kMatrix}) + Message().add(8, opset(1, "local")).add(25, function).str();
}

TEST_F(Import, FunctionsAreInlinedWithTheirAttributes) {
  Message reference = Message().text(1, "alpha").varint(20, 1).text(21, "alpha");
  std::string text = moduleOf(withFunction(node("LeakyRelu", {"a"}, {"r"}, {reference})));
  EXPECT_HAS(text, "tn.leaky_relu %arg0 {alpha = 5.000000e-01 : f64}");
}

TEST_F(Import, AFunctionThatCallsItselfIsRefused) {
  EXPECT_EQ(errorOf(withFunction(node("Scaled", {"a"}, {"r"}, {}, "local"))),
            ErrorId::OnnxBadFunction);
}

TEST_F(Import, TypedListsAndPackedOnesGiveTheSameTensor) {
  Message apart = Message()
                      .varint(1, 2)
                      .varint(2, kInt32)
                      .varint(5, 7)
                      .varint(5, static_cast<uint64_t>(-2))
                      .text(8, "b");
  Message packed = Message()
                       .varint(1, 2)
                       .varint(2, kInt32)
                       .text(5, std::string("\x07\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11))
                       .text(8, "b");
  Message x = valueInfo("x", kInt32, {2});
  std::string text = moduleOf(oneNode(node("Add", {"x", "b"}, {"y"}), {x}, 17, {apart}));
  EXPECT_HAS(text, "dense<[7, -2]>");
  EXPECT_EQ(text, moduleOf(oneNode(node("Add", {"x", "b"}, {"y"}), {x}, 17, {packed})));
}

TEST_F(Import, OpsetsOutsideOfTheRangeAreUnsupportedNotBad) {
  EXPECT_EQ(errorOf(oneNode(node("Relu", {"x"}, {"y"}), {kMatrix}, kNewestOpset + 1)),
            ErrorId::OnnxUnknownOpset);
  EXPECT_EQ(errorOf(oneNode(node("Relu", {"x"}, {"y"}), {kMatrix}, kNewestOpset)), ErrorId::None);
  EXPECT_EQ(codeOf(ErrorId::OnnxUnknownOpset), Code::Unsupported);
}

} // namespace
} // namespace tenon::onnx::test
