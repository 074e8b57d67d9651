// Runs passes on a text of `tn` and prints the result: the tool of the lit tests.
// Relies on seeded weights (a test names weights without giving bytes) and, with --check, on the
// reference.
#include "compiler/codegen/common/region/RegionSource.h"
#include "compiler/codegen/cuda/CudaCodegen.h"
#include "compiler/dispatch/Dispatch.h"
#include "compiler/opt/Passes.h"
#include "compiler/pipeline/SelectKernels.h"
#include "tools/tenon-opt/CheckNumbers.h"
#include "tools/tenon-opt/PlantedFault.h"

#include "compiler/graph/Tn.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Support/FileUtilities.h"
#include "mlir/Support/ToolUtilities.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/ToolOutputFile.h"

using namespace mlir;
using namespace tenon;

namespace {

struct Options {
  std::vector<std::string> passes;
  bool check = false;
  /// Print the code of the regions for this architecture instead of the module.
  std::string ptx;
};

/// The whole order as one pass.
LogicalResult optimizeAll(ModuleOp module, tn::WeightStore &weights) {
  return opt::optimize(module, weights, {});
}

/// Regions with their kernels, weights laid out for those.
LogicalResult dispatchFor(const target::Target &profile, const pipeline::CodeTarget &code,
                          ModuleOp module) {
  dispatch::Records records;
  pipeline::WantedKernels none;
  pipeline::KernelSelector selector(code, none);
  if (failed(selector.formRegions(module, profile, records))) {
    return failure();
  }
  Status selected = selector.select(module, records);
  return selected ? success() : LogicalResult(module.emitError(selected.message()));
}

LogicalResult dispatchAll(ModuleOp module, tn::WeightStore &) {
  target::Target cpu = target::cpuTarget();
  return dispatchFor(cpu, pipeline::cpuTarget(engine::CpuLevel::X86_64_V3, cpu, /*guarded=*/false),
                     module);
}

LogicalResult dispatchCuda(ModuleOp module, tn::WeightStore &) {
  const target::Target &gpu = target::targetOf("sm_90");
  return dispatchFor(gpu, pipeline::cudaTarget(gpu), module);
}

LogicalResult optimizeCuda(ModuleOp module, tn::WeightStore &weights) {
  return opt::optimizeForGpu(module, weights, {});
}

FailureOr<opt::Pass> findPass(StringRef name) {
  if (name == opt::kPlantedFault.name) {
    return opt::kPlantedFault;
  }
  static constexpr opt::Pass kWhole[] = {{"optimize", optimizeAll},
                                         {"optimize-cuda", optimizeCuda},
                                         {"dispatch", dispatchAll},
                                         {"dispatch-cuda", dispatchCuda}};
  for (const opt::Pass &pass : kWhole) {
    if (pass.name == name) {
      return pass;
    }
  }
  for (const opt::Pass &pass : opt::allPasses()) {
    if (pass.name == name) {
      return pass;
    }
  }
  llvm::errs() << "tenon-opt: there is no pass '" << name << "'";
  StringRef before = "; there are ";
  for (ArrayRef<opt::Pass> passes : {ArrayRef(kWhole), opt::allPasses()}) {
    for (const opt::Pass &pass : passes) {
      llvm::errs() << std::exchange(before, ", ") << pass.name;
    }
  }
  llvm::errs() << '\n';
  return failure();
}

/// Runs one pass and, if asked to, compares the numbers before and after.
LogicalResult runPass(const opt::Pass &pass, ModuleOp module, tn::WeightStore &weights,
                      bool check) {
  std::vector<reference::Tensor> before;
  if (check) {
    Result<std::vector<reference::Tensor>> results = tools::evaluateSeeded(module, weights);
    if (!results) {
      return module.emitError("before ") << pass.name << ": " << results.status().message();
    }
    before = std::move(*results);
  }
  if (failed(pass.run(module, weights)) || failed(verify(module))) {
    return failure();
  }
  if (!check) {
    return success();
  }
  Result<std::vector<reference::Tensor>> after = tools::evaluateSeeded(module, weights);
  if (!after) {
    return module.emitError("after ") << pass.name << ": " << after.status().message();
  }
  std::string problem = tools::difference(before, *after);
  return problem.empty() ? success()
                         : LogicalResult(module.emitError("numbers changed in ")
                                         << pass.name << ": " << problem);
}

/// The steps and the PTX of one region, as text.
LogicalResult printPtx(Operation *where, StringRef text, StringRef symbol,
                       const target::Target &gpu, llvm::raw_ostream &output) {
  llvm::Expected<dispatch::KernelSelection> selection = codegen::cuda::selectKernel(text, gpu, {});
  if (!selection) {
    return where->emitError(llvm::toString(selection.takeError()));
  }
  output << "// kernel " << selection->chosen.text() << '\n';
  std::string whole = codegen::withKernel(text, selection->chosen.toAttribute(where->getContext()));
  llvm::Expected<codegen::CompiledRegion> region = codegen::cuda::compileRegion(whole, symbol, gpu);
  if (!region) {
    return where->emitError(llvm::toString(region.takeError()));
  }
  for (const codegen::RegionStep &step : region->code.steps) {
    output << "// step " << (step.symbol.empty() ? "(library call)" : step.symbol) << ": buffers";
    for (auto [i, buffer] : llvm::enumerate(step.buffers)) {
      output << (i == step.reads ? " -> " : " ") << buffer;
    }
    output << ", threads " << step.threads << '\n';
  }
  output << region->object;
  return success();
}

/// A module with a function `kernel` is a region's text; any other has regions.
LogicalResult printPtx(ModuleOp module, StringRef name, llvm::raw_ostream &output) {
  const target::Target *gpu = target::findPart("cuda", name);
  if (!gpu && !engine::parseCudaArch(name)) {
    return module.emitError("there is no architecture or part ") << name;
  }
  gpu = gpu ? gpu : &target::targetOf(name);
  if (module.lookupSymbol("kernel")) {
    std::string text;
    llvm::raw_string_ostream(text) << module;
    return printPtx(module, text, "kernel", *gpu, output);
  }
  unsigned number = 0;
  WalkResult result = module.walk([&](tn::RegionOp region) {
    codegen::RegionSource source = codegen::outline(region);
    std::string symbol = "region" + std::to_string(number++);
    LogicalResult printed = printPtx(region, source.text, symbol, *gpu, output);
    return succeeded(printed) ? WalkResult::advance() : WalkResult::interrupt();
  });
  return failure(result.wasInterrupted());
}

LogicalResult process(std::unique_ptr<llvm::MemoryBuffer> text, const Options &options,
                      llvm::raw_ostream &output) {
  DialectRegistry registry;
  registry.insert<func::FuncDialect, tn::TnDialect>();
  MLIRContext context(registry, MLIRContext::Threading::DISABLED);
  std::shared_ptr<llvm::SourceMgr> sources = std::make_shared<llvm::SourceMgr>();
  sources->AddNewSourceBuffer(std::move(text), SMLoc());
  SourceMgrDiagnosticHandler diagnostics(*sources, &context);
  OwningOpRef<ModuleOp> module = parseSourceFile<ModuleOp>(sources, &context);
  if (!module) {
    return failure();
  }
  tn::WeightStore weights;
  tools::fillWeights(*module, weights);
  for (const std::string &name : options.passes) {
    FailureOr<opt::Pass> pass = findPass(name);
    if (failed(pass) || failed(runPass(*pass, *module, weights, options.check))) {
      return failure();
    }
  }
  if (!options.ptx.empty()) {
    return printPtx(*module, options.ptx, output);
  }
  module->print(output);
  output << '\n';
  return success();
}

} // namespace

int main(int argc, char **argv) {
  llvm::InitLLVM init(argc, argv);
  llvm::cl::opt<std::string> input(llvm::cl::Positional, llvm::cl::desc("FILE"),
                                   llvm::cl::init("-"));
  llvm::cl::list<std::string> passes(
      "pass", llvm::cl::CommaSeparated,
      llvm::cl::desc("passes to run, in this order; 'optimize' is all"));
  llvm::cl::opt<bool> check("check",
                            llvm::cl::desc("compare the numbers before and after each pass"));
  llvm::cl::opt<std::string> ptx(
      "ptx", llvm::cl::desc("print the PTX of the regions for this architecture or part"));
  llvm::cl::ParseCommandLineOptions(argc, argv, "Runs passes on a text of tn\n");

  std::string error;
  std::unique_ptr<llvm::MemoryBuffer> text = openInputFile(input, &error);
  if (!text) {
    llvm::errs() << "tenon-opt: " << error << '\n';
    return 5;
  }
  Options options{{passes.begin(), passes.end()}, check, ptx};
  LogicalResult result = splitAndProcessBuffer(
      std::move(text),
      [&](std::unique_ptr<llvm::MemoryBuffer> chunk, llvm::raw_ostream &output) {
        return process(std::move(chunk), options, output);
      },
      llvm::outs());
  return failed(result) ? 1 : 0;
}
