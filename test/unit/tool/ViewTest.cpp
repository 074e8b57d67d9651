// The parts of tools/view by themselves: escapes, what is refused as a record, groups and drawings.

#include "tools/view/Escape.h"
#include "tools/view/Labels.h"
#include "tools/view/Layout.h"
#include "tools/view/Sizes.h"

#include <gtest/gtest.h>

#include <fmt/format.h>

#include <set>

namespace tenon::view {
namespace {

TEST(Escape, MakesHiddenCharactersVisible) {
  EXPECT_EQ(visible("a\x01\x1b[2J\x7f"), "a\\u0001\\u001B[2J\\u007F");
  EXPECT_EQ(visible("l\u202Er\u2066\u200B\uFEFF"), "l\\u202Er\\u2066\\u200B\\uFEFF");
  EXPECT_EQ(visible("größe 漢字 🙂"), "größe 漢字 🙂");
}

TEST(Escape, ReplacesWhatIsNoUtf8) {
  for (const char *text : {"\xff", "\xc0\x80", "\xed\xa0\x80", "\xf5\x80\x80\x80", "\xe6\xbc"}) {
    EXPECT_NE(visible(text).find("\xEF\xBF\xBD"), std::string::npos) << text;
  }
  EXPECT_EQ(visible("\xe6z"), "\xEF\xBF\xBDz");
}

TEST(Escape, KeepsNamesOutOfMarkup) {
  EXPECT_EQ(xml("</title><a b=\"c\" d='e'>&"),
            "&lt;/title&gt;&lt;a b=&quot;c&quot; d=&#39;e&#39;&gt;&amp;");
  EXPECT_EQ(scriptJson("</script><!--&"), "\"\\u003c/script\\u003e\\u003c!--\\u0026\"");
}

TEST(Escape, CountsReadWell) {
  EXPECT_EQ(countText(999), "999");
  EXPECT_EQ(countText(999'600), "1.00 M");
  EXPECT_EQ(countText(12'345'678), "12.3 M");
  EXPECT_EQ(countText(std::nullopt), "?");
}

TEST(Sizes, FormulasOfBothKindsAreEvaluated) {
  Sizes sizes = {{"n", 3}, {"n * 2", 50}, {"tokens", 128}};
  for (auto [formula, value] : std::initializer_list<std::pair<const char *, int64_t>>{
           {"7", 7},
           {"n * 4 + 2", 14},
           {"n * 2 + 1", 51},
           {"tokens - n", 125},
           {"ceil(tokens * 3 / 100) * 8", 32},
           {"floor((tokens - 1) / 2) + 1", 64},
           {"min(tokens, 100) + max(n, 9)", 109},
           {"(tokens + 1) mod 4", 1}}) {
    EXPECT_EQ(evaluate(formula, sizes), value) << formula;
  }
  for (const char *formula :
       {"", "k", "n *", "n n", "(n", "floor(n / 0)", "9223372036854775807 + n", "n * * n"}) {
    EXPECT_EQ(evaluate(formula, sizes), std::nullopt) << formula;
  }
  EXPECT_EQ(evaluate(std::string(5000, '(') + "1", sizes), std::nullopt);
}

TEST(Sizes, FollowFromTheDimsOfInputs) {
  Graph graph;
  graph.symbols = {{"batch", 1, 64, 1}, {"half", 1, 64, 64}, {"found", 0, 100, 100}};
  for (const char *dim : {"half * 2 + 1", "batch"}) {
    graph.inputs.push_back({dim, static_cast<int64_t>(graph.values.size())});
    graph.values.push_back({.kind = "input",
                            .name = dim,
                            .dtype = "f32",
                            .shape = std::vector<std::string>{"8", dim},
                            .bytes = {}});
  }
  Sizes sizes = sizesOf(graph, {{"half * 2 + 1", {8, 41}}, {"batch", {8, 5}}});
  EXPECT_EQ(sizes, (Sizes{{"batch", 5}, {"half", 20}, {"found", 100}}));
}

Json fusionRecord() {
  return parseJson(R"({"launch_us": 1, "sizes": [{"name": "n", "size": 100}],
    "regions": [{"cost": {"us": 21, "bytes": 1000, "work": 100, "bytes_us": 10, "work_us": 5},
                 "candidates": [{"us": 21}, {"us": 201}, {"us": 0}],
                 "other": {"us": 51, "bytes_us": 10, "work_us": 50},
                 "levels": {"fast": {"us": 11, "bytes_us": 10, "work_us": 1, "candidates": []}}},
                {"cost": {"us": 3, "bytes": 10, "work": 10, "bytes_us": 2, "work_us": 1}, "candidates": []}],
    "edges": [{"producerRegion": 0, "consumerRegion": 1, "apart": {"us": 24, "bytes": 1010, "work": 110},
               "fused": {"us": 12, "bytes": 505, "work": 110}}]})");
}

TEST(Sizes, TimesFollowBytesOrOperationsAndKeepTheStartOfTheKernel) {
  Json fusion = fusionRecord();
  Json placement = parseJson(R"({"instructions": [
    {"region": 0, "bytes_moved": "n * 10", "flops": "n * n"}, {"bytes_moved": "5"},
    {"region": 1, "bytes_moved": "10", "flops": "10"}]})");
  setSizes(fusion, placement, {{"n", 200}});
  const Json &cost = fusion["regions"][0]["cost"];
  // 10 us of bytes become 20, 5 us of operations 20; the kernel takes twice what these do.
  EXPECT_EQ(cost["us"], 41);
  EXPECT_EQ(cost["bytes"], 2000);
  EXPECT_EQ(fusion["regions"][0]["candidates"][1]["us"], 401);
  EXPECT_EQ(fusion["regions"][0]["candidates"][2]["us"], 0) << "a refusal has no time";
  EXPECT_EQ(fusion["regions"][0]["other"]["us"], 201)
      << "bound by operations, which are 4 times as many";
  EXPECT_EQ(fusion["regions"][1]["cost"]["us"], 3);
  EXPECT_EQ(fusion["edges"][0]["apart"]["us"], 44);
  EXPECT_EQ(fusion["edges"][0]["fused"]["us"], 22);
  EXPECT_EQ(fusion["sizes"][0]["size"], 200);
  EXPECT_EQ(fusion["decided_at"][0]["size"], 100);
  Json same = fusionRecord();
  setSizes(same, placement, {{"n", 100}});
  EXPECT_EQ(same, fusionRecord());
}

TEST(Sizes, MeasuredTimesLieBetweenTheirNeighbours) {
  Json placement =
      parseJson(R"({"instructions": [{"region": 0, "bytes_moved": "n", "flops": "1"}]})");
  auto timeAt = [&](int64_t n) {
    Json fusion = parseJson(R"({"launch_us": 1, "sizes": [{"name": "n", "size": 100}], "edges": [],
      "regions": [{"cost": {"us": 2, "bytes": 100, "work": 1, "bytes_us": 1, "work_us": 1},
                   "measured": [[1000, 2], [3000, 3], [9000, 9]],
                   "candidates": [{"us": 2, "verdict": "chosen"}, {"us": 0, "verdict": "refused"}]}]})");
    setSizes(fusion, placement, {{"n", n}});
    const Json &region = fusion["regions"][0];
    EXPECT_EQ(region["candidates"][0]["us"], region["cost"]["us"]);
    EXPECT_EQ(region["candidates"][1]["us"], 0);
    return region["cost"]["us"].get<double>();
  };
  EXPECT_EQ(timeAt(10), 2) << "that of the smallest";
  EXPECT_EQ(timeAt(100), 2);
  EXPECT_EQ(timeAt(200), 2.5);
  EXPECT_EQ(timeAt(300), 3);
  EXPECT_EQ(timeAt(600), 6);
  EXPECT_EQ(timeAt(1800), 18) << "by bytes";
}

TEST(Sizes, LevelsHaveTimesOfTheirOwn) {
  Json fusion = fusionRecord();
  setLevel(fusion, "fast", "slow");
  const Json &region = fusion["regions"][0];
  EXPECT_EQ(region["cost"]["us"], 11);
  EXPECT_EQ(region["cost"]["work_us"], 1);
  EXPECT_TRUE(region["candidates"].empty());
  EXPECT_EQ(region["other"]["us"], 51) << "what the level says nothing of stays";
  EXPECT_EQ(fusion["edges"][0]["apart"]["us"], 14);
  EXPECT_EQ(fusion["edges"][0]["fused"]["us"], 2);
  EXPECT_EQ(fusion["decided_on"], "slow");
  Json slow = fusionRecord();
  setLevel(slow, "slow", "slow");
  EXPECT_EQ(slow["regions"][0]["cost"]["us"], 21);
  EXPECT_FALSE(slow.contains("decided_on"));
  EXPECT_FALSE(slow["regions"][0].contains("levels"));
}

TEST(Labels, SayWhatAndWhere) {
  Graph graph;
  auto value = [&](std::vector<std::string> shape) {
    graph.values.push_back(
        {.kind = "parameter", .name = "", .dtype = "f32", .shape = std::move(shape), .bytes = {}});
    return static_cast<int64_t>(graph.values.size()) - 1;
  };
  Node conv{.op = "conv", .name = "/stem/stem.0/Conv", .from = {"Conv"}};
  conv.inputs = {value({"n", "3", "8", "8"}), value({"64", "3", "3", "5"})};
  EXPECT_EQ(whereOf(conv) + "|" + whatOf(graph, conv), "stem.0|conv 3x5, 64");
  conv.name = "/stem/project";
  EXPECT_EQ(whereOf(conv), "project");
  conv.name = "Conv_12";
  conv.inputs = {-1};
  EXPECT_EQ(whereOf(conv) + "|" + whatOf(graph, conv), "|conv");
  Node product{.op = "matmul", .name = "query", .from = {"Gemm"}};
  product.outputs = {value({"n", "768"})};
  EXPECT_EQ(whereOf(product) + "|" + whatOf(graph, product), "query|matmul, 768");
  EXPECT_STREQ(familyOf(product), "product");
}

std::string record(std::string_view nodes, std::string_view values) {
  return fmt::format(R"({{"schema": "tenon.graph/1", "symbols": [], "inputs": ["x"], "outputs": [],
                         "values": [{}], "nodes": [{}]}})",
                     values, nodes);
}

constexpr const char *kInput = R"({"kind": "input", "name": "x", "dtype": "f32", "shape": [1]})";
constexpr const char *kResult = R"({"kind": "node", "node": 0, "dtype": "f32", "shape": [1]})";

std::string node(int input, int output) {
  return fmt::format(
      R"({{"op": "relu", "name": "", "inputs": [{}], "outputs": [{}], "flops": 1, "bytes": 8}})",
      input, output);
}

TEST(ReadGraph, RefusesWhatPointsNowhere) {
  std::string values = fmt::format("{}, {}", kInput, kResult);
  EXPECT_TRUE(readGraph(record(node(0, 1), values)));
  for (auto [input, output] : {std::pair(2, 1), {-2, 1}, {0, 0}, {0, 2}, {1, 1}, {0, -1}}) {
    EXPECT_FALSE(readGraph(record(node(input, output), values))) << input << " " << output;
  }
  EXPECT_FALSE(readGraph(record(node(0, 1), kResult)));
  for (const char *text : {"", "[]", "{}", "{\"schema\": \"tenon.graph/2\"}", "{\"schema\": 1}"}) {
    EXPECT_FALSE(readGraph(text)) << text;
  }
}

/// Chains of pairs in modules; node i also reads node i - 7 and the only input.
Graph sample(int64_t count) {
  Graph graph;
  graph.values.push_back(
      {.kind = "input", .name = "x", .dtype = "f32", .shape = std::nullopt, .bytes = {}});
  graph.inputs.push_back({"x", 0});
  for (int64_t i = 0; i < count; ++i) {
    Node node;
    node.op = "add";
    node.module = fmt::format("a{}/b{}/c{}", i / 200, i / 20, i / 4);
    node.inputs = {i, i < 7 ? 0 : i - 6, 0};
    node.outputs = {i + 1};
    graph.nodes.push_back(std::move(node));
    graph.values.push_back({.kind = "node",
                            .name = "",
                            .dtype = "f32",
                            .shape = std::nullopt,
                            .node = i,
                            .bytes = {}});
  }
  graph.outputs.push_back({"y", count});
  addGroups(graph);
  return graph;
}

TEST(Groups, ParentsComeFirstAndNoGroupIsLong) {
  for (int64_t count : {3, 90, 3000}) {
    Graph graph = sample(count);
    std::vector<size_t> held(graph.groups.size());
    for (size_t i = 0; i < graph.groups.size(); ++i) {
      ASSERT_LT(graph.groups[i].parent, static_cast<int64_t>(i));
      if (graph.groups[i].parent >= 0) {
        ++held[graph.groups[i].parent];
      }
    }
    for (const Node &node : graph.nodes) {
      ASSERT_GE(node.group, 0);
      ++held[node.group];
    }
    for (size_t children : held) {
      EXPECT_GE(children, 1u);
      EXPECT_LE(children, 60u);
    }
  }
}

TEST(Groups, ANamelessModelFallsIntoParts) {
  Graph graph = sample(500);
  graph.groups.clear();
  for (Node &node : graph.nodes) {
    node.module.clear();
    node.group = -1;
  }
  addGroups(graph);
  ASSERT_EQ(graph.groups.size(), 21u);
  EXPECT_EQ(graph.groups[0].kind, "part");
}

bool isInside(const Box &inner, const Box &outer) {
  return inner.x >= outer.x && inner.y >= outer.y &&
         inner.x + inner.width <= outer.x + outer.width &&
         inner.y + inner.height <= outer.y + outer.height;
}

bool isApart(const Box &a, const Box &b) {
  return a.x + a.width <= b.x || b.x + b.width <= a.x || a.y + a.height <= b.y ||
         b.y + b.height <= a.y;
}

TEST(Layout, BoxesAreInsideOfTheirGroupsOrApart) {
  Graph graph = sample(300);
  for (size_t most : {size_t(0), size_t(40), size_t(10000)}) {
    Layout layout = layOut(graph, chooseOpen(graph, most));
    for (size_t i = 0; i < layout.boxes.size(); ++i) {
      EXPECT_TRUE(isInside(layout.boxes[i], {.width = layout.width, .height = layout.height}));
      for (size_t j = 0; j < i; ++j) {
        const Box &a = layout.boxes[j], &b = layout.boxes[i];
        ASSERT_TRUE(isApart(a, b) || (a.isOpen && isInside(b, a))) << j << " " << i;
      }
    }
    // Nothing reads what comes behind it, so every line goes down all the way.
    for (const std::vector<Point> &line : layout.lines) {
      for (size_t i = 1; i < line.size(); ++i) {
        ASSERT_LE(line[i - 1].y, line[i].y);
      }
    }
  }
}

TEST(Layout, ACycleOfGroupsIsDrawn) {
  Graph graph = sample(8);
  for (size_t i = 0; i < 8; ++i) {
    graph.nodes[i].module = i % 2 == 0 ? "even" : "odd";
    graph.nodes[i].group = -1;
  }
  graph.groups.clear();
  addGroups(graph);
  Layout layout = layOut(graph, std::vector<bool>(2));
  EXPECT_EQ(layout.boxes.size(), 4u);
  EXPECT_EQ(layout.lines.size(), 5u);
  EXPECT_EQ(layOut(graph, {true, true}).boxes.size(), 12u);
}

TEST(Layout, ManyNodesAreQuick) {
  Graph graph = sample(3000);
  Layout layout = layOut(graph, std::vector<bool>(graph.groups.size(), true));
  EXPECT_EQ(layout.boxes.size(), 3002 + graph.groups.size());
}

} // namespace
} // namespace tenon::view
