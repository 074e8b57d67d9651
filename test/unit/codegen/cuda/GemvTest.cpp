// Products with few rows on the emulated GPU: both layouts of weights, tails of columns and depth,
// several tiles a block and several chunks of the depth, the norm before and the epilogue behind.
#include "compiler/codegen/cuda/gemm/Gemv.h"
#include "test/unit/codegen/emulator/HandKernelCheck.h"

namespace tenon::codegen::cuda {
namespace {

struct Shape {
  std::string type;
  int64_t m, n, k;
  bool isPacked = true;
};

std::string tensor(const std::vector<int64_t> &dims, const std::string &type) {
  std::string text = "tensor<";
  for (int64_t dim : dims) {
    text += std::to_string(dim) + "x";
  }
  return text + type + ">";
}

/// %y = %a times the weights %w; what precedes and follows is the caller's.
std::string gemvText(const Shape &s, const std::string &before, const std::string &after,
                     const std::string &result, const std::string &extra = "") {
  std::string a = tensor({1, s.m, s.k}, s.type), y = tensor({1, s.m, s.n}, s.type);
  std::string w = tensor(
      s.isPacked ? std::vector{(s.k + 31) / 32, s.n, int64_t(32)} : std::vector{s.n, s.k}, s.type);
  std::string b = s.isPacked ? tensor({s.k, s.n}, s.type) : w;
  std::string body = before;
  if (s.isPacked) {
    body +=
        "%b = tn.unpack %w outer_dims_perm = [0, 1] inner_dims_pos = [0] inner_tiles = [32] : (" +
        w + ") -> " + b + "\n";
  }
  body += "%y = tn.matmul " + std::string(before.empty() ? "%a" : "%n") + ", " +
          (s.isPacked ? "%b" : "%w {transposeB}") + " : (" + a + ", " + b + ") -> " + y + "\n";
  return regionText("contraction",
                    "(%a: " + a + ", %w: " + w + " {tn.constant}" + extra + ") -> " + result,
                    body + after);
}

std::string plainText(const Shape &s) {
  std::string y = tensor({1, s.m, s.n}, s.type);
  return gemvText(s, "", "return %y : " + y, y);
}

Emitter withLayout(GemvLayout layout) {
  return [layout](RegionBuilder &region) -> mlir::FailureOr<bool> {
    MatchResult<GemvProblem> problem = matchGemv(region);
    return problem && emitGemv(region, *problem, layout);
  };
}

const Emitter emitChosen = byFamily({"gemv"});

TEST(CudaGemvTest, Rows) {
  for (int64_t rows : {1, 3, 8, 13, 16}) {
    EXPECT_TRUE(matchesReference(plainText({"bf16", rows, 48, 512}), emitChosen, {}, 1));
    EXPECT_TRUE(matchesReference(plainText({"f16", rows, 48, 512, false}), emitChosen, {}, 1));
  }
}

/// The last tile is narrow, the last panel short, and some warps have no depth at all.
TEST(CudaGemvTest, Tails) {
  for (bool isPacked : {true, false}) {
    EXPECT_TRUE(matchesReference(plainText({"f16", 3, 37, 264, isPacked}), emitChosen, {}, 1));
    EXPECT_TRUE(matchesReference(plainText({"bf16", 9, 21, 616, isPacked}), emitChosen, {}, 1));
  }
}

TEST(CudaGemvTest, OneColumn) {
  Shape shape = {"f16", 3, 1, 256, false};
  std::string y = tensor({1, 3, 1}, "f16");
  EXPECT_TRUE(matchesReference(
      gemvText(shape, "",
               "%0 = tn.add %y, %r : (" + y + ", " + y + ") -> " + y + "\nreturn %0 : " + y, y,
               ", %r: " + y),
      emitChosen, {}, 1));
}

TEST(CudaGemvTest, TilesAndChunks) {
  for (bool isPacked : {true, false}) {
    Shape shape = {"f16", 2, 16 * 7, 1024 + 64, isPacked};
    EXPECT_TRUE(matchesReference(plainText(shape), withLayout({8, 2, 3, 3}), {}, 1));
    EXPECT_TRUE(matchesReference(plainText(shape), withLayout({8, 6, 1, 2}), {}, 1));
  }
}

/// A layout that leaves out half of the depth is seen.
TEST(CudaGemvTest, PlantedFault) {
  EXPECT_FALSE(matchesReference(plainText({"f16", 2, 48, 512}), withLayout({8, 1, 1, 3}), {}, 1));
}

/// Another order of the threads shows where a barrier is missing.
TEST(CudaGemvTest, OrderOfThreads) {
  EXPECT_TRUE(
      matchesReference(plainText({"bf16", 16, 80, 512}), withLayout({8, 1, 2, 2}), {}, 1, true));
}

TEST(CudaGemvTest, Epilogue) {
  Shape shape = {"bf16", 3, 48, 512};
  std::string y = tensor({1, 3, 48}, "bf16"), wide = tensor({1, 3, 48}, "f32");
  EXPECT_TRUE(matchesReference(gemvText(shape, "",
                                        "%0 = tn.add %r, %y : (" + y + ", " + y + ") -> " + y +
                                            "\n%1 = tn.cast %0 : (" + y + ") -> " + wide +
                                            "\nreturn %1 : " + wide,
                                        wide, ", %r: " + y),
                               emitChosen, {}, 1));
}

/// Gate and up projections in one: an element of the result is made of two columns.
std::string gatedText(const Shape &s, int64_t second) {
  std::string y = tensor({1, s.m, s.n}, s.type), half = tensor({1, s.m, s.n / 2}, s.type);
  auto slice = [&](const std::string &name, int64_t start) {
    return name + " = tn.slice %y {starts = affine_map<() -> (0, 0, " + std::to_string(start) +
           ")>, steps = array<i64: 1, 1, 1>} : (" + y + ") -> " + half + "\n";
  };
  return gemvText(s, "",
                  slice("%g", 0) + slice("%u", second) + "%s = tn.silu %g : " + half +
                      "\n%p = tn.mul %s, %u : (" + half + ", " + half + ") -> " + half +
                      "\nreturn %p : " + half,
                  half);
}

TEST(CudaGemvTest, Gated) {
  EXPECT_TRUE(matchesReference(gatedText({"bf16", 1, 96, 512}, 48), emitChosen, {}, 1));
  EXPECT_TRUE(matchesReference(gatedText({"f16", 11, 2 * 20, 256}, 20), emitChosen, {}, 1));
  EXPECT_TRUE(matchesReference(gatedText({"f16", 3, 96, 512, false}, 48), emitChosen, {}, 1));
  EXPECT_TRUE(matchesReference(gatedText({"bf16", 9, 2 * 21, 264, false}, 21), emitChosen, {}, 1));
  // Columns that lie otherwise are not this kernel's.
  EXPECT_FALSE(matchesReference(gatedText({"bf16", 1, 96, 512}, 40), emitChosen, {}, 1));
}

std::string normText(const Shape &s) {
  std::string a = tensor({1, s.m, s.k}, s.type), y = tensor({1, s.m, s.n}, s.type),
              scale = tensor({s.k}, s.type);
  return gemvText(s,
                  "%n = tn.rms_norm %a scale %s {axis = 2 : i64, epsilon = 1.0e-5 : f64} : (" + a +
                      ", " + scale + ") -> " + a + "\n",
                  "return %y : " + y, y, ", %s: " + scale);
}

TEST(CudaGemvTest, Norm) {
  for (int64_t rows : {1, 3, 8, 13, 16}) {
    EXPECT_TRUE(matchesReference(normText({"bf16", rows, 48, 328}), emitChosen, {}, 1));
  }
  EXPECT_TRUE(matchesReference(normText({"f16", 3, 48, 512}), emitChosen, {}, 1, true));
  EXPECT_TRUE(matchesReference(normText({"f16", 2, 80, 768}), withLayout({8, 2, 2, 3}), {}, 1));
  // A kernel of its own is faster.
  EXPECT_FALSE(matchesReference(normText({"f16", 16, 16, 2304}), emitChosen, {}, 1));
}

/// ptxas keeps the order of loads and of the wait only for loads of what may change.
TEST(CudaGemvTest, WeightsAreUnderWayBeforeTheWait) {
  const target::Target &gpu = target::targetOf("sm_90");
  llvm::Expected<std::string> ptx =
      emitTestPtx(plainText({"bf16", 1, 2048, 2048}), emitChosen, gpu);
  ASSERT_TRUE(bool(ptx)) << llvm::toString(ptx.takeError());
  EXPECT_LT(ptx->find("launch_dependents"), ptx->find("ld.global.L1::no_allocate"));
  EXPECT_LT(ptx->find("ld.global.L1::no_allocate"), ptx->find("griddepcontrol.wait"));
  EXPECT_EQ(ptx->find("ld.global.nc"), std::string::npos);
}

TEST(CudaGemvTest, Assembles) {
  const Shape shapes[] = {{"bf16", 1, 2048, 2048}, {"bf16", 16, 3072, 2048},
                          {"bf16", 1, 2048, 8192}, {"f16", 16, 2048, 8192},
                          {"f16", 8, 16384, 2048}, {"bf16", 1, 128256, 2048, false},
                          {"f16", 5, 1000, 3000},  {"bf16", 16, 128256, 2048, false}};
  for (const char *name : {"sm_80", "sm_90"}) {
    const target::Target &gpu = target::targetOf(name);
    for (const Shape &s : shapes) {
      llvm::Expected<std::string> ptx = emitTestPtx(plainText(s), emitChosen, gpu);
      ASSERT_TRUE(bool(ptx)) << llvm::toString(ptx.takeError());
      testing::AssertionResult result = assembles(*ptx, gpu);
      EXPECT_TRUE(result) << s.m << ' ' << s.n << ' ' << s.k << result.message();
    }
  }
  const target::Target &gpu = target::targetOf("sm_90");
  for (int64_t rows : {1, 4, 8, 16}) {
    for (const std::string &text : {gatedText({"bf16", rows, 16384, 2048}, 8192),
                                    normText({"bf16", std::min<int64_t>(rows, 4), 3072, 2048})}) {
      llvm::Expected<std::string> ptx = emitTestPtx(text, emitChosen, gpu);
      ASSERT_TRUE(bool(ptx)) << llvm::toString(ptx.takeError());
      testing::AssertionResult result = assembles(*ptx, gpu);
      EXPECT_TRUE(result) << result.message();
    }
  }
}

} // namespace
} // namespace tenon::codegen::cuda
