// Builds the conditions of data-dependent sizes from `tn` operations; `tn.require` ends a run where
// one fails. Relies on the result of `tn.require` standing for the value wherever it is used.
#include "compiler/frontend/onnx/StatedSizes.h"

using namespace mlir;

namespace tenon::onnx {

Value requireCondition(NodeContext &c, Value x, Value condition, const Twine &what) {
  if (!x || !condition || c.failed()) {
    return Value();
  }
  return c.make<tn::RequireOp>(x, condition, tn::Failure::constraint, what.str());
}

Value requireLengths(NodeContext &c, Value lengths, AffineExpr most, const Twine &what) {
  if (!lengths || c.failed()) {
    return Value();
  }
  Type index = c.builder().getI64Type();
  Value isLess = c.compare(lengths, tn::Predicate::lt, c.scalar(0, index));
  Value isMore = c.compare(lengths, tn::Predicate::gt, c.sizeValue(most, index));
  int64_t rank = cast<RankedTensorType>(lengths.getType()).getRank();
  Value misses =
      c.reduce(tn::ReduceKind::sum,
               c.select(c.make<tn::OrOp>(isLess, isMore), c.scalar(1, index), c.scalar(0, index)),
               llvm::to_vector(llvm::seq<int64_t>(0, rank)), false);
  return requireCondition(c, lengths, c.compare(misses, tn::Predicate::eq, c.scalar(0, index)),
                          what);
}

Value requireData(NodeContext &c, Value x, unsigned input, ArrayRef<Sizes> allowed,
                  const Twine &what) {
  int64_t count = static_cast<int64_t>(allowed.front().values.size());
  Type index = c.builder().getI64Type();
  Value data = c.value(input);
  if (!data || cast<RankedTensorType>(data.getType()).getNumElements() != count) {
    c.gap("the " + what + " cannot be checked against the shape that the model states",
          "make it a constant and export again");
    return Value();
  }
  data = c.reshape(c.cast(data, index), {c.constantSize(count)});
  Value fits;
  for (const Sizes &list : allowed) {
    Value equal =
        c.compare(data, tn::Predicate::eq, c.materialize(Sizes::list(list.values), index));
    fits = fits ? c.make<tn::OrOp>(fits, equal) : equal;
  }
  Value misses =
      c.reduce(tn::ReduceKind::sum, c.select(fits, c.scalar(0, index), c.scalar(1, index)), {0},
               /*keepdims=*/false);
  return requireCondition(c, x, c.compare(misses, tn::Predicate::eq, c.scalar(0, index)),
                          "the " + what + " gives the shape that the model states for '" +
                              StringRef(c.node.outputs[0]) + "'");
}

namespace {

tn::Dims withoutOnes(ArrayRef<AffineExpr> dims) {
  tn::Dims rest(dims);
  llvm::erase_if(rest, [](AffineExpr dim) { return tn::constantDim(dim) == 1; });
  return rest;
}

} // namespace

Value requireAxesOfOne(NodeContext &c, Value x, unsigned input, ArrayRef<AffineExpr> longer,
                       ArrayRef<AffineExpr> shorter) {
  size_t count = longer.size() - std::min(longer.size(), shorter.size());
  if (!tn::sameDims(withoutOnes(longer), withoutOnes(shorter))) {
    c.gap("the list of axes is not a constant",
          "make the list of axes a constant and export again");
    return Value();
  }
  SmallVector<Sizes> allowed;
  for (auto [axis, dim] : llvm::enumerate(longer)) {
    if (tn::constantDim(dim) == 1) {
      for (int64_t spelled : {static_cast<int64_t>(axis),
                              static_cast<int64_t>(axis) - static_cast<int64_t>(longer.size())}) {
        allowed.push_back(Sizes::list(SmallVector<AffineExpr>(count, c.constantSize(spelled))));
      }
    }
  }
  if (allowed.empty()) {
    return x;
  }
  return requireData(c, x, input, allowed, "list of axes");
}

} // namespace tenon::onnx
