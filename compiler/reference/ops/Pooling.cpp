// Evaluates pooling: each result element looks at its window of the data.
// Relies on padding never being read: it counts only where the operation says so.
#include "compiler/reference/Evaluation.h"

#include <limits>

using namespace mlir;

namespace tenon::reference {
namespace {

/// The attributes of a pool in one place, whichever operation it is.
struct Pool {
  llvm::ArrayRef<int64_t> kernel, strides, pads, dilations;
  size_t firstSpatial;
  bool average;
  bool countPadding;
};

/// Sums or takes the largest of one window whose first tap lies at `origin`.
template <typename T> struct WindowResult {
  Wide<T> value;
  int64_t taps = 0;   ///< inside the data
  int64_t padded = 0; ///< inside the data or its padding
};

template <typename T>
WindowResult<T> visitWindow(const Tensor &x, const Pool &pool, const Sizes &strides,
                            llvm::ArrayRef<int64_t> origin, int64_t base) {
  WindowResult<T> result;
  Wide<T> lowest = std::is_same_v<Wide<T>, double>
                       ? Wide<T>(-std::numeric_limits<double>::infinity())
                       : Wide<T>(widen(std::numeric_limits<T>::min()));
  result.value = pool.average ? Wide<T>(0) : lowest;
  size_t spatial = pool.kernel.size();
  Sizes none(spatial, 0);
  Walker<1> tap(pool.kernel, {none}, 0);
  for (int64_t k = 0; k < productOf(pool.kernel); ++k, tap.next()) {
    bool inside = true;
    bool counted = true;
    int64_t offset = base;
    for (size_t d = 0; d < spatial; ++d) {
      int64_t size = x.dims()[pool.firstSpatial + d];
      int64_t at = origin[d] + tap.at(d) * pool.dilations[d];
      inside &= at >= 0 && at < size;
      counted &= at >= -pool.pads[d] && at < size + pool.pads[spatial + d];
      offset += at * strides[pool.firstSpatial + d];
    }
    result.padded += counted;
    if (!inside) {
      continue;
    }
    ++result.taps;
    Wide<T> value = widen(x.as<T>()[offset]);
    if (pool.average) {
      result.value += value;
    } else {
      // A NaN is the largest.
      result.value = result.value >= value || result.value != result.value ? result.value : value;
    }
  }
  return result;
}

Status evaluatePool(Evaluation &evaluation, const Pool &pool) {
  const Tensor &x = evaluation.operands[0];
  TENON_ASSIGN(Tensor y, evaluation.makeResult());
  Sizes strides = stridesOf(x.dims());
  Sizes outer = strides;
  for (size_t d = 0; d < pool.kernel.size(); ++d) {
    outer[pool.firstSpatial + d] = 0;
  }
  TENON_TRY(visitElement(x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::Type;
    if constexpr (std::is_same_v<T, Bool>) {
      return unsupportedType(DType::Bool);
    } else {
      evaluation.pool.parallelFor(y.count(), [&](int64_t begin, int64_t end, unsigned) {
        Walker<1> walker(y.dims(), {outer}, begin);
        Sizes origin(pool.kernel.size());
        for (int64_t i = begin; i < end; ++i, walker.next()) {
          for (size_t d = 0; d < origin.size(); ++d) {
            origin[d] = walker.at(pool.firstSpatial + d) * pool.strides[d] - pool.pads[d];
          }
          WindowResult<T> window = visitWindow<T>(x, pool, strides, origin, walker.offset());
          int64_t divisor = pool.countPadding ? window.padded : window.taps;
          y.as<T>()[i] = narrow<T>(
              pool.average ? Wide<T>(window.value / Wide<T>(std::max<int64_t>(divisor, 1)))
                           : window.value);
        }
      });
      return Status::ok();
    }
  }));
  return evaluation.finish(std::move(y));
}

Status evaluateMaxPool(Evaluation &evaluation) {
  tn::MaxPoolOp op = cast<tn::MaxPoolOp>(evaluation.op);
  return evaluatePool(evaluation, {op.getKernel(), op.getStrides(), op.getPads(), op.getDilations(),
                                   size_t(op.getChannelsLast() ? 1 : 2), false, false});
}

Status evaluateAvgPool(Evaluation &evaluation) {
  tn::AvgPoolOp op = cast<tn::AvgPoolOp>(evaluation.op);
  return evaluatePool(evaluation,
                      {op.getKernel(), op.getStrides(), op.getPads(), op.getDilations(),
                       size_t(op.getChannelsLast() ? 1 : 2), true, op.getCountIncludePad()});
}

constexpr OpRow kPoolingOpRows[] = {
    {"tn.max_pool", evaluateMaxPool},
    {"tn.avg_pool", evaluateAvgPool},
};

} // namespace

llvm::ArrayRef<OpRow> poolingOps() { return kPoolingOpRows; }

} // namespace tenon::reference
