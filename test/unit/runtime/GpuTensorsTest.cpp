// Tensors that lie on the GPU, and the caller's streams: runs that use them in place. All of it
// runs on the stand-in and on NVIDIA's driver.

#include "runtime/capi/Tensors.h"
#include "runtime/device/cuda/CudaMemory.h"
#include "runtime/device/cuda/CudaStream.h"
#include "test/unit/runtime/GpuFixture.h"

#include <gtest/gtest.h>

#include <cstring>

namespace tenon::runtime {
namespace {

using cuda::ContextScope;
using cuda::CudaBuffer;
using cuda::CudaStream;
using cuda::MemoryKind;
using test::ramp;

class GpuTensors : public test::OnGpu {
protected:
  /// Floats in the GPU's memory, from `shift` floats after its start.
  CudaBuffer put(const std::vector<float> &values, size_t shift = 0) {
    CudaBuffer memory(device, MemoryKind::Device);
    CudaBuffer staging(device, MemoryKind::Pinned);
    size_t bytes = (values.size() + shift) * sizeof(float);
    EXPECT_TRUE(memory.reserve(bytes, "a test").isOk());
    EXPECT_TRUE(staging.reserve(bytes, "a test").isOk());
    std::memcpy(staging.data() + shift * sizeof(float), values.data(),
                values.size() * sizeof(float));
    ContextScope scope(*device);
    EXPECT_EQ(0,
              device->driver().memcpyHtoDAsync(memory.pointer(), staging.data(), bytes, nullptr));
    EXPECT_EQ(0, device->driver().streamSynchronize(nullptr));
    return memory;
  }

  std::vector<float> get(const void *pointer, size_t count) {
    CudaBuffer staging(device, MemoryKind::Pinned);
    EXPECT_TRUE(staging.reserve(count * sizeof(float), "a test").isOk());
    ContextScope scope(*device);
    EXPECT_EQ(0,
              device->driver().memcpyDtoHAsync(staging.data(), reinterpret_cast<uint64_t>(pointer),
                                               count * sizeof(float), nullptr));
    EXPECT_EQ(0, device->driver().streamSynchronize(nullptr));
    const float *data = reinterpret_cast<const float *>(staging.data());
    return std::vector<float>(data, data + count);
  }
};

TEST_F(GpuTensors, UsesDeviceTensorsInPlace) {
  std::unique_ptr<Session> session = test::gpuSumSession();
  ASSERT_TRUE(session);
  int64_t dims[] = {1000};
  std::vector<float> first = ramp(1000);
  std::vector<float> second = test::gpuSumOf(first);
  CudaBuffer inputs[] = {put(first), put(second), put(first, 1)};
  CudaBuffer outputs[] = {put(std::vector<float>(1000)), put(std::vector<float>(1000)),
                          put(std::vector<float>(1000), 3)};
  for (int run = 0; run < 12; ++run) {
    // Addresses change from run to run; the third of each is not aligned to 16 bytes.
    int from = run % 3;
    int to = run / 3 % 3;
    float *target = reinterpret_cast<float *>(outputs[to].data()) + (to == 2 ? 3 : 0);
    InputBinding in = {reinterpret_cast<float *>(inputs[from].data()) + (from == 2 ? 1 : 0), dims,
                       Place::Gpu};
    OutputBinding out = {target, 4000, Place::Gpu};
    Status status = session->run({&in, 1}, {&out, 1});
    ASSERT_TRUE(status.isOk()) << status.toString();
    EXPECT_EQ(test::gpuSumOf(from == 1 ? second : first), get(target, 1000)) << run;
    EXPECT_EQ(run != 0, session->info().usedGraph) << session->info().graphRefusal;
  }
}

TEST_F(GpuTensors, MixesHostAndDeviceTensors) {
  std::unique_ptr<Session> session = test::gpuSumSession();
  ASSERT_TRUE(session);
  int64_t dims[] = {500};
  std::vector<float> input = ramp(500);
  CudaBuffer onDevice = put(input);
  std::vector<float> result(500);
  for (int run = 0; run < 3; ++run) {
    InputBinding in = {onDevice.data(), dims, Place::Gpu};
    OutputBinding out = {result.data(), 2000};
    ASSERT_TRUE(session->run({&in, 1}, {&out, 1}).isOk());
    EXPECT_EQ(test::gpuSumOf(input), result);
    std::fill(result.begin(), result.end(), 0.0f);
    // Kept in the session, on the GPU.
    in = {input.data(), dims};
    out = {nullptr, 0, Place::Gpu};
    ASSERT_TRUE(session->run({&in, 1}, {&out, 1}).isOk());
    EXPECT_EQ(test::gpuSumOf(input), get(session->outputData(0), 500));
  }
}

TEST_F(GpuTensors, RunsOnTheCallersStream) {
  std::unique_ptr<Session> session = test::gpuSumSession();
  ASSERT_TRUE(session);
  CudaStream streams[] = {CudaStream(device), CudaStream(device)};
  {
    ContextScope scope(*device);
    ASSERT_TRUE(streams[0].open().isOk());
    ASSERT_TRUE(streams[1].open().isOk());
  }
  int64_t dims[] = {4096};
  std::vector<float> values = ramp(4096);
  CudaBuffer a = put(values);
  CudaBuffer b = put(values);
  // y = 2x + w in turns from a to b and back, on two streams, none of them waited for.
  for (int run = 0; run < 8; ++run) {
    InputBinding in = {run % 2 == 0 ? a.data() : b.data(), dims, Place::Gpu};
    OutputBinding out = {run % 2 == 0 ? b.data() : a.data(), 4096 * 4, Place::Gpu};
    RunOptions options = {streams[run / 2 % 2].handle()};
    Status status = session->run({&in, 1}, {&out, 1}, options);
    ASSERT_TRUE(status.isOk()) << status.toString();
    values = test::gpuSumOf(values);
  }
  // A run of the session's own comes behind them.
  std::vector<float> result(4096);
  InputBinding in = {a.data(), dims, Place::Gpu};
  OutputBinding out = {result.data(), 4096 * 4};
  ASSERT_TRUE(session->run({&in, 1}, {&out, 1}).isOk());
  EXPECT_EQ(test::gpuSumOf(values), result);
}

TEST_F(GpuTensors, TellsOfAFailureThatNobodyWaitedFor) {
  std::unique_ptr<Session> session = test::gpuCheckedSession();
  ASSERT_TRUE(session);
  CudaStream stream(device);
  {
    ContextScope scope(*device);
    ASSERT_TRUE(stream.open().isOk());
  }
  int64_t dims[] = {4};
  CudaBuffer good = put({1, 2, 3, 4}), bad = put({1, 2, -3, 4}), to = put({0, 0, 0, 0});
  auto run = [&](CudaBuffer &from) {
    InputBinding in = {from.data(), dims, Place::Gpu};
    OutputBinding out = {to.data(), 16, Place::Gpu};
    return session->run({&in, 1}, {&out, 1}, RunOptions{stream.handle()}).id();
  };
  for (int round = 0; round < 2; ++round) {
    EXPECT_EQ(ErrorId::None, run(good));
    EXPECT_EQ(ErrorId::None, run(bad));
    {
      ContextScope scope(*device);
      EXPECT_TRUE(stream.wait("a test").isOk());
    }
    EXPECT_EQ(ErrorId::RunIndexOutOfRange, run(good));
    EXPECT_EQ(ErrorId::None, run(good));
    EXPECT_EQ((std::vector<float>{2, 4, 6, 8}), get(to.data(), 4));
  }
}

TEST_F(GpuTensors, TakesDlpackTensors) {
  std::unique_ptr<Session> session = test::gpuSumSession();
  ASSERT_TRUE(session);
  std::vector<float> values = ramp(64);
  CudaBuffer from = put(values, 4);
  CudaBuffer to = put(values);
  int64_t dims[] = {64};
  tenon_tensor input = {from.data(), 2, 0, 1, 2, 32, 1, dims, nullptr, 16};
  tenon_tensor output = {to.data(), 2, 0, 1, 2, 32, 1, dims, nullptr, 0};
  const tenon_tensor *inputs[] = {&input};
  const tenon_tensor *outputs[] = {&output};
  std::vector<InputBinding> in;
  std::vector<OutputBinding> out;
  for (int run = 0; run < 2; ++run) {
    ASSERT_TRUE(capi::bindInputs(session->engine(), inputs, in).isOk());
    ASSERT_TRUE(session->prepare(std::vector<std::span<const int64_t>>{in[0].dims}).isOk());
    ASSERT_TRUE(capi::bindOutputs(*session, outputs, out).isOk());
    ASSERT_TRUE(session->run(in, out).isOk());
    EXPECT_EQ(test::gpuSumOf(values), get(to.data(), 64));
  }
  EXPECT_EQ(0u, session->memoryUse().portBytes) << "both were used in place";
  input.device_id = 1;
  Status status = capi::bindInputs(session->engine(), inputs, in);
  EXPECT_EQ(ErrorId::RunBadBinding, status.id());
  EXPECT_NE(std::string_view::npos,
            status.message().find("on device 2:1, but the engine is on GPU 0"));
}

TEST_F(GpuTensors, RefusesDeviceTensorsOnTheCpu) {
  test::TestEngine engine(test::dynamicPlan(), test::productWeights());
  std::shared_ptr<const Engine> opened =
      *Engine::open(engine.writeTemporary("cpu.tenon"), test::gpuOptions());
  std::unique_ptr<Session> session = std::move(*Session::create(opened, {.threads = 1}));
  std::vector<float> memory(64);
  int64_t dims[] = {4, 8};
  InputBinding in = {memory.data(), dims, Place::Gpu};
  OutputBinding out;
  Status status = session->run({&in, 1}, {&out, 1});
  EXPECT_EQ(ErrorId::RunBadBinding, status.id());
  EXPECT_NE(std::string_view::npos, status.message().find("input 'x': a tensor is on a GPU"));
  in.place = Place::Host;
  EXPECT_EQ(ErrorId::BadArgument, session->run({&in, 1}, {&out, 1}, {&memory}).id());
  EXPECT_EQ(ErrorId::BadArgument, [&] {
    EXPECT_TRUE(session->run({&in, 1}, {&out, 1}).isOk());
    return session->timeRuns(1).status().id();
  }());
}

} // namespace
} // namespace tenon::runtime
