// Small products on the emulated GPU: whole depths and rings, shares of the depth in clusters, rows
// that end inside a tile, epilogues.
#include "compiler/codegen/cuda/SmallProduct.h"
#include "HandKernelCheck.h"

namespace tenon::codegen::cuda {
namespace {

const engine::CudaArch kArch = *engine::parseCudaArch("sm_90a");

/// With dispatch's layout, or this one.
dispatch::SmallLayout chosen;

mlir::FailureOr<bool> emitSmall(RegionBuilder &region) {
  mlir::FailureOr<SmallProblem> problem = matchSmallProduct(region);
  if (failed(problem)) {
    return false;
  }
  if (chosen.columns != 0) {
    problem->layout = chosen;
    dispatch::fitStages({problem->rows, problem->columns, problem->depth}, problem->layout, 2);
  }
  return emitSmallProduct(region, *problem);
}

/// gelu(a b^T + bias), b stored [columns, depth] or packed so.
std::string text(const std::string &type, int64_t rows, int64_t columns, int64_t depth,
                 bool isPacked = false) {
  std::string n = std::to_string(columns), k = std::to_string(depth);
  std::string a = "tensor<" + std::to_string(rows) + "x" + k + "x" + type + ">",
              b = "tensor<" + (isPacked ? k + "x" + n : n + "x" + k) + "x" + type + ">",
              stored = isPacked ? "tensor<1x" + n + "x" + k + "x" + type + ">" : b,
              y = "tensor<" + std::to_string(rows) + "x" + n + "x" + type + ">",
              bias = "tensor<" + n + "x" + type + ">";
  std::string body, weights = "%b";
  if (isPacked) {
    body = "%w = tn.unpack %b {permutation = array<i64: 1, 0>, rows = 1 : i64, panel = " + k +
           " : i64, groups = 1 : i64} : (" + stored + ") -> " + b + "\n";
    weights = "%w";
  }
  body += "%0 = tn.matmul %a, " + weights + (isPacked ? " : (" : " {transposeB} : (") + a + ", " +
          b + ") -> " + y + "\n%1 = tn.add %0, %c : (" + y + ", " + bias + ") -> " + y +
          "\n%2 = tn.gelu %1 : " + y + "\nreturn %2 : " + y;
  return regionText("contraction",
                    "(%a: " + a + ", %b: " + stored + " {tn.constant}, %c: " + bias + ") -> " + y,
                    body);
}

RunOptions options(bool reversed = false) {
  RunOptions result;
  result.inputScale = 1;
  result.reversed = reversed;
  result.arch = kArch;
  return result;
}

testing::AssertionResult isRight(const std::string &source, dispatch::SmallLayout layout = {},
                                 bool reversed = false) {
  chosen = layout;
  return matchesReference(source, emitSmall, options(reversed));
}

TEST(CudaSmallProductTest, WholeDepths) {
  EXPECT_TRUE(isRight(text("f16", 128, 48, 192)));
  EXPECT_TRUE(isRight(text("bf16", 64, 128, 128, /*isPacked=*/true), {}, /*reversed=*/true));
}

TEST(CudaSmallProductTest, RowsEndInsideATile) {
  EXPECT_TRUE(isRight(text("f16", 77, 40, 64)));
  EXPECT_TRUE(isRight(text("f16", 77, 64, 128), {64, 64, 2}));
  EXPECT_TRUE(isRight(text("f16", 150, 32, 128), {128, 32, 1}));
}

/// Each block finishes some rows of what all of the cluster have summed.
TEST(CudaSmallProductTest, BlocksShareTheDepth) {
  EXPECT_TRUE(isRight(text("f16", 128, 64, 256), {64, 32, 2}));
  EXPECT_TRUE(isRight(text("f16", 128, 32, 256), {128, 32, 4}));
  EXPECT_TRUE(isRight(text("f16", 64, 48, 256, /*isPacked=*/true), {64, 24, 4}, /*reversed=*/true));
  EXPECT_TRUE(isRight(text("f16", 64, 16, 512), {64, 16, 8}));
}

/// More stages than shared memory holds, for two blocks and where that is too few for one.
TEST(CudaSmallProductTest, Rings) {
  EXPECT_TRUE(isRight(text("f16", 128, 128, 64 * 6), {128, 128, 1}));
  EXPECT_TRUE(isRight(text("f16", 64, 128, 64 * 12), {64, 128, 1}));
}

TEST(CudaSmallProductTest, Assembles) {
  chosen = {};
  for (auto [columns, depth] : {std::pair(2304, 768), std::pair(768, 3072)}) {
    llvm::Expected<std::string> ptx =
        emitTestPtx(text("f16", 128, columns, depth), emitSmall, kArch);
    ASSERT_TRUE(bool(ptx)) << llvm::toString(ptx.takeError());
    // Weights are asked for before the kernels before this one are waited for, rows after it.
    size_t wait = ptx->find("griddepcontrol.wait"), copy = ptx->find("cp.async.bulk.tensor");
    EXPECT_LT(copy, wait);
    EXPECT_NE(ptx->find("cp.async.bulk.tensor", wait), std::string::npos);
    EXPECT_TRUE(assembles(*ptx, kArch));
  }
}

} // namespace
} // namespace tenon::codegen::cuda
