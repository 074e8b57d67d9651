// Relies on the reference interpreter for what is an error.
#include "test/unit/codegen/FailureCases.h"

#include "compiler/graph/Shape.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Parser/Parser.h"

using namespace mlir;

namespace tenon::codegen {
namespace {

reference::Tensor integersOf(RankedTensorType type, llvm::ArrayRef<int64_t> integers) {
  reference::Tensor wide = *reference::Tensor::create(DType::I64, type.getShape());
  std::fill_n(wide.as<int64_t>(), wide.count(), 0);
  llvm::copy(integers.take_front(wide.count()), wide.as<int64_t>());
  return *reference::convert(wide, *reference::dtypeOf(type.getElementType()));
}

} // namespace

FailureRun makeFailureRun(const FailureCase &each, const std::vector<int64_t> &integers) {
  FailureRun run;
  run.text = cpu::kernelText(each.strategy, each.signature, each.body);
  MLIRContext context;
  context.loadDialect<tn::TnDialect, func::FuncDialect>();
  OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(run.text, ParserConfig(&context));
  EXPECT_TRUE(module) << "does not parse:\n" << run.text;
  func::FuncOp function = module->lookupSymbol<func::FuncOp>("kernel");
  for (auto [i, type] : llvm::enumerate(function.getArgumentTypes())) {
    RankedTensorType tensor = cast<RankedTensorType>(type);
    std::vector<int64_t> ones(tensor.getNumElements(), 1);
    run.inputs.push_back(integersOf(tensor, i == 0 ? integers : ones));
  }
  for (Type type : function.getResultTypes()) {
    run.results.push_back(integersOf(cast<RankedTensorType>(type), {}));
  }
  reference::Interpreter interpreter(nullptr);
  Result<std::vector<reference::Tensor>> results =
      interpreter.evaluate(function.getBody(), run.inputs, {});
  run.status = results ? Status::ok() : results.takeStatus();
  if (results) {
    run.results = std::move(*results);
  }
  return run;
}

} // namespace tenon::codegen
