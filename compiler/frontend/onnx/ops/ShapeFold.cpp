// Evaluates operators that move elements on known integers; Shape.cpp decides when.
// Relies on Sizes for the evaluation: nothing is emitted here.
#include "compiler/frontend/onnx/ops/ShapeFold.h"

#include "compiler/frontend/onnx/Slicing.h"

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

} // namespace

std::optional<Sizes> foldConcat(NodeContext &c, ArrayRef<Sizes> in) {
  return concatSizes(in, c.axis("axis", 0, in[0].rank()));
}

std::optional<Sizes> foldSlice(NodeContext &c, ArrayRef<Sizes> in) {
  SmallVector<SmallVector<int64_t>> lists;
  if (c.opset < 10) {
    lists = {c.integerList("starts"), c.integerList("ends"), c.integerList("axes", {0}), {1}};
  } else {
    for (const Sizes &part : in.drop_front()) {
      std::optional<SmallVector<int64_t>> known = part.constants();
      if (!known) {
        return std::nullopt;
      }
      lists.push_back(*known);
    }
    for (int64_t otherwise : {0, 1}) {
      if (lists.size() < (otherwise == 0 ? 3u : 4u)) {
        lists.push_back({otherwise});
      }
    }
  }
  bool single = llvm::all_of(lists, [](ArrayRef<int64_t> list) { return list.size() == 1; });
  if (!single || lists.size() != 4 || in[0].rank() == 0) {
    return std::nullopt;
  }
  int64_t axis = lists[2][0] < 0 ? lists[2][0] + in[0].rank() : lists[2][0];
  int64_t step = std::clamp<int64_t>(lists[3][0], -4096, 4096);
  if (axis < 0 || axis >= in[0].rank() || step == 0) {
    return std::nullopt;
  }
  std::optional<AxisSlice> part =
      clampSlice(c.symbols(), c.constantSize(in[0].shape[axis]), c.constantSize(lists[0][0]),
                 c.constantSize(lists[1][0]), step);
  if (!part) {
    return std::nullopt;
  }
  return sliceSizes(in[0], axis, *tn::constantDim(part->start), step, *tn::constantDim(part->size));
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
