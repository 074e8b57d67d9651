// Loop and Scan: what they are unrolled to, by the reference interpreter's results, and what is
// said of those that cannot be. Relies on ModelBytes for bodies.
#include "test/unit/frontend/UnrollingFixture.h"

namespace tenon::onnx::test {
namespace {

using Loops = UnrollingFixture;

/// a <- a + x, which it also gives as a scan output; `condition` is computed by `nodes`.
Message summing(const std::string &condition, Messages nodes = {}, const Messages &constants = {}) {
  nodes.push_back(node("Add", {"a", "x"}, {"b"}));
  nodes.push_back(node("Identity", {"b"}, {"s"}));
  return body(nodes, {"i", "c", "a"}, {condition, "b", "s"}, constants);
}

//===--- Loop ---===//

TEST_F(Loops, AKnownTripCountIsUnrolled) {
  Messages constants = {integer("m", 3), boolean("yes", true)};
  Message loop = node("Loop", {"m", "yes", "x"}, {"y", "z"}, {summing("c")});
  expectFloats(run(over({loop}, {"y", "z"}, constants), {floatsOf({2}, {1, 2})}),
               {{4, 8}, {2, 4, 3, 6, 4, 8}});
  EXPECT_HAS_NOT(moduleOf(over({loop}, {"y", "z"}, constants)), "tn.select");
}

TEST_F(Loops, InputsMayBeLeftOut) {
  Message loop = node("Loop", {"m", "", "x"}, {"y"}, {summing("c")});
  expectFloats(run(over({loop}, {"y"}, {integer("m", 2)}), {floatsOf({2}, {1, 2})}), {{3, 6}});
  Messages nodes = {node("Identity", {"c"}, {"more"}),
                    node("Cast", {"i"}, {"s"}, {attrInt("to", 1)})};
  Message counting = node("Loop", {"m", ""}, {"y"}, {body(nodes, {"i", "c"}, {"more", "s"})});
  expectFloats(run(over({counting}, {"y"}, {integer("m", 3)}), {floatsOf({2}, {1, 2})}),
               {{0, 1, 2}});
}

TEST_F(Loops, AConditionThatBecomesFalseEndsIt) {
  Messages nodes = {node("Less", {"i", "two"}, {"more"})};
  Message loop =
      node("Loop", {"m", "yes", "x"}, {"y", "z"}, {summing("more", nodes, {integer("two", 2)})});
  expectFloats(run(over({loop}, {"y", "z"}, {integer("m", INT64_MAX), boolean("yes", true)}),
                   {floatsOf({2}, {1, 2})}),
               {{4, 8}, {2, 4, 3, 6, 4, 8}});
}

TEST_F(Loops, ACarriedFloatMayBeTheCondition) {
  // Longer than what is evaluated at once: each iteration's values are known before the next.
  Messages nodes = {node("Add", {"f", "one"}, {"g"}), node("Less", {"g", "most"}, {"more"})};
  Message counting = body(nodes, {"i", "c", "f"}, {"more", "g"},
                          {floats("one", {}, {1}), floats("most", {}, {300})});
  Messages constants = {boolean("yes", true), floats("zero", {}, {0})};
  expectFloats(run(over({node("Loop", {"", "yes", "zero"}, {"y"}, {counting})}, {"y"}, constants),
                   {floatsOf({2}, {1, 2})}),
               {{300}});
}

TEST_F(Loops, WithoutIterationsScanOutputsAreEmpty) {
  Message stated = Message()
                       .add(1, node("Identity", {"a"}, {"b"}))
                       .add(1, node("Identity", {"a"}, {"s"}))
                       .text(2, "g")
                       .add(11, named("i"))
                       .add(11, named("c"))
                       .add(11, named("a"))
                       .add(12, named("c"))
                       .add(12, named("b"))
                       .add(12, valueInfo("s", kFloat, {2}));
  for (const Messages &constants : {Messages{integer("m", 0), boolean("go", true)},
                                    Messages{integer("m", 5), boolean("go", false)}}) {
    Message loop = node("Loop", {"m", "go", "x"}, {"y", "z"}, {attrGraph("body", stated)});
    expectFloats(run(over({loop}, {"y", "z"}, constants), {floatsOf({2}, {1, 2})}), {{1, 2}, {}});
    Message unstated = node("Loop", {"m", "go", "x"}, {"y", "z"}, {summing("c")});
    EXPECT_HAS(moduleOf(over({unstated}, {"y", "z"}, constants)), "which its body does not state");
  }
}

TEST_F(Loops, DataMayDecideWhichIterationRunsLast) {
  // while (max(a) < limit && i < 6) a <- a + x
  Messages nodes = {node("Add", {"a", "x"}, {"b"}),
                    node("ReduceMax", {"b"}, {"top"}, {attrInt("keepdims", 0)}),
                    node("Less", {"top", "limit"}, {"more"})};
  Message loop =
      node("Loop", {"m", "go", "x"}, {"y"}, {body(nodes, {"i", "c", "a"}, {"more", "b"})});
  std::string text = over({loop}, {"y"}, {integer("m", 6)},
                          {valueInfo("limit", kFloat, {}), valueInfo("go", kBool, {})});
  auto result = [&](float limit, char go) {
    return run(text, {floatsOf({2}, {1, 2}), floatsOf({}, {limit}),
                      tensor(DType::Bool, {}, std::vector<char>{go})});
  };
  expectFloats(result(7, 1), {{4, 8}});
  expectFloats(result(0, 1), {{2, 4}});
  expectFloats(result(1e9f, 1), {{7, 14}});
  expectFloats(result(7, 0), {{1, 2}});
}

TEST_F(Loops, AnIterationThatDoesNotRunCannotFail) {
  // while (n != 0) { total += 12 / n; n -= 1 }
  Messages nodes = {node("Div", {"twelve", "n"}, {"part"}), node("Add", {"t", "part"}, {"u"}),
                    node("Sub", {"n", "one"}, {"less"}),
                    node("Greater", {"less", "zero"}, {"more"})};
  Message loop = node("Loop", {"m", "yes", "n0", "zero"}, {"", "y"},
                      {body(nodes, {"i", "c", "n", "t"}, {"more", "less", "u"})});
  Messages constants = {integer("m", 5), boolean("yes", true), integer("twelve", 12),
                        integer("one", 1), integer("zero", 0)};
  Result<std::vector<reference::Tensor>> results =
      run(over({loop}, {"y"}, constants, {valueInfo("n0", kInt64, {})}),
          {floatsOf({2}, {1, 2}), tensor<int64_t>(DType::I64, {}, {3})});
  ASSERT_TRUE(results) << results.status().toString();
  EXPECT_EQ((*results)[0].as<int64_t>()[0], 4 + 6 + 12);
}

TEST_F(Loops, ASymbolicTripCountSelects) {
  // for (i < x.size) a <- a + x[i], where x has at most 3 elements
  Messages nodes = {node("Gather", {"x", "i"}, {"e"}), node("Add", {"a", "e"}, {"b"}),
                    node("Identity", {"b"}, {"s"})};
  auto over = [&](const Messages &steps) {
    Messages all = {node("Shape", {"x"}, {"m"}),
                    node("Loop", {"m", "", "zero"}, {"y", "z"},
                         {body(steps, {"i", "c", "a"}, {"c", "b", "s"}, {integer("one", 1)})})};
    return model(graph({all,
                        {valueInfo("x", kFloat, {std::string("n")})},
                        namedAll({"y", "z"}),
                        {floats("zero", {}, {0})}}));
  };
  ImportOptions options;
  options.shapes.push_back({"x", {{DimOverride::Kind::Range, 1, 3}}});
  expectFloats(run(over(nodes), {floatsOf({2}, {1, 2})}, options), {{3}, {1, 3}});
  expectFloats(run(over(nodes), {floatsOf({3}, {1, 2, 3})}, options), {{6}, {1, 3, 6}});
  EXPECT_HAS(moduleOf(over(nodes)), "it has 65536 iterations of 3 nodes");
  nodes[0] = node("Range", {"i", "one", "one"}, {"r"});
  nodes.insert(nodes.begin() + 1, node("Cast", {"r"}, {"e"}, {attrInt("to", kFloat)}));
  Result<ImportResult> result = import(over(nodes), options);
  ASSERT_TRUE(result) << result.status().toString();
  ASSERT_EQ(result->gaps.size(), 2u);
  EXPECT_HAS(result->gaps[1].why, "its trip count is a size, from 1 to 3");
}

TEST_F(Loops, AStatedLengthIsTheTripCountThatEachRunChecks) {
  Message loop = node("Loop", {"m", "", "x"}, {"y", "z"}, {summing("c")});
  std::string text = model(graph({{loop},
                                  {valueInfo("x", kFloat, {2}), valueInfo("m", kInt64, {})},
                                  {named("y"), valueInfo("z", kFloat, {2, 2})},
                                  {}}));
  expectFloats(run(text, {floatsOf({2}, {1, 2}), tensor<int64_t>(DType::I64, {}, {2})}),
               {{3, 6}, {2, 4, 3, 6}});
  EXPECT_EQ(run(text, {floatsOf({2}, {1, 2}), tensor<int64_t>(DType::I64, {}, {3})}).status().id(),
            ErrorId::RunConstraint);
}

TEST_F(Loops, AStatedLengthMayDependOnTheCondition) {
  // for (i < m && a < limit) a <- a + x, whose scan output is stated to have two parts
  Messages nodes = {node("Add", {"a", "x"}, {"b"}), node("Identity", {"b"}, {"s"}),
                    node("ReduceMax", {"b"}, {"top"}, {attrInt("keepdims", 0)}),
                    node("Less", {"top", "limit"}, {"more"})};
  auto result = [&](const Messages &constants, std::vector<reference::Tensor> inputs, float limit) {
    Message loop = node("Loop", {"m", "go", "x"}, {"y", "z"},
                        {body(nodes, {"i", "c", "a"}, {"more", "b", "s"})});
    Messages infos = {valueInfo("x", kFloat, {2}), valueInfo("limit", kFloat, {}),
                      valueInfo("go", kBool, {})};
    if (constants.empty()) {
      infos.push_back(valueInfo("m", kInt64, {}));
    }
    inputs.insert(inputs.begin(), {floatsOf({2}, {1, 2}), floatsOf({}, {limit}),
                                   tensor(DType::Bool, {}, std::vector<char>{1})});
    return run(
        model(graph({{loop}, infos, {named("y"), valueInfo("z", kFloat, {2, 2})}, constants})),
        inputs);
  };
  auto trips = [](int64_t count) {
    return std::vector<reference::Tensor>{tensor<int64_t>(DType::I64, {}, {count})};
  };
  const std::vector<Floats> twice = {{3, 6}, {2, 4, 3, 6}};
  expectFloats(result({}, trips(9), 5), twice);
  expectFloats(result({}, trips(2), 100), twice);
  expectFloats(result({integer("m", 9)}, {}, 5), twice);
  expectFloats(result({integer("m", 2)}, {}, 100), twice);
  for (const Result<std::vector<reference::Tensor>> &other :
       {result({}, trips(1), 5), result({}, trips(9), 7), result({}, trips(9), 3),
        result({integer("m", 9)}, {}, 7), result({integer("m", 9)}, {}, 3)}) {
    EXPECT_EQ(other.status().id(), ErrorId::RunConstraint);
  }
}

TEST_F(Loops, WhatDataDecidesIsAGapWithItsReason) {
  Messages data = {valueInfo("m", kInt64, {}), valueInfo("go", kBool, {})};
  Message byData = node("Loop", {"m", "", "x"}, {"y"}, {summing("c")});
  EXPECT_HAS(moduleOf(over({byData}, {"y"}, {}, data)),
             "its trip count is computed from input data");
  Messages constants = {integer("m", 3)};
  Message scanned = node("Loop", {"m", "go", "x"}, {"y", "z"}, {summing("c")});
  EXPECT_HAS(moduleOf(over({scanned}, {"y", "z"}, constants, {data[1]})),
             "data decides how long its scan outputs are");
  Messages nodes = {node("Flatten", {"a"}, {"b"})};
  Message deepening =
      node("Loop", {"m", "go", "x"}, {"y"}, {body(nodes, {"i", "c", "a"}, {"c", "b"})});
  EXPECT_HAS(moduleOf(over({deepening}, {"y"}, constants, {data[1]})), "they change the shape");
  Message ignored =
      node("Loop", {"m", "", "x"}, {"y"}, {summing("no", {}, {boolean("no", false)})});
  EXPECT_HAS(moduleOf(over({ignored}, {"y"}, constants)), "only with an input 'cond'");
}

TEST_F(Loops, TheLimitOnNodesNamesTheCount) {
  auto loop = [&](const std::string &trips) {
    return moduleOf(over({node("Loop", {trips, "yes", "x"}, {"y"}, {summing("c")})}, {"y"},
                         {integer("m", 9000), boolean("yes", true)}));
  };
  EXPECT_HAS(loop("m"), "it has 9000 iterations of 2 nodes; after 8192 of them");
  EXPECT_HAS(loop(""), "it has an unknown number of iterations of 2 nodes");
}

TEST_F(Loops, AGapInsideIsReportedOnce) {
  Messages nodes = {node("Strange", {"a"}, {"b"})};
  Messages constants = {integer("m", 3), boolean("yes", true)};
  Message loop = node("Loop", {"m", "yes", "x"}, {"y"}, {body(nodes, {"i", "c", "a"}, {"c", "b"})});
  Result<ImportResult> result = import(over({loop, node("Relu", {"y"}, {"r"})}, {"r"}, constants));
  ASSERT_TRUE(result) << result.status().toString();
  ASSERT_EQ(result->gaps.size(), 1u);
  EXPECT_EQ(result->gaps[0].opType, "Strange");
}

TEST_F(Loops, BodiesThatDoNotFitAreErrors) {
  Messages constants = {integer("m", 3)};
  Message few = node("Loop", {"m", "", "x"}, {"y"}, {body({}, {"i", "c"}, {"c", "x"})});
  EXPECT_HAS(moduleOf(over({few}, {"y"}, constants)), "TN0219");
  Message results =
      node("Loop", {"m", "", "x"}, {"y", "z"}, {body({}, {"i", "c", "a"}, {"c", "a"})});
  EXPECT_HAS(moduleOf(over({results}, {"y", "z"}, constants)), "fewer results");
  Message undefined = node("Loop", {"m", "", "x"}, {"y"}, {body({}, {"i", "c", "a"}, {"c", "q"})});
  EXPECT_HAS(moduleOf(over({undefined}, {"y"}, constants)), "nothing defines the result 'q'");
}

TEST_F(Loops, WeightsOfABodyAreStoredOnce) {
  Messages nodes = {node("MatMul", {"a", "w"}, {"b"})};
  Message loop =
      node("Loop", {"m", "", "x"}, {"y"},
           {body(nodes, {"i", "c", "a"}, {"c", "b"}, {floats("w", {16, 16}, Floats(256, 0.5f))})});
  std::string text = moduleOf(
      model(graph({{loop}, {valueInfo("x", kFloat, {1, 16})}, {named("y")}, {integer("m", 4)}})));
  EXPECT_HAS(text, "tn.weight");
  EXPECT_TRUE(store.find("w"));
  EXPECT_FALSE(store.find("w.1"));
}

//===--- Scan ---===//

TEST_F(Loops, ScanWalksAxesInBothDirections) {
  // x[3, 2] by columns backwards; the running sums are columns, filled from the end.
  Messages nodes = {node("Add", {"a", "e"}, {"b"}), node("Identity", {"b"}, {"s"})};
  Message scan = node("Scan", {"zero", "x"}, {"y", "z"},
                      {body(nodes, {"a", "e"}, {"b", "s"}), attrInt("num_scan_inputs", 1),
                       attrInts("scan_input_axes", {-1}), attrInts("scan_input_directions", {1}),
                       attrInts("scan_output_axes", {1}), attrInts("scan_output_directions", {1})});
  std::string text = model(graph({{scan},
                                  {valueInfo("x", kFloat, {3, 2})},
                                  namedAll({"y", "z"}),
                                  {floats("zero", {3}, {0, 0, 0})}}));
  expectFloats(run(text, {floatsOf({3, 2}, {1, 2, 3, 4, 5, 6})}),
               {{3, 7, 11}, {3, 2, 7, 4, 11, 6}});
}

TEST_F(Loops, ScanOfOpset8GoesThroughABatch) {
  Messages nodes = {node("Add", {"a", "e"}, {"b"}), node("Identity", {"b"}, {"s"})};
  Message scan = node("Scan", {"", "zero", "x"}, {"y", "z"},
                      {body(nodes, {"a", "e"}, {"b", "s"}), attrInt("num_scan_inputs", 1),
                       attrInts("directions", {1})});
  std::string text = model(graph({{scan},
                                  {valueInfo("x", kFloat, {2, 3, 1})},
                                  namedAll({"y", "z"}),
                                  {floats("zero", {2, 1}, {0, 10})}}),
                           8);
  expectFloats(run(text, {floatsOf({2, 3, 1}, {1, 2, 3, 4, 5, 6})}),
               {{6, 25}, {3, 5, 6, 16, 21, 25}});
}

TEST_F(Loops, ScanNeedsAKnownLength) {
  Messages nodes = {node("Add", {"a", "e"}, {"b"})};
  Message scan = node("Scan", {"zero", "x"}, {"y"},
                      {body(nodes, {"a", "e"}, {"b"}), attrInt("num_scan_inputs", 1)});
  std::string text = model(graph({{scan},
                                  {valueInfo("x", kFloat, {std::string("n"), 2})},
                                  {named("y")},
                                  {floats("zero", {2}, {0, 0})}}));
  EXPECT_HAS(moduleOf(text), "the scanned length is not a constant");
  ImportOptions options;
  options.shapes.push_back({"x", {{DimOverride::Kind::Constant, 2, 2}, {}}});
  expectFloats(run(text, {floatsOf({2, 2}, {1, 2, 3, 4})}, options), {{4, 6}});
}

} // namespace
} // namespace tenon::onnx::test
