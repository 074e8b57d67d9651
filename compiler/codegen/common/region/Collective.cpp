// Relies on compiler/shard leaving collectives that need no order of elements but that of ranks.
#include "compiler/codegen/common/region/Collective.h"

#include "compiler/codegen/common/region/Programs.h"
#include "compiler/dispatch/Cost.h"
#include "compiler/graph/ElementType.h"
#include "compiler/graph/Shape.h"
#include "compiler/graph/TnShard.h"
#include "compiler/target/Collectives.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;

namespace tenon::codegen {
namespace {

bool isExchange(Operation &op) {
  return isa<tn::AllReduceOp, tn::AllGatherOp, tn::SendReceiveOp>(op);
}

Operation *collectiveOf(func::FuncOp source) {
  Block &body = source.getBody().front();
  bool isAlone = llvm::hasSingleElement(body.without_terminator());
  return isAlone && isExchange(body.front()) ? &body.front() : nullptr;
}

} // namespace

bool hasExchange(func::FuncOp source) { return llvm::any_of(source.getBody().front(), isExchange); }

std::optional<RegionStep> collectiveStep(func::FuncOp source) {
  Operation *op = collectiveOf(source);
  std::optional<DType> dtype =
      op ? tn::dtypeOf(getElementTypeOrSelf(op->getOperand(0))) : std::nullopt;
  if (!dtype) {
    return std::nullopt;
  }
  RegionStep step;
  step.collective = {isa<tn::AllReduceOp>(op)     ? engine::CollectiveKind::AllReduce
                     : isa<tn::SendReceiveOp>(op) ? engine::CollectiveKind::SendReceive
                                                  : engine::CollectiveKind::AllGather,
                     *dtype};
  step.buffers = {0, 1};
  step.reads = 1;
  step.sizes = {
      programOf(tn::elementCount(op->getContext(), tn::getDims(op->getOperand(0).getType())))};
  return step;
}

double collectiveSeconds(func::FuncOp source, const target::Target &gpu) {
  Operation *op = collectiveOf(source);
  dispatch::CostModel costs(source->getParentOfType<ModuleOp>(), gpu);
  bool isSum = isa<tn::AllReduceOp>(op);
  IntegerAttr count = op->getAttrOfType<IntegerAttr>("ranks");
  int64_t ranks = count ? count.getInt() : 2;
  return target::Collectives(gpu).seconds(isSum ? target::Collective::AllReduce
                                                : target::Collective::AllGather,
                                          costs.bytesOf(op->getResult(0)), ranks);
}

} // namespace tenon::codegen
