// Selections by whole blocks, at sizes that one pass of the threads does and does not hold, with
// scores that are equal or no numbers. The table of test/ops has the ops themselves.
#include "test/unit/codegen/emulator/HandKernelCheck.h"

#include "llvm/Support/FormatVariadic.h"

#include <limits>

namespace tenon::codegen::cuda {
namespace {

const Emitter emitSelection = byFamily({"selection"});

using llvm::formatv;
using reference::Tensor;

template <typename T> llvm::MutableArrayRef<T> elementsOf(Tensor &tensor) {
  return {tensor.as<T>(), static_cast<size_t>(tensor.count())};
}

constexpr char kSymbols[] = R"(#tn.symbol<"s0", 0, 8192>)";

std::string truePositions() {
  return regionText("single",
                    "(%x: tensor<?xi1, #tn.shape<()[s0] -> (s0)>>) -> "
                    "(tensor<?xi64, #tn.shape<()[s0] -> (s0)>>, tensor<i64>)",
                    "%0:2 = tn.true_positions %x : (tensor<?xi1, #tn.shape<()[s0] -> (s0)>>) -> "
                    "(tensor<?xi64, #tn.shape<()[s0] -> (s0)>>, tensor<i64>)\n"
                    "return %0#0, %0#1 : tensor<?xi64, #tn.shape<()[s0] -> (s0)>>, tensor<i64>",
                    kSymbols);
}

TEST(TruePositions, OfAnyNumberOfElements) {
  for (int64_t count : {0, 1, 31, 511, 512, 513, 5000}) {
    for (bool reversed : {false, true}) {
      EXPECT_TRUE(matchesReference(truePositions(), emitSelection, {count}, 2, reversed)) << count;
    }
  }
}

TEST(TruePositions, AllAndNone) {
  for (bool all : {false, true}) {
    RunOptions options;
    options.symbols = {1025};
    options.edit = [all](llvm::MutableArrayRef<Tensor> inputs) {
      for (uint8_t &value : elementsOf<uint8_t>(inputs[0])) {
        value = all;
      }
    };
    EXPECT_TRUE(matchesReference(truePositions(), emitSelection, options));
  }
}

/// Of two batches and two classes, at most `places` of s0 boxes each.
std::string selectBoxes(const char *element, int64_t places) {
  std::string boxes = formatv("tensor<2x?x4x{0}, #tn.shape<()[s0] -> (2, s0, 4)>>", element);
  std::string scores = formatv("tensor<2x2x?x{0}, #tn.shape<()[s0] -> (2, 2, s0)>>", element);
  std::string isIn = "tensor<2x2x?xi1, #tn.shape<()[s0] -> (2, 2, s0)>>";
  std::string result = formatv("tensor<2x2x{0}xi64>", places);
  std::string types = formatv("({0}, {1}, {2}, tensor<i64>, tensor<{3}>) -> {4}", boxes, scores,
                              isIn, element, result);
  return regionText(
      "single",
      formatv("(%b: {0}, %s: {1}, %c: {2}, %l: tensor<i64>, %o: tensor<{3}>) -> {4}", boxes, scores,
              isIn, element, result),
      "%0 = tn.select_boxes %b, %s, %c, %l, %o : " + types + "\nreturn %0 : " + result, kSymbols);
}

/// Boxes of sides from 1 to 5 whose lower corners lie on a grid, scores of few values.
template <typename T> void fillBoxes(llvm::MutableArrayRef<Tensor> inputs, int64_t limit) {
  size_t i = 0;
  for (T &value : elementsOf<T>(inputs[0])) {
    size_t box = i / 4, side = i % 4;
    size_t low = (box * 7 + side % 2 * 3) % 40;
    value = static_cast<T>(side < 2 ? low : low + 1 + box % 5);
    ++i;
  }
  i = 0;
  for (T &value : elementsOf<T>(inputs[1])) {
    value = static_cast<T>((i++ * 37) % 11);
  }
  inputs[3].as<int64_t>()[0] = limit;
  inputs[4].as<T>()[0] = static_cast<T>(0.3);
}

template <typename T> RunOptions boxOptions(int64_t count, int64_t limit) {
  RunOptions options;
  options.symbols = {count};
  options.edit = [=](llvm::MutableArrayRef<Tensor> inputs) { fillBoxes<T>(inputs, limit); };
  return options;
}

TEST(SelectBoxes, OfAnyNumberOfBoxes) {
  for (auto [count, limit] :
       {std::pair(0, 3), {1, 3}, {1100, 100}, {600, 3}, {600, 0}, {600, -1}}) {
    EXPECT_TRUE(
        matchesReference(selectBoxes("f32", 20), emitSelection, boxOptions<float>(count, limit)))
        << count << " boxes, " << limit;
  }
  EXPECT_TRUE(matchesReference(selectBoxes("f64", 20), emitSelection, boxOptions<double>(600, 20)));
}

TEST(SelectBoxes, ScoresThatAreNoNumbers) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN(),
                  kInfinity = std::numeric_limits<float>::infinity();
  RunOptions options = boxOptions<float>(600, 20);
  options.edit = [](llvm::MutableArrayRef<Tensor> inputs) {
    fillBoxes<float>(inputs, 20);
    size_t i = 0;
    for (float &score : elementsOf<float>(inputs[1])) {
      score = i % 600 < 3 || i % 5 == 0 ? kNan : i % 7 == 0 ? -kInfinity : score;
      ++i;
    }
  };
  EXPECT_TRUE(matchesReference(selectBoxes("f32", 20), emitSelection, options));
}

} // namespace
} // namespace tenon::codegen::cuda
