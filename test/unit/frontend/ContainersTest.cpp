// Sequences and optionals, which exist during the import only: what becomes of their elements, by
// the reference interpreter's results. Relies on ModelBytes for bodies.
#include "test/unit/frontend/UnrollingFixture.h"

namespace tenon::onnx::test {
namespace {

using Containers = UnrollingFixture;

//===--- Sequences ---===//

TEST_F(Containers, ALoopBuildsASequence) {
  Messages nodes = {node("Cast", {"i"}, {"f"}, {attrInt("to", 1)}), node("Mul", {"x", "f"}, {"e"}),
                    node("SequenceInsert", {"q", "e"}, {"r"})};
  Messages all = {
      node("SequenceEmpty", {}, {"none"}),
      node("Loop", {"m", "yes", "none"}, {"list"}, {body(nodes, {"i", "c", "q"}, {"c", "r"})}),
      node("ConcatFromSequence", {"list"}, {"y"}, {attrInt("axis", 0)}),
      node("ConcatFromSequence", {"list"}, {"z"}, {attrInt("axis", -1), attrInt("new_axis", 1)})};
  expectFloats(
      run(over(all, {"y", "z"}, {integer("m", 3), boolean("yes", true)}), {floatsOf({2}, {1, 2})}),
      {{0, 0, 1, 2, 2, 4}, {0, 1, 2, 0, 2, 4}});
}

TEST_F(Containers, PositionsInSequencesCountFromBothEnds) {
  Messages constants = {integer("minus1", -1), integer("zero", 0), integer("minus2", -2)};
  Messages all = {node("Neg", {"x"}, {"n"}),
                  node("Exp", {"x"}, {"e"}),
                  node("SequenceConstruct", {"x", "n"}, {"a"}),
                  node("SequenceInsert", {"a", "e", "minus1"}, {"b"}), // x e n
                  node("SequenceErase", {"b"}, {"d"}),                 // x e
                  node("SequenceErase", {"b", "minus2"}, {"f"}),       // x n
                  node("SequenceAt", {"f", "minus1"}, {"y"}),
                  node("SequenceAt", {"d", "zero"}, {"z"}),
                  node("SequenceLength", {"b"}, {"count"}),
                  node("Cast", {"count"}, {"w"}, {attrInt("to", 1)})};
  expectFloats(run(over(all, {"y", "z", "w"}, constants), {floatsOf({2}, {1, 2})}),
               {{-1, -2}, {1, 2}, {3}});
}

TEST_F(Containers, SplitsBecomeSequences) {
  Message x = valueInfo("x", kFloat, {3, 2});
  auto part = [&](const std::vector<std::string> &inputs, const Messages &attributes, int64_t at) {
    return run(model(graph({{node("SplitToSequence", inputs, {"q"}, attributes),
                             node("SequenceAt", {"q", "at"}, {"y"})},
                            {x},
                            {named("y")},
                            {integer("at", at), integer("two", 2), int64s("sizes", {1, 2})}})),
               {floatsOf({3, 2}, {1, 2, 3, 4, 5, 6})});
  };
  expectFloats(part({"x"}, {attrInt("axis", 1), attrInt("keepdims", 0)}, 1), {{2, 4, 6}});
  expectFloats(part({"x", "two"}, {}, -1), {{5, 6}});
  expectFloats(part({"x", "sizes"}, {attrInt("axis", -2)}, 1), {{3, 4, 5, 6}});
  EXPECT_EQ(part({"x", "sizes"}, {attrInt("axis", 1)}, 1).status().id(), ErrorId::OnnxBadNode);
  EXPECT_EQ(part({"x", "two"}, {}, 2).status().id(), ErrorId::OnnxBadNode);
}

TEST_F(Containers, AMapTakesElementsAndWholeTensors) {
  Message map = node("SequenceMap", {"q", "p", "x"}, {"r"},
                     {body({node("Mul", {"a", "b"}, {"t"}), node("Add", {"t", "w"}, {"u"})},
                           {"a", "b", "w"}, {"u"})});
  Messages all = {node("Neg", {"x"}, {"n"}), node("SequenceConstruct", {"x", "n"}, {"q"}),
                  node("SequenceConstruct", {"n", "n"}, {"p"}), map,
                  node("ConcatFromSequence", {"r"}, {"y"}, {attrInt("axis", 0)})};
  expectFloats(run(over(all, {"y"}, {}), {floatsOf({2}, {1, 2})}), {{0, -2, 2, 6}});
}

TEST_F(Containers, ElementsKeepTheirKnownSizes) {
  // x reshaped by a list of sizes that went through a sequence.
  Messages all = {node("Shape", {"x"}, {"s"}),
                  node("SplitToSequence", {"s"}, {"q"}),
                  node("SequenceErase", {"q", "zero"}, {"p"}),
                  node("SequenceInsert", {"p", "minus"}, {"r"}),
                  node("ConcatFromSequence", {"r"}, {"to"}, {attrInt("axis", 0)}),
                  node("Reshape", {"x", "to"}, {"y"})};
  std::string text = moduleOf(model(graph({all,
                                           {valueInfo("x", kFloat, {4, std::string("n")})},
                                           {named("y")},
                                           {integer("zero", 0), int64s("minus", {-1})}})));
  EXPECT_HAS(text, "tensor<?x4xf32, #tn.shape<()[s0] -> (s0, 4)>>");
}

TEST_F(Containers, ContainersStayInsideOfTheModel) {
  EXPECT_HAS(moduleOf(over({node("SequenceConstruct", {"x"}, {"y"})}, {"y"}, {})),
             "gap: Output: only tensors can be outputs");
  Messages nodes = {node("SequenceConstruct", {"x"}, {"q"}), node("Relu", {"q"}, {"y"})};
  EXPECT_HAS(moduleOf(over(nodes, {"y"}, {})), "input 0 is a sequence, not a tensor");
  Messages byData = {node("SequenceConstruct", {"x"}, {"q"}),
                     node("SequenceAt", {"q", "at"}, {"y"})};
  EXPECT_HAS(moduleOf(over(byData, {"y"}, {}, {valueInfo("at", kInt64, {})})),
             "the position in the sequence is not a constant");
  Messages nothing = {node("SequenceEmpty", {}, {"q"}),
                      node("ConcatFromSequence", {"q"}, {"y"}, {attrInt("axis", 0)})};
  EXPECT_HAS(moduleOf(over(nothing, {"y"}, {})), "no elements to join");
}

//===--- Optionals and branches ---===//

TEST_F(Containers, WhatAnOptionalHoldsIsKnown) {
  auto branch = [](const std::string &name, const Messages &nodes, const std::string &result) {
    return attrGraph(name, graph({nodes, {}, {named(result)}, {}}));
  };
  auto chosen = [&](const std::vector<std::string> &given) {
    Messages all = {node("Optional", given, {"o"}), node("OptionalHasElement", {"o"}, {"has"}),
                    node("If", {"has"}, {"y"},
                         {branch("then_branch", {node("OptionalGetElement", {"o"}, {"e"})}, "e"),
                          branch("else_branch", {node("Neg", {"x"}, {"n"})}, "n")})};
    return run(over(all, {"y"}, {}), {floatsOf({2}, {1, 2})});
  };
  expectFloats(chosen({"x"}), {{1, 2}});
  expectFloats(chosen({}), {{-1, -2}});
}

TEST_F(Containers, BranchesMayGiveSequences) {
  auto branch = [](const std::string &name, const std::vector<std::string> &elements) {
    return attrGraph(name,
                     graph({{node("SequenceConstruct", elements, {"q"})}, {}, {named("q")}, {}}));
  };
  auto chosen = [&](const std::vector<std::string> &otherwise) {
    Messages all = {node("Neg", {"x"}, {"n"}),
                    node("If", {"go"}, {"list"},
                         {branch("then_branch", {"x", "n"}), branch("else_branch", otherwise)}),
                    node("ConcatFromSequence", {"list"}, {"y"}, {attrInt("axis", 0)})};
    return run(over(all, {"y"}, {}, {valueInfo("go", kBool, {})}),
               {floatsOf({2}, {1, 2}), tensor(DType::Bool, {}, std::vector<char>{0})});
  };
  expectFloats(chosen({"n", "x"}), {{-1, -2, 1, 2}});
  EXPECT_HAS(chosen({"n"}).status().toString(),
             "data decides between sequences of different lengths");
}

} // namespace
} // namespace tenon::onnx::test
