// A variant for a CPU level: its code object and the weights where the file is mapped.

#pragma once

#include "engine/KernelAbi.h"
#include "engine/Reader.h"
#include "runtime/device/cpu/CodeObject.h"
#include "runtime/plan/Device.h"

#include <memory>
#include <vector>

namespace tenon::runtime {

class CpuVariant : public LoadedVariant {
public:
  /// `file` must outlive the variant.
  static Result<std::unique_ptr<LoadedVariant>> load(const engine::EngineFile &file, size_t index);

  Result<std::unique_ptr<Executor>> createExecutor(const SessionOptions &options,
                                                   const Executor *beside,
                                                   RankPlace place) const override;

  const engine::EngineFile &file() const { return engineFile; }
  const engine::Plan &plan() const { return engineFile.variants()[index].plan; }
  TenonKernelFn kernel(uint32_t kernelIndex) const { return kernels[kernelIndex]; }

private:
  CpuVariant(const engine::EngineFile &file, size_t variantIndex)
      : engineFile(file), index(variantIndex) {}

  const engine::EngineFile &engineFile;
  size_t index;
  std::unique_ptr<CodeObject> code;
  std::vector<TenonKernelFn> kernels;
};

} // namespace tenon::runtime
