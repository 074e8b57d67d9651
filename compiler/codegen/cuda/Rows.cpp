// Decides how rows are computed: copied ahead to shared memory, in registers, or in loops over
// them.
#include "compiler/codegen/cuda/Rows.h"

#include "compiler/codegen/cuda/Strategies.h"

using namespace mlir;

namespace tenon::codegen::cuda {
namespace {

/// Rows so few and long that each is work for many blocks.
constexpr int64_t kFewRows = 64, kLongRow = int64_t(1) << 18;

} // namespace

dispatch::RowFacts factsOf(RegionBuilder &region, const RowsWork &work) {
  dispatch::RowFacts facts;
  facts.arch = &region.arch;
  facts.length = tn::constantDim(tn::elementCount(region.source.getContext(), work.inner));
  facts.rows = region.estimate(work.rows);
  for (Value input : work.inputs) {
    facts.inputs.push_back(byteSize(getElementTypeOrSelf(input)));
  }
  for (const Root &root : work.wide) {
    facts.results.push_back(byteSize(getElementTypeOrSelf(root.tensor)));
  }
  facts.parameters = work.parameters.size();
  return facts;
}

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
  if (!work) {
    return false;
  }
  bool hasFailed = false;
  dispatch::RowFacts facts = factsOf(region, *work);
  if (std::optional<RowsLayout> layout = dispatch::layoutStaged(facts)) {
    layout->keepsReads = dispatch::keepsReads(facts, *layout);
    emitRowsStaged(region, *work, *layout, hasFailed);
  } else if (std::optional<RowsLayout> layout = dispatch::layoutInRegisters(facts)) {
    layout->keepsReads = dispatch::keepsReads(facts, *layout);
    emitRowsInRegisters(region, *work, *layout, hasFailed);
  } else if (region.estimate(work->rows) < kFewRows && region.estimate(work->inner) > kLongRow) {
    return false;
  } else {
    emitRowsInLoops(region, *work, hasFailed);
  }
  return hasFailed ? FailureOr<bool>(failure()) : FailureOr<bool>(true);
}

} // namespace tenon::codegen::cuda
