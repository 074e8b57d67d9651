// Evaluates operators that move elements on known integers; Shape.cpp decides when.
// Relies on Sizes for the evaluation: nothing is emitted here.
#include "compiler/frontend/onnx/ops/ShapeFold.h"

#include "compiler/frontend/common/Slicing.h"

#include <numeric>

using namespace mlir;

namespace tenon::onnx {
namespace {

/// Reshape, Flatten, Squeeze and Unsqueeze: the same elements under the shape that rule gives.
std::optional<Sizes> reshaped(const Sizes &x, ArrayRef<int64_t> shape) {
  int64_t count = 1;
  for (int64_t dim : shape) {
    if (dim < 0 || dim > Sizes::kMaxElements) {
      return std::nullopt;
    }
    count *= dim;
  }
  return count == static_cast<int64_t>(x.values.size())
             ? std::optional(Sizes{SmallVector<int64_t>(shape), x.values})
             : std::nullopt;
}

std::optional<Sizes> foldAxisSlice(NodeContext &c, const Sizes &x, int64_t axis, int64_t start,
                                   int64_t end, int64_t step) {
  axis += axis < 0 ? x.rank() : 0;
  step = std::clamp<int64_t>(step, -4096, 4096);
  if (axis < 0 || axis >= x.rank() || step == 0) {
    return std::nullopt;
  }
  std::optional<AxisSlice> part = clampSlice(c.symbols(), c.constantSize(x.shape[axis]),
                                             c.constantSize(start), c.constantSize(end), step);
  return part ? sliceSizes(x, axis, *tn::constantDim(part->start), step,
                           *tn::constantDim(part->size))
              : std::nullopt;
}

} // namespace

std::optional<Sizes> foldConcat(NodeContext &c, ArrayRef<Sizes> in) {
  return concatSizes(in, c.axis("axis", 0, in[0].rank()));
}

std::optional<Sizes> foldSlice(NodeContext &c, ArrayRef<Sizes> in) {
  SmallVector<SmallVector<int64_t>> lists;
  if (c.opset < 10) {
    lists = {c.integerList("starts"), c.integerList("ends"), c.integerList("axes")};
  }
  for (const Sizes &part : in.drop_front()) {
    std::optional<SmallVector<int64_t>> known = part.constants();
    if (!known) {
      return std::nullopt;
    }
    lists.push_back(*known);
  }
  lists.resize(4);
  auto [starts, ends, axes, steps] = std::tie(lists[0], lists[1], lists[2], lists[3]);
  if (axes.empty()) {
    axes = llvm::to_vector(llvm::seq<int64_t>(0, static_cast<int64_t>(starts.size())));
  }
  steps.resize(steps.empty() ? starts.size() : steps.size(), 1);
  if (ends.size() != starts.size() || axes.size() != starts.size() ||
      steps.size() != starts.size()) {
    return std::nullopt;
  }
  std::optional<Sizes> result = in[0];
  for (size_t i = 0; result && i < starts.size(); ++i) {
    result = foldAxisSlice(c, *result, axes[i], starts[i], ends[i], steps[i]);
  }
  return result;
}

std::optional<Sizes> foldReshape(NodeContext &c, ArrayRef<Sizes> in) {
  std::optional<SmallVector<int64_t>> request = in.size() == 2 ? in[1].constants() : std::nullopt;
  if (!request || request->size() > 8 || c.integer("allowzero", 0) != 0) {
    return std::nullopt;
  }
  int64_t rest = static_cast<int64_t>(in[0].values.size());
  for (auto [i, dim] : llvm::enumerate(*request)) {
    dim = dim == 0 && i < in[0].shape.size() ? in[0].shape[i] : dim;
    rest = dim > 0 ? rest / dim : rest;
  }
  for (int64_t &dim : *request) {
    dim = dim == -1 ? rest : dim;
  }
  return reshaped(in[0], *request);
}

std::optional<Sizes> foldSqueeze(NodeContext &c, ArrayRef<Sizes> in, bool unsqueeze) {
  std::optional<SmallVector<int64_t>> axes = c.opset < 13     ? c.integerList("axes")
                                             : in.size() == 2 ? in[1].constants()
                                                              : SmallVector<int64_t>();
  if (!axes) {
    return std::nullopt;
  }
  SmallVector<int64_t> shape(in[0].shape);
  int64_t rank = in[0].rank() + (unsqueeze ? static_cast<int64_t>(axes->size()) : 0);
  for (int64_t &axis : *axes) {
    axis += axis < 0 ? rank : 0;
    if (axis < 0 || axis >= rank) {
      return std::nullopt;
    }
  }
  llvm::sort(*axes);
  if (unsqueeze) {
    for (int64_t axis : *axes) {
      shape.insert(shape.begin() + axis, 1);
    }
    return reshaped(in[0], shape);
  }
  SmallVector<int64_t> kept;
  for (auto [i, dim] : llvm::enumerate(shape)) {
    bool listed = axes->empty() ? dim == 1 : llvm::is_contained(*axes, static_cast<int64_t>(i));
    if (!listed) {
      kept.push_back(dim);
    }
  }
  return reshaped(in[0], kept);
}

std::optional<Sizes> foldFlatten(NodeContext &c, const Sizes &x) {
  int64_t axis = c.integer("axis", 1);
  axis += axis < 0 ? x.rank() : 0;
  if (axis < 0 || axis > x.rank()) {
    return std::nullopt;
  }
  int64_t rows = 1, columns = 1;
  for (auto [i, dim] : llvm::enumerate(x.shape)) {
    (static_cast<int64_t>(i) < axis ? rows : columns) *= dim;
  }
  return reshaped(x, {rows, columns});
}

std::optional<Sizes> foldTranspose(NodeContext &c, const Sizes &x) {
  SmallVector<int64_t> reversed;
  for (int64_t axis = x.rank(); axis > 0; --axis) {
    reversed.push_back(axis - 1);
  }
  SmallVector<int64_t> permutation = c.integerList("perm", reversed);
  SmallVector<int64_t> sorted(permutation);
  llvm::sort(sorted);
  std::reverse(sorted.begin(), sorted.end());
  return sorted == reversed ? std::optional(transposeSizes(x, permutation)) : std::nullopt;
}

std::optional<Sizes> foldTile(ArrayRef<Sizes> in) {
  std::optional<SmallVector<int64_t>> repeats = in.size() == 2 ? in[1].constants() : std::nullopt;
  if (!repeats || static_cast<int64_t>(repeats->size()) != in[0].rank()) {
    return std::nullopt;
  }
  std::optional<Sizes> result = in[0];
  for (auto [axis, count] : llvm::enumerate(*repeats)) {
    if (!result || count < 1 || count > Sizes::kMaxElements) {
      return std::nullopt;
    }
    SmallVector<Sizes> copies(count, *result);
    result = concatSizes(copies, static_cast<int64_t>(axis));
  }
  return result;
}

std::optional<SmallVector<Sizes>> foldSplit(NodeContext &c, ArrayRef<Sizes> in) {
  int64_t axis = c.integer("axis", 0);
  axis += axis < 0 ? in[0].rank() : 0;
  if (axis < 0 || axis >= in[0].rank()) {
    return std::nullopt;
  }
  int64_t dim = in[0].shape[axis];
  int64_t parts = c.numOutputs();
  std::optional<SmallVector<int64_t>> sizes =
      in.size() == 2 ? in[1].constants() : c.integerList("split");
  if (sizes && sizes->empty() && dim % parts == 0) {
    sizes->assign(parts, dim / parts);
  }
  if (!sizes || static_cast<int64_t>(sizes->size()) != parts ||
      std::accumulate(sizes->begin(), sizes->end(), int64_t{0}) != dim ||
      c.integer("num_outputs", parts) != parts) {
    return std::nullopt;
  }
  SmallVector<Sizes> results;
  int64_t start = 0;
  for (int64_t size : *sizes) {
    std::optional<Sizes> part = sliceSizes(in[0], axis, start, /*step=*/1, size);
    if (!part) {
      return std::nullopt;
    }
    results.push_back(std::move(*part));
    start += size;
  }
  return results;
}

std::optional<Sizes> foldExpand(ArrayRef<Sizes> in) {
  std::optional<SmallVector<int64_t>> target = in[1].constants();
  if (!target) {
    return std::nullopt;
  }
  SmallVector<int64_t> shape(*target);
  shape.insert(shape.begin(),
               std::max<int64_t>(0, in[0].rank() - static_cast<int64_t>(shape.size())), 1);
  for (size_t back = 1; back <= in[0].shape.size(); ++back) {
    int64_t &dim = shape[shape.size() - back];
    dim = dim == 1 ? in[0].shape[in[0].shape.size() - back] : dim;
  }
  return broadcastTo(in[0], shape);
}

std::optional<Sizes> foldRange(NodeContext &c, ArrayRef<Sizes> in) {
  c.ignore("stash_type"); // of floats
  SmallVector<int64_t> bounds;
  for (const Sizes &part : in) {
    std::optional<SmallVector<int64_t>> known = part.constants();
    if (!known || known->size() != 1 || std::abs((*known)[0]) > (int64_t{1} << 40)) {
      return std::nullopt;
    }
    bounds.push_back((*known)[0]);
  }
  Sizes result{{0}, {}};
  for (int64_t value = bounds[0];
       bounds[2] != 0 && (bounds[2] > 0 ? value < bounds[1] : value > bounds[1]);
       value += bounds[2]) {
    result.values.push_back(c.constantSize(value));
    if (static_cast<int64_t>(result.values.size()) > Sizes::kMaxElements) {
      return std::nullopt;
    }
  }
  result.shape[0] = static_cast<int64_t>(result.values.size());
  return bounds[2] != 0 ? std::optional(result) : std::nullopt;
}

std::optional<Sizes> foldConstantOfShape(NodeContext &c, const Sizes &shape) {
  const Attribute *value = c.find("value");
  std::optional<SmallVector<int64_t>> dims = shape.constants();
  if (!dims || !value || !value->tensor || value->tensor->type != DataType::Int64) {
    return std::nullopt;
  }
  Scope local;
  if (!c.importer().defineConstant(local, "value", *value->tensor).isOk()) {
    return std::nullopt; // the operator itself reports it
  }
  const TensorData &data = *local.values["value"].constant;
  int64_t element = 0;
  if (data.elements != 1) {
    return std::nullopt;
  }
  std::memcpy(&element, data.view.data(), sizeof(element));
  return broadcastTo(Sizes::scalar(c.constantSize(element)), *dims);
}

} // namespace tenon::onnx
