// Attention through the stand-in for cuDNN, against the host: heads that share keys, operands that
// lie in one buffer, masks that broadcast, and what is refused.

#include "LibraryFixture.h"

namespace tenon::library {
namespace {

struct AttentionTest : LibraryTest {
  AttentionTest() { tolerance = 1e-2; } // weights are rounded in no order that both sides share
  ~AttentionTest() override { state() = CudnnState{.alive = state().alive}; }
  CudnnState &state() { return *stateOf<CudnnState>("libcudnn.so.9"); }
};

struct Shape {
  int64_t batch, heads, keyHeads, queries, keys, width, valueWidth;
};

/// Operands of their own, as [batch, row, head, column].
std::vector<int64_t> apart(const Shape &s) {
  auto strides = [](int64_t rows, int64_t heads, int64_t width) {
    return std::array<int64_t, 3>{rows * heads * width, width, heads * width};
  };
  std::vector<int64_t> sizes = {s.batch, s.heads, s.keyHeads,  s.queries,
                                s.keys,  s.width, s.valueWidth};
  for (const std::array<int64_t, 3> &operand :
       {strides(s.queries, s.heads, s.width), strides(s.keys, s.keyHeads, s.width),
        strides(s.keys, s.keyHeads, s.valueWidth), strides(s.queries, s.heads, s.valueWidth)}) {
    sizes.insert(sizes.end(), operand.begin(), operand.end());
  }
  sizes.resize(engine::kAttentionSizes);
  return sizes;
}

engine::AttentionCall callOf(DType type, bool hasMask) {
  engine::AttentionCall call;
  call.type = type;
  call.hasMask = hasMask;
  call.scale = 0.25f;
  return call;
}

TEST_F(AttentionTest, HeadsShareKeys) {
  for (DType type : {DType::F16, DType::BF16}) {
    engine::AttentionCall call = callOf(type, false);
    EXPECT_TRUE(matchesHost(call, apart({2, 4, 4, 3, 5, 8, 8})));
    EXPECT_TRUE(matchesHost(call, apart({2, 4, 2, 3, 5, 8, 16})));
    EXPECT_EQ(2, state().executions) << "one for each";
    EXPECT_EQ(this, state().stream);
    state().executions = 0;
  }
}

TEST_F(AttentionTest, OperandsInOneBuffer) {
  engine::AttentionCall call = callOf(DType::F16, false);
  std::vector<int64_t> sizes = apart({2, 2, 2, 4, 4, 8, 8});
  for (size_t operand : {7, 10, 13}) {
    sizes[operand] = 4 * 48;
    sizes[operand + 2] = 48;
  }
  sizes[23] = 16;
  sizes[24] = 32;
  EXPECT_TRUE(matchesHost(call, sizes));
}

TEST_F(AttentionTest, MasksBroadcast) {
  engine::AttentionCall call = callOf(DType::F16, true);
  std::vector<int64_t> sizes = apart({2, 3, 3, 4, 8, 8, 8});
  for (const std::array<int64_t, 3> &mask :
       {std::array<int64_t, 3>{8, 0, 0}, {0, 0, 8}, {0, 32, 8}, {96, 32, 8}}) {
    std::copy(mask.begin(), mask.end(), sizes.begin() + 19);
    EXPECT_TRUE(matchesHost(call, sizes));
  }
}

TEST_F(AttentionTest, TheComparisonSeesAnotherScale) {
  engine::AttentionCall call = callOf(DType::F16, false), other = call;
  other.scale = 0.5f;
  EXPECT_FALSE(matchesHost(call, apart({1, 2, 2, 4, 8, 8, 8}), &other));
}

TEST_F(AttentionTest, PlansAreKeptForLaterProcesses) {
  useCache();
  engine::AttentionCall call = callOf(DType::F16, false);
  std::vector<int64_t> sizes = apart({1, 2, 2, 4, 8, 8, 8});
  EXPECT_TRUE(matchesHost(call, sizes));
  int asked = state().heuristics;
  EXPECT_TRUE(matchesHost(call, sizes)) << "from the cache";
  EXPECT_EQ(asked, state().heuristics);
}

TEST_F(AttentionTest, RefusalsSayWhy) {
  engine::AttentionCall call = callOf(DType::F16, false);
  std::vector<int64_t> sizes = apart({1, 4, 4, 3, 5, 8, 8});
  auto statusOf = [&]() {
    return makeHandles(options)->prepare(bytesOf(call), sizes).takeStatus();
  };
  state().refuseAll = true;
  EXPECT_EQ(ErrorId::LibraryUnsupported, statusOf().id());
  EXPECT_NE(std::string_view::npos,
            statusOf().message().find("attention f16 [1, 4, 3, 8] over 4 heads of 5 keys"))
      << statusOf().message();
  state().refuseAll = false;
  EXPECT_TRUE(statusOf().isOk());
  call.isCausal = true;
  EXPECT_EQ(ErrorId::LibraryUnsupported, statusOf().id());
  call = callOf(DType::F32, false);
  EXPECT_EQ(ErrorId::LibraryUnsupported, statusOf().id());
  call = callOf(DType::F16, false);
  sizes[2] = 3;
  EXPECT_EQ(ErrorId::LibraryUnsupported, statusOf().id()) << "4 heads over 3";
  sizes.pop_back();
  EXPECT_EQ(ErrorId::EngineBadInstruction, statusOf().id());
}

} // namespace
} // namespace tenon::library
