// Convolutions as implicit GEMM on the emulated GPU: one to three dims, strides, dilations,
// padding, groups, numbers of channels that fill no copy, epilogues, sizes that vary, splits of the
// depth.
#include "compiler/codegen/cuda/conv/Conv.h"
#include "test/unit/codegen/cuda/ConvText.h"
#include "test/unit/codegen/emulator/HandKernelCheck.h"

#include "compiler/codegen/cuda/KernelFamily.h"

namespace tenon::codegen::cuda {
namespace {

const Emitter emitChosen = byFamily({"conv_tensorcore", "conv_simt"});

Emitter emitTile(int64_t rows, int64_t columns, int64_t splits) {
  return [=](RegionBuilder &region) -> mlir::FailureOr<bool> {
    for (bool isHalf : {true, false}) {
      MatchResult<ConvProblem> problem = matchConv(region, isHalf);
      for (const GemmTile &tile :
           problem ? convTiles(*problem, region.gpu) : std::vector<GemmTile>()) {
        if (tile.rows == rows && tile.columns == columns && tile.splits == splits) {
          return emitConv(region, *problem, tile);
        }
      }
    }
    return false;
  };
}

void expectRight(const ConvCase &c, const Emitter &emitter = emitChosen) {
  std::string text = convText(c);
  EXPECT_TRUE(matchesReference(text, emitter, {}, 1)) << text;
}

TEST(CudaConvTest, OneToThreeDims) {
  for (const char *type : {"f16", "bf16", "f32"}) {
    expectRight(
        {.type = type, .images = 2, .in = {37}, .taps = {5}, .strides = {2}, .pads = {2, 2}});
    expectRight({.type = type, .images = 2, .in = {7, 9}, .taps = {3, 3}, .pads = {1, 1, 1, 1}});
    expectRight({.type = type, .in = {4, 5, 6}, .taps = {3, 3, 3}, .pads = {1, 1, 1, 1, 1, 1}});
  }
}

TEST(CudaConvTest, Windows) {
  expectRight({.in = {9, 12}, .taps = {3, 2}, .strides = {2, 3}, .pads = {1, 0, 2, 1}});
  expectRight({.in = {13, 12}, .taps = {3, 3}, .pads = {2, 3, 2, 3}, .dilations = {2, 3}});
  expectRight({.in = {8, 8}, .taps = {1, 1}, .strides = {2, 2}});
  expectRight({.in = {8, 8}, .taps = {4, 4}, .strides = {4, 4}});
  expectRight({.in = {5, 5}, .taps = {5, 5}});
  expectRight({.in = {6, 6}, .taps = {1, 1}, .pads = {1, 1, 1, 1}});
}

TEST(CudaConvTest, ChannelsThatFillNoCopy) {
  for (const char *type : {"f16", "f32"}) {
    for (int64_t channels : {1, 2, 3, 5, 7, 12, 30}) {
      expectRight({.type = type,
                   .in = {7, 6},
                   .channels = channels,
                   .outChannels = channels + 1,
                   .taps = {3, 3},
                   .pads = {1, 1, 1, 1}});
    }
  }
}

TEST(CudaConvTest, Groups) {
  for (const char *type : {"bf16", "f32"}) {
    expectRight({.type = type,
                 .in = {6, 6},
                 .channels = 32,
                 .outChannels = 32,
                 .groups = 8,
                 .taps = {3, 3},
                 .pads = {1, 1, 1, 1},
                 .epilogue = "bias"});
    expectRight({.type = type,
                 .in = {6, 6},
                 .channels = 32,
                 .outChannels = 64,
                 .groups = 2,
                 .taps = {3, 3},
                 .pads = {1, 1, 1, 1},
                 .epilogue = "residual relu"});
    expectRight(
        {.type = type, .in = {6, 6}, .channels = 9, .outChannels = 6, .groups = 3, .taps = {3, 3}});
    expectRight({.type = type,
                 .in = {20},
                 .channels = 48,
                 .outChannels = 24,
                 .groups = 4,
                 .taps = {3},
                 .pads = {1, 1}});
  }
}

TEST(CudaConvTest, Epilogues) {
  for (const char *type : {"f16", "f32"}) {
    for (const char *epilogue : {"bias silu", "residual relu", "bias residual silu", "own relu"}) {
      expectRight({.type = type,
                   .in = {7, 7},
                   .channels = 16,
                   .outChannels = 24,
                   .taps = {3, 3},
                   .pads = {1, 1, 1, 1},
                   .epilogue = epilogue});
    }
  }
}

TEST(CudaConvTest, ComputedFilters) {
  expectRight({.in = {7, 7}, .channels = 16, .taps = {3, 3}, .isConstant = false});
  expectRight({.type = "f32",
               .in = {7, 7},
               .channels = 6,
               .groups = 2,
               .taps = {3, 3},
               .isConstant = false});
  expectRight(
      {.in = {7, 7}, .channels = 16, .taps = {1, 1}, .strides = {2, 2}, .isConstant = false});
}

TEST(CudaConvTest, FiltersThatAreLaidOut) {
  for (const char *family : {"conv_tensorcore", "pointwise"}) {
    expectRight({.in = {9}, .channels = 12, .groups = 2, .taps = {3}, .isLaidOut = true},
                byFamily({family}));
    expectRight({.in = {5, 6}, .channels = 16, .groups = 4, .taps = {3, 2}, .isLaidOut = true},
                byFamily({family}));
    expectRight({.in = {4, 4, 4}, .taps = {3, 2, 3}, .isLaidOut = true}, byFamily({family}));
  }
}

/// Places are numbers of 32 bits, and of 64 where a tensor may be large.
TEST(CudaConvTest, SizesThatVary) {
  for (const char *type : {"f16", "f32"}) {
    for (int64_t stride : {1, 2}) {
      for (int64_t most : {512, 1 << 20}) {
        std::string text = convText({.type = type,
                                     .in = {9, 9},
                                     .taps = {3, 3},
                                     .strides = {stride, stride},
                                     .pads = {1, 1, 1, 1},
                                     .epilogue = "bias silu",
                                     .isDynamic = true,
                                     .most = most});
        for (const Numbers &symbols : {Numbers{0, 5}, Numbers{1, 1}, Numbers{3, 9}, {2, 17}}) {
          EXPECT_TRUE(matchesReference(text, emitChosen, symbols, 1)) << text;
        }
      }
    }
  }
}

/// Another order of the threads shows where a barrier is missing.
TEST(CudaConvTest, SplitsOfTheDepth) {
  for (const char *type : {"f16", "f32"}) {
    for (int64_t splits : {2, 3, 8}) {
      std::string text = convText({.type = type,
                                   .in = {5, 5},
                                   .channels = 64,
                                   .outChannels = 24,
                                   .taps = {3, 3},
                                   .pads = {1, 1, 1, 1},
                                   .epilogue = "bias"});
      EXPECT_TRUE(matchesReference(text, emitTile(32, 32, splits), {}, 1, true)) << text;
    }
  }
}

TEST(CudaConvTest, LargeTiles) {
  for (const char *type : {"f16", "f32"}) {
    for (int64_t columns : {16, 64, 128}) {
      expectRight({.type = type,
                   .in = {13, 11},
                   .channels = 24,
                   .outChannels = 72,
                   .taps = {3, 3},
                   .pads = {1, 1, 1, 1}},
                  emitTile(128, columns, 1));
    }
  }
}

TEST(CudaConvTest, EveryTileIsRight) {
  for (const char *type : {"f16", "f32"}) {
    std::string text = convText({.type = type,
                                 .in = {7, 6},
                                 .channels = 8,
                                 .outChannels = 24,
                                 .taps = {3, 3},
                                 .pads = {1, 1, 1, 1},
                                 .epilogue = "bias"});
    size_t count = 0;
    Emitter first = [&](RegionBuilder &region) -> mlir::FailureOr<bool> {
      MatchResult<ConvProblem> problem = matchConv(region, std::string(type) == "f16");
      count = convTiles(*problem, region.gpu).size();
      return emitConv(region, *problem, convTiles(*problem, region.gpu).front());
    };
    EXPECT_TRUE(matchesReference(text, first, {}, 1)) << text;
    EXPECT_GE(count, 20u);
    for (size_t number = 1; number < count; ++number) {
      std::string name;
      Emitter emitter = [&](RegionBuilder &region) -> mlir::FailureOr<bool> {
        MatchResult<ConvProblem> problem = matchConv(region, std::string(type) == "f16");
        GemmTile tile = convTiles(*problem, region.gpu)[number];
        name = dispatch::choiceOf("tile", tile).text();
        return emitConv(region, *problem, tile);
      };
      EXPECT_TRUE(matchesReference(text, emitter, {}, 1)) << name;
    }
  }
}

TEST(CudaConvTest, WhatItRefuses) {
  EXPECT_FALSE(matchesReference(convText({.in = {6, 6}, .taps = {3, 3}}), byFamily({"conv_simt"})));
  EXPECT_FALSE(matchesReference(convText({.type = "f32", .in = {6, 6}, .taps = {3, 3}}),
                                byFamily({"conv_tensorcore"})));
}

TEST(CudaConvTest, Assembles) {
  const ConvCase cases[] = {
      {.images = 8,
       .in = {56, 56},
       .channels = 64,
       .outChannels = 64,
       .taps = {3, 3},
       .pads = {1, 1, 1, 1},
       .epilogue = "bias silu"},
      {.images = 32,
       .in = {56, 56},
       .channels = 256,
       .outChannels = 256,
       .taps = {3, 3},
       .pads = {1, 1, 1, 1},
       .epilogue = "bias residual silu"},
      {.in = {7, 7}, .channels = 512, .outChannels = 512, .taps = {3, 3}, .pads = {1, 1, 1, 1}},
      {.type = "bf16",
       .in = {16, 56, 56},
       .channels = 8,
       .outChannels = 64,
       .taps = {3, 7, 7},
       .strides = {1, 2, 2},
       .pads = {1, 3, 3, 1, 3, 3},
       .epilogue = "bias silu"},
      {.images = 32,
       .in = {56, 56},
       .channels = 128,
       .outChannels = 128,
       .groups = 32,
       .taps = {3, 3},
       .pads = {1, 1, 1, 1}},
      {.images = 8,
       .in = {56, 56},
       .channels = 30,
       .outChannels = 30,
       .groups = 2,
       .taps = {3, 3},
       .pads = {1, 1, 1, 1}},
      {.in = {3000},
       .channels = 80,
       .outChannels = 512,
       .taps = {3},
       .pads = {1, 1},
       .epilogue = "bias silu"},
      {.type = "f32",
       .images = 8,
       .in = {56, 56},
       .channels = 64,
       .outChannels = 64,
       .taps = {3, 3},
       .pads = {1, 1, 1, 1},
       .epilogue = "bias silu"},
      {.type = "f32",
       .images = 32,
       .in = {56, 56},
       .channels = 256,
       .outChannels = 256,
       .taps = {3, 3},
       .pads = {1, 1, 1, 1}},
      {.type = "f32",
       .in = {224, 224},
       .channels = 3,
       .outChannels = 64,
       .taps = {7, 7},
       .strides = {2, 2},
       .pads = {3, 3, 3, 3}},
      {.images = 2,
       .in = {64, 64},
       .channels = 32,
       .outChannels = 96,
       .taps = {3, 3},
       .pads = {1, 1, 1, 1},
       .epilogue = "bias silu",
       .isDynamic = true}};
  for (const char *arch : {"sm_80", "sm_90", "sm_90a"}) {
    const target::Target &gpu = target::targetOf(arch);
    for (const ConvCase &c : cases) {
      llvm::Expected<std::string> ptx = emitTestPtx(convText(c), emitChosen, gpu);
      ASSERT_TRUE(bool(ptx)) << llvm::toString(ptx.takeError());
      testing::AssertionResult result = assembles(*ptx, gpu);
      EXPECT_TRUE(result) << arch << "\n" << convText(c) << result.message();
    }
  }
}

} // namespace
} // namespace tenon::codegen::cuda
