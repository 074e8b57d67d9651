// Runs passes on a text of `tn` and prints the result: the tool of the lit tests.
// Relies on seeded weights (a test names weights without giving bytes) and, with --check, on the
// reference.
#include "compiler/dispatch/Dispatch.h"
#include "compiler/opt/Passes.h"
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
};

/// The whole order as one pass.
LogicalResult optimizeAll(ModuleOp module, tn::WeightStore &weights) {
  return opt::optimize(module, weights, {});
}

LogicalResult dispatchAll(ModuleOp module, tn::WeightStore &) {
  dispatch::Records records;
  return dispatch::dispatch(module, dispatch::cpuProfile(), records);
}

FailureOr<opt::Pass> findPass(StringRef name) {
  if (name == opt::kPlantedFault.name) {
    return opt::kPlantedFault;
  }
  if (name == "optimize") {
    return opt::Pass{"optimize", optimizeAll};
  }
  if (name == "dispatch") {
    return opt::Pass{"dispatch", dispatchAll};
  }
  for (const opt::Pass &pass : opt::allPasses()) {
    if (pass.name == name) {
      return pass;
    }
  }
  llvm::errs() << "tenon-opt: there is no pass '" << name << "'; there are dispatch, optimize";
  for (const opt::Pass &pass : opt::allPasses()) {
    llvm::errs() << ", " << pass.name;
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
  llvm::cl::ParseCommandLineOptions(argc, argv, "Runs passes on a text of tn\n");

  std::string error;
  std::unique_ptr<llvm::MemoryBuffer> text = openInputFile(input, &error);
  if (!text) {
    llvm::errs() << "tenon-opt: " << error << '\n';
    return 5;
  }
  Options options{{passes.begin(), passes.end()}, check};
  LogicalResult result = splitAndProcessBuffer(
      std::move(text),
      [&](std::unique_ptr<llvm::MemoryBuffer> chunk, llvm::raw_ostream &output) {
        return process(std::move(chunk), options, output);
      },
      llvm::outs());
  return failed(result) ? 1 : 0;
}
