// Products of few rows by weights of 4 and 8 bits on the emulated GPU: blocks of all sizes, zero
// points, columns and rows that end inside a tile, and epilogues.
#include "compiler/codegen/cuda/gemm/LowBitGemv.h"
#include "test/unit/codegen/emulator/HandKernelCheck.h"

#include <cmath>
#include <cstring>

namespace tenon::codegen::cuda {
namespace {

struct LowBitShape {
  std::string type;
  int64_t rows, columns;
  tn::BlockRows layout;
};

/// With `mostRows` the rows vary, up to so many.
std::string textOf(const LowBitShape &s, int64_t mostRows = 0) {
  auto tensor = [](std::initializer_list<int64_t> dims, const std::string &type) {
    std::string text = "tensor<";
    for (int64_t dim : dims) {
      text += std::to_string(dim) + "x";
    }
    return text + type + ">";
  };
  auto ofRows = [&](int64_t last) {
    std::string end = std::to_string(last);
    return mostRows == 0
               ? tensor({s.rows, last}, s.type)
               : "tensor<?x" + end + "x" + s.type + ", #tn.shape<()[s0] -> (s0, " + end + ")>>";
  };
  std::string a = ofRows(s.layout.depth), b = tensor({s.columns, s.layout.rowBytes()}, "ui8"),
              w = tensor({s.columns, s.layout.depth}, s.type), y = ofRows(s.columns),
              c = tensor({s.columns}, s.type);
  return regionText("contraction",
                    "(%a: " + a + ", %b: " + b + " {tn.constant}, %c: " + c + ") -> " + y,
                    "%w = tn.decode_rows %b {bits = " + std::to_string(s.layout.bits) +
                        " : i64, block = " + std::to_string(s.layout.block) +
                        " : i64, zero_points = " + (s.layout.hasZeroPoints ? "true" : "false") +
                        "} : (" + b + ") -> " + w + "\n%0 = tn.matmul %a, %w {transposeB} : (" + a +
                        ", " + w + ") -> " + y + "\n%1 = tn.add %0, %c : (" + y + ", " + c +
                        ") -> " + y + "\n%2 = tn.relu %1 : " + y + "\nreturn %2 : " + y,
                    mostRows == 0 ? "" : "#tn.symbol<\"s0\", 0, " + std::to_string(mostRows) + ">");
}

/// Numbers of all values, and scales and zero points that differ between blocks: scales by which
/// weights are exact in 16 bits, as kernels have them.
RunOptions optionsOf(const LowBitShape &s, bool reversed = false) {
  RunOptions options;
  options.inputScale = 1;
  options.reversed = reversed;
  options.edit = [s](llvm::MutableArrayRef<reference::Tensor> inputs) {
    uint64_t seed = 7;
    auto next = [&] {
      return seed = seed * 6364136223846793005u + 1442695040888963407u, uint32_t(seed >> 32);
    };
    uint8_t *rows = inputs[1].as<uint8_t>();
    for (int64_t column = 0; column < s.columns; ++column) {
      for (int64_t block = 0; block < s.layout.blocks(); ++block) {
        uint8_t *words = rows + column * s.layout.rowBytes() + 4 * block * s.layout.blockWords();
        float scale = std::ldexp(1.0f, int((column + 3 * block) % 3) - 9),
              zero = float(next() % (1 << s.layout.bits));
        std::memcpy(words, &scale, 4);
        if (s.layout.hasZeroPoints) {
          std::memcpy(words + 4, &zero, 4);
        }
        for (int64_t i = 4 * s.layout.headerWords(); i < 4 * s.layout.blockWords(); ++i) {
          words[i] = uint8_t(next());
        }
      }
    }
  };
  return options;
}

mlir::FailureOr<bool> emitLowBit(RegionBuilder &region) {
  MatchResult<LowBitProblem> problem = matchLowBitGemv(region);
  return problem && emitLowBitGemv(region, *problem, chooseLowBitLayout(*problem, region.gpu));
}

testing::AssertionResult isRight(const LowBitShape &s, bool reversed = false) {
  return matchesReference(textOf(s), emitLowBit, optionsOf(s, reversed));
}

TEST(CudaLowBitGemvTest, Bits) {
  for (int64_t bits : {4, 8}) {
    for (const char *type : {"f16", "bf16"}) {
      EXPECT_TRUE(isRight({type, 1, 48, {bits, 32, false, 1024}})) << bits << type;
      EXPECT_TRUE(isRight({type, 5, 32, {bits, 32, true, 512}}, true)) << bits << type;
    }
  }
}

/// Lanes add up blocks of one row, whose rows come normed or as they are, and of several; where the
/// depth is no multiple of a warp's part nobody does.
TEST(CudaLowBitGemvTest, TotalsOfBlocks) {
  for (int64_t block : {32, 64, 256}) {
    for (int64_t rows : {1, 3}) {
      for (bool hasZeroPoints : {false, true}) {
        LowBitShape s{"bf16", rows, 21, {4, block, hasZeroPoints, 1024}};
        EXPECT_TRUE(isRight(s)) << block;
        s.layout.bits = 8;
        EXPECT_TRUE(isRight(s, true)) << block;
      }
    }
  }
  EXPECT_TRUE(isRight({"bf16", 1, 21, {4, 96, true, 96 * 8}}));
  EXPECT_TRUE(isRight({"bf16", 2, 21, {4, 32, false, 32 * 9}}));
}

TEST(CudaLowBitGemvTest, Blocks) {
  for (int64_t block : {64, 128, 256}) {
    EXPECT_TRUE(isRight({"f16", 1, 32, {4, block, false, 1280}})) << block;
    EXPECT_TRUE(isRight({"f16", 3, 32, {8, block, true, 768}})) << block;
  }
  // Fewer blocks than warps, and warps with fewer blocks than others.
  EXPECT_TRUE(isRight({"f16", 1, 16, {4, 32, false, 32}}));
  EXPECT_TRUE(isRight({"bf16", 1, 16, {4, 32, false, 32 * 37}}));
}

/// The first half of the columns times the relu of the second.
std::string gatedText(const LowBitShape &s) {
  std::string text = textOf({s.type, s.rows, s.columns, s.layout});
  std::string y = "tensor<" + std::to_string(s.rows) + "x" + std::to_string(s.columns) + "x" +
                  s.type + ">",
              half = "tensor<" + std::to_string(s.rows) + "x" + std::to_string(s.columns / 2) +
                     "x" + s.type + ">";
  size_t from = text.find("\n%1 = "), to = text.find("\nreturn ");
  size_t end = text.find("\n", to + 1);
  std::string start = std::to_string(s.columns / 2);
  text.replace(
      from, end - from,
      "\n%1 = tn.slice %0 {starts = affine_map<() -> (0, 0)>, steps = array<i64: 1, 1>} : (" + y +
          ") -> " + half + "\n%2 = tn.slice %0 {starts = affine_map<() -> (0, " + start +
          ")>, steps = array<i64: 1, 1>} : (" + y + ") -> " + half + "\n%3 = tn.relu %2 : " + half +
          "\n%4 = tn.mul %1, %3 : (" + half + ", " + half + ") -> " + half +
          "\nreturn %4 : " + half);
  size_t result = text.find(") -> " + y + " attributes");
  text.replace(result, 5 + y.size(), ") -> " + half);
  return text;
}

/// More steps than stages of a warp's ring, which goes around.
TEST(CudaLowBitGemvTest, Rings) {
  EXPECT_TRUE(isRight({"f16", 1, 16, {4, 32, false, 8192}}, true));
  EXPECT_TRUE(isRight({"bf16", 2, 21, {4, 32, true, 8192}}));
  EXPECT_TRUE(isRight({"bf16", 1, 32, {8, 64, false, 8192}}, true));
}

/// Fewer thread blocks than tiles: rings go on from tile to tile, the last of which not every block
/// has.
TEST(CudaLowBitGemvTest, TilesOfABlock) {
  for (auto [grid, stages] : {std::pair<int64_t, int64_t>(1, 3), {2, 1}, {5, 2}}) {
    Emitter emitter = [grid = grid,
                       stages = stages](RegionBuilder &region) -> mlir::FailureOr<bool> {
      MatchResult<LowBitProblem> problem = matchLowBitGemv(region);
      LowBitLayout layout = chooseLowBitLayout(*problem, region.gpu);
      layout.grid = grid;
      layout.stages = stages;
      while (lowBitMemory(*problem, layout).total() > region.gpu.sharedBytes) {
        --layout.stages;
      }
      return emitLowBitGemv(region, *problem, layout);
    };
    LowBitShape one{"bf16", 1, 16 * 7, {4, 32, false, 1024}},
        many{"f16", 3, 16 * 7 + 5, {4, 32, true, 8192}},
        whole{"f16", 2, 16 * 6, {8, 64, false, 4096}};
    for (const LowBitShape &s : {one, many, whole}) {
      EXPECT_TRUE(matchesReference(textOf(s), emitter, optionsOf(s))) << grid;
      EXPECT_TRUE(matchesReference(textOf(s), emitter, optionsOf(s, /*reversed=*/true))) << grid;
    }
  }
}

/// The rows are the RMS norm of others, with a scale or without.
std::string normedText(const LowBitShape &s, bool hasScale, int64_t mostRows = 0) {
  std::string text = textOf(s, mostRows),
              type = mostRows > 0 ? text.substr(text.find("%a: ") + 4,
                                                text.find(", %b: ") - text.find("%a: ") - 4)
                                  : "tensor<" + std::to_string(s.rows) + "x" +
                                        std::to_string(s.layout.depth) + "x" + s.type + ">",
              scale = "tensor<" + std::to_string(s.layout.depth) + "x" + s.type + ">";
  size_t at = text.find("%w = ");
  text.insert(at, "%n = tn.rms_norm %a" + std::string(hasScale ? " scale %s" : "") +
                      " {axis = 1 : i64, epsilon = 1.0e-05 : f64} : (" + type +
                      (hasScale ? ", " + scale : "") + ") -> " + type + "\n");
  text.replace(text.find("tn.matmul %a"), 12, "tn.matmul %n");
  if (hasScale) {
    size_t end = text.find(") -> ");
    text.insert(end, ", %s: " + scale + " {tn.constant}");
  }
  return text;
}

TEST(CudaLowBitGemvTest, Norms) {
  for (bool hasScale : {false, true}) {
    for (const LowBitShape &s : {LowBitShape{"bf16", 1, 48, {4, 32, false, 2048}},
                                 LowBitShape{"f16", 3, 40, {8, 32, true, 1024}},
                                 LowBitShape{"f16", 2, 24, {4, 32, false, 32 * 37}}}) {
      EXPECT_TRUE(matchesReference(normedText(s, hasScale), emitLowBit, optionsOf(s)))
          << normedText(s, hasScale);
    }
  }
  // Too many numbers for every block to norm.
  LowBitShape large{"f16", 9, 48, {4, 32, false, 1024}};
  EXPECT_FALSE(matchesReference(normedText(large, true), emitLowBit, optionsOf(large)));
}

TEST(CudaLowBitGemvTest, Halves) {
  for (const LowBitShape &s : {LowBitShape{"f16", 1, 64, {4, 32, false, 512}},
                               LowBitShape{"bf16", 3, 2 * 21, {4, 128, true, 256}}}) {
    EXPECT_TRUE(matchesReference(gatedText(s), emitLowBit, optionsOf(s))) << gatedText(s);
  }
}

TEST(CudaLowBitGemvTest, Tails) {
  EXPECT_TRUE(isRight({"f16", 1, 21, {4, 32, false, 256}}));
  EXPECT_TRUE(isRight({"f16", 9, 40, {4, 32, false, 256}}, true));
  EXPECT_TRUE(isRight({"bf16", 16, 7, {8, 64, true, 256}}));
  EXPECT_TRUE(isRight({"f16", 17, 24, {4, 32, false, 256}}));
  EXPECT_TRUE(isRight({"bf16", 40, 21, {8, 32, true, 256}}, true));
  EXPECT_TRUE(isRight({"bf16", 64, 32, {4, 32, false, 512}}));
}

/// Few rows read the words, more rows the weights that a kernel in front makes of them.
TEST(CudaLowBitGemvTest, RowsThatVary) {
  constexpr int64_t kMostRows = 66;
  const Emitter emitBuckets = byFamily({"gemm_buckets_generated"});
  for (const LowBitShape &s : {LowBitShape{"bf16", 0, 48, {4, 32, true, 256}},
                               LowBitShape{"f16", 0, 40, {8, 64, false, 1024}}}) {
    for (int64_t rows : {0, 1, 9, 33, 66}) {
      RunOptions options = optionsOf(s);
      options.symbols = {rows};
      EXPECT_TRUE(matchesReference(textOf(s, kMostRows), emitBuckets, options)) << rows;
      EXPECT_TRUE(
          matchesReference(normedText(s, /*hasScale=*/true, kMostRows), emitBuckets, options))
          << rows;
    }
  }
}

TEST(CudaLowBitGemvTest, Assembles) {
  for (const LowBitShape &s : {LowBitShape{"bf16", 1, 2048, {4, 32, false, 2048}},
                               LowBitShape{"bf16", 1, 8192, {4, 128, true, 2048}},
                               LowBitShape{"f16", 16, 2048, {8, 32, false, 8192}},
                               LowBitShape{"bf16", 8, 128256, {8, 256, true, 2048}}}) {
    for (const char *arch : {"sm_80", "sm_90a"}) {
      llvm::Expected<std::string> ptx = emitTestPtx(textOf(s), emitLowBit, target::targetOf(arch));
      ASSERT_TRUE(bool(ptx)) << llvm::toString(ptx.takeError());
      testing::AssertionResult result = assembles(*ptx, target::targetOf(arch));
      EXPECT_TRUE(result) << arch << result.message();
    }
  }
}

TEST(CudaLowBitGemvTest, RefusesWhatItCannotDo) {
  auto isRefused = [](const LowBitShape &s) {
    llvm::Expected<std::string> ptx = emitTestPtx(textOf(s), emitLowBit, target::targetOf("sm_90"));
    bool refused = !ptx;
    llvm::consumeError(ptx.takeError());
    return refused;
  };
  EXPECT_FALSE(isRefused({"f16", 16, 16, {4, 32, false, 64}}));
  EXPECT_TRUE(isRefused({"f16", 65, 16, {4, 32, false, 64}}));
  EXPECT_TRUE(isRefused({"f32", 1, 16, {4, 32, false, 64}}));
  EXPECT_TRUE(isRefused({"f16", 1, 16, {4, 16, false, 64}}));
  EXPECT_TRUE(isRefused({"f16", 1, 16, {4, 64, false, 96}}));
}

} // namespace
} // namespace tenon::codegen::cuda
