// The model's inputs with their symbolic dims and the user's overrides, its initializers and its
// outputs. Relies on overrides being applied before any symbol is made, so a constant replaces it
// everywhere.
#include "compiler/frontend/onnx/Importer.h"

#include "compiler/frontend/onnx/RankFromUses.h"
#include "support/Shape.h"
#include "support/text/NearestName.h"
#include "support/text/Text.h"

using namespace mlir;

namespace tenon::onnx {
namespace {

constexpr size_t kMaxSymbols = 256;

Status overrideError(std::string_view input, std::string_view what) {
  return Status::error(ErrorId::OnnxBadOverride, strCat("option for input '", input, "': ", what),
                       "'tenon inspect MODEL' lists the inputs with their dimensions");
}

Gap inputGap(const ValueInfo &info, std::string why, std::string workaround) {
  Gap gap;
  gap.opType = "Input";
  gap.node = std::string(info.name);
  gap.dtype = info.type == DataType::Undefined ? "" : std::string(nameOf(info.type));
  gap.why = std::move(why);
  gap.workaround = std::move(workaround);
  return gap;
}

} // namespace

Status Importer::importInitializers(const Graph &graph, Scope &scope) {
  auto define = [&](const Tensor &tensor, const SparseTensor *sparse) -> Status {
    if (tensor.name.empty()) {
      return Status::error(ErrorId::OnnxBadName, "an initializer has no name",
                           "export the model again");
    }
    if (scope.values.count(tensor.name)) {
      return Status::error(ErrorId::OnnxDuplicateName,
                           strCat("initializer '", tensor.name, "' occurs twice"),
                           "give each value its own name");
    }
    return defineConstant(scope, tensor.name, tensor, sparse);
  };
  for (const Tensor &tensor : graph.initializers) {
    TENON_TRY(define(tensor, nullptr));
  }
  for (const SparseTensor &sparse : graph.sparseInitializers) {
    TENON_TRY(define(sparse.values, &sparse));
  }
  for (const std::vector<ValueInfo> *list : {&graph.values, &graph.outputs}) {
    for (const ValueInfo &info : *list) {
      scope.stated[info.name] = &info;
    }
  }
  return Status::ok();
}

Status Importer::importInputs(Scope &scope) {
  std::unordered_set<std::string_view> names;
  for (const ValueInfo &info : model.graph.inputs) {
    if (info.name.empty()) {
      return Status::error(ErrorId::OnnxBadName, "an input has no name", "export the model again");
    }
    if (!names.insert(info.name).second) {
      return Status::error(ErrorId::OnnxDuplicateName,
                           strCat("input '", info.name, "' occurs twice"),
                           "give each value its own name");
    }
    // Before IR version 4 each initializer is listed as an input too. Those whose shape is asked
    // for are inputs, and the initializer was a default.
    bool isAsked = llvm::any_of(
        options.shapes, [&](const ShapeOverride &shape) { return shape.input == info.name; });
    if (isAsked || !scope.values.count(info.name)) {
      TENON_TRY(importInput(info, scope));
    }
  }
  return checkOverridesUsed();
}

Status Importer::checkOverridesUsed() const {
  llvm::SmallVector<std::string_view> named;
  for (const ShapeOverride &override : options.shapes) {
    named.push_back(override.input);
  }
  for (const FixedInput &fixed : options.fixed) {
    named.push_back(fixed.input);
  }
  for (std::string_view name : named) {
    bool known =
        llvm::any_of(model.graph.inputs, [&](const ValueInfo &info) { return info.name == name; });
    if (!known) {
      Status status = overrideError(name, "the model has no such input");
      std::vector<std::string> inputs;
      for (const ValueInfo &info : model.graph.inputs) {
        inputs.emplace_back(info.name);
      }
      return Status::error(status.id(), status.message(), didYouMean(name, inputs, status.hint()));
    }
  }
  return Status::ok();
}

Status Importer::importInput(const ValueInfo &info, Scope &scope) {
  ImportedValue &value = scope.values[info.name] = ImportedValue();
  value.name = info.name;
  Type element = info.kind == ValueInfo::Kind::Tensor ? elementType(info.type) : Type();
  if (!element) {
    gaps.push_back(inputGap(info, "only dense tensors of numbers and bools can be inputs",
                            "move the part of the model that needs it outside"));
    return Status::ok();
  }
  for (const FixedInput &fixed : options.fixed) {
    if (fixed.input == info.name) {
      return fixInput(fixed, element, value);
    }
  }
  bool given =
      llvm::any_of(options.shapes, [&](const ShapeOverride &o) { return o.input == info.name; });
  std::optional<size_t> rank =
      info.hasShape || given ? std::nullopt : rankFromUses(model.graph, info.name);
  if (!info.hasShape && !given && !rank) {
    gaps.push_back(inputGap(
        info, "the model states no shape for this input, and its nodes do not determine its rank",
        strCat("give a size or a range for each, as in --shape '", info.name, ":1x[1..512]'")));
    return Status::ok();
  }
  TENON_ASSIGN(tn::Dims dims, inputDims(info, rank));
  value.type = tn::makeTensor(dims, element);
  TENON_TRY(checkValueType(value.type, info.name));
  value.value = addInput(info.name, dims, element);
  return Status::ok();
}

Status Importer::fixInput(const FixedInput &fixed, Type element, ImportedValue &value) {
  TensorData data;
  data.dims = fixed.dims;
  data.type = fixed.type;
  data.view = fixed.bytes;
  std::optional<int64_t> elements = elementCount(fixed.dims);
  std::optional<int64_t> size = byteSize(fixed.type, fixed.dims);
  RankedTensorType type = elements ? typeOf(data) : RankedTensorType();
  if (!size || !type || type.getElementType() != element ||
      static_cast<uint64_t>(*size) != fixed.bytes.size()) {
    return overrideError(fixed.input,
                         "the fixed value does not have the input's type or its own size");
  }
  data.elements = static_cast<uint64_t>(*elements);
  data.size = static_cast<uint64_t>(*size);
  value.type = type;
  value.constant = std::make_shared<TensorData>(std::move(data));
  return Status::ok();
}

Result<tn::Dims> Importer::inputDims(const ValueInfo &info, std::optional<size_t> rankOfUses) {
  const ShapeOverride *override = nullptr;
  for (const ShapeOverride &candidate : options.shapes) {
    if (candidate.input == info.name) {
      override = &candidate;
    }
  }
  if (override && info.hasShape && override->dims.size() != info.dims.size()) {
    return overrideError(info.name, strCat("gives ", override->dims.size(),
                                           " dimensions, the model ", info.dims.size()));
  }
  tn::Dims dims;
  size_t rank = info.hasShape ? info.dims.size() : override ? override->dims.size() : *rankOfUses;
  for (size_t i = 0; i < rank; ++i) {
    TENON_ASSIGN(AffineExpr dim, inputDim(info, i, override ? &override->dims[i] : nullptr));
    dims.push_back(dim);
  }
  return dims;
}

Result<AffineExpr> Importer::inputDim(const ValueInfo &info, size_t index,
                                      const DimOverride *override) {
  Dimension dim = info.hasShape ? info.dims[index] : Dimension();
  bool isOpen = dim.kind == Dimension::Kind::Value ? dim.value == -1
                                                   : dim.parameter.empty() || dim.parameter == "?";
  if (isOpen) {
    dim = Dimension(); // exporters write these for a size of its own that they do not know
  }
  if (override && override->kind == DimOverride::Kind::Keep) {
    override = nullptr;
  }
  if (override && (override->min < 0 || override->max < override->min)) {
    return overrideError(info.name, strCat("dimension ", index, " has no valid range"));
  }
  if (dim.kind == Dimension::Kind::Value) {
    if (dim.value < 0) {
      return Status::error(ErrorId::OnnxBadDim,
                           strCat("input '", info.name, "' has the dimension ", dim.value),
                           "export the model again");
    }
    if (override && (override->min != dim.value || override->max != dim.value)) {
      return overrideError(info.name, strCat("dimension ", index, " is ", dim.value,
                                             " in the model and cannot be changed"));
    }
    return symbols.constant(dim.value);
  }
  std::string name = dim.kind == Dimension::Kind::Parameter ? std::string(dim.parameter)
                                                            : strCat(info.name, ".", index);
  auto known = parameters.find(name);
  AffineExpr expression = known == parameters.end() ? AffineExpr() : known->second;
  if (override && expression) {
    tn::SymbolList::Range range = symbols.bounds(expression);
    if (range.min != override->min || range.max != override->max) {
      return overrideError(info.name, strCat("dimension ", index, " ('", name,
                                             "') already has another size or range"));
    }
  }
  if (!expression && parameters.size() == kMaxSymbols) {
    return Status::error(ErrorId::OnnxTooMany,
                         "the model's inputs have too many different symbolic dimensions",
                         "give dimensions that are equal the same name");
  }
  if (!expression) {
    bool fixed = override && override->min == override->max;
    expression = fixed ? symbols.constant(override->min)
                       : symbols.get(name, override ? override->min : options.symbolMin,
                                     override ? override->max : options.symbolMax,
                                     override != nullptr, static_cast<uint32_t>(index));
    parameters[name] = expression;
  }
  return expression;
}

tn::Dims Importer::statedDims(const ValueInfo &info) {
  tn::Dims dims;
  for (const Dimension &dim : info.dims) {
    AffineExpr expression;
    if (dim.kind == Dimension::Kind::Value && dim.value >= 0) {
      expression = symbols.constant(dim.value);
    } else if (dim.kind == Dimension::Kind::Parameter) {
      auto known = parameters.find(std::string(dim.parameter));
      expression = known == parameters.end() ? AffineExpr() : known->second;
    }
    dims.push_back(expression);
  }
  return dims;
}

Status Importer::finishOutputs(Scope &scope) {
  SmallVector<Value> results;
  SmallVector<StringAttr> names;
  if (model.graph.outputs.empty()) {
    return Status::error(ErrorId::OnnxUndefinedValue, "the model has no outputs",
                         "export the model again");
  }
  std::set<std::string> taken;
  for (const ValueInfo &info : model.graph.outputs) {
    taken.emplace(info.name);
  }
  std::unordered_set<std::string_view> named;
  for (const ValueInfo &info : model.graph.outputs) {
    ImportedValue *value = scope.find(info.name);
    if (!value) {
      return Status::error(ErrorId::OnnxUndefinedValue,
                           strCat("nothing defines the output '", info.name, "'"),
                           "export the model again");
    }
    if (value->isContainer()) {
      Gap gap = inputGap(info, "only tensors can be outputs, not sequences and optionals",
                         "make the elements outputs");
      gap.opType = "Output";
      gaps.push_back(std::move(gap));
    }
    if (!value->type) {
      continue;
    }
    bringUpToDate(*value);
    Value result = materialize(*value, NameLoc::get(builder.getStringAttr(info.name)));
    results.push_back(result);
    // A value may be several outputs, of which each has a name of its own in an engine.
    std::string name(info.name);
    bool isFirst = named.insert(info.name).second;
    for (unsigned i = 1; !isFirst && !taken.insert(name).second; ++i) {
      name = strCat(info.name, ".", i);
    }
    names.push_back(builder.getStringAttr(name));
  }
  endFunction(results, names);
  return Status::ok();
}

} // namespace tenon::onnx
