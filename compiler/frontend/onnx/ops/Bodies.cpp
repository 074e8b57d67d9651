// Bodies that are imported in place, and the values that go into and come out of them.
// Relies on a scope of its own for each import of a body: names are defined once in it.
#include "compiler/frontend/onnx/ops/Bodies.h"

#include "compiler/frontend/common/Selection.h"

using namespace mlir;

namespace tenon::onnx {

std::optional<ImportedValues> importBody(NodeContext &c, StringRef name,
                                         const ImportedValues &inputs) {
  const Attribute *attribute = c.attribute(name, AttributeType::Graph);
  if (!attribute || !attribute->graph || attribute->graph->inputs.size() != inputs.size()) {
    c.error(ErrorId::OnnxBadAttribute, "attribute '" + name + "' is missing or does not accept " +
                                           Twine(inputs.size()) + " inputs");
    return std::nullopt;
  }
  const Graph &body = *attribute->graph;
  Scope inner;
  inner.outer = &c.scope();
  Status status = c.importer().importInitializers(body, inner);
  for (auto [info, value] : llvm::zip_equal(body.inputs, inputs)) {
    inner.values[info.name] = value;
  }
  if (status.isOk()) {
    status = c.importer().importNodes(body.nodes, inner, c.frame());
  }
  c.symbols().setNode(nameOf(c.node));
  if (!status.isOk()) {
    c.importer().setError(std::move(status));
    return std::nullopt;
  }
  ImportedValues results;
  for (const ValueInfo &output : body.outputs) {
    ImportedValue *value = inner.find(output.name);
    if (!value) {
      c.error(ErrorId::OnnxUndefinedValue,
              "nothing defines the result '" + StringRef(output.name) + "' of its '" + name + "'");
      return std::nullopt;
    }
    c.importer().bringUpToDate(*value);
    results.push_back(*value);
  }
  return results;
}

//===--- Repetition ---===//

namespace {

uint64_t countNodes(const Graph &graph) {
  uint64_t count = graph.nodes.size();
  for (const Node &node : graph.nodes) {
    for (const Attribute &attribute : node.attributes) {
      count += attribute.graph ? countNodes(*attribute.graph) : 0;
    }
  }
  return count;
}

} // namespace

Unrolling::Unrolling(NodeContext &context, size_t numInputs, std::optional<int64_t> count)
    : c(context), iterations(count) {
  const Attribute *attribute = c.attribute("body", AttributeType::Graph);
  if (!attribute || !attribute->graph || attribute->graph->inputs.size() != numInputs) {
    c.error(ErrorId::OnnxBadAttribute,
            "attribute 'body' is missing or does not accept " + Twine(numInputs) + " inputs");
    return;
  }
  body = attribute->graph.get();
  nodes = std::max<uint64_t>(1, countNodes(*body));
}

std::optional<ImportedValues> Unrolling::next(const ImportedValues &inputs) {
  Importer &importer = c.importer();
  importer.unrolledNodes += nodes;
  if (importer.unrolledNodes > kMaxUnrolledNodes) {
    std::string count = iterations ? std::to_string(*iterations) : "an unknown number of";
    c.gap("it has " + count + " iterations of " + Twine(nodes) + " nodes; after " + Twine(done) +
              " of them the model reaches the limit of " + Twine(kMaxUnrolledNodes) +
              " unrolled nodes",
          "give it fewer iterations, or repeat its body outside the model");
    return std::nullopt;
  }
  ++done;
  size_t gapsBefore = importer.numGaps();
  std::optional<ImportedValues> results = importBody(c, "body", inputs);
  bool isPoisoned =
      importer.numGaps() != gapsBefore ||
      (results && llvm::any_of(*results, [](const ImportedValue &x) { return x.isPoisoned(); }));
  if (isPoisoned) {
    for (unsigned i = 0; i < c.numOutputs(); ++i) {
      c.setOutput(i, ImportedValue());
    }
    return std::nullopt;
  }
  return results;
}

//===--- Values ---===//

bool requireInputs(NodeContext &c, unsigned first) {
  for (unsigned i = first; i < c.numInputs(); ++i) {
    if (!c.has(i)) {
      c.error(ErrorId::OnnxBadArity, "omits input " + Twine(i) + ", which is required");
    }
  }
  return !c.failed();
}

ImportedValue knownInteger(NodeContext &c, int64_t value, Type element) {
  ImportedValue result;
  result.type = RankedTensorType::get({}, element);
  result.sizes = Sizes::scalar(c.constantSize(value));
  return result;
}

ImportedValue tensorOf(Value value) {
  ImportedValue result;
  result.value = value;
  result.type = value ? cast<RankedTensorType>(value.getType()) : RankedTensorType();
  return result;
}

ImportedValue sequenceOf(ImportedValues elements) {
  ImportedValue result;
  result.kind = ImportedValue::Kind::Sequence;
  result.elements = std::move(elements);
  return result;
}

namespace {

ImportedValue known(Sizes sizes, Type element) {
  ImportedValue result;
  result.type = RankedTensorType::get(sizes.shape, element);
  result.sizes = std::move(sizes);
  return result;
}

Value dataOf(NodeContext &c, ImportedValue &x) {
  c.importer().bringUpToDate(x);
  return c.importer().materialize(x, c.location());
}

} // namespace

ImportedValue takePart(NodeContext &c, ImportedValue &x, int64_t axis, AffineExpr start,
                       AffineExpr size, bool keepAxis) {
  std::optional<int64_t> first = tn::constantDim(start), count = tn::constantDim(size);
  std::optional<Sizes> elements = first && count ? c.sizesOf(x) : std::nullopt;
  if (elements) {
    elements = sliceSizes(*elements, axis, *first, /*step=*/1, *count);
  }
  if (elements) {
    if (!keepAxis) {
      elements->shape.erase(elements->shape.begin() + axis);
    }
    return known(std::move(*elements), x.type.getElementType());
  }
  Value part = c.sliceAxis(dataOf(c, x), axis, start, size);
  if (part && !keepAxis) {
    tn::Dims dims = tn::getDims(part.getType());
    dims.erase(dims.begin() + axis);
    part = c.reshape(part, dims);
  }
  return tensorOf(part);
}

ImportedValue join(NodeContext &c, ImportedValues &parts, int64_t axis, bool isNewAxis) {
  for (const ImportedValue &part : parts) {
    if (part.isContainer() || parts[0].isContainer() ||
        part.type.getRank() != parts[0].type.getRank()) {
      c.error(ErrorId::OnnxBadNode, "the joined values are not tensors of one rank");
      return ImportedValue();
    }
  }
  SmallVector<Sizes> elements;
  for (ImportedValue &part : parts) {
    std::optional<Sizes> some =
        elements.size() < size_t{Sizes::kMaxElements} ? c.sizesOf(part) : std::nullopt;
    if (!some) {
      break;
    }
    if (isNewAxis) {
      some->shape.insert(some->shape.begin() + axis, 1);
    }
    elements.push_back(std::move(*some));
  }
  std::optional<Sizes> joined =
      elements.size() == parts.size() ? concatSizes(elements, axis) : std::nullopt;
  if (joined) {
    return known(std::move(*joined), parts[0].type.getElementType());
  }
  SmallVector<Value> values;
  for (ImportedValue &part : parts) {
    Value value = dataOf(c, part);
    if (value && isNewAxis) {
      tn::Dims dims = tn::getDims(value.getType());
      dims.insert(dims.begin() + axis, c.constantSize(1));
      value = c.reshape(value, dims);
    }
    values.push_back(value);
  }
  return tensorOf(c.concat(values, axis));
}

ImportedValue joinNone(NodeContext &c, const ValueInfo &result, int64_t axis) {
  tn::Dims dims = c.importer().statedDims(result);
  Type element = c.importer().elementType(result.type);
  bool isStated = result.hasShape && element &&
                  llvm::all_of(dims, [](AffineExpr dim) { return static_cast<bool>(dim); });
  if (!isStated || axis > static_cast<int64_t>(dims.size())) {
    c.gap("without iterations it needs the type of '" + StringRef(result.name) +
              "', which its body does not state",
          "state the types of the body's outputs");
    return ImportedValue();
  }
  dims.insert(dims.begin() + axis, c.constantSize(0));
  return tensorOf(c.broadcast(c.scalar(0, element), dims));
}

//===--- Choice ---===//

ImportedValue Choice::gap(StringRef reason) {
  c.gap(reason, workaround);
  return ImportedValue();
}

ImportedValue Choice::between(ImportedValue a, ImportedValue b) {
  c.importer().bringUpToDate(a);
  c.importer().bringUpToDate(b);
  if (a.isPoisoned() || b.isPoisoned()) {
    return ImportedValue();
  }
  if (a.kind != b.kind || a.elements.size() != b.elements.size()) {
    return gap(
        "data decides between sequences of different lengths, or whether an optional has a value");
  }
  if (a.isContainer()) {
    for (auto [x, y] : llvm::zip_equal(a.elements, b.elements)) {
      x = between(x, y);
    }
    return a;
  }
  if (a.type != b.type) {
    return ofSizes(a, b);
  }
  bool isSame =
      (a.value && a.value == b.value) || (a.sizes && b.sizes && a.sizes->values == b.sizes->values);
  return isSame ? a : tensorOf(c.select(condition, dataOf(c, a), dataOf(c, b)));
}

ImportedValue Choice::ofSizes(ImportedValue &a, ImportedValue &b) {
  tn::Dims left = tn::getDims(a.type), right = tn::getDims(b.type);
  SmallVector<int64_t> axes;
  for (int64_t i = 0; left.size() == right.size() && i < a.type.getRank(); ++i) {
    if (!tn::sameDim(left[i], right[i])) {
      axes.push_back(i);
    }
  }
  if (axes.empty() || a.type.getElementType() != b.type.getElementType()) {
    return gap(why);
  }
  Value first = dataOf(c, a), second = dataOf(c, b);
  if (axes.size() == 1) {
    return tensorOf(fromBoth(first, second, axes[0]));
  }
  for (int64_t axis : axes) {
    Value places = positions(left[axis], right[axis]);
    first = asManyAs(places, first, axis);
    second = asManyAs(places, second, axis);
  }
  return tensorOf(c.select(condition, first, second));
}

/// One is behind the other in a list of both; positions in it start at the one that is chosen.
Value Choice::fromBoth(Value first, Value second, int64_t axis) {
  AffineExpr left = tn::getDims(first.getType())[axis], right = tn::getDims(second.getType())[axis];
  Value places = positions(left, right);
  if (tn::constantDim(left) == 0) {
    return c.make<tn::GatherOp>(second, places, axis);
  }
  if (tn::constantDim(right) == 0) {
    return c.make<tn::GatherOp>(first, places, axis);
  }
  Type index = c.builder().getI64Type();
  Value start = c.select(condition, c.scalar(0, index), c.sizeValue(left, index));
  return c.make<tn::GatherOp>(c.concat({first, second}, axis), c.add(places, start), axis);
}

/// x cut, or its end repeated, to as many as there are places. What is repeated belongs to the
/// value that is not chosen.
Value Choice::asManyAs(Value places, Value x, int64_t axis) {
  if (!x || !places) {
    return Value();
  }
  tn::Dims dims = tn::getDims(x.getType());
  if (c.symbols().bounds(dims[axis]).min < 1) {
    // There is something to repeat in an empty one too.
    tn::Dims one = dims;
    one[axis] = c.constantSize(1);
    x = c.concat({x, c.broadcast(c.scalarLike(0, x), one)}, axis);
    dims[axis] = addSizes(dims[axis], one[axis]);
  }
  Value last = c.sizeValue(subtractSizes(dims[axis], c.constantSize(1)), c.builder().getI64Type());
  return c.make<tn::GatherOp>(x, c.min(places, last), axis);
}

Value Choice::positions(AffineExpr a, AffineExpr b) {
  for (const Positions &entry : known) {
    if (tn::sameDim(c.symbols().canonical(entry.a), a) &&
        tn::sameDim(c.symbols().canonical(entry.b), b)) {
      return entry.value;
    }
  }
  const Symbols &symbols = c.symbols();
  bool isFirstLess = symbols.compare(a, Comparison::LessOrEqual, b).value_or(false);
  bool isSecondLess = symbols.compare(b, Comparison::LessOrEqual, a).value_or(false);
  // Of two of which neither is known to be less, there is room for both.
  AffineExpr most = isFirstLess ? b : isSecondLess ? a : addSizes(a, b);
  Type index = c.builder().getI64Type();
  Value count = c.select(condition, c.sizeValue(a, index), c.sizeValue(b, index));
  Value places = takeFirst(c, c.positions(most), count, 0);
  known.push_back({a, b, places});
  return places;
}

} // namespace tenon::onnx
