// Tests gather, scatter and top-k on small tensors, and that no index leaves its dim.
// Relies on negative indices counting from the end.
#include "ReferenceFixture.h"

#include <limits>

using namespace tenon;
using namespace tenon::reference;

namespace {

const Tensor &six() {
  static const Tensor tensor = floats({3, 2}, {1, 2, 3, 4, 5, 6});
  return tensor;
}
Tensor indices(std::vector<int64_t> dims, const std::vector<double> &values) {
  return make(DType::I64, std::move(dims), values);
}

TEST_F(ReferenceTest, Gathers) {
  expectTensor(evaluate("tn.gather %0, %1 {axis = 0 : i64}", {six(), indices({2, 1}, {-1, 0})},
                        "tensor<2x1x2xf32>"),
               {2, 1, 2}, {5, 6, 1, 2});
  expectTensor(evaluate("tn.gather %0, %1 {axis = 1 : i64}",
                        {six(), make(DType::I32, {3}, {1, 1, 0})}, "tensor<3x3xf32>"),
               {3, 3}, {2, 2, 1, 4, 4, 3, 6, 6, 5});
  expectTensor(evaluate("tn.gather_elements %0, %1 {axis = 0 : i64}",
                        {six(), indices({2, 2}, {2, 0, -3, 1})}, "tensor<2x2xf32>"),
               {2, 2}, {5, 2, 1, 4});
  expectTensor(evaluate("tn.gather_nd %0, %1 {batchDims = 0 : i64}",
                        {six(), indices({2, 2}, {2, 1, 0, -1})}, "tensor<2xf32>"),
               {2}, {6, 2});
  expectTensor(evaluate("tn.gather_nd %0, %1 {batchDims = 1 : i64}",
                        {six(), indices({3, 1}, {1, 0, 1})}, "tensor<3xf32>"),
               {3}, {2, 3, 6});
  expectTensor(evaluate("tn.gather_nd %0, %1 {batchDims = 0 : i64}", {six(), indices({1, 1}, {1})},
                        "tensor<1x2xf32>"),
               {1, 2}, {3, 4});
}

TEST_F(ReferenceTest, Scatters) {
  Tensor at = indices({2, 2}, {0, 2, 0, -1});
  Tensor updates = floats({2, 2}, {10, 20, 30, 40});
  auto scatter = [&](const char *kind) {
    return evaluate(std::string("tn.scatter_elements <") + kind + "> %0, %1, %2 {axis = 0 : i64}",
                    {six(), at, updates}, "tensor<3x2xf32>");
  };
  expectTensor(scatter("none"), {3, 2}, {30, 2, 3, 4, 5, 40});
  expectTensor(scatter("add"), {3, 2}, {41, 2, 3, 4, 5, 66});
  expectTensor(scatter("mul"), {3, 2}, {300, 2, 3, 4, 5, 4800});
  expectTensor(scatter("max"), {3, 2}, {30, 2, 3, 4, 5, 40});
  expectTensor(scatter("min"), {3, 2}, {1, 2, 3, 4, 5, 6});
  expectTensor(evaluate("tn.scatter_nd <add> %0, %1, %2",
                        {six(), indices({2, 1}, {1, 1}), floats({2, 2}, {1, 2, 3, 4})},
                        "tensor<3x2xf32>"),
               {3, 2}, {1, 2, 7, 10, 5, 6});
  expectTensor(evaluate("tn.scatter_nd <none> %0, %1, %2",
                        {six(), indices({1, 2}, {-1, -1}), floats({1}, {9})}, "tensor<3x2xf32>"),
               {3, 2}, {1, 2, 3, 4, 5, 9});
}

TEST_F(ReferenceTest, NoIndexLeavesItsDim) {
  const double bad[] = {3, -4, 9223372036854775807.0, -9223372036854775808.0};
  for (double index : bad) {
    EXPECT_EQ(errorOf("tn.gather %0, %1 {axis = 0 : i64}", {six(), indices({1}, {index})},
                      "tensor<1x2xf32>"),
              ErrorId::RunIndexOutOfRange);
    EXPECT_EQ(errorOf("tn.gather_elements %0, %1 {axis = 0 : i64}",
                      {six(), indices({1, 1}, {index})}, "tensor<1x1xf32>"),
              ErrorId::RunIndexOutOfRange);
    EXPECT_EQ(errorOf("tn.gather_nd %0, %1 {batchDims = 0 : i64}",
                      {six(), indices({1, 1}, {index})}, "tensor<1x2xf32>"),
              ErrorId::RunIndexOutOfRange);
    EXPECT_EQ(errorOf("tn.scatter_elements <add> %0, %1, %2 {axis = 0 : i64}",
                      {six(), indices({1, 1}, {index}), floats({1, 1}, {1})}, "tensor<3x2xf32>"),
              ErrorId::RunIndexOutOfRange);
    EXPECT_EQ(errorOf("tn.scatter_nd <none> %0, %1, %2",
                      {six(), indices({1, 1}, {index}), floats({1, 2}, {1, 1})}, "tensor<3x2xf32>"),
              ErrorId::RunIndexOutOfRange);
  }
}

TEST_F(ReferenceTest, TopK) {
  auto topK = [&](const Tensor &x, const char *type, const char *axis, const char *largest,
                  const char *values, const char *places) {
    std::string text = std::string("func.func @f(%0: ") + type + ") -> (" + values + ", " + places +
                       ") { %y:2 = tn.top_k %0 {axis = " + axis + " : i64, largest = " + largest +
                       ", sorted = true} : (" + type + ") -> (" + values + ", " + places +
                       ")\nreturn %y#0, %y#1 : " + values + ", " + places + " }";
    mlir::OwningOpRef<mlir::ModuleOp> module = parse(text);
    return *run(*module, x);
  };
  double nan = std::numeric_limits<double>::quiet_NaN();
  std::vector<Tensor> rows = topK(floats({2, 4}, {1, 3, 3, 2, 4, nan, 0, 9}), "tensor<2x4xf32>",
                                  "1", "true", "tensor<2x3xf32>", "tensor<2x3xi64>");
  expectTensor(rows[0], {2, 3}, {3, 3, 2, nan, 9, 4});
  expectTensor(rows[1], {2, 3}, {1, 2, 3, 1, 3, 0});
  std::vector<Tensor> columns =
      topK(make(DType::I32, {3, 2}, {5, 1, 4, 2, 3, 3}), "tensor<3x2xi32>", "0", "false",
           "tensor<2x2xi32>", "tensor<2x2xi64>");
  expectTensor(columns[0], {2, 2}, {3, 1, 4, 2});
  expectTensor(columns[1], {2, 2}, {2, 0, 1, 1});
}

TEST_F(ReferenceTest, FindsWhatIsTrue) {
  std::string list =
      "-> (tensor<5xi64>, tensor<i64>) {\n"
      "  %p, %n = tn.true_positions %x : (tensor<5xi1>) -> (tensor<5xi64>, tensor<i64>)\n"
      "  return %p, %n : tensor<5xi64>, tensor<i64>\n}";
  mlir::OwningOpRef<mlir::ModuleOp> module = parse("func.func @f(%x: tensor<5xi1>) " + list);
  ASSERT_TRUE(module) << message;
  Result<std::vector<Tensor>> found = run(*module, {make(DType::Bool, {5}, {0, 1, 1, 0, 1})});
  ASSERT_TRUE(found) << found.status().toString();
  expectTensor((*found)[0], {5}, {1, 2, 4, 0, 0});
  expectTensor((*found)[1], {}, {3});
}

/// The symbol that data decides is known to all that follows, also where no value leads to it.
TEST_F(ReferenceTest, DataDecidesASize) {
  mlir::OwningOpRef<mlir::ModuleOp> module = parse(R"(
    module attributes {tn.symbols = [#tn.symbol<"k", 0, 3>]} {
      func.func @f(%x: tensor<3x2xf32>, %n: tensor<i64>, %one: tensor<f32>)
          -> (tensor<?x2xf32, #tn.shape<()[s0] -> (s0, 2)>>, tensor<?xf32, #tn.shape<()[s0] -> (s0)>>) {
        %0 = tn.take_first %x, %n : (tensor<3x2xf32>, tensor<i64>) -> tensor<?x2xf32, #tn.shape<()[s0] -> (s0, 2)>>
        %1 = tn.broadcast %one : (tensor<f32>) -> tensor<?xf32, #tn.shape<()[s0] -> (s0)>>
        return %0, %1 : tensor<?x2xf32, #tn.shape<()[s0] -> (s0, 2)>>, tensor<?xf32, #tn.shape<()[s0] -> (s0)>>
      }
    })");
  ASSERT_TRUE(module) << message;
  for (int64_t count : {0, 2, 3}) {
    Result<std::vector<Tensor>> taken =
        run(*module, {six(), indices({}, {double(count)}), floats({}, {7})});
    ASSERT_TRUE(taken) << taken.status().toString();
    std::vector<double> expected = {1, 2, 3, 4, 5, 6};
    expected.resize(2 * count);
    expectTensor((*taken)[0], {count, 2}, expected);
    expectTensor((*taken)[1], {count}, std::vector<double>(count, 7));
  }
  EXPECT_FALSE(run(*module, {six(), indices({}, {4}), floats({}, {7})}));
}

TEST_F(ReferenceTest, SelectsBoxes) {
  // The second overlaps the first by 81 of 119; the third stands apart; the fourth is no candidate.
  Tensor boxes = floats({1, 4, 4}, {0, 0, 10, 10, 1, 1, 11, 11, 20, 20, 30, 30, 0, 0, 10, 10});
  Tensor scores = floats({1, 1, 4}, {0.5, 0.9, 0.9, 1});
  Tensor candidates = make(DType::Bool, {1, 1, 4}, {1, 1, 1, 0});
  auto select = [&](double limit, double overlap) {
    return evaluate("tn.select_boxes %0, %1, %2, %3, %4",
                    {boxes, scores, candidates, indices({}, {limit}), floats({}, {overlap})},
                    "tensor<1x1x3xi64>");
  };
  expectTensor(select(3, 0.5), {1, 1, 3}, {1, 2, -1});
  expectTensor(select(3, 0.7), {1, 1, 3}, {1, 2, 0});
  expectTensor(select(1, 0.7), {1, 1, 3}, {1, -1, -1});
  expectTensor(select(0, 0.7), {1, 1, 3}, {-1, -1, -1});
}

} // namespace
