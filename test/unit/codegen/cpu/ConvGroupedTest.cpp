// Convolutions by groups: groups that share a vector of channels and groups of several vectors,
// depthwise ones, one to three dims, widths that vary; what the family leaves to others.
#include "test/unit/codegen/PackedText.h"
#include "test/unit/codegen/RegionCheck.h"
#include "test/unit/codegen/SelectedText.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"

namespace tenon::codegen::cpu {
namespace {

using Sizes = std::vector<int64_t>;

/// Each spatial dim has this size, kernel, stride, padding (on both sides) and dilation; a size of
/// 0 is the symbol s0.
struct Spatial {
  int64_t size, kernel = 3, stride = 1, pad = 1, dilation = 1;
};

struct Grouped {
  std::vector<Spatial> dims;
  int64_t channels, outChannels, groups;
  int64_t lanes = 16;
};

std::string tensorOf(llvm::ArrayRef<std::string> dims, const std::string &element = "f32") {
  std::string sizes, shape;
  bool isDynamic = false;
  for (const std::string &dim : dims) {
    bool isNumber = llvm::all_of(dim, llvm::isDigit);
    isDynamic |= !isNumber;
    sizes += (isNumber ? dim : "?") + "x";
    shape += (shape.empty() ? "" : ", ") + dim;
  }
  return "tensor<" + sizes + element +
         (isDynamic ? ", #tn.shape<()[s0] -> (" + shape + ")>>" : std::string(">"));
}

/// Of f32, or of u8 by s8.
std::string regionText(const Grouped &g, bool hasEpilogue, bool isComputed = false,
                       bool isOfBytes = false) {
  std::vector<std::string> x = {"2"}, y = {"2"},
                           w = {std::to_string(g.outChannels),
                                std::to_string(g.channels / g.groups)};
  std::string strides, padBegins, padEnds, dilations;
  std::vector<int64_t> sizes = {g.outChannels, g.channels / g.groups};
  for (auto [i, dim] : llvm::enumerate(g.dims)) {
    int64_t change = 2 * dim.pad - (dim.kernel - 1) * dim.dilation - 1;
    bool isStatic = dim.size != 0;
    x.push_back(isStatic ? std::to_string(dim.size) : "s0");
    y.push_back(isStatic ? std::to_string((dim.size + change) / dim.stride + 1)
                         : llvm::formatv("(s0 + {0}) floordiv {1} + 1", change, dim.stride).str());
    w.push_back(std::to_string(dim.kernel));
    sizes.push_back(dim.kernel);
    const char *comma = i == 0 ? "" : ", ";
    strides += comma + std::to_string(dim.stride);
    padBegins += comma + std::to_string(dim.pad);
    padEnds += ", " + std::to_string(dim.pad);
    dilations += comma + std::to_string(dim.dilation);
  }
  x.push_back(std::to_string(g.channels));
  y.push_back(std::to_string(g.outChannels));
  std::string input = tensorOf(x, isOfBytes ? "ui8" : "f32"),
              output = tensorOf(y, isOfBytes ? "i32" : "f32");
  std::string weight = tensorOf(w, isOfBytes ? "i8" : "f32");
  // Bytes have no masked loads: vectors of eight where these fill all channels.
  bool isInEights = isOfBytes && g.groups > 1 && g.outChannels % 16 != 0 && g.outChannels % 8 == 0;
  PackedText panels =
      outputPanelsText(sizes, isInEights ? 8 : g.lanes, 1, isOfBytes ? "i8" : "f32");
  std::string packed = panels.type, body = panels.unpack();
  if (isComputed) {
    body = "";
    packed = weight;
  }
  body += llvm::formatv(
      "%0 = tn.conv %x, {8} {{strides = array<i64: {0}>, pads = array<i64: {1}{2}>, dilations = "
      "array<i64: {3}>, groups = {4} : i64, channelsLast = true} : ({5}, {6}) -> {7}\n",
      strides, padBegins, padEnds, dilations, g.groups, input, weight, output,
      isComputed ? "%p" : "%w");
  std::string signature = "(%x: " + input + ", %p: " + packed;
  bool isDynamic = llvm::is_contained(x, "s0");
  std::string symbols = isDynamic ? "#tn.symbol<\"s0\", 1, 200>" : "";
  if (!hasEpilogue) {
    return kernelText("contraction", signature + ") -> " + output, body + "return %0 : " + output,
                      symbols);
  }
  body += llvm::formatv("%1 = tn.add %0, %b : ({0}, tensor<{1}xf32>) -> {0}\n"
                        "%2 = tn.add %1, %r : ({0}, {0}) -> {0}\n%3 = tn.relu %2 : {0}\n"
                        "return %3 : {0}",
                        output, g.outChannels);
  return kernelText("contraction",
                    signature + ", %b: tensor<" + std::to_string(g.outChannels) +
                        "xf32>, %r: " + output + ") -> " + output,
                    body, symbols);
}

void expectRight(const Grouped &g, llvm::ArrayRef<Sizes> symbols = {Sizes()}) {
  for (int form : {0, 1, 2, 3, 4}) {
    std::string text =
        regionText(g, /*hasEpilogue=*/form % 2 == 1, /*isComputed=*/form == 2 || form == 3,
                   /*isOfBytes=*/form == 4);
    llvm::Expected<dispatch::KernelSelection> selection =
        selectKernel(text, target::cpuTarget(), {});
    ASSERT_TRUE(static_cast<bool>(selection)) << llvm::toString(selection.takeError());
    EXPECT_EQ("conv_grouped", selection->chosen.family) << text;
    for (const Sizes &values : symbols) {
      EXPECT_TRUE(matchesReference(text, values, 3)) << text;
    }
  }
}

TEST(ConvGroupedTest, Depthwise) {
  expectRight({{{9}, {14}}, 32, 32, 32});
  expectRight({{{7}, {7}}, 20, 20, 20}); // the last vector is not full
  expectRight({{{5}, {3}}, 5, 5, 5});    // nor is the only one
  expectRight({{{9, 3, 2}, {15, 3, 2}}, 72, 72, 72});
  expectRight({{{14, 5, 1, 2}, {13, 5, 1, 2}}, 48, 48, 48});
  expectRight({{{12, 3, 1, 2, 2}, {20, 3, 1, 4, 4}}, 16, 16, 16});
  expectRight({{{9, 3, 1, 0}, {9, 3, 1, 0}}, 40, 40, 40});
}

TEST(ConvGroupedTest, ManyPixels) {
  expectRight({{{30}, {36}}, 72, 72, 72});
  expectRight({{{30}, {36}}, 40, 40, 5});
}

TEST(ConvGroupedTest, FewChannelsOfOneGroup) {
  expectRight({{{9}, {14}}, 20, 3, 1, 8});
  expectRight({{{9, 3, 2}, {5, 3, 2}}, 5, 7, 1, 8});
  expectRight({{{9}, {14}}, 16, 12, 1, 16});
  expectRight({{{6, 1, 1, 0}, {9, 1, 1, 0}}, 40, 1, 1, 8});
}

TEST(ConvGroupedTest, SeveralResultsOfAChannel) {
  expectRight({{{6}, {7}}, 6, 12, 6});
  expectRight({{{6}, {7}}, 4, 64, 4});
}

TEST(ConvGroupedTest, GroupsThatShareAVector) {
  expectRight({{{6}, {9}}, 32, 32, 16});
  expectRight({{{6}, {9}}, 32, 32, 8});
  expectRight({{{6}, {9}}, 40, 40, 5}); // 8 a group
  expectRight({{{6, 1, 1, 0}, {9, 1, 1, 0}}, 32, 32, 8});
}

TEST(ConvGroupedTest, GroupsOfSeveralVectors) {
  expectRight({{{6}, {9}}, 48, 48, 3});
  expectRight({{{6, 3, 2}, {9, 3, 2}}, 20, 32, 2});
  expectRight({{{6}, {9}}, 48, 48, 2, 8}); // 24 a group
}

TEST(ConvGroupedTest, OtherNumbersOfDims) {
  expectRight({{{150, 9, 1, 4}}, 24, 24, 24}); // more taps than are unrolled
  expectRight({{{20, 31, 1, 15}}, 16, 16, 2});
  expectRight({{{4}, {6}, {7}}, 16, 16, 16});
  expectRight({{{4, 3, 2}, {6, 3, 2}, {7, 3, 2}}, 16, 16, 2});
}

TEST(ConvGroupedTest, SizesThatVary) {
  std::vector<Sizes> widths = {{1}, {5}, {8}, {130}};
  expectRight({{{6}, {0}}, 24, 24, 24}, widths);
  expectRight({{{0}, {9}}, 32, 32, 4}, widths);
  expectRight({{{0, 1, 1, 0}, {9, 1, 1, 0}}, 32, 32, 8}, widths);
}

/// f32 holds no sum of more than 514 products of bytes.
TEST(ConvGroupedTest, LongSumsOfBytesAreLeftToOthers) {
  for (auto [channels, isTaken] : {std::pair(57, true), {58, false}}) {
    std::string text =
        regionText({{{6}, {7}}, channels, 8, 1, 8}, false, false, /*isOfBytes=*/true);
    llvm::Expected<dispatch::KernelSelection> selection =
        selectKernel(text, target::cpuTarget(), {});
    ASSERT_TRUE(static_cast<bool>(selection)) << llvm::toString(selection.takeError());
    EXPECT_EQ(isTaken, selection->chosen.family == "conv_grouped");
    EXPECT_TRUE(matchesReference(text, {}, 3)) << text;
  }
}

TEST(ConvGroupedTest, LeavesToOthers) {
  for (const Grouped &g : {Grouped{{{6}, {9}}, 12, 12, 2}, Grouped{{{6}, {9}}, 64, 64, 2, 32},
                           Grouped{{{6}, {9}}, 32, 8, 4}, Grouped{{{6}, {9}}, 16, 20, 1}}) {
    llvm::Expected<dispatch::KernelSelection> selection =
        selectKernel(regionText(g, false), target::cpuTarget(), {});
    ASSERT_TRUE(static_cast<bool>(selection)) << llvm::toString(selection.takeError());
    EXPECT_NE("conv_grouped", selection->chosen.family);
  }
}

} // namespace
} // namespace tenon::codegen::cpu
