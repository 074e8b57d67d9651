// Decides how rows are computed: in registers, or in loops over them.
#include "compiler/codegen/cuda/Rows.h"

#include "compiler/codegen/cuda/Strategies.h"

using namespace mlir;

namespace tenon::codegen::cuda {

FailureOr<bool> emitRows(RegionBuilder &region) {
  FailureOr<func::FuncOp> function = region.linalg();
  if (failed(function)) {
    return failure();
  }
  SmallVector<Root> roots;
  for (auto [i, value] :
       llvm::enumerate(function->getBody().front().getTerminator()->getOperands())) {
    roots.push_back({value, region.output(i)});
  }
  std::optional<RowsWork> work = findRowsWork(region, roots);
  std::optional<RowsLayout> layout = work ? layoutInRegisters(region, *work) : std::nullopt;
  if (!layout) {
    return false;
  }
  bool hasFailed = false;
  emitRowsInRegisters(region, *work, *layout, hasFailed);
  return hasFailed ? FailureOr<bool>(failure()) : FailureOr<bool>(true);
}

} // namespace tenon::codegen::cuda
