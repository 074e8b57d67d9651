// Opsets 13 to 21 by ONNX's operator changelog: only what changed its meaning or its spelling is
// named, everything else gained types and attributes whose defaults are the old meaning.
#include "compiler/quant/Opset.h"

#include "support/text/Text.h"

#include <algorithm>

namespace tenon::quant {
namespace {

using std::string_view;

/// Their axes became an operand.
constexpr string_view kReductions[] = {"ReduceL1",        "ReduceL2",   "ReduceLogSum",
                                       "ReduceLogSumExp", "ReduceMax",  "ReduceMean",
                                       "ReduceMin",       "ReduceProd", "ReduceSumSquare"};

void moveAxes(const Graph &graph, size_t index, ModelEdit &edit) {
  const onnx::Attribute *axes = attributeOf(graph.node(index), "axes");
  if (!axes) {
    return;
  }
  std::string name = edit.freshName(strCat(nameOf(graph.node(index)), "_axes"));
  std::vector<int64_t> dims = {static_cast<int64_t>(axes->ints.size())};
  edit.addConstant(name, onnx::DataType::Int64, dims,
                   {reinterpret_cast<const char *>(axes->ints.data()), axes->ints.size() * 8});
  edit.addOperand(index, name);
  edit.dropAttribute(index, "axes");
}

} // namespace

bool raiseLaterNode(const Graph &graph, size_t index, int64_t version, int64_t least,
                    ModelEdit &edit) {
  const onnx::Node &node = graph.node(index);
  if (!node.domain.empty() && node.domain != "ai.onnx") {
    return true;
  }
  auto passes = [&](int64_t opset) { return version < opset && opset <= least; };
  // Training mode's results changed at 14.
  bool trains = graph.isOp(index, "BatchNormalization") && node.outputs.size() > 1;
  // Its pixels are half a pixel further from 16 on, unless told; its modes have other names
  // from 20.
  bool moved = (graph.isOp(index, "RoiAlign") && passes(16)) ||
               (graph.isOp(index, "GridSample") && passes(20)) ||
               (graph.isOp(index, "DFT") && passes(20)) ||
               (graph.isOp(index, "GroupNormalization") && passes(21));
  if ((trains && passes(14)) || moved) {
    return false;
  }
  if (passes(18) && graph.isOneOf(index, kReductions)) {
    moveAxes(graph, index, edit);
  }
  bool isEven = graph.isOp(index, "Split") && node.inputs.size() < 2 && !attributeOf(node, "split");
  if (passes(18) && isEven) {
    edit.setInteger(index, "num_outputs", static_cast<int64_t>(node.outputs.size()));
  }
  return true;
}

} // namespace tenon::quant
