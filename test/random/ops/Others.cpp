// Creation, shapes, quantization, recurrence, losses and branches.
#include "test/random/Operators.h"

namespace tenon::random {
namespace {

using namespace onnx::test;

bool constantNode(Sketch &s) {
  std::vector<float> values = {0.5f, -1, 2};
  Message tensor = floats("", {3}, values);
  return s.node("Constant", {}, 1, {attrTensor("value", tensor)});
}

bool constantOfShape(Sketch &s) {
  std::vector<int64_t> dims;
  for (int64_t i = s.draw.below(4); i > 0; --i) {
    dims.push_back(s.draw.within(1, 5));
  }
  return s.node("ConstantOfShape", {s.integers(dims).name}, 1,
                {attrTensor("value", floats("", {1}, {0.75f}))});
}

/// Zeros of the sizes of another value.
bool zerosLike(Sketch &s) {
  Value x = s.operand(kAnything, 1, 4);
  return s.node("Shape", {x.name}) && s.node("ConstantOfShape", {s.all().back().name});
}

bool eyeLike(Sketch &s) {
  Value x = s.operand(Types{DType::F32, DType::F64, DType::I64}, 2, 2);
  return s.node("EyeLike", {x.name}, 1, {attrInt("k", s.draw.within(-1, 1))});
}

bool range(Sketch &s) {
  DType type = s.draw.one({DType::I64, DType::F32, DType::I32});
  return s.node("Range", {s.scalar(type, 1).name,
                          s.scalar(type, static_cast<double>(s.draw.within(2, 12))).name,
                          s.scalar(type, s.draw.one({1.0, 2.0})).name});
}

Operator window(const char *name) {
  return {name, [=](Sketch &s) {
            return s.node(name,
                          {s.scalar(DType::I64, static_cast<double>(s.draw.within(2, 17))).name}, 1,
                          {attrInt("periodic", s.draw.below(2))});
          }};
}

bool shapeOf(Sketch &s) {
  Value x = s.operand(kAnything, 0, 5);
  std::vector<Message> attributes;
  if (s.opset >= 15 && s.draw.chance(0.4)) {
    attributes.push_back(attrInt("start", s.draw.within(-2, 2)));
  }
  return s.node("Shape", {x.name}, 1, attributes);
}

bool sizeOf(Sketch &s) { return s.node("Size", {s.operand(kAnything, 0, 5).name}); }

bool quantize(Sketch &s) {
  Value x = s.operand(Types{DType::F32}, 1, 4, {.low = -6, .high = 6});
  DType to = s.draw.one({DType::U8, DType::I8});
  bool isPerAxis = s.opset >= 13 && s.draw.chance(0.4);
  int64_t axis = s.draw.below(x.rank());
  std::vector<Dim> dims;
  if (isPerAxis) {
    dims.push_back(s.dimsLike(x)[axis]);
  }
  Value scale = s.source(DType::F32, dims, {.low = 0.05, .high = 0.5});
  Value zero = s.source(to, dims, {.low = 0, .high = 5});
  std::vector<Message> attributes;
  if (isPerAxis) {
    attributes.push_back(attrInt("axis", axis));
  }
  return s.node("QuantizeLinear", {x.name, scale.name, zero.name}, 1, attributes);
}

bool dequantize(Sketch &s) {
  Value x = s.operand(Types{DType::U8, DType::I8}, 1, 4, {.low = -100, .high = 100});
  bool isPerAxis = s.opset >= 13 && s.draw.chance(0.4);
  int64_t axis = s.draw.below(x.rank());
  std::vector<Dim> dims;
  if (isPerAxis) {
    dims.push_back(s.dimsLike(x)[axis]);
  }
  std::vector<std::string> names = {x.name,
                                    s.source(DType::F32, dims, {.low = 0.05, .high = 0.5}).name};
  if (s.draw.chance(0.6)) {
    names.push_back(s.source(x.type, dims, {.low = 0, .high = 5}).name);
  }
  std::vector<Message> attributes;
  if (isPerAxis) {
    attributes.push_back(attrInt("axis", axis));
  }
  return s.node("DequantizeLinear", names, 1, attributes);
}

bool dynamicQuantize(Sketch &s) {
  Value x = s.operand(Types{DType::F32}, 1, 3);
  return x.count() > 0 && s.node("DynamicQuantizeLinear", {x.name}, 3);
}

bool recur(Sketch &s, const char *name, int64_t gates, int outputs) {
  int64_t steps = s.draw.within(1, 3), width = s.draw.within(1, 4), hidden = s.draw.within(1, 5);
  Dim batch = s.draw.chance(0.4) ? s.dim() : Dim(s.draw.within(1, 3));
  bool isBoth = s.draw.chance(0.3);
  int64_t directions = isBoth ? 2 : 1;
  auto real = [&](std::vector<Dim> dims) {
    return s.source(DType::F32, dims, {.low = -1, .high = 1}).name;
  };
  std::vector<std::string> names = {real({steps, batch, width}),
                                    real({directions, gates * hidden, width}),
                                    real({directions, gates * hidden, hidden})};
  if (s.draw.chance(0.6)) {
    names.push_back(real({directions, 2 * gates * hidden}));
  }
  std::vector<Message> attributes = {
      attrInt("hidden_size", hidden),
      attrText("direction", isBoth ? "bidirectional" : s.draw.one({"forward", "reverse"}))};
  if (std::string_view(name) == "GRU") {
    attributes.push_back(attrInt("linear_before_reset", s.draw.below(2)));
  }
  return s.node(name, names, outputs, attributes);
}

bool loss(Sketch &s, const char *name) {
  std::vector<Dim> dims = s.shape(2, 4);
  int64_t classes = s.draw.within(1, 5);
  dims[1] = classes;
  Value scores = s.operandLike(DType::F32, dims);
  std::vector<Dim> labels = dims;
  labels.erase(labels.begin() + 1);
  Value target = s.source(DType::I64, labels, {.low = 0, .high = static_cast<double>(classes - 1)});
  std::vector<std::string> names = {scores.name, target.name};
  if (s.draw.chance(0.3)) {
    names.push_back(s.source(DType::F32, {classes}, {.low = 0.2, .high = 1}).name);
  }
  return s.node(name, names, 1, {attrText("reduction", s.draw.one({"none", "mean", "sum"}))});
}

bool branch(Sketch &s) {
  Value x = s.operand(Types{DType::F32}, 0, 3);
  Value condition = s.constant(DType::Bool, {}, {static_cast<double>(s.draw.below(2))});
  auto body = [&](const char *op, const char *result) {
    return graph({{node(op, {x.name}, {result})}, {}, {Message().text(1, result)}, {}});
  };
  return s.node("If", {condition.name}, 1,
                {attrGraph("then_branch", body("Exp", "then_y")),
                 attrGraph("else_branch", body("Tanh", "else_y"))});
}

} // namespace

std::vector<Operator> otherOperators() {
  return {
      {"Constant", constantNode},
      {"ConstantOfShape", constantOfShape},
      {"ConstantOfShape", zerosLike},
      {"EyeLike", eyeLike},
      {"Range", range},
      window("BlackmanWindow"),
      window("HammingWindow"),
      window("HannWindow"),
      {"Shape", shapeOf},
      {"Size", sizeOf},
      {"QuantizeLinear", quantize},
      {"DequantizeLinear", dequantize},
      {"DynamicQuantizeLinear", dynamicQuantize},
      {"GRU", [](Sketch &s) { return recur(s, "GRU", 3, 2); }},
      {"LSTM", [](Sketch &s) { return recur(s, "LSTM", 4, 3); }},
      {"RNN", [](Sketch &s) { return recur(s, "RNN", 1, 2); }},
      {"NegativeLogLikelihoodLoss", [](Sketch &s) { return loss(s, "NegativeLogLikelihoodLoss"); }},
      {"SoftmaxCrossEntropyLoss", [](Sketch &s) { return loss(s, "SoftmaxCrossEntropyLoss"); }},
      {"If", branch},
  };
}

} // namespace tenon::random
