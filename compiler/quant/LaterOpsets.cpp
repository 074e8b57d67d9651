// Opsets 13 to 21 by ONNX's operator changelog: only what changed its meaning or its spelling is
// named, everything else gained types and attributes whose defaults are the old meaning.
#include "compiler/quant/Opset.h"

#include "support/text/Text.h"

#include <algorithm>

namespace tenon::quant {
namespace {

using std::string_view;

/// Its pixels are half a pixel further from 16 on, unless told otherwise.
void keepPixels(const Graph &graph, size_t index, ModelEdit &edit) {
  if (!attributeOf(graph.node(index), "coordinate_transformation_mode")) {
    edit.setText(index, "coordinate_transformation_mode", "output_half_pixel");
  }
}

/// Modes have other names from 20 on.
void renameMode(const Graph &graph, size_t index, ModelEdit &edit) {
  const onnx::Attribute *mode = attributeOf(graph.node(index), "mode");
  string_view old = mode ? mode->s : "bilinear";
  edit.setText(index, "mode", old == "bilinear" ? "linear" : old == "bicubic" ? "cubic" : old);
}

/// The axis is an operand from 20 on.
void moveAxis(const Graph &graph, size_t index, ModelEdit &edit) {
  const onnx::Node &node = graph.node(index);
  std::string name = edit.freshName(strCat(nameOf(node), "_axis"));
  std::vector<int64_t> axis = {integerOf(node, "axis", 1)};
  edit.addConstant(name, onnx::DataType::Int64, {}, bytesOf(axis));
  if (node.inputs.size() < 2) {
    edit.addOperand(index, "");
  }
  edit.addOperand(index, name);
  edit.dropAttribute(index, "axis");
}

/// Before 21 a group had one scale and shift: groups are the channels of another norm.
void normalizeGroups(const Graph &graph, size_t index, ModelEdit &edit) {
  const onnx::Node &node = graph.node(index);
  std::string name(nameOf(node)), x(node.inputs.front());
  std::string dims = edit.freshName(name + "_dims"), shape = edit.freshName(name + "_shape");
  std::string groups = edit.freshName(name + "_groups"), rows = edit.freshName(name + "_rows");
  std::vector<int64_t> view = {0, integerOf(node, "num_groups", 1), -1};
  int64_t count[] = {3};
  edit.addConstant(shape, onnx::DataType::Int64, count, bytesOf(view));
  edit.insertBefore(index, nodeMessage("Shape", edit.freshName(name + "_Shape"), {&x, 1}, dims));
  std::string to[] = {x, shape}, back[] = {rows, dims};
  edit.insertBefore(index, nodeMessage("Reshape", edit.freshName(name + "_Reshape"), to, groups));
  std::string operands[] = {groups, std::string(node.inputs[1]), std::string(node.inputs[2])};
  onnx::Message norm = nodeMessage("InstanceNormalization", name, operands, rows);
  addReal(norm, "epsilon", realOf(node, "epsilon", 1e-5F));
  edit.insertBefore(index, std::move(norm));
  edit.insertBefore(index, nodeMessage("Reshape", edit.freshName(name + "_Reshape"), back,
                                       std::string(node.outputs.front())));
  edit.keep(node.inputs[1]);
  edit.keep(node.inputs[2]);
  edit.drop(index);
}

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
  if (trains && passes(14)) {
    return false;
  }
  if (graph.isOp(index, "RoiAlign") && passes(16)) {
    keepPixels(graph, index, edit);
  } else if (graph.isOp(index, "GridSample") && passes(20)) {
    renameMode(graph, index, edit);
  } else if (graph.isOp(index, "DFT") && passes(20)) {
    moveAxis(graph, index, edit);
  } else if (graph.isOp(index, "GroupNormalization") && passes(21)) {
    normalizeGroups(graph, index, edit);
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
