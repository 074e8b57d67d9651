// What the pointwise family costs: bytes and operations, and what one thread does alone.
#include "compiler/codegen/common/lower/Ranked.h"
#include "compiler/codegen/cuda/pointwise/Schedule.h"
#include "compiler/codegen/cuda/pointwise/Tuning.h"
#include "compiler/dispatch/Cost.h"
#include "compiler/dispatch/OpKinds.h"

using namespace mlir;

namespace tenon::codegen::cuda {
namespace {

/// Seconds in which a thread goes through a row of each tensor that is read there; nothing for
/// reductions, which many threads share.
double rowSeconds(RegionBuilder &region, Operation &op) {
  tn::Dims dims = op.getNumOperands() ? tn::getDims(op.getOperand(0).getType()) : tn::Dims();
  if (!op.hasTrait<tn::TnRowWise>() || dims.empty() ||
      !tn::sameDims(dims, dispatch::resultDims(&op))) {
    return 0;
  }
  int64_t tensors = llvm::count_if(region.source.getArgumentTypes(), [&](Type type) {
    return tn::sameDims(tn::getDims(type), dims);
  });
  return tuning::kRowElementSeconds * double(region.estimate(dims.back())) *
         double(std::max<int64_t>(tensors, 1));
}

/// Seconds of what one thread does in order for others that it does not share it with: updates of a
/// scatter that may meet, and passes over an axis.
double orderSeconds(RegionBuilder &region, Operation &op) {
  auto sizeOf = [&](Value value, int64_t axis) {
    return double(region.estimate(tn::getDims(value.getType())[axis]));
  };
  if (tn::ScatterElementsOp scatter = dyn_cast<tn::ScatterElementsOp>(op)) {
    return tuning::kNestStepSeconds * sizeOf(scatter.getUpdates(), scatter.getAxis());
  }
  if (tn::ScatterNdOp scatter = dyn_cast<tn::ScatterNdOp>(op)) {
    tn::Dims tuples = tn::getDims(scatter.getIndices().getType());
    return tuning::kNestStepSeconds * double(region.estimate(ArrayRef(tuples).drop_back()));
  }
  if (tn::CumsumOp sums = dyn_cast<tn::CumsumOp>(op)) {
    return tuning::kRowElementSeconds * sizeOf(sums.getX(), sums.getAxis());
  }
  if (tn::TopKOp topK = dyn_cast<tn::TopKOp>(op)) {
    double wanted = sizeOf(topK.getValues(), topK.getAxis());
    double passes = takesMany(topK) ? std::log2(wanted + 1) : wanted;
    return tuning::kRowElementSeconds * passes * sizeOf(topK.getX(), topK.getAxis());
  }
  return 0;
}

} // namespace

/// A thread goes through all that an element of its result reads; what is reduced over rows is
/// stored and read again by a kernel of its own.
dispatch::TimeParts pointwiseParts(RegionBuilder &region) {
  Block &body = region.source.getBody().front();
  dispatch::Cost cost = dispatch::costOfRegion(body, region.gpu, /*isGenerated=*/true);
  dispatch::CostModel costs(body.getParentOp()->getParentOfType<ModuleOp>(), region.gpu);
  double loops = 0;
  for (Operation &op : body.without_terminator()) {
    double products = op.hasTrait<tn::TnContraction>() ? costs.workOf(&op) : 0;
    loops += products / (region.gpu.peak * tuning::kLoopShare) + rowSeconds(region, op) +
             orderSeconds(region, op);
  }
  auto isReduced = [](Operation &op) { return op.hasTrait<tn::TnRowWise>(); };
  double kernels = 1 + static_cast<double>(llvm::count_if(body, isReduced));
  double start = region.gpu.launchSeconds, lost = cost.lostMicroseconds * 1e-6;
  dispatch::TimeParts time;
  if (loops > kernels * cost.microseconds * 1e-6) {
    time.add("loops", loops);
    return time;
  }
  bool isBytes = cost.bytesMicroseconds >= cost.workMicroseconds;
  time.add("start", kernels * start);
  time.add(isBytes ? "bytes" : "arithmetic", kernels * (cost.microseconds * 1e-6 - start - lost));
  time.add("occupancy", kernels * lost);
  return time;
}

double pointwiseSeconds(RegionBuilder &region) {
  return pointwiseParts(region).microseconds() * 1e-6;
}

} // namespace tenon::codegen::cuda
