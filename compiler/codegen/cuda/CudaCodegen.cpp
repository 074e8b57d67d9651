// One region from text to PTX and library calls: the way in order, a line a step. Each call has a
// context of its own, so calls may run in parallel.
#include "compiler/codegen/cuda/CudaCodegen.h"

#include "compiler/codegen/common/VectorMath.h"
#include "compiler/codegen/cuda/EmitPtx.h"
#include "compiler/codegen/cuda/MathCuda.h"
#include "compiler/codegen/cuda/ReportFailures.h"
#include "compiler/codegen/cuda/Strategies.h"
#include "compiler/dispatch/Strategy.h"
#include "compiler/graph/Tn.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

using namespace mlir;

namespace tenon::codegen::cuda {
namespace {

/// The emitters of a strategy in the order in which they are asked. The last one takes any region.
struct Strategy {
  StringRef name;
  std::array<EmitterFn, 6> emitters;
};

const Strategy *strategyOf(StringRef name) {
  static const Strategy table[] = {
      {dispatch::kElementwise, {emitPoints}},
      {dispatch::kRows, {emitRows, emitPoints}},
      {dispatch::kContraction,
       {emitGemv, emitSmallProduct, emitLibrary, emitLargeProduct, emitProduct, emitPoints}},
      {dispatch::kDepthwise, {emitPoints}},
      {dispatch::kAttention, {emitLibraryAttention, emitAttention, emitPoints}},
      {dispatch::kSingle, {emitSelection, emitRows, emitPoints}},
      {dispatch::kBundle, {emitPoints}},
  };
  const Strategy *found =
      llvm::find_if(table, [&](const Strategy &strategy) { return strategy.name == name; });
  return found == std::end(table) ? nullptr : found;
}

LogicalResult emitSteps(RegionBuilder &region) {
  const Strategy *strategy = strategyOf(region.strategy());
  if (!strategy) {
    return region.source.emitError("has no known strategy");
  }
  for (EmitterFn emitter : strategy->emitters) {
    FailureOr<bool> done = emitter ? emitter(region) : FailureOr<bool>(false);
    if (failed(done) || *done) {
      return success(succeeded(done));
    }
  }
  return region.source.emitError("is of a kind that no emitter takes");
}

LogicalResult expandMath(ModuleOp module) {
  RewritePatternSet patterns(module->getContext());
  populateMathCudaPatterns(patterns);
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

llvm::Expected<CompiledRegion> compileRegion(llvm::StringRef text, llvm::StringRef symbol,
                                             const engine::CudaArch &arch) {
  DialectRegistry registry;
  registerRegionDialects(registry);
  MLIRContext context(registry, MLIRContext::Threading::DISABLED);
  context.loadAllAvailableDialects();
  std::string problem;
  ScopedDiagnosticHandler diagnostics(&context, [&](Diagnostic &diagnostic) {
    if (diagnostic.getSeverity() == DiagnosticSeverity::Error) {
      problem += (problem.empty() ? "" : "; ") + diagnostic.str();
    }
    return success();
  });
  OwningOpRef<ModuleOp> source = parseSourceString<ModuleOp>(text, ParserConfig(&context));
  func::FuncOp function = source ? source->lookupSymbol<func::FuncOp>("kernel") : func::FuncOp();
  if (!function) {
    return llvm::createStringError("region text does not parse or has no @kernel: " + problem);
  }
  RegionBuilder region(function, symbol, arch);
  if (failed(lowerRegion(region))) {
    return llvm::createStringError(problem.empty() ? "lowering failed" : problem);
  }
  CompiledRegion compiled{std::move(region.code), ""};
  if (!region.kernels->getBody()->empty()) {
    llvm::Expected<std::string> ptx = emitPtx(*region.kernels, arch);
    if (!ptx) {
      return ptx.takeError();
    }
    compiled.object = std::move(*ptx);
  }
  return compiled;
}

} // namespace tenon::codegen::cuda
