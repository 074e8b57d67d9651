// Selections by keys, sorts, and softmax across rows: orders with ties, NaN and both zeros, counts
// beside a vector's lanes, and columns beside a strip's.
#include "test/unit/codegen/RegionCheck.h"

#include <cmath>

namespace tenon::codegen::cpu {
namespace {

std::string topKText(const std::string &from, const std::string &values, const std::string &indices,
                     int axis, bool largest) {
  return kernelText("single", "(%a: " + from + ") -> (" + values + ", " + indices + ")",
                    "%0, %1 = tn.top_k %a {axis = " + std::to_string(axis) + " : i64, largest = " +
                        (largest ? "true" : "false") + ", sorted = true} : (" + from + ") -> (" +
                        values + ", " + indices + ")\nreturn %0, %1 : " + values + ", " + indices);
}

std::string ofShape(int64_t rows, int64_t length, const std::string &type) {
  return "tensor<" + std::to_string(rows) + "x" + std::to_string(length) + "x" + type + ">";
}

testing::AssertionResult
selects(int64_t length, int64_t count, const std::string &type, bool largest,
        llvm::function_ref<void(std::vector<reference::Tensor> &)> change = {}) {
  return matchesReference(topKText(ofShape(3, length, type), ofShape(3, count, type),
                                   ofShape(3, count, "i64"), 1, largest),
                          {}, 2, 0, change);
}

TEST(RowsTest, SelectionsByKeys) {
  for (bool largest : {true, false}) {
    for (int64_t count : {1, 7, 8, 9, 33, 64, 65, 100, 777}) {
      EXPECT_TRUE(selects(777, count, "f32", largest)) << count;
    }
    for (const char *type : {"f16", "bf16", "i32", "ui32"}) {
      EXPECT_TRUE(selects(300, 5, type, largest)) << type;
      EXPECT_TRUE(selects(300, 300, type, largest)) << type;
    }
    EXPECT_TRUE(selects(1, 1, "f32", largest));
    EXPECT_TRUE(selects(5, 5, "f32", largest));
  }
}

TEST(RowsTest, SelectionsOfTiesAndSpecials) {
  const float specials[] = {NAN, 0.0f, -0.0f, INFINITY, -INFINITY, 1, 1, -1, -NAN, 1e-40f};
  for (bool largest : {true, false}) {
    for (int64_t count : {4, 40, 200}) {
      EXPECT_TRUE(selects(200, count, "f32", largest, [&](auto &inputs) {
        for (int64_t i = 0; i < inputs[0].count(); ++i) {
          inputs[0].template as<float>()[i] = specials[i * 7 % 13 % 10];
        }
      })) << count;
    }
  }
}

TEST(RowsTest, SelectionsAlongOuterDims) {
  for (int64_t count : {3, 40}) {
    std::string rows = std::to_string(count);
    EXPECT_TRUE(matchesReference(topKText("tensor<2x40x5xf32>", "tensor<2x" + rows + "x5xf32>",
                                          "tensor<2x" + rows + "x5xi64>", 1, true)));
  }
}

TEST(RowsTest, SoftmaxAcrossRows) {
  for (const char *log : {"", ", log"}) {
    for (const char *type : {"3x17x5xf32", "1x100x513xf32", "40x1xf32", "1x7x1040xf32",
                             "2x9x33xf16", "2x30x16xbf16"}) {
      std::string tensor = "tensor<" + std::string(type) + ">";
      std::string axis = std::string(type).starts_with("40x") ? "0" : "1";
      EXPECT_TRUE(
          matchesReference(kernelText("rows", "(%x: " + tensor + ") -> " + tensor,
                                      "%0 = tn.softmax %x {axis = " + axis + " : i64" + log +
                                          "} : " + tensor + "\nreturn %0 : " + tensor),
                           {}, 3))
          << type << log;
    }
  }
  std::string dynamic = "tensor<?x?x?xf32, #tn.shape<()[s0, s1, s2] -> (s0, s1, s2)>>";
  std::string text = kernelText(
      "rows", "(%x: " + dynamic + ") -> " + dynamic,
      "%0 = tn.softmax %x {axis = 1 : i64} : " + dynamic + "\nreturn %0 : " + dynamic,
      "#tn.symbol<\"s0\", 0, 8>, #tn.symbol<\"s1\", 0, 512>, #tn.symbol<\"s2\", 0, 2048>");
  for (std::vector<int64_t> sizes :
       {std::vector<int64_t>{2, 9, 700}, {1, 1, 1}, {3, 8, 16}, {0, 4, 5}, {2, 0, 5}, {2, 4, 0}}) {
    EXPECT_TRUE(matchesReference(text, sizes, 2));
  }
}

} // namespace
} // namespace tenon::codegen::cpu
