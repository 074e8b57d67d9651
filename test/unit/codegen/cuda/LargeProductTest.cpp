// Large products by warpgroups on the emulated GPU: both orders of B, rows that end inside a tile,
// epilogues, and that one block does several tiles.
#include "compiler/codegen/cuda/LargeProduct.h"
#include "HandKernelCheck.h"

namespace tenon::codegen::cuda {
namespace {

const engine::CudaArch kArch = *engine::parseCudaArch("sm_90a");

mlir::FailureOr<bool> emitWhole(RegionBuilder &region) {
  mlir::FailureOr<LargeProblem> problem = matchLargeProduct(region);
  if (failed(problem)) {
    return false;
  }
  return emitLargeProduct(region, *problem);
}

/// One block that does all tiles.
mlir::FailureOr<bool> emitOneBlock(RegionBuilder &region) {
  mlir::FailureOr<LargeProblem> problem = matchLargeProduct(region);
  problem->blocks = 1;
  return emitLargeProduct(region, *problem);
}

/// gelu(a b + bias), b stored transposed if said so.
std::string text(const std::string &type, int64_t rows, int64_t columns, int64_t depth,
                 bool transposeB = false) {
  std::string n = std::to_string(columns), k = std::to_string(depth);
  std::string a = "tensor<" + std::to_string(rows) + "x" + k + "x" + type + ">",
              b = "tensor<" + (transposeB ? n + "x" + k : k + "x" + n) + "x" + type + ">",
              y = "tensor<" + std::to_string(rows) + "x" + n + "x" + type + ">",
              bias = "tensor<" + n + "x" + type + ">";
  return regionText("contraction",
                    "(%a: " + a + ", %b: " + b + ", %c: " + bias + ") -> " + y,
                    "%0 = tn.matmul %a, %b " + std::string(transposeB ? "{transposeB} " : "") +
                        ": (" + a + ", " + b + ") -> " + y + "\n%1 = tn.add %0, %c : (" + y + ", " +
                        bias + ") -> " + y + "\n%2 = tn.gelu %1 : " + y + "\nreturn %2 : " + y);
}

RunOptions options(bool reversed = false) {
  RunOptions result;
  result.inputScale = 1;
  result.reversed = reversed;
  result.arch = kArch;
  return result;
}

TEST(CudaLargeProductTest, Orders) {
  EXPECT_TRUE(matchesReference(text("f16", 128, 256, 384), emitWhole, options()));
  EXPECT_TRUE(matchesReference(text("bf16", 128, 256, 320, true), emitWhole, options(true)));
}

TEST(CudaLargeProductTest, RowsEndInsideATile) {
  EXPECT_TRUE(matchesReference(text("f16", 150, 256, 64), emitWhole, options()));
}

/// The ring goes on over the borders of tiles.
TEST(CudaLargeProductTest, SeveralTilesABlock) {
  EXPECT_TRUE(matchesReference(text("f16", 256, 512, 192), emitOneBlock, options()));
  EXPECT_TRUE(matchesReference(text("f16", 256, 256, 64, true), emitOneBlock, options(true)));
}

TEST(CudaLargeProductTest, Assembles) {
  llvm::Expected<std::string> ptx =
      emitTestPtx(text("f16", 24576, 4096, 1024), emitWhole, kArch);
  ASSERT_TRUE(bool(ptx)) << llvm::toString(ptx.takeError());
  EXPECT_NE(ptx->find("wgmma.mma_async.sync.aligned.m64n256k16"), std::string::npos);
  EXPECT_TRUE(assembles(*ptx, kArch));
}

TEST(CudaLargeProductTest, RefusesWhatItCannotDo) {
  auto isRefused = [](const std::string &source) {
    llvm::Expected<std::string> ptx = emitTestPtx(source, emitWhole, kArch);
    bool refused = !ptx;
    llvm::consumeError(ptx.takeError());
    return refused;
  };
  EXPECT_TRUE(isRefused(text("f16", 128, 200, 64)));
  EXPECT_TRUE(isRefused(text("f16", 128, 256, 72)));
  EXPECT_TRUE(isRefused(text("f32", 128, 256, 64)));
}

} // namespace
} // namespace tenon::codegen::cuda
