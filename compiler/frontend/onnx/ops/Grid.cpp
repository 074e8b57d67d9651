// AffineGrid and GridSample: attributes as common/GridSample.h takes them.
#include "compiler/frontend/common/GridSample.h"

#include "compiler/frontend/onnx/NodeContext.h"

using namespace mlir;

namespace tenon::onnx {
namespace {

void affineGrid(NodeContext &c) {
  std::optional<Sizes> size = c.requireSizes(1, "size of the grid");
  if (size) {
    c.setOutput(
        0, frontend::affineGrid(c, c.value(0), size->values, c.integer("align_corners", 0) != 0));
  }
}

std::optional<Padding> paddingMode(NodeContext &c) {
  std::string name = c.text("padding_mode", "zeros");
  if (name == "zeros") {
    return Padding::Zeros;
  }
  if (name == "border") {
    return Padding::Border;
  }
  if (name == "reflection") {
    return Padding::Reflection;
  }
  c.error(ErrorId::OnnxBadAttribute, "attribute 'padding_mode' has an unknown value");
  return std::nullopt;
}

/// The names before opset 20 in those since.
std::optional<std::string> sampleMode(NodeContext &c) {
  std::string mode = c.text("mode", c.opset < 20 ? "bilinear" : "linear");
  mode = mode == "bilinear" ? "linear" : mode == "bicubic" ? "cubic" : mode;
  if (mode != "linear" && mode != "cubic" && mode != "nearest") {
    c.error(ErrorId::OnnxBadAttribute, "attribute 'mode' has an unknown value");
    return std::nullopt;
  }
  return mode;
}

void gridSample(NodeContext &c) {
  std::optional<std::string> mode = sampleMode(c);
  std::optional<Padding> padding = paddingMode(c);
  if (mode && padding) {
    c.setOutput(0, frontend::sampleGrid(c, c.value(0), c.value(1), *mode, *padding,
                                        c.integer("align_corners", 0) != 0));
  }
}

constexpr OpRow kGridOpRows[] = {
    {"AffineGrid", 20, 2, 2, 1, affineGrid, {{"align_corners", kInt}}},
    {"GridSample",
     16,
     2,
     2,
     1,
     gridSample,
     {{"align_corners", kInt}, {"mode", kString}, {"padding_mode", kString}}},
};

} // namespace

ArrayRef<OpRow> gridRows() { return kGridOpRows; }

} // namespace tenon::onnx
