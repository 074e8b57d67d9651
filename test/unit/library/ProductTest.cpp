// Products with gelu through the stand-in for cuDNN, against erf on the host: layouts, epilogues,
// and which library is called.

#include "LibraryFixture.h"

namespace tenon::library {
namespace {

struct ProductTest : LibraryTest {
  ProductTest() {
    tolerance = 2e-3; // the rounding of both sides
    absolute = 4e-5;  // the form of erf
  }
  ~ProductTest() override { state() = CudnnState{.alive = state().alive}; }
  CudnnState &state() { return *stateOf<CudnnState>("libcudnn.so.9"); }
};

engine::MatmulCall withGelu(bool hasBias, bool hasResidual) {
  return {.type = DType::F16,
          .hasBias = hasBias,
          .hasResidual = hasResidual,
          .activation = engine::LibraryActivation::Gelu};
}

/// Sizes of a product whose rows are `pad` longer than they need be.
std::vector<int64_t> sizesOf(const engine::MatmulCall &call, int64_t m, int64_t n, int64_t k,
                             int64_t batch = 1, int64_t pad = 0) {
  int64_t lda = (call.transposeA ? m : k) + pad, ldb = (call.transposeB ? k : n) + pad;
  int64_t strideA = lda * (call.transposeA ? k : m), strideB = ldb * (call.transposeB ? n : k);
  return {m, n, k, batch, lda, ldb, n + pad, strideA, strideB, (n + pad) * m};
}

TEST_F(ProductTest, LayoutsAndOperands) {
  for (int layout = 0; layout < 4; ++layout) {
    for (int operands = 0; operands < 4; ++operands) {
      engine::MatmulCall call = withGelu(operands % 2 == 1, operands > 1);
      call.transposeA = layout % 2 == 1;
      call.transposeB = layout > 1;
      EXPECT_TRUE(matchesHost(call, sizesOf(call, 5, 7, 12))) << layout << operands;
      EXPECT_TRUE(matchesHost(call, sizesOf(call, 4, 6, 9, 3, 2))) << layout << operands;
    }
  }
  EXPECT_EQ(32, state().executions) << "all by cuDNN, each in one graph";
}

TEST_F(ProductTest, OneMatrixForTheBatch) {
  engine::MatmulCall call = withGelu(true, false);
  std::vector<int64_t> sizes = sizesOf(call, 3, 4, 5, 6);
  sizes[8] = 0;
  EXPECT_TRUE(matchesHost(call, sizes));
}

TEST_F(ProductTest, TheComparisonSeesTheTanhForm) {
  engine::MatmulCall call = withGelu(false, false), other = call;
  other.activation = engine::LibraryActivation::GeluTanh;
  tolerance = 1e-15;
  EXPECT_FALSE(matchesHost(call, sizesOf(call, 16, 16, 16), &other));
}

TEST_F(ProductTest, PlansAreKeptForLaterProcesses) {
  useCache();
  engine::MatmulCall call = withGelu(true, true);
  std::vector<int64_t> sizes = sizesOf(call, 5, 7, 12);
  EXPECT_TRUE(matchesHost(call, sizes));
  int asked = state().heuristics;
  EXPECT_TRUE(matchesHost(call, sizes)) << "from the cache";
  EXPECT_EQ(asked, state().heuristics);
}

TEST_F(ProductTest, RefusalsSayWhy) {
  engine::MatmulCall call = withGelu(true, false);
  auto statusOf = [&]() {
    return makeHandles(options)->prepare(bytesOf(call), sizesOf(call, 5, 7, 12)).takeStatus();
  };
  EXPECT_EQ("cudnn", libraryOf(bytesOf(call)));
  state().refuseAll = true;
  EXPECT_EQ(ErrorId::LibraryUnsupported, statusOf().id());
  EXPECT_NE(std::string_view::npos, statusOf().message().find("product f16 of 5 x 7 x 12"))
      << statusOf().message();
  state().refuseAll = false;
  EXPECT_TRUE(statusOf().isOk());
  call.type = DType::F32;
  EXPECT_EQ(ErrorId::LibraryUnsupported, statusOf().id()) << "erf is exact in FP32";
}

} // namespace
} // namespace tenon::library
