// One region from text to object code: the way in order, a line a step. Each call has a context
// that no other has meanwhile, so calls may run in parallel.
#include "compiler/codegen/cpu/CpuCodegen.h"

#include "compiler/codegen/common/math/VectorMath.h"
#include "compiler/codegen/common/region/ContextPool.h"
#include "compiler/codegen/common/region/Programs.h"
#include "compiler/codegen/common/region/RegionSource.h"
#include "compiler/codegen/cpu/base/Emit.h"
#include "compiler/codegen/cpu/base/KernelBuilder.h"
#include "compiler/codegen/cpu/base/KernelFamily.h"
#include "compiler/codegen/cpu/base/RegionShapes.h"
#include "compiler/codegen/cpu/base/ReturnFailures.h"
#include "compiler/codegen/cpu/base/Scratch.h"
#include "compiler/codegen/cpu/gemm/DotStep.h"
#include "compiler/codegen/cpu/gemm/LowBitKernels.h"
#include "compiler/codegen/cpu/gemm/TileProduct.h"
#include "compiler/codegen/cpu/strips/ExactConversions.h"
#include "compiler/codegen/cpu/strips/VectorizeStrips.h"
#include "compiler/graph/EqualSums.h"
#include "compiler/graph/Tn.h"
#include "engine/Level.h"
#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Affine/Transforms/Passes.h"
#include "mlir/Dialect/Arith/Transforms/BufferizableOpInterfaceImpl.h"
#include "mlir/Dialect/Bufferization/IR/Bufferization.h"
#include "mlir/Dialect/Bufferization/Transforms/OneShotAnalysis.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Linalg/Transforms/BufferizableOpInterfaceImpl.h"
#include "mlir/Dialect/Linalg/Transforms/TilingInterfaceImpl.h"
#include "mlir/Dialect/MemRef/Transforms/Passes.h"
#include "mlir/Dialect/SCF/Transforms/BufferizableOpInterfaceImpl.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Tensor/IR/TensorInferTypeOpInterfaceImpl.h"
#include "mlir/Dialect/Tensor/IR/TensorTilingInterfaceImpl.h"
#include "mlir/Dialect/Tensor/Transforms/BufferizableOpInterfaceImpl.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;

namespace tenon::codegen::cpu {
namespace {

void registerDialects(DialectRegistry &registry) {
  registerEmitDialects(registry);
  registry.insert<tn::TnDialect, bufferization::BufferizationDialect, linalg::LinalgDialect,
                  tensor::TensorDialect>();
  arith::registerBufferizableOpInterfaceExternalModels(registry);
  linalg::registerBufferizableOpInterfaceExternalModels(registry);
  linalg::registerTilingInterfaceExternalModels(registry);
  scf::registerBufferizableOpInterfaceExternalModels(registry);
  tensor::registerBufferizableOpInterfaceExternalModels(registry);
  tensor::registerTilingInterfaceExternalModels(registry);
  tensor::registerInferTypeOpInterfaceExternalModels(registry);
}

LogicalResult runPasses(ModuleOp module, ArrayRef<std::unique_ptr<Pass> (*)()> passes) {
  PassManager manager(module->getContext(), ModuleOp::getOperationName(),
                      OpPassManager::Nesting::Implicit);
  for (std::unique_ptr<Pass> (*create)() : passes) {
    manager.addPass(create());
  }
  return manager.run(module);
}

/// Tensors to memrefs, in place wherever the analysis allows it.
LogicalResult bufferize(func::FuncOp kernel) {
  bufferization::OneShotBufferizationOptions options;
  options.allowReturnAllocsFromLoops = true;
  bufferization::BufferizationState state;
  return bufferization::runOneShotBufferize(kernel, options, state);
}

bool endsProduct(func::FuncOp source) {
  return llvm::any_of(source.getBody().front(),
                      [](Operation &op) { return isa<tn::MatmulOp, tn::ConvOp>(op); });
}

LogicalResult dropConversions(ModuleOp module, bool endsProduct) {
  RewritePatternSet patterns(module->getContext());
  populateExactConversionPatterns(patterns);
  if (endsProduct) {
    populateStorageConversionPatterns(patterns);
  }
  return applyPatternsGreedily(module, std::move(patterns));
}

/// What ends a product of bf16 is rounded by the instruction, as in the libraries' kernels, which
/// have no subnormal numbers either; elsewhere conversions are exact on all levels.
LogicalResult expandMath(ModuleOp module, engine::CpuLevel level, bool endsProduct) {
  // The products come with the rounding.
  bool hasBf16 = DotStep::isOneInstruction(level, ProductType::BF16);
  RewritePatternSet patterns(module->getContext());
  populateExpandMathPatterns(patterns);
  populateExpandRoundingPatterns(patterns, hasBf16 && endsProduct);
  return applyPatternsGreedily(module, std::move(patterns));
}

struct Lowered {
  AffineExpr grid;
  AffineExpr scratch;
  bool mayOverwriteInputs;
  std::optional<RegionStep> exchange = std::nullopt;
};

/// All of the way within MLIR; `module` holds the kernel in the LLVM dialect afterwards.
FailureOr<Lowered> lowerRegion(ModuleOp source, ModuleOp module, StringRef symbol,
                               const target::Target &target, const KernelFamilies &families) {
  func::FuncOp function = source.lookupSymbol<func::FuncOp>("kernel");
  if (!function) {
    return source.emitError("has no @kernel");
  }
  llvm::Expected<dispatch::KernelChoice> choice =
      dispatch::KernelChoice::fromAttribute(function->getAttr(kKernelAttribute));
  if (!choice) {
    return function.emitError(llvm::toString(choice.takeError()));
  }
  Region region(function, target);
  region.kernels = module;
  region.symbol = symbol.str();
  if (failed(families.emit(region, *choice))) {
    return failure();
  }
  if (region.exchange) {
    return Lowered{{}, {}, false, std::move(region.exchange)};
  }
  func::FuncOp kernel = region.kernel;
  // Folds the dims of tiles, so that bufferization sees equal sizes as equal.
  if (failed(runPasses(module, {memref::createResolveRankedShapeTypeResultDimsPass,
                                createCanonicalizerPass, createCSEPass})) ||
      failed(bufferize(kernel)) ||
      failed(runPasses(module, {createCanonicalizerPass, createCSEPass}))) {
    return failure();
  }
  FailureOr<AffineExpr> scratch = assignScratch(kernel);
  bool isEnd = endsProduct(region.source) && !tn::hasEqualSums(region.source);
  if (failed(scratch) || failed(vectorizeStrips(kernel, floatLanes(target.level))) ||
      failed(runPasses(module, {createCanonicalizerPass, createCSEPass})) ||
      failed(dropConversions(module, isEnd)) || failed(expandMath(module, target.level, isEnd))) {
    return failure();
  }
  releaseTiles(kernel, target.level);
  returnFailures(kernel);
  if (failed(runPasses(module, {affine::createAffineExpandIndexOpsPass})) ||
      failed(lowerToLlvmDialect(module))) {
    return failure();
  }
  return Lowered{region.grid, *scratch, region.mayOverwriteInputs};
}

/// A guarded kernel has the product micro-kernels that it calls inside, so that their accesses are
/// checked too.
LogicalResult includeProducts(ModuleOp module, engine::CpuLevel level) {
  std::vector<std::string> support = supportNames(); // what LLVM may call comes first
  SmallVector<LLVM::LLVMFuncOp> called;
  for (LLVM::LLVMFuncOp function : module.getOps<LLVM::LLVMFuncOp>()) {
    if (function.isExternal() &&
        llvm::is_contained(ArrayRef(support).drop_front(), function.getName())) {
      called.push_back(function);
    }
  }
  for (LLVM::LLVMFuncOp declared : called) {
    OwningOpRef<ModuleOp> products =
        buildProductKernels(module.getContext(), level, declared.getName());
    if (failed(lowerToLlvmDialect(*products))) {
      return failure();
    }
    declared.erase();
    Block &body = *module.getBody();
    body.getOperations().splice(body.end(), products->getBody()->getOperations());
  }
  return success();
}

ContextPool &emitted() {
  static ContextPool pool([] {
    DialectRegistry registry;
    registerDialects(registry);
    return registry;
  }());
  return pool;
}

} // namespace

llvm::Expected<Kernel> compileRegion(llvm::StringRef text, llvm::StringRef symbol,
                                     const target::Target &asked, bool guarded,
                                     const KernelFamilies &families) {
  target::Target target = asked;
  if (guarded) {
    target.level = withoutTiles(target.level); // tiles load and store unchecked
  }
  engine::CpuLevel level = target.level;
  ContextPool::Lent lent = emitted().lend();
  MLIRContext &context = lent.context();
  std::string problem;
  ScopedDiagnosticHandler diagnostics(&context, [&](Diagnostic &diagnostic) {
    if (diagnostic.getSeverity() == DiagnosticSeverity::Error) {
      problem += (problem.empty() ? "" : "; ") + diagnostic.str();
    }
    return success();
  });
  OwningOpRef<ModuleOp> source = parseSourceString<ModuleOp>(text, ParserConfig(&context));
  OwningOpRef<ModuleOp> module = ModuleOp::create(UnknownLoc::get(&context));
  if (!source) {
    return llvm::createStringError("region text does not parse: " + problem);
  }
  FailureOr<Lowered> lowered = lowerRegion(*source, *module, symbol, target, families);
  if (succeeded(lowered) && lowered->exchange) {
    Kernel none;
    none.exchange = std::move(lowered->exchange);
    return none;
  }
  if (failed(lowered) || (guarded && failed(includeProducts(*module, level)))) {
    return llvm::createStringError(problem.empty() ? "lowering failed" : problem);
  }
  llvm::Expected<std::string> object =
      emitObject(*module, level, guarded ? symbol : llvm::StringRef());
  if (!object) {
    return object.takeError();
  }
  return Kernel{symbol.str(), std::move(*object), programOf(lowered->grid),
                programOf(lowered->scratch), lowered->mayOverwriteInputs};
}

} // namespace tenon::codegen::cpu
