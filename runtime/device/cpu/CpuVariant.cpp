// Loads the code and looks all kernels up once.

#include "runtime/device/cpu/CpuVariant.h"

#include "runtime/device/cpu/CpuExecutor.h"
#include "support/text/Text.h"

namespace tenon::runtime {

Result<std::unique_ptr<LoadedVariant>> CpuVariant::load(const engine::EngineFile &file,
                                                        size_t index) {
  std::unique_ptr<CpuVariant> variant(new CpuVariant(file, index));
  TENON_ASSIGN(variant->code, CodeObject::load(file.code(index)));
  for (const std::string &symbol : file.variants()[index].kernels) {
    TenonKernelFn kernel = variant->code->find(symbol);
    if (!kernel) {
      return Status::error(ErrorId::EngineBadCode,
                           strCat("the code object has no kernel '", symbol, "'"),
                           "compile the model again");
    }
    variant->kernels.push_back(kernel);
  }
  file.populateWeights();
  return std::unique_ptr<LoadedVariant>(std::move(variant));
}

Result<std::unique_ptr<Executor>> CpuVariant::createExecutor(const SessionOptions &options,
                                                             const Executor *beside,
                                                             RankPlace place) const {
  return CpuExecutor::create(*this, options, static_cast<const CpuExecutor *>(beside), place);
}

} // namespace tenon::runtime
