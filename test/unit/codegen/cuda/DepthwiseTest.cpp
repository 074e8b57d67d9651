// Depthwise convolutions on the emulated GPU against the reference, and their PTX. Relies on
// ConvText.h for the regions.
#include "test/unit/codegen/cuda/ConvText.h"

#include "compiler/codegen/cuda/conv/Depthwise.h"

#include <gtest/gtest.h>

namespace tenon::codegen::cuda {
namespace {

const Emitter emitDepthwiseOnly = byFamily({"conv_depthwise"});

std::string replaced(std::string text, const std::string &from, const std::string &to) {
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at)) {
    text.replace(at, from.size(), to);
    at += to.size();
  }
  return text;
}

/// `c` with a group for each channel.
std::string depthwiseText(ConvCase c, int64_t multiplier = 1) {
  c.groups = c.channels;
  c.outChannels = c.channels * multiplier;
  std::string text = replaced(convText(c), "\"contraction\"", "\"depthwise\"");
  if (!c.isLaidOut) {
    return text;
  }
  // As [1, taps..., 1, channels].
  ConvTypes types([&] {
    size_t spatial = c.in.size();
    c.strides = c.strides.empty() ? ones(spatial) : c.strides;
    c.dilations = c.dilations.empty() ? ones(spatial) : c.dilations;
    c.pads = c.pads.empty() ? ones(2 * spatial, 0) : c.pads;
    return c;
  }());
  Numbers laidOut{1};
  laidOut.insert(laidOut.end(), c.taps.begin(), c.taps.end());
  laidOut.insert(laidOut.end(), {1, c.outChannels});
  text = replaced(text, types.stored, plainTensor(laidOut, c.type));
  return replaced(text, types.packing,
                  types.packing + " inner_dims_pos = [0] inner_tiles = [" +
                      std::to_string(c.outChannels) + "]");
}

testing::AssertionResult depthwiseMatches(const ConvCase &c, int64_t multiplier = 1,
                                          const Numbers &symbols = {}) {
  return matchesReference(depthwiseText(c, multiplier), emitDepthwiseOnly, symbols);
}

TEST(Depthwise, WindowsOfAllKinds) {
  for (const char *type : {"f16", "bf16", "f32"}) {
    ConvCase plain{.type = type,
                   .images = 2,
                   .in = {9, 10},
                   .channels = 16,
                   .taps = {3, 3},
                   .pads = {1, 1, 1, 1}};
    EXPECT_TRUE(depthwiseMatches(plain)) << type;
    ConvCase strided{.type = type,
                     .in = {11, 13},
                     .channels = 24,
                     .taps = {5, 3},
                     .strides = {2, 2},
                     .pads = {2, 0, 1, 2},
                     .epilogue = "own bias residual relu"};
    EXPECT_TRUE(depthwiseMatches(strided)) << type;
    ConvCase wide{.type = type,
                  .in = {14, 16},
                  .channels = 8,
                  .taps = {7, 7},
                  .pads = {3, 3, 3, 3},
                  .epilogue = "silu",
                  .isLaidOut = true};
    EXPECT_TRUE(depthwiseMatches(wide)) << type;
    ConvCase dilated{.type = type,
                     .in = {12, 12},
                     .channels = 6,
                     .taps = {3, 3},
                     .pads = {2, 4, 2, 4},
                     .dilations = {2, 4}};
    EXPECT_TRUE(depthwiseMatches(dilated)) << type;
  }
  // Without padding; a single place; channels on no border.
  EXPECT_TRUE(depthwiseMatches({.in = {8, 8}, .channels = 8, .taps = {3, 3}}));
  EXPECT_TRUE(
      depthwiseMatches({.in = {1, 1}, .channels = 5, .taps = {3, 3}, .pads = {1, 1, 1, 1}}));
}

TEST(Depthwise, OtherRanks) {
  EXPECT_TRUE(depthwiseMatches({.in = {50}, .channels = 16, .taps = {4}, .pads = {3, 0}}));
  // Lines longer than what is written out, in pieces that do not fill the last one.
  EXPECT_TRUE(depthwiseMatches({.in = {60}, .channels = 8, .taps = {31}, .pads = {15, 15}}));
  EXPECT_TRUE(depthwiseMatches({.in = {40}, .channels = 8, .taps = {13}, .isLaidOut = true}));
  EXPECT_TRUE(depthwiseMatches({.type = "f32",
                                .in = {5, 6, 7},
                                .channels = 8,
                                .taps = {3, 3, 3},
                                .strides = {1, 2, 1},
                                .pads = {1, 1, 1, 1, 1, 1}}));
}

TEST(Depthwise, SeveralOutputsOfAChannel) {
  ConvCase c{.in = {6, 7}, .channels = 6, .taps = {3, 3}, .pads = {1, 1, 1, 1}};
  EXPECT_TRUE(depthwiseMatches(c, 2));
  EXPECT_TRUE(depthwiseMatches(c, 4));
}

TEST(Depthwise, SizesThatVary) {
  ConvCase c{.in = {1, 1},
             .channels = 8,
             .taps = {3, 3},
             .strides = {2, 2},
             .pads = {1, 1, 1, 1},
             .isDynamic = true};
  for (int64_t size : {1, 2, 13}) {
    EXPECT_TRUE(depthwiseMatches(c, 1, {2, size})) << size;
  }
}

TEST(Depthwise, Ptx) {
  for (const char *arch : {"sm_80", "sm_86", "sm_90", "sm_90a"}) {
    const target::Target &gpu = target::targetOf(arch);
    for (const char *type : {"f16", "f32"}) {
      for (const ConvCase &c : {ConvCase{.type = type,
                                         .images = 16,
                                         .in = {56, 56},
                                         .channels = 256,
                                         .taps = {7, 7},
                                         .pads = {3, 3, 3, 3},
                                         .epilogue = "own silu"},
                                ConvCase{.type = type,
                                         .images = 16,
                                         .in = {56, 56},
                                         .channels = 144,
                                         .taps = {3, 3},
                                         .strides = {2, 2},
                                         .pads = {1, 1, 1, 1},
                                         .epilogue = "own residual"},
                                ConvCase{.type = type,
                                         .images = 8,
                                         .in = {2048},
                                         .channels = 512,
                                         .taps = {31},
                                         .pads = {15, 15}},
                                ConvCase{.type = type,
                                         .images = 8,
                                         .in = {16, 28, 28},
                                         .channels = 64,
                                         .taps = {3, 5, 5},
                                         .pads = {1, 2, 2, 1, 2, 2}}}) {
        llvm::Expected<std::string> ptx = emitTestPtx(depthwiseText(c), emitDepthwiseOnly, gpu);
        ASSERT_TRUE(bool(ptx)) << llvm::toString(ptx.takeError());
        EXPECT_TRUE(assembles(*ptx, gpu)) << arch << " " << type << " " << c.taps.size();
      }
    }
  }
}

} // namespace
} // namespace tenon::codegen::cuda
