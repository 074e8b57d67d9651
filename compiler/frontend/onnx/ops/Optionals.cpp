// Optionals: values that exist during the import only and hold a tensor, a sequence or nothing.
// Relies on what an optional holds being known, so that questions about it have constant answers.
#include "compiler/frontend/onnx/NodeContext.h"

using namespace mlir;

namespace tenon::onnx {
namespace {

void optional(NodeContext &c) {
  c.ignore("type"); // what holds nothing is the same in every type
  ImportedValue result;
  result.kind = ImportedValue::Kind::Optional;
  if (c.has(0)) {
    if (c.input(0).kind == ImportedValue::Kind::Optional) {
      return c.error(ErrorId::OnnxBadNode, "an optional cannot contain an optional");
    }
    result.elements.push_back(c.input(0));
  }
  c.setOutput(0, result);
}

bool isEmpty(const ImportedValue &value) {
  return value.kind == ImportedValue::Kind::Optional && value.elements.empty();
}

void optionalHasElement(NodeContext &c) {
  bool has = c.has(0) && !isEmpty(c.input(0));
  c.setOutput(0, Sizes::scalar(c.constantSize(has)), c.builder().getI1Type());
}

void optionalGetElement(NodeContext &c) {
  ImportedValue &input = c.input(0);
  if (isEmpty(input)) {
    return c.error(ErrorId::OnnxBadNode, "the optional is empty");
  }
  c.setOutput(0, input.kind == ImportedValue::Kind::Optional ? input.elements[0] : input);
}

constexpr OpRow kOptionalOpRows[] = {
    {"Optional", 15, 0, 1, 1, optional, {{"type", kTypeProto}}, "", 0, true},
    {"OptionalGetElement", 15, 1, 1, 1, optionalGetElement, {}, "", 0, true},
    {"OptionalHasElement", 15, 1, 1, 1, optionalHasElement, {}, "", 0, true},
    {"OptionalHasElement", 18, 0, 1, 1, optionalHasElement, {}, "", 0, true},
};

} // namespace

ArrayRef<OpRow> optionalRows() { return kOptionalOpRows; }

} // namespace tenon::onnx
