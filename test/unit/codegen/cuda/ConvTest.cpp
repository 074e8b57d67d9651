// Convolutions as implicit GEMM on the emulated GPU: one to three dims, strides, dilations,
// padding, groups, numbers of channels that fill no copy, epilogues, sizes that vary, splits of the
// depth.
#include "compiler/codegen/cuda/conv/Conv.h"
#include "HandKernelCheck.h"

#include "compiler/codegen/cuda/KernelFamily.h"

namespace tenon::codegen::cuda {
namespace {

using Numbers = std::vector<int64_t>;

struct ConvCase {
  std::string type = "f16";
  int64_t images = 1;
  Numbers in; ///< spatial
  int64_t channels = 8, outChannels = 16, groups = 1;
  Numbers taps = {}, strides = {}, pads = {}, dilations = {}; ///< pads: begins, then ends
  std::string epilogue = ""; ///< words: own (the convolution's bias), bias, residual, relu, silu
  bool isConstant = true;
  bool isDynamic = false; ///< images and their sizes vary, the same along every dim
  int64_t most = 512;     ///< of those sizes
};

std::string joined(const Numbers &numbers) {
  std::string text;
  for (int64_t number : numbers) {
    text += (text.empty() ? "" : ", ") + std::to_string(number);
  }
  return text;
}

std::string plainTensor(const Numbers &dims, const std::string &type) {
  std::string text = "tensor<";
  for (int64_t dim : dims) {
    text += std::to_string(dim) + "x";
  }
  return text + type + ">";
}

/// s0 images, and every spatial dim `size`, an expression of s1.
std::string dynamicTensor(const Numbers &dims, const std::string &type, const std::string &size) {
  std::string text = "tensor<?x", shape = "(s0, ";
  for (size_t i = 2; i < dims.size(); ++i) {
    text += "?x";
    shape += size + ", ";
  }
  std::string channels = std::to_string(dims.back());
  return text + channels + "x" + type + ", #tn.shape<()[s0, s1] -> " + shape + channels + ")>>";
}

Numbers ones(size_t count, int64_t value = 1) { return Numbers(count, value); }

std::string convText(ConvCase c) {
  size_t spatial = c.in.size();
  c.strides = c.strides.empty() ? ones(spatial) : c.strides;
  c.dilations = c.dilations.empty() ? ones(spatial) : c.dilations;
  c.pads = c.pads.empty() ? ones(2 * spatial, 0) : c.pads;
  Numbers x{c.images}, w{c.outChannels, c.channels / c.groups}, y{c.images};
  for (size_t i = 0; i < spatial; ++i) {
    x.push_back(c.in[i]);
    w.push_back(c.taps[i]);
    int64_t reach = (c.taps[i] - 1) * c.dilations[i] + 1;
    y.push_back((c.in[i] + c.pads[i] + c.pads[spatial + i] - reach) / c.strides[i] + 1);
  }
  x.push_back(c.channels);
  y.push_back(c.outChannels);
  std::string xs = plainTensor(x, c.type), ws = plainTensor(w, c.type), ys = plainTensor(y, c.type);
  if (c.isDynamic) {
    int64_t more = c.pads[0] + c.pads[spatial] - (c.taps[0] - 1) * c.dilations[0] - 1;
    std::string height =
        "(s1 + " + std::to_string(more) + ") floordiv " + std::to_string(c.strides[0]) + " + 1";
    xs = dynamicTensor(x, c.type, "s1");
    ys = dynamicTensor(y, c.type, c.strides[0] == 1 ? "s1 + " + std::to_string(more + 1) : height);
  }
  std::string bias = plainTensor({c.outChannels}, c.type);
  bool hasBias = c.epilogue.find("bias") != std::string::npos;
  bool hasOwn = c.epilogue.find("own") != std::string::npos;
  bool hasResidual = c.epilogue.find("residual") != std::string::npos;
  std::string signature = "(%x: " + xs + ", %w: " + ws + (c.isConstant ? " {tn.constant}" : "");
  signature += (hasBias ? ", %b: " + bias : "") + (hasOwn ? ", %o: " + bias : "") +
               (hasResidual ? ", %r: " + ys : "") + ") -> " + ys;
  std::string body =
      std::string("%0 = tn.conv %x, %w ") + (hasOwn ? "bias %o " : "") +
      "{strides = array<i64: " + joined(c.strides) + ">, pads = array<i64: " + joined(c.pads) +
      ">, dilations = array<i64: " + joined(c.dilations) +
      ">, groups = " + std::to_string(c.groups) + " : i64, channelsLast = true} : (" + xs + ", " +
      ws + (hasOwn ? ", " + bias : "") + ") -> " + ys + "\n";
  std::string last = "%0";
  if (hasBias) {
    body += "%1 = tn.add " + last + ", %b : (" + ys + ", " + bias + ") -> " + ys + "\n";
    last = "%1";
  }
  if (hasResidual) {
    body += "%2 = tn.add " + last + ", %r : (" + ys + ", " + ys + ") -> " + ys + "\n";
    last = "%2";
  }
  for (const char *activation : {"relu", "silu"}) {
    if (c.epilogue.find(activation) != std::string::npos) {
      body += "%3 = tn." + std::string(activation) + " " + last + " : " + ys + "\n";
      last = "%3";
    }
  }
  return regionText("contraction", signature, body + "return " + last + " : " + ys,
                    c.isDynamic ? "#tn.symbol<\"s0\", 0, 64>, #tn.symbol<\"s1\", 1, " +
                                      std::to_string(c.most) + ">"
                                : "");
}

const Emitter emitChosen = byFamily({"conv_tensorcore", "conv_simt"});

Emitter emitTile(int64_t rows, int64_t columns, int64_t splits) {
  return [=](RegionBuilder &region) -> mlir::FailureOr<bool> {
    for (bool isHalf : {true, false}) {
      Fit<ConvProblem> problem = matchConv(region, isHalf);
      for (const ProductTile &tile :
           problem ? convTiles(*problem, region.gpu) : std::vector<ProductTile>()) {
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
      Fit<ConvProblem> problem = matchConv(region, std::string(type) == "f16");
      count = convTiles(*problem, region.gpu).size();
      return emitConv(region, *problem, convTiles(*problem, region.gpu).front());
    };
    EXPECT_TRUE(matchesReference(text, first, {}, 1)) << text;
    EXPECT_GE(count, 20u);
    for (size_t number = 1; number < count; ++number) {
      std::string name;
      Emitter emitter = [&](RegionBuilder &region) -> mlir::FailureOr<bool> {
        Fit<ConvProblem> problem = matchConv(region, std::string(type) == "f16");
        ProductTile tile = convTiles(*problem, region.gpu)[number];
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
