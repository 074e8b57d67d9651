// Reductions, softmax and what normalizes rows.
#include "compiler/frontend/tflite/Node.h"

using namespace mlir;

namespace tenon::tflite {
namespace {

template <tn::ReduceKind kind> void reduction(Node &c) {
  const fb::ReducerOptions *options = c.options(c.op.options_as_ReducerOptions());
  mlir::Value x = c.value(0);
  std::optional<SmallVector<int64_t>> given = c.integers(1);
  if (!options || !x || !given) {
    return;
  }
  llvm::SmallSetVector<int64_t, 4> axes;
  for (int64_t axis : *given) {
    std::optional<int64_t> normal = c.axis(axis, c.rank(x));
    if (!normal) {
      return;
    }
    axes.insert(*normal);
  }
  SmallVector<int64_t> sorted = axes.takeVector();
  llvm::sort(sorted);
  c.setOutput(sorted.empty() ? x : c.reduce(kind, x, sorted, options->keeps_dims()));
}

void softmax(Node &c) {
  const fb::SoftmaxOptions *options = c.options(c.op.options_as_SoftmaxOptions());
  mlir::Value x = c.value(0);
  if (!options || !x) {
    return;
  }
  if (c.rank(x) == 0) {
    return c.error(ErrorId::OnnxBadNode, "its operand has no dims");
  }
  if (options->beta() != 1) {
    x = c.mul(x, c.scalarLike(options->beta(), x));
  }
  c.setOutput(x ? c.makeTyped<tn::SoftmaxOp>(x.getType(), x, c.rank(x) - 1, false) : x);
}

void logSoftmax(Node &c) {
  mlir::Value x = c.value(0);
  if (x && c.rank(x) > 0) {
    c.setOutput(c.makeTyped<tn::SoftmaxOp>(x.getType(), x, c.rank(x) - 1, true));
  }
}

void l2Normalization(Node &c) {
  mlir::Value x = c.value(0);
  if (!x || c.rank(x) == 0) {
    return;
  }
  constexpr double kLeast = 1e-6;
  mlir::Value length =
      c.unary<tn::SqrtOp>(c.reduce(tn::ReduceKind::sum, c.mul(x, x), {c.rank(x) - 1}, true));
  c.setOutput(c.div(x, c.max(length, c.scalarLike(kLeast, x))));
}

template <bool isLargest> void argument(Node &c) {
  mlir::Value x = c.stored(0);
  std::optional<SmallVector<int64_t>> given = c.integers(1);
  if (!x || !given) {
    return;
  }
  if (given->size() != 1) {
    return c.error(ErrorId::OnnxBadNode, "its axis is not one number");
  }
  std::optional<int64_t> axis = c.axis(given->front(), c.rank(x));
  std::optional<DType> type = typeOf(c.output(0));
  if (axis && type) {
    mlir::Value y = c.make<tn::ArgReduceOp>(x, *axis, false, isLargest, false);
    c.setOutput(y ? c.cast(y, c.importer().elementType(*type)) : y);
  }
}

} // namespace

llvm::ArrayRef<OpRow> reductionRows() {
  static constexpr OpRow kRows[] = {
      {"ARG_MAX", 2, argument<true>},
      {"ARG_MIN", 2, argument<false>},
      {"L2_NORMALIZATION", 1, l2Normalization},
      {"LOG_SOFTMAX", 1, logSoftmax},
      {"MEAN", 2, reduction<tn::ReduceKind::mean>},
      {"REDUCE_MAX", 2, reduction<tn::ReduceKind::max>},
      {"REDUCE_MIN", 2, reduction<tn::ReduceKind::min>},
      {"REDUCE_PROD", 2, reduction<tn::ReduceKind::prod>},
      {"SOFTMAX", 1, softmax},
      {"SUM", 2, reduction<tn::ReduceKind::sum>},
  };
  return kRows;
}

} // namespace tenon::tflite
