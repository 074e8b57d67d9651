// Every kind of contraction × channel, row and column counts of 1, 2 and 3 × bias × what stands
// behind it: one-element weights and biases are constants of the module, which no kernel may ask
// for a buffer.
#include "runtime/device/cpu/CpuFeatures.h"
#include "test/random/Oracle.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <unistd.h>

namespace tenon::random {
namespace {

using namespace onnx::test;

/// A graph of many contractions side by side.
class Table {
public:
  std::string input(std::vector<int64_t> dims) {
    std::string name = "x";
    for (int64_t dim : dims) {
      name += "_" + std::to_string(dim);
    }
    for (const Port &port : model.inputs) {
      if (port.value.name == name) {
        return name;
      }
    }
    model.inputs.push_back({{name, DType::F32, {dims.begin(), dims.end()}, dims}, {}});
    parts.inputs.push_back(valueInfo(name, kFloat, {dims.begin(), dims.end()}));
    return name;
  }

  std::string weight(std::vector<int64_t> dims) {
    int64_t count = 1;
    for (int64_t dim : dims) {
      count *= dim;
    }
    std::string name = fresh();
    std::string bytes = encode(DType::F32, elementsOf(draw, DType::F32, count, {}));
    parts.initializers.push_back(rawTensor(name, kFloat, dims, bytes));
    return name;
  }

  /// A node, and one of several things behind it in turn.
  void add(const char *op, std::vector<std::string> operands, std::vector<Message> attributes,
           std::vector<int64_t> result) {
    std::string y = node(op, operands, attributes);
    switch (made++ % 4) {
    case 1:
      y = node("Relu", {y}, {});
      break;
    case 2:
      y = node("Add", {y, input(result)}, {});
      break;
    case 3:
      y = node("Mul", {y, weight({1})}, {});
      break;
    default:
      break;
    }
    parts.outputs.push_back(Message().text(1, y));
    model.outputs.push_back(y);
  }

  Model finish() {
    model.bytes = onnx::test::model(graph(parts), 17);
    return model;
  }

private:
  std::string fresh() { return "v" + std::to_string(next++); }
  std::string node(const char *op, std::vector<std::string> operands,
                   std::vector<Message> attributes) {
    std::string name = fresh();
    parts.nodes.push_back(onnx::test::node(op, operands, {name}, attributes));
    return name;
  }

  Random draw{1};
  GraphParts parts;
  Model model;
  int next = 0, made = 0;
};

/// With a bias of that length, in two of three calls.
std::vector<std::string> withBias(Table &table, std::vector<std::string> operands, int64_t length,
                                  int number) {
  if (number % 3 != 0) {
    operands.push_back(table.weight({length}));
  }
  return operands;
}

void addConvolutions(Table &table) {
  int number = 0;
  for (int64_t out : {1, 2, 3}) {
    for (int64_t in : {1, 3}) {
      for (int64_t kernel : {1, 3}) {
        std::string x = table.input({1, in, 5, 3});
        table.add(
            "Conv", withBias(table, {x, table.weight({out, in, kernel, kernel})}, out, number++),
            {attrInts("pads", {kernel / 2, kernel / 2, kernel / 2, kernel / 2})}, {1, out, 5, 3});
        table.add("ConvTranspose",
                  withBias(table, {x, table.weight({in, out, kernel, kernel})}, out, number++),
                  {attrInts("pads", {kernel / 2, kernel / 2, kernel / 2, kernel / 2})},
                  {1, out, 5, 3});
      }
    }
    table.add("Conv",
              withBias(table, {table.input({2, out, 7}), table.weight({out, 1, 1})}, out, number++),
              {attrInt("group", out)}, {2, out, 7});
  }
}

void addProducts(Table &table) {
  int number = 0;
  for (int64_t columns : {1, 2, 3}) {
    for (int64_t depth : {1, 3}) {
      for (int64_t rows : {1, 2}) {
        std::string a = table.input({rows, depth});
        table.add("MatMul", {a, table.weight({depth, columns})}, {}, {rows, columns});
        table.add("MatMul", {table.weight({rows, depth}), table.input({depth, columns})}, {},
                  {rows, columns});
        table.add("MatMul", {table.input({2, rows, depth}), table.weight({1, depth, columns})}, {},
                  {2, rows, columns});
        table.add("Gemm", withBias(table, {a, table.weight({columns, depth})}, columns, number++),
                  {attrInt("transB", 1)}, {rows, columns});
      }
    }
  }
}

void check(Table &table) {
  std::optional<engine::CpuLevel> best = runtime::bestCpuLevel();
  ASSERT_TRUE(best);
  OracleOptions options{.levels = {*best},
                        .gpus = {},
                        .scratchFolder =
                            testing::TempDir() + "tenon-table-" + std::to_string(getpid()),
                        .dumpFolder = "",
                        .fault = ""};
  std::filesystem::create_directories(options.scratchFolder);
  Outcome outcome = checkModel(table.finish(), 3, options);
  EXPECT_EQ(Verdict::Same, outcome.verdict) << outcome.text;
  std::filesystem::remove_all(options.scratchFolder);
}

TEST(ContractionTableTest, Convolutions) {
  Table table;
  addConvolutions(table);
  check(table);
}

TEST(ContractionTableTest, Products) {
  Table table;
  addProducts(table);
  check(table);
}

} // namespace
} // namespace tenon::random
