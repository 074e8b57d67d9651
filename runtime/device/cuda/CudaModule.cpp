// PTX is loaded as a whole program. The driver's linker, which would give the machine code back to
// be kept, compiles as if more were to be linked: it ignores `setmaxnreg`, serializes `wgmma` and
// takes up to 70 % more registers. The driver keeps what it compiled in a cache of its own.

#include "runtime/device/cuda/CudaModule.h"

#include "support/text/Text.h"

#include <algorithm>
#include <array>

namespace tenon::runtime::cuda {
namespace {

/// What the driver's compiler said, on one line.
std::string firstLines(std::string_view log) {
  std::string text(log.substr(0, 2000));
  while (!text.empty() && (text.back() == '\n' || text.back() == '\0')) {
    text.pop_back();
  }
  for (char &character : text) {
    character = character == '\n' ? ';' : character;
  }
  return text;
}

/// Machine code runs on later GPUs of the same generation too, unless it is for one only.
bool runsCubin(const engine::CudaArch &arch, int capability) {
  return arch.isSpecific ? capability == arch.number
                         : capability / 10 == arch.number / 10 && capability >= arch.number;
}

} // namespace

Result<std::unique_ptr<CudaModule>> CudaModule::load(std::shared_ptr<const CudaDevice> device,
                                                     const GpuCode &code,
                                                     const engine::Variant &variant) {
  ContextScope scope(*device);
  std::unique_ptr<CudaModule> module(new CudaModule(std::move(device)));
  TENON_TRY(module->loadCode(code));
  TENON_TRY(module->findKernels(variant.kernels));
  TENON_TRY(module->allowClusters(variant.plan));
  TENON_TRY(module->checkWholeGrids(variant.plan));
  return module;
}

CudaModule::~CudaModule() {
  if (module) {
    ContextScope scope(*device);
    device->driver().moduleUnload(module);
  }
}

Status CudaModule::loadCode(const GpuCode &code) {
  const CudaDriver &driver = device->driver();
  if (!code.cubin.empty() && runsCubin(code.arch, device->info().capability) &&
      driver.moduleLoadDataEx(&module, code.cubin.data(), 0, nullptr, nullptr) == kSuccess) {
    return Status::ok();
  }
  std::array<char, 8192> log = {};
  std::array<int, 2> options = {kJitErrorLog, kJitErrorLogBytes};
  std::array<void *, 2> values = {log.data(), reinterpret_cast<void *>(log.size() - 1)};
  int result = driver.moduleLoadDataEx(&module, code.ptx.data(), options.size(), options.data(),
                                       values.data());
  if (result == kSuccess) {
    return Status::ok();
  }
  module = nullptr;
  Status reason = driver.check(result, "compiling the engine's PTX");
  return result == kOutOfMemory
             ? std::move(reason)
             : Status::error(ErrorId::EngineBadCode,
                             strCat(reason.message(), ": ", firstLines(log.data())),
                             "compile the model again, or update NVIDIA's driver");
}

Status CudaModule::findKernels(std::span<const std::string> names) {
  for (const std::string &name : names) {
    Kernel kernel;
    kernel.name = name;
    if (device->driver().moduleGetFunction(&kernel.function, module, name.c_str()) != kSuccess) {
      return Status::error(ErrorId::EngineBadCode, strCat("the PTX has no kernel '", name, "'"),
                           "compile the model again");
    }
    kernels.push_back(std::move(kernel));
  }
  return Status::ok();
}

FunctionHandle CudaModule::find(std::string_view name) const {
  std::vector<Kernel>::const_iterator found = std::ranges::find(kernels, name, &Kernel::name);
  return found == kernels.end() ? nullptr : found->function;
}

Status CudaModule::allowClusters(const engine::Plan &plan) {
  const CudaDriver &driver = device->driver();
  for (const engine::Instruction &instruction : plan.instructions) {
    if (instruction.kind == engine::InstructionKind::Launch &&
        instruction.cluster > kPortableCluster) {
      TENON_TRY(driver.check(
          driver.funcSetAttribute(kernels[instruction.kernel].function, kNonPortableClusters, 1),
          strCat("allowing clusters of ", instruction.cluster, " blocks")));
    }
  }
  return Status::ok();
}

Status CudaModule::checkWholeGrids(const engine::Plan &plan) const {
  for (const engine::Instruction &instruction : plan.instructions) {
    if (instruction.kind != engine::InstructionKind::Launch ||
        instruction.cluster != engine::kWholeGrid) {
      continue;
    }
    std::span<const engine::ExprTerm> grid = plan.exprs.program(instruction.grid);
    bool isConstant = grid.size() == 1 && grid[0].op == engine::ExprOp::Constant;
    if (!isConstant || grid[0].value > device->info().multiprocessors) {
      std::string blocks = isConstant ? std::to_string(grid[0].value) : "a varying number of";
      return Status::error(ErrorId::EngineNoVariant,
                           strCat("'", instruction.label, "' runs ", blocks,
                                  " blocks at the same time; the GPU has ",
                                  device->info().multiprocessors, " multiprocessors"),
                           "compile the model for this GPU");
    }
  }
  return Status::ok();
}

Status CudaModule::allowSharedBytes(uint32_t index, int64_t bytes) const {
  std::lock_guard<std::mutex> lock(mutex);
  Kernel &kernel = kernels[index];
  if (bytes <= kernel.allowedBytes) {
    return Status::ok();
  }
  const CudaDriver &driver = device->driver();
  int fixed = 0;
  TENON_TRY(driver.check(driver.funcGetAttribute(&fixed, kStaticSharedBytes, kernel.function),
                         "asking for a kernel's shared memory"));
  if (bytes > device->info().sharedBytes - fixed) {
    return Status::error(ErrorId::RunBadSize,
                         strCat("kernel '", kernel.name, "' needs ", bytes,
                                " bytes of shared memory; the GPU has ",
                                device->info().sharedBytes - fixed, " for a block"),
                         "the engine is from a faulty compiler; report it with the input dims");
  }
  TENON_TRY(driver.check(
      driver.funcSetAttribute(kernel.function, kMaxDynamicSharedBytes, static_cast<int>(bytes)),
      strCat("allowing ", bytes, " bytes of shared memory")));
  kernel.allowedBytes = bytes;
  return Status::ok();
}

} // namespace tenon::runtime::cuda
