// Relies on codegen::outline, as the pipeline does, for what a region's kernel is given.
#include "test/ops/RegionWalk.h"

#include "compiler/graph/Shape.h"
#include "support/text/Text.h"
#include "test/unit/codegen/RegionCheck.h"
#include "test/unit/codegen/SelectedText.h"

using namespace mlir;

namespace tenon::ops {
namespace {

/// Zeros in the type and dims of a value.
Result<reference::Tensor> emptyLike(Value value, ArrayRef<int64_t> symbols) {
  SmallVector<int64_t> dims;
  for (AffineExpr dim : tn::getDims(value.getType())) {
    dims.push_back(tn::evaluate(dim, symbols).value_or(0));
  }
  return reference::Tensor::create(*reference::dtypeOf(getElementTypeOrSelf(value)), dims);
}

Result<Tensors> runRegion(tn::RegionOp region, ArrayRef<reference::Tensor> operands,
                          ArrayRef<int64_t> symbols, const RegionRunner &runner) {
  codegen::RegionSource source = codegen::outline(region);
  std::vector<int64_t> values;
  for (AffineExpr symbol : source.symbols) {
    values.push_back(*tn::evaluate(symbol, symbols));
  }
  Tensors results;
  for (Value result : region.getResults()) {
    TENON_ASSIGN(reference::Tensor empty, emptyLike(result, symbols));
    results.push_back(std::move(empty));
  }
  return runner(source, operands, results, values);
}

} // namespace

Result<Tensors> walkRegions(func::FuncOp function, tn::WeightStore &weights, const Tensors &inputs,
                            const RegionRunner &runner, int &count) {
  TENON_ASSIGN(SmallVector<int64_t> symbols, reference::bindSymbols(function, inputs));
  Status status;
  count = 0;
  reference::Hooks hooks;
  hooks.reuse = [&](Operation *op, ArrayRef<reference::Tensor> operands) -> std::optional<Tensors> {
    tn::RegionOp region = dyn_cast<tn::RegionOp>(op);
    if (!region || !status.isOk()) {
      return std::nullopt;
    }
    ++count;
    Result<Tensors> results = runRegion(region, operands, symbols, runner);
    if (!results) {
      status = results.takeStatus();
      return std::nullopt;
    }
    return std::move(*results);
  };
  reference::Interpreter interpreter(&weights, {.threads = 1});
  TENON_ASSIGN(Tensors results, interpreter.evaluate(function, inputs, hooks));
  TENON_TRY(status);
  return results;
}

Result<Tensors> runRegionCode(const codegen::RegionSource &source, engine::CpuLevel level,
                              ArrayRef<reference::Tensor> operands, const Tensors &results,
                              const std::vector<int64_t> &symbols) {
  llvm::Expected<codegen::cpu::Kernel> kernel =
      codegen::cpu::compileRegion(codegen::selectedForCpu(source.text, level), "tested", level);
  if (!kernel) {
    return Status::error(ErrorId::InternalError,
                         strCat(llvm::toString(kernel.takeError()), " in\n", source.text));
  }
  return codegen::cpu::runKernel(*kernel, level, operands, results, symbols, /*pieces=*/2);
}

} // namespace tenon::ops
