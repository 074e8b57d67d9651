// Convolutions through the stand-in for cuDNN, against the host: layouts, windows, groups, fused
// and split epilogues, and which engines are taken.

#include "LibraryFixture.h"

#include <fstream>

namespace tenon::library {
namespace {

struct ConvTest : LibraryTest {
  ~ConvTest() override { state() = CudnnState{.alive = state().alive}; }
  CudnnState &state() { return *stateOf<CudnnState>("libcudnn.so.9"); }
};

/// n, h, w, c, k, r, s and the result's dims by the window.
std::vector<int64_t> sizesOf(const engine::ConvCall &call, std::vector<int64_t> sizes) {
  for (int i = 0; i < 2; ++i) {
    int64_t covered = call.dilations[i] * (sizes[5 + i] - 1) + 1;
    sizes.push_back(
        (sizes[1 + i] + call.padBefore[i] + call.padAfter[i] - covered) / call.strides[i] + 1);
  }
  return sizes;
}

engine::ConvCall plain(DType type) {
  engine::ConvCall call;
  call.type = type;
  return call;
}

engine::ConvCall padded(DType type) {
  engine::ConvCall call = plain(type);
  call.padBefore[0] = call.padAfter[0] = 1;
  call.padBefore[1] = call.padAfter[1] = 2;
  return call;
}

TEST_F(ConvTest, WindowsAndGroups) {
  for (DType type : {DType::F32, DType::F16, DType::BF16}) {
    engine::ConvCall call = padded(type);
    EXPECT_TRUE(matchesHost(call, sizesOf(call, {2, 6, 5, 4, 3, 3, 2})));
    call.strides[0] = 2;
    call.dilations[1] = 2;
    EXPECT_TRUE(matchesHost(call, sizesOf(call, {1, 7, 8, 4, 6, 3, 3})));
    call.groups = 2;
    EXPECT_TRUE(matchesHost(call, sizesOf(call, {1, 7, 8, 4, 6, 3, 3})));
  }
}

TEST_F(ConvTest, EpiloguesFusedAndApart) {
  using engine::LibraryActivation;
  tolerance = 1e-2; // apart, the product is rounded to f16 before the rest is added
  for (bool isApart : {false, true}) {
    state().refuseFused = isApart;
    for (LibraryActivation activation :
         {LibraryActivation::None, LibraryActivation::Relu, LibraryActivation::GeluTanh}) {
      for (int operands = 0; operands < 4; ++operands) {
        engine::ConvCall call = padded(isApart ? DType::F32 : DType::F16);
        call.hasBias = operands % 2 == 1;
        call.hasResidual = operands > 1;
        call.activation = activation;
        bool hasEpilogue = operands > 0 || activation != LibraryActivation::None;
        state().executions = 0;
        EXPECT_TRUE(matchesHost(call, sizesOf(call, {2, 5, 4, 3, 4, 2, 3})));
        EXPECT_EQ(isApart && hasEpilogue ? 2 : 1, state().executions);
      }
    }
  }
}

TEST_F(ConvTest, TheComparisonSeesAWrongWindow) {
  engine::ConvCall call = padded(DType::F32), other = call;
  other.padBefore[0] = 0;
  EXPECT_FALSE(matchesHost(call, sizesOf(call, {1, 5, 5, 2, 2, 3, 3}), &other));
}

TEST_F(ConvTest, EnginesKeepPrecisionOrderAndWorkspace) {
  engine::ConvCall call = plain(DType::F16);
  EXPECT_TRUE(matchesHost(call, sizesOf(call, {1, 4, 4, 2, 2, 1, 1})));
  EXPECT_EQ(0, state().engine);
  EXPECT_EQ(0, state().mathType) << "sums are FP32";
  EXPECT_EQ(this, state().stream);
  call.type = DType::F32;
  EXPECT_TRUE(matchesHost(call, sizesOf(call, {1, 4, 4, 2, 2, 1, 1})));
  EXPECT_EQ(3, state().engine) << "no TF32, nothing that differs from run to run, within memory";
  call.allowTf32 = true;
  EXPECT_TRUE(matchesHost(call, sizesOf(call, {1, 4, 4, 2, 2, 1, 1})));
  EXPECT_EQ(0, state().engine);
}

TEST_F(ConvTest, WhatElseThereIsIfNothingFits) {
  engine::ConvCall call = plain(DType::F32);
  std::vector<int64_t> sizes = sizesOf(call, {1, 4, 4, 2, 2, 1, 1});
  state().workspace = options.workspaceLimit + 1;
  Result<std::unique_ptr<Plan>> plan = makeHandles(options)->prepare(bytesOf(call), sizes);
  ASSERT_TRUE(plan) << plan.status().toString();
  EXPECT_EQ(options.workspaceLimit + 1, (*plan)->workspaceBytes());
  state().engines = 2;
  EXPECT_TRUE(matchesHost(call, sizes));
  EXPECT_EQ(1, state().engine) << "not the same from run to run, but FP32";
  state().engines = 1;
  EXPECT_EQ(ErrorId::LibraryUnsupported,
            makeHandles(options)->prepare(bytesOf(call), sizes).status().id())
      << "never TF32";
}

TEST_F(ConvTest, AProposalIsTakenWhereThereIsOne) {
  engine::ConvCall call = plain(DType::F16);
  std::vector<int64_t> sizes = sizesOf(call, {1, 4, 4, 2, 2, 1, 1});
  auto choiceOf = [&](uint8_t proposal) {
    call.proposal = proposal;
    Result<std::unique_ptr<Plan>> plan = makeHandles(options)->prepare(bytesOf(call), sizes);
    return plan ? (*plan)->describe() : plan.status().toString();
  };
  std::string first = choiceOf(0), second = choiceOf(1);
  EXPECT_NE(std::string::npos, first.find("choice 1 of 1")) << first;
  EXPECT_NE(std::string::npos, second.find("choice 2 of 2")) << second;
  EXPECT_NE(first.substr(0, first.find(',')), second.substr(0, second.find(',')));
  state().engines = 4;
  EXPECT_NE(std::string::npos, choiceOf(3).find("choice 1 of")) << "there are fewer";
}

TEST_F(ConvTest, NothingIsLeftBehind) {
  int before = state().alive;
  engine::ConvCall call = plain(DType::F16);
  call.hasBias = true;
  EXPECT_TRUE(matchesHost(call, sizesOf(call, {1, 4, 4, 2, 2, 1, 1})));
  EXPECT_EQ(before, state().alive);
}

TEST_F(ConvTest, PlansAreKeptForLaterProcesses) {
  useCache();
  engine::ConvCall call = padded(DType::F32);
  call.hasBias = true;
  call.activation = engine::LibraryActivation::Relu;
  std::vector<int64_t> sizes = sizesOf(call, {1, 5, 4, 3, 4, 2, 3});
  for (bool isApart : {false, true}) {
    state() = CudnnState{.refuseFused = isApart, .alive = state().alive};
    ++sizes[0];
    EXPECT_TRUE(matchesHost(call, sizes));
    int asked = state().heuristics;
    EXPECT_LT(0, asked);
    EXPECT_TRUE(matchesHost(call, sizes)) << "from the cache";
    EXPECT_EQ(asked, state().heuristics);
    EXPECT_EQ(isApart ? 4 : 2, state().executions);
  }
}

TEST_F(ConvTest, KeptPlansThatDoNotFitAreMadeAgain) {
  useCache();
  engine::ConvCall call = padded(DType::F16);
  std::vector<int64_t> sizes = sizesOf(call, {1, 5, 4, 3, 4, 2, 3});
  auto asks = [&]() {
    int before = state().heuristics;
    EXPECT_TRUE(matchesHost(call, sizes));
    return state().heuristics != before;
  };
  EXPECT_TRUE(asks());
  EXPECT_FALSE(asks());
  options.device = "another";
  EXPECT_TRUE(asks());
  EXPECT_FALSE(asks());
  state().refuseRestore = true;
  EXPECT_TRUE(asks());
  state().refuseRestore = false;
  EXPECT_FALSE(asks());
  for (const std::filesystem::directory_entry &file :
       std::filesystem::directory_iterator(cache / "library")) {
    std::fstream stream(file.path(), std::ios::in | std::ios::out | std::ios::binary);
    stream.seekp(20);
    stream.put('x');
  }
  EXPECT_TRUE(asks()) << "a damaged file";
}

TEST_F(ConvTest, RefusalsSayWhy) {
  engine::ConvCall call = plain(DType::F16);
  std::unique_ptr<Handles> handles = makeHandles(options);
  state().refuseAll = true;
  Status status =
      handles->prepare(bytesOf(call), sizesOf(call, {1, 4, 5, 2, 3, 1, 1})).takeStatus();
  EXPECT_EQ(ErrorId::LibraryUnsupported, status.id());
  EXPECT_NE(std::string_view::npos,
            status.message().find("convolution f16 [1, 4, 5, 2] x [3, 1, 1, 2]"))
      << status.message();
  call.type = DType::F64;
  EXPECT_EQ(ErrorId::LibraryUnsupported,
            handles->prepare(bytesOf(call), sizesOf(call, {1, 4, 5, 2, 3, 1, 1})).status().id());
}

} // namespace
} // namespace tenon::library
