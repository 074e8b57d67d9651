// Generated products on the emulated GPU: tiles, tails, layouts of both operands, batches, splits
// of the depth over a cluster, epilogues; and the plain form.
#include "compiler/codegen/cuda/gemm/TiledGemm.h"
#include "test/unit/codegen/emulator/HandKernelCheck.h"

namespace tenon::codegen::cuda {
namespace {

std::string typeOf(const std::vector<int64_t> &dims, const std::string &type) {
  std::string text = "tensor<";
  for (int64_t dim : dims) {
    text += std::to_string(dim) + "x";
  }
  return text + type + ">";
}

/// y = a b, each stored transposed if said so.
std::string productText(const std::string &type, int64_t m, int64_t n, int64_t k,
                        bool transposeA = false, bool transposeB = false) {
  std::string a = transposeA ? typeOf({k, m}, type) : typeOf({m, k}, type);
  std::string b = transposeB ? typeOf({n, k}, type) : typeOf({k, n}, type);
  std::string attributes = std::string("{") + (transposeA ? "transposeA" : "") +
                           (transposeA && transposeB ? ", " : "") +
                           (transposeB ? "transposeB" : "") + "}";
  std::string y = typeOf({m, n}, type);
  return regionText("contraction", "(%a: " + a + ", %b: " + b + ") -> " + y,
                    "%0 = tn.matmul %a, %b " + attributes + " : (" + a + ", " + b + ") -> " + y +
                        "\nreturn %0 : " + y);
}

Emitter emitTile(GemmTile tile) {
  return [tile](RegionBuilder &region) -> mlir::FailureOr<bool> {
    return emitProduct(region, *matchGemm(region.source), tile);
  };
}

const Emitter emitTiled = byFamily({"gemm_tensorcore", "gemm_simt"});

GemmTile tile(int64_t rows, int64_t columns, int64_t depth, int64_t warpRows, int64_t warpColumns,
              int64_t stages, int64_t splits) {
  return {rows, columns, depth, warpRows, warpColumns, stages, splits, false};
}

TEST(CudaTiledGemmTest, Layouts) {
  for (bool transposeA : {false, true}) {
    for (bool transposeB : {false, true}) {
      EXPECT_TRUE(matchesReference(productText("f16", 72, 40, 136, transposeA, transposeB),
                                   emitTile(tile(64, 32, 32, 32, 16, 3, 1))));
    }
  }
}

TEST(CudaTiledGemmTest, Splits) {
  EXPECT_TRUE(matchesReference(productText("bf16", 40, 72, 200, false, true),
                               emitTile(tile(32, 64, 32, 16, 32, 4, 3)), {}, 1));
  EXPECT_TRUE(matchesReference(productText("f16", 5, 64, 320),
                               emitTile(tile(16, 64, 64, 16, 16, 4, 4)), {}, 1));
}

/// Another order of the threads shows where a barrier is missing.
TEST(CudaTiledGemmTest, OrderOfThreads) {
  EXPECT_TRUE(matchesReference(productText("f16", 40, 72, 264, false, true),
                               emitTile(tile(32, 64, 32, 16, 32, 3, 2)), {}, 1, true));
  EXPECT_TRUE(matchesReference(productText("f32", 20, 70, 50), emitTiled, {}, 1, true));
}

TEST(CudaTiledGemmTest, TailsOfOddColumns) {
  EXPECT_TRUE(matchesReference(productText("f16", 33, 37, 64, false, true),
                               emitTile(tile(32, 32, 32, 16, 16, 3, 1))));
}

/// Rows on borders of 8, 4 and 2 bytes, of either operand, along the depth and across it.
TEST(CudaTiledGemmTest, NarrowCopies) {
  for (int64_t size : {44, 42, 41}) {
    for (bool transpose : {false, true}) {
      EXPECT_TRUE(matchesReference(productText("f16", size, 40, 72, transpose, transpose),
                                   emitTile(tile(32, 32, 32, 16, 16, 3, 1))));
      EXPECT_TRUE(matchesReference(productText("bf16", 40, size, 72, transpose, transpose),
                                   emitTile(tile(32, 32, 32, 16, 16, 3, 1))));
      EXPECT_TRUE(matchesReference(productText("f16", 40, 24, size, transpose, transpose),
                                   emitTile(tile(16, 32, 64, 16, 16, 3, 1))));
    }
  }
  EXPECT_TRUE(matchesReference(productText("f16", 7, 9, 33, true, true), emitTiled));
  EXPECT_TRUE(matchesReference(productText("f16", 45, 39, 333), emitTiled, {}, 1, true));
}

/// Every second row and column of A, which no border is known of.
TEST(CudaTiledGemmTest, NoContiguousDim) {
  std::string a = "tensor<40x66xf16>", half = "tensor<20x33xf16>", b = "tensor<33x24xf16>",
              y = "tensor<20x24xf16>";
  EXPECT_TRUE(matchesReference(
      regionText(
          "contraction", "(%a: " + a + ", %b: " + b + ") -> " + y,
          "%s = tn.slice %a {starts = affine_map<() -> (1, 0)>, steps = array<i64: 2, 2>} : (" + a +
              ") -> " + half + "\n%0 = tn.matmul %s, %b : (" + half + ", " + b + ") -> " + y +
              "\nreturn %0 : " + y),
      emitTiled));
}

TEST(CudaTiledGemmTest, DynamicDepth) {
  std::string a = "tensor<20x?xf16, #tn.shape<()[s0] -> (20, s0)>>",
              b = "tensor<?x40xf16, #tn.shape<()[s0] -> (s0, 40)>>", y = "tensor<20x40xf16>";
  std::string text =
      regionText("contraction", "(%a: " + a + ", %b: " + b + ") -> " + y,
                 "%0 = tn.matmul %a, %b : (" + a + ", " + b + ") -> " + y + "\nreturn %0 : " + y,
                 "#tn.symbol<\"s0\", 1, 512>");
  EXPECT_TRUE(matchesReference(text, emitTiled, {1}));
  EXPECT_TRUE(matchesReference(text, emitTiled, {77}));
}

TEST(CudaTiledGemmTest, Epilogue) {
  std::string a = "tensor<2x20x64xf16>", b = "tensor<64x48xf16>", y = "tensor<2x20x48xf16>",
              bias = "tensor<48xf16>";
  EXPECT_TRUE(matchesReference(
      regionText(
          "contraction", "(%a: " + a + ", %b: " + b + ", %c: " + bias + ", %r: " + y + ") -> " + y,
          "%0 = tn.matmul %a, %b : (" + a + ", " + b + ") -> " + y + "\n%1 = tn.add %0, %c : (" +
              y + ", " + bias + ") -> " + y + "\n%2 = tn.add %1, %r : (" + y + ", " + y + ") -> " +
              y + "\n%3 = tn.relu %2 : " + y + "\nreturn %3 : " + y),
      emitTiled));
}

TEST(CudaTiledGemmTest, Batches) {
  std::string a = "tensor<2x3x20x16xf16>", b = "tensor<3x16x24xf16>", y = "tensor<2x3x20x24xf16>";
  EXPECT_TRUE(matchesReference(
      regionText("contraction", "(%a: " + a + ", %b: " + b + ") -> " + y,
                 "%0 = tn.matmul %a, %b : (" + a + ", " + b + ") -> " + y + "\nreturn %0 : " + y),
      emitTiled));
}

TEST(CudaTiledGemmTest, DynamicRows) {
  std::string a = "tensor<?x64xf16, #tn.shape<()[s0] -> (s0, 64)>>", b = "tensor<64x40xf16>",
              y = "tensor<?x40xf16, #tn.shape<()[s0] -> (s0, 40)>>";
  std::string text =
      regionText("contraction", "(%a: " + a + ", %b: " + b + ") -> " + y,
                 "%0 = tn.matmul %a, %b : (" + a + ", " + b + ") -> " + y + "\nreturn %0 : " + y,
                 "#tn.symbol<\"s0\", 1, 512>");
  EXPECT_TRUE(matchesReference(text, emitTiled, {1}));
  EXPECT_TRUE(matchesReference(text, emitTiled, {77}));
}

TEST(CudaTiledGemmTest, Plain) {
  EXPECT_TRUE(matchesReference(productText("f32", 70, 90, 35), emitTiled));
  GemmTile large = tile(128, 128, 16, 8, 8, 1, 1);
  large.isSimt = true;
  EXPECT_TRUE(matchesReference(productText("f32", 130, 90, 20, false, true), emitTile(large)));
}

/// Where PTX first says `text`.
size_t firstOf(const std::string &ptx, const std::string &text) { return ptx.find(text); }

TEST(CudaTiledGemmTest, WeightsAreUnderWayBeforeTheWait) {
  std::string text = productText("f16", 64, 256, 512), constant = text;
  constant.insert(constant.find(") -> "), " {tn.constant}");
  EXPECT_TRUE(matchesReference(constant, emitTiled));
  const target::Target &gpu = target::targetOf("sm_90");
  llvm::Expected<std::string> late = emitTestPtx(text, emitTiled, gpu);
  llvm::Expected<std::string> early = emitTestPtx(constant, emitTiled, gpu);
  ASSERT_TRUE(late && early);
  EXPECT_LT(firstOf(*late, "griddepcontrol.wait"), firstOf(*late, "cp.async.cg"));
  EXPECT_LT(firstOf(*early, "cp.async.cg"), firstOf(*early, "griddepcontrol.wait"));
}

TEST(CudaTiledGemmTest, Assembles) {
  struct Shape {
    const char *type;
    int64_t m, n, k;
    bool transposeB;
  };
  const Shape shapes[] = {{"f16", 128, 768, 768, false},   {"f16", 128, 2304, 768, false},
                          {"f16", 128, 3072, 768, true},   {"f16", 128, 768, 3072, false},
                          {"bf16", 1, 2048, 2048, true},   {"bf16", 16, 16384, 2048, true},
                          {"f16", 4096, 4096, 4096, true}, {"f32", 2048, 2048, 512, false},
                          {"f32", 128, 768, 768, false}};
  const target::Target &gpu = target::targetOf("sm_90");
  for (const Shape &s : shapes) {
    llvm::Expected<std::string> ptx =
        emitTestPtx(productText(s.type, s.m, s.n, s.k, false, s.transposeB), emitTiled, gpu);
    ASSERT_TRUE(bool(ptx)) << llvm::toString(ptx.takeError());
    testing::AssertionResult result = assembles(*ptx, gpu);
    EXPECT_TRUE(result) << result.message();
  }
}

} // namespace
} // namespace tenon::codegen::cuda
