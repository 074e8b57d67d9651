// Pad. Relies on sizes being known as expressions.
#include "compiler/frontend/common/Padding.h"

#include "compiler/frontend/onnx/NodeContext.h"

using namespace mlir;

namespace tenon::onnx {
namespace {

constexpr int64_t kMaxPadding = int64_t{1} << 30;

struct Padding {
  SmallVector<AffineExpr> begins, ends; ///< of each dim
};

std::optional<tn::PadMode> padMode(NodeContext &c) {
  std::string mode = c.text("mode", "constant");
  if (mode == "constant") {
    return tn::PadMode::constant;
  }
  if (mode == "reflect") {
    return tn::PadMode::reflect;
  }
  if (mode == "edge") {
    return tn::PadMode::edge;
  }
  if (mode == "wrap") {
    return tn::PadMode::wrap;
  }
  c.error(ErrorId::OnnxBadAttribute, "attribute 'mode' has an unknown value");
  return std::nullopt;
}

/// Whether pads and value are inputs.
bool hasInputs(const NodeContext &c) { return c.opset >= 11 || c.node.domain == kMicrosoft; }

/// The pads as the node lists them: those before, then those behind, of the axes.
std::optional<SmallVector<AffineExpr>> listedPads(NodeContext &c) {
  if (hasInputs(c)) {
    std::optional<Sizes> sizes = c.requireSizes(1, "padding");
    return sizes ? std::optional(sizes->values) : std::nullopt;
  }
  SmallVector<AffineExpr> pads;
  for (int64_t pad : c.integerList(c.opset < 2 ? "paddings" : "pads")) {
    pads.push_back(c.constantSize(pad));
  }
  return pads;
}

/// Puts the pads of the listed axes in their places; false after a failure.
bool readPads(NodeContext &c, Padding &padding) {
  int64_t rank = c.rank(0);
  std::optional<SmallVector<AffineExpr>> pads = listedPads(c);
  SmallVector<int64_t> axes = llvm::to_vector(llvm::seq<int64_t>(0, rank));
  if (c.opset >= 18 && c.has(3)) {
    axes = c.requireIntegers(3, "list of axes").value_or(SmallVector<int64_t>());
  }
  if (!pads || c.failed()) {
    return false;
  }
  if (pads->size() != 2 * axes.size()) {
    c.error(ErrorId::OnnxBadNode, "the padding does not have two entries per dimension");
    return false;
  }
  padding.begins.assign(rank, c.constantSize(0));
  padding.ends.assign(rank, c.constantSize(0));
  for (size_t i = 0; i < axes.size(); ++i) {
    int64_t axis = c.normalizeAxis(axes[i], rank);
    padding.begins[axis] = (*pads)[i];
    padding.ends[axis] = (*pads)[axes.size() + i];
    for (AffineExpr pad : {padding.begins[axis], padding.ends[axis]}) {
      if (std::abs(tn::constantDim(pad).value_or(0)) > kMaxPadding) {
        c.error(ErrorId::OnnxShapeOverflow, "the padding is too large");
      }
    }
  }
  return !c.failed();
}

void pad(NodeContext &c) {
  Padding padding;
  std::optional<tn::PadMode> mode = padMode(c);
  if (!mode || !readPads(c, padding)) {
    return;
  }
  Value value = hasInputs(c) ? c.value(2) : c.scalarLike(c.real("value", 0), c.value(0));
  if (value && cast<RankedTensorType>(value.getType()).getRank() != 0) {
    value = c.reshape(value, {});
  }
  if (*mode != tn::PadMode::constant) {
    value = Value();
  }
  c.setOutput(0, frontend::padBy(c, c.value(0), value, padding.begins, padding.ends, *mode));
}

constexpr Attributes kPad = {{"mode", kString},
                             needs({"paddings", kInts, 1, 1}),
                             needs({"pads", kInts, 2}),
                             {"value", kFloat}};

constexpr OpRow kPadOpRows[] = {
    {"Pad", 1, 1, 1, 1, pad, kPad},
    {"Pad", 11, 2, 3, 1, pad, {{"mode", kString}}},
    {"Pad", 18, 2, 4, 1, pad, {{"mode", kString}}},
    {"Pad", 1, 2, 3, 1, pad, {{"mode", kString}}, kMicrosoft},
};

} // namespace

ArrayRef<OpRow> padRows() { return kPadOpRows; }

} // namespace tenon::onnx
