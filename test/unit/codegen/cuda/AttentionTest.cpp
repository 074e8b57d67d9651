// Attention on the emulated GPU: tiles for large and small grids, tails, masks, causal, shared key
// heads, splits of keys, strides.
#include "test/unit/codegen/cpu/AttentionText.h"
#include "test/unit/codegen/cuda/AttentionEmitters.h"

#include <limits>

namespace tenon::codegen::cuda {
namespace {

constexpr AttentionTile kMiddle{1, 4, 1, 64, 1, false};
constexpr AttentionTile kLarge{2, 4, 1, 64, 1, false};
constexpr AttentionTile kWide{1, 8, 1, 64, 1, false};
constexpr AttentionTile kWideHeads{1, 4, 1, 32, 1, false};
const Emitter emitFlash = byFamily({"attention_flash"});

TEST(CudaAttentionTest, SmallGrid) {
  EXPECT_TRUE(
      matchesReference(attentionText(plainAttention("f16", 1, 2, 64, 128, 64, 64)), emitChosen));
  EXPECT_TRUE(
      matchesReference(attentionText(plainAttention("bf16", 1, 2, 37, 77, 64, 32)), emitChosen));
}

TEST(CudaAttentionTest, Tiles) {
  for (const AttentionTile &tile : {kMiddle, kLarge, kWide}) {
    EXPECT_TRUE(matchesReference(attentionText(plainAttention("f16", 1, 2, 128, 128, 32, 32)),
                                 emitTile(tile)));
    EXPECT_TRUE(matchesReference(attentionText(plainAttention("bf16", 1, 1, 131, 200, 64, 64)),
                                 emitTile(tile)));
  }
}

/// Four warps together, of sm_90a: tails of queries and keys, masks of one row and of many, wide
/// heads.
TEST(CudaAttentionTest, Warpgroups) {
  AttentionTile tile;
  tile.isWarpgroup = true;
  for (const char *type : {"f16", "bf16"}) {
    EXPECT_TRUE(matchesReference(attentionText(plainAttention(type, 1, 2, 128, 128, 64, 64)),
                                 emitTile(tile)));
    EXPECT_TRUE(matchesReference(attentionText(plainAttention(type, 1, 1, 70, 150, 64, 64)),
                                 emitTile(tile)));
  }
  EXPECT_TRUE(matchesReference(attentionText(plainAttention("f16", 1, 4, 65, 70, 128, 64, 2)),
                               emitTile(tile), {}, 2, /*reversed=*/true));
  EXPECT_TRUE(matchesReference(attentionText(plainAttention("f16", 1, 1, 64, 64, 64, 128)),
                               emitTile(tile)));
  for (const char *mask : {"tensor<2x1x1x90xf16>", "tensor<80x90xf16>"}) {
    AttentionCase c = plainAttention("f16", 2, 1, 80, 90, 64, 64);
    c.mask = mask;
    EXPECT_TRUE(matchesReference(attentionText(c), emitTile(tile)));
  }
  AttentionCase causal = plainAttention("f16", 1, 1, 150, 150, 64, 64);
  causal.causal = true;
  EXPECT_TRUE(matchesReference(attentionText(causal), emitTile(tile)));
}

/// Widths that are no multiples of 64, with tiles of 32 and of 16 columns, and such that their last
/// columns are zeros in shared memory; by one warpgroup and more, with 64 keys a tile and more.
TEST(CudaAttentionTest, WarpgroupWidths) {
  AttentionTile one{.isWarpgroup = true}, two = one, three = one, many = one;
  two.rowWarps = 8;
  two.stages = 3;
  three.rowWarps = 12;
  many.keys = 128;
  auto check = [](const AttentionCase &c, const AttentionTile &tile) {
    EXPECT_TRUE(matchesReference(attentionText(c), emitTile(tile), {}, 2, /*reversed=*/true))
        << attentionText(c) << tile.threads() << " " << tile.keys;
  };
  check(plainAttention("f16", 1, 2, 70, 90, 80, 80), one);
  check(plainAttention("bf16", 1, 4, 131, 150, 80, 80, 2), two);
  check(plainAttention("f16", 1, 1, 200, 140, 80, 48), three);
  check(plainAttention("f16", 1, 1, 70, 150, 72, 80), many);
  check(plainAttention("f16", 1, 1, 65, 70, 96, 104), one);
  check(plainAttention("bf16", 1, 1, 64, 130, 112, 32), two);
  check(plainAttention("f16", 1, 1, 64, 70, 32, 8), one);
  check(plainAttention("f16", 1, 1, 64, 130, 16, 24), three);
  check(plainAttention("f16", 1, 1, 100, 130, 128, 120), many);
  check(plainAttention("f16", 1, 1, 70, 100, 160, 136), one);
  check(plainAttention("bf16", 1, 1, 70, 100, 256, 256), one);
  for (int64_t width : {40, 80, 128}) {
    AttentionCase causal = plainAttention("f16", 1, 1, 150, 150, width, width);
    causal.causal = true;
    check(causal, width == 80 ? two : one);
    check(causal, width == 80 ? many : three);
  }
  AttentionCase masked = plainAttention("f16", 2, 1, 80, 90, 80, 80);
  masked.mask = "tensor<80x90xf16>";
  check(masked, one);
}

/// What is chosen for many queries is of warpgroups, and no thread has more than its registers.
TEST(CudaAttentionTest, WarpgroupsFitRegisters) {
  const target::Target &gpu = target::targetOf("sm_90a");
  for (int64_t width : {32, 72, 80, 96, 128, 160, 256}) {
    AttentionCase c = plainAttention("f16", 8, 16, 512, 512, width, width);
    c.causal = width % 96 != 0;
    c.mask = width == 80 ? "tensor<8x1x512x512xf16>" : "";
    llvm::Expected<std::string> ptx = emitTestPtx(attentionText(c), emitFlash, gpu);
    ASSERT_TRUE(bool(ptx)) << llvm::toString(ptx.takeError());
    EXPECT_NE(ptx->find("wgmma"), std::string::npos) << width;
    testing::AssertionResult result = assembles(*ptx, gpu);
    EXPECT_TRUE(result) << width << result.message();
  }
}

TEST(CudaAttentionTest, WarpgroupsOverlapProducts) {
  AttentionTile one{.stages = 3, .isWarpgroup = true, .overlaps = true}, two = one, many = one;
  two.rowWarps = 8;
  two.stages = 4;
  many.keys = 128;
  for (const AttentionTile &tile : {one, two, many}) {
    // One tile of keys, whole ones, a part of a tile at the end; queries that see no key.
    for (auto [queries, keys] :
         {std::pair(70, 50), std::pair(130, 256), std::pair(64, 300), std::pair(200, 140)}) {
      AttentionCase c = plainAttention("f16", 1, 1, queries, keys, 80, 80);
      for (bool isCausal : {false, true}) {
        c.causal = isCausal;
        EXPECT_TRUE(matchesReference(attentionText(c), emitTile(tile), {}, 2, /*reversed=*/true))
            << attentionText(c) << tile.threads() << " " << tile.keys;
      }
    }
    AttentionCase masked = plainAttention("f16", 2, 1, 80, 190, 64, 64);
    masked.mask = "tensor<2x1x1x190xf16>";
    EXPECT_TRUE(matchesReference(attentionText(masked), emitTile(tile)));
  }
}

/// Masks with rows come in by tiles where they lie on borders of 16 bytes, and by elements
/// elsewhere.
TEST(CudaAttentionTest, WarpgroupMasksWithRows) {
  AttentionTile one{.isWarpgroup = true}, two = one, many = one;
  two.rowWarps = 8;
  two.stages = 3;
  two.overlaps = true;
  many.keys = 128;
  auto check = [](AttentionCase c, const std::string &mask, const AttentionTile &tile) {
    c.mask = mask;
    EXPECT_TRUE(matchesReference(attentionText(c), emitTile(tile), {}, 2, /*reversed=*/true))
        << attentionText(c) << tile.threads();
  };
  check(plainAttention("f16", 2, 2, 80, 200, 80, 80), "tensor<2x1x80x200xf16>", one);
  check(plainAttention("f16", 2, 2, 150, 136, 64, 64), "tensor<1x2x150x136xf16>", two);
  check(plainAttention("f16", 1, 2, 70, 136, 64, 64), "tensor<70x136xf16>", many);
  check(plainAttention("bf16", 1, 2, 150, 100, 80, 64), "tensor<150x100xbf16>", two);
  check(plainAttention("f16", 2, 1, 80, 92, 64, 64), "tensor<2x1x80x92xf32>", one);
  AttentionCase causal = plainAttention("f16", 1, 2, 136, 136, 64, 64);
  causal.causal = true;
  check(causal, "tensor<136x136xf16>", two);
}

TEST(CudaAttentionTest, HeadSizes) {
  for (auto [d, dv] : {std::pair(8, 8), std::pair(40, 40), std::pair(80, 96)}) {
    EXPECT_TRUE(
        matchesReference(attentionText(plainAttention("f16", 1, 1, 20, 70, d, dv)), emitChosen));
  }
  EXPECT_TRUE(matchesReference(attentionText(plainAttention("f16", 1, 1, 20, 70, 64, 128)),
                               emitTile(kMiddle)));
  EXPECT_TRUE(matchesReference(attentionText(plainAttention("bf16", 1, 1, 130, 70, 128, 128)),
                               emitTile(kWide)));
}

/// Blocks that do parts of the columns of V, of which the last begins where the one before has not
/// ended; decoding over clusters and, where there are none, alone.
TEST(CudaAttentionTest, WideHeads) {
  for (auto [d, dv] :
       {std::pair(160, 160), std::pair(256, 256), std::pair(192, 128), std::pair(64, 136)}) {
    AttentionCase c = plainAttention("f16", 1, 2, 37, 90, d, dv);
    EXPECT_TRUE(matchesReference(attentionText(c), emitChosen)) << d;
    c.causal = true;
    EXPECT_TRUE(matchesReference(attentionText(c), emitTile(kWideHeads))) << d;
  }
  for (const char *gpu : {"sm_90", "sm_80"}) {
    RunOptions options;
    options.gpu = target::targetOf(gpu);
    EXPECT_TRUE(matchesReference(attentionText(plainAttention("bf16", 1, 4, 1, 300, 256, 256, 2)),
                                 emitChosen, options))
        << gpu;
  }
}

TEST(CudaAttentionTest, WideHeadsFitRegisters) {
  for (const char *arch : {"sm_80", "sm_86", "sm_90", "sm_90a"}) {
    const target::Target &gpu = target::targetOf(arch);
    for (int64_t width : {136, 160, 192, 256}) {
      for (const AttentionCase &c : {plainAttention("f16", 8, 16, 1024, 1024, width, width),
                                     plainAttention("f16", 1, 4, 64, 256, width, width),
                                     plainAttention("bf16", 4, 32, 1, 2048, width, width, 8)}) {
        llvm::Expected<std::string> ptx = emitTestPtx(attentionText(c), emitFlash, gpu);
        ASSERT_TRUE(bool(ptx)) << llvm::toString(ptx.takeError());
        EXPECT_TRUE(assembles(*ptx, gpu)) << arch << " " << width;
      }
    }
  }
}

/// Another order of the threads shows where a barrier is missing.
TEST(CudaAttentionTest, OrderOfThreads) {
  for (const Emitter &emitter : {Emitter(emitChosen), emitTile(kMiddle)}) {
    EXPECT_TRUE(matchesReference(attentionText(plainAttention("f16", 1, 2, 37, 200, 32, 32)),
                                 emitter, {}, 2,
                                 /*reversed=*/true));
  }
  EXPECT_TRUE(matchesReference(attentionText(plainAttention("bf16", 1, 4, 1, 500, 64, 64, 2)),
                               emitChosen, {}, 2, /*reversed=*/true));
  EXPECT_TRUE(matchesReference(attentionText(plainAttention("f32", 1, 2, 35, 70, 20, 33)),
                               emitChosen, {}, 2,
                               /*reversed=*/true));
}

TEST(CudaAttentionTest, SharedKeyHeadsAndSplits) {
  EXPECT_TRUE(
      matchesReference(attentionText(plainAttention("f16", 2, 6, 9, 9, 16, 16, 2)), emitChosen));
  EXPECT_TRUE(
      matchesReference(attentionText(plainAttention("bf16", 1, 8, 1, 500, 64, 64, 2)), emitChosen));
  EXPECT_TRUE(
      matchesReference(attentionText(plainAttention("f16", 1, 4, 3, 700, 64, 32, 1)), emitChosen));
  // So many lists of queries that larger tiles would be chosen for more rows.
  EXPECT_TRUE(
      matchesReference(attentionText(plainAttention("f16", 20, 8, 1, 70, 32, 32, 2)), emitChosen));
  for (const char *mask : {"tensor<2x1x1x300xf16>", "tensor<2x4x1x300xf16>"}) {
    AttentionCase masked = plainAttention("f16", 2, 4, 1, 300, 32, 32, 1);
    masked.mask = mask;
    EXPECT_TRUE(matchesReference(attentionText(masked), emitChosen));
  }
  AttentionCase causal = plainAttention("f16", 1, 4, 3, 300, 64, 64, 1);
  causal.causal = true;
  EXPECT_TRUE(matchesReference(attentionText(causal), emitChosen));
}

TEST(CudaAttentionTest, Causal) {
  for (auto [sq, sk] :
       {std::pair(70, 70), std::pair(3, 50), std::pair(100, 133), std::pair(150, 40)}) {
    AttentionCase c = plainAttention("f16", 1, 1, sq, sk, 16, 16);
    c.causal = true;
    EXPECT_TRUE(matchesReference(attentionText(c), emitChosen));
    EXPECT_TRUE(matchesReference(attentionText(c), emitTile(sq > 100 ? kLarge : kMiddle)));
  }
}

/// The position of the first query in memory, among keys of which later ones are not read.
RunOptions startingAt(int64_t start) {
  RunOptions options;
  options.edit = [=](llvm::MutableArrayRef<reference::Tensor> inputs) {
    reference::Tensor &tensor = inputs.back();
    if (tensor.dtype() == DType::I64) {
      *reinterpret_cast<int64_t *>(tensor.mutableBytes()) = start;
    } else {
      *reinterpret_cast<int32_t *>(tensor.mutableBytes()) = static_cast<int32_t>(start);
    }
  };
  return options;
}

constexpr AttentionTile kGroup{.isWarpgroup = true};
constexpr AttentionTile kTwoGroups{
    .rowWarps = 8, .stages = 3, .isWarpgroup = true, .isHeaviestFirst = true};

TEST(CudaAttentionTest, StartsAndWindows) {
  AttentionTile split{.rowWarps = 1, .keyWarps = 4, .splits = 2, .isClustered = true};
  AttentionTile apart = split;
  apart.isClustered = false;
  AttentionCase c = plainAttention("bf16", 1, 4, 70, 200, 64, 64, 2);
  c.causal = true;
  c.start = "tensor<1xi64>";
  for (auto [start, window] :
       {std::pair(0, 0), std::pair(63, 0), std::pair(130, 0), std::pair(63, 70)}) {
    c.window = window;
    for (const AttentionTile &tile : {kGroup, kTwoGroups, kLarge, kWide, split, apart}) {
      EXPECT_TRUE(matchesReference(attentionText(c), emitTile(tile), startingAt(start)))
          << start << " " << window << " " << tile.threads();
    }
  }
}

TEST(CudaAttentionTest, StartsOfOtherShapes) {
  auto check = [](AttentionCase c, const Emitter &emitter, int64_t start) {
    c.causal = true;
    c.start = "tensor<1xi32>";
    for (int64_t window : {0, 1, 33}) {
      c.window = window;
      EXPECT_TRUE(matchesReference(attentionText(c), emitter, startingAt(start)))
          << start << " " << window;
    }
  };
  // Two batches, and 128 columns.
  check(plainAttention("f16", 2, 2, 150, 190, 128, 128, 1), emitTile(kTwoGroups), 40);
  check(plainAttention("f16", 1, 2, 37, 90, 160, 160), emitChosen, 20);
  check(plainAttention("f32", 1, 4, 70, 200, 20, 33, 2), emitChosen, 77);
  // What lies so far that the sums with it would not be an i32, before all keys and behind them.
  for (int64_t start : {-0x7fffffff, 0x7fffffff}) {
    check(plainAttention("f16", 1, 1, 5, 70, 64, 64), emitTile(kGroup), start);
    check(plainAttention("f32", 1, 1, 5, 70, 16, 16), emitChosen, start);
  }
}

TEST(CudaAttentionTest, StartsUnderAMask) {
  AttentionCase c = plainAttention("f16", 1, 1, 11, 90, 64, 64);
  c.mask = "tensor<11x90xf16>";
  c.causal = true;
  c.start = "tensor<1xi64>";
  EXPECT_TRUE(matchesReference(attentionText(c), emitTile(kLarge), startingAt(60)));
  EXPECT_TRUE(matchesReference(attentionText(c), emitTile(kGroup), startingAt(60)));
}

TEST(CudaAttentionTest, TwoWarpgroupsShareTiles) {
  AttentionCase c = plainAttention("bf16", 1, 2, 131, 200, 64, 64);
  EXPECT_TRUE(matchesReference(attentionText(c), emitTile(kTwoGroups), {}, 2, /*reversed=*/true));
  c.causal = true;
  EXPECT_TRUE(matchesReference(attentionText(c), emitTile(kTwoGroups)));
  // Chosen for prompts: so many queries and keys that processors have blocks of 128.
  AttentionCase prompt = plainAttention("bf16", 1, 32, 2048, 2048, 64, 64, 8);
  prompt.causal = true;
  prompt.start = "tensor<1xi64>";
  const target::Target &hopper = target::targetOf("sm_90a");
  llvm::Expected<std::string> ptx = emitTestPtx(attentionText(prompt), emitFlash, hopper);
  ASSERT_TRUE(bool(ptx)) << llvm::toString(ptx.takeError());
  EXPECT_NE(ptx->find(".reqntid 256"), std::string::npos);
  EXPECT_TRUE(assembles(*ptx, hopper));
}

TEST(CudaAttentionTest, Masks) {
  for (const char *mask :
       {"tensor<f16>", "tensor<19xf16>", "tensor<11x1xf16>", "tensor<2x1x1x19xf16>",
        "tensor<2x3x11x19xf16>", "tensor<1x3x1x19xf16>", "tensor<2x1x11x19xf32>"}) {
    AttentionCase c = plainAttention("f16", 2, 3, 11, 19, 8, 8);
    c.mask = mask;
    EXPECT_TRUE(matchesReference(attentionText(c), emitChosen));
  }
  for (const char *mask : {"tensor<11x19xf16>", "tensor<19xf16>"}) {
    AttentionCase c = plainAttention("f16", 1, 1, 11, 19, 8, 8);
    c.mask = mask;
    c.causal = true;
    EXPECT_TRUE(matchesReference(attentionText(c), emitTile(kLarge)));
  }
}

TEST(CudaAttentionTest, QueriesThatSeeNothingUnderAMask) {
  AttentionCase c = plainAttention("f16", 1, 2, 30, 8, 16, 16);
  c.mask = "tensor<1x1x30x8xf16>";
  c.causal = true;
  EXPECT_TRUE(matchesReference(attentionText(c), emitChosen));
  EXPECT_TRUE(matchesReference(attentionText(c), emitTile(kMiddle)));
}

/// Minus infinity for all keys of the first query and of the last: zeros, or NaN. Of a block, of
/// splits of the keys, of the FP32 kernel.
TEST(CudaAttentionTest, MaskedRowsAreZerosOrNan) {
  RunOptions run;
  run.edit = [](llvm::MutableArrayRef<reference::Tensor> inputs) {
    reference::Tensor &mask = inputs[3];
    bool isWide = mask.dtype() == DType::F32;
    int64_t bytes = mask.dims().back() * (isWide ? 4 : 2), all = mask.count() * (isWide ? 4 : 2);
    for (int64_t first : {int64_t(0), all - bytes}) {
      char *row = reinterpret_cast<char *>(mask.mutableBytes()) + first;
      if (isWide) {
        std::fill_n(reinterpret_cast<float *>(row), bytes / 4,
                    -std::numeric_limits<float>::infinity());
      } else {
        constexpr uint16_t infinite = 0xfc00;
        std::fill_n(reinterpret_cast<uint16_t *>(row), bytes / 2, infinite);
      }
    }
  };
  for (bool areNan : {false, true}) {
    auto check = [&](AttentionCase c, const std::string &mask, const Emitter &emitter) {
      c.mask = mask;
      c.maskedRowsAreNan = areNan;
      EXPECT_TRUE(matchesReference(attentionText(c), emitter, run)) << attentionText(c);
    };
    AttentionCase block = plainAttention("f16", 1, 2, 30, 80, 16, 16);
    check(block, "tensor<30x80xf16>", emitChosen);
    check(block, "tensor<30x80xf16>", emitTile(kMiddle));
    check(plainAttention("f16", 2, 4, 1, 300, 32, 32, 1), "tensor<2x1x1x300xf16>", emitChosen);
    check(plainAttention("f16", 1, 4, 3, 700, 64, 32, 1), "tensor<3x700xf16>", emitChosen);
    check(plainAttention("f32", 1, 2, 35, 70, 20, 33), "tensor<35x70xf32>", emitChosen);
    check(plainAttention("f16", 1, 2, 80, 90, 64, 64), "tensor<80x90xf16>",
          emitTile({.isWarpgroup = true}));
  }
}

TEST(CudaAttentionTest, HeadsInnerAndStrides) {
  std::string outer = "tensor<2x3x11x8xf16>", inner = "tensor<2x11x3x8xf16>";
  AttentionCase c{inner, inner, inner, inner, "tensor<2x1x1x11xf16>", "true, true, true, true"};
  EXPECT_TRUE(matchesReference(attentionText(c), emitChosen));
  EXPECT_TRUE(matchesReference(
      attentionText({outer, inner, outer, inner, "", "false, true, false, true"}), emitChosen));
}

/// q, k and v as parts of one projection [B, S, H + 2 Hk, D], the result as [B, S, H, D].
std::string mergedText() {
  std::string input = "tensor<2x21x8x16xf16>", text;
  auto part = [&](const std::string &name, int heads, int first) {
    std::string stored = "tensor<2x21x" + std::to_string(heads) + "x16xf16>";
    std::string moved = "tensor<2x" + std::to_string(heads) + "x21x16xf16>";
    text += "%" + name + "s = tn.slice %x {starts = affine_map<() -> (0, 0, " +
            std::to_string(first) + ", 0)>, steps = array<i64: 1, 1, 1, 1>} : (" + input + ") -> " +
            stored + "\n%" + name + " = tn.transpose %" + name + "s [0, 2, 1, 3] : (" + stored +
            ") -> " + moved + "\n";
  };
  part("q", 4, 0);
  part("k", 2, 4);
  part("v", 2, 6);
  std::string query = "tensor<2x4x21x16xf16>", key = "tensor<2x2x21x16xf16>";
  return regionText("attention", "(%x: " + input + ") -> tensor<2x21x4x16xf16>",
                    text +
                        "%0 = tn.attention %q, %k, %v {scale = 0.25 : f64, causal = true, "
                        "headsInner = array<i1: false, false, false, false>} : (" +
                        query + ", " + key + ", " + key + ") -> " + query +
                        "\n%1 = tn.transpose %0 [0, 2, 1, 3] : (" + query +
                        ") -> tensor<2x21x4x16xf16>\nreturn %1 : tensor<2x21x4x16xf16>");
}

TEST(CudaAttentionTest, ReadsAndWritesThroughStrides) {
  EXPECT_TRUE(matchesReference(mergedText(), emitChosen));
  EXPECT_TRUE(matchesReference(mergedText(), emitTile(kMiddle)));
}

TEST(CudaAttentionTest, DynamicSizes) {
  std::string inner = "tensor<?x?x3x16xf16, #tn.shape<()[s0, s1] -> (s0, s1, 3, 16)>>";
  std::string mask = "tensor<?x1x1x?xf16, #tn.shape<()[s0, s1] -> (s0, 1, 1, s1)>>";
  AttentionCase c{inner, inner,
                  inner, inner,
                  mask,  "true, true, true, true",
                  false, "#tn.symbol<\"s0\", 1, 8>, #tn.symbol<\"s1\", 1, 512>"};
  for (bool causal : {false, true}) {
    c.causal = causal;
    EXPECT_TRUE(matchesReference(attentionText(c), emitChosen, {1, 1}));
    EXPECT_TRUE(matchesReference(attentionText(c), emitChosen, {2, 131}));
  }
}

TEST(CudaAttentionTest, Plain) {
  EXPECT_TRUE(
      matchesReference(attentionText(plainAttention("f32", 1, 2, 70, 90, 20, 33)), emitChosen));
  EXPECT_TRUE(
      matchesReference(attentionText(plainAttention("f32", 1, 2, 65, 65, 64, 64)), emitChosen));
  EXPECT_TRUE(matchesReference(attentionText(plainAttention("f16", 1, 2, 9, 9, 7, 5)), emitChosen));
  EXPECT_TRUE(
      matchesReference(attentionText(plainAttention("f32", 1, 4, 33, 40, 128, 72, 2)), emitChosen));
  AttentionCase c = plainAttention("f32", 2, 3, 11, 19, 8, 8);
  for (const char *mask : {"tensor<f32>", "tensor<11x1xf32>", "tensor<2x3x11x19xf32>"}) {
    c.mask = mask;
    c.causal = true;
    EXPECT_TRUE(matchesReference(attentionText(c), emitChosen));
  }
}

TEST(CudaAttentionTest, Assembles) {
  std::string f16 = "f16";
  AttentionCase causal = plainAttention("bf16", 4, 16, 4096, 4096, 128, 128);
  causal.causal = true;
  AttentionCase masked = plainAttention("f16", 1, 12, 128, 128, 64, 64);
  masked.mask = "tensor<1x1x1x128xf16>";
  AttentionCase fullMask = plainAttention("f16", 8, 12, 256, 256, 64, 64);
  fullMask.mask = "tensor<8x1x256x256xf16>";
  const AttentionCase cases[] = {plainAttention("f16", 64, 16, 384, 384, 64, 64),
                                 plainAttention("f16", 1, 16, 384, 384, 64, 64),
                                 masked,
                                 fullMask,
                                 causal,
                                 plainAttention("bf16", 1, 32, 1, 2048, 64, 64, 8),
                                 plainAttention("f32", 8, 12, 128, 128, 64, 64),
                                 plainAttention("f32", 1, 8, 77, 300, 128, 128)};
  const target::Target &hopper = target::targetOf("sm_90");
  const target::Target &ampere = target::targetOf("sm_80");
  auto check = [](const AttentionCase &c, const target::Target &gpu) {
    llvm::Expected<std::string> ptx = emitTestPtx(attentionText(c), emitChosen, gpu);
    ASSERT_TRUE(bool(ptx)) << llvm::toString(ptx.takeError());
    testing::AssertionResult result = assembles(*ptx, gpu);
    EXPECT_TRUE(result) << attentionText(c) << result.message();
  };
  for (const AttentionCase &c : cases) {
    check(c, hopper);
  }
  check(cases[0], ampere);
  check(causal, ampere);
  for (const AttentionCase &c : {cases[0], fullMask, causal}) {
    const target::Target &warpgroups = target::targetOf("sm_90a");
    check(c, warpgroups);
    EXPECT_NE(emitTestPtx(attentionText(c), emitChosen, warpgroups)->find("wgmma"),
              std::string::npos);
  }
}

} // namespace
} // namespace tenon::codegen::cuda
