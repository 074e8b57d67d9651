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
  EXPECT_TRUE(
      matchesReference(geluGemm("f16", 256, 512, 192), emitOneBlock, warpgroupOptions()));
  EXPECT_TRUE(matchesReference(geluGemm("f16", 256, 256, 64, RightStored::ColumnsFirst),
                               emitOneBlock, warpgroupOptions(true)));
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
