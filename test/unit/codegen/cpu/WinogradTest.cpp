// Convolutions of 3 x 3 by Winograd's filtering, over two and three dims, with every epilogue.
#include "test/unit/codegen/PackedText.h"
#include "test/unit/codegen/RegionCheck.h"

#include "llvm/Support/FormatVariadic.h"

namespace tenon::codegen::cpu {
namespace {

struct WinogradCase {
  std::string in, out; ///< dims between the images and the channels
  int64_t channels, outChannels;
  std::string pads, dilations, strides = "1, 1";
  int64_t images = 1;
  int64_t depth = 0; ///< of the kernel; 0 if it has two dims
};

std::string convText(const WinogradCase &c, int64_t m, bool withEpilogue,
                     const std::string &symbols = "", const std::string &x = "",
                     const std::string &y = "") {
  std::string in = llvm::formatv("tensor<{0}x{1}x{2}xf32>", c.images, c.in, c.channels);
  std::string out = llvm::formatv("tensor<{0}x{1}x{2}xf32>", c.images, c.out, c.outChannels);
  in = x.empty() ? in : x;
  out = y.empty() ? out : y;
  std::string taps = c.depth ? std::to_string(c.depth) + "x3x3" : "3x3";
  std::string weight = llvm::formatv("tensor<{0}x{1}x{2}xf32>", c.outChannels, c.channels, taps);
  std::vector<int64_t> filters = {c.outChannels, c.channels, m + 2, m + 2};
  if (c.depth) {
    filters.insert(filters.begin() + 2, c.depth);
  }
  PackedText filter = outputPanelsText(filters, 32, /*groups=*/1, "f32", /*squareFirst=*/true);
  std::string bias = llvm::formatv("tensor<{0}xf32>", c.outChannels);
  std::string body = llvm::formatv(
      "{0}%w = tn.winograd_taps %f {{m = {1} : i64} : ({2}) -> {3}\n"
      "%y = tn.conv %x, %w bias %b {{strides = array<i64: {4}>, pads = array<i64: {5}>, dilations "
      "= array<i64: {6}>, groups = 1 : i64, channelsLast = true} : ({7}, {3}, {8}) -> {9}\n",
      filter.unpack("%p", "%f"), m, filter.weight, weight, c.strides, c.pads, c.dilations, in, bias,
      out);
  std::string signature = "(%x: " + in + ", %p: " + filter.type + ", %b: " + bias;
  if (!withEpilogue) {
    return kernelText("contraction", signature + ") -> " + out, body + "return %y : " + out,
                      symbols);
  }
  body += llvm::formatv("%1 = tn.add %y, %r : ({0}, {0}) -> {0}\n%2 = tn.relu %1 : {0}\n"
                        "return %2 : {0}",
                        out);
  return kernelText("contraction", signature + ", %r: " + out + ") -> " + out, body, symbols);
}

/// FP32 sums of some hundred products are as far off.
constexpr double kOfLargest = 3e-6;

void check(const WinogradCase &c) {
  for (int64_t m : {2, 4}) {
    EXPECT_TRUE(matchesReference(convText(c, m, false), {}, 3, kOfLargest))
        << convText(c, m, false);
    EXPECT_TRUE(matchesReference(convText(c, m, true), {}, 2, kOfLargest)) << convText(c, m, true);
  }
}

TEST(WinogradTest, TwoDims) {
  for (const WinogradCase &c : {WinogradCase{"8x8", "8x8", 16, 32, "1, 1, 1, 1", "1, 1"},
                                WinogradCase{"7x9", "7x9", 24, 40, "1, 1, 1, 1", "1, 1", "1, 1", 3},
                                WinogradCase{"6x5", "4x3", 17, 20, "0, 0, 0, 0", "1, 1"},
                                WinogradCase{"1x1", "1x1", 16, 33, "1, 1, 1, 1", "1, 1", "1, 1", 2},
                                WinogradCase{"3x4", "7x6", 16, 64, "3, 2, 3, 2", "1, 1"},
                                // Lines in parts.
                                WinogradCase{"5x131", "5x131", 16, 8, "1, 1, 1, 1", "1, 1"}}) {
    check(c);
  }
}

TEST(WinogradTest, Dilated) {
  for (const WinogradCase &c :
       {WinogradCase{"9x9", "9x9", 16, 32, "2, 2, 2, 2", "2, 2"},
        WinogradCase{"11x13", "11x13", 16, 8, "5, 3, 5, 3", "5, 3", "1, 1", 2},
        WinogradCase{"4x70", "4x70", 16, 8, "6, 6, 6, 6", "6, 6"},
        WinogradCase{"9x8", "5x8", 16, 8, "0, 1, 0, 1", "2, 1"}}) {
    check(c);
  }
}

TEST(WinogradTest, ThreeDims) {
  std::string one = "1, 1, 1";
  for (const WinogradCase &c :
       {WinogradCase{"3x7x7", "3x7x7", 16, 32, "1, 1, 1, 1, 1, 1", one, one, 2, 3},
        WinogradCase{"4x20x20", "4x20x20", 16, 32, "1, 1, 1, 1, 1, 1", one, one, 1, 3},
        WinogradCase{"5x6x6", "2x6x6", 16, 8, "0, 1, 1, 0, 1, 1", one, "2, 1, 1", 1, 3},
        WinogradCase{"2x8x8", "6x8x8", 16, 8, "2, 1, 1, 2, 1, 1", one, one, 1, 1}}) {
    check(c);
  }
}

TEST(WinogradTest, DynamicSizes) {
  WinogradCase c{"", "", 16, 40, "1, 1, 1, 1", "1, 1"};
  std::string x = "tensor<?x?x?x16xf32, #tn.shape<()[s0, s1, s2] -> (s0, s1, s2, 16)>>";
  std::string y = "tensor<?x?x?x40xf32, #tn.shape<()[s0, s1, s2] -> (s0, s1, s2, 40)>>";
  std::string symbols =
      "#tn.symbol<\"s0\", 1, 8>, #tn.symbol<\"s1\", 1, 64>, #tn.symbol<\"s2\", 1, 512>";
  for (int64_t m : {2, 4}) {
    std::string text = convText(c, m, true, symbols, x, y);
    EXPECT_TRUE(matchesReference(text, {1, 1, 1}, 1, kOfLargest));
    EXPECT_TRUE(matchesReference(text, {3, 7, 6}, 3, kOfLargest));
    EXPECT_TRUE(matchesReference(text, {1, 5, 150}, 2, kOfLargest));
  }
}

} // namespace
} // namespace tenon::codegen::cpu
