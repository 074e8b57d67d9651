// Direct convolutions on the emulated GPU: groups of any widths, windows, strides, dilations,
// epilogues, bytes, sizes that vary, all tiles.
#include "compiler/codegen/cuda/conv/DirectConv.h"
#include "test/unit/codegen/cuda/ConvText.h"
#include "test/unit/codegen/emulator/HandKernelCheck.h"

#include "compiler/codegen/cuda/KernelFamily.h"

namespace tenon::codegen::cuda {
namespace {

const Emitter emitDirectly = byFamily({"conv_direct"});

void expectDirect(const ConvCase &c) {
  std::string text = convText(c);
  EXPECT_TRUE(matchesReference(text, emitDirectly, {}, 1)) << text;
}

/// Groups of so many input and output channels each.
ConvCase grouped(int64_t groups, int64_t channels, int64_t columns) {
  return {.in = {9, 10},
          .channels = groups * channels,
          .outChannels = groups * columns,
          .groups = groups,
          .taps = {3, 3},
          .pads = {1, 1, 1, 1},
          .epilogue = "bias relu"};
}

TEST(CudaDirectConvTest, Groups) {
  for (int64_t width : {1, 2, 3, 4, 8, 12, 24, 48, 112}) {
    expectDirect(grouped(width < 8 ? 8 : 2, width, width));
  }
  expectDirect(grouped(8, 4, 2));
  expectDirect(grouped(4, 8, 2));
  expectDirect(grouped(2, 8, 72));
  expectDirect(grouped(1, 8, 64));
}

TEST(CudaDirectConvTest, Windows) {
  for (int64_t width : {4, 16, 24}) {
    ConvCase c = grouped(4, width, width);
    c.strides = {2, 2};
    expectDirect(c);
    c.strides = {2, 3};
    c.taps = {5, 4};
    c.pads = {2, 1, 1, 3};
    expectDirect(c);
    c.strides = {1, 1};
    c.taps = {2, 3};
    c.dilations = {2, 3};
    expectDirect(c);
    c = grouped(4, width, width);
    c.taps = {1, 1};
    c.pads = {0, 0, 0, 0};
    c.epilogue = "residual silu";
    expectDirect(c);
  }
}

/// Two pixels of a picture are an octet.
TEST(CudaDirectConvTest, FewChannels) {
  ConvCase c = grouped(1, 4, 24);
  c.strides = {2, 2};
  expectDirect(c);
  c.in = {21, 26};
  c.taps = {7, 7};
  c.pads = {3, 3, 3, 3};
  expectDirect(c);
  c.strides = {1, 2};
  c.taps = {4, 4};
  c.pads = {1, 2, 2, 0};
  expectDirect(c);
  c.strides = {1, 1};
  EXPECT_FALSE(matchesReference(convText(c), emitDirectly));
}

TEST(CudaDirectConvTest, FiltersAndTypes) {
  for (int64_t width : {4, 12, 16}) {
    ConvCase c = grouped(2, width, width);
    c.type = "bf16";
    c.isConstant = false;
    expectDirect(c);
    c.isConstant = true;
    c.isLaidOut = true;
    c.epilogue = "own relu";
    expectDirect(c);
  }
}

/// A block goes through many tiles, with the input under the next one on its way; another order of
/// the threads shows where a barrier is missing.
TEST(CudaDirectConvTest, ManyTiles) {
  ConvCase c = grouped(2, 8, 16);
  c.images = 3;
  c.in = {40, 48};
  std::string text = convText(c);
  RunOptions options;
  options.inputScale = 1;
  options.gpu.cores = 1;
  for (bool isReversed : {false, true}) {
    options.reversed = isReversed;
    EXPECT_TRUE(matchesReference(text, emitDirectly, options)) << text;
  }
}

TEST(CudaDirectConvTest, SizesThatVary) {
  ConvCase c = grouped(2, 16, 8);
  c.epilogue = "bias silu";
  c.isDynamic = true;
  std::string text = convText(c);
  for (const Numbers &symbols : {Numbers{0, 5}, Numbers{1, 1}, Numbers{3, 9}, {2, 17}}) {
    EXPECT_TRUE(matchesReference(text, emitDirectly, symbols, 1)) << text;
  }
}

/// Some of all tiles, of a long depth as a loop over the filter's rows too.
TEST(CudaDirectConvTest, Tiles) {
  ConvCase cases[] = {grouped(4, 8, 8), grouped(2, 24, 24), grouped(2, 112, 112)};
  for (ConvCase &c : cases) {
    c.in = {13, 10};
    c.epilogue = "relu";
    std::string text = convText(c), name;
    size_t count = 1;
    for (size_t number = 0; number < count; number += std::max<size_t>(count / 3, 1)) {
      Emitter emitter = [&](RegionBuilder &region) -> mlir::FailureOr<bool> {
        MatchResult<ConvProblem> problem = matchDirect(region);
        std::vector<DirectTile> tiles = directTiles(region, *problem);
        count = tiles.size();
        name = dispatch::choiceOf("tile", tiles[number]).text();
        return emitDirect(region, *problem, tiles[number]);
      };
      EXPECT_TRUE(matchesReference(text, emitter, {}, 1)) << name;
    }
    EXPECT_GE(count, 10u);
  }
}

TEST(CudaDirectConvTest, WhatItRefuses) {
  // Groups of odd numbers of channels that fill no octet, many channels without groups,
  // three dims, f32.
  EXPECT_FALSE(matchesReference(convText(grouped(3, 3, 3)), emitDirectly));
  EXPECT_FALSE(matchesReference(convText(grouped(1, 64, 64)), emitDirectly));
  EXPECT_FALSE(matchesReference(convText({.in = {4, 4, 4}, .taps = {3, 3, 3}}), emitDirectly));
  EXPECT_FALSE(
      matchesReference(convText({.type = "f32", .in = {6, 6}, .taps = {3, 3}}), emitDirectly));
}

/// The tile that is chosen and the one with the most sums: no registers spill.
TEST(CudaDirectConvTest, Assembles) {
  ConvCase wide = grouped(2, 64, 64), narrow = grouped(32, 4, 4), picture = grouped(1, 4, 64);
  wide.strides = picture.strides = {2, 2};
  picture.taps = {7, 7};
  narrow.epilogue = "bias residual silu";
  for (ConvCase &c : std::vector<ConvCase>{grouped(2, 48, 48), narrow, wide, picture}) {
    c.images = 8;
    c.in = {56, 56};
    c.pads = ones(4, c.taps[0] / 2);
    for (const char *arch : {"sm_80", "sm_90a"}) {
      const target::Target &gpu = target::targetOf(arch);
      Emitter emitLargest = [](RegionBuilder &region) -> mlir::FailureOr<bool> {
        MatchResult<ConvProblem> problem = matchDirect(region);
        std::vector<DirectTile> tiles = directTiles(region, *problem);
        return emitDirect(region, *problem,
                          *llvm::max_element(tiles, [](const DirectTile &a, const DirectTile &b) {
                            return a.warpTiles * a.warpWidth < b.warpTiles * b.warpWidth;
                          }));
      };
      for (const Emitter &emitter : {emitDirectly, emitLargest}) {
        llvm::Expected<std::string> ptx = emitTestPtx(convText(c), emitter, gpu);
        ASSERT_TRUE(bool(ptx)) << llvm::toString(ptx.takeError());
        testing::AssertionResult result = assembles(*ptx, gpu);
        EXPECT_TRUE(result) << arch << "\n" << convText(c) << result.message();
      }
    }
  }
}

} // namespace
} // namespace tenon::codegen::cuda
