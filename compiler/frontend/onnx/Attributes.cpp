// The attributes of one node, by the types and defaults of its operator's signature.
#include "compiler/frontend/onnx/Elements.h"
#include "compiler/frontend/onnx/NodeContext.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;

namespace tenon::onnx {

const Attribute *NodeContext::find(StringRef name) {
  reads.attributes.insert(name);
  return lookup(name);
}

const Attribute *NodeContext::lookup(StringRef name) const {
  for (const Attribute &attribute : node.attributes) {
    if (StringRef(attribute.name) != name) {
      continue;
    }
    if (attribute.reference.empty()) {
      return &attribute;
    }
    if (!call) {
      return nullptr;
    }
    auto found = call->attributes.find(attribute.reference);
    return found == call->attributes.end() ? nullptr : found->second;
  }
  return nullptr;
}

const Attribute *NodeContext::attribute(StringRef name, AttributeType type) {
  const Attribute *found = find(name);
  if (found && found->type != type) {
    error(ErrorId::OnnxBadAttribute,
          "attribute '" + name + "' has another type than the operator declares");
    return nullptr;
  }
  return found;
}

int64_t NodeContext::integer(StringRef name, int64_t otherwise) {
  const Attribute *found = attribute(name, AttributeType::Int);
  return found ? found->i : otherwise;
}

double NodeContext::real(StringRef name, double otherwise) {
  const Attribute *found = attribute(name, AttributeType::Float);
  return found ? found->f : otherwise;
}

std::string NodeContext::text(StringRef name, StringRef otherwise) {
  const Attribute *found = attribute(name, AttributeType::String);
  return found ? std::string(found->s) : otherwise.str();
}

std::string NodeContext::choice(StringRef name, ArrayRef<StringRef> values) {
  std::string value = text(name, values[0]);
  if (!llvm::is_contained(values, value)) {
    error(ErrorId::OnnxBadAttribute, "attribute '" + name + "' has the unknown value '" + value +
                                         "'; it is one of " + llvm::join(values, ", "));
  }
  return value;
}

Type NodeContext::elementNamed(StringRef name, Type otherwise) {
  int64_t number = integer(name, 0);
  if (number == 0) {
    return otherwise;
  }
  if (number < 0 || number > kLastDataType) {
    error(ErrorId::OnnxBadAttribute, "attribute '" + name + "' is not a data type");
    return Type();
  }
  DataType type = static_cast<DataType>(number);
  Type element = owner.elementType(type);
  if (!element) {
    gap("type " + StringRef(nameOf(type)) + " of attribute '" + name + "' is not supported",
        "use another type");
  }
  return element;
}

SmallVector<int64_t> NodeContext::integerList(StringRef name, ArrayRef<int64_t> otherwise) {
  const Attribute *found = attribute(name, AttributeType::Ints);
  return found ? SmallVector<int64_t>(ArrayRef<int64_t>(found->ints))
               : SmallVector<int64_t>(otherwise);
}

SmallVector<double> NodeContext::numberList(StringRef name) {
  const Attribute *found = find((name + "_as_tensor").str());
  found = found ? found : find(name);
  SmallVector<double> numbers;
  if (!found || !found->tensor) {
    if (const Attribute *floats = found ? attribute(name, AttributeType::Floats) : nullptr) {
      numbers.assign(floats->floats.begin(), floats->floats.end());
    }
    return numbers;
  }
  Scope local;
  Status status = owner.defineConstant(local, name, *found->tensor);
  if (!status.isOk()) {
    hasFailed = true;
    owner.setError(std::move(status));
    return numbers;
  }
  const TensorData *data = local.values[name].constant.get();
  for (uint64_t e = 0; data && !data->view.empty() && e < data->elements; ++e) {
    std::optional<int64_t> integer = integerAt(*data, e);
    numbers.push_back(integer ? static_cast<double>(*integer) : realAt(*data, e).value_or(0));
  }
  return numbers;
}

int64_t NodeContext::normalizeAxis(int64_t axis, int64_t rank) {
  if (axis < -rank || axis >= rank) {
    error(ErrorId::OnnxBadAttribute,
          "axis " + Twine(axis) + " is outside a tensor of rank " + Twine(rank));
    return 0;
  }
  return axis < 0 ? axis + rank : axis;
}

int64_t NodeContext::axis(StringRef name, int64_t otherwise, int64_t rank) {
  return normalizeAxis(integer(name, otherwise), rank);
}

std::optional<SmallVector<int64_t>> NodeContext::axes(int64_t inputSince, unsigned i,
                                                      int64_t rank) {
  SmallVector<int64_t> list;
  if (opset < inputSince) {
    list = integerList("axes");
  } else if (has(i)) {
    std::optional<SmallVector<int64_t>> known = requireIntegers(i, "list of axes");
    if (!known) {
      return std::nullopt;
    }
    list = *known;
  }
  for (int64_t &entry : list) {
    entry = normalizeAxis(entry, rank);
  }
  llvm::sort(list);
  if (std::adjacent_find(list.begin(), list.end()) != list.end()) {
    error(ErrorId::OnnxBadAttribute, "an axis is listed twice");
  }
  return hasFailed ? std::nullopt : std::optional(list);
}

} // namespace tenon::onnx
