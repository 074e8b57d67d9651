// Products of every layout through the stand-in for cuBLASLt, against the host: operand order,
// leading dims, strides, epilogues, and what the library is told of precision.

#include "LibraryFixture.h"

namespace tenon::library {
namespace {

struct MatmulTest : LibraryTest {
  CublasLtState &state() { return *stateOf<CublasLtState>("libcublasLt.so.13"); }
};

/// Sizes of a product whose rows are `pad` longer than they need be.
std::vector<int64_t> sizesOf(const engine::MatmulCall &call, int64_t m, int64_t n, int64_t k,
                             int64_t batch = 1, int64_t pad = 0) {
  int64_t lda = (call.transposeA ? m : k) + pad, ldb = (call.transposeB ? k : n) + pad;
  int64_t strideA = lda * (call.transposeA ? k : m), strideB = ldb * (call.transposeB ? n : k);
  return {m, n, k, batch, lda, ldb, n + pad, strideA, strideB, (n + pad) * m};
}

TEST_F(MatmulTest, EveryLayoutAndType) {
  for (DType type : {DType::F32, DType::F64, DType::F16, DType::BF16}) {
    for (int layout = 0; layout < 4; ++layout) {
      engine::MatmulCall call{
          .type = type, .transposeA = layout % 2 == 1, .transposeB = layout > 1};
      EXPECT_TRUE(matchesHost(call, sizesOf(call, 5, 7, 3))) << nameOf(type) << layout;
      EXPECT_TRUE(matchesHost(call, sizesOf(call, 4, 6, 9, 3, 2))) << nameOf(type) << layout;
    }
  }
}

TEST_F(MatmulTest, EveryEpilogue) {
  using engine::LibraryActivation;
  for (LibraryActivation activation :
       {LibraryActivation::None, LibraryActivation::Relu, LibraryActivation::GeluTanh}) {
    for (int operands = 0; operands < 4; ++operands) {
      engine::MatmulCall call{.type = DType::F16,
                              .hasBias = operands % 2 == 1,
                              .hasResidual = operands > 1,
                              .activation = activation};
      EXPECT_TRUE(matchesHost(call, sizesOf(call, 6, 5, 8, 2, 1)));
    }
  }
}

TEST_F(MatmulTest, ProductsOfFloat8) {
  for (DType type : {DType::F32, DType::F16, DType::BF16}) {
    for (int operands = 0; operands < 4; ++operands) {
      engine::ScaledMatmulCall call{.type = type,
                                    .hasBias = operands % 2 == 1 && type != DType::F32,
                                    .hasResidual = operands > 1,
                                    .activation = engine::LibraryActivation::Relu,
                                    .factor = 0.25f};
      EXPECT_TRUE(matchesHost(call, {5, 32, 48, 48, 64})) << nameOf(type) << operands;
      engine::ScaledMatmulCall other = call;
      other.factor = 0.5f;
      EXPECT_FALSE(matchesHost(call, {5, 32, 48, 48, 64}, &other))
          << "the comparison sees a factor";
    }
  }
  engine::ScaledMatmulCall call;
  Status status = makeHandles(options)
                      ->prepare(bytesOf(call), std::vector<int64_t>{5, 24, 48, 48, 48})
                      .takeStatus();
  EXPECT_EQ(ErrorId::LibraryUnsupported, status.id());
  EXPECT_NE(std::string_view::npos, status.message().find("f8e4m3fn matmul of 5 x 24 x 48"));
}

TEST_F(MatmulTest, BroadcastBatchAndSingleRows) {
  engine::MatmulCall call{.transposeB = true};
  std::vector<int64_t> sizes = sizesOf(call, 3, 4, 5, 6);
  sizes[8] = 0;
  EXPECT_TRUE(matchesHost(call, sizes));
  // One row may say any leading dim.
  std::vector<int64_t> row = {1, 4, 5, 1, 1, 5, 4, 0, 0, 0};
  EXPECT_TRUE(matchesHost(call, row));
}

TEST_F(MatmulTest, TheComparisonSeesAWrongLayout) {
  engine::MatmulCall call, other{.transposeA = true};
  EXPECT_FALSE(matchesHost(call, sizesOf(call, 4, 4, 4), &other));
}

TEST_F(MatmulTest, PrecisionIsTheModels) {
  engine::MatmulCall call;
  ASSERT_TRUE(matchesHost(call, sizesOf(call, 2, 2, 2)));
  EXPECT_EQ(68, state().compute) << "FP32 without TF32";
  call.allowTf32 = true;
  ASSERT_TRUE(matchesHost(call, sizesOf(call, 2, 2, 2)));
  EXPECT_EQ(77, state().compute);
  call.type = DType::F16;
  ASSERT_TRUE(matchesHost(call, sizesOf(call, 2, 2, 2)));
  EXPECT_EQ(68, state().compute);
  EXPECT_EQ(0, state().scale);
  EXPECT_EQ(2u, state().reductionSchemes) << "split-K adds in FP32";
  call.type = DType::F64;
  ASSERT_TRUE(matchesHost(call, sizesOf(call, 2, 2, 2)));
  EXPECT_EQ(70, state().compute);
  EXPECT_EQ(1, state().scale);
}

TEST_F(MatmulTest, TheFirstAlgorithmThatFitsTheWorkspace) {
  engine::MatmulCall call{.hasBias = true};
  std::unique_ptr<Handles> handles = makeHandles(options);
  Result<std::unique_ptr<Plan>> plan = handles->prepare(bytesOf(call), sizesOf(call, 2, 2, 2), 64);
  ASSERT_TRUE(plan) << plan.status().toString();
  EXPECT_EQ(256u, (*plan)->workspaceBytes());
  EXPECT_NE(std::string::npos, (*plan)->describe().find("algorithm 1,")) << (*plan)->describe();
  EXPECT_EQ(64u, state().alignment);
  EXPECT_EQ(64u, state().biasAlignment);
}

TEST_F(MatmulTest, AHintHoldsForItsVersion) {
  engine::MatmulCall call{.type = DType::F16, .hasBias = true, .hint = {1302, 66, 20, 1, 4096}};
  auto choiceFor = [&](int64_t m, int64_t n) {
    Result<std::unique_ptr<Plan>> plan =
        makeHandles(options)->prepare(bytesOf(call), sizesOf(call, m, n, 64));
    return plan ? (*plan)->describe() : plan.status().toString();
  };
  state().hasSmallTile = true;
  EXPECT_EQ(0u, choiceFor(4096, 2048).find("cuBLASLt algorithm 66, tile 20"));
  EXPECT_EQ(0u, choiceFor(2048, 2048).find("cuBLASLt algorithm 1,")) << "too few rows";
  call.hint.version = 1301;
  EXPECT_EQ(0u, choiceFor(4096, 2048).find("cuBLASLt algorithm 1,")) << "of another version";
  call.hint = {};
  EXPECT_EQ(0u, choiceFor(4096, 2048).find("cuBLASLt algorithm 1,")) << "no hint";
  call.hint = {1302, 66, 21, 1, 4096};
  EXPECT_EQ(0u, choiceFor(4096, 2048).find("cuBLASLt algorithm 1,")) << "another tile";
  call.hint = {1302, 66, 20, 1, 4096};
  state().hasSmallTile = false;
  EXPECT_EQ(0u, choiceFor(4096, 2048).find("cuBLASLt algorithm 1,")) << "there is none";
}

TEST_F(MatmulTest, AProposalIsTakenWhereThereIsOne) {
  engine::MatmulCall call{.type = DType::F16};
  auto choiceOf = [&](int32_t proposal) {
    call.hint = {.algorithm = proposal};
    Result<std::unique_ptr<Plan>> plan =
        makeHandles(options)->prepare(bytesOf(call), sizesOf(call, 16, 16, 16));
    return plan ? (*plan)->describe() : plan.status().toString();
  };
  EXPECT_NE(std::string::npos, choiceOf(0).find("choice 1 of 3")) << choiceOf(0);
  EXPECT_NE(std::string::npos, choiceOf(2).find("choice 3 of 3")) << choiceOf(2);
  EXPECT_NE(std::string::npos, choiceOf(3).find("choice 1 of 3")) << "there are three";
}

TEST_F(MatmulTest, MeasuringTakesTheFastestAndKeepsIt) {
  struct FakeMeter final : Meter {
    Result<void *> allocate(size_t bytes) override {
      memory.resize(bytes);
      return static_cast<void *>(memory.data());
    }
    Result<double>
    seconds(const std::function<Status(void *stream, unsigned round)> &work) override {
      for (unsigned round = 0; round < 3; ++round) {
        TENON_TRY(work(nullptr, round));
      }
      return times[std::min(calls++, times.size() - 1)];
    }
    std::vector<char> memory;
    std::vector<double> times = {3, 1, 2};
    size_t calls = 0;
  } meter;
  options.meter = &meter;
  useCache();
  engine::MatmulCall call{.hasBias = true, .hasResidual = true};
  std::unique_ptr<Handles> handles = makeHandles(options);
  Result<std::unique_ptr<Plan>> plan = handles->prepare(bytesOf(call), sizesOf(call, 3, 4, 5));
  ASSERT_TRUE(plan) << plan.status().toString();
  EXPECT_EQ(3u, meter.calls);
  EXPECT_NE(std::string::npos, (*plan)->describe().find("algorithm 2,")) << (*plan)->describe();
  int asked = state().heuristics;
  options.meter = nullptr;
  handles = makeHandles(options);
  plan = handles->prepare(bytesOf(call), sizesOf(call, 3, 4, 5));
  ASSERT_TRUE(plan) << plan.status().toString();
  EXPECT_NE(std::string::npos, (*plan)->describe().find("algorithm 2,")) << (*plan)->describe();
  EXPECT_EQ(asked, state().heuristics);
  EXPECT_TRUE(matchesHost(call, sizesOf(call, 3, 4, 5)));
}

TEST_F(MatmulTest, APlanOutlivesItsHandles) {
  engine::MatmulCall call;
  Result<std::unique_ptr<Plan>> plan =
      makeHandles(options)->prepare(bytesOf(call), sizesOf(call, 1, 1, 1));
  ASSERT_TRUE(plan) << plan.status().toString();
  float numbers[] = {3, 5, 0};
  void *buffers[] = {&numbers[0], &numbers[1], &numbers[2]};
  EXPECT_TRUE((*plan)->run(buffers, nullptr, nullptr));
  EXPECT_EQ(15, numbers[2]);
}

TEST_F(MatmulTest, EmptyResultsNeedNoLibrary) {
  engine::MatmulCall call;
  EXPECT_TRUE(matchesHost(call, std::vector<int64_t>{0, 3, 2, 1, 2, 3, 3, 0, 0, 0}));
}

TEST_F(MatmulTest, RefusalsSayWhy) {
  engine::MatmulCall call{.type = DType::F16};
  std::unique_ptr<Handles> handles = makeHandles(options);
  ASSERT_TRUE(handles->prepare(bytesOf(call), sizesOf(call, 3, 4, 5)));
  state().refuse = true;
  Status status = handles->prepare(bytesOf(call), sizesOf(call, 3, 4, 5)).takeStatus();
  state().refuse = false;
  EXPECT_EQ(ErrorId::LibraryUnsupported, status.id());
  EXPECT_NE(std::string_view::npos, status.message().find("f16 matmul of 3 x 4 x 5"));
  call.type = DType::I8;
  EXPECT_EQ(ErrorId::LibraryUnsupported,
            handles->prepare(bytesOf(call), sizesOf(call, 3, 4, 5)).status().id());
}

} // namespace
} // namespace tenon::library
