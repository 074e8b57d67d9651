// Counts bytes and work by the operations' own expressions. Relies on graph/Flops.h.
#include "compiler/shard/Costs.h"

#include "compiler/graph/Flops.h"
#include "compiler/graph/StoredBits.h"
#include "compiler/graph/TnRare.h"

#include <algorithm>

using namespace mlir;

namespace tenon::shard {
namespace {

constexpr double kOfZeros = 1e-10;

double valueOf(AffineExpr expression, ArrayRef<int64_t> symbols) {
  std::optional<int64_t> value = expression ? tn::evaluate(expression, symbols) : std::nullopt;
  return value ? static_cast<double>(*value) : 0;
}

/// Of the peak of products, what attention reaches: prompts of 2,048 tokens on an H200, 0.65.
constexpr double kAttentionShare = 0.65;
/// It meets several times, also for a token: as many starts of kernels as it takes there (4 us).
constexpr double kAttentionStarts = 4;
/// What a chain of elementwise operations moves, of its result: two operands and the result.
constexpr double kMovedByChain = 3;

/// What a kernel before or behind it computes on the way.
bool isFused(Operation *op) {
  return op->hasTrait<tn::TnElementwise>() || op->hasTrait<tn::TnStoredForm>() ||
         (op->hasTrait<tn::TnMovement>() && !isa<tn::GatherOp>(op)) ||
         isa<tn::IotaOp, tn::SizesOp>(op);
}

/// Writes of few rows into what a session keeps.
bool isWrite(Operation *op) {
  return isa<tn::ScatterNdOp, tn::ScatterElementsOp, tn::PagedWriteOp>(op);
}

/// The end of a chain of elementwise operations: others run in the same kernel.
bool endsChain(Operation *op) {
  return llvm::any_of(op->getUsers(),
                      [](Operation *user) { return !user->hasTrait<tn::TnElementwise>(); });
}

/// Whether it has a kernel of its own: products of one matrix of rows have one together.
bool startsKernel(Operation *op) {
  return !op->hasTrait<tn::TnContraction>() ||
         llvm::none_of(op->getOperand(0).getUsers(), [&](Operation *user) {
           return user != op && user->hasTrait<tn::TnContraction>() &&
                  user->getOperand(0) == op->getOperand(0) && user->isBeforeInBlock(op);
         });
}

} // namespace

int64_t Costs::bytesOfElement(Type element) const {
  int64_t bits = element.isIntOrFloat() ? element.getIntOrFloatBitWidth() : 8;
  return isHalf && element.isF32() ? 2 : std::max<int64_t>(bits / 8, 1);
}

int64_t Costs::bytesOf(Value value) const {
  RankedTensorType type = cast<RankedTensorType>(value.getType());
  double count = valueOf(tn::elementCount(type.getContext(), tn::getDims(type)), symbols);
  return static_cast<int64_t>(count) * bytesOfElement(type.getElementType());
}

int64_t Costs::bytesOfWeight(tn::WeightOp weight) const {
  RankedTensorType type = cast<RankedTensorType>(weight.getResult().getType());
  if (IntegerAttr bits = weight->getAttrOfType<IntegerAttr>(tn::kStoredBits)) {
    return type.getNumElements() * bits.getInt() / 8;
  }
  return type.getNumElements() * bytesOfElement(type.getElementType());
}

int64_t Costs::bytesOfConstant(Value constant) const {
  int64_t bytes = 0;
  for (tn::WeightOp weight : graph.weightsOf(constant)) {
    bytes += bytesOfWeight(weight);
  }
  return bytes;
}

double Costs::seconds(Operation *op, const Strategy &strategy) const {
  if (isFused(op) || op->getNumResults() == 0) {
    return 0;
  }
  if (isWrite(op)) {
    return target.launchSeconds;
  }
  double bytes = 0, work = valueOf(tn::flopsOf(op), symbols);
  for (auto [value, state] : llvm::zip_equal(op->getResults(), strategy.results)) {
    bytes += static_cast<double>(bytesOf(value)) * shareOf(state, ranks);
  }
  bool isTable = isa<tn::GatherOp>(op);
  bytes *= isTable ? 2 : 1; // of a table it reads the rows that it writes
  bool isCut = false;
  for (auto [value, state] : llvm::zip_equal(op->getOperands(), strategy.operands)) {
    isCut |= state.isSplit();
    int64_t own = graph.isConstant(value) && !graph.weightsOf(value).empty()
                      ? bytesOfConstant(value)
                      : bytesOf(value);
    bytes += isTable ? 0 : static_cast<double>(own) * shareOf(state, ranks);
  }
  work /= isCut ? static_cast<double>(ranks) : 1;
  Type element = cast<RankedTensorType>(op->getResult(0).getType()).getElementType();
  bool isNarrow = element.isF16() || element.isBF16() || (isHalf && element.isF32());
  double peak = op->hasTrait<tn::TnContraction>() && isNarrow ? target.halfPeak : target.peak;
  double start = startsKernel(op) ? target.launchSeconds : 0;
  if (!isa<tn::AttentionOp, tn::PagedAttentionOp>(op)) {
    return start + std::max(bytes / target.memoryBandwidth, work / peak);
  }
  peak *= kAttentionShare;
  start *= kAttentionStarts;
  return start + std::max(bytes / target.memoryBandwidth, work / peak);
}

double Costs::loopSeconds(Operation *op, const Strategy &strategy) const {
  if (!op->hasTrait<tn::TnElementwise>() || !endsChain(op)) {
    return 0;
  }
  double own = static_cast<double>(bytesOf(op->getResult(0)));
  return kMovedByChain * own * shareOf(strategy.results.front(), ranks) / target.memoryBandwidth;
}

Costs::Message Costs::convert(Value value, const State &from, const State &to) const {
  if (from == to || from.isReplicated()) {
    // Zeros on the other ranks: worth it only where it saves a message.
    return {std::nullopt, 0, from == to || !to.isPartial() ? 0 : kOfZeros};
  }
  Message message;
  message.kind = from.isPartial() ? target::Collective::AllReduce : target::Collective::AllGather;
  message.bytes = bytesOf(value);
  message.seconds = collectives.seconds(*message.kind, message.bytes, ranks);
  return message;
}

} // namespace tenon::shard
