// Engines for a GPU, assembled by hand over kernels.ptx, and the driver that the tests run on: a
// stand-in, or NVIDIA's when the program is told to.

#pragma once

#include "runtime/core/Session.h"
#include "runtime/device/cuda/CudaDevice.h"
#include "test/unit/engine/EngineFixture.h"
#include "test/unit/runtime/FakeCuda.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

namespace tenon::test {

/// Library of the driver that the tests use.
const std::string &driverLibrary();
/// The stand-in; null when the tests run on NVIDIA's driver.
FakeCuda *fakeCuda();

/// Kernels of kernels.ptx in the order of their indices.
enum GpuKernel : uint32_t { GpuScale, GpuAdd, GpuReverse, GpuMapped, GpuChecked };

/// kernels.ptx for an architecture, ended by a zero byte. From sm_90 on its kernels wait by
/// themselves for those before them.
std::string kernelsPtx(const std::string &arch = "sm_80");

/// Adds a launch with one thread an element, `elements` as its only size.
engine::Instruction &launchGpu(PlanBuilder &builder, GpuKernel kernel, std::vector<uint32_t> reads,
                               std::vector<uint32_t> writes, engine::ExprId elements);
/// The plan with everything on the GPU.
engine::Plan onGpu(engine::Plan plan);

/// An engine with the variant "sm_80" and any others that a test adds.
struct GpuEngine : TestEngine {
  explicit GpuEngine(engine::Plan plan, std::vector<WeightData> data = {});
  void addVariant(const std::string &level, const engine::Plan &plan);

  std::vector<std::unique_ptr<std::string>> codes;
};

/// Options that take the tests' driver and keep nothing.
runtime::EngineOptions gpuOptions();
/// Writes, opens and makes a session of an engine; fails the test when that fails.
std::unique_ptr<runtime::Session> gpuSession(const TestEngine &engine,
                                             const runtime::SessionOptions &options = {});

/// y = 2x + w over n floats (1 to `most`), w of `most` floats; the double lies in the arena.
engine::Plan gpuSumPlan(int64_t most = 4096);
std::vector<WeightData> gpuSumWeights(int64_t most = 4096);
std::vector<float> gpuSumOf(const std::vector<float> &input);
/// A session of its engine, as by gpuSession.
std::unique_ptr<runtime::Session> gpuSumSession(const runtime::SessionOptions &options = {});

/// y = 2x over n floats (1 to 64); the last launch, 'table', reports numbers below zero as indices.
std::unique_ptr<runtime::Session> gpuCheckedSession();

/// Runs an engine of one float input and one float output that the session keeps on the host.
Result<std::vector<float>> runOnHost(runtime::Session &session, const std::vector<float> &input);
std::vector<float> ramp(int64_t count);

/// Has the first GPU; on the stand-in of a new driver.
class OnGpu : public ::testing::Test {
protected:
  void SetUp() override;
  std::shared_ptr<const runtime::cuda::CudaDevice> device;
};

/// On the stand-in, starts every test with a new driver; on another, skips tests that need it.
class WithFakeCuda : public ::testing::Test {
protected:
  void SetUp() override;
  FakeCuda *fake = nullptr;
};

} // namespace tenon::test
