// The function takes the kernel's place in the region, which is compiled for a CPU. Relies on
// outline for text that depends on nothing but the region.
#include "compiler/pipeline/KernelReference.h"

#include "compiler/codegen/common/region/RegionSource.h"
#include "compiler/graph/TnCustom.h"
#include "mlir/IR/Builders.h"
#include "support/text/Text.h"

using namespace mlir;

namespace tenon::pipeline {
namespace {

constexpr char kSymbol[] = "reference";

/// The text of the region with `entry` as its only kernel.
codegen::RegionSource sourceWith(tn::RegionOp region, const std::string &entry) {
  tn::CustomOp op = cast<tn::CustomOp>(region.getBody().front().front());
  ArrayAttr kernels = op.getKernels();
  op.setKernelsAttr(Builder(op.getContext()).getStrArrayAttr({entry}));
  codegen::RegionSource source = codegen::outline(region);
  op.setKernelsAttr(kernels);
  return source;
}

std::shared_ptr<const kernels::Library> libraryOf(const kernels::Kernel &kernel,
                                                  const KernelLibraries &libraries) {
  for (const std::shared_ptr<const kernels::Library> &library : libraries) {
    for (const std::shared_ptr<const kernels::Library> &code : library->references) {
      if (code->hash == kernel.referenceLibrary) {
        return code;
      }
    }
  }
  return nullptr;
}

} // namespace

Result<ReferenceCode> compileReference(tn::RegionOp region, const kernels::Kernel &kernel,
                                       const KernelLibraries &libraries) {
  std::shared_ptr<const kernels::Library> library = libraryOf(kernel, libraries);
  if (!library) {
    return Status::error(ErrorId::InternalError, "the library of a reference is not there");
  }
  auto refused = [&](llvm::Error error) {
    return Status::error(ErrorId::BadKernelLibrary,
                         strCat(library->path, ": ", llvm::toString(std::move(error))),
                         "docs/guides/kernels.md says what a library may be");
  };
  llvm::StringRef object(reinterpret_cast<const char *>(library->bytes.data()),
                         library->bytes.size());
  const engine::CpuLevelRow *level = nullptr;
  for (const engine::CpuLevelRow &row : engine::kCpuLevels) {
    llvm::Expected<std::vector<std::string>> functions =
        codegen::cpu::functionsOf(object, {kernel.referenceSymbol}, row.level);
    if (functions) {
      level = &row;
      break;
    }
    llvm::consumeError(functions.takeError());
  }
  if (!level) {
    return refused(
        codegen::cpu::functionsOf(object, {kernel.referenceSymbol}, engine::kCpuLevels[0].level)
            .takeError());
  }
  codegen::RegionSource source = sourceWith(region, kernels::referenceEntry(kernel));
  CodeTarget target = cpuTarget(level->level, target::cpuTarget(), /*guarded=*/false,
                                codegen::cpu::kernelFamilies(), {library});
  llvm::Expected<codegen::CompiledRegion> compiled = target.compile(
      source.text, kSymbol,
      {region.getInputs().size(), region.getOutputs().size(), source.symbols.size()});
  if (!compiled) {
    return refused(compiled.takeError());
  }
  llvm::Expected<std::string> code = target.link({compiled->object}, {kSymbol}, CompileCache(""));
  if (!code) {
    return refused(code.takeError());
  }
  return ReferenceCode{target.level, std::move(*code), std::move(compiled->code),
                       std::move(source.symbols)};
}

} // namespace tenon::pipeline
