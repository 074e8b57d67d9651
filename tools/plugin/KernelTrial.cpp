// A child process makes the calls. Relies on shared mappings for what comes back, and on the child
// calling nothing but the kernel and what a signal handler may call.

#include "tools/plugin/KernelTrial.h"

#include "engine/CudaArch.h"
#include "engine/KernelAbi.h"
#include "engine/code/ElfCheck.h"
#include "runtime/device/cpu/CodeObject.h"
#include "runtime/device/cpu/CpuFeatures.h"
#include "support/text/Text.h"
#include "tools/plugin/GpuTrials.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <memory>
#include <optional>
#include <sys/mman.h>
#include <sys/wait.h>
#include <thread>
#include <time.h>
#include <unistd.h>

namespace tenon::tool {
namespace {

constexpr uint64_t kGuardBytes = 1 << 20;
constexpr uint64_t kScratchAlignment = 64;
constexpr std::byte kCanary{0x5A};
constexpr std::chrono::seconds kLimit{10};
constexpr int kTimedCalls = 5;
constexpr size_t kSignalStack = 64 * 1024;

Status memoryError() {
  return Status::error(ErrorId::RunOutOfMemory,
                       strCat("memory for the check of a kernel: ", std::strerror(errno)),
                       "free memory, or fix the dims with --shape to smaller ones");
}

/// Shared memory between two guards, with the buffer at its start or its end.
class GuardedBuffer {
public:
  static Result<GuardedBuffer> create(std::string name, uint64_t bytes, bool isAtStart) {
    uint64_t page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
    GuardedBuffer buffer;
    buffer.name = std::move(name);
    buffer.size = bytes;
    buffer.inner = std::max((bytes + page - 1) / page * page, page);
    void *mapped = mmap(nullptr, buffer.inner + 2 * kGuardBytes, PROT_NONE,
                        MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapped == MAP_FAILED) {
      return memoryError();
    }
    buffer.base = static_cast<std::byte *>(mapped);
    if (mprotect(buffer.pages(), buffer.inner, PROT_READ | PROT_WRITE) != 0) {
      return memoryError();
    }
    std::fill_n(buffer.pages(), buffer.inner, kCanary);
    buffer.start = isAtStart ? buffer.pages() : buffer.pages() + buffer.inner - bytes;
    return buffer;
  }
  GuardedBuffer(GuardedBuffer &&other) noexcept { *this = std::move(other); }
  GuardedBuffer &operator=(GuardedBuffer &&other) noexcept {
    std::swap(base, other.base);
    std::swap(start, other.start);
    std::swap(inner, other.inner);
    std::swap(size, other.size);
    std::swap(name, other.name);
    return *this;
  }
  ~GuardedBuffer() {
    if (base) {
      munmap(base, inner + 2 * kGuardBytes);
    }
  }

  std::byte *data() const { return start; }
  uint64_t bytes() const { return size; }
  bool protect() const { return mprotect(pages(), inner, PROT_READ) == 0; }

  /// "8 bytes behind the end of 'c'", "an element of 'a', which is an input"; none for an address
  /// elsewhere.
  std::optional<std::string> place(uintptr_t address) const {
    uintptr_t first = reinterpret_cast<uintptr_t>(start), low = reinterpret_cast<uintptr_t>(base);
    if (address < low || address >= low + inner + 2 * kGuardBytes) {
      return std::nullopt;
    }
    if (address < first) {
      return strCat(first - address, " bytes before the start of '", name, "'");
    }
    return address >= first + size
               ? strCat(address - first - size, " bytes behind the end of '", name, "'")
               : strCat("an element of '", name, "', which it must not write");
  }
  /// The first byte around the buffer that was written, as `place` says it.
  std::optional<std::string> damage() const {
    for (std::byte *byte = pages(); byte < pages() + inner; ++byte) {
      bool isInside = byte >= start && byte < start + size;
      if (!isInside && *byte != kCanary) {
        return place(reinterpret_cast<uintptr_t>(byte));
      }
    }
    return std::nullopt;
  }

private:
  GuardedBuffer() = default;
  std::byte *pages() const { return base + kGuardBytes; }

  std::byte *base = nullptr, *start = nullptr;
  uint64_t inner = 0, size = 0;
  std::string name;
};

/// What the child says, in shared memory.
struct Report {
  uintptr_t fault; ///< address of a fault
  double seconds;  ///< of the fastest timed call
};
Report *volatile report = nullptr; // of the child, for its signal handler

void noteFault(int signal, siginfo_t *info, void *) {
  report->fault = reinterpret_cast<uintptr_t>(info->si_addr);
  _exit(128 + signal);
}

double now() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

/// One call of a trial with all that it reads, made before the child.
struct Calls {
  TenonKernelFn kernel;
  TenonKernelContext context;
  std::vector<void *> buffers;
  const int64_t *sizes;
  int64_t grid;
  bool isReversed;

  void range(int64_t begin, int64_t end) const {
    if (begin < end) {
      kernel(&context, buffers.data(), sizes, begin, end);
    }
  }
  /// In two parts, in either order: they must not depend on each other.
  void once() const {
    int64_t middle = grid / 2;
    isReversed ? range(middle, grid) : range(0, middle);
    isReversed ? range(0, middle) : range(middle, grid);
  }
};

[[noreturn]] void runChild(const Calls &calls, Report *shared, void *stack, bool isTimed) {
  report = shared;
  stack_t alternate = {};
  alternate.ss_sp = stack;
  alternate.ss_size = kSignalStack;
  sigaltstack(&alternate, nullptr);
  struct sigaction action = {};
  action.sa_sigaction = noteFault;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  for (int signal : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT}) {
    sigaction(signal, &action, nullptr);
  }
  if (!isTimed) {
    calls.once();
    _exit(0);
  }
  for (int i = 0; i < kTimedCalls; ++i) {
    double start = now();
    calls.range(0, calls.grid);
    double seconds = now() - start;
    shared->seconds = i == 0 ? seconds : std::min(shared->seconds, seconds);
  }
  _exit(0);
}

Status crashed(std::string_view how) {
  return Status::error(ErrorId::KernelCrashed, how,
                       "call the function from a program of your own under a debugger");
}

/// Waits for the child; an error says how it ended.
Status endOf(pid_t child, const Report &said, const std::vector<GuardedBuffer> &buffers) {
  std::chrono::steady_clock::time_point deadline = std::chrono::steady_clock::now() + kLimit;
  int status = 0;
  while (waitpid(child, &status, WNOHANG) == 0) {
    if (std::chrono::steady_clock::now() > deadline) {
      kill(child, SIGKILL);
      waitpid(child, &status, 0);
      return crashed(strCat("it does not end within ", kLimit.count(), " s"));
    }
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
    return Status::ok();
  }
  for (const GuardedBuffer &buffer : buffers) {
    if (std::optional<std::string> place = buffer.place(said.fault)) {
      return Status::error(ErrorId::KernelOutOfBounds, strCat("it reads or writes ", *place),
                           "compare its indices with the sizes that it is given");
    }
  }
  int signal = WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status) - 128;
  const char *name = signal > 0 ? strsignal(signal) : nullptr;
  return crashed(name ? strCat("it ends with the signal \"", name, "\"")
                      : std::string("it ends the process"));
}

Status fork(const Calls &calls, Report *shared, const std::vector<GuardedBuffer> &buffers,
            bool isTimed) {
  std::vector<std::byte> stack(kSignalStack);
  pid_t child = ::fork();
  if (child < 0) {
    return memoryError();
  }
  if (child == 0) {
    runChild(calls, shared, stack.data(), isTimed);
  }
  return endOf(child, *shared, buffers);
}

Result<std::unique_ptr<runtime::CodeObject>> load(const kernels::Trial &trial) {
  std::optional<engine::CpuLevel> level = engine::parseCpuLevel(trial.level);
  if (!level || !runtime::runsHere(*level)) {
    return Status::error(ErrorId::KernelUnchecked,
                         strCat("this machine does not run code for ", trial.level),
                         "compile on a machine that does, or take the kernel as it is with "
                         "--unchecked-kernels");
  }
  std::vector<std::string> kernels = {trial.symbol};
  TENON_TRY(engine::checkCodeObject(trial.code, runtime::kHostArchitecture, kernels));
  return runtime::CodeObject::load(trial.code);
}

Result<kernels::TrialResult> tryKernelOnCpu(const kernels::Trial &trial) {
  TENON_ASSIGN(std::unique_ptr<runtime::CodeObject> code, load(trial));
  std::vector<GuardedBuffer> buffers;
  for (const kernels::TrialBuffer &given : trial.buffers) {
    TENON_ASSIGN(GuardedBuffer buffer,
                 GuardedBuffer::create(given.name, given.bytes.size(), trial.isAtStart));
    std::ranges::copy(given.bytes, buffer.data());
    if (!given.isWritten && !buffer.protect()) {
      return memoryError();
    }
    buffers.push_back(std::move(buffer));
  }
  uint64_t scratch =
      (trial.scratchBytes + kScratchAlignment - 1) / kScratchAlignment * kScratchAlignment;
  TENON_ASSIGN(GuardedBuffer own, GuardedBuffer::create("scratch", scratch, trial.isAtStart));
  buffers.push_back(std::move(own));
  TENON_ASSIGN(GuardedBuffer shared, GuardedBuffer::create("report", sizeof(Report), true));
  Report *said = new (shared.data()) Report{};

  Calls calls{.kernel = code->find(trial.symbol),
              .context = {.abi = TENON_KERNEL_ABI,
                          .thread = 0,
                          .scratch = buffers.back().data(),
                          .scratchBytes = scratch,
                          .ranges = nullptr,
                          .rangeCount = 0},
              .buffers = {},
              .sizes = trial.sizes.data(),
              .grid = trial.grid,
              .isReversed = trial.isAtStart};
  for (const GuardedBuffer &buffer : buffers) {
    calls.buffers.push_back(buffer.data());
  }
  TENON_TRY(fork(calls, said, buffers, /*isTimed=*/false));
  kernels::TrialResult result;
  for (size_t i = 0; i < buffers.size(); ++i) {
    if (std::optional<std::string> place = buffers[i].damage()) {
      return Status::error(ErrorId::KernelOutOfBounds, strCat("it writes ", *place),
                           "compare its indices with the sizes that it is given");
    }
    if (i < trial.buffers.size() && trial.buffers[i].isWritten) {
      result.outputs.emplace_back(buffers[i].data(), buffers[i].data() + buffers[i].bytes());
    }
  }
  TENON_TRY(fork(calls, said, buffers, /*isTimed=*/true));
  result.seconds = said->seconds;
  return result;
}

} // namespace

std::function<Result<kernels::TrialResult>(const kernels::Trial &)> kernelTrials() {
  return [gpu = std::make_shared<GpuTrials>()](const kernels::Trial &trial) {
    return engine::isCudaLevel(trial.level) ? gpu->run(trial) : tryKernelOnCpu(trial);
  };
}

} // namespace tenon::tool
