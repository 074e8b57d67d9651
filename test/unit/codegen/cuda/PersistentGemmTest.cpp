// Large products by warpgroups on the emulated GPU: both orders of B, rows that end inside a tile,
// epilogues, and that one block does several tiles.
#include "compiler/codegen/cuda/gemm/PersistentGemm.h"
#include "test/unit/codegen/cuda/GeluGemm.h"

namespace tenon::codegen::cuda {
namespace {

mlir::FailureOr<bool> emitWhole(RegionBuilder &region) {
  MatchResult<LargeProblem> problem = matchPersistentGemm(region);
  if (!problem) {
    return false;
  }
  return emitPersistentGemm(region, *problem);
}

/// One block that does all tiles.
mlir::FailureOr<bool> emitOneBlock(RegionBuilder &region) {
  MatchResult<LargeProblem> problem = matchPersistentGemm(region);
  problem->blocks = 1;
  return emitPersistentGemm(region, *problem);
}

TEST(CudaPersistentGemmTest, Orders) {
  EXPECT_TRUE(matchesReference(geluGemm("f16", 128, 256, 384), emitWhole, warpgroupOptions()));
  EXPECT_TRUE(matchesReference(geluGemm("bf16", 128, 256, 320, RightStored::ColumnsFirst),
                               emitWhole, warpgroupOptions(true)));
}

TEST(CudaPersistentGemmTest, RowsEndInsideATile) {
  EXPECT_TRUE(matchesReference(geluGemm("f16", 150, 256, 64), emitWhole, warpgroupOptions()));
}

/// The ring goes on over the borders of tiles.
TEST(CudaPersistentGemmTest, SeveralTilesABlock) {
  EXPECT_TRUE(matchesReference(geluGemm("f16", 256, 512, 192), emitOneBlock, warpgroupOptions()));
  EXPECT_TRUE(matchesReference(geluGemm("f16", 256, 256, 64, RightStored::ColumnsFirst),
                               emitOneBlock, warpgroupOptions(true)));
}

/// relu(0.25 a b + bias) of 8-bit floats, rounded to `result`; a bias of halves keeps sums in
/// between.
std::string float8Gemm(int64_t rows, int64_t columns, int64_t depth, const std::string &result) {
  auto tensor = [](std::initializer_list<int64_t> dims, const std::string &type) {
    std::string text = "tensor<";
    for (int64_t dim : dims) {
      text += std::to_string(dim) + "x";
    }
    return text + type + ">";
  };
  std::string ca = tensor({rows, depth}, "f8E4M3FN"), cb = tensor({columns, depth}, "f8E4M3FN"),
              a = tensor({rows, depth}, "f16"), b = tensor({columns, depth}, "f16"),
              y = tensor({rows, columns}, "f16"), bias = tensor({columns}, "f16"),
              out = tensor({rows, columns}, result);
  std::string body =
      "%s = tn.constant dense<0.5> : tensor<f16> : tensor<f16>\n%da = tn.decode %a : (" + ca +
      ") -> " + a + "\n%ma = tn.mul %da, %s : (" + a + ", tensor<f16>) -> " + a +
      "\n%u = tn.constant dense<0.5> : tensor<f16> : tensor<f16>" + "\n%db = tn.decode %b : (" +
      cb + ") -> " + b + "\n%mb = tn.mul %db, %u : (" + b + ", tensor<f16>) -> " + b +
      "\n%0 = tn.matmul %ma, %mb {tn.float8, transposeB} : (" + a + ", " + b + ") -> " + y +
      "\n%1 = tn.add %0, %c : (" + y + ", " + bias + ") -> " + y + "\n%2 = tn.relu %1 : " + y;
  body += result == "f16" ? "\nreturn %2 : " + out
                          : "\n%3 = tn.encode %2 : (" + y + ") -> " + out + "\nreturn %3 : " + out;
  return regionText("contraction",
                    "(%a: " + ca + ", %b: " + cb + " {tn.constant}, %c: " + bias + ") -> " + out,
                    body);
}

TEST(CudaPersistentGemmTest, ProductsOfFloat8) {
  EXPECT_TRUE(matchesReference(float8Gemm(150, 256, 384, "f16"), emitWhole, warpgroupOptions()));
  EXPECT_TRUE(matchesReference(float8Gemm(256, 512, 256, "f8E4M3FN"), emitOneBlock,
                               warpgroupOptions(true)));
  llvm::Expected<std::string> ptx =
      emitTestPtx(float8Gemm(24576, 4096, 1024, "f8E4M3FN"), emitWhole, kWarpgroupGpu);
  ASSERT_TRUE(bool(ptx)) << llvm::toString(ptx.takeError());
  EXPECT_NE(ptx->find("wgmma.mma_async.sync.aligned.m64n256k32.f32.e4m3.e4m3"), std::string::npos);
  EXPECT_NE(ptx->find("cvt.rn.satfinite.e4m3x2.f16x2"), std::string::npos);
  EXPECT_TRUE(assembles(*ptx, kWarpgroupGpu));
}

/// Where there is no library and no wgmma: FP32 arithmetic on what the codes stand for.
TEST(CudaPersistentGemmTest, Float8WithoutTensorCores) {
  Emitter simt = byFamily({"gemm_simt"});
  EXPECT_TRUE(matchesReference(float8Gemm(37, 48, 80, "f16"), simt));
  EXPECT_TRUE(matchesReference(float8Gemm(37, 48, 80, "f8E4M3FN"), simt));
}

TEST(CudaPersistentGemmTest, Assembles) {
  llvm::Expected<std::string> ptx =
      emitTestPtx(geluGemm("f16", 24576, 4096, 1024), emitWhole, kWarpgroupGpu);
  ASSERT_TRUE(bool(ptx)) << llvm::toString(ptx.takeError());
  EXPECT_NE(ptx->find("wgmma.mma_async.sync.aligned.m64n256k16"), std::string::npos);
  EXPECT_TRUE(assembles(*ptx, kWarpgroupGpu));
}

TEST(CudaPersistentGemmTest, RefusesWhatItCannotDo) {
  auto isRefused = [](const std::string &source) {
    llvm::Expected<std::string> ptx = emitTestPtx(source, emitWhole, kWarpgroupGpu);
    bool refused = !ptx;
    llvm::consumeError(ptx.takeError());
    return refused;
  };
  EXPECT_TRUE(isRefused(geluGemm("f16", 128, 200, 64)));
  EXPECT_TRUE(isRefused(geluGemm("f16", 128, 256, 72)));
  EXPECT_TRUE(isRefused(geluGemm("f32", 128, 256, 64)));
}

} // namespace
} // namespace tenon::codegen::cuda
