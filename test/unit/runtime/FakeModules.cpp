// Modules, their kernels and launches, and tensor maps.

#include "test/unit/runtime/FakeDriver.h"
#include "test/unit/runtime/FakePlan.h"
#include "test/unit/runtime/FakePtx.h"

#include <cstring>

using namespace tenon::runtime::cuda;

namespace tenon::test {

int runKernel(const CudaFunctionObject &function, const KernelCall &call) {
  return function.unknown ? FakePlan::get()->run(function.name, function.kernelsOfModule, call)
                          : function.info->run(call);
}

/// A kernel by its declaration alone: its arguments may be any.
static std::unique_ptr<CudaFunctionObject> unknownKernel(const std::string &text, size_t start,
                                                         const char *name) {
  auto countIn = [](std::string_view where, std::string_view what) {
    size_t count = 0;
    for (size_t at = where.find(what); at != std::string_view::npos;
         at = where.find(what, at + 1)) {
      ++count;
    }
    return count;
  };
  std::unique_ptr<CudaFunctionObject> function = std::make_unique<CudaFunctionObject>();
  std::string_view head = std::string_view(text).substr(start, text.find('{', start) - start);
  function->unknown =
      std::make_unique<KernelInfo>(KernelInfo{name, 0, countIn(head, ".param"), nullptr});
  function->info = function->unknown.get();
  function->name = name;
  function->unknown->name = function->name.c_str();
  function->kernelsOfModule = countIn(text, ".entry ");
  return function;
}

int readCall(const CudaFunctionObject &function, unsigned grid, unsigned block, unsigned shared,
             void **params, KernelCall &call) {
  bool isTooLarge = function.hasLargeCluster && !function.mayHaveIt;
  if (grid == 0 || block == 0 || block > 1024 || int64_t(shared) > function.dynamicBytes ||
      isTooLarge) {
    return kInvalidValue;
  }
  call = {grid, block, shared, {}, {}};
  for (size_t i = 0; i < function.info->arguments; ++i) {
    uint64_t value = 0;
    std::memcpy(&value, params[i], sizeof(value));
    call.arguments.push_back(value);
    if (i < function.info->pointers && !driver().isDevice(value, 4)) {
      return kIllegalAddress;
    }
  }
  for (size_t i = 0; i < function.info->maps; ++i) {
    test::FakeTensorMap map;
    std::memcpy(&map, params[function.info->arguments + i], sizeof(map));
    call.maps.push_back(map);
    if (!driver().isDevice(map.address, map.rows * map.rowBytes)) {
      return kIllegalAddress;
    }
  }
  return kSuccess;
}

} // namespace tenon::test

using namespace tenon::test;

EXPORT int cuModuleLoadDataEx(ModuleHandle *module, const void *image, unsigned count, int *options,
                              void **values) {
  FAKE_IN_CONTEXT(cuModuleLoadDataEx)
  const char *start = static_cast<const char *>(image);
  // What an assembler made begins with the header of an ELF file.
  constexpr size_t headerBytes = 64;
  bool isCubin = std::memcmp(start, "\x7f\x45LF", 4) == 0;
  if (isCubin && FakePlan::get()) {
    return kInvalidPtx; // the PTX behind it has the kernels' names
  }
  std::string text = isCubin ? start + headerBytes : start;
  if (!isCubin) {
    ++driver().compiled;
    const std::string &log = driver().jitLog;
    bool isLogged = count == 2 && options[0] == kJitErrorLog && options[1] == kJitErrorLogBytes;
    bool isForThis = text.find(".target sm_90a") == std::string::npos || driver().capability == 90;
    if (!log.empty() && isLogged) {
      std::strncpy(static_cast<char *>(values[0]), log.c_str(),
                   reinterpret_cast<size_t>(values[1]));
    }
    if (!log.empty() || !isForThis || ("\n" + text).find("\n.version ") == std::string::npos) {
      return kInvalidPtx;
    }
  }
  *module = new CudaModuleObject();
  (*module)->text = std::move(text);
  return kSuccess;
}

EXPORT int cuModuleUnload(ModuleHandle module) {
  FAKE_IN_CONTEXT(cuModuleUnload)
  delete module;
  return kSuccess;
}

EXPORT int cuModuleGetFunction(FunctionHandle *function, ModuleHandle module, const char *name) {
  FAKE_IN_CONTEXT(cuModuleGetFunction)
  const KernelInfo *kernel = findKernel(name);
  size_t start = module->text.find(std::string(".entry ") + name + "(");
  bool isInterpreted = !kernel && !FakePlan::get();
  std::unique_ptr<const KernelInfo> own =
      isInterpreted ? interpretedKernel(module->text, name) : nullptr;
  if ((kernel || own) && start != std::string::npos) {
    module->functions.push_back(std::make_unique<CudaFunctionObject>());
    module->functions.back()->info = kernel ? kernel : own.get();
    module->functions.back()->own = std::move(own);
    std::string head = module->text.substr(start, module->text.find('{', start) - start);
    module->functions.back()->hasLargeCluster =
        head.find(".reqnctapercluster 16") != std::string::npos;
    *function = module->functions.back().get();
    return kSuccess;
  }
  if (start != std::string::npos && FakePlan::get()) {
    module->functions.push_back(unknownKernel(module->text, start, name));
    *function = module->functions.back().get();
    return kSuccess;
  }
  return kNotFoundCode;
}

EXPORT int cuFuncGetAttribute(int *value, int, FunctionHandle) {
  FAKE_IN_CONTEXT(cuFuncGetAttribute)
  *value = 0;
  return kSuccess;
}

EXPORT int cuFuncSetAttribute(FunctionHandle function, int attribute, int value) {
  FAKE_IN_CONTEXT(cuFuncSetAttribute)
  if (attribute == kNonPortableClusters) {
    function->mayHaveIt = value == 1;
    return kSuccess;
  }
  if (attribute != kMaxDynamicSharedBytes) {
    return kInvalidValue;
  }
  function->dynamicBytes = value;
  return kSuccess;
}

EXPORT int cuLaunchKernelEx(const LaunchConfig *config, FunctionHandle function, void **params,
                            void **) {
  FAKE_IN_CONTEXT(cuLaunchKernelEx)
  std::unique_ptr<CudaNodeObject> node = std::make_unique<CudaNodeObject>();
  node->isEarly = config->attributeCount == 1 &&
                  config->attributes->id == kAttributeProgrammaticSerialization &&
                  config->attributes->value.programmaticSerialization == 1;
  driver().early += node->isEarly;
  bool isCooperative = config->attributeCount == 1 &&
                       config->attributes->id == kAttributeCooperative &&
                       config->attributes->value.cooperative == 1;
  driver().cooperative += isCooperative;
  if (isCooperative && config->gridX > kFakeMultiprocessors) {
    return kCooperativeTooLarge;
  }
  node->function = function;
  if (int code = readCall(*function, config->gridX, config->blockX, config->sharedBytes, params,
                          node->call)) {
    return code;
  }
  return submit(config->stream, std::move(node));
}

/// Takes what the real one documents for matrices of 16-bit elements in a swizzle of 128 bytes.
EXPORT int cuTensorMapEncodeTiled(EncodedTensorMap *map, int elementType, unsigned rank,
                                  void *address, const uint64_t *dims, const uint64_t *strides,
                                  const unsigned *box, const unsigned *elementStrides,
                                  int interleave, int swizzle, int l2Promotion, int fill) {
  FAKE(cuTensorMapEncodeTiled)
  if (FakePlan::get()) {
    return kSuccess; // its kernels read no tensors
  }
  constexpr uint64_t most = uint64_t(1) << 32;
  uint64_t start = reinterpret_cast<uint64_t>(address);
  bool isKnown = elementType == kTensorMapUint16 && rank == 2 && interleave == 0 &&
                 swizzle == kTensorMapSwizzle128 && l2Promotion >= 0 && l2Promotion <= 3 &&
                 fill == kTensorMapZeroFill;
  bool isAligned = reinterpret_cast<uint64_t>(map) % 64 == 0 && start != 0 && start % 16 == 0 &&
                   strides[0] % 16 == 0 && strides[0] >> 40 == 0;
  bool isBox = box[0] * 2 == 128 && box[1] >= 1 && box[1] <= 256 && elementStrides[0] == 1 &&
               elementStrides[1] == 1;
  bool hasDims = dims[0] >= 1 && dims[0] <= most && dims[1] >= 1 && dims[1] <= most;
  if (!isKnown || !isAligned || !isBox || !hasDims) {
    return kInvalidValue;
  }
  FakeTensorMap encoded = {start, dims[0], dims[1], strides[0]};
  std::memcpy(map, &encoded, sizeof(encoded));
  return kSuccess;
}
