// By ONNX's operator changelog (docs/Changelog.md of onnx): what of opsets 7 to 12 means the same
// in 13, and what is spelled otherwise. What is not named here is refused.
#include "compiler/quant/Opset.h"

#include "support/text/Text.h"

#include <algorithm>
#include <cstring>

namespace tenon::quant {
namespace {

using onnx::DataType;
using std::string_view;

constexpr int64_t kOpset = 13, kOldest = 7;

/// That came with an opset (docs/Versioning.md of onnx).
int64_t irVersionOf(int64_t opset) { return opset >= 21 ? 10 : opset >= 19 ? 9 : 7; }

constexpr string_view kSame[] = {"Abs",
                                 "Acos",
                                 "Add",
                                 "And",
                                 "ArgMax",
                                 "ArgMin",
                                 "Asin",
                                 "Atan",
                                 "AveragePool",
                                 "Cast",
                                 "Ceil",
                                 "Concat",
                                 "Constant",
                                 "ConstantOfShape",
                                 "Conv",
                                 "ConvTranspose",
                                 "Cos",
                                 "CumSum",
                                 "DepthToSpace",
                                 "Div",
                                 "Elu",
                                 "Equal",
                                 "Erf",
                                 "Exp",
                                 "Expand",
                                 "Flatten",
                                 "Floor",
                                 "GRU",
                                 "Gather",
                                 "GatherElements",
                                 "GatherND",
                                 "Gemm",
                                 "GlobalAveragePool",
                                 "GlobalMaxPool",
                                 "Greater",
                                 "HardSigmoid",
                                 "Identity",
                                 "InstanceNormalization",
                                 "LRN",
                                 "LSTM",
                                 "LeakyRelu",
                                 "Less",
                                 "Log",
                                 "LpNormalization",
                                 "LpPool",
                                 "MatMul",
                                 "Max",
                                 "MaxPool",
                                 "Mean",
                                 "Min",
                                 "Mod",
                                 "Mul",
                                 "Neg",
                                 "NonMaxSuppression",
                                 "NonZero",
                                 "Not",
                                 "OneHot",
                                 "Or",
                                 "PRelu",
                                 "Pow",
                                 "RNN",
                                 "Reciprocal",
                                 "ReduceL1",
                                 "ReduceL2",
                                 "ReduceLogSum",
                                 "ReduceLogSumExp",
                                 "ReduceMax",
                                 "ReduceMean",
                                 "ReduceMin",
                                 "ReduceProd",
                                 "ReduceSumSquare",
                                 "Relu",
                                 "Reshape",
                                 "Round",
                                 "ScatterElements",
                                 "ScatterND",
                                 "Selu",
                                 "Shape",
                                 "Sigmoid",
                                 "Sign",
                                 "Sin",
                                 "Size",
                                 "Softplus",
                                 "Softsign",
                                 "SpaceToDepth",
                                 "Sqrt",
                                 "Sub",
                                 "Sum",
                                 "Tan",
                                 "Tanh",
                                 "ThresholdedRelu",
                                 "Tile",
                                 "Transpose",
                                 "Where",
                                 "Xor"};

class OpsetRaiser {
public:
  OpsetRaiser(const Graph &graph, int64_t version, int64_t least, ModelEdit &edit)
      : graph(graph), version(version), least(least), edit(edit) {}

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
        strCat("the model is of opset ", version, ", what is to be written exists from opset ",
               least, " on, and ", graph.node(index).opType, " '", nameOf(graph.node(index)),
               "' is not known to mean the same there"),
        "export it again with a newer opset, or raise it with onnx.version_converter");
  }
  std::optional<size_t> rankOf(string_view value) const;

  const Graph &graph;
  int64_t version, least;
  ModelEdit &edit;
};

/// Of a value whose producer tells it: what softmax reads in nets of that age.
std::optional<size_t> OpsetRaiser::rankOf(string_view value) const {
  constexpr string_view kTwo[] = {"Gemm", "Flatten"};
  constexpr string_view kAlike[] = {"Relu", "Dropout", "Identity", "Clip", "Sigmoid", "Tanh"};
  std::optional<size_t> producer = graph.producer(value);
  if (!producer) {
    return std::nullopt;
  }
  if (graph.isOneOf(*producer, kTwo)) {
    return 2;
  }
  const std::vector<string_view> &inputs = graph.node(*producer).inputs;
  constexpr string_view kSums[] = {"Add", "Sub", "Mul", "Div"};
  if (graph.isOp(*producer, "Reshape")) {
    const onnx::Tensor *shape = inputs.size() > 1 ? graph.constant(inputs[1]) : nullptr;
    return shape && shape->dims.size() == 1 ? std::optional(size_t(shape->dims[0])) : std::nullopt;
  }
  if (graph.isOneOf(*producer, kSums)) {
    std::optional<size_t> a = rankOf(inputs[0]), b = rankOf(inputs[1]);
    return a && (!b || *b <= *a) && (b || graph.constant(inputs[1])) ? a : std::nullopt;
  }
  return graph.isOneOf(*producer, kAlike) ? rankOf(inputs[0]) : std::nullopt;
}

Status OpsetRaiser::raise(size_t index) {
  const onnx::Node &node = graph.node(index);
  if (!node.domain.empty() && node.domain != "ai.onnx") {
    return Status::ok();
  }
  bool hasGraph = std::any_of(node.attributes.begin(), node.attributes.end(),
                              [](const onnx::Attribute &a) { return a.graph != nullptr; });
  if (hasGraph) {
    return refuse(index);
  }
  constexpr string_view kSameFrom11[] = {"Resize", "TopK"};
  if (graph.isOneOf(index, kSame) || (version >= 11 && graph.isOneOf(index, kSameFrom11))) {
    return Status::ok();
  }
  constexpr string_view kAxes[] = {"Squeeze", "Unsqueeze", "ReduceSum"};
  if (graph.isOneOf(index, kAxes)) {
    moveIntegers(index, "axes");
  } else if (graph.isOp(index, "BatchNormalization") && node.outputs.size() == 1 &&
             integerOf(node, "spatial", 1) == 1) {
    edit.dropAttribute(index, "spatial");
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
  } else if (graph.isOp(index, "Dropout") && node.outputs.size() == 1) {
    edit.dropAttribute(index, "ratio");
    edit.dropAttribute(index, "seed");
  } else if (graph.isOp(index, "Softmax") || graph.isOp(index, "LogSoftmax")) {
    // Before 13 all dims from the axis on were one row; the last axis is the same in both.
    int64_t axis = integerOf(node, "axis", 1);
    std::optional<size_t> rank = rankOf(node.inputs.front());
    if (axis != -1 && (!rank || static_cast<int64_t>(*rank) != axis + 1)) {
      return refuse(index);
    }
    edit.dropAttribute(index, "axis");
  } else {
    return refuse(index);
  }
  return Status::ok();
}

Status OpsetRaiser::raiseLater(size_t index) {
  return raiseLaterNode(graph, index, version, least, edit) ? Status::ok() : refuse(index);
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
                           strCat("the model is of opset ", opset.version, ": models from opset ",
                                  kOldest, " on can be quantized"),
                           "export it again with a newer opset");
    }
    OpsetRaiser raiser(graph, opset.version, least, edit);
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
