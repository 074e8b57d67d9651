// Implements cold runs and probes over the driver as the runtime opens it. Relies on sessions that
// put a run on a caller's stream.

#include "tools/tenon/bench/GpuBench.h"

#include "engine/LibraryAbi.h"
#include "runtime/device/cuda/CudaMemory.h"
#include "runtime/device/cuda/CudaModule.h"
#include "runtime/device/cuda/CudaStream.h"
#include "runtime/library/Library.h"

#include <algorithm>
#include <array>
#include <functional>

namespace tenon::tool {
namespace {

namespace cuda = runtime::cuda;
using cuda::CudaBuffer;
using cuda::CudaDevice;
using cuda::MemoryKind;
using runtime::InputBinding;
using runtime::OutputBinding;
using runtime::Place;
using runtime::Session;

/// Tensors of all sets together, in caches of the GPU.
constexpr uint64_t kCachesToFill = 4;
constexpr size_t kMaxSets = 64;
/// Written before what is timed, so that the host is ahead of the GPU when the clock starts.
constexpr uint64_t kLeadBytes = uint64_t(1) << 30;
constexpr uint64_t kCopyBytes = uint64_t(1) << 29;
constexpr int kProbeRounds = 10;
constexpr int kKernelsInARow = 200;
constexpr int64_t kProductSize = 8192;

/// A GPU with a stream and a clock on it.
class Rig {
public:
  explicit Rig(std::shared_ptr<const CudaDevice> gpu)
      : device(std::move(gpu)), scope(*device), stream(device), start(device), end(device) {}

  Status open() {
    TENON_TRY(stream.open());
    TENON_TRY(start.open(cuda::kEventWithTiming));
    return end.open(cuda::kEventWithTiming);
  }

  /// Device seconds of what `work` puts on the stream.
  Result<double> seconds(const std::function<Status()> &work) {
    TENON_TRY(start.record(stream.handle(), "timing"));
    TENON_TRY(work());
    TENON_TRY(end.record(stream.handle(), "timing"));
    TENON_TRY(stream.wait("timing"));
    return cuda::CudaEvent::secondsBetween(start, end);
  }

  Status wait() const { return stream.wait("waiting for the GPU"); }
  Status check(int code, std::string_view doing) const {
    return device->driver().check(code, doing);
  }
  const cuda::CudaDriver &driver() const { return device->driver(); }
  cuda::StreamHandle handle() const { return stream.handle(); }
  const std::shared_ptr<const CudaDevice> &gpu() const { return device; }

private:
  std::shared_ptr<const CudaDevice> device;
  cuda::ContextScope scope;
  cuda::CudaStream stream;
  cuda::CudaEvent start;
  cuda::CudaEvent end;
};

Result<std::unique_ptr<Rig>> openRig(int gpu) {
  TENON_ASSIGN(std::shared_ptr<const CudaDevice> device,
               CudaDevice::open(cuda::kDriverLibrary, gpu));
  std::unique_ptr<Rig> rig = std::make_unique<Rig>(std::move(device));
  TENON_TRY(rig->open());
  return rig;
}

/// A session with its inputs on the GPU; its outputs stay there too.
struct TensorSet {
  std::unique_ptr<Session> session;
  std::vector<CudaBuffer> memory;
  std::vector<InputBinding> inputs;
  std::vector<OutputBinding> outputs;
};

class Turns final : public ColdRuns {
public:
  Turns(std::unique_ptr<Rig> gpu, std::shared_ptr<const runtime::Engine> made,
        const runtime::SessionOptions &sessionOptions)
      : rig(std::move(gpu)), engine(std::move(made)), options(sessionOptions),
        lead(rig->gpu(), MemoryKind::Device) {
    // What the session before measured is in the cache.
    options.measureSeconds = 0;
  }

  Status prepare(const std::vector<Tensor> &tensors) {
    TENON_TRY(lead.reserve(kLeadBytes, "a lead for the host"));
    TENON_TRY(addSet(tensors));
    runtime::MemoryUse use = turns[0].session->memoryUse();
    uint64_t each = use.arenaBytes + use.portBytes;
    for (const Tensor &tensor : tensors) {
      each += tensor.data.size();
    }
    uint64_t wanted = kCachesToFill * static_cast<uint64_t>(rig->gpu()->info().l2Bytes) /
                      std::max<uint64_t>(each, 1);
    while (turns.size() < std::clamp<uint64_t>(wanted + 1, 2, kMaxSets)) {
      TENON_TRY(addSet(tensors));
    }
    return Status::ok();
  }

  size_t sets() const override { return turns.size(); }

  Result<double> seconds() override {
    TENON_TRY(rig->check(rig->driver().memsetD8Async(lead.pointer(), 0, lead.size(), rig->handle()),
                         "leading"));
    TENON_ASSIGN(double total, rig->seconds([&] {
      for (TensorSet &set : turns) {
        TENON_TRY(runSet(set));
      }
      return Status::ok();
    }));
    return total / static_cast<double>(turns.size());
  }

private:
  Status runSet(TensorSet &set) {
    return set.session->run(set.inputs, set.outputs, {.stream = rig->handle()});
  }

  Status send(const Tensor &tensor, CudaBuffer &memory) {
    uint64_t bytes = tensor.data.size();
    CudaBuffer staging(rig->gpu(), MemoryKind::Pinned);
    TENON_TRY(memory.reserve(std::max<uint64_t>(bytes, 1), "inputs"));
    TENON_TRY(staging.reserve(std::max<uint64_t>(bytes, 1), "inputs"));
    std::copy_n(tensor.data.data(), bytes, staging.data());
    TENON_TRY(rig->check(
        rig->driver().memcpyHtoDAsync(memory.pointer(), staging.data(), bytes, rig->handle()),
        "sending inputs"));
    return rig->wait();
  }

  Status addSet(const std::vector<Tensor> &tensors) {
    TensorSet set;
    TENON_ASSIGN(set.session, Session::create(engine, options));
    for (const Tensor &tensor : tensors) {
      CudaBuffer &memory = set.memory.emplace_back(rig->gpu(), MemoryKind::Device);
      TENON_TRY(send(tensor, memory));
      set.inputs.push_back({memory.data(), tensor.dims, Place::Gpu});
    }
    set.outputs.assign(engine->plan().outputs.size(), {nullptr, 0, Place::Gpu});
    // The second run makes the graph.
    TENON_TRY(runSet(set));
    TENON_TRY(runSet(set));
    turns.push_back(std::move(set));
    return Status::ok();
  }

  std::unique_ptr<Rig> rig;
  std::shared_ptr<const runtime::Engine> engine;
  runtime::SessionOptions options;
  CudaBuffer lead;
  std::vector<TensorSet> turns;
};

/// Least seconds of one `work`, over a few rounds.
Result<double> bestOf(Rig &rig, int inARow, const std::function<Status()> &work) {
  double best = 0;
  for (int round = 0; round < kProbeRounds; ++round) {
    TENON_ASSIGN(double seconds, rig.seconds([&] {
      for (int i = 0; i < inARow; ++i) {
        TENON_TRY(work());
      }
      return Status::ok();
    }));
    best = round == 0 ? seconds : std::min(best, seconds);
  }
  return best / inARow;
}

Result<double> probeCopy(Rig &rig) {
  CudaBuffer from(rig.gpu(), MemoryKind::Device);
  CudaBuffer to(rig.gpu(), MemoryKind::Device);
  TENON_TRY(from.reserve(kCopyBytes, "the copy probe"));
  TENON_TRY(to.reserve(kCopyBytes, "the copy probe"));
  TENON_ASSIGN(double seconds, bestOf(rig, 10, [&] {
                 return rig.check(rig.driver().memcpyDtoDAsync(to.pointer(), from.pointer(),
                                                               kCopyBytes, rig.handle()),
                                  "copying");
               }));
  return 2 * static_cast<double>(kCopyBytes) / seconds / 1e12;
}

Result<double> probeProduct(Rig &rig) {
  engine::MatmulCall call;
  call.type = DType::BF16;
  int64_t n = kProductSize;
  std::array<int64_t, engine::kMatmulSizes> sizes = {n, n, n, 1, n, n, n, 0, 0, 0};
  std::unique_ptr<library::Handles> handles = library::makeHandles();
  TENON_ASSIGN(std::unique_ptr<library::Plan> plan,
               handles->prepare(std::as_bytes(std::span(&call, 1)), sizes));
  std::vector<CudaBuffer> memory;
  std::vector<void *> buffers;
  for (int i = 0; i < 3; ++i) {
    CudaBuffer &matrix = memory.emplace_back(rig.gpu(), MemoryKind::Device);
    TENON_TRY(matrix.reserve(static_cast<uint64_t>(n * n) * 2, "the product probe"));
    // 0x3f3f is 0.75: numbers that a power limit treats as it does those of a model.
    TENON_TRY(
        rig.check(rig.driver().memsetD8Async(matrix.pointer(), 0x3f, matrix.size(), rig.handle()),
                  "filling"));
    buffers.push_back(matrix.data());
  }
  CudaBuffer workspace(rig.gpu(), MemoryKind::Device);
  TENON_TRY(workspace.reserve(std::max<uint64_t>(plan->workspaceBytes(), 1), "the product probe"));
  TENON_ASSIGN(double seconds,
               bestOf(rig, 5, [&] { return plan->run(buffers, workspace.data(), rig.handle()); }));
  return 2 * static_cast<double>(n) * static_cast<double>(n) * static_cast<double>(n) / seconds /
         1e12;
}

/// One block adds 1 to 32 numbers, begun as generated kernels are.
std::string smallKernel(bool startsEarly) {
  return std::string(".version 8.0\n.target ") + (startsEarly ? "sm_90" : "sm_80") +
         "\n.address_size 64\n.visible .entry small(.param .u64 small_param_0)\n{\n"
         ".reg .b32 %r<2>;\n.reg .f32 %f<2>;\n.reg .b64 %rd<4>;\n" +
         (startsEarly ? "griddepcontrol.launch_dependents;\ngriddepcontrol.wait;\n" : "") +
         "ld.param.u64 %rd1, [small_param_0];\nmov.u32 %r1, %tid.x;\nmul.wide.u32 %rd2, %r1, 4;\n"
         "add.s64 %rd3, %rd1, %rd2;\nld.global.f32 %f1, [%rd3];\nadd.f32 %f1, %f1, 0f3F800000;\n"
         "st.global.f32 [%rd3], %f1;\nret;\n}\n";
}

/// Captures `count` launches of a kernel, each of which follows the one before.
Status launchInARow(Rig &rig, cuda::FunctionHandle kernel, int count, bool startsEarly,
                    cuda::DevicePointer memory) {
  cuda::LaunchAttribute early;
  early.id = cuda::kAttributeProgrammaticSerialization;
  early.value.programmaticSerialization = 1;
  cuda::LaunchConfig config;
  config.blockX = 32;
  config.stream = rig.handle();
  config.attributes = &early;
  config.attributeCount = startsEarly ? 1 : 0;
  void *arguments[] = {&memory};
  for (int i = 0; i < count; ++i) {
    TENON_TRY(rig.check(rig.driver().launchKernel(&config, kernel, arguments, nullptr),
                        "launching the small kernel"));
  }
  return Status::ok();
}

Result<double> probeKernels(Rig &rig) {
  const cuda::CudaDriver &driver = rig.driver();
  bool startsEarly = rig.gpu()->info().capability >= 90;
  std::string ptx = smallKernel(startsEarly);
  engine::Variant variant{.level = "", .plan = {}, .kernels = {"small"}};
  ptx.push_back('\0');
  TENON_ASSIGN(std::unique_ptr<cuda::CudaModule> module,
               cuda::CudaModule::load(rig.gpu(), {std::as_bytes(std::span(ptx)), {}, {}}, variant));
  CudaBuffer memory(rig.gpu(), MemoryKind::Device);
  TENON_TRY(memory.reserve(256, "the kernel probe"));
  TENON_TRY(rig.check(driver.streamBeginCapture(rig.handle(), cuda::kCaptureThreadLocal),
                      "capturing the kernel probe"));
  Status status =
      launchInARow(rig, module->kernel(0), kKernelsInARow, startsEarly, memory.pointer());
  cuda::GraphHandle graph = nullptr;
  cuda::GraphExecHandle exec = nullptr;
  Status ended =
      rig.check(driver.streamEndCapture(rig.handle(), &graph), "capturing the kernel probe");
  TENON_TRY(status);
  TENON_TRY(ended);
  status = rig.check(driver.graphInstantiate(&exec, graph, 0), "making the kernel probe");
  driver.graphDestroy(graph);
  TENON_TRY(status);
  Result<double> seconds = bestOf(rig, 3, [&] {
    return rig.check(driver.graphLaunch(exec, rig.handle()), "running the kernel probe");
  });
  driver.graphExecDestroy(exec);
  TENON_TRY(seconds.status());
  return *seconds / kKernelsInARow;
}

} // namespace

Result<std::unique_ptr<ColdRuns>> ColdRuns::create(std::shared_ptr<const runtime::Engine> engine,
                                                   const std::vector<Tensor> &inputs,
                                                   const runtime::SessionOptions &options) {
  TENON_ASSIGN(std::unique_ptr<Rig> rig, openRig(engine->gpu().value_or(0)));
  std::unique_ptr<Turns> turns =
      std::make_unique<Turns>(std::move(rig), std::move(engine), options);
  TENON_TRY(turns->prepare(inputs));
  return std::unique_ptr<ColdRuns>(std::move(turns));
}

Result<GpuProbe> probeGpu(int gpu) {
  TENON_ASSIGN(std::unique_ptr<Rig> rig, openRig(gpu));
  GpuProbe probe;
  TENON_ASSIGN(probe.copyTerabytes, probeCopy(*rig));
  Result<double> product = probeProduct(*rig);
  if (product.isOk()) {
    probe.productTeraflops = *product;
  }
  TENON_ASSIGN(probe.kernelSeconds, probeKernels(*rig));
  return probe;
}

Result<double> contextMilliseconds(const runtime::Engine &engine) {
  if (!engine.gpu()) {
    return 0.0;
  }
  // The same object as the engine's.
  TENON_ASSIGN(std::shared_ptr<const CudaDevice> device,
               CudaDevice::open(cuda::kDriverLibrary, *engine.gpu()));
  return device->openingSeconds() * 1000;
}

} // namespace tenon::tool
