// One region from text to PTX and library calls: the way in order, a line a step. Each call has a
// context that no other has meanwhile, so calls may run in parallel.
#include "compiler/codegen/cuda/CudaCodegen.h"

#include "compiler/codegen/common/math/VectorMath.h"
#include "compiler/codegen/common/region/ContextPool.h"
#include "compiler/codegen/common/region/RegionSource.h"
#include "compiler/codegen/cuda/KernelFamily.h"
#include "compiler/codegen/cuda/LowerRegion.h"
#include "compiler/codegen/cuda/base/EmitPtx.h"
#include "compiler/codegen/cuda/base/MathCuda.h"
#include "compiler/codegen/cuda/base/ReportFailures.h"
#include "compiler/graph/Tn.h"
#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

using namespace mlir;

namespace tenon::codegen::cuda {
namespace {

LogicalResult emitSteps(RegionBuilder &region) {
  llvm::Expected<dispatch::KernelChoice> choice =
      dispatch::KernelChoice::fromAttribute(region.source->getAttr(kKernelAttribute));
  if (!choice) {
    return region.source.emitError(llvm::toString(choice.takeError()));
  }
  return kernelFamilies().emit(region, *choice);
}

LogicalResult expandMath(ModuleOp module) {
  RewritePatternSet patterns(module->getContext());
  populateMathCudaPatterns(patterns);
  populateBytePatterns(patterns);
  populateExpandMathPatterns(patterns);
  return applyPatternsGreedily(module, std::move(patterns));
}

} // namespace

LogicalResult lowerKernels(RegionBuilder &region) {
  if (failed(expandMath(*region.kernels))) {
    return failure();
  }
  reportFailures(region);
  return lowerToNvvm(*region.kernels, region.indexBits());
}

LogicalResult lowerRegion(RegionBuilder &region) {
  return success(succeeded(emitSteps(region)) && succeeded(lowerKernels(region)));
}

void registerRegionDialects(DialectRegistry &registry) {
  registerEmitDialects(registry);
  registry.insert<func::FuncDialect, linalg::LinalgDialect, tensor::TensorDialect, tn::TnDialect>();
}

namespace {

/// A region in a context that nobody else has meanwhile, with the diagnostics that came there.
class ParsedRegion {
public:
  explicit ParsedRegion(StringRef text, ContextPool &pool) : lent(pool.lend()) {
    diagnostics.emplace(&lent.context(), [this](Diagnostic &diagnostic) {
      if (diagnostic.getSeverity() == DiagnosticSeverity::Error) {
        problem += (problem.empty() ? "" : "; ") + diagnostic.str();
      }
      return success();
    });
    module = parseSourceString<ModuleOp>(text, ParserConfig(&lent.context()));
  }

  /// Null if the text has none.
  func::FuncOp function() {
    return module ? module->lookupSymbol<func::FuncOp>("kernel") : func::FuncOp();
  }
  llvm::Error error(StringRef otherwise) const {
    return llvm::createStringError(problem.empty() ? otherwise.str() : problem);
  }

private:
  ContextPool::Lent lent;
  std::string problem;
  std::optional<ScopedDiagnosticHandler> diagnostics;
  OwningOpRef<ModuleOp> module;
};

/// What a region becomes on its way to PTX.
ContextPool &emitted() {
  static ContextPool pool([] {
    DialectRegistry registry;
    registerRegionDialects(registry);
    return registry;
  }());
  return pool;
}

/// What a region and its linalg form are made of: families look at no more. Many regions are asked
/// about, and most of the time of an answer went into dialects that it did not need.
ContextPool &lookedAt() {
  static ContextPool pool([] {
    DialectRegistry registry;
    registry.insert<affine::AffineDialect, arith::ArithDialect, func::FuncDialect,
                    linalg::LinalgDialect, math::MathDialect, scf::SCFDialect,
                    tensor::TensorDialect, tn::TnDialect>();
    return registry;
  }());
  return pool;
}

constexpr llvm::StringLiteral kNoKernel = "region text does not parse or has no @kernel";

} // namespace

llvm::Expected<CompiledRegion> compileRegion(llvm::StringRef text, llvm::StringRef symbol,
                                             const target::Target &gpu,
                                             const KernelLibraries &libraries) {
  ParsedRegion parsed(text, emitted());
  if (!parsed.function()) {
    return parsed.error(kNoKernel);
  }
  RegionBuilder region(parsed.function(), symbol, gpu, libraries);
  if (failed(lowerRegion(region))) {
    return parsed.error("lowering failed");
  }
  CompiledRegion compiled{std::move(region.code), std::move(region.given)};
  if (!region.kernels->getBody()->empty()) {
    llvm::Expected<std::string> ptx = emitPtx(*region.kernels, gpu);
    if (!ptx) {
      return ptx.takeError();
    }
    compiled.object = std::move(*ptx);
  }
  return compiled;
}

std::vector<std::string> familyNames() { return kernelFamilies().names(); }

unsigned revisionOf(StringRef name) {
  const KernelFamily *family = kernelFamilies().find(name);
  return family ? family->revision : 0;
}

llvm::Expected<dispatch::KernelSelection> selectKernel(llvm::StringRef text,
                                                       const target::Target &gpu,
                                                       const dispatch::KernelRequest &request) {
  ParsedRegion parsed(text, lookedAt());
  if (!parsed.function()) {
    return parsed.error(kNoKernel);
  }
  RegionBuilder region(parsed.function(), "", gpu);
  return kernelFamilies().select(region, request);
}

llvm::Expected<std::vector<dispatch::KernelCandidate>> kernelCandidates(llvm::StringRef text,
                                                                        const target::Target &gpu) {
  ParsedRegion parsed(text, lookedAt());
  if (!parsed.function()) {
    return parsed.error(kNoKernel);
  }
  RegionBuilder region(parsed.function(), "", gpu);
  return kernelFamilies().candidates(region);
}

} // namespace tenon::codegen::cuda
