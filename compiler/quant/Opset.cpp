// By ONNX's operator changelog (docs/Changelog.md of onnx): what of opsets 7 to 12 is spelled
// otherwise in 13. What is not named here means the same in all of them.
#include "compiler/quant/Opset.h"

#include "compiler/frontend/onnx/wire/ModelReader.h"
#include "compiler/frontend/onnx/wire/TensorData.h"
#include "compiler/quant/InnerModel.h"
#include "support/text/Text.h"

#include <algorithm>
#include <cstring>

namespace tenon::quant {
namespace {

using onnx::DataType;
using onnx::Message;
using std::string_view;

constexpr int64_t kOpset = 13, kOldest = 7;

/// That came with an opset (docs/Versioning.md of onnx).
int64_t irVersionOf(int64_t opset) { return opset >= 21 ? 10 : opset >= 19 ? 9 : 7; }

/// Whose meaning changed and is not said by what opset 13 has.
constexpr string_view kNever[] = {"QuantizeLinear", "DequantizeLinear"};

class OpsetRaiser {
public:
  OpsetRaiser(const onnx::Model &model, const Graph &graph, int64_t version, int64_t least,
              ModelEdit &edit)
      : model(model), graph(graph), version(version), least(least), edit(edit) {}

  Status raise(size_t index);
  Status raiseLater(size_t index);

private:
  std::string integers(size_t index, string_view attribute, const std::vector<int64_t> &values) {
    std::string name = edit.freshName(strCat(nameOf(graph.node(index)), "_", attribute));
    std::vector<int64_t> dims = {static_cast<int64_t>(values.size())};
    edit.addConstant(name, DataType::Int64, dims,
                     {reinterpret_cast<const char *>(values.data()), values.size() * 8});
    return name;
  }
  /// A list of integers goes from an attribute to the next operand.
  void moveIntegers(size_t index, string_view attribute) {
    if (const onnx::Attribute *list = attributeOf(graph.node(index), attribute)) {
      edit.addOperand(index, integers(index, attribute, list->ints));
      edit.dropAttribute(index, attribute);
    }
  }
  void moveReal(size_t index, string_view attribute) {
    const onnx::Attribute *value = attributeOf(graph.node(index), attribute);
    std::string name;
    if (value) {
      name = edit.freshName(strCat(nameOf(graph.node(index)), "_", attribute));
      edit.addScalar(name, value->f);
      edit.dropAttribute(index, attribute);
    }
    edit.addOperand(index, name);
  }
  Status refuse(size_t index) const {
    return Status::error(
        ErrorId::BadArgument,
        strCat("the model has opset ", version, ", but the output needs opset ", least,
               " or newer, and ", graph.node(index).opType, " '", nameOf(graph.node(index)),
               "' is not known to mean the same there"),
        "export it again with a newer opset, or raise it with onnx.version_converter");
  }
  Status raiseGraphs(size_t index);
  void raiseSoftmax(size_t index);
  std::vector<float> scalesOf(size_t index) const;
  void raiseResize(size_t index);

  const onnx::Model &model;
  const Graph &graph;
  int64_t version, least;
  ModelEdit &edit;
};

/// Graphs inside of a node are raised as models of their own; what they read from around them is an
/// input that such a model does not name.
Status OpsetRaiser::raiseGraphs(size_t index) {
  for (const onnx::Attribute &attribute : graph.node(index).attributes) {
    if (!attribute.graph) {
      continue;
    }
    TENON_ASSIGN(std::unique_ptr<InnerModel> branch, InnerModel::read(model, *attribute.graph));
    const onnx::Model &inner = branch->model();
    Graph own(inner);
    ModelEdit innerEdit(branch->bytes(), inner, own);
    innerEdit.writeInto(edit);
    innerEdit.keepExternal();
    TENON_TRY(raiseOpset(inner, own, innerEdit, least).takeStatus());
    onnx::ExternalFiles none("");
    TENON_ASSIGN(std::string raised, innerEdit.write(none, ""));
    TENON_ASSIGN(onnx::Model result, onnx::readModel(std::as_bytes(std::span(raised))));
    edit.setGraph(index, attribute.name, result.graph);
  }
  return Status::ok();
}

/// Before 13 all dims from the axis on were one row; where these are more than the last, or the
/// rank is not known, they are made one.
void OpsetRaiser::raiseSoftmax(size_t index) {
  const onnx::Node &node = graph.node(index);
  int64_t axis = integerOf(node, "axis", 1);
  std::string value(node.inputs.front());
  std::optional<size_t> rank = graph.rankOf(value);
  if (axis == -1 || (rank && static_cast<int64_t>(*rank) == axis + 1)) {
    edit.dropAttribute(index, "axis");
    return;
  }
  std::string name(nameOf(node)), dims = edit.freshName(name + "_dims");
  std::string rows = edit.freshName(name + "_rows"), result = edit.freshName(name + "_result");
  std::string inputs[] = {result, dims};
  edit.insertBefore(
      index, nodeMessage("Shape", edit.freshName(name + "_Shape"), std::span(&value, 1), dims));
  edit.insertBefore(index, nodeMessage("Flatten", edit.freshName(name + "_Flatten"),
                                       std::span(&value, 1), rows, "axis", axis));
  edit.insertBefore(index, nodeMessage(node.opType, name, std::span(&rows, 1), result, "axis", -1));
  edit.insertBefore(index, nodeMessage("Reshape", edit.freshName(name + "_Reshape"), inputs,
                                       std::string(node.outputs.front())));
  edit.drop(index);
}

/// The factors, where they are known.
std::vector<float> OpsetRaiser::scalesOf(size_t index) const {
  const onnx::Node &node = graph.node(index);
  if (const onnx::Attribute *list = attributeOf(node, "scales")) {
    return list->floats;
  }
  const onnx::Tensor *tensor = node.inputs.size() > 1 ? graph.constant(node.inputs[1]) : nullptr;
  onnx::ExternalFiles none("");
  Result<onnx::TensorData> data = tensor && tensor->type == DataType::Float
                                      ? onnx::loadTensor(*tensor, none)
                                      : Result<onnx::TensorData>(onnx::TensorData());
  std::vector<float> scales(data && !data->seeded ? data->elements : 0);
  std::memcpy(scales.data(), data ? data->view.data() : nullptr, scales.size() * sizeof(float));
  return scales;
}

/// Upsample, and Resize of opset 10: from 11 on Resize says how it finds places. What nearest makes
/// smaller rounds them up, the rest down, which takes two nodes where both are asked for.
void OpsetRaiser::raiseResize(size_t index) {
  const onnx::Node &node = graph.node(index);
  const onnx::Attribute *mode = attributeOf(node, "mode");
  std::string name(nameOf(node)), value(node.inputs.front()), result(node.outputs.front());
  std::vector<float> scales = scalesOf(index), down = scales, up = scales;
  bool isNearest = graph.isOp(index, "Resize") && (!mode || mode->s == "nearest");
  for (size_t i = 0; isNearest && i < scales.size(); ++i) {
    down[i] = std::min(scales[i], 1.0F);
    up[i] = std::max(scales[i], 1.0F);
  }
  auto write = [&](string_view rounding, std::string factors, const std::string &made) {
    std::string inputs[] = {value, "", std::move(factors)};
    Message resize = nodeMessage("Resize", edit.freshName(name + "_Resize"), inputs, made);
    addText(resize, "mode", mode ? mode->s : "nearest");
    addText(resize, "coordinate_transformation_mode", "asymmetric");
    addText(resize, "nearest_mode", rounding);
    edit.insertBefore(index, std::move(resize));
    value = made;
  };
  auto stored = [&](const std::vector<float> &factors) {
    std::string own = edit.freshName(name + "_scales");
    int64_t dims[] = {static_cast<int64_t>(factors.size())};
    edit.addConstant(own, DataType::Float, dims, bytesOf(factors));
    return own;
  };
  bool isComputed = scales.empty() && node.inputs.size() > 1;
  bool shrinks = isNearest && down != std::vector<float>(down.size(), 1.0F);
  bool grows = !shrinks || up != std::vector<float>(up.size(), 1.0F);
  if (isComputed) {
    edit.keep(node.inputs[1]);
  }
  if (shrinks) {
    write("ceil", stored(down), grows ? edit.freshName(name + "_smaller") : result);
  }
  if (grows) {
    write("floor", isComputed ? std::string(node.inputs[1]) : stored(up), result);
  }
  edit.drop(index);
}

Status OpsetRaiser::raise(size_t index) {
  const onnx::Node &node = graph.node(index);
  if (!node.domain.empty() && node.domain != "ai.onnx") {
    return Status::ok();
  }
  bool isScanOfBatches = version < 9 && graph.isOp(index, "Scan");
  bool trains = graph.isOp(index, "BatchNormalization") &&
                (node.outputs.size() > 1 || integerOf(node, "spatial", 1) != 1);
  bool countsMask = graph.isOp(index, "Dropout") && node.outputs.size() > 1 && version < 10;
  if (graph.isOneOf(index, kNever) || isScanOfBatches || trains || countsMask) {
    return refuse(index);
  }
  TENON_TRY(raiseGraphs(index));
  constexpr string_view kAxes[] = {"Squeeze", "Unsqueeze", "ReduceSum"};
  constexpr string_view kSoftmaxes[] = {"Softmax", "LogSoftmax", "Hardmax"};
  if (graph.isOneOf(index, kAxes)) {
    moveIntegers(index, "axes");
  } else if (graph.isOp(index, "BatchNormalization")) {
    edit.dropAttribute(index, "spatial");
  } else if (graph.isOp(index, "Scatter")) {
    std::vector<std::string> inputs(node.inputs.begin(), node.inputs.end());
    std::for_each(node.inputs.begin(), node.inputs.end(), [&](string_view own) { edit.keep(own); });
    edit.insertBefore(index, nodeMessage("ScatterElements", std::string(nameOf(node)), inputs,
                                         std::string(node.outputs.front()), "axis",
                                         integerOf(node, "axis", 0)));
    edit.drop(index);
  } else if (graph.isOp(index, "Upsample") || (graph.isOp(index, "Resize") && version < 11)) {
    raiseResize(index);
  } else if (graph.isOp(index, "TopK") && version < 10) {
    edit.addOperand(index, integers(index, "k", {integerOf(node, "k", 1)}));
    edit.dropAttribute(index, "k");
  } else if (graph.isOp(index, "Split")) {
    moveIntegers(index, "split");
  } else if (graph.isOp(index, "Clip")) {
    if (version < 11) {
      moveReal(index, "min");
      moveReal(index, "max");
    }
  } else if (graph.isOp(index, "Pad")) {
    if (version < 11) {
      moveIntegers(index, "pads");
      moveReal(index, "value");
    }
  } else if (graph.isOp(index, "Slice")) {
    if (version < 10) {
      for (string_view attribute : {"starts", "ends", "axes"}) {
        moveIntegers(index, attribute);
      }
    }
  } else if (graph.isOp(index, "Dropout")) {
    edit.dropAttribute(index, "ratio");
    edit.dropAttribute(index, "seed");
  } else if (graph.isOneOf(index, kSoftmaxes)) {
    raiseSoftmax(index);
  }
  return Status::ok();
}

Status OpsetRaiser::raiseLater(size_t index) {
  if (!raiseLaterNode(graph, index, version, least, edit)) {
    return refuse(index);
  }
  return version < kOpset ? Status::ok() : raiseGraphs(index);
}

} // namespace

Result<int64_t> raiseOpset(const onnx::Model &model, const Graph &graph, ModelEdit &edit,
                           int64_t least) {
  int64_t result = least;
  for (const onnx::OpsetImport &opset : model.opsets) {
    if (!opset.domain.empty()) {
      continue;
    }
    result = std::max(least, opset.version);
    if (opset.version >= least) {
      continue;
    }
    if (opset.version < kOldest) {
      return Status::error(ErrorId::BadArgument,
                           strCat("the model has opset ", opset.version, ": models from opset ",
                                  kOldest, " on can be quantized"),
                           "export it again with a newer opset");
    }
    OpsetRaiser raiser(model, graph, opset.version, least, edit);
    for (size_t i = 0; i < graph.all().size(); ++i) {
      if (opset.version < kOpset) {
        TENON_TRY(raiser.raise(i));
      }
      if (least > kOpset) {
        TENON_TRY(raiser.raiseLater(i));
      }
    }
    edit.setVersions(least, std::max(model.irVersion, irVersionOf(least)));
  }
  return result;
}

} // namespace tenon::quant
