// Lays the code and its memory out as the other process sees them. Relies on code objects without
// relocations (engine/KernelAbi.h): what a loader would do is to copy their segments.
#include "test/unit/codegen/foreign/Emulation.h"

#include "runtime/device/cpu/CpuFeatures.h"
#include "support/text/Text.h"
#include "test/unit/codegen/foreign/Job.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Object/ELFObjectFile.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <spawn.h>
#include <sstream>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

namespace tenon::codegen::cpu {
namespace {

struct Emulator {
  engine::CpuLevel level;
  const char *program; ///< of QEMU
  /// With the level's features and, where there is such a one, no better ones; several where
  /// registers have several lengths.
  std::vector<const char *> cpus;
  const char *guest;
};

const Emulator kEmulators[] = {
    {engine::CpuLevel::Armv8A, "qemu-aarch64", {"cortex-a53"}, TENON_GUEST_AARCH64},
    {engine::CpuLevel::Armv82DotProd, "qemu-aarch64", {"cortex-a76"}, TENON_GUEST_AARCH64},
    {engine::CpuLevel::Armv86I8mm, "qemu-aarch64", {"max,sme=off,sve=off"}, TENON_GUEST_AARCH64},
    {engine::CpuLevel::Armv9Sve,
     "qemu-aarch64",
     {"max,sme=off,sve-default-vector-length=16", "max,sme=off,sve-default-vector-length=32",
      "max,sme=off,sve-default-vector-length=64"},
     TENON_GUEST_AARCH64},
    {engine::CpuLevel::Rv64Gcv,
     "qemu-riscv64",
     {"rv64,v=true,vlen=128,vext_spec=v1.0", "rv64,v=true,vlen=256,vext_spec=v1.0"},
     TENON_GUEST_RISCV64},
};

const Emulator *emulatorOf(engine::CpuLevel level) {
  const auto *found = std::ranges::find(kEmulators, level, &Emulator::level);
  return found == std::end(kEmulators) ? nullptr : found;
}

/// QEMU before version 8 aborts where it meets an instruction of RISC-V's vectors that narrows
/// floats to integers.
constexpr int kMinVersion = 8;

/// 0 where that is no emulator.
int versionOf(const std::string &path) {
  FILE *output = popen((path + " --version 2>/dev/null").c_str(), "r");
  int version = 0;
  if (!output || fscanf(output, "%*s version %d", &version) != 1) {
    version = 0;
  }
  if (output) {
    pclose(output);
  }
  return version;
}

/// What scripts/setup.sh puts beside the Python environments, else what is installed; empty if
/// there is none that will do.
std::string findProgram(const std::string &name) {
  for (const std::string &path : {strCat(TENON_SOURCE_DIR, "/.qemu/", name), name}) {
    if (versionOf(path) >= kMinVersion) {
      return path;
    }
  }
  return "";
}

const std::string &pathOf(const Emulator &emulator) {
  static std::map<std::string, std::string> found;
  auto [entry, isNew] = found.try_emplace(emulator.program);
  if (isNew) {
    entry->second = findProgram(emulator.program);
  }
  return entry->second;
}

/// What the other process maps, from its begin on.
class Memory {
public:
  uint64_t add(uint64_t count, uint64_t alignment = 64) {
    uint64_t at = llvm::alignTo(bytes.size(), alignment);
    bytes.resize(at + count);
    return at;
  }
  template <typename T> T *at(uint64_t offset) { return reinterpret_cast<T *>(&bytes[offset]); }
  /// In the other process.
  template <typename T> static T *address(uint64_t offset) {
    return reinterpret_cast<T *>(TENON_JOB_ADDRESS + offset);
  }
  std::string &content() { return bytes; }

private:
  std::string bytes;
};

constexpr uint64_t kPage = 4096;
/// The exit status by which ctest knows a test that was skipped.
constexpr int kSkipped = 77;

/// The offset of the symbol.
llvm::Expected<uint64_t> load(Memory &memory, const std::string &code, const std::string &symbol) {
  llvm::Expected<llvm::object::ELF64LEObjectFile> file =
      llvm::object::ELF64LEObjectFile::create(llvm::MemoryBufferRef(code, "code"));
  if (!file) {
    return file.takeError();
  }
  uint64_t base = memory.add(0, kPage);
  for (const auto &header : llvm::cantFail(file->getELFFile().program_headers())) {
    if (header.p_type == llvm::ELF::PT_LOAD) {
      uint64_t end = base + header.p_vaddr + header.p_memsz;
      memory.content().resize(std::max<uint64_t>(memory.content().size(), end));
      std::copy_n(code.data() + header.p_offset, header.p_filesz,
                  memory.at<char>(base + header.p_vaddr));
    }
  }
  for (const llvm::object::ELFSymbolRef &each : file->getDynamicSymbolIterators()) {
    if (llvm::cantFail(each.getName()) == symbol) {
      return base + llvm::cantFail(each.getValue());
    }
  }
  return llvm::createStringError("no symbol " + symbol);
}

Status fault(const std::string &text) { return Status::error(ErrorId::InternalError, text); }

/// Of each length of registers in turn.
const char *nextCpu(const Emulator &emulator) {
  static std::atomic<size_t> runs = 0;
  return emulator.cpus[runs++ % emulator.cpus.size()];
}

/// Runs the emulator with `content` as its standard input, which it changes.
Status runGuest(const Emulator &emulator, std::string &content) {
  int file = memfd_create("job", MFD_CLOEXEC);
  if (write(file, content.data(), content.size()) != static_cast<ssize_t>(content.size())) {
    return fault("cannot write a job");
  }
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, file, STDIN_FILENO);
  std::string path = pathOf(emulator);
  std::string cpu = nextCpu(emulator), guest = emulator.guest, option = "-cpu";
  char *arguments[] = {path.data(), option.data(), cpu.data(), guest.data(), nullptr};
  pid_t child = 0;
  int code = posix_spawnp(&child, path.c_str(), &actions, nullptr, arguments, environ);
  posix_spawn_file_actions_destroy(&actions);
  int status = 0;
  bool isDone =
      code == 0 && waitpid(child, &status, 0) == child && status == 0 &&
      pread(file, content.data(), content.size(), 0) == static_cast<ssize_t>(content.size());
  close(file);
  return isDone ? Status::ok() : fault(strCat(path, " -cpu ", cpu, " ended with status ", status));
}

} // namespace

bool isEmulated(engine::CpuLevel level) {
  return engine::rowOf(level).architecture != runtime::kHostArchitecture;
}

size_t emulatedLengths(engine::CpuLevel level) { return emulatorOf(level)->cpus.size(); }

std::optional<engine::CpuLevel> findEmulated(const std::string &name) {
  std::optional<engine::CpuLevel> level = engine::parseCpuLevel(name);
  const Emulator *emulator = level ? emulatorOf(*level) : nullptr;
  if (!emulator || pathOf(*emulator).empty()) {
    printf("skipped: there is no %s of QEMU %d or later, which runs code of %s; scripts/setup.sh "
           "emulators gets it\n",
           emulator ? emulator->program : "emulator", kMinVersion, name.c_str());
    return std::nullopt;
  }
  return level;
}

const std::vector<engine::CpuLevel> &emulatedLevels() {
  static const std::vector<engine::CpuLevel> levels = [] {
    std::vector<engine::CpuLevel> found;
    const char *names = getenv("TENON_EMULATED_LEVELS");
    std::istringstream list(names ? names : "");
    for (std::string name; list >> name;) {
      std::optional<engine::CpuLevel> level = findEmulated(name);
      if (!level) {
        fflush(stdout);
        _exit(kSkipped);
      }
      found.push_back(*level);
    }
    return found;
  }();
  return levels;
}

Result<int32_t> runEmulated(engine::CpuLevel level, const EmulatedRun &run) {
  Memory memory;
  uint64_t job = memory.add(sizeof(TenonJob));
  llvm::Expected<uint64_t> kernel = load(memory, run.code, run.symbol);
  if (!kernel) {
    return fault(llvm::toString(kernel.takeError()));
  }
  uint64_t pointers = memory.add(run.buffers.size() * sizeof(void *));
  uint64_t ranges = memory.add((run.buffers.size() + 1) * sizeof(TenonRange));
  uint64_t sizes = memory.add(run.sizes.size() * sizeof(int64_t));
  std::copy(run.sizes.begin(), run.sizes.end(), memory.at<int64_t>(sizes));
  std::vector<uint64_t> places;
  for (auto [i, buffer] : llvm::enumerate(run.buffers)) {
    places.push_back(memory.add(buffer.count));
    std::copy_n(buffer.bytes, buffer.count, memory.at<char>(places[i]));
    memory.at<void *>(pointers)[i] = Memory::address<void>(places[i]);
    memory.at<TenonRange>(ranges)[i] = {Memory::address<void>(places[i]), buffer.rangeBytes,
                                        buffer.isWritable};
  }
  uint64_t scratch = memory.add(run.scratchBytes + 64);
  memset(memory.at<char>(scratch), 0x7f, run.scratchBytes);
  memory.at<TenonRange>(ranges)[run.buffers.size()] = {Memory::address<void>(scratch),
                                                       run.scratchBytes, 1};
  *memory.at<TenonJob>(job) = {
      .kernel = Memory::address<std::remove_pointer_t<TenonKernelFn>>(*kernel),
      .context = {TENON_KERNEL_ABI, 0, Memory::address<void>(scratch), run.scratchBytes,
                  Memory::address<TenonRange>(ranges), run.buffers.size() + 1},
      .buffers = Memory::address<void *>(pointers),
      .sizes = Memory::address<int64_t>(sizes),
      .grid = run.grid,
      .pieces = run.pieces,
      .status = 0};
  TENON_TRY(runGuest(*emulatorOf(level), memory.content()));
  for (auto [place, buffer] : llvm::zip_equal(places, run.buffers)) {
    if (buffer.isWritable) {
      std::copy_n(memory.at<char>(place), buffer.count, buffer.bytes);
    }
  }
  return memory.at<TenonJob>(job)->status;
}

} // namespace tenon::codegen::cpu
