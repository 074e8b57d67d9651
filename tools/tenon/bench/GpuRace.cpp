// Relies on the order of a stream: what is put on it behind a long write waits for it, so the host
// is ahead of the GPU, and events around a run see the GPU's work alone.

#include "tools/tenon/bench/GpuRace.h"

#include "runtime/device/cuda/CudaMemory.h"
#include "runtime/device/cuda/CudaModule.h"
#include "runtime/device/cuda/CudaStream.h"

#include <algorithm>
#include <array>
#include <span>
#include <string>

namespace tenon::tool {
namespace {

namespace cuda = runtime::cuda;
using runtime::InputBinding;
using runtime::OutputBinding;
using runtime::Place;

constexpr size_t kRunsOfSample = 8;
/// Takes the GPU as long as the host needs to put a sample on the stream.
constexpr uint64_t kRaceLeadBytes = uint64_t(1) << 30;
constexpr unsigned kBlocksOfUnit = 8, kThreadsOfBlock = 256;
/// Steps of two multiply-adds that wait for each other: about 20 us.
constexpr int kClockSteps = 4096;
constexpr const char *kRacing = "timing kernels";

/// tenon_read goes through `bytes` of memory from the first argument on, 16 of them a thread and
/// step; tenon_clock adds up in registers.
constexpr const char *kRacePtx = R"(//
.version 8.0
.target sm_80
.address_size 64
.visible .entry tenon_read(.param .u64 tenon_read_param_0, .param .u64 tenon_read_param_1)
{
.reg .pred %p<3>;
.reg .b32 %r<12>;
.reg .b64 %rd<10>;
ld.param.u64 %rd1, [tenon_read_param_0];
ld.param.u64 %rd2, [tenon_read_param_1];
mov.u32 %r1, %ctaid.x;
mov.u32 %r2, %ntid.x;
mov.u32 %r3, %tid.x;
mov.u32 %r4, %nctaid.x;
mad.lo.u32 %r5, %r1, %r2, %r3;
mul.wide.u32 %rd3, %r5, 16;
mul.lo.u32 %r6, %r4, %r2;
mul.wide.u32 %rd4, %r6, 16;
mov.u32 %r7, 0;
$next:
setp.ge.u64 %p1, %rd3, %rd2;
@%p1 bra $end;
add.u64 %rd5, %rd1, %rd3;
ld.global.v4.u32 {%r8, %r9, %r10, %r11}, [%rd5];
xor.b32 %r7, %r7, %r8;
add.u64 %rd3, %rd3, %rd4;
bra $next;
$end:
setp.ne.u32 %p2, %r7, 305419896;
@%p2 bra $done;
st.global.u32 [%rd1], %r7;
$done:
ret;
}
.visible .entry tenon_clock(.param .u64 tenon_clock_param_0, .param .u64 tenon_clock_param_1)
{
.reg .pred %p<3>;
.reg .f32 %f<4>;
.reg .b32 %r<4>;
.reg .b64 %rd<4>;
ld.param.u64 %rd1, [tenon_clock_param_0];
ld.param.u64 %rd2, [tenon_clock_param_1];
cvt.u32.u64 %r1, %rd2;
mov.f32 %f1, 0f3F800000;
mov.f32 %f2, 0f3F7FFFFF;
$step:
fma.rn.f32 %f1, %f1, %f2, %f2;
fma.rn.f32 %f1, %f1, %f2, %f2;
sub.u32 %r1, %r1, 1;
setp.ne.u32 %p1, %r1, 0;
@%p1 bra $step;
setp.ge.f32 %p2, %f1, 0f00000000;
@%p2 bra $same;
st.global.f32 [%rd1], %f1;
$same:
ret;
}
)";

class RaceOnGpu;

class Contender final : public GpuContender {
public:
  Contender(RaceOnGpu &gpuRace, std::unique_ptr<runtime::Session> timed)
      : race(gpuRace), owned(std::move(timed)) {}
  Status prepare();
  Status run();
  runtime::Session &session() override { return *owned; }
  Result<std::vector<Tensor>> outputs() override;
  Result<double> seconds() override;

private:
  RaceOnGpu &race;
  std::unique_ptr<runtime::Session> owned;
  std::vector<OutputBinding> bindings;
};

class RaceOnGpu final : public GpuRace {
public:
  RaceOnGpu(std::shared_ptr<const cuda::CudaDevice> gpu, const GpuRaceOptions &raceOptions)
      : device(std::move(gpu)), scope(*device), options(raceOptions), stream(device),
        lead(device, cuda::MemoryKind::Device), others(device, cuda::MemoryKind::Device),
        staging(device, cuda::MemoryKind::Pinned) {}

  Status open(const std::vector<Tensor> &inputs) {
    TENON_TRY(stream.open());
    for (size_t i = 0; i < 2 * kRunsOfSample; ++i) {
      events.push_back(std::make_unique<cuda::CudaEvent>(device));
      TENON_TRY(events.back()->open(cuda::kEventWithTiming));
    }
    TENON_TRY(lead.reserve(std::min(kRaceLeadBytes, device->info().memoryBytes / 16), kRacing));
    TENON_TRY(others.reserve(std::max<uint64_t>(options.otherBytes, 256), kRacing));
    TENON_TRY(check(driver().memsetD8Async(others.pointer(), 0, others.size(), handle())));
    std::string ptx = kRacePtx;
    ptx.push_back('\0');
    engine::Variant variant{.level = "", .plan = {}, .kernels = {"tenon_read", "tenon_clock"}};
    TENON_ASSIGN(module,
                 cuda::CudaModule::load(device, {std::as_bytes(std::span(ptx)), {}, {}}, variant));
    TENON_TRY(clockSeconds().status()); // the first run loads code, and brings up the clock
    for (const Tensor &tensor : inputs) {
      TENON_TRY(send(tensor));
    }
    for (size_t i = 0; i < inputs.size(); ++i) {
      bound.push_back({own[i].data(), dims[i], Place::Gpu});
    }
    return wait();
  }

  Result<std::unique_ptr<GpuContender>> add(std::shared_ptr<const runtime::Engine> engine,
                                            const runtime::SessionOptions &session) override {
    TENON_ASSIGN(std::unique_ptr<runtime::Session> timed,
                 runtime::Session::create(std::move(engine), session));
    std::unique_ptr<Contender> contender = std::make_unique<Contender>(*this, std::move(timed));
    TENON_TRY(contender->prepare());
    return std::unique_ptr<GpuContender>(std::move(contender));
  }

  Result<double> clockSeconds() override {
    TENON_TRY(startLead());
    TENON_TRY(events[0]->record(handle(), kRacing));
    TENON_TRY(launch(1, lead.pointer(), kClockSteps));
    TENON_TRY(events[1]->record(handle(), kRacing));
    TENON_TRY(wait());
    return cuda::CudaEvent::secondsBetween(*events[0], *events[1]);
  }

  Result<double> medianOf(Contender &contender) {
    TENON_TRY(startLead());
    for (size_t i = 0; i < kRunsOfSample; ++i) {
      TENON_TRY(prepareRun());
      TENON_TRY(events[2 * i]->record(handle(), kRacing));
      TENON_TRY(contender.run());
      TENON_TRY(events[2 * i + 1]->record(handle(), kRacing));
    }
    TENON_TRY(wait());
    std::array<double, kRunsOfSample> times;
    for (size_t i = 0; i < kRunsOfSample; ++i) {
      TENON_ASSIGN(times[i], cuda::CudaEvent::secondsBetween(*events[2 * i], *events[2 * i + 1]));
    }
    std::ranges::nth_element(times, times.begin() + kRunsOfSample / 2);
    return times[kRunsOfSample / 2];
  }

  /// Bytes of the GPU, behind what is on the stream.
  Status fetch(const void *from, uint64_t bytes, std::byte *to) {
    if (bytes == 0) {
      return Status::ok();
    }
    TENON_TRY(staging.reserve(bytes, kRacing));
    TENON_TRY(check(driver().memcpyDtoHAsync(
        staging.data(), reinterpret_cast<cuda::DevicePointer>(from), bytes, handle())));
    TENON_TRY(wait());
    std::copy_n(staging.data(), bytes, to);
    return Status::ok();
  }

  std::span<const InputBinding> inputs() const { return bound; }
  Status check(int code) const { return driver().check(code, kRacing); }
  Status wait() const { return stream.wait(kRacing); }
  const cuda::CudaDriver &driver() const { return device->driver(); }
  cuda::StreamHandle handle() const { return stream.handle(); }

private:
  Status startLead() {
    return check(driver().memsetD8Async(lead.pointer(), 0, lead.size(), handle()));
  }

  /// Other data into the caches, behind them the inputs.
  Status prepareRun() {
    if (options.otherBytes > 0) {
      TENON_TRY(launch(0, others.pointer(), options.otherBytes / 16 * 16));
    }
    for (size_t i = 0; i < own.size() && options.writesInputs; ++i) {
      TENON_TRY(check(
          driver().memcpyDtoDAsync(own[i].pointer(), given[i].pointer(), own[i].size(), handle())));
    }
    return Status::ok();
  }

  /// An input twice: as sessions read it, and as it is written there before a run.
  Status send(const Tensor &tensor) {
    uint64_t bytes = tensor.data.size();
    TENON_TRY(staging.reserve(std::max<uint64_t>(bytes, 1), kRacing));
    std::copy_n(tensor.data.data(), bytes, staging.data());
    for (std::vector<cuda::CudaBuffer> *buffers : {&own, &given}) {
      cuda::CudaBuffer &memory = buffers->emplace_back(device, cuda::MemoryKind::Device);
      TENON_TRY(memory.reserve(std::max<uint64_t>(bytes, 1), kRacing));
      TENON_TRY(bytes == 0 ? Status::ok()
                           : check(driver().memcpyHtoDAsync(memory.pointer(), staging.data(), bytes,
                                                            handle())));
    }
    dims.push_back(tensor.dims);
    return wait();
  }

  Status launch(uint32_t kernel, cuda::DevicePointer memory, uint64_t count) {
    cuda::LaunchConfig config;
    config.gridX = static_cast<unsigned>(std::max(device->info().multiprocessors, 1)) *
                   (kernel == 0 ? kBlocksOfUnit : 1);
    config.blockX = kThreadsOfBlock;
    config.stream = handle();
    void *arguments[] = {&memory, &count};
    return check(driver().launchKernel(&config, module->kernel(kernel), arguments, nullptr));
  }

  std::shared_ptr<const cuda::CudaDevice> device;
  cuda::ContextScope scope;
  GpuRaceOptions options;
  cuda::CudaStream stream;
  std::vector<std::unique_ptr<cuda::CudaEvent>> events;
  cuda::CudaBuffer lead, others, staging;
  std::vector<cuda::CudaBuffer> own, given; ///< by input
  std::vector<std::vector<int64_t>> dims;
  std::vector<InputBinding> bound;
  std::unique_ptr<cuda::CudaModule> module;
};

Status Contender::prepare() {
  bindings.assign(owned->engine().plan().outputs.size(), {nullptr, 0, Place::Gpu});
  // The second run makes the graph.
  TENON_TRY(run());
  TENON_TRY(run());
  return race.wait();
}

Status Contender::run() { return owned->run(race.inputs(), bindings, {.stream = race.handle()}); }

Result<std::vector<Tensor>> Contender::outputs() {
  std::vector<Tensor> tensors;
  const std::vector<engine::Port> &ports = owned->engine().plan().outputs;
  for (size_t i = 0; i < ports.size(); ++i) {
    std::span<const int64_t> shape = owned->outputDims(i);
    TENON_ASSIGN(Tensor tensor, Tensor::create(ports[i].name, ports[i].dtype,
                                               std::vector<int64_t>(shape.begin(), shape.end())));
    TENON_TRY(race.fetch(owned->outputData(i), owned->outputBytes(i), tensor.data.data()));
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

Result<double> Contender::seconds() { return race.medianOf(*this); }

} // namespace

Result<std::unique_ptr<GpuRace>> GpuRace::create(const GpuRaceOptions &options,
                                                 const std::vector<Tensor> &inputs) {
  TENON_ASSIGN(std::shared_ptr<const cuda::CudaDevice> device,
               cuda::CudaDevice::open(cuda::kDriverLibrary, options.gpu));
  std::unique_ptr<RaceOnGpu> race = std::make_unique<RaceOnGpu>(std::move(device), options);
  TENON_TRY(race->open(inputs));
  return std::unique_ptr<GpuRace>(std::move(race));
}

} // namespace tenon::tool
