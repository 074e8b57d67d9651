// Sequences: lists of tensors that exist during the import only. Relies on positions, lengths and
// the sizes of parts being known, so that each operator gives a list of known length.
#include "compiler/frontend/onnx/ops/Bodies.h"

using namespace mlir;

namespace tenon::onnx {
namespace {

/// Longer ones are more likely a mistake.
constexpr int64_t kMaxElements = 4096;

/// The elements of an input; null after an error if it is no sequence.
ImportedValues *elementsOf(NodeContext &c, unsigned i) {
  ImportedValue &input = c.input(i);
  if (input.kind != ImportedValue::Kind::Sequence) {
    c.error(ErrorId::OnnxBadNode, "input " + Twine(i) + " is not a sequence");
    return nullptr;
  }
  return &input.elements;
}

void setSequence(NodeContext &c, unsigned output, ImportedValues elements) {
  if (elements.size() > size_t{kMaxElements}) {
    return c.gap("its sequence has more than " + Twine(kMaxElements) + " elements",
                 "keep its contents in one tensor");
  }
  for (const ImportedValue &element : elements) {
    if (element.isContainer() || elements[0].isContainer()) {
      return c.error(ErrorId::OnnxBadNode, "the elements of a sequence must be tensors");
    }
    if (element.type && element.type.getElementType() != elements[0].type.getElementType()) {
      return c.error(ErrorId::OnnxBadNode, "the elements of a sequence must have the same type");
    }
  }
  if (!c.failed()) {
    c.setOutput(output, sequenceOf(std::move(elements)));
  }
}

/// A position in [-size, most], made non-negative; none after a failure.
std::optional<int64_t> position(NodeContext &c, unsigned i, int64_t size, int64_t most) {
  if (!c.requireTensor(i)) {
    return std::nullopt;
  }
  std::optional<SmallVector<int64_t>> known = c.requireIntegers(i, "position in the sequence");
  if (!known) {
    return std::nullopt;
  }
  if (known->size() != 1 || known->front() < -size || known->front() > most) {
    c.error(ErrorId::OnnxBadNode,
            "the position is outside a sequence of " + Twine(size) + " elements");
    return std::nullopt;
  }
  return known->front() < 0 ? known->front() + size : known->front();
}

void sequenceConstruct(NodeContext &c) {
  if (!requireInputs(c, 0)) {
    return;
  }
  ImportedValues elements;
  for (unsigned i = 0; i < c.numInputs(); ++i) {
    elements.push_back(c.input(i));
  }
  setSequence(c, 0, std::move(elements));
}

void sequenceEmpty(NodeContext &c) {
  if (c.elementNamed("dtype", c.builder().getF32Type())) {
    setSequence(c, 0, {});
  }
}

void sequenceAt(NodeContext &c) {
  ImportedValues *elements = elementsOf(c, 0);
  int64_t size = elements ? static_cast<int64_t>(elements->size()) : 0;
  std::optional<int64_t> at = elements ? position(c, 1, size, size - 1) : std::nullopt;
  if (at) {
    c.setOutput(0, (*elements)[*at]);
  }
}

void sequenceInsert(NodeContext &c) {
  ImportedValues *elements = elementsOf(c, 0);
  if (!elements) {
    return;
  }
  int64_t size = static_cast<int64_t>(elements->size());
  std::optional<int64_t> at = c.has(2) ? position(c, 2, size, size) : size;
  if (at) {
    ImportedValues result = *elements;
    result.insert(result.begin() + *at, c.input(1));
    setSequence(c, 0, std::move(result));
  }
}

void sequenceErase(NodeContext &c) {
  ImportedValues *elements = elementsOf(c, 0);
  if (!elements) {
    return;
  }
  int64_t size = static_cast<int64_t>(elements->size());
  if (size == 0) {
    return c.error(ErrorId::OnnxBadNode, "the sequence has no element to erase");
  }
  std::optional<int64_t> at = c.has(1) ? position(c, 1, size, size - 1) : size - 1;
  if (at) {
    ImportedValues result = *elements;
    result.erase(result.begin() + *at);
    setSequence(c, 0, std::move(result));
  }
}

void sequenceLength(NodeContext &c) {
  if (ImportedValues *elements = elementsOf(c, 0)) {
    AffineExpr size = c.constantSize(static_cast<int64_t>(elements->size()));
    c.setOutput(0, Sizes::scalar(size), c.builder().getI64Type());
  }
}

/// Parts of one size, the last one smaller where that does not divide; none after a failure.
std::optional<SmallVector<AffineExpr>> chunks(NodeContext &c, AffineExpr dim, AffineExpr chunk) {
  std::optional<int64_t> length = tn::constantDim(dim), each = tn::constantDim(chunk);
  if (each && *each < 1) {
    c.error(ErrorId::OnnxBadNode, "the size of a part is not positive");
    return std::nullopt;
  }
  AffineExpr parts = length && each ? AffineExpr() : divideSizes(c.symbols(), dim, chunk);
  std::optional<int64_t> count = parts ? tn::constantDim(parts) : std::nullopt;
  if (count && *count <= kMaxElements && tn::sameDim(multiplySizes(chunk, parts), dim)) {
    return SmallVector<AffineExpr>(*count, chunk);
  }
  if (!length || !each || *length / *each >= kMaxElements) {
    c.gap("the number of parts is unknown, or more than " + Twine(kMaxElements),
          "declare one size with --shape");
    return std::nullopt;
  }
  SmallVector<AffineExpr> sizes;
  for (int64_t start = 0; start < *length; start += *each) {
    sizes.push_back(c.constantSize(std::min(*each, *length - start)));
  }
  return sizes;
}

std::optional<SmallVector<AffineExpr>> partSizes(NodeContext &c, AffineExpr dim) {
  if (!c.has(1)) {
    return chunks(c, dim, c.constantSize(1));
  }
  std::optional<Sizes> given = c.requireSizes(1, "list of split sizes");
  if (!given) {
    return std::nullopt;
  }
  if (given->rank() == 0) {
    return chunks(c, dim, given->values[0]);
  }
  AffineExpr total = c.constantSize(0);
  for (AffineExpr size : given->values) {
    total = addSizes(total, size);
  }
  bool fits =
      c.requireNotNegative(given->values, "the size of a part") &&
      c.require(tn::ConstraintKind::equal, dim, total, "the dimension and the sizes of its parts");
  return fits ? std::optional(given->values) : std::nullopt;
}

void splitToSequence(NodeContext &c) {
  bool keepsAxis = c.integer("keepdims", 1) != 0 || c.has(1);
  int64_t axis = c.axis("axis", 0, c.rank(0));
  if (c.failed()) {
    return;
  }
  std::optional<SmallVector<AffineExpr>> sizes = partSizes(c, c.dims(0)[axis]);
  if (!sizes) {
    return;
  }
  ImportedValues parts;
  AffineExpr start = c.constantSize(0);
  for (AffineExpr size : *sizes) {
    parts.push_back(takePart(c, c.input(0), axis, start, size, keepsAxis));
    start = addSizes(start, size);
  }
  setSequence(c, 0, std::move(parts));
}

void concatFromSequence(NodeContext &c) {
  bool isNewAxis = c.integer("new_axis", 0) != 0;
  int64_t axis = c.integer("axis", 0);
  ImportedValues *elements = elementsOf(c, 0);
  if (elements && elements->empty()) {
    return c.error(ErrorId::OnnxBadNode, "the sequence has no elements to join");
  }
  if (elements) {
    axis = c.normalizeAxis(axis, elements->front().type.getRank() + (isNewAxis ? 1 : 0));
  }
  if (!c.failed()) {
    c.setOutput(0, join(c, *elements, axis, isNewAxis));
  }
}

/// What iteration `k` of SequenceMap gives its body.
std::optional<ImportedValues> mappedInputs(NodeContext &c, size_t size, size_t k) {
  ImportedValues given;
  for (unsigned i = 0; i < c.numInputs(); ++i) {
    ImportedValue &input = c.input(i);
    bool isSequence = input.kind == ImportedValue::Kind::Sequence;
    if (isSequence && input.elements.size() != size) {
      c.error(ErrorId::OnnxBadNode, "input " + Twine(i) + " has another length than input 0");
      return std::nullopt;
    }
    given.push_back(isSequence ? input.elements[k] : input);
  }
  return given;
}

void sequenceMap(NodeContext &c) {
  ImportedValues *elements = requireInputs(c, 0) ? elementsOf(c, 0) : nullptr;
  if (!elements) {
    return;
  }
  size_t size = elements->size();
  Unrolling unrolling(c, c.numInputs(), static_cast<int64_t>(size));
  if (unrolling.body && unrolling.body->outputs.size() != c.numOutputs()) {
    c.error(ErrorId::OnnxBadAttribute, "attribute 'body' has other results than the node");
  }
  std::vector<ImportedValues> outputs(c.numOutputs());
  for (size_t k = 0; k < size && !c.failed(); ++k) {
    std::optional<ImportedValues> given = mappedInputs(c, size, k);
    std::optional<ImportedValues> results = given ? unrolling.next(*given) : std::nullopt;
    if (!results) {
      return;
    }
    for (auto [output, result] : llvm::zip_equal(outputs, *results)) {
      output.push_back(result);
    }
  }
  for (unsigned i = 0; i < c.numOutputs() && !c.failed(); ++i) {
    setSequence(c, i, std::move(outputs[i]));
  }
}

constexpr OpRow kSequenceOpRows[] = {
    {"ConcatFromSequence",
     11,
     1,
     1,
     1,
     concatFromSequence,
     {needs({"axis", kInt}), {"new_axis", kInt}},
     "",
     0,
     true},
    {"SequenceAt", 11, 2, 2, 1, sequenceAt, {}, "", 0, true},
    {"SequenceConstruct", 11, 1, kMany, 1, sequenceConstruct, {}, "", 0, true},
    {"SequenceEmpty", 11, 0, 0, 1, sequenceEmpty, {{"dtype", kInt}}},
    {"SequenceErase", 11, 1, 2, 1, sequenceErase, {}, "", 0, true},
    {"SequenceInsert", 11, 2, 3, 1, sequenceInsert, {}, "", 0, true},
    {"SequenceLength", 11, 1, 1, 1, sequenceLength, {}, "", 0, true},
    {"SequenceMap", 17, 1, kMany, kMany, sequenceMap, {needs({"body", kGraph})}, "", 0, true},
    {"SplitToSequence", 11, 1, 2, 1, splitToSequence, {{"axis", kInt}, {"keepdims", kInt}}},
};

} // namespace

ArrayRef<OpRow> sequenceRows() { return kSequenceOpRows; }

} // namespace tenon::onnx
