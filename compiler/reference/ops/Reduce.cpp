// Evaluates reductions, index reductions, running sums and softmax along axes.
// Relies on doubles for sums of floats; integers wrap.
#include "compiler/reference/Evaluation.h"

#include <limits>

using namespace mlir;

namespace tenon::reference {
namespace {

/// The kept and the reduced part of a tensor's dims, with the strides of the tensor.
struct Split {
  Sizes keptDims, keptStrides;
  Sizes reducedDims, reducedStrides;
};

Split splitAxes(const Tensor &x, llvm::ArrayRef<int64_t> axes) {
  Split split;
  Sizes strides = stridesOf(x.dims());
  for (int64_t i = 0; i < x.rank(); ++i) {
    bool reduced = llvm::is_contained(axes, i);
    (reduced ? split.reducedDims : split.keptDims).push_back(x.dims()[i]);
    (reduced ? split.reducedStrides : split.keptStrides).push_back(strides[i]);
  }
  return split;
}

template <typename W> W largest() {
  return std::is_same_v<W, double> ? W(std::numeric_limits<double>::infinity())
                                   : std::numeric_limits<W>::max();
}
template <typename W> W lowest() {
  return std::is_same_v<W, double> ? W(-std::numeric_limits<double>::infinity())
                                   : std::numeric_limits<W>::min();
}

template <typename T, typename W> W neutral(tn::ReduceKind kind) {
  switch (kind) {
  case tn::ReduceKind::sum:
  case tn::ReduceKind::mean:
    return 0;
  case tn::ReduceKind::prod:
    return 1;
  case tn::ReduceKind::max:
    return kIsFloat<T> ? lowest<W>() : W(widen(std::numeric_limits<T>::min()));
  case tn::ReduceKind::min:
    return kIsFloat<T> ? largest<W>() : W(widen(std::numeric_limits<T>::max()));
  }
  return 0;
}

template <typename W> W combine(tn::ReduceKind kind, W sum, W value) {
  using Wrapping = std::conditional_t<std::is_same_v<W, double>, W, uint64_t>;
  switch (kind) {
  case tn::ReduceKind::sum:
  case tn::ReduceKind::mean:
    return W(Wrapping(sum) + Wrapping(value));
  case tn::ReduceKind::prod:
    return W(Wrapping(sum) * Wrapping(value));
  case tn::ReduceKind::max:
    return sum > value || sum != sum ? sum : value;
  case tn::ReduceKind::min:
    return sum < value || sum != sum ? sum : value;
  }
  return sum;
}

template <typename T>
void reduceRange(const Tensor &x, Tensor &y, const Split &split, tn::ReduceKind kind, int64_t begin,
                 int64_t end) {
  using W = Wide<T>;
  int64_t count = productOf(split.reducedDims);
  Walker<1> kept(split.keptDims, {split.keptStrides}, begin);
  for (int64_t i = begin; i < end; ++i, kept.next()) {
    W sum = neutral<T, W>(kind);
    Walker<1> reduced(split.reducedDims, {split.reducedStrides}, 0);
    for (int64_t k = 0; k < count; ++k, reduced.next()) {
      sum = combine<W>(kind, sum, widen(x.as<T>()[kept.offset() + reduced.offset()]));
    }
    y.as<T>()[i] = narrow<T>(kind == tn::ReduceKind::mean ? W(sum / W(count)) : sum);
  }
}

Status evaluateReduce(Evaluation &evaluation) {
  tn::ReduceOp op = cast<tn::ReduceOp>(evaluation.op);
  const Tensor &x = evaluation.operands[0];
  TENON_ASSIGN(Tensor y, evaluation.makeResult());
  Split split = splitAxes(x, op.getAxes());
  if (productOf(split.keptDims) != y.count()) {
    return badOperand("the result's shape does not follow from the operand's");
  }
  bool isMean = op.getKind() == tn::ReduceKind::mean;
  if (isMean && !isFloat(x.dtype()) && productOf(split.reducedDims) == 0 && y.count() != 0) {
    return Status::error(ErrorId::RunBadArithmetic, "the integer mean of no elements");
  }
  auto run = [&](auto tag) {
    using T = typename decltype(tag)::Type;
    evaluation.pool.parallelFor(y.count(), [&](int64_t begin, int64_t end, unsigned) {
      reduceRange<T>(x, y, split, op.getKind(), begin, end);
    });
    return Status::ok();
  };
  TENON_TRY(isFloat(x.dtype()) ? visitFloat(x.dtype(), run) : visitInteger(x.dtype(), run));
  return evaluation.finish(std::move(y));
}

Status evaluateArgReduce(Evaluation &evaluation) {
  tn::ArgReduceOp op = cast<tn::ArgReduceOp>(evaluation.op);
  const Tensor &x = evaluation.operands[0];
  TENON_ASSIGN(Tensor y, evaluation.makeResult());
  int64_t axis = op.getAxis();
  Split split = splitAxes(x, axis);
  int64_t size = x.dims()[axis];
  if (productOf(split.keptDims) != y.count() || (size == 0 && y.count() != 0)) {
    return badOperand("there is no element along the axis");
  }
  bool last = op.getLastIndex();
  bool largest = op.getLargest();
  TENON_TRY(visitElement(x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::Type;
    Walker<1> kept(split.keptDims, {split.keptStrides}, 0);
    for (int64_t i = 0; i < y.count(); ++i, kept.next()) {
      int64_t best = 0;
      Wide<T> bestValue = widen(x.as<T>()[kept.offset()]);
      for (int64_t k = 1; k < size; ++k) {
        Wide<T> value = widen(x.as<T>()[kept.offset() + k * split.reducedStrides[0]]);
        // NaN is beyond every number, on either side.
        bool isNan = value != value, bestIsNan = bestValue != bestValue;
        bool better = isNan ? !bestIsNan : largest ? value > bestValue : value < bestValue;
        if (better || (last && (value == bestValue || (isNan && bestIsNan)))) {
          best = k;
          bestValue = value;
        }
      }
      y.as<int64_t>()[i] = best;
    }
    return Status::ok();
  }));
  return evaluation.finish(std::move(y));
}

Status evaluateCumsum(Evaluation &evaluation) {
  tn::CumsumOp op = cast<tn::CumsumOp>(evaluation.op);
  const Tensor &x = evaluation.operands[0];
  TENON_ASSIGN(Tensor y, evaluation.makeResult());
  Split split = splitAxes(x, int64_t(op.getAxis()));
  int64_t size = split.reducedDims[0];
  TENON_TRY(visitElement(x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::Type;
    using W = Wide<T>;
    Walker<1> kept(split.keptDims, {split.keptStrides}, 0);
    for (int64_t row = 0; size != 0 && row < x.count() / size; ++row, kept.next()) {
      W sum = 0;
      for (int64_t step = 0; step < size; ++step) {
        int64_t k = op.getReverse() ? size - 1 - step : step;
        int64_t offset = kept.offset() + k * split.reducedStrides[0];
        W next = combine<W>(tn::ReduceKind::sum, sum, widen(x.as<T>()[offset]));
        y.as<T>()[offset] = narrow<T>(op.getExclusive() ? sum : next);
        sum = next;
      }
    }
    return Status::ok();
  }));
  return evaluation.finish(std::move(y));
}

template <typename T>
void softmaxRow(const T *in, T *out, int64_t size, int64_t stride, bool logarithm) {
  double most = lowest<double>();
  for (int64_t k = 0; k < size; ++k) {
    most = combine<double>(tn::ReduceKind::max, most, widen(in[k * stride]));
  }
  double sum = 0;
  for (int64_t k = 0; k < size; ++k) {
    sum += std::exp(widen(in[k * stride]) - most);
  }
  for (int64_t k = 0; k < size; ++k) {
    double shifted = widen(in[k * stride]) - most;
    out[k * stride] = narrow<T>(logarithm ? shifted - std::log(sum) : std::exp(shifted) / sum);
  }
}

Status evaluateSoftmax(Evaluation &evaluation) {
  tn::SoftmaxOp op = cast<tn::SoftmaxOp>(evaluation.op);
  const Tensor &x = evaluation.operands[0];
  TENON_ASSIGN(Tensor y, evaluation.makeResult());
  Split split = splitAxes(x, int64_t(op.getAxis()));
  int64_t size = split.reducedDims[0];
  TENON_TRY(visitFloat(x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::Type;
    int64_t rows = size ? x.count() / size : 0;
    evaluation.pool.parallelFor(rows, [&](int64_t begin, int64_t end, unsigned) {
      Walker<1> kept(split.keptDims, {split.keptStrides}, begin);
      for (int64_t row = begin; row < end; ++row, kept.next()) {
        softmaxRow(x.as<T>() + kept.offset(), y.as<T>() + kept.offset(), size,
                   split.reducedStrides[0], op.getLog());
      }
    });
    return Status::ok();
  }));
  return evaluation.finish(std::move(y));
}

constexpr OpRow kReduceOpRows[] = {
    {"tn.reduce", evaluateReduce},
    {"tn.arg_reduce", evaluateArgReduce},
    {"tn.cumsum", evaluateCumsum},
    {"tn.softmax", evaluateSoftmax},
};

} // namespace

llvm::ArrayRef<OpRow> reduceOps() { return kReduceOpRows; }

} // namespace tenon::reference
