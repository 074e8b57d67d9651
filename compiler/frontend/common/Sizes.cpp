// Evaluates tensor operations on small tensors of expressions.
// Relies on shapes having been checked against Sizes::kMaxElements when a Sizes is made.
#include "compiler/frontend/common/Sizes.h"

using namespace mlir;

namespace tenon::frontend {
namespace {

std::optional<int64_t> countOf(ArrayRef<int64_t> shape) {
  int64_t count = 1;
  for (int64_t dim : shape) {
    if (dim < 0 || dim > Sizes::kMaxElements) {
      return std::nullopt;
    }
    count *= dim;
    if (count > Sizes::kMaxElements) {
      return std::nullopt;
    }
  }
  return count;
}

/// The row-major index in `shape` of the element that a broadcast to `target` reads at `index`.
int64_t broadcastIndex(int64_t index, ArrayRef<int64_t> target, ArrayRef<int64_t> shape) {
  int64_t result = 0;
  int64_t stride = 1;
  for (size_t back = 1; back <= target.size(); ++back) {
    int64_t dim = target[target.size() - back];
    int64_t position = index % dim;
    index /= dim;
    if (back <= shape.size()) {
      int64_t own = shape[shape.size() - back];
      result += own == 1 ? 0 : position * stride;
      stride *= own;
    }
  }
  return result;
}

int64_t product(ArrayRef<int64_t> dims) {
  int64_t result = 1;
  for (int64_t dim : dims) {
    result *= dim;
  }
  return result;
}

} // namespace

std::optional<SmallVector<int64_t>> Sizes::constants() const {
  SmallVector<int64_t> result;
  for (AffineExpr value : values) {
    std::optional<int64_t> constant = tn::constantDim(value);
    if (!constant) {
      return std::nullopt;
    }
    result.push_back(*constant);
  }
  return result;
}

std::optional<Sizes> broadcastTo(const Sizes &x, ArrayRef<int64_t> shape) {
  std::optional<int64_t> count = countOf(shape);
  if (!count || x.shape.size() > shape.size()) {
    return std::nullopt;
  }
  for (size_t back = 1; back <= x.shape.size(); ++back) {
    int64_t own = x.shape[x.shape.size() - back];
    if (own != 1 && own != shape[shape.size() - back]) {
      return std::nullopt;
    }
  }
  Sizes result{SmallVector<int64_t>(shape), {}};
  for (int64_t i = 0; i < *count; ++i) {
    result.values.push_back(x.values[broadcastIndex(i, shape, x.shape)]);
  }
  return result;
}

std::optional<Sizes> broadcastSizes(const Sizes &a, const Sizes &b, const SizeFunction &function) {
  size_t rank = std::max(a.shape.size(), b.shape.size());
  SmallVector<int64_t> shape(rank);
  for (size_t back = 1; back <= rank; ++back) {
    int64_t left = back <= a.shape.size() ? a.shape[a.shape.size() - back] : 1;
    int64_t right = back <= b.shape.size() ? b.shape[b.shape.size() - back] : 1;
    shape[rank - back] = left == 1 ? right : left;
  }
  std::optional<Sizes> left = broadcastTo(a, shape);
  std::optional<Sizes> right = broadcastTo(b, shape);
  if (!left || !right) {
    return std::nullopt;
  }
  for (auto [x, y] : llvm::zip_equal(left->values, right->values)) {
    x = function(x, y);
    if (!x) {
      return std::nullopt;
    }
  }
  return left;
}

std::optional<Sizes> gatherSizes(const Sizes &x, const Sizes &indices, int64_t axis) {
  std::optional<SmallVector<int64_t>> positions = indices.constants();
  if (!positions || axis < 0 || axis >= x.rank()) {
    return std::nullopt;
  }
  Sizes result;
  ArrayRef<int64_t> shape(x.shape);
  result.shape.append(shape.begin(), shape.begin() + axis);
  llvm::append_range(result.shape, indices.shape);
  result.shape.append(shape.begin() + axis + 1, shape.end());
  if (!countOf(result.shape)) {
    return std::nullopt;
  }
  int64_t outer = product(shape.take_front(axis));
  int64_t inner = product(shape.drop_front(axis + 1));
  for (int64_t o = 0; o < outer; ++o) {
    for (int64_t position : *positions) {
      position += position < 0 ? shape[axis] : 0;
      if (position < 0 || position >= shape[axis]) {
        return std::nullopt;
      }
      for (int64_t i = 0; i < inner; ++i) {
        result.values.push_back(x.values[(o * shape[axis] + position) * inner + i]);
      }
    }
  }
  return result;
}

std::optional<Sizes> concatSizes(ArrayRef<Sizes> parts, int64_t axis) {
  if (parts.empty() || axis < 0 || axis >= parts[0].rank()) {
    return std::nullopt;
  }
  Sizes result{parts[0].shape, {}};
  result.shape[axis] = 0;
  for (const Sizes &part : parts) {
    if (part.shape.size() != result.shape.size()) {
      return std::nullopt;
    }
    result.shape[axis] += part.shape[axis];
  }
  int64_t outer = product(ArrayRef<int64_t>(result.shape).take_front(axis));
  if (!countOf(result.shape) || outer == 0) {
    return std::nullopt;
  }
  for (int64_t o = 0; o < outer; ++o) {
    for (const Sizes &part : parts) {
      size_t run = part.values.size() / outer;
      result.values.append(part.values.begin() + o * run, part.values.begin() + (o + 1) * run);
    }
  }
  bool whole = static_cast<int64_t>(result.values.size()) == product(result.shape);
  return whole ? std::optional<Sizes>(result) : std::nullopt;
}

std::optional<Sizes> sliceSizes(const Sizes &x, int64_t axis, int64_t start, int64_t step,
                                int64_t count) {
  Sizes positions{{count}, {}};
  if (!countOf(positions.shape) || x.values.empty()) {
    return std::nullopt;
  }
  MLIRContext *context = x.values[0].getContext();
  for (int64_t i = 0; i < count; ++i) {
    positions.values.push_back(getAffineConstantExpr(start + i * step, context));
  }
  return gatherSizes(x, positions, axis);
}

Sizes transposeSizes(const Sizes &x, ArrayRef<int64_t> permutation) {
  SmallVector<int64_t> strides(x.shape.size(), 1);
  for (size_t axis = strides.size(); axis-- > 1;) {
    strides[axis - 1] = strides[axis] * x.shape[axis];
  }
  Sizes result;
  for (int64_t axis : permutation) {
    result.shape.push_back(x.shape[axis]);
  }
  for (int64_t i = 0, e = x.values.size(); i < e; ++i) {
    int64_t rest = i;
    int64_t source = 0;
    for (size_t axis = permutation.size(); axis-- > 0;) {
      source += rest % result.shape[axis] * strides[permutation[axis]];
      rest /= result.shape[axis];
    }
    result.values.push_back(x.values[source]);
  }
  return result;
}

std::optional<Sizes> reduceSizes(const Sizes &x, ArrayRef<int64_t> axes, bool keepdims,
                                 const SizeFunction &function) {
  SmallVector<int64_t> kept(x.shape);
  for (int64_t axis : axes) {
    kept[axis] = 1;
  }
  Sizes result{kept, SmallVector<AffineExpr>(product(kept))};
  for (int64_t i = 0, e = x.values.size(); i < e; ++i) {
    AffineExpr &out = result.values[broadcastIndex(i, x.shape, kept)];
    out = out ? function(out, x.values[i]) : x.values[i];
    if (!out) {
      return std::nullopt;
    }
  }
  if (llvm::any_of(result.values, [](AffineExpr value) { return !value; })) {
    return std::nullopt; // an empty reduction
  }
  if (!keepdims) {
    result.shape.clear();
    for (auto [axis, dim] : llvm::enumerate(x.shape)) {
      if (!llvm::is_contained(axes, static_cast<int64_t>(axis))) {
        result.shape.push_back(dim);
      }
    }
  }
  return result;
}

} // namespace tenon::frontend
