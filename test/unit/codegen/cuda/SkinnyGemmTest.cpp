// Small products on the emulated GPU: whole depths and rings, slices of the depth in clusters, rows
// that end inside a tile, epilogues.
#include "compiler/codegen/cuda/gemm/SkinnyGemm.h"
#include "test/unit/codegen/cuda/GeluGemm.h"

namespace tenon::codegen::cuda {
namespace {

/// With the family's own layout, or this one.
SkinnyLayout chosen;

mlir::FailureOr<bool> emitSmall(RegionBuilder &region) {
  MatchResult<SmallProblem> problem = matchSkinnyGemm(region);
  if (!problem) {
    return false;
  }
  if (chosen.columns != 0) {
    problem->layout = chosen;
    fitStages(problem->sizes, region.gpu, problem->layout, 2);
  }
  return emitSkinnyGemm(region, *problem);
}

testing::AssertionResult isRight(const std::string &source, SkinnyLayout layout = {},
                                 bool reversed = false) {
  chosen = layout;
  return matchesReference(source, emitSmall, warpgroupOptions(reversed));
}

TEST(CudaSkinnyGemmTest, WholeDepths) {
  EXPECT_TRUE(isRight(geluGemm("f16", 128, 48, 192, RightStored::ColumnsFirst)));
  EXPECT_TRUE(isRight(geluGemm("bf16", 64, 128, 128, RightStored::Packed), {}, /*reversed=*/true));
}

TEST(CudaSkinnyGemmTest, RowsEndInsideATile) {
  EXPECT_TRUE(isRight(geluGemm("f16", 77, 40, 64, RightStored::ColumnsFirst)));
  EXPECT_TRUE(isRight(geluGemm("f16", 77, 64, 128, RightStored::ColumnsFirst), {64, 64, 2}));
  EXPECT_TRUE(isRight(geluGemm("f16", 150, 32, 128, RightStored::ColumnsFirst), {128, 32, 1}));
}

/// Each block finishes some rows of what all of the cluster have summed.
TEST(CudaSkinnyGemmTest, BlocksShareTheDepth) {
  EXPECT_TRUE(isRight(geluGemm("f16", 128, 64, 256, RightStored::ColumnsFirst), {64, 32, 2}));
  EXPECT_TRUE(isRight(geluGemm("f16", 128, 32, 256, RightStored::ColumnsFirst), {128, 32, 4}));
  EXPECT_TRUE(isRight(geluGemm("f16", 64, 48, 256, RightStored::Packed), {64, 24, 4},
                      /*reversed=*/true));
  EXPECT_TRUE(isRight(geluGemm("f16", 64, 16, 512, RightStored::ColumnsFirst), {64, 16, 8}));
}

/// More stages than shared memory holds, for two blocks and where that is too few for one.
TEST(CudaSkinnyGemmTest, Rings) {
  EXPECT_TRUE(isRight(geluGemm("f16", 128, 128, 64 * 6, RightStored::ColumnsFirst), {128, 128, 1}));
  EXPECT_TRUE(isRight(geluGemm("f16", 64, 128, 64 * 12, RightStored::ColumnsFirst), {64, 128, 1}));
}

TEST(CudaSkinnyGemmTest, Assembles) {
  chosen = {};
  for (auto [columns, depth] : {std::pair(2304, 768), std::pair(768, 3072)}) {
    llvm::Expected<std::string> ptx = emitTestPtx(
        geluGemm("f16", 128, columns, depth, RightStored::ColumnsFirst), emitSmall, kWarpgroupGpu);
    ASSERT_TRUE(bool(ptx)) << llvm::toString(ptx.takeError());
    // Weights are asked for before the kernels before this one are waited for, rows after it.
    size_t wait = ptx->find("griddepcontrol.wait"), copy = ptx->find("cp.async.bulk.tensor");
    EXPECT_LT(copy, wait);
    EXPECT_NE(ptx->find("cp.async.bulk.tensor", wait), std::string::npos);
    EXPECT_TRUE(assembles(*ptx, kWarpgroupGpu));
  }
}

/// Those that were the fastest of several, or nearly, and products for which none was.
TEST(CudaSkinnyGemmTest, LayoutsAsMeasured) {
  struct Case {
    HalfGemm product;
    int64_t rows, columns, splitK, blocksPerSm;
  };
  for (const Case &c : {Case{{128, 2304, 768}, 64, 48, 1, 2}, Case{{128, 768, 768}, 64, 16, 1, 2},
                        Case{{128, 768, 3072}, 64, 64, 4, 2}, Case{{197, 768, 3072}, 64, 64, 2, 1},
                        Case{{384, 4096, 1024}, 128, 128, 1, 1}}) {
    std::optional<SkinnyLayout> layout = skinnyLayoutOf(c.product, target::targetOf("sm_90a"));
    ASSERT_TRUE(layout);
    EXPECT_EQ(layout->rows, c.rows);
    EXPECT_EQ(layout->columns, c.columns);
    EXPECT_EQ(layout->splitK, c.splitK);
    EXPECT_EQ(layout->blocksPerSm, c.blocksPerSm);
  }
  // Half of the memory would hold one stage of this tile: nothing would ever be given back.
  std::optional<SkinnyLayout> wide = skinnyLayoutOf({128, 16384, 1024}, target::targetOf("sm_90a"));
  ASSERT_TRUE(wide);
  EXPECT_EQ(wide->rows * wide->columns, 128 * 128);
  EXPECT_EQ(wide->blocksPerSm, 1);
  EXPECT_GE(wide->stages, 3);
  for (HalfGemm product : {HalfGemm{384, 1024, 4096}, HalfGemm{16, 768, 768},
                           HalfGemm{1024, 768, 768}, HalfGemm{128, 768, 770}}) {
    EXPECT_FALSE(skinnyLayoutOf(product, target::targetOf("sm_90a")));
  }
}

} // namespace
} // namespace tenon::codegen::cuda
