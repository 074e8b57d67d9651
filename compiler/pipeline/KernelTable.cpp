// Relies on the importers for the references, which are small models.
#include "compiler/pipeline/KernelTable.h"

#include "compiler/codegen/cpu/CpuCodegen.h"
#include "compiler/codegen/cuda/library/UserKernel.h"
#include "compiler/frontend/Frontend.h"
#include "compiler/graph/Tn.h"
#include "compiler/pipeline/Reports.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "support/text/Text.h"
#include "llvm/ADT/StringMap.h"

using namespace mlir;

namespace tenon::pipeline {
namespace {

using kernels::Kernel;

/// The text of the module that a reference model is.
Result<std::string> referenceText(const Kernel &kernel) {
  MLIRContext context(MLIRContext::Threading::DISABLED);
  context.loadDialect<tn::TnDialect, func::FuncDialect>();
  tn::WeightStore weights;
  frontend::ImportOptions sizes;
  sizes.symbolMax = kernels::kMostOfSize; // the operator's inputs bound them
  TENON_ASSIGN(frontend::ImportResult imported,
               frontend::importModel(kernel.reference, sizes, context, weights));
  if (!imported.gaps.empty() || !imported.module) {
    return gapReport(kernel.reference, imported.gaps);
  }
  bool hasWeights = false;
  imported.module->walk([&](tn::WeightOp) { hasWeights = true; });
  if (hasWeights) {
    return Status::error(ErrorId::BadKernelDescription,
                         strCat(kernel.reference, ": a reference has no constants of more than 64 "
                                                  "elements"),
                         "make the constant an input of the operator");
  }
  std::string text;
  llvm::raw_string_ostream(text) << **imported.module;
  return text;
}

Status refusedLibrary(const kernels::Library &library, std::string_view why) {
  return Status::error(ErrorId::BadKernelLibrary, strCat(library.path, ": ", why),
                       "docs/guides/kernels.md says what a library may be");
}

/// That what CPU levels get of a library can be part of their code, beside the libraries before it,
/// whose functions are in `owners`.
Status checkForCpu(const kernels::Library &library, const std::vector<engine::CpuLevel> &levels,
                   llvm::StringMap<std::string> &owners) {
  std::vector<std::string> symbols;
  for (const Kernel &kernel : library.kernels) {
    if (kernel.backend == kernels::kCpu) {
      symbols.push_back(kernel.symbol);
    }
  }
  if (symbols.empty()) {
    return Status::ok();
  }
  llvm::StringRef object(reinterpret_cast<const char *>(library.bytes.data()),
                         library.bytes.size());
  std::vector<std::string> functions;
  for (engine::CpuLevel level : levels) {
    llvm::Expected<std::vector<std::string>> found =
        codegen::cpu::functionsOf(object, symbols, level);
    if (!found) {
      return refusedLibrary(library, llvm::toString(found.takeError()));
    }
    functions = std::move(*found);
  }
  for (const std::string &function : functions) {
    auto [owner, isNew] = owners.try_emplace(function, library.path);
    if (!isNew) {
      return refusedLibrary(library, strCat("'", function, "' is defined in ", owner->second,
                                            " too; make it static in one, or rename it"));
    }
  }
  return Status::ok();
}

} // namespace

Result<std::shared_ptr<const kernels::KernelTable>>
kernelTable(const KernelLibraries &libraries, const std::vector<engine::CpuLevel> &levels,
            const std::vector<target::Target> &gpus) {
  if (libraries.empty()) {
    return std::shared_ptr<const kernels::KernelTable>();
  }
  std::shared_ptr<kernels::KernelTable> table = std::make_shared<kernels::KernelTable>();
  llvm::StringMap<std::string> owners;
  for (const std::shared_ptr<const kernels::Library> &library : libraries) {
    TENON_TRY(checkForCpu(*library, levels, owners));
    for (const target::Target &gpu : gpus) {
      TENON_TRY(codegen::cuda::checkUserPtx(*library, gpu));
    }
    for (const Kernel &kernel : library->kernels) {
      std::string text;
      if (!kernel.reference.empty()) {
        TENON_ASSIGN(text, referenceText(kernel));
      }
      table->entries.push_back({kernel, std::move(text)});
    }
  }
  return std::shared_ptr<const kernels::KernelTable>(std::move(table));
}

} // namespace tenon::pipeline
