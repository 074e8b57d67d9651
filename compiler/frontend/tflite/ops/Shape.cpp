// Other shapes of the same elements, and shapes as elements. What a result's dims are stands in the
// file.
#include "compiler/frontend/tflite/Node.h"

using namespace mlir;

namespace tenon::tflite {
namespace {

void reshaped(Node &c) { c.setOutput(c.reshape(c.value(0), c.statedShape(0))); }

void shapeOf(Node &c) {
  mlir::Value x = c.stored(0);
  std::optional<DType> type = typeOf(c.output(0));
  if (x && (type == DType::I32 || type == DType::I64)) {
    ArrayRef<int64_t> dims = c.shape(x);
    c.setOutput(c.integerConstant(dims, {static_cast<int64_t>(dims.size())},
                                  c.importer().elementType(*type)));
  }
}

void pack(Node &c) {
  const fb::PackOptions *options = c.options(c.op.options_as_PackOptions());
  SmallVector<int64_t> stated = c.statedShape(0);
  std::optional<int64_t> axis =
      options ? c.axis(options->axis(), static_cast<int64_t>(stated.size())) : std::nullopt;
  if (!axis) {
    return;
  }
  stated[*axis] = 1;
  SmallVector<mlir::Value> parts;
  for (size_t i = 0; i < c.numInputs(); ++i) {
    parts.push_back(c.reshape(c.value(i), stated));
  }
  c.setOutput(c.failed() ? mlir::Value() : c.concat(parts, *axis));
}

void unpack(Node &c) {
  const fb::UnpackOptions *options = c.options(c.op.options_as_UnpackOptions());
  mlir::Value x = c.value(0);
  std::optional<int64_t> axis = options && x ? c.axis(options->axis(), c.rank(x)) : std::nullopt;
  for (size_t i = 0; axis && i < c.numOutputs(); ++i) {
    if (static_cast<int64_t>(i) >= c.shape(x)[*axis]) {
      return c.error(ErrorId::OnnxBadNode, "it has more results than elements along its axis");
    }
    mlir::Value part =
        c.sliceAxis(x, *axis, c.constantSize(static_cast<int64_t>(i)), c.constantSize(1));
    c.setOutput(i, c.reshape(part, c.statedShape(i)));
  }
}

void broadcastTo(Node &c) { c.setOutput(c.broadcast(c.value(0), c.statedShape(0))); }

} // namespace

llvm::ArrayRef<OpRow> shapeRows() {
  static constexpr OpRow kRows[] = {
      {"BROADCAST_TO", 1, broadcastTo},
      {"EXPAND_DIMS", 1, reshaped},
      {"PACK", 1, pack},
      {"RESHAPE", 1, reshaped},
      {"SHAPE", 1, shapeOf},
      {"SQUEEZE", 1, reshaped},
      {"UNPACK", 1, unpack},
  };
  return kRows;
}

} // namespace tenon::tflite
