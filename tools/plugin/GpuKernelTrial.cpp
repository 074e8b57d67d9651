// Relies on being in a process of its own (GpuTrials.h), and on the driver finishing what a process
// that ends has left.

#include "tools/plugin/GpuKernelTrial.h"

#include "engine/CudaArch.h"
#include "runtime/device/cuda/CudaMemory.h"
#include "runtime/device/cuda/CudaModule.h"
#include "runtime/device/cuda/CudaStream.h"
#include "support/text/Text.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <dlfcn.h>
#include <optional>
#include <thread>

namespace tenon::tool {
namespace {

namespace cuda = runtime::cuda;

/// Bytes before and behind each buffer. As floats of any width they are NaN in one run and large in
/// the other, so that what is read there shows, and what is computed from it differs. Those around
/// outputs are others, so that what is copied from there to here shows too.
constexpr uint64_t kGuard = 64 * 1024;
constexpr std::byte kNanByte{0xFF}, kLargeByte{0x7B}, kOfOutputs{0x01};
constexpr std::chrono::seconds kPatience{10};
/// Starts in a row that are timed, as far as they take no longer than this together.
constexpr int kInARow = 8, kTimedRows = 3;
constexpr double kRowSeconds = 1e-3;
/// Written before them, so that the host is ahead of the GPU when the clock starts.
constexpr uint64_t kLeadBytes = 32 << 20;
constexpr int kNotReady = 600;
constexpr int kNoSuchMemory = 700, kMisaligned = 716; ///< faults that an index makes

Status uncheckedError(std::string_view why) {
  return Status::error(ErrorId::KernelUnchecked, why,
                       "compile on a machine that has one, or take the kernel as it is with "
                       "--unchecked-kernels");
}

/// cuEventQuery, which the runtime does not need; null if the driver lacks it.
using EventQuery = int (*)(cuda::EventHandle);
EventQuery eventQuery() {
  void *library = dlopen(cuda::kDriverLibrary, RTLD_NOW | RTLD_NOLOAD);
  return library ? reinterpret_cast<EventQuery>(dlsym(library, "cuEventQuery")) : nullptr;
}

class GpuTrial {
public:
  GpuTrial(std::shared_ptr<const cuda::CudaDevice> gpu, const kernels::Trial &wanted)
      : device(std::move(gpu)), driver(device->driver()), trial(wanted), scope(*device),
        guard(wanted.isAtStart ? kLargeByte : kNanByte), stream(device), start(device), end(device),
        staging(device, cuda::MemoryKind::Pinned), lead(device, cuda::MemoryKind::Device) {}

  Result<kernels::TrialResult> run();
  /// Whether a kernel is still running: nothing of the trial may be given back then.
  bool hangs() const { return isHanging; }

private:
  Status open();
  Status place(const kernels::TrialBuffer &buffer);
  std::byte guardOf(const kernels::TrialBuffer &buffer) const {
    return buffer.isWritten ? guard ^ kOfOutputs : guard;
  }
  Status launch();
  Result<double> timed(int starts);
  Status faultOf(int code) const;
  Status wait();
  Result<std::vector<std::byte>> take(size_t index);
  std::optional<std::string> damageOf(size_t index, const std::vector<std::byte> &around) const;

  std::shared_ptr<const cuda::CudaDevice> device;
  const cuda::CudaDriver &driver;
  const kernels::Trial &trial;
  cuda::ContextScope scope;
  std::byte guard;
  cuda::CudaStream stream;
  cuda::CudaEvent start, end;
  cuda::CudaBuffer staging, lead;
  std::unique_ptr<cuda::CudaModule> code;
  std::vector<std::unique_ptr<cuda::CudaBuffer>> memory;
  std::vector<cuda::DevicePointer> pointers;
  bool isHanging = false;
};

Status GpuTrial::open() {
  std::optional<engine::CudaArch> arch = engine::parseCudaArch(trial.level);
  int capability = device->info().capability;
  if (!arch || (arch->isSpecific ? capability != arch->number : capability < arch->number)) {
    return uncheckedError(strCat("the GPU of this machine does not run code for ", trial.level));
  }
  TENON_TRY(stream.open());
  TENON_TRY(start.open(cuda::kEventWithTiming));
  TENON_TRY(end.open(cuda::kEventWithTiming));
  engine::Variant variant;
  variant.level = trial.level;
  variant.kernels = {trial.symbol};
  TENON_ASSIGN(code, cuda::CudaModule::load(device, {trial.code, {}, *arch}, variant));
  return code->allowSharedBytes(0, static_cast<int64_t>(trial.scratchBytes));
}

/// A copy on the GPU between guards.
Status GpuTrial::place(const kernels::TrialBuffer &buffer) {
  uint64_t bytes = buffer.bytes.size() + 2 * kGuard;
  memory.push_back(std::make_unique<cuda::CudaBuffer>(device, cuda::MemoryKind::Device));
  TENON_TRY(memory.back()->reserve(bytes, "the check of a kernel"));
  TENON_TRY(staging.reserve(bytes, "the check of a kernel"));
  std::fill_n(staging.data(), bytes, guardOf(buffer));
  std::ranges::copy(buffer.bytes, staging.data() + kGuard);
  TENON_TRY(driver.check(
      driver.memcpyHtoDAsync(memory.back()->pointer(), staging.data(), bytes, stream.handle()),
      "sending buffers"));
  pointers.push_back(memory.back()->pointer() + kGuard);
  return stream.wait("sending buffers");
}

Status GpuTrial::launch() {
  if (trial.grid == 0) {
    return Status::ok();
  }
  std::vector<int64_t> sizes = trial.sizes;
  std::vector<void *> arguments;
  for (cuda::DevicePointer &pointer : pointers) {
    arguments.push_back(&pointer);
  }
  for (int64_t &size : sizes) {
    arguments.push_back(&size);
  }
  cuda::LaunchConfig config;
  config.gridX = static_cast<unsigned>(trial.grid);
  config.blockX = trial.threads;
  config.sharedBytes = static_cast<unsigned>(trial.scratchBytes);
  config.stream = stream.handle();
  return faultOf(driver.launchKernel(&config, code->kernel(0), arguments.data(), nullptr));
}

/// What a code of the driver says of the kernel.
Status GpuTrial::faultOf(int code) const {
  Status status = driver.check(code, "running the kernel");
  if (code == kNoSuchMemory || code == kMisaligned) {
    return Status::error(ErrorId::KernelOutOfBounds,
                         strCat("the GPU finds an access outside its memory: ", status.message()),
                         "compare its indices with the sizes that it is given; compute-sanitizer "
                         "names the line");
  }
  return code == cuda::kSuccess ? std::move(status)
                                : Status::error(ErrorId::KernelCrashed, status.message(),
                                                "run the kernel alone under compute-sanitizer");
}

/// For the end of what was started.
Status GpuTrial::wait() {
  static const EventQuery query = eventQuery();
  std::chrono::steady_clock::time_point deadline = std::chrono::steady_clock::now() + kPatience;
  int state = cuda::kSuccess;
  while (query && (state = query(end.handle())) == kNotReady) {
    if (std::chrono::steady_clock::now() > deadline) {
      isHanging = true;
      return Status::error(ErrorId::KernelCrashed,
                           strCat("it does not end within ", kPatience.count(), " s"),
                           "look for a loop without an end, or a barrier that some threads miss");
    }
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  return faultOf(state);
}

/// A buffer with its guards.
Result<std::vector<std::byte>> GpuTrial::take(size_t index) {
  uint64_t bytes = trial.buffers[index].bytes.size() + 2 * kGuard;
  TENON_TRY(staging.reserve(bytes, "the check of a kernel"));
  TENON_TRY(driver.check(
      driver.memcpyDtoHAsync(staging.data(), memory[index]->pointer(), bytes, stream.handle()),
      "reading buffers"));
  TENON_TRY(stream.wait("reading buffers"));
  return std::vector<std::byte>(staging.data(), staging.data() + bytes);
}

/// The first byte that the kernel must not have written.
std::optional<std::string> GpuTrial::damageOf(size_t index,
                                              const std::vector<std::byte> &around) const {
  const kernels::TrialBuffer &buffer = trial.buffers[index];
  uint64_t size = buffer.bytes.size();
  for (uint64_t at = 0; at < around.size(); ++at) {
    bool isInside = at >= kGuard && at < kGuard + size;
    if (isInside && !buffer.isWritten && around[at] != buffer.bytes[at - kGuard]) {
      return strCat("byte ", at - kGuard, " of '", buffer.name, "', which it must not write");
    }
    if (!isInside && around[at] != guardOf(buffer)) {
      return at < kGuard
                 ? strCat(kGuard - at, " bytes before the start of '", buffer.name, "'")
                 : strCat(at - kGuard - size, " bytes behind the end of '", buffer.name, "'");
    }
  }
  return std::nullopt;
}

/// Seconds of each of several starts, and waits for their end.
Result<double> GpuTrial::timed(int starts) {
  TENON_TRY(start.record(stream.handle(), "timing a kernel"));
  for (int i = 0; i < starts; ++i) {
    TENON_TRY(launch());
  }
  TENON_TRY(end.record(stream.handle(), "timing a kernel"));
  TENON_TRY(wait());
  TENON_ASSIGN(double seconds, cuda::CudaEvent::secondsBetween(start, end));
  return seconds / starts;
}

Result<kernels::TrialResult> GpuTrial::run() {
  TENON_TRY(open());
  TENON_TRY(lead.reserve(kLeadBytes, "the check of a kernel"));
  for (const kernels::TrialBuffer &buffer : trial.buffers) {
    TENON_TRY(place(buffer));
  }
  kernels::TrialResult result;
  TENON_ASSIGN(result.seconds, timed(1)); // which tells whether it ends
  int starts = static_cast<int>(
      std::clamp(kRowSeconds / std::max(result.seconds, 1e-9), 1.0, double(kInARow)));
  for (int i = 0; i < kTimedRows; ++i) {
    TENON_TRY(driver.check(driver.memsetD8Async(lead.pointer(), 0, lead.size(), stream.handle()),
                           "timing a kernel"));
    TENON_ASSIGN(double seconds, timed(starts));
    result.seconds = std::min(result.seconds, seconds);
  }
  for (size_t i = 0; i < trial.buffers.size(); ++i) {
    TENON_ASSIGN(std::vector<std::byte> around, take(i));
    if (std::optional<std::string> place = damageOf(i, around)) {
      return Status::error(ErrorId::KernelOutOfBounds, strCat("it writes ", *place),
                           "compare its indices with the sizes that it is given");
    }
    if (trial.buffers[i].isWritten) {
      result.outputs.emplace_back(around.begin() + kGuard, around.end() - kGuard);
    }
  }
  return result;
}

} // namespace

Result<kernels::TrialResult> tryKernelOnGpu(const kernels::Trial &trial) {
  Result<std::shared_ptr<const cuda::CudaDevice>> device =
      cuda::CudaDevice::open(cuda::kDriverLibrary, 0);
  if (!device) {
    return uncheckedError("this machine has no NVIDIA GPU");
  }
  std::unique_ptr<GpuTrial> checked = std::make_unique<GpuTrial>(*device, trial);
  Result<kernels::TrialResult> result = checked->run();
  if (checked->hangs()) {
    (void)checked.release(); // giving memory back would wait for the kernel
  }
  return result;
}

} // namespace tenon::tool
