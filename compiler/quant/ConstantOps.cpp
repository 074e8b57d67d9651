// Floats are held in FP32 and rounded after each operation, as runtimes do; what is stored in other
// types is moved and cast only. One file: all operators are methods of one small class.
#include "compiler/quant/ConstantOps.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

namespace tenon::quant {
namespace {

using onnx::DataType;
using std::string_view;

/// Of ConstantOfShape.
constexpr size_t kMostFilled = 1 << 16;

/// `made` has elements of `x` in the order of `from`.
Constant picked(const Constant &x, Dims dims, const std::vector<size_t> &from) {
  Constant made{x.type, std::move(dims), {}, {}};
  for (size_t index : from) {
    x.isFloat() ? made.floats.push_back(x.floats[index]) : made.ints.push_back(x.ints[index]);
  }
  return made;
}

/// One node whose operands are known.
class Folder {
public:
  Folder(const Graph &graph, size_t node, std::vector<const Constant *> operands, size_t result)
      : graph(graph), node(graph.node(node)), index(node), operands(std::move(operands)),
        result(result) {}

  Folded run() const;

private:
  const Constant &x() const { return *operands.front(); }
  const Constant *operand(size_t i) const { return i < operands.size() ? operands[i] : nullptr; }
  /// Of an operand, or of the attribute that older versions have.
  std::optional<Dims> integers(size_t i, string_view attribute) const {
    if (const Constant *own = operand(i)) {
      return own->ints;
    }
    const onnx::Attribute *list = attributeOf(node, attribute);
    return list ? std::optional(list->ints) : std::nullopt;
  }
  static std::optional<size_t> axisOf(int64_t axis, size_t rank) {
    axis += axis < 0 ? static_cast<int64_t>(rank) : 0;
    bool isThere = axis >= 0 && axis < static_cast<int64_t>(rank);
    return isThere ? std::optional(static_cast<size_t>(axis)) : std::nullopt;
  }
  Folded reshaped(Dims dims) const {
    if (elementsOf(dims) != x().size()) {
      return std::nullopt;
    }
    Constant made = x();
    made.dims = std::move(dims);
    return made;
  }
  Folded reshape() const;
  Folded squeeze(bool isSqueeze) const;
  Folded transpose() const;
  Folded concat() const;
  Folded slice() const;
  Folded reduce() const;
  Folded fill() const;
  Folded shape() const;
  Folded gather() const;
  Folded flatten() const;
  Folded repeat(const Dims &dims) const;
  Folded split() const;
  Folded broadcastAll(string_view op) const;
  Folded clip() const;
  Folded where() const;
  Folded pad() const;

  const Graph &graph;
  const onnx::Node &node;
  size_t index;
  std::vector<const Constant *> operands;
  size_t result; ///< of several, which is asked for
};

Folded Folder::reshape() const {
  std::optional<Dims> dims = integers(1, "shape");
  bool hasZero = dims && std::find(dims->begin(), dims->end(), 0) != dims->end();
  if (!dims || (hasZero && integerOf(node, "allowzero", 0) != 0)) {
    return std::nullopt;
  }
  int64_t known = 1;
  for (size_t i = 0; i < dims->size(); ++i) {
    (*dims)[i] = (*dims)[i] == 0 && i < x().dims.size() ? x().dims[i] : (*dims)[i];
    known *= (*dims)[i] == -1 ? 1 : (*dims)[i];
  }
  std::replace(dims->begin(), dims->end(), int64_t{-1},
               known == 0 ? 0 : static_cast<int64_t>(x().size()) / known);
  return reshaped(std::move(*dims));
}

Folded Folder::squeeze(bool isSqueeze) const {
  std::optional<Dims> axes = integers(1, "axes");
  if (!axes) {
    return std::nullopt;
  }
  size_t rank = x().dims.size() + (isSqueeze ? 0 : axes->size());
  std::vector<bool> named(rank);
  for (int64_t axis : *axes) {
    std::optional<size_t> own = axisOf(axis, rank);
    if (!own) {
      return std::nullopt;
    }
    named[*own] = true;
  }
  Dims dims;
  for (size_t i = 0, from = 0; i < rank; ++i) {
    if (!isSqueeze) {
      dims.push_back(named[i] ? 1 : x().dims[from++]);
    } else if (!named[i]) {
      dims.push_back(x().dims[i]);
    }
  }
  return reshaped(std::move(dims));
}

Folded Folder::transpose() const {
  size_t rank = x().dims.size();
  const onnx::Attribute *perm = attributeOf(node, "perm");
  Dims order(rank), dims, strides(rank, 1);
  std::iota(order.rbegin(), order.rend(), 0);
  order = perm ? perm->ints : order;
  for (size_t i = rank; i-- > 1;) {
    strides[i - 1] = strides[i] * x().dims[i];
  }
  for (int64_t from : order) {
    dims.push_back(x().dims[static_cast<size_t>(from)]);
  }
  std::vector<size_t> from;
  forEachIndex(dims, [&](const Dims &at) {
    int64_t offset = 0;
    for (size_t i = 0; i < rank; ++i) {
      offset += at[i] * strides[static_cast<size_t>(order[i])];
    }
    from.push_back(static_cast<size_t>(offset));
  });
  return picked(x(), dims, from);
}

Folded Folder::concat() const {
  std::optional<size_t> axis = axisOf(integerOf(node, "axis", 0), x().dims.size());
  if (!axis) {
    return std::nullopt;
  }
  Constant made{x().type, x().dims, {}, {}};
  made.dims[*axis] = 0;
  size_t outer = 1;
  for (size_t i = 0; i < *axis; ++i) {
    outer *= static_cast<size_t>(x().dims[i]);
  }
  for (const Constant *part : operands) {
    if (part->type != x().type || part->dims.size() != x().dims.size()) {
      return std::nullopt;
    }
    made.dims[*axis] += part->dims[*axis];
  }
  for (size_t row = 0; row < outer; ++row) {
    for (const Constant *part : operands) {
      size_t each = part->size() / outer, first = row * each;
      for (size_t i = first; i < first + each; ++i) {
        part->isFloat() ? made.floats.push_back(part->floats[i])
                        : made.ints.push_back(part->ints[i]);
      }
    }
  }
  return elementsOf(made.dims) == made.size() ? Folded(std::move(made)) : std::nullopt;
}

Folded Folder::slice() const {
  size_t rank = x().dims.size();
  std::optional<Dims> starts = integers(1, "starts"), ends = integers(2, "ends");
  std::optional<Dims> axes = integers(3, "axes"), steps = integers(4, "");
  if (!starts || !ends || starts->size() != ends->size()) {
    return std::nullopt;
  }
  Dims begins(rank), strides(rank, 1), dims = x().dims;
  for (size_t i = 0; i < starts->size(); ++i) {
    std::optional<size_t> axis = axisOf(axes ? (*axes)[i] : static_cast<int64_t>(i), rank);
    int64_t step = steps ? (*steps)[i] : 1;
    if (!axis || step == 0) {
      return std::nullopt;
    }
    int64_t size = x().dims[*axis], low = step > 0 ? 0 : -1, high = step > 0 ? size : size - 1;
    int64_t begin = (*starts)[i] + ((*starts)[i] < 0 ? size : 0);
    int64_t end = (*ends)[i] + ((*ends)[i] < 0 ? size : 0);
    begin = std::clamp<int64_t>(begin, 0, high);
    end = std::clamp(end, low, size);
    begins[*axis] = begin;
    strides[*axis] = step;
    int64_t span = step > 0 ? end - begin + step - 1 : begin - end - step - 1;
    dims[*axis] = std::max<int64_t>(span / std::abs(step), 0);
  }
  std::vector<size_t> from;
  forEachIndex(dims, [&](const Dims &at) {
    Dims source(rank);
    for (size_t i = 0; i < rank; ++i) {
      source[i] = begins[i] + at[i] * strides[i];
    }
    from.push_back(offsetOf(x().dims, source));
  });
  return picked(x(), dims, from);
}

Folded Folder::flatten() const {
  int64_t axis = integerOf(node, "axis", 1), rank = static_cast<int64_t>(x().dims.size());
  axis += axis < 0 ? rank : 0;
  if (axis < 0 || axis > rank) {
    return std::nullopt;
  }
  Dims outer(x().dims.begin(), x().dims.begin() + axis);
  int64_t rows = static_cast<int64_t>(elementsOf(outer));
  return reshaped({rows, rows == 0 ? 0 : static_cast<int64_t>(x().size()) / rows});
}

/// Elements over and over, up to `dims`: along each, the index counts on from the first again.
Folded Folder::repeat(const Dims &dims) const {
  if (dims.size() < x().dims.size() || elementsOf(dims) > std::max(kMostFilled, x().size())) {
    return std::nullopt;
  }
  Dims own(dims.size() - x().dims.size(), 1);
  own.insert(own.end(), x().dims.begin(), x().dims.end());
  std::vector<size_t> from;
  forEachIndex(dims, [&](const Dims &at) {
    Dims source = at;
    for (size_t i = 0; i < source.size(); ++i) {
      source[i] %= own[i];
    }
    from.push_back(offsetOf(own, source));
  });
  return picked(x(), dims, from);
}

Folded Folder::split() const {
  std::optional<size_t> axis = axisOf(integerOf(node, "axis", 0), x().dims.size());
  if (!axis) {
    return std::nullopt;
  }
  int64_t size = x().dims[*axis], parts = static_cast<int64_t>(node.outputs.size());
  int64_t each = (size + parts - 1) / parts;
  Dims sizes = integers(1, "split").value_or(Dims(node.outputs.size(), each));
  if (sizes.size() != node.outputs.size()) {
    return std::nullopt;
  }
  int64_t begin =
      std::accumulate(sizes.begin(), sizes.begin() + static_cast<ptrdiff_t>(result), int64_t{0});
  Dims dims = x().dims;
  dims[*axis] = std::min(sizes[result], size - begin);
  if (begin < 0 || dims[*axis] < 0) {
    return std::nullopt;
  }
  std::vector<size_t> from;
  forEachIndex(dims, [&](const Dims &at) {
    Dims source = at;
    source[*axis] += begin;
    from.push_back(offsetOf(x().dims, source));
  });
  return picked(x(), dims, from);
}

/// Of any number of operands.
Folded Folder::broadcastAll(string_view op) const {
  Folded made = x();
  for (size_t i = 1; made && i < operands.size(); ++i) {
    made = operands[i] ? foldBinary(op, *made, *operands[i]) : std::nullopt;
  }
  return made;
}

Folded Folder::clip() const {
  Folded made = x();
  made = made && operand(1) ? foldBinary("Max", *made, *operand(1)) : made;
  return made && operand(2) ? foldBinary("Min", *made, *operand(2)) : made;
}

Folded Folder::where() const {
  const Constant *yes = operand(1), *no = operand(2);
  std::optional<Dims> dims = yes && no ? broadcastDims(yes->dims, no->dims) : std::nullopt;
  dims = dims ? broadcastDims(*dims, x().dims) : std::nullopt;
  if (!dims || yes->type != no->type || x().type != DataType::Bool) {
    return std::nullopt;
  }
  Constant made{yes->type, *dims, {}, {}};
  forEachIndex(*dims, [&](const Dims &at) {
    const Constant &own = x().ints[offsetOf(x().dims, at)] != 0 ? *yes : *no;
    size_t from = offsetOf(own.dims, at);
    own.isFloat() ? made.floats.push_back(own.floats[from]) : made.ints.push_back(own.ints[from]);
  });
  return made;
}

/// With one value.
Folded Folder::pad() const {
  size_t rank = x().dims.size();
  const onnx::Attribute *mode = attributeOf(node, "mode");
  std::optional<Dims> pads = integers(1, "");
  Constant value{x().type, {}, {0}, {0}};
  value = operand(2) ? *operand(2) : value;
  if ((mode && mode->s != "constant") || !pads || pads->size() != 2 * rank || operand(3) ||
      value.type != x().type || value.size() != 1) {
    return std::nullopt;
  }
  Dims dims = x().dims;
  for (size_t i = 0; i < rank; ++i) {
    dims[i] += (*pads)[i] + (*pads)[rank + i];
    if (dims[i] < 0) {
      return std::nullopt;
    }
  }
  Constant made{x().type, dims, {}, {}};
  forEachIndex(dims, [&](const Dims &at) {
    Dims source = at;
    bool isInside = true;
    for (size_t i = 0; i < rank; ++i) {
      source[i] -= (*pads)[i];
      isInside = isInside && source[i] >= 0 && source[i] < x().dims[i];
    }
    const Constant &own = isInside ? x() : value;
    size_t from = isInside ? offsetOf(x().dims, source) : 0;
    own.isFloat() ? made.floats.push_back(own.floats[from]) : made.ints.push_back(own.ints[from]);
  });
  return made;
}

/// Sums, means and norms, as of weights that are normalized.
Folded Folder::reduce() const {
  constexpr string_view kSquares[] = {"ReduceL2", "ReduceSumSquare"};
  constexpr string_view kEnds[] = {"ReduceMax", "ReduceMin"};
  std::optional<Dims> axes = integers(1, "axes");
  size_t rank = x().dims.size();
  if (x().type != DataType::Float || (!axes && integerOf(node, "noop_with_empty_axes", 0) != 0)) {
    return std::nullopt;
  }
  std::vector<bool> isGone(rank, !axes);
  for (int64_t axis : axes.value_or(Dims())) {
    std::optional<size_t> own = axisOf(axis, rank);
    if (!own) {
      return std::nullopt;
    }
    isGone[*own] = true;
  }
  Dims kept = x().dims, dims;
  for (size_t i = 0; i < rank; ++i) {
    kept[i] = isGone[i] ? 1 : kept[i];
    if (!isGone[i] || integerOf(node, "keepdims", 1) != 0) {
      dims.push_back(kept[i]);
    }
  }
  bool isMin = graph.isOp(index, "ReduceMin"), isEnd = graph.isOneOf(index, kEnds);
  double first = isEnd ? (isMin ? INFINITY : -INFINITY) : 0;
  std::vector<double> sums(elementsOf(kept), first);
  size_t element = 0;
  bool isSquare = graph.isOneOf(index, kSquares);
  forEachIndex(x().dims, [&](const Dims &at) {
    double value = x().floats[element++], &sum = sums[offsetOf(kept, at)];
    value = isSquare ? value * value : graph.isOp(index, "ReduceL1") ? std::fabs(value) : value;
    sum = !isEnd ? sum + value : isMin ? std::min(sum, value) : std::max(sum, value);
  });
  double count = static_cast<double>(x().size()) / static_cast<double>(sums.size());
  Constant made{DataType::Float, dims, {}, {}};
  for (double sum : sums) {
    made.floats.push_back(static_cast<float>(graph.isOp(index, "ReduceL2")     ? std::sqrt(sum)
                                             : graph.isOp(index, "ReduceMean") ? sum / count
                                                                               : sum));
  }
  return made;
}

Folded Folder::fill() const {
  const onnx::Attribute *value = attributeOf(node, "value");
  Constant one{DataType::Float, {1}, {0}, {}};
  if (value && value->tensor) {
    onnx::ExternalFiles none("");
    Folded own = loadConstant(*value->tensor, none);
    if (!own || own->size() != 1) {
      return std::nullopt;
    }
    one = *own;
  }
  if (x().isFloat() || elementsOf(x().ints) > kMostFilled) {
    return std::nullopt;
  }
  return picked(one, x().ints, std::vector<size_t>(elementsOf(x().ints), 0));
}

Folded Folder::shape() const {
  if (attributeOf(node, "start") || attributeOf(node, "end")) {
    return std::nullopt;
  }
  return Constant{DataType::Int64, {static_cast<int64_t>(x().dims.size())}, {}, x().dims};
}

Folded Folder::gather() const {
  const Constant *indices = operand(1);
  std::optional<size_t> axis = axisOf(integerOf(node, "axis", 0), x().dims.size());
  if (!indices || indices->isFloat() || !axis) {
    return std::nullopt;
  }
  // Some rows of a table of floats are an embedding's.
  int64_t taken = static_cast<int64_t>(indices->size());
  if (x().isFloat() && x().dims.size() == 2 && *axis == 0 && taken < x().dims[0]) {
    return std::nullopt;
  }
  int64_t size = x().dims[*axis];
  Dims outer(x().dims.begin(), x().dims.begin() + static_cast<ptrdiff_t>(*axis));
  Dims inner(x().dims.begin() + static_cast<ptrdiff_t>(*axis) + 1, x().dims.end());
  std::vector<size_t> from;
  for (size_t row = 0; row < elementsOf(outer); ++row) {
    for (int64_t own : indices->ints) {
      own += own < 0 ? size : 0;
      if (own < 0 || own >= size) {
        return std::nullopt;
      }
      size_t first =
          (row * static_cast<size_t>(size) + static_cast<size_t>(own)) * elementsOf(inner);
      for (size_t i = 0; i < elementsOf(inner); ++i) {
        from.push_back(first + i);
      }
    }
  }
  Dims dims = outer;
  dims.insert(dims.end(), indices->dims.begin(), indices->dims.end());
  dims.insert(dims.end(), inner.begin(), inner.end());
  return picked(x(), dims, from);
}

Folded Folder::run() const {
  constexpr string_view kBinary[] = {"Add", "Sub", "Mul", "Div", "Pow", "Sum", "Max", "Min"};
  constexpr string_view kComparisons[] = {"Greater", "Less", "GreaterOrEqual", "LessOrEqual",
                                          "Equal"};
  constexpr string_view kUnary[] = {"Sqrt", "Neg",      "Abs",  "Reciprocal", "Exp",
                                    "Log",  "Tanh",     "Sign", "Ceil",       "Sigmoid",
                                    "Erf",  "Softplus", "Relu", "Floor"};
  constexpr string_view kReductions[] = {"ReduceSum", "ReduceMean", "ReduceL2", "ReduceSumSquare",
                                         "ReduceL1",  "ReduceMax",  "ReduceMin"};
  if (graph.isOp(index, "Identity")) {
    return x();
  }
  if (graph.isOp(index, "Cast")) {
    return foldCast(x(), static_cast<DataType>(integerOf(node, "to", 0)));
  }
  if (graph.isOp(index, "Reshape")) {
    return reshape();
  }
  if (graph.isOp(index, "Squeeze") || graph.isOp(index, "Unsqueeze")) {
    return squeeze(graph.isOp(index, "Squeeze"));
  }
  if (graph.isOp(index, "Transpose")) {
    return transpose();
  }
  if (graph.isOp(index, "Concat")) {
    return concat();
  }
  if (graph.isOp(index, "Slice")) {
    return slice();
  }
  if (graph.isOp(index, "ConstantOfShape")) {
    return fill();
  }
  if (graph.isOp(index, "Shape")) {
    return shape();
  }
  if (graph.isOp(index, "Gather")) {
    return gather();
  }
  if (graph.isOp(index, "CastLike") && operand(1)) {
    return foldCast(x(), operand(1)->type);
  }
  if (graph.isOp(index, "Clip")) {
    return clip();
  }
  if (graph.isOp(index, "Where")) {
    return where();
  }
  if (graph.isOp(index, "Pad")) {
    return pad();
  }
  if (graph.isOneOf(index, kComparisons) && operand(1)) {
    return foldComparison(node.opType, x(), *operand(1));
  }
  if (graph.isOp(index, "Flatten")) {
    return flatten();
  }
  if (graph.isOp(index, "Split")) {
    return split();
  }
  if (graph.isOp(index, "Expand") && operand(1)) {
    std::optional<Dims> dims = broadcastDims(x().dims, operand(1)->ints);
    return dims ? repeat(*dims) : std::nullopt;
  }
  if (graph.isOp(index, "Tile") && operand(1) && operand(1)->ints.size() == x().dims.size()) {
    Dims dims = x().dims;
    std::transform(dims.begin(), dims.end(), operand(1)->ints.begin(), dims.begin(),
                   std::multiplies<>());
    return repeat(dims);
  }
  if (graph.isOp(index, "MatMul") && operand(1)) {
    return foldProduct(x(), *operand(1));
  }
  if (graph.isOneOf(index, kBinary)) {
    return broadcastAll(node.opType);
  }
  return graph.isOneOf(index, kUnary)        ? foldUnary(node.opType, x())
         : graph.isOneOf(index, kReductions) ? reduce()
                                             : std::nullopt;
}

} // namespace

Folded foldNode(const Graph &graph, size_t node, std::vector<const Constant *> operands,
                size_t result) {
  return Folder(graph, node, std::move(operands), result).run();
}

} // namespace tenon::quant
