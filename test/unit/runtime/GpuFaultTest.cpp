// What can go wrong with a GPU, planted in the stand-in of the driver, and what Tenon makes of it;
// the choice of a variant; code that is kept.

#include "test/unit/runtime/GpuFixture.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>

namespace tenon::runtime {
namespace {

using engine::ExprId;
using test::PlanBuilder;
using test::ramp;

constexpr int kFault = 719;
constexpr int kOutOfMemory = 2;

class GpuFault : public test::WithFakeCuda {
protected:
  std::string sumEngine() {
    return test::GpuEngine(test::gpuSumPlan(), test::gpuSumWeights()).writeTemporary("sum.tenon");
  }

  Status openStatus(const EngineOptions &options = test::gpuOptions()) {
    return Engine::open(sumEngine(), options).takeStatus();
  }

  void expectAllReleased() {
    EXPECT_EQ(0u, fake->deviceBytes());
    EXPECT_EQ(0u, fake->pinnedBytes());
    EXPECT_EQ(0, fake->contextsRetained());
    EXPECT_EQ(fake->calls("cuGraphInstantiateWithFlags"), fake->calls("cuGraphExecDestroy"));
    EXPECT_EQ(fake->calls("cuStreamCreate"), fake->calls("cuStreamDestroy_v2"));
    EXPECT_EQ(fake->calls("cuEventCreate"), fake->calls("cuEventDestroy_v2"));
    EXPECT_EQ(fake->calls("cuModuleLoadDataEx"), fake->calls("cuModuleUnload"));
    EXPECT_EQ(fake->calls("cuCtxPushCurrent_v2"), fake->calls("cuCtxPopCurrent_v2"));
  }
};

TEST_F(GpuFault, ReleasesEverything) {
  {
    std::unique_ptr<Session> session = test::gpuSumSession();
    for (int run = 0; run < 3; ++run) {
      ASSERT_TRUE(test::runOnHost(*session, ramp(99)).isOk());
    }
    EXPECT_LT(0u, fake->deviceBytes());
    EXPECT_EQ(1, fake->calls("cuGraphInstantiateWithFlags"));
    EXPECT_EQ(2, fake->calls("cuGraphLaunch"));
    EXPECT_EQ(4, fake->calls("cuLaunchKernelEx")) << "one run and one capture of two kernels";
  }
  expectAllReleased();
}

TEST_F(GpuFault, KeepsABoundedNumberOfGraphs) {
  std::unique_ptr<Session> session = test::gpuSumSession();
  for (int64_t count = 1; count <= 262; ++count) {
    for (int run = 0; run < 2; ++run) {
      EXPECT_EQ(test::gpuSumOf(ramp(count)), *test::runOnHost(*session, ramp(count)));
    }
  }
  EXPECT_EQ(262, fake->calls("cuGraphInstantiateWithFlags"));
  EXPECT_EQ(6, fake->calls("cuGraphExecDestroy"));
  session.reset();
  expectAllReleased();
}

TEST_F(GpuFault, UpdatesGraphsInPlace) {
  std::unique_ptr<Session> session = test::gpuSumSession();
  ASSERT_TRUE(test::runOnHost(*session, ramp(100)).isOk());
  ASSERT_TRUE(test::runOnHost(*session, ramp(100)).isOk());
  // A larger shape moves arena and ports: both kernels of the old shape have new addresses.
  ASSERT_TRUE(test::runOnHost(*session, ramp(4000)).isOk());
  ASSERT_TRUE(test::runOnHost(*session, ramp(4000)).isOk());
  int launches = fake->calls("cuLaunchKernelEx");
  for (int run = 0; run < 3; ++run) {
    EXPECT_EQ(test::gpuSumOf(ramp(100)), *test::runOnHost(*session, ramp(100)));
    EXPECT_EQ(test::gpuSumOf(ramp(4000)), *test::runOnHost(*session, ramp(4000)));
  }
  EXPECT_EQ(2, fake->calls("cuGraphInstantiateWithFlags"));
  EXPECT_EQ(2, fake->calls("cuGraphExecKernelNodeSetParams_v2"));
  EXPECT_EQ(launches, fake->calls("cuLaunchKernelEx"));
}

TEST_F(GpuFault, RecapturesWhereNodesAreNotKnown) {
  std::unique_ptr<Session> session = test::gpuSumSession();
  ASSERT_TRUE(test::runOnHost(*session, ramp(100)).isOk());
  ASSERT_TRUE(test::runOnHost(*session, ramp(100)).isOk());
  ASSERT_TRUE(test::runOnHost(*session, ramp(4000)).isOk());
  fake->fail("cuGraphExecKernelNodeSetParams_v2", kFault);
  EXPECT_EQ(test::gpuSumOf(ramp(100)), *test::runOnHost(*session, ramp(100)));
  EXPECT_EQ(1, fake->calls("cuGraphExecUpdate_v2"));
  EXPECT_EQ(1, fake->calls("cuGraphInstantiateWithFlags"));
  EXPECT_TRUE(session->info().usedGraph);
}

TEST_F(GpuFault, RunsWithoutAGraphWhereNoneCanBeMade) {
  for (const char *function :
       {"cuStreamBeginCapture_v2", "cuStreamEndCapture", "cuGraphInstantiateWithFlags"}) {
    std::unique_ptr<Session> session = test::gpuSumSession();
    ASSERT_TRUE(test::runOnHost(*session, ramp(50)).isOk());
    fake->fail(function, kFault);
    for (int run = 0; run < 3; ++run) {
      EXPECT_EQ(test::gpuSumOf(ramp(50)), *test::runOnHost(*session, ramp(50)));
      EXPECT_FALSE(session->info().usedGraph);
      EXPECT_NE(std::string::npos, session->info().graphRefusal.find("CUDA_ERROR_FAKE"));
    }
    // Another shape tries again.
    ASSERT_TRUE(test::runOnHost(*session, ramp(51)).isOk());
    ASSERT_TRUE(test::runOnHost(*session, ramp(51)).isOk());
    EXPECT_TRUE(session->info().usedGraph);
  }
}

TEST_F(GpuFault, OutOfMemoryIsAnAnswer) {
  std::unique_ptr<Session> session = test::gpuSumSession();
  ASSERT_TRUE(test::runOnHost(*session, ramp(100)).isOk());
  fake->memoryLimit = fake->deviceBytes() + 4096;
  Status status = test::runOnHost(*session, ramp(4096)).takeStatus();
  EXPECT_EQ(ErrorId::RunOutOfMemory, status.id());
  EXPECT_EQ(Code::Exhausted, status.code());
  EXPECT_NE(std::string_view::npos,
            status.message().find("allocating 16640 bytes of GPU memory for the arena: NVIDIA's "
                                  "driver reported CUDA_ERROR_OUT_OF_MEMORY (2)"))
      << status.message();
  for (int run = 0; run < 3; ++run) {
    EXPECT_EQ(test::gpuSumOf(ramp(100)), *test::runOnHost(*session, ramp(100)));
  }
  fake->fail("cuMemAllocHost_v2", kOutOfMemory);
  EXPECT_EQ(ErrorId::RunOutOfMemory, test::runOnHost(*session, ramp(200)).status().id());
  EXPECT_EQ(test::gpuSumOf(ramp(200)), *test::runOnHost(*session, ramp(200)));
  // The session's own limit holds too.
  fake->memoryLimit = size_t(1) << 30;
  session = test::gpuSumSession({.threads = 0, .memoryLimit = 1024});
  EXPECT_EQ(ErrorId::RunOutOfMemory, test::runOnHost(*session, ramp(4096)).status().id());
  EXPECT_TRUE(test::runOnHost(*session, ramp(100)).isOk());
}

TEST_F(GpuFault, EveryFailingCallIsAStatus) {
  // Each function that a run calls fails once; the session says so, and works again.
  std::unique_ptr<Session> session = test::gpuSumSession();
  struct Case {
    const char *function;
    const char *doing;
  };
  ASSERT_TRUE(test::runOnHost(*session, ramp(10)).isOk());
  for (const Case &planted : {Case{"cuMemcpyHtoDAsync_v2", "sending an input to the GPU: "},
                              Case{"cuGraphLaunch", "launching the graph of the run: "},
                              Case{"cuMemcpyDtoHAsync_v2", "fetching an output from the GPU: "},
                              Case{"cuStreamSynchronize", "waiting for the run: "}}) {
    fake->fail(planted.function, kFault);
    Status status = test::runOnHost(*session, ramp(10)).takeStatus();
    EXPECT_EQ(ErrorId::DeviceFailed, status.id()) << planted.function;
    EXPECT_EQ(Code::Device, status.code());
    EXPECT_EQ(planted.doing +
                  std::string("NVIDIA's driver reported CUDA_ERROR_FAKE (719): a fault that the "
                              "test asked for"),
              status.message());
    EXPECT_EQ(test::gpuSumOf(ramp(10)), *test::runOnHost(*session, ramp(10)));
  }
  fake->fail("cuLaunchKernelEx", kFault, 1);
  Status status = test::runOnHost(*session, ramp(11)).takeStatus();
  EXPECT_EQ(0u, status.message().find("starting 'test_add' (instruction 1): ")) << status.message();
  for (const char *function :
       {"cuMemAlloc_v2", "cuMemAllocHost_v2", "cuStreamCreate", "cuEventCreate",
        "cuModuleLoadDataEx", "cuMemcpyHtoDAsync_v2", "cuStreamSynchronize"}) {
    fake->fail(function, kFault);
    EXPECT_FALSE(openStatus().isOk()) << function;
  }
  EXPECT_TRUE(openStatus().isOk());
}

TEST_F(GpuFault, EveryPieceOfWeightsMustArrive) {
  constexpr int64_t count = 4 << 20;
  std::string path = test::GpuEngine(test::gpuSumPlan(count), test::gpuSumWeights(count))
                         .writeTemporary("large.tenon");
  for (int piece = 0; piece < 16; ++piece) {
    fake->fail("cuMemcpyHtoDAsync_v2", kFault, piece);
    Status status = Engine::open(path, test::gpuOptions()).takeStatus();
    EXPECT_EQ(ErrorId::DeviceFailed, status.id()) << piece;
    EXPECT_EQ(0u, status.message().find("uploading weights: ")) << status.message();
    expectAllReleased();
  }
  fake->fail("cuMemcpyHtoDAsync_v2", kFault, 16);
  EXPECT_TRUE(Engine::open(path, test::gpuOptions()).isOk()) << "there are 16";
}

TEST_F(GpuFault, SaysWhatTheCompilerSaid) {
  fake->jitLog = "ptxas application ptx input, line 7; fatal : a fault\n";
  Status status = openStatus();
  EXPECT_EQ(ErrorId::EngineBadCode, status.id());
  EXPECT_NE(std::string_view::npos, status.message().find("line 7; fatal : a fault"))
      << status.message();
  fake->jitLog = "";
  test::GpuEngine missing(test::gpuSumPlan(), test::gpuSumWeights());
  missing.content.variants[0].variant.kernels[1] = "test_missing";
  status = Engine::open(missing.writeTemporary("missing.tenon"), test::gpuOptions()).takeStatus();
  EXPECT_EQ(ErrorId::EngineBadCode, status.id());
  EXPECT_EQ("the PTX has no kernel 'test_missing'", status.message());
}

TEST_F(GpuFault, ChoosesVariants) {
  test::GpuEngine engine(test::gpuSumPlan(), test::gpuSumWeights());
  engine.addVariant("sm_90", test::gpuSumPlan());
  engine.addVariant("sm_90a", test::gpuSumPlan());
  engine.addVariant("sm_100", test::gpuSumPlan());
  PlanBuilder onCpu;
  ExprId n = onCpu.symbol("n", 1, 4096, 0, 0);
  uint32_t x = onCpu.input("x", DType::F32, {n});
  uint32_t y = onCpu.output("y", DType::F32, {n});
  onCpu.launch(test::Scale, {x}, {y}, n);
  onCpu.finish();
  engine.content.variants.push_back({{"x86-64-v3", onCpu.plan, test::kernelNames()}, engine.code});
  std::string path = engine.writeTemporary("choice.tenon");
  auto chosen = [&](const std::string &variant = "") {
    EngineOptions options = test::gpuOptions();
    options.variant = variant;
    Result<std::shared_ptr<const Engine>> opened = Engine::open(path, options);
    return opened.isOk() ? (*opened)->variant().level : opened.status().toString();
  };
  struct Case {
    int capability;
    const char *level;
  };
  for (const Case &device : {Case{90, "sm_90a"}, Case{100, "sm_100"}, Case{120, "sm_100"},
                             Case{89, "sm_80"}, Case{75, "x86-64-v3"}}) {
    fake->capability = device.capability;
    EXPECT_EQ(device.level, chosen());
  }
  fake->capability = 90;
  EXPECT_EQ("sm_80", chosen("sm_80"));
  EXPECT_EQ("x86-64-v3", chosen("x86-64-v3"));
  EXPECT_EQ(0u,
            chosen("sm_100").find("TN0517: the variant 'sm_100' was requested, but this machine"));
  EXPECT_NE(std::string::npos, chosen("sm_100").find(" and, on Fake GPU, sm_90"));
  fake->devices = 0;
  EXPECT_EQ("x86-64-v3", chosen());
  EXPECT_EQ(0u, chosen("sm_80").find("TN0702: NVIDIA's driver found no GPU"));
  fake->devices = 1;
  fake->driverVersion = 11080;
  EXPECT_EQ("x86-64-v3", chosen());
  EXPECT_NE(std::string::npos, chosen("sm_80").find("supports CUDA 11.8; Tenon needs 12.3"));
}

TEST_F(GpuFault, NamesTheMissingLibrary) {
  EngineOptions options = test::gpuOptions();
  options.cudaLibrary = "libnowhere.so.1";
  Status status = openStatus(options);
  EXPECT_EQ(ErrorId::DeviceNotFound, status.id());
  EXPECT_NE(std::string_view::npos,
            status.message().find("driver library libnowhere.so.1 was not found"))
      << status.message();
  options = test::gpuOptions();
  options.gpu = 3;
  EXPECT_EQ("GPU 3 was requested, but NVIDIA's driver found 1", openStatus(options).message());
}

TEST_F(GpuFault, TakesMachineCodeOfTheEngine) {
  std::vector<std::byte> cubin = test::cubinHeader();
  std::string text = test::kernelsPtx();
  std::ranges::copy(std::as_bytes(std::span(text)), std::back_inserter(cubin));
  test::GpuEngine engine(test::gpuSumPlan(), test::gpuSumWeights());
  engine.content.variants[0].cubin = cubin;
  engine.content.variants[0].cubinBy = "ptxas 1.2.3";
  std::string path = engine.writeTemporary("cubin.tenon");
  auto compilations = [&](int capability) {
    fake->capability = capability;
    int before = fake->compilations();
    Result<std::shared_ptr<const Engine>> opened = Engine::open(path, test::gpuOptions());
    EXPECT_TRUE(opened.isOk()) << opened.status().toString();
    return fake->compilations() - before;
  };
  // Made for sm_80: later GPUs of the generation run it, those of others compile the PTX.
  EXPECT_EQ(0, compilations(80));
  EXPECT_EQ(0, compilations(86));
  EXPECT_EQ(1, compilations(90));
  fake->fail("cuModuleLoadDataEx", kFault);
  EXPECT_EQ(1, compilations(80)) << "the driver does not take it";
}

TEST_F(GpuFault, RefusesImpossibleLaunches) {
  PlanBuilder builder;
  ExprId n = builder.symbol("n", 1, int64_t(1) << 40, 0, 0);
  uint32_t x = builder.input("x", DType::F32, {n});
  uint32_t state = builder.state(256);
  engine::Instruction &launch =
      builder.launch(static_cast<test::Kernel>(test::GpuScale), {x}, {state}, n, {n});
  launch.threads = 1;
  launch.scratch = n;
  builder.finish();
  std::unique_ptr<Session> session = test::gpuSession(test::GpuEngine(builder.plan));
  auto prepare = [&](int64_t dim) {
    std::vector<int64_t> dims = {dim};
    std::span<const int64_t> all[] = {dims};
    return session->prepare(all);
  };
  EXPECT_TRUE(prepare(4).isOk());
  EXPECT_EQ(ErrorId::RunBadSize, prepare(INT32_MAX + int64_t(1)).id());
  Status status = prepare(300 << 10);
  EXPECT_EQ(ErrorId::RunBadSize, status.id());
  EXPECT_NE(std::string_view::npos, status.message().find("needs 307200 bytes of shared memory"))
      << status.message();
}

} // namespace
} // namespace tenon::runtime
