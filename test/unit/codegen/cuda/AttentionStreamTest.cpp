// Attention that streams heads through a processor, on the emulated GPU: rings that go around,
// heads with fewer blocks of queries than warpgroups, tails, masks, strides, and what happens when
// something of it is left out.
#include "compiler/codegen/cuda/attention/AttentionStream.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "test/unit/codegen/cpu/AttentionText.h"
#include "test/unit/codegen/cuda/AttentionEmitters.h"

#include <limits>

namespace tenon::codegen::cuda {
namespace {

const target::Target &kGpu = target::targetOf("sm_90a");

/// With so many blocks, a ring that holds one head if `isShort`, and warpgroups that take turns.
Emitter emitStream(int64_t blocks, bool isShort = false, bool isPingPong = false) {
  return [=](RegionBuilder &region) -> mlir::FailureOr<bool> {
    AttentionProblem problem = *matchAttention(region.source, /*mayEncode=*/true);
    std::optional<StreamLayout> layout = streamLayout(problem, kGpu);
    if (!layout) {
      return false;
    }
    layout->blocks = blocks;
    layout->isPingPong = isPingPong;
    layout->stages = isShort ? 2 * layout->tiles() : layout->stages;
    emitStreamAttention(region, problem, *layout);
    return true;
  };
}

/// What the emitter made, with `from` in all assembly replaced.
Emitter changed(const Emitter &emitter, const std::string &from, const std::string &to) {
  return [=](RegionBuilder &region) -> mlir::FailureOr<bool> {
    mlir::FailureOr<bool> result = emitter(region);
    region.kernels->walk([&](mlir::LLVM::InlineAsmOp assembly) {
      std::string text = assembly.getAsmString().str();
      size_t at = text.find(from);
      if (at != std::string::npos) {
        assembly.setAsmString(text.replace(at, from.size(), to));
      }
    });
    return result;
  };
}

RunOptions options(bool reversed = false) {
  RunOptions result;
  result.reversed = reversed;
  result.gpu = kGpu;
  return result;
}

AttentionCase masked(AttentionCase c, const std::string &mask) {
  c.mask = mask;
  return c;
}

TEST(CudaAttentionStreamTest, Heads) {
  std::string two = attentionText(plainAttention("f16", 1, 2, 128, 128, 64, 64));
  EXPECT_TRUE(matchesReference(two, emitStream(1), options()));
  EXPECT_TRUE(matchesReference(two, emitStream(2), options(true)));
  std::string five = attentionText(plainAttention("bf16", 1, 5, 64, 64, 64, 64));
  EXPECT_TRUE(matchesReference(five, emitStream(2), options()));
  std::string many = attentionText(plainAttention("f16", 2, 2, 256, 256, 64, 64));
  EXPECT_TRUE(matchesReference(many, emitStream(1, /*isShort=*/true), options()));
  EXPECT_TRUE(matchesReference(many, emitStream(3), options(true)));
}

/// One kernel for all numbers of sequences, of which a mask is that of its own.
TEST(CudaAttentionStreamTest, BatchesVary) {
  auto varying = [](const std::string &rest, const std::string &dims) {
    return "tensor<?x" + rest + "xf16, #tn.shape<()[s0] -> (s0, " + dims + ")>>";
  };
  std::string x = varying("2x64x64", "2, 64, 64");
  AttentionCase c{x, x, x, x, varying("1x1x64", "1, 1, 64")};
  for (int64_t most : {40, 1 << 19}) { // places in the result are of 32 bits, and of 64
    c.symbols = "#tn.symbol<\"s0\", 1, " + std::to_string(most) + ">";
    for (int64_t batches : {1, 3}) {
      RunOptions run = options();
      run.symbols = {batches};
      EXPECT_TRUE(matchesReference(attentionText(c), emitStream(4), run)) << batches;
    }
  }
  c.symbols = "#tn.symbol<\"s0\", 0, 8>";
  EXPECT_FALSE(matchesReference(attentionText(c), emitStream(1), options())) << "maybe no rows";
}

/// Also where some warpgroups have one unit more than others.
TEST(CudaAttentionStreamTest, Turns) {
  for (auto [heads, queries, keys] :
       {std::tuple(2, 256, 150), std::tuple(3, 192, 64), std::tuple(1, 192, 257)}) {
    AttentionCase c = plainAttention("f16", 1, heads, queries, keys, 64, 64);
    for (const std::string &mask : {std::string(), "tensor<" + std::to_string(keys) + "xf16>"}) {
      EXPECT_TRUE(matchesReference(attentionText(masked(c, mask)),
                                   emitStream(1, false, /*isPingPong=*/true),
                                   options(/*reversed=*/!mask.empty())));
    }
  }
}

TEST(CudaAttentionStreamTest, SharedKeyHeads) {
  EXPECT_TRUE(matchesReference(attentionText(plainAttention("bf16", 2, 4, 64, 128, 64, 64, 2)),
                               emitStream(3), options()));
}

TEST(CudaAttentionStreamTest, Tails) {
  for (bool isShort : {false, true}) {
    EXPECT_TRUE(matchesReference(attentionText(plainAttention("f16", 1, 3, 70, 150, 64, 64)),
                                 emitStream(1, isShort), options(isShort)));
  }
  EXPECT_TRUE(matchesReference(attentionText(plainAttention("bf16", 3, 1, 130, 45, 64, 64)),
                               emitStream(2), options()));
  EXPECT_TRUE(matchesReference(attentionText(plainAttention("f16", 1, 2, 64, 350, 64, 64)),
                               emitStream(1), options()));
}

TEST(CudaAttentionStreamTest, Masks) {
  AttentionCase whole = plainAttention("f16", 2, 2, 64, 256, 64, 64);
  AttentionCase tail = plainAttention("bf16", 2, 2, 80, 90, 64, 64);
  for (const char *mask : {"tensor<2x1x1x256xf16>", "tensor<2x2x1x256xf16>", "tensor<256xf16>"}) {
    EXPECT_TRUE(matchesReference(attentionText(masked(whole, mask)), emitStream(1), options()));
  }
  EXPECT_TRUE(matchesReference(attentionText(masked(tail, "tensor<2x1x1x90xbf16>")), emitStream(2),
                               options(true)));
}

/// Masks of zeros, and with the lowest number for some keys or all.
TEST(CudaAttentionStreamTest, MasksThatHide) {
  std::string text = attentionText(
      masked(plainAttention("bf16", 1, 2, 64, 256, 64, 64), "tensor<1x1x1x256xbf16>"));
  constexpr uint16_t zero = 0, low = 0xc61c /* -9984 */, lowest = 0xff7f;
  for (uint16_t first : {zero, lowest}) {
    for (uint16_t rest : {zero, low, lowest}) {
      RunOptions run = options();
      run.edit = [=](llvm::MutableArrayRef<reference::Tensor> inputs) {
        uint16_t *mask = reinterpret_cast<uint16_t *>(inputs[3].mutableBytes());
        std::fill(mask, mask + 128, first);
        std::fill(mask + 128, mask + 256, rest);
      };
      EXPECT_TRUE(matchesReference(text, emitStream(1), run)) << first << ", " << rest;
    }
  }
}

TEST(CudaAttentionStreamTest, MaskedRowsAreZerosOrNan) {
  RunOptions run = options();
  run.edit = [](llvm::MutableArrayRef<reference::Tensor> inputs) {
    constexpr uint16_t infinite = 0xff80;
    std::fill_n(reinterpret_cast<uint16_t *>(inputs[3].mutableBytes()), 256, infinite);
  };
  for (bool areNan : {false, true}) {
    AttentionCase c =
        masked(plainAttention("bf16", 1, 2, 64, 256, 64, 64), "tensor<1x1x1x256xbf16>");
    c.maskedRowsAreNan = areNan;
    EXPECT_TRUE(matchesReference(attentionText(c), emitStream(1), run)) << areNan;
  }
}

/// q, k and v as parts of one projection [B, S + 10, 3 H, D]: what lies behind the last of S rows
/// is not a number.
TEST(CudaAttentionStreamTest, WhatFollowsASequence) {
  std::string input = "tensor<2x80x6x64xf16>", stored = "tensor<2x70x2x64xf16>", text;
  for (int part : {0, 1, 2}) {
    std::string name = "%p" + std::to_string(part);
    text += name + " = tn.slice %x {starts = affine_map<() -> (0, 0, " + std::to_string(2 * part) +
            ", 0)>, steps = array<i64: 1, 1, 1, 1>} : (" + input + ") -> " + stored + "\n";
  }
  std::string source = regionText(
      "attention", "(%x: " + input + ") -> " + stored,
      text +
          "%0 = tn.attention %p0, %p1, %p2 {scale = 0.25 : f64, causal = false, headsInner = "
          "array<i1: true, true, true, true>} : (" +
          stored + ", " + stored + ", " + stored + ") -> " + stored + "\nreturn %0 : " + stored);
  RunOptions run = options();
  run.poison = [](llvm::MutableArrayRef<reference::Tensor> inputs) {
    constexpr int64_t row = 6 * 64;
    uint16_t *elements = reinterpret_cast<uint16_t *>(inputs[0].mutableBytes());
    for (int64_t batch : {0, 1}) {
      std::fill(elements + (batch * 80 + 70) * row, elements + (batch + 1) * 80 * row, 0x7e00);
    }
  };
  EXPECT_TRUE(matchesReference(source, emitStream(1), run));
}

/// The ring is full for ever where a stage is not released; products that are not waited for, and
/// keys that are used before they came, are found.
TEST(CudaAttentionStreamTest, WhatIsLeftOut) {
  std::string text = attentionText(plainAttention("f16", 1, 3, 64, 128, 64, 64));
  Emitter emitter = emitStream(1, /*isShort=*/true);
  EXPECT_TRUE(matchesReference(text, emitter, options()));
  for (auto [from, to] :
       {std::pair("wgmma.wait_group.sync.aligned 0", "wgmma.wait_group.sync.aligned 1"),
        std::pair("mbarrier.arrive.shared::cta.b64 _, [$0];", "fence.proxy.async.shared::cta;"),
        std::pair("mbarrier.arrive.shared::cta.b64 _, [$0], 4;", "fence.proxy.async.shared::cta;"),
        std::pair(
            "{\n.reg .pred done;\nagain:\nmbarrier.try_wait.parity.shared::cta.b64 done, [$0], "
            "$1;\n@!done bra again;\n}",
            "fence.proxy.async.shared::cta;")}) {
    EXPECT_FALSE(matchesReference(text, changed(emitter, from, to), options())) << from;
  }
}

/// The codes of 8-bit floats of twice the result.
std::string codesText(const AttentionCase &c) {
  std::string text = attentionText(c), codes = c.y.substr(0, c.y.rfind("f16")) + "f8E4M3FN>";
  auto replaceAll = [&](const std::string &from, const std::string &to) {
    size_t at = text.find(from);
    text.replace(at, from.size(), to);
  };
  replaceAll(") -> " + c.y + " attributes", ") -> " + codes + " attributes");
  replaceAll(
      "\nreturn %0 : " + c.y,
      "\n%two = tn.constant dense<2.0> : tensor<f16> : tensor<f16>\n%1 = tn.mul %0, %two : (" +
          c.y + ", tensor<f16>) -> " + c.y + "\n%2 = tn.encode %1 : (" + c.y + ") -> " + codes +
          "\nreturn %2 : " + codes);
  return text;
}

TEST(CudaAttentionStreamTest, Codes) {
  EXPECT_TRUE(matchesReference(codesText(plainAttention("f16", 1, 3, 70, 150, 64, 64)),
                               emitStream(1), options()));
  EXPECT_TRUE(matchesReference(codesText(plainAttention("f16", 1, 2, 128, 128, 64, 64)),
                               emitStream(2), options(true)));
  std::string large = codesText(plainAttention("f16", 64, 16, 384, 384, 64, 64));
  llvm::Expected<std::string> ptx = emitTestPtx(large, emitChosen, kGpu);
  ASSERT_TRUE(bool(ptx)) << llvm::toString(ptx.takeError());
  EXPECT_NE(ptx->find("cvt.rn.satfinite.e4m3x2.f16x2"), std::string::npos);
  EXPECT_TRUE(assembles(*ptx, kGpu));
  // No other kernel of attention stores codes.
  llvm::Expected<std::string> few =
      emitTestPtx(codesText(plainAttention("f16", 1, 2, 128, 128, 64, 64)), emitChosen, kGpu);
  EXPECT_FALSE(bool(few));
  llvm::consumeError(few.takeError());
}

TEST(CudaAttentionStreamTest, Assembles) {
  AttentionCase large =
      masked(plainAttention("f16", 64, 16, 384, 384, 64, 64), "tensor<64x1x1x384xf16>");
  AttentionCase base =
      masked(plainAttention("bf16", 32, 12, 128, 128, 64, 64), "tensor<32x1x1x128xbf16>");
  for (const AttentionCase &c : {large, base, plainAttention("f16", 64, 12, 197, 197, 64, 64),
                                 plainAttention("f16", 64, 16, 384, 384, 64, 64)}) {
    llvm::Expected<std::string> ptx = emitTestPtx(attentionText(c), emitStream(132), kGpu);
    ASSERT_TRUE(bool(ptx)) << llvm::toString(ptx.takeError());
    EXPECT_TRUE(assembles(*ptx, kGpu));
  }
}

TEST(CudaAttentionStreamTest, IsChosenForManyHeads) {
  auto isChosen = [](int64_t batch) {
    std::string text = attentionText(plainAttention("f16", batch, 16, 384, 384, 64, 64));
    llvm::Expected<std::string> ptx = emitTestPtx(text, emitChosen, kGpu);
    return bool(ptx) && ptx->find("setmaxnreg") != std::string::npos;
  };
  EXPECT_TRUE(isChosen(64));
  EXPECT_TRUE(isChosen(8));
  // A second round of heads would leave most processors idle.
  EXPECT_FALSE(isChosen(9));
  EXPECT_FALSE(isChosen(1));
}

TEST(CudaAttentionStreamTest, RefusesWhatItCannotDo) {
  auto isRefused = [](const AttentionCase &c) {
    llvm::Expected<std::string> ptx = emitTestPtx(attentionText(c), emitStream(1), kGpu);
    bool refused = !ptx;
    llvm::consumeError(ptx.takeError());
    return refused;
  };
  AttentionCase plain = plainAttention("f16", 1, 2, 128, 128, 64, 64);
  EXPECT_FALSE(isRefused(plain));
  EXPECT_TRUE(isRefused(masked(plain, "tensor<128x128xf16>")));
  EXPECT_TRUE(isRefused(plainAttention("f16", 1, 2, 128, 128, 128, 128)));
  EXPECT_TRUE(isRefused(plainAttention("f16", 1, 2, 128, 4096, 64, 64)));
  plain.causal = true;
  EXPECT_TRUE(isRefused(plain));
}

} // namespace
} // namespace tenon::codegen::cuda
