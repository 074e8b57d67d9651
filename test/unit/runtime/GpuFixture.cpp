// See GpuFixture.h; `test_unit_gpu libcuda.so.1` runs the tests on a GPU.

#include "test/unit/runtime/GpuFixture.h"

#include <cstring>
#include <dlfcn.h>

namespace tenon::test {

using namespace tenon::engine;
using runtime::InputBinding;
using runtime::OutputBinding;

namespace {

std::string &chosenLibrary() {
  static std::string library = TENON_FAKE_CUDA;
  return library;
}

} // namespace

const std::string &driverLibrary() { return chosenLibrary(); }

FakeCuda *fakeCuda() {
  void *handle = dlopen(driverLibrary().c_str(), RTLD_NOW | RTLD_LOCAL);
  void *function = handle ? dlsym(handle, "tenonFakeCuda") : nullptr;
  return function ? reinterpret_cast<decltype(&tenonFakeCuda)>(function)() : nullptr;
}

static bool kernelsWait(const std::string &arch) {
  return arch.starts_with("sm_9") || arch.starts_with("sm_10");
}

std::string kernelsPtx(const std::string &arch) {
  std::vector<std::byte> bytes =
      readFile(std::string(TENON_SOURCE_DIR) + "/test/unit/runtime/kernels.ptx");
  std::string text(reinterpret_cast<const char *>(bytes.data()), bytes.size());
  text.replace(text.find("sm_80"), 5, arch);
  for (size_t at = text.find("\n{"); kernelsWait(arch) && at != std::string::npos;
       at = text.find("\n{", at + 1)) {
    text.insert(at + 2, "\n  griddepcontrol.launch_dependents;\n  griddepcontrol.wait;");
  }
  text.push_back('\0');
  return text;
}

Instruction &launchGpu(PlanBuilder &builder, GpuKernel kernel, std::vector<uint32_t> reads,
                       std::vector<uint32_t> writes, ExprId elements) {
  ExprId blocks = builder.plan.exprs.ceilDiv(elements, builder.size(128));
  Instruction &launch = builder.launch(static_cast<Kernel>(kernel), std::move(reads),
                                       std::move(writes), blocks, {elements});
  launch.threads = 128;
  return launch;
}

Plan onGpu(Plan plan) {
  for (Buffer &buffer : plan.buffers) {
    buffer.device = kGpu;
  }
  for (Instruction &instruction : plan.instructions) {
    instruction.device = kGpu;
  }
  return plan;
}

GpuEngine::GpuEngine(Plan plan, std::vector<WeightData> data)
    : TestEngine(Plan(), std::move(data)) {
  content.variants.clear();
  addVariant("sm_80", plan);
}

void GpuEngine::addVariant(const std::string &level, const Plan &plan) {
  codes.push_back(std::make_unique<std::string>(kernelsPtx(level)));
  Plan own = onGpu(plan);
  for (Instruction &instruction : own.instructions) {
    instruction.isDependentLaunch =
        instruction.kind == InstructionKind::Launch && kernelsWait(level);
  }
  content.variants.push_back(
      {{level,
        std::move(own),
        {"test_scale", "test_add", "test_reverse", "test_mapped", "test_checked"}},
       std::as_bytes(std::span(*codes.back()))});
}

runtime::EngineOptions gpuOptions() {
  runtime::EngineOptions options;
  options.cudaLibrary = driverLibrary();
  options.cacheFolder = "";
  return options;
}

std::unique_ptr<runtime::Session> gpuSession(const TestEngine &engine,
                                             const runtime::SessionOptions &options) {
  static int count = 0;
  std::string path = engine.writeTemporary("gpu" + std::to_string(++count) + ".tenon");
  Result<std::shared_ptr<const runtime::Engine>> opened = runtime::Engine::open(path, gpuOptions());
  EXPECT_TRUE(opened.isOk()) << opened.status().toString();
  if (!opened.isOk()) {
    return nullptr;
  }
  Result<std::unique_ptr<runtime::Session>> session = runtime::Session::create(*opened, options);
  EXPECT_TRUE(session.isOk()) << session.status().toString();
  return session.isOk() ? std::move(*session) : nullptr;
}

Plan gpuSumPlan(int64_t most) {
  PlanBuilder builder;
  ExprId n = builder.symbol("n", 1, most, 0, 0);
  uint32_t x = builder.input("x", DType::F32, {n});
  uint32_t y = builder.output("y", DType::F32, {n});
  uint32_t w = builder.weight(1, most * 4);
  uint32_t twice = builder.arena(builder.plan.exprs.mul(n, builder.size(4)), 0, 1);
  launchGpu(builder, GpuScale, {x}, {twice}, n);
  launchGpu(builder, GpuAdd, {twice, w}, {y}, n);
  builder.finish();
  return builder.plan;
}

std::vector<WeightData> gpuSumWeights(int64_t most) {
  std::vector<float> values;
  for (int64_t i = 0; i < most; ++i) {
    values.push_back(static_cast<float>(i));
  }
  return {floats("unused", {1, 2, 3}), floats("w", values)};
}

std::vector<float> gpuSumOf(const std::vector<float> &input) {
  std::vector<float> sums;
  for (size_t i = 0; i < input.size(); ++i) {
    sums.push_back(2 * input[i] + static_cast<float>(i));
  }
  return sums;
}

std::unique_ptr<runtime::Session> gpuSumSession(const runtime::SessionOptions &options) {
  return gpuSession(GpuEngine(gpuSumPlan(), gpuSumWeights()), options);
}

std::unique_ptr<runtime::Session> gpuCheckedSession() {
  PlanBuilder builder;
  engine::ExprId n = builder.symbol("n", 1, 64, 0, 0);
  uint32_t x = builder.input("x", DType::F32, {n});
  uint32_t y = builder.output("y", DType::F32, {n});
  uint32_t twice = builder.arena(builder.plan.exprs.mul(n, builder.size(4)), 0, 1);
  launchGpu(builder, GpuScale, {x}, {twice}, n);
  engine::Instruction &launch = launchGpu(builder, GpuChecked, {twice}, {y}, n);
  launch.canFail = true;
  launch.label = "table";
  builder.finish();
  return gpuSession(GpuEngine(builder.plan));
}

Result<std::vector<float>> runOnHost(runtime::Session &session, const std::vector<float> &input) {
  int64_t dims[] = {static_cast<int64_t>(input.size())};
  InputBinding in = {input.data(), dims};
  OutputBinding out;
  TENON_TRY(session.run({&in, 1}, {&out, 1}));
  const float *data = static_cast<const float *>(session.outputData(0));
  return std::vector<float>(data, data + session.outputBytes(0) / sizeof(float));
}

std::vector<float> ramp(int64_t count) {
  std::vector<float> values;
  for (int64_t i = 0; i < count; ++i) {
    values.push_back(static_cast<float>(i % 13) - 6);
  }
  return values;
}

void OnGpu::SetUp() {
  if (FakeCuda *fake = fakeCuda()) {
    fake->reset();
  }
  Result<std::shared_ptr<const runtime::cuda::CudaDevice>> opened =
      runtime::cuda::CudaDevice::open(driverLibrary(), 0);
  ASSERT_TRUE(opened.isOk()) << opened.status().toString();
  device = *opened;
}

void WithFakeCuda::SetUp() {
  fake = fakeCuda();
  if (!fake) {
    GTEST_SKIP() << "needs the stand-in of the driver";
  }
  fake->reset();
}

} // namespace tenon::test

int main(int argc, char **argv) {
  ::testing::InitGoogleTest(&argc, argv);
  if (argc > 1) {
    tenon::test::chosenLibrary() = argv[1];
  }
  return RUN_ALL_TESTS();
}
