// Reductions, softmax and norms.
#include "test/random/Operators.h"

namespace tenon::random {
namespace {

using namespace onnx::test;

Operator reduction(const char *name, int64_t axesAreInput, Types types, Content content = {}) {
  return {name, [=](Sketch &s) {
            Value x = s.operand(types, 0, 5, content);
            std::vector<int64_t> axes = axesOf(s, x, 4);
            std::vector<Message> attributes = {attrInt("keepdims", s.draw.below(2))};
            bool hasAxes = !axes.empty() && s.draw.chance(0.85);
            if (!hasAxes || s.opset < axesAreInput) {
              if (hasAxes) {
                attributes.push_back(attrInts("axes", axes));
              } else if (s.opset >= axesAreInput && s.draw.chance(0.3)) {
                attributes.push_back(attrInt("noop_with_empty_axes", s.draw.below(2)));
              }
              return s.node(name, {x.name}, 1, attributes);
            }
            return s.node(name, {x.name, s.integers(axes).name}, 1, attributes);
          }};
}

Operator along(const char *name, int64_t defaultAxis = -1) {
  return {name, [=](Sketch &s) {
            Value x = s.operand(kFloats, 1, 5);
            std::vector<Message> attributes;
            if (s.draw.chance(0.7)) {
              attributes.push_back(
                  attrInt("axis", s.opset >= 11 ? axisOf(s, x) : s.draw.below(x.rank())));
            }
            return s.node(name, {x.name}, 1, attributes);
          }};
}

bool argReduce(Sketch &s, const char *name) {
  Value x = s.operand(Types{DType::F32, DType::F64, DType::I32, DType::I8}, 1, 5);
  int64_t axis = s.opset >= 11 ? axisOf(s, x) : s.draw.below(x.rank());
  std::vector<Message> attributes = {attrInt("axis", axis), attrInt("keepdims", s.draw.below(2))};
  if (s.opset >= 12 && s.draw.chance(0.4)) {
    attributes.push_back(attrInt("select_last_index", s.draw.below(2)));
  }
  return s.node(name, {x.name}, 1, attributes);
}

bool cumulate(Sketch &s) {
  Value x = s.operand(Types{DType::F32, DType::F64, DType::I64, DType::I32}, 1, 4);
  return s.node("CumSum", {x.name, s.scalar(DType::I64, static_cast<double>(axisOf(s, x))).name}, 1,
                {attrInt("exclusive", s.draw.below(2)), attrInt("reverse", s.draw.below(2))});
}

/// Dims of `x` from `first` on, if an input can state them.
std::vector<Dim> tail(const Value &x, int64_t first) {
  return {x.dims.begin() + first, x.dims.end()};
}

bool layerNorm(Sketch &s) {
  Value x = s.operand(kFloats, 1, 4);
  int64_t axis = s.draw.below(x.rank());
  std::vector<std::string> names = {x.name, s.source(x.type, tail(x, axis)).name};
  if (s.draw.chance(0.6)) {
    names.push_back(s.source(x.type, tail(x, axis)).name);
  }
  return s.node(
      "LayerNormalization", names, s.draw.chance(0.1) ? 3 : 1,
      {attrInt("axis", s.draw.chance(0.5) ? axis : axis - x.rank()), attrFloat("epsilon", 1e-3f)});
}

bool rmsNorm(Sketch &s) {
  Value x = s.operand(kFloats, 1, 4);
  int64_t axis = s.draw.below(x.rank());
  return s.node("RMSNormalization", {x.name, s.source(x.type, tail(x, axis)).name}, 1,
                {attrInt("axis", axis), attrFloat("epsilon", 1e-3f)});
}

bool batchNorm(Sketch &s) {
  Value x = s.operand(Types{DType::F32, DType::F32, DType::F64, DType::F16}, 2, 5);
  std::vector<Dim> channels = {s.dimsLike(x)[1]};
  auto vector = [&](Content content) { return s.source(x.type, channels, content).name; };
  return s.node("BatchNormalization",
                {x.name, vector({}), vector({}), vector({}), vector({.low = 0.1, .high = 2})}, 1,
                {attrFloat("epsilon", 1e-3f)});
}

bool instanceNorm(Sketch &s) {
  Value x = s.operand(Types{DType::F32, DType::F32, DType::F64}, 3, 5);
  std::vector<Dim> channels = {s.dimsLike(x)[1]};
  return s.node("InstanceNormalization",
                {x.name, s.source(x.type, channels).name, s.source(x.type, channels).name}, 1,
                {attrFloat("epsilon", 1e-3f)});
}

bool groupNorm(Sketch &s) {
  int64_t groups = s.draw.within(1, 3);
  int64_t channels = groups * s.draw.within(1, 3);
  std::vector<Dim> dims = s.shape(3, 4);
  dims[1] = channels;
  Value x = s.operandLike(DType::F32, dims);
  Dim count = s.opset >= 21 ? channels : groups;
  return s.node("GroupNormalization",
                {x.name, s.source(x.type, {count}).name, s.source(x.type, {count}).name}, 1,
                {attrInt("num_groups", groups), attrFloat("epsilon", 1e-3f)});
}

bool lrn(Sketch &s) {
  Value x = s.operand(Types{DType::F32, DType::F64}, 3, 4);
  return s.node(
      "LRN", {x.name}, 1,
      {attrInt("size", s.draw.within(1, 5)), attrFloat("alpha", 0.1f), attrFloat("beta", 0.75f)});
}

bool lpNorm(Sketch &s) {
  Value x = s.operand(Types{DType::F32, DType::F64}, 1, 4);
  return s.node("LpNormalization", {x.name}, 1,
                {attrInt("axis", axisOf(s, x)), attrInt("p", s.draw.within(1, 2))});
}

bool meanVariance(Sketch &s) {
  Value x = s.operand(Types{DType::F32, DType::F64}, 4, 4);
  return s.node("MeanVarianceNormalization", {x.name});
}

} // namespace

std::vector<Operator> rowOperators() {
  const Types sums = {DType::F32,  DType::F32, DType::F64, DType::F16,
                      DType::BF16, DType::I64, DType::I32};
  const Types orders = {DType::F32, DType::F64, DType::F16, DType::I64,
                        DType::I32, DType::I8,  DType::U8};
  const Content positive = {.low = 0.1, .high = 2};
  return {
      reduction("ReduceL1", 18, sums),
      reduction("ReduceL2", 18, kFloats),
      reduction("ReduceLogSum", 18, kFloats, positive),
      reduction("ReduceLogSumExp", 18, kFloats),
      reduction("ReduceMax", 18, orders),
      reduction("ReduceMean", 18, kFloats),
      reduction("ReduceMin", 18, orders),
      reduction("ReduceProd", 18, sums),
      reduction("ReduceSum", 13, sums),
      reduction("ReduceSumSquare", 18, sums),
      along("Softmax"),
      along("LogSoftmax"),
      along("Hardmax"),
      {"ArgMax", [](Sketch &s) { return argReduce(s, "ArgMax"); }},
      {"ArgMin", [](Sketch &s) { return argReduce(s, "ArgMin"); }},
      {"CumSum", cumulate},
      {"LayerNormalization", layerNorm},
      {"RMSNormalization", rmsNorm},
      {"BatchNormalization", batchNorm},
      {"InstanceNormalization", instanceNorm},
      {"GroupNormalization", groupNorm},
      {"LRN", lrn},
      {"LpNormalization", lpNorm},
      {"MeanVarianceNormalization", meanVariance},
  };
}

} // namespace tenon::random
