// Kernels of the user's that do what they must not, in the process that the compiler gives them:
// each ends with its message, and this process uses the GPU as before. On a GPU, or with the
// stand-in of the driver in LD_LIBRARY_PATH. Prints a line for each kernel; exits with 1 if one
// ends otherwise.

#include "runtime/device/cuda/CudaMemory.h"
#include "runtime/device/cuda/CudaStream.h"
#include "tools/plugin/GpuTrials.h"

#include <chrono>
#include <cstdio>
#include <cstring>
#include <string>

namespace {

using namespace tenon;
namespace cuda = runtime::cuda;

constexpr int kCount = 1000;
constexpr unsigned kBlock = 256;

/// c[i] = a[i] + 1, with the address %rd5 of c[i] and `instead` before the store; threads beyond
/// %rd3 elements leave first.
std::string kernelThat(const std::string &instead) {
  return R"(.version 7.0
.target sm_80
.address_size 64
.visible .entry trial(.param .u64 trial_param_0, .param .u64 trial_param_1, .param .u64 trial_param_2)
{
.reg .pred %p<3>;
.reg .b32 %r<6>;
.reg .f32 %f<3>;
.reg .b64 %rd<8>;
ld.param.u64 %rd1, [trial_param_0];
ld.param.u64 %rd2, [trial_param_1];
ld.param.u64 %rd3, [trial_param_2];
mov.u32 %r1, %ctaid.x;
mov.u32 %r2, %ntid.x;
mov.u32 %r3, %tid.x;
mad.lo.s32 %r4, %r1, %r2, %r3;
cvt.u32.u64 %r5, %rd3;
setp.ge.s32 %p1, %r4, %r5;
@%p1 bra $END;
mul.wide.s32 %rd4, %r4, 4;
add.s64 %rd6, %rd1, %rd4;
add.s64 %rd5, %rd2, %rd4;
ld.global.f32 %f1, [%rd6];
add.f32 %f2, %f1, 0f3F800000;
)" + instead +
         R"(
st.global.f32 [%rd5], %f2;
$END:
ret;
}
)";
}

struct Case {
  const char *name;
  std::string instead;
  ErrorId id = ErrorId::None; ///< that the trial ends with; None for one that runs
  const char *says = "";
  int64_t elements = kCount; ///< that the kernel is told of
};

const Case kCases[] = {
    {"right", ""},
    {"a write behind the end", "", ErrorId::KernelOutOfBounds, "0 bytes behind the end of 'c'",
     kCount + 8},
    {"right after one outside", ""},
    {"a wild write", "mov.u64 %rd5, 4096;", ErrorId::KernelOutOfBounds, "outside its memory"},
    {"right after a wild write", ""},
    {"a misaligned write", "add.s64 %rd5, %rd5, 1;", ErrorId::KernelOutOfBounds,
     "outside its memory"},
    {"a write to an input", "mov.u64 %rd5, %rd6;", ErrorId::KernelOutOfBounds,
     "of 'a', which it must not write"},
    {"no end",
     "$AGAIN:\nld.global.f32 %f2, [%rd5];\nsetp.neu.f32 %p2, %f2, 0f40A00000;\n"
     "@%p2 bra $AGAIN;\nbra $AGAIN;",
     ErrorId::KernelCrashed, ""},
    {"right after one without end", ""},
};

kernels::Trial trialOf(const Case &planted, const std::string &code) {
  kernels::Trial trial;
  trial.code = std::as_bytes(std::span(code.data(), code.size() + 1));
  trial.level = "sm_80";
  trial.symbol = "trial";
  trial.buffers.push_back({"a", false, std::vector<std::byte>(kCount * sizeof(float))});
  trial.buffers.push_back({"c", true, std::vector<std::byte>(kCount * sizeof(float))});
  trial.sizes = {planted.elements};
  trial.grid = (kCount + 8 + kBlock - 1) / kBlock;
  trial.threads = kBlock;
  return trial;
}

/// Whether the trial ended as it should.
bool check(tool::GpuTrials &trials, const Case &planted) {
  std::string code = kernelThat(planted.instead);
  std::chrono::steady_clock::time_point start = std::chrono::steady_clock::now();
  Result<kernels::TrialResult> result = trials.run(trialOf(planted, code));
  double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  bool isRight = planted.id == ErrorId::None
                     ? bool(result)
                     : !result && result.status().id() == planted.id &&
                           result.status().message().find(planted.says) != std::string::npos;
  if (result) {
    for (size_t i = 0; i < kCount; ++i) {
      float value = 0;
      std::memcpy(&value, result->outputs[0].data() + i * sizeof value, sizeof value);
      isRight = isRight && value == 1;
    }
  }
  std::printf("%s  %-28s %6.2f s  %s\n", isRight ? "as expected" : "WRONG      ", planted.name,
              seconds,
              result ? std::to_string(result->seconds * 1e6).append(" us a run").c_str()
                     : result.status().toString().c_str());
  return isRight;
}

/// Whether this process can use its GPU.
bool usesGpu(const std::shared_ptr<const cuda::CudaDevice> &device) {
  cuda::ContextScope scope(*device);
  cuda::CudaStream stream(device);
  cuda::CudaBuffer memory(device, cuda::MemoryKind::Device);
  Status status = stream.open();
  status = status ? memory.reserve(kCount, "the check") : std::move(status);
  status = status ? device->driver().check(device->driver().memsetD8Async(memory.pointer(), 1,
                                                                          kCount, stream.handle()),
                                           "filling")
                  : std::move(status);
  status = status ? stream.wait("filling") : std::move(status);
  if (!status) {
    std::printf("WRONG  this process: %s\n", status.toString().c_str());
  }
  return status.isOk();
}

} // namespace

int main(int argc, char **argv) {
  if (tool::isGpuTrialProcess(argc, argv)) {
    return tool::serveGpuTrials();
  }
  Result<std::shared_ptr<const cuda::CudaDevice>> device =
      cuda::CudaDevice::open(cuda::kDriverLibrary, 0);
  if (!device) {
    std::printf("%s\n", device.status().toString().c_str());
    return 1;
  }
  tool::GpuTrials trials;
  bool isRight = usesGpu(*device);
  for (const Case &planted : kCases) {
    isRight = check(trials, planted) && isRight;
    isRight = usesGpu(*device) && isRight;
  }
  return isRight ? 0 : 1;
}
