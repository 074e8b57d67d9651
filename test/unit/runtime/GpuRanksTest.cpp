// Engines with ranks and stages on the stand-in of the driver: every rank has a GPU of its own and
// its own part of the weights, and what a group lacks is said by name.

#include "engine/CollectiveAbi.h"
#include "runtime/core/RankDevices.h"
#include "test/unit/runtime/GpuFixture.h"

#include <gtest/gtest.h>

#include <array>
#include <dlfcn.h>

namespace tenon::runtime {
namespace {

using engine::ExprId;
using test::PlanBuilder;
using test::ramp;

/// Behind the kernels of the fixture.
constexpr const char *kKernels[] = {"tenon_all_reduce_one_f32_2", "tenon_all_reduce_two_f32_2",
                                    "test_normed_sum"};
constexpr int64_t kMostFloats = 1 << 18;

/// y = sum over ranks of 2x + w, w another one on each rank, of n floats.
engine::Plan sumPlan() {
  PlanBuilder builder;
  builder.plan.ranks = 2;
  ExprId n = builder.symbol("n", 1, 64, 0, 0);
  ExprId bytes = builder.plan.exprs.mul(n, builder.size(4));
  uint32_t x = builder.input("x", DType::F32, {n});
  uint32_t y = builder.output("y", DType::F32, {n});
  uint32_t w = builder.weight(0, 64 * 4);
  uint32_t twice = builder.arena(bytes, 0, 1);
  uint32_t partial = builder.arena(bytes, 1, 2);
  test::launchGpu(builder, test::GpuScale, {x}, {twice}, n);
  test::launchGpu(builder, test::GpuAdd, {twice, w}, {partial}, n);
  builder.collective(engine::CollectiveKind::AllReduce, partial, y, n);
  builder.finish();
  return builder.plan;
}

/// y = 2 (x + sum over ranks of 2x) of n floats, n a multiple of 4: by one kernel for a short
/// message, else by a message and the kernels behind it.
engine::Plan normedPlan() {
  PlanBuilder builder;
  builder.plan.ranks = 2;
  ExprId n = builder.symbol("n", 1, kMostFloats, 0, 0);
  ExprId bytes = builder.plan.exprs.mul(n, builder.size(4));
  uint32_t x = builder.input("x", DType::F32, {n});
  uint32_t y = builder.output("y", DType::F32, {n});
  uint32_t w = builder.weight(0, 64 * 4);
  uint32_t partial = builder.arena(bytes, 0, 2);
  uint32_t hidden = builder.arena(bytes, 1, 4);
  test::launchGpu(builder, test::GpuScale, {x}, {partial}, n);
  builder.collective(engine::CollectiveKind::AllReduce, partial, y, n);
  engine::Instruction &fused = builder.plan.instructions.back();
  fused.buffers = {partial, x, w, hidden, y};
  fused.reads = 3;
  fused.sizes.push_back(builder.plan.exprs.ceilDiv(n, builder.size(4)));
  fused.kernel = test::GpuChecked + 3;
  fused.threads = 128;
  builder.collective(engine::CollectiveKind::AllReduce, partial, y, n);
  test::launchGpu(builder, test::GpuAdd, {x, y}, {hidden}, n);
  test::launchGpu(builder, test::GpuScale, {hidden}, {y}, n);
  for (size_t i = 2; i < builder.plan.instructions.size(); ++i) {
    builder.plan.instructions[i].isFallback = true;
  }
  builder.finish();
  return builder.plan;
}

struct RankEngine : test::GpuEngine {
  explicit RankEngine(const engine::Plan &plan = sumPlan())
      : GpuEngine(plan, {test::floats("w", both(), 2)}) {
    std::string &code = *codes.back();
    for (const char *kernel : kKernels) {
      code.insert(code.size() - 1,
                  std::string(".visible .entry ") + kernel + "(\n.param .u64 x\n)\n{\n  ret;\n}\n");
      content.variants.back().variant.kernels.push_back(kernel);
    }
    content.variants.back().code = std::as_bytes(std::span(code));
  }
  static std::vector<float> both() {
    std::vector<float> values;
    for (int i = 0; i < 128; ++i) {
      values.push_back(static_cast<float>(i < 64 ? i : 1000 * (i - 64)));
    }
    return values;
  }
};

/// NCCL is asked for, which is not installed or finds no GPU.
void expectNccl(const Status &status) {
  EXPECT_TRUE(status.id() == ErrorId::LibraryMissing || status.id() == ErrorId::LibraryFailed)
      << status.toString();
  EXPECT_NE(std::string::npos, status.message().find("NCCL")) << status.toString();
}

class GpuRanks : public test::WithFakeCuda {
protected:
  void SetUp() override {
    WithFakeCuda::SetUp();
    if (fake) {
      fake->devices = 2;
    }
  }
  static Result<std::unique_ptr<Session>> open(const char *name) {
    std::string path = RankEngine().writeTemporary(std::string(name) + ".tenon");
    TENON_ASSIGN(std::shared_ptr<const Engine> engine, Engine::open(path, test::gpuOptions()));
    return Session::create(engine);
  }
  /// Of 8 floats, whose sum is exact.
  static Status runs(Session &session, int64_t count = 8) {
    TENON_ASSIGN(std::vector<float> output, test::runOnHost(session, ramp(count)));
    std::vector<float> expected = ramp(count);
    for (int64_t i = 0; i < count; ++i) {
      expected[i] = 4 * expected[i] + 1001 * static_cast<float>(i);
    }
    EXPECT_EQ(expected, output);
    return Status::ok();
  }
};

TEST_F(GpuRanks, EachHasItsGpuAndItsWeights) {
  Result<std::unique_ptr<Session>> session = open("ranks");
  ASSERT_TRUE(session.isOk()) << session.status().toString();
  EXPECT_EQ(2, fake->contextsRetained());
  for (int round = 0; round < 4; ++round) {
    for (int64_t count : {8, 64}) {
      Status status = runs(**session, count);
      ASSERT_TRUE(status.isOk()) << status.toString();
      EXPECT_EQ(round != 0, (*session)->info().usedGraph) << (*session)->info().graphRefusal;
    }
  }
}

TEST_F(GpuRanks, WhatFollowsASumIsDoneByItsKernelOrByOthers) {
  std::string path = RankEngine(normedPlan()).writeTemporary("normed.tenon");
  Result<std::shared_ptr<const Engine>> engine = Engine::open(path, test::gpuOptions());
  ASSERT_TRUE(engine.isOk()) << engine.status().toString();
  Result<std::unique_ptr<Session>> session = Session::create(*engine);
  ASSERT_TRUE(session.isOk()) << session.status().toString();
  for (int round = 0; round < 3; ++round) {
    for (int64_t count : {int64_t(8), engine::kNormedBytes / 4, kMostFloats}) {
      Result<std::vector<float>> output = test::runOnHost(**session, ramp(count));
      ASSERT_TRUE(output.isOk()) << output.status().toString();
      std::vector<float> expected = ramp(count);
      for (float &value : expected) {
        value *= 10;
      }
      EXPECT_EQ(expected, *output) << count;
      EXPECT_EQ(count == kMostFloats ? 3 : 1, (*session)->info().kernels) << count;
      EXPECT_EQ(1, (*session)->info().collectives) << count;
    }
  }
}

TEST_F(GpuRanks, OneGpuTooFew) {
  fake->devices = 1;
  Result<std::unique_ptr<Session>> session = open("few");
  ASSERT_FALSE(session.isOk());
  EXPECT_EQ(ErrorId::DeviceNotFound, session.status().id());
  EXPECT_EQ("the engine is for 2 GPUs together: GPU 1 was requested, but NVIDIA's driver found 1",
            session.status().message());
}

TEST_F(GpuRanks, UnequalGpus) {
  fake->otherName = "Other GPU";
  Result<std::unique_ptr<Session>> session = open("unequal");
  ASSERT_FALSE(session.isOk());
  EXPECT_EQ(ErrorId::DeviceNotFound, session.status().id());
  EXPECT_EQ("GPU 0 is Fake GPU and GPU 1 is Other GPU, but ranks of a group need equal GPUs",
            session.status().message());
}

TEST_F(GpuRanks, NeitherAccessNorLibrary) {
  if (dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL)) {
    GTEST_SKIP() << "NCCL would find this machine's GPUs";
  }
  fake->reachesPeers = false;
  Result<std::unique_ptr<Session>> session = open("apart");
  ASSERT_TRUE(session.isOk()) << session.status().toString();
  Status status = runs(**session);
  expectNccl(status);
  EXPECT_TRUE(status.message().starts_with("GPU 0 cannot reach the memory of GPU 1, and "))
      << status.toString();
}

TEST_F(GpuRanks, MessagesThatKernelsDoNotTakeNeedTheLibrary) {
  if (dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL)) {
    GTEST_SKIP() << "NCCL would find this machine's GPUs";
  }
  Result<std::unique_ptr<Session>> session = open("odd");
  ASSERT_TRUE(session.isOk()) << session.status().toString();
  expectNccl(runs(**session, 7));
  EXPECT_TRUE(runs(**session).isOk()) << "others still do";
}

TEST_F(GpuRanks, ARankThatFailsEndsTheRun) {
  Result<std::unique_ptr<Session>> session = open("fails");
  ASSERT_TRUE(session.isOk()) << session.status().toString();
  ASSERT_TRUE(runs(**session).isOk());
  // What one of the two sends to its GPU: the other one does not wait for ever, and the group is of
  // no use any more.
  fake->fail("cuMemcpyHtoDAsync_v2", 999);
  Status status = runs(**session);
  EXPECT_EQ(ErrorId::DeviceFailed, status.id()) << status.toString();
  EXPECT_NE(std::string::npos, status.message().find("sending an input")) << status.toString();
  status = runs(**session);
  EXPECT_EQ(ErrorId::DeviceFailed, status.id());
  EXPECT_NE(std::string::npos, status.message().find("waited in vain")) << status.toString();
}

TEST_F(GpuRanks, AGpuThatAnotherProcessHolds) {
  fake->fail("cuDevicePrimaryCtxRetain", 46, 1);
  Result<std::unique_ptr<Session>> session = open("held");
  ASSERT_FALSE(session.isOk());
  EXPECT_EQ(ErrorId::DeviceFailed, session.status().id());
  EXPECT_TRUE(session.status().message().starts_with(
      "the engine is for 2 GPUs together: making the context of GPU 1"))
      << session.status().toString();
}

TEST_F(GpuRanks, AGpuWhoseMemoryIsTaken) {
  std::string path = RankEngine().writeTemporary("taken.tenon");
  Result<std::unique_ptr<engine::EngineFile>> file = engine::EngineFile::open(path);
  ASSERT_TRUE(file.isOk());
  EXPECT_TRUE(checkRankDevices(**file, 0, test::gpuOptions()).isOk());
  fake->memoryLimit = 64;
  Status status = checkRankDevices(**file, 0, test::gpuOptions());
  EXPECT_EQ(ErrorId::RunOutOfMemory, status.id());
  EXPECT_TRUE(status.message().starts_with("GPU 0 has 0 MiB free of 0, but the weights"))
      << status.toString();
  EXPECT_FALSE(open("taken").isOk());
}

/// y = 2 (2x + w) + v of n floats: w is the first stage's weight, v the second's.
engine::Plan stagesPlan() {
  PlanBuilder builder;
  builder.plan.ranks = builder.plan.stages = 2;
  ExprId n = builder.symbol("n", 1, 64, 0, 0);
  ExprId bytes = builder.plan.exprs.mul(n, builder.size(4));
  uint32_t x = builder.input("x", DType::F32, {n});
  uint32_t y = builder.output("y", DType::F32, {n});
  uint32_t w = builder.weight(0, 64 * 4), v = builder.weight(1, 64 * 4);
  uint32_t twice = builder.arena(bytes, 0, 1), sent = builder.arena(bytes, 1, 2);
  uint32_t received = builder.arena(bytes, 2, 3), again = builder.arena(bytes, 3, 4);
  auto of = [&](uint64_t stages) { builder.plan.instructions.back().stages = stages; };
  test::launchGpu(builder, test::GpuScale, {x}, {twice}, n);
  of(1);
  test::launchGpu(builder, test::GpuAdd, {twice, w}, {sent}, n);
  of(1);
  builder.collective(engine::CollectiveKind::SendReceive, sent, received, n);
  of(3);
  test::launchGpu(builder, test::GpuScale, {received}, {again}, n);
  of(2);
  test::launchGpu(builder, test::GpuAdd, {again, v}, {y}, n);
  of(2);
  builder.finish();
  return builder.plan;
}

class GpuStages : public GpuRanks {
protected:
  static Result<std::unique_ptr<Session>> open(const char *name) {
    test::GpuEngine content(stagesPlan(), {test::floats("w", ramp(64)),
                                           test::floats("v", std::vector<float>(64, 1000))});
    std::string path = content.writeTemporary(std::string(name) + ".tenon");
    TENON_ASSIGN(std::shared_ptr<const Engine> engine, Engine::open(path, test::gpuOptions()));
    return Session::create(engine);
  }
  static std::vector<float> expected(int64_t count) {
    std::vector<float> values = ramp(count), own = ramp(64);
    for (int64_t i = 0; i < count; ++i) {
      values[i] = 2 * (2 * values[i] + own[i]) + 1000;
    }
    return values;
  }
};

TEST_F(GpuStages, CopyFromGpuToGpuAndHaveTheirOwnWeights) {
  fake->reachesPeers = false; // the driver then copies by way of the host
  Result<std::unique_ptr<Session>> session = open("stages");
  ASSERT_TRUE(session.isOk()) << session.status().toString();
  EXPECT_EQ(2, fake->contextsRetained());
  for (int round = 0; round < 3; ++round) {
    Result<std::vector<float>> output = test::runOnHost(**session, ramp(8));
    ASSERT_TRUE(output.isOk()) << output.status().toString();
    EXPECT_EQ(expected(8), *output);
    EXPECT_EQ(round != 0, (*session)->info().usedGraph) << (*session)->info().graphRefusal;
  }
  EXPECT_EQ(3, fake->calls("cuMemcpyPeerAsync"));
  // Of each, one array of 256 bytes.
  EXPECT_EQ((*session)->memoryUse().weightBytes, 2U * 256);
}

TEST_F(GpuStages, SeveralRunsFollowEachOther) {
  Result<std::unique_ptr<Session>> session = open("order");
  ASSERT_TRUE(session.isOk()) << session.status().toString();
  std::vector<std::vector<float>> inputs, outputs;
  std::vector<std::array<int64_t, 1>> dims;
  for (int64_t count : {8, 64, 8, 1, 64}) {
    inputs.push_back(ramp(count));
    outputs.emplace_back(count);
    dims.push_back({count});
  }
  std::vector<InputBinding> in;
  std::vector<OutputBinding> out;
  std::vector<RunTensors> runs;
  for (size_t i = 0; i < inputs.size(); ++i) {
    in.push_back({inputs[i].data(), dims[i]});
    out.push_back({outputs[i].data(), outputs[i].size() * 4});
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    runs.push_back({{&in[i], 1}, {&out[i], 1}});
  }
  for (int round = 0; round < 3; ++round) {
    Status status = (*session)->runInOrder(runs);
    ASSERT_TRUE(status.isOk()) << status.toString();
    for (size_t i = 0; i < inputs.size(); ++i) {
      EXPECT_EQ(expected(dims[i][0]), outputs[i]);
    }
  }
}

TEST_F(GpuStages, OneThatFailsEndsTheOthers) {
  Result<std::unique_ptr<Session>> session = open("stage-fails");
  ASSERT_TRUE(session.isOk()) << session.status().toString();
  fake->fail("cuMemcpyPeerAsync", 999);
  Status status = test::runOnHost(**session, ramp(8)).takeStatus();
  EXPECT_EQ(ErrorId::DeviceFailed, status.id());
  EXPECT_TRUE(status.message().starts_with("stage 1, rank 0: sending to the next stage"))
      << status.toString();
}

TEST_F(GpuStages, OneGpuTooFew) {
  fake->devices = 1;
  EXPECT_EQ(ErrorId::DeviceNotFound, open("stage-few").status().id());
}

} // namespace
} // namespace tenon::runtime
