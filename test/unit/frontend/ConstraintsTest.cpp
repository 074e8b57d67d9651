// What nodes need of symbolic dims is proved, solved for a symbol, or recorded as a constraint of
// the model. Relies on the printed form of `tn.constraints`, whose expressions name the dims of the
// inputs only.
#include "test/unit/frontend/ImportFixture.h"
#include "test/unit/frontend/ModelBytes.h"

namespace tenon::onnx::test {
namespace {

using Constraints = ImportFixture;

std::string add(std::vector<Dim> a, std::vector<Dim> b) {
  return model(graph({{node("Add", {"a", "b"}, {"y"})},
                      {valueInfo("a", kFloat, std::move(a)), valueInfo("b", kFloat, std::move(b))},
                      {Message().text(1, "y")},
                      {}}));
}

TEST_F(Constraints, ABroadcastThatMayBeOneIsAnOperationOfItsOwn) {
  std::string text = moduleOf(add({std::string("n")}, {4}));
  EXPECT_HAS(text, "#tn.constraint<equal_or_one, ()[s0] -> (s0, 4), \"n_y\">");
  EXPECT_HAS(text,
             "tn.broadcast %arg0 : (tensor<?xf32, #tn.shape<()[s0] -> (s0)>>) -> tensor<4xf32>");
}

TEST_F(Constraints, OfRangesOnlyOneCaseMayBeLeft) {
  ImportOptions options;
  options.shapes.push_back({"a", {{DimOverride::Kind::Range, 2, 8}}});
  std::string text = moduleOf(add({std::string("n")}, {4}), options);
  EXPECT_HAS(text, "#tn.constraint<equal, ()[s0] -> (s0, 4), \"n_y\">");
  EXPECT_HAS(text, "%arg0: tensor<4xf32> {tn.dims = affine_map<()[s0] -> (s0)>, tn.name = \"a\"}");
  options.shapes[0].dims[0] = {DimOverride::Kind::Range, 5, 8};
  EXPECT_HAS(moduleOf(add({std::string("n")}, {4}), options), "gap: Add");
}

TEST_F(Constraints, TheLaterOfTwoEqualSymbolsIsReplaced) {
  std::string text = moduleOf(add({std::string("n"), 3}, {std::string("m"), 3}));
  EXPECT_HAS(text, "#tn.constraint<equal, ()[s0, s1] -> (s1, s0), \"n_y\">");
  EXPECT_HAS(text, "%arg1: tensor<?x3xf32, #tn.shape<()[s0] -> (s0, 3)>> "
                   "{tn.dims = affine_map<()[s0, s1] -> (s1, 3)>, tn.name = \"b\"}");
}

/// x, halved `depth` times and doubled again by concatenation with itself, plus x.
std::string ladder(int64_t depth) {
  std::vector<Message> nodes;
  std::string value = "x";
  for (int64_t i = 0; i < depth; ++i) {
    std::string next = "down" + std::to_string(i);
    nodes.push_back(node("MaxPool", {value}, {next},
                         {attrInts("kernel_shape", {2}), attrInts("strides", {2})}));
    value = next;
  }
  for (int64_t i = 0; i < depth; ++i) {
    std::string next = "up" + std::to_string(i);
    nodes.push_back(node("Concat", {value, value}, {next}, {attrInt("axis", 2)}));
    value = next;
  }
  nodes.push_back(node("Add", {"x", value}, {"y"}));
  return model(graph(
      {nodes, {valueInfo("x", kFloat, {1, 2, std::string("n")})}, {Message().text(1, "y")}, {}}));
}

TEST_F(Constraints, WindowsAndTheirInversesNeedMultiples) {
  EXPECT_HAS(moduleOf(ladder(1)), "#tn.constraint<divisible, ()[s0] -> (s0, 2), \"n_y\">");
  std::string text = moduleOf(ladder(3));
  EXPECT_HAS(text, "#tn.constraint<divisible, ()[s0] -> (s0, 8), \"n_y\">");
  EXPECT_HAS(text, "#tn.symbol<\"n/8\", 1, 8192>");
  EXPECT_HAS(text, "{tn.dims = affine_map<()[s0] -> (1, 2, s0)>, tn.name = \"x\"}");
}

TEST_F(Constraints, AWindowNeedsADimAsLarge) {
  std::string text =
      moduleOf(oneNode(node("MaxPool", {"x"}, {"y"}, {attrInts("kernel_shape", {3})}),
                       {valueInfo("x", kFloat, {1, 2, std::string("n")})}));
  EXPECT_HAS(text, "#tn.constraint<at_least, ()[s0] -> (s0, 3), \"n_y\">");
  EXPECT_HAS(text, "#tn.symbol<\"n\", 3, 65536>");
}

TEST_F(Constraints, WhatIsCertainIsNoConstraint) {
  EXPECT_HAS_NOT(moduleOf(add({std::string("n"), 1}, {std::string("n"), 7})), "tn.constraint");
  EXPECT_HAS_NOT(moduleOf(add({std::string("n")}, {1})), "tn.constraint");
}

} // namespace
} // namespace tenon::onnx::test
