// Relies on GpuEmulator for the kernels and on the steps of RegionCode for what runs on which
// buffers.
#include "test/unit/codegen/emulator/EmulatedRegion.h"

#include "compiler/codegen/common/region/RegionSource.h"
#include "compiler/codegen/cuda/KernelFamily.h"
#include "compiler/codegen/cuda/LowerRegion.h"
#include "compiler/graph/Tn.h"
#include "engine/KernelAbi.h"
#include "mlir/Parser/Parser.h"
#include "test/unit/codegen/emulator/GpuEmulator.h"

#include <cstring>

using namespace mlir;

namespace tenon::codegen::cuda {
namespace {

GuardedBytes filled(size_t bytes) {
  GuardedBytes memory(bytes);
  memset(memory.data(), 0xff, bytes);
  return memory;
}

} // namespace

llvm::Error runSteps(ModuleOp kernels, const RegionCode &code, std::vector<void *> memory,
                     const std::vector<int64_t> &symbols, bool reversed, int32_t *status) {
  llvm::Expected<std::unique_ptr<GpuEmulator>> emulator = GpuEmulator::create(kernels);
  if (!emulator) {
    return emulator.takeError();
  }
  std::vector<GuardedBytes> temporaries;
  for (const Program &bytes : code.temporaries) {
    temporaries.push_back(filled(*engine::evaluate(bytes, symbols)));
    memory.push_back(temporaries.back().data());
  }
  for (const RegionStep &step : code.steps) {
    std::vector<void *> buffers;
    for (uint32_t buffer : step.buffers) {
      buffers.push_back(memory[buffer]);
    }
    if (step.isCopy && buffers.front() == buffers.back()) {
      continue;
    }
    std::vector<int64_t> sizes;
    for (const Program &size : step.sizes) {
      sizes.push_back(*engine::evaluate(size, symbols));
    }
    std::vector<EmulatedTensorMap> maps;
    for (const TensorMapArgument &map : step.tensorMaps) {
      maps.push_back({static_cast<const char *>(buffers[map.buffer]),
                      *engine::evaluate(map.rows, symbols), *engine::evaluate(map.columns, symbols),
                      *engine::evaluate(map.rowBytes, symbols), map.boxRows, map.boxColumns});
    }
    char reported[TENON_KERNEL_STATUSES] = {};
    if (step.canFail) {
      buffers.push_back(reported);
    }
    uint64_t shared = step.scratch.empty() ? 0 : *engine::evaluate(step.scratch, symbols);
    if (llvm::Error error = (*emulator)->launch(
            step.symbol, buffers, sizes, *engine::evaluate(step.grid, symbols), step.threads,
            shared, reversed, maps, step.cluster == engine::kWholeGrid)) {
      return error;
    }
    for (int32_t code = 1; code < TENON_KERNEL_STATUSES; ++code) {
      if (reported[code] != 0 && !status) {
        return llvm::createStringError(step.symbol + " failed with " + std::to_string(code));
      }
      if (reported[code] != 0) {
        *status = std::max(*status, code);
      }
    }
  }
  return llvm::Error::success();
}

llvm::Expected<std::vector<reference::Tensor>>
runEmulated(const std::string &text, llvm::ArrayRef<reference::Tensor> inputs,
            llvm::ArrayRef<reference::Tensor> results, const std::vector<int64_t> &symbols,
            bool reversed, int32_t *status, const target::Target &gpu) {
  DialectRegistry registry;
  registerRegionDialects(registry);
  MLIRContext context(registry, MLIRContext::Threading::DISABLED);
  context.loadAllAvailableDialects();
  std::string problem;
  ScopedDiagnosticHandler diagnostics(&context, [&](Diagnostic &diagnostic) {
    problem += diagnostic.str() + "; ";
    return success();
  });
  OwningOpRef<ModuleOp> source = parseSourceString<ModuleOp>(text, ParserConfig(&context));
  if (!source) {
    return llvm::createStringError("does not parse: " + problem);
  }
  RegionBuilder region(source->lookupSymbol<func::FuncOp>("kernel"), "tested", gpu);
  const std::string calls[] = {kCublasLt.name.str(), kCudnnConv.name.str(),
                               kCudnnAttention.name.str()};
  llvm::Expected<dispatch::KernelSelection> selection =
      kernelFamilies().select(region, {nullptr, calls});
  if (!selection) {
    return selection.takeError();
  }
  region.source->setAttr(kKernelAttribute, selection->chosen.toAttribute(&context));
  if (failed(lowerRegion(region))) {
    return llvm::createStringError("not lowered: " + problem);
  }
  std::vector<GuardedBytes> memory;
  for (const reference::Tensor &input : inputs) {
    memory.emplace_back(input.byteCount());
    memcpy(memory.back().data(), input.bytes(), input.byteCount());
  }
  for (const reference::Tensor &result : results) {
    memory.push_back(filled(result.byteCount()));
  }
  std::vector<void *> places;
  for (const GuardedBytes &bytes : memory) {
    places.push_back(bytes.data());
  }
  if (llvm::Error error =
          runSteps(*region.kernels, region.code, places, symbols, reversed, status)) {
    return std::move(error);
  }
  std::vector<reference::Tensor> outputs;
  for (auto [i, result] : llvm::enumerate(results)) {
    outputs.push_back(*reference::Tensor::create(result.dtype(), result.dims()));
    memcpy(outputs.back().mutableBytes(), memory[inputs.size() + i].data(), result.byteCount());
  }
  return outputs;
}

} // namespace tenon::codegen::cuda
