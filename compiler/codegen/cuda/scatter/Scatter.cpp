// The family of scatters: which regions it takes, where updates go, and what it costs. Relies on a
// scatter being a region of its own, whose result may lie over its data.
#include "compiler/codegen/cuda/scatter/Scatter.h"

#include "compiler/codegen/common/lower/ElementFn.h"
#include "compiler/codegen/common/math/ScalarBody.h"
#include "compiler/codegen/cuda/KernelFamily.h"
#include "compiler/codegen/cuda/base/ElementRun.h"
#include "compiler/dispatch/Strategy.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/TypeUtilities.h"

#include <numeric>

using namespace mlir;

namespace tenon::codegen::cuda {
namespace {

/// What tells them apart: tn.scatter_elements has an axis.
void readShape(ScatterWork &work, MLIRContext *context, Type data, Type indices, Type updates) {
  work.tn = getElementTypeOrSelf(data);
  work.element = storageType(work.tn);
  work.index = storageType(getElementTypeOrSelf(indices));
  work.data = tn::getDims(data);
  work.updates = tn::getDims(updates);
  ArrayRef<AffineExpr> dims(work.data);
  if (work.axis) {
    work.count = tn::elementCount(context, work.updates);
    work.slice = getAffineConstantExpr(1, context);
    work.places = tn::elementCount(context, dims);
    return;
  }
  tn::Dims indexDims = tn::getDims(indices);
  work.tuple = tn::constantDim(indexDims.back()).value_or(0);
  work.count = tn::elementCount(context, ArrayRef(indexDims).drop_back());
  work.slice = tn::elementCount(context, dims.drop_front(work.tuple));
  work.places = tn::elementCount(context, dims.take_front(work.tuple));
}

/// Whether 32 bits number all updates and places.
bool isNumbered(RegionBuilder &region, const ScatterWork &work) {
  constexpr int64_t most = INT32_MAX;
  return tn::constantDim(work.count).value_or(0) <= most &&
         tn::constantDim(work.places).value_or(0) <= most;
}

} // namespace

int64_t ScatterWork::lanes() const {
  return std::gcd(tn::constantDim(slice).value_or(1), lanesOf(element));
}

std::optional<ScatterWork> scatterOf(RegionBuilder &region) {
  Operation *op = region.source.getBody().front().getTerminator()->getOperand(0).getDefiningOp();
  bool isScatter = isa_and_nonnull<tn::ScatterElementsOp, tn::ScatterNdOp>(op);
  if (!isScatter || region.source.getNumResults() != 1 ||
      !llvm::all_of(op->getOperands(), llvm::IsaPred<BlockArgument>)) {
    return std::nullopt;
  }
  ScatterWork work;
  if (tn::ScatterElementsOp elements = dyn_cast<tn::ScatterElementsOp>(op)) {
    work.axis = elements.getAxis();
    work.kind = elements.getKind();
  } else {
    work.kind = cast<tn::ScatterNdOp>(op).getKind();
  }
  auto buffer = [&](unsigned i) {
    return region.input(cast<BlockArgument>(op->getOperand(i)).getArgNumber());
  };
  work.positions = op->getOperand(1);
  work.input = buffer(0);
  work.indices = buffer(1);
  work.from = buffer(2);
  work.output = region.output(0);
  readShape(work, op->getContext(), op->getOperand(0).getType(), op->getOperand(1).getType(),
            op->getOperand(2).getType());
  bool isKnown = work.tuple > 0 && isNumbered(region, work) && !tn::isEmpty(op->getOperand(0));
  return isKnown ? std::optional(work) : std::nullopt;
}

Value placeOf(const ThreadBuilder &t, KernelFrame &frame, const ScatterWork &work, unsigned indices,
              Value update) {
  OpBuilder &builder = t.builder;
  Type index = builder.getIndexType();
  auto chosen = [&](Value at, size_t dim) -> Value {
    Value element =
        t.load(work.index, t.offset(frame.buffer(indices), work.index, at), byteSize(work.index));
    Value size =
        arith::IndexCastOp::create(builder, t.location, index, frame.size64(work.data[dim]));
    Value held = indexInDim(builder, t.location, work.positions, element, work.data[dim], size);
    return arith::IndexCastOp::create(builder, t.location, t.i64Type(), held);
  };
  Value place = t.i64(0);
  if (!work.axis) {
    for (int64_t i = 0; i < work.tuple; ++i) {
      Value at = t.add(t.mul(update, work.tuple), i);
      place = t.add(t.mul(place, frame.size64(work.data[i])), chosen(at, i));
    }
    return place;
  }
  Value rest = update, stride = t.i64(1);
  for (int64_t dim = static_cast<int64_t>(work.data.size()) - 1; dim >= 0; --dim) {
    Value size = frame.size64(work.updates[dim]);
    Value own = dim == *work.axis ? chosen(update, dim) : t.rem(rest, size);
    place = t.add(place, t.mul(own, stride));
    rest = t.div(rest, size);
    stride = t.mul(stride, frame.size64(work.data[dim]));
  }
  return place;
}

namespace {

FamilyMatch matchScatter(RegionBuilder &region) {
  std::optional<ScatterWork> work = scatterOf(region);
  if (!work) {
    return FamilyMatch::refuse("it is no scatter of inputs");
  }
  return FamilyMatch::take(*work, {kScatter.name.str(), {}},
                           work->kind == tn::ScatterKind::none
                               ? "updates claim their places, an only one goes to its own"
                               : "updates are sorted by their places");
}

/// A claim is three accesses at any place; a digit of a sort moves keys and numbers, and counts.
double scatterSeconds(RegionBuilder &region, const ScatterWork &work,
                      const dispatch::KernelChoice &) {
  double count = double(region.estimate(work.count)), slice = double(region.estimate(work.slice));
  double bytes = double(byteSize(work.element)), access = 32;
  double data = double(region.estimate(work.places)) * slice * bytes;
  double updates = count * (slice * 2 * bytes + double(work.tuple * byteSize(work.index)));
  bool isSorted = work.kind != tn::ScatterKind::none;
  double digits = isSorted ? std::ceil(std::log2(std::max(data / bytes / slice, 2.0)) / 8) : 1;
  double moved = 2 * data + updates + count * access * digits * (isSorted ? 1 : 3);
  double kernels = isSorted ? 2 + 4 * digits : count > 1 ? 4 : 1;
  return moved / region.gpu.memoryBandwidth + kernels * region.gpu.launchSeconds;
}

LogicalResult emitScatterSteps(RegionBuilder &region, const ScatterWork &work,
                               const dispatch::KernelChoice &) {
  emitScatter(region, work);
  return success();
}

} // namespace

constexpr KernelFamily kScatter = {
    .name = "scatter",
    .what = "scatters in the order of the updates: the last claims its place unless it is the only "
            "one, or updates are sorted by their places and combined by a thread each",
    .strategies = {dispatch::kSingle},
    .needs = {"scatter"},
    .match = matchScatter,
    .seconds = on<scatterSeconds>,
    .emit = on<emitScatterSteps>};

} // namespace tenon::codegen::cuda
