// Samples as gathers of single pixels that are weighted and added.
// Relies on `tn.gather_nd` with one batch dim: each map is read at its own points.
#include "compiler/frontend/common/Sampling.h"

#include "mlir/IR/TypeUtilities.h"

using namespace mlir;

namespace tenon::frontend {

bool requireDim(Emitter &c, AffineExpr dim, int64_t size, StringRef what) {
  std::optional<int64_t> known = tn::constantDim(dim);
  if (!known) {
    c.gap(what + " is not a constant", "declare the dimension with --shape");
  } else if (*known != size) {
    c.error(ErrorId::OnnxBadNode,
            what + " is " + Twine(*known) + " where " + Twine(size) + " is needed");
  }
  return known == size;
}

Type sampleType(Emitter &c, Type element) {
  return element.isF64() ? element : Type(c.builder().getF32Type());
}

Value pixelsOf(Emitter &c, Value x) {
  if (!x) {
    return x;
  }
  tn::Dims dims = tn::getDims(x.getType());
  AffineExpr count = c.constantSize(1);
  for (AffineExpr size : ArrayRef<AffineExpr>(dims).drop_front(2)) {
    count = multiplySizes(count, size);
  }
  if (!count) {
    c.gap("the number of its positions cannot be written as an expression",
          "declare the dimensions with --shape");
    return Value();
  }
  return c.transpose(c.reshape(x, {dims[0], dims[1], count}), {0, 2, 1});
}

Value clampPosition(Emitter &c, Value position, AffineExpr size) {
  Value zero = c.scalarLike(0, position);
  Value low = c.select(c.compare(position, tn::Predicate::ge, zero), position, zero);
  Type real = position ? getElementTypeOrSelf(position) : Type();
  return position ? c.min(low, c.sub(c.sizeValue(size, real), c.scalarLike(1, position))) : low;
}

Value pixelNumber(Emitter &c, ArrayRef<Value> indices, ArrayRef<AffineExpr> sizes) {
  Type index = c.builder().getI64Type();
  Value number;
  for (auto [position, size] : llvm::zip_equal(indices, sizes)) {
    Value own = c.cast(clampPosition(c, position, size), index);
    number = number ? c.add(c.mul(number, c.sizeValue(size, index)), own) : own;
  }
  return number;
}

Value isInside(Emitter &c, Value index, AffineExpr size) {
  Value low = c.compare(index, tn::Predicate::ge, c.scalarLike(0, index));
  Type real = index ? getElementTypeOrSelf(index) : Type(c.builder().getF32Type());
  Value high = c.compare(index, tn::Predicate::lt, c.sizeValue(size, real));
  return c.make<tn::AndOp>(low, high);
}

SmallVector<Tap> linearTaps(Emitter &c, Value position, AffineExpr size) {
  Value one = c.scalarLike(1, position);
  Value first = c.unary<tn::FloorOp>(position);
  Value second = c.add(first, one);
  Value part = c.sub(position, first);
  return {{first, isInside(c, first, size), c.sub(one, part)},
          {second, isInside(c, second, size), part}};
}

Value readPixels(Emitter &c, Value pixels, Value numbers) {
  return c.make<tn::GatherNdOp>(pixels, numbers, int64_t{1});
}

Value sumTaps(Emitter &c, ReadPixels read, const Taps &taps, ArrayRef<AffineExpr> sizes,
              Type real) {
  Value sum;
  SmallVector<size_t> chosen(taps.size(), 0);
  while (!c.failed()) {
    SmallVector<Value> indices;
    Value inside, weight;
    for (auto [dim, own] : llvm::enumerate(taps)) {
      const Tap &tap = own[chosen[dim]];
      indices.push_back(tap.index);
      inside = inside && tap.inside ? c.make<tn::AndOp>(inside, tap.inside)
                                    : (tap.inside ? tap.inside : inside);
      weight =
          weight && tap.weight ? c.mul(weight, tap.weight) : (tap.weight ? tap.weight : weight);
    }
    Value number = pixelNumber(c, indices, sizes);
    Value pixel = c.cast(read(number), real);
    pixel = inside ? c.select(inside, pixel, c.scalar(0, real)) : pixel;
    pixel = weight ? c.mul(pixel, weight) : pixel;
    sum = sum ? c.add(sum, pixel) : pixel;
    size_t dim = taps.size();
    while (dim > 0 && ++chosen[dim - 1] == taps[dim - 1].size()) {
      chosen[--dim] = 0;
    }
    if (dim == 0) {
      break;
    }
  }
  return sum;
}

} // namespace tenon::frontend
