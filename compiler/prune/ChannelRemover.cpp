// Relies on the rules: whatever reads an axis that shrinks is a node of which a rule knows what its
// sizes and indices become. Both list the same operators; the check of the written model's dims
// finds what one of them has forgotten.
#include "compiler/prune/ChannelRemover.h"

#include "compiler/frontend/onnx/wire/TensorData.h"
#include "support/text/Text.h"
#include "support/zip/Zip.h"

#include <algorithm>
#include <cstring>

namespace tenon::prune {
namespace {

using std::string_view;
using Indices = std::vector<int64_t>;

/// The elements at the kept indices of each axis, row-major.
std::string cut(const onnx::TensorData &data, const std::map<size_t, Indices> &kept) {
  size_t width = static_cast<size_t>(data.size / std::max<uint64_t>(data.elements, 1));
  std::string bytes(reinterpret_cast<const char *>(data.view.data()), data.size);
  std::vector<int64_t> dims = data.dims;
  for (const auto &[axis, indices] : kept) {
    size_t inner = width, outer = 1;
    for (size_t i = 0; i < axis; ++i) {
      outer *= static_cast<size_t>(dims[i]);
    }
    for (size_t i = axis + 1; i < dims.size(); ++i) {
      inner *= static_cast<size_t>(dims[i]);
    }
    std::string smaller;
    smaller.reserve(outer * indices.size() * inner);
    for (size_t o = 0; o < outer; ++o) {
      for (int64_t index : indices) {
        smaller.append(bytes,
                       (o * static_cast<size_t>(dims[axis]) + static_cast<size_t>(index)) * inner,
                       inner);
      }
    }
    bytes = std::move(smaller);
    dims[axis] = static_cast<int64_t>(indices.size());
  }
  return bytes;
}

} // namespace

Indices PruneMask::kept(Axis axis) const {
  Indices result;
  for (uint32_t i = 0; i < axis.size; ++i) {
    if (!isRemoved(axis.at(i))) {
      result.push_back(i);
    }
  }
  return result;
}

int64_t PruneMask::keptBefore(Axis axis, int64_t end) const {
  int64_t count = 0;
  for (uint32_t i = 0; i < axis.size && i < end; ++i) {
    count += !isRemoved(axis.at(i));
  }
  return count;
}

bool PruneMask::touches(const Axes *axes) const {
  return axes && std::any_of(axes->begin(), axes->end(), [&](Axis axis) { return touches(axis); });
}

bool PruneMask::removesHeads(Axis axis) const {
  std::set<uint32_t> seen;
  for (uint32_t i = 0; i < axis.size; ++i) {
    uint32_t own = axisClasses.classOf(axis.at(i));
    if (removed[own] && heads.contains(own) && !seen.insert(own).second) {
      return true;
    }
  }
  return false;
}

Result<std::vector<ShrunkTensor>> ChannelRemover::run() {
  for (size_t node = 0; node < graph.all().size(); ++node) {
    for (size_t operand = 0; operand < graph.node(node).inputs.size(); ++operand) {
      if (graph.constant(graph.node(node).inputs[operand])) {
        TENON_TRY(cutConstant(node, operand));
      } else if (mask.touches(values.operand({node, operand}))) {
        edit.forgetShape(graph.node(node).inputs[operand]);
      }
    }
    changeNode(node);
    keepKnown(node);
  }
  dropUnread();
  return std::move(tensors);
}

/// The node reads the kept part of a constant. It has the old name where all that read it read
/// that.
Status ChannelRemover::cutConstant(size_t node, size_t operand) {
  string_view name = graph.node(node).inputs[operand];
  const Axes *axes = values.operand({node, operand});
  if (!mask.touches(axes)) {
    return Status::ok();
  }
  std::map<size_t, Indices> kept;
  for (size_t i = 0; i < axes->size(); ++i) {
    if (mask.touches((*axes)[i])) {
      kept[i] = mask.kept((*axes)[i]);
    }
  }
  auto known = std::find_if(tensors.begin(), tensors.end(), [&](const ShrunkTensor &own) {
    return own.name == name && own.kept == kept;
  });
  int64_t groups = 0;
  if (auto own = counted.find(node);
      own != counted.end() && operand == 1 && own->second.attribute == "group") {
    groups = mask.size(own->second.axis);
  }
  if (known == tensors.end()) {
    TENON_ASSIGN(onnx::TensorData data, onnx::loadTensor(*graph.constant(name), files));
    if (data.seeded) {
      return Status::error(ErrorId::BadArgument,
                           strCat("the weights '", name, "' are seeded: they have no values"),
                           "prune a trained model");
    }
    bool isShared = graph.isKept(name);
    for (quant::Use use : graph.uses(name)) {
      const Axes *other = values.operand(use);
      for (size_t i = 0; !isShared && i < axes->size(); ++i) {
        isShared = !other || mask.kept((*other)[i]) != mask.kept((*axes)[i]);
      }
    }
    ShrunkTensor tensor;
    tensor.name = name;
    tensor.dims = data.dims;
    tensor.kept = kept;
    tensor.crc = zip::crcOf(data.view);
    tensor.groups = groups;
    tensor.losesHeads =
        std::any_of(axes->begin(), axes->end(), [&](Axis axis) { return mask.removesHeads(axis); });
    tensor.isNode = graph.producer(name).has_value();
    tensor.newName = isShared ? edit.freshName(strCat(name, "_pruned")) : tensor.name;
    std::vector<int64_t> dims = data.dims;
    for (const auto &[axis, indices] : kept) {
      dims[axis] = static_cast<int64_t>(indices.size());
    }
    edit.addConstant(tensor.newName, graph.constant(name)->type, dims, cut(data, kept));
    tensors.push_back(std::move(tensor));
    known = tensors.end() - 1;
  }
  known->groups = std::max(known->groups, groups);
  edit.setOperand({node, operand}, known->newName);
  // Exporters store equal parameters once and give the others as the results of Identity nodes.
  if (!graph.isOp(node, "Identity")) {
    known->readers.emplace_back(quant::nameOf(graph.node(node)));
  } else {
    ShrunkTensor other = *known;
    other.name = graph.node(node).outputs.front();
    other.isNode = false;
    other.readers.clear();
    for (quant::Use use : graph.uses(other.name)) {
      other.readers.emplace_back(quant::nameOf(graph.node(use.node)));
    }
    tensors.push_back(std::move(other));
  }
  return Status::ok();
}

/// None where it is computed, or not there.
std::optional<Indices> ChannelRemover::constantOf(size_t node, size_t operand) const {
  const onnx::Node &own = graph.node(node);
  return operand < own.inputs.size() ? sizes.constant(own.inputs[operand]) : std::nullopt;
}

void ChannelRemover::changeNode(size_t node) {
  auto [begin, end] = counted.equal_range(node);
  for (auto own = begin; own != end; ++own) {
    if (mask.touches(own->second.axis)) {
      edit.setInteger(node, own->second.attribute, mask.size(own->second.axis));
    }
  }
  const Axes *x = values.operand({node, 0}), *y = values.result(node, 0);
  bool isTouched = mask.touches(y);
  for (size_t i = 0; i < graph.node(node).outputs.size(); ++i) {
    if (mask.touches(values.result(node, i))) {
      edit.forgetShape(graph.node(node).outputs[i]);
    }
  }
  if (std::optional<SizeOperand> sized = sizes.sizeOperand(node)) {
    setSizes(node, *sized);
  } else if (graph.isOp(node, "Split") && mask.touches(x)) {
    changeSplit(node);
  } else if (graph.isOp(node, "Slice") && mask.touches(x)) {
    changeSlice(node);
  } else if (graph.isOp(node, "Gather") && mask.touches(x)) {
    changeGather(node);
  } else if (graph.isOp(node, "Pad") && isTouched) {
    changePad(node);
  }
}

void ChannelRemover::changeSplit(size_t node) {
  const onnx::Node &own = graph.node(node);
  size_t axis = fromFront(quant::integerOf(own, "axis", 0), values.operand({node, 0})->size());
  if (!mask.touches((*values.operand({node, 0}))[axis])) {
    return;
  }
  Indices sizes;
  for (size_t i = 0; i < own.outputs.size(); ++i) {
    sizes.push_back(mask.size((*values.result(node, i))[axis]));
  }
  edit.dropAttribute(node, "num_outputs");
  setIntegers(node, 1, sizes);
}

void ChannelRemover::changeSlice(size_t node) {
  std::optional<Indices> starts = constantOf(node, 1), ends = constantOf(node, 2),
                         axes = constantOf(node, 3);
  const Axes &x = *values.operand({node, 0}), &y = *values.result(node, 0);
  bool changes = false;
  for (size_t i = 0; starts && ends && i < starts->size(); ++i) {
    size_t axis = axes ? fromFront((*axes)[i], x.size()) : i;
    if (axis < x.size() && mask.touches(x[axis])) {
      int64_t size = x[axis].size, start = (*starts)[i];
      start = std::clamp<int64_t>(start < 0 ? start + size : start, 0, size);
      (*starts)[i] = mask.keptBefore(x[axis], start);
      (*ends)[i] = (*starts)[i] + mask.size(y[axis]);
      changes = true;
    }
  }
  if (changes) {
    setIntegers(node, 1, *starts);
    setIntegers(node, 2, *ends);
  }
}

/// Constant indices along an axis that shrinks: those that stay, by their new places.
void ChannelRemover::changeGather(size_t node) {
  const Axes &x = *values.operand({node, 0}), &y = *values.result(node, 0);
  size_t axis = fromFront(quant::integerOf(graph.node(node), "axis", 0), x.size());
  std::optional<Indices> indices = constantOf(node, 1);
  if (!mask.touches(x[axis]) || !indices) {
    return;
  }
  Indices places;
  for (uint32_t i = 0; i < indices->size(); ++i) {
    if (!mask.isRemoved(y[axis].at(i))) {
      int64_t from = static_cast<int64_t>(fromFront((*indices)[i], x[axis].size));
      places.push_back(mask.keptBefore(x[axis], from));
    }
  }
  setIntegers(node, 1, places);
}

void ChannelRemover::changePad(size_t node) {
  std::optional<Indices> pads = constantOf(node, 1), axes = constantOf(node, 3);
  const Axes &x = *values.operand({node, 0}), &y = *values.result(node, 0);
  size_t count = pads ? pads->size() / 2 : 0;
  for (size_t i = 0; i < count; ++i) {
    size_t axis = axes ? fromFront((*axes)[i], x.size()) : i;
    if (mask.touches(y[axis])) {
      int64_t before = (*pads)[i], inside = x[axis].size;
      (*pads)[i] = mask.keptBefore(y[axis], before);
      (*pads)[count + i] = mask.size(y[axis]) - mask.keptBefore(y[axis], before + inside);
    }
  }
  if (count > 0) {
    setIntegers(node, 1, *pads);
  }
}

} // namespace tenon::prune
