// Elementwise operators with numpy's broadcasting.
#include "test/random/Operators.h"

#include <cmath>

namespace tenon::random {
namespace {

using namespace onnx::test;

constexpr Content kPositive = {.low = 0.1, .high = 3};
constexpr Content kInside = {.low = -0.9, .high = 0.9};

/// With values of every kind now and then, where the operator defines its result for them.
Content anything(Sketch &s) { return {.hasExtremes = s.draw.chance(0.15)}; }

Operator unary(const char *name, Types types, Content content = {}) {
  bool isPlain = content.low == -2 && content.high == 2;
  return {name, [=](Sketch &s) {
            Value x = s.operand(types, 0, 5, isPlain ? anything(s) : content);
            return s.node(name, {x.name});
          }};
}

Operator scaled(const char *name, std::vector<const char *> attributes) {
  return {name, [=](Sketch &s) {
            Value x = s.operand(kFloats, 0, 5, anything(s));
            std::vector<Message> chosen;
            for (const char *attribute : attributes) {
              if (s.draw.chance(0.6)) {
                chosen.push_back(
                    attrFloat(attribute, 0.1f + 1.5f * static_cast<float>(s.draw.unit())));
              }
            }
            return s.node(name, {x.name}, 1, chosen);
          }};
}

bool twoOperands(Sketch &s, const char *name, const Types &types, Content left, Content right) {
  Value a = s.operand(types, 0, 5, left);
  Value b = s.partner(a, a.type, right);
  bool swaps = right.low == left.low && !right.isNonzero && s.draw.chance(0.4);
  return s.node(name, swaps ? std::vector{b.name, a.name} : std::vector{a.name, b.name});
}

Operator binary(const char *name, Types types) {
  return {name, [=](Sketch &s) { return twoOperands(s, name, types, anything(s), {}); }};
}

bool divide(Sketch &s) {
  bool isInteger = s.draw.chance(0.25);
  return twoOperands(s, "Div", isInteger ? kIntegers : kFloats,
                     isInteger ? Content{-9, 9} : Content{},
                     {.low = 0.5, .high = 4, .isNonzero = true});
}

bool power(Sketch &s) {
  Value a = s.operand(kFloats, 0, 5, kPositive);
  Content exponents = {.low = -2, .high = 3, .isWhole = true};
  Value b = s.partner(a, a.type, exponents);
  return s.node("Pow", {a.name, b.name});
}

bool modulo(Sketch &s) {
  bool isInteger = s.draw.chance(0.6);
  Value a = s.operand(isInteger ? kIntegers : kFloats, 0, 4, {-9, 9});
  Value b = s.source(a.type, s.dimsLike(a), {.low = 1, .high = 5, .isNonzero = true});
  return s.node("Mod", {a.name, b.name}, 1, {attrInt("fmod", isInteger ? s.draw.below(2) : 1)});
}

bool shift(Sketch &s) {
  Value a = s.operand(Types{DType::U8, DType::U16, DType::U32, DType::U64}, 0, 4, {0, 100});
  Value b = s.partner(a, a.type, {0, 7});
  return s.node("BitShift", {a.name, b.name}, 1,
                {attrText("direction", s.draw.chance(0.5) ? "LEFT" : "RIGHT")});
}

Operator several(const char *name, Types types) {
  return {name, [=](Sketch &s) {
            Value a = s.operand(types, 0, 4, anything(s));
            std::vector<std::string> names = {a.name};
            for (int64_t i = s.draw.below(3); i > 0; --i) {
              names.push_back(s.partner(a, a.type).name);
            }
            return s.node(name, names);
          }};
}

bool clip(Sketch &s) {
  Value x = s.operand(s.opset >= 12 ? kNumbers : kFloats, 0, 5, anything(s));
  bool hasLow = s.draw.chance(0.7), hasHigh = s.draw.chance(0.7);
  double low = s.draw.chance(0.5) ? 0 : -1, high = s.draw.chance(0.2) ? 6 : 1;
  if (s.opset < 11) {
    return s.node(
        "Clip", {x.name}, 1,
        {attrFloat("min", static_cast<float>(low)), attrFloat("max", static_cast<float>(high))});
  }
  std::vector<std::string> names = {x.name};
  if (hasLow || hasHigh) {
    names.push_back(hasLow ? s.scalar(x.type, std::max(low, 0.0)).name : "");
  }
  if (hasHigh) {
    bool isInput = s.draw.chance(0.2);
    names.push_back(isInput ? s.source(x.type, {}, {.low = 1, .high = 2}).name
                            : s.scalar(x.type, high).name);
  }
  return s.node("Clip", names);
}

bool cast(Sketch &s) {
  Value x = s.operand(kAnything, 0, 5, {.low = -9, .high = 9});
  DType to = s.draw.of(kAnything);
  bool isUnsigned = to == DType::U8;
  if (isUnsigned && x.type != DType::Bool) {
    x = s.source(x.type, s.shape(0, 4), {.low = 0, .high = 9});
  }
  return s.node("Cast", {x.name}, 1, {attrInt("to", onnxType(to))});
}

bool castLike(Sketch &s) {
  Value x = s.operand(kFloats, 0, 4), like = s.operand(kFloats, 0, 4);
  return s.node("CastLike", {x.name, like.name});
}

bool select(Sketch &s) {
  Value a = s.operand(kAnything, 0, 5, anything(s));
  Value condition = s.partner(a, DType::Bool), b = s.partner(a, a.type);
  return s.node("Where", {condition.name, a.name, b.name});
}

bool isInfinite(Sketch &s) {
  Value x = s.operand(Types{DType::F32, DType::F64}, 0, 4, {.hasExtremes = true});
  return s.node("IsInf", {x.name}, 1, {attrInt("detect_negative", s.draw.below(2))});
}

bool prelu(Sketch &s) {
  Value x = s.operand(kFloats, 1, 4);
  std::vector<Dim> dims = s.dimsLike(x);
  dims.erase(dims.begin(), dims.begin() + s.draw.within(0, static_cast<int64_t>(dims.size())));
  Value slope = s.source(x.type, dims, {.low = -0.5, .high = 0.9});
  return s.node("PRelu", {x.name, slope.name});
}

bool gelu(Sketch &s) {
  Value x = s.operand(kFloats, 0, 5);
  return s.node("Gelu", {x.name}, 1,
                {attrText("approximate", s.draw.chance(0.5) ? "none" : "tanh")});
}

bool shrink(Sketch &s) {
  Value x = s.operand(kFloats, 0, 5);
  return s.node("Shrink", {x.name}, 1,
                {attrFloat("lambd", 0.5f), attrFloat("bias", s.draw.one({0.0f, 0.25f}))});
}

bool dropout(Sketch &s) {
  Value x = s.operand(kFloats, 0, 5);
  return s.node("Dropout", {x.name}, s.opset >= 10 && s.draw.chance(0.3) ? 2 : 1);
}

} // namespace

std::vector<Operator> elementwiseOperators() {
  const Types bools = {DType::Bool};
  const Types signedNumbers = {DType::F32, DType::F64, DType::F16,
                               DType::I64, DType::I32, DType::I8};
  std::vector<Operator> all;
  for (const char *name :
       {"Ceil", "Floor", "Erf", "Exp", "Reciprocal", "Round", "Sigmoid", "Sin", "Cos", "Softplus",
        "Softsign", "Tanh", "Atan", "Asinh", "HardSwish", "Mish", "Sinh", "Cosh", "IsNaN"}) {
    all.push_back(unary(name, kFloats));
  }
  for (const char *name : {"Log", "Sqrt"}) {
    all.push_back(unary(name, kFloats, kPositive));
  }
  for (const char *name : {"Acos", "Asin", "Atanh", "Tan"}) {
    all.push_back(unary(name, kFloats, kInside));
  }
  all.insert(all.end(),
             {unary("Acosh", kFloats, {.low = 1, .high = 4}), unary("Abs", kNumbers),
              unary("Sign", kNumbers), unary("Neg", signedNumbers), unary("Relu", signedNumbers),
              unary("Identity", kAnything), unary("Not", bools), unary("BitwiseNot", kIntegers),
              scaled("Celu", {"alpha"}), scaled("Elu", {"alpha"}),
              scaled("HardSigmoid", {"alpha", "beta"}), scaled("LeakyRelu", {"alpha"}),
              scaled("Selu", {"alpha", "gamma"}), scaled("Swish", {"alpha"}),
              scaled("ThresholdedRelu", {"alpha"})});
  for (const char *name : {"Add", "Sub", "Mul"}) {
    all.push_back(binary(name, kNumbers));
  }
  for (const char *name : {"Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"}) {
    all.push_back(binary(name, {DType::F32, DType::F64, DType::F16, DType::I64, DType::I32}));
  }
  for (const char *name : {"And", "Or", "Xor"}) {
    all.push_back(binary(name, bools));
  }
  for (const char *name : {"BitwiseAnd", "BitwiseOr", "BitwiseXor"}) {
    all.push_back(binary(name, kIntegers));
  }
  all.insert(all.end(), {several("Max", kNumbers), several("Min", kNumbers),
                         several("Sum", kFloats), several("Mean", kFloats)});
  all.insert(all.end(), {{"Div", divide},
                         {"Pow", power},
                         {"Mod", modulo},
                         {"BitShift", shift},
                         {"Clip", clip},
                         {"Cast", cast},
                         {"CastLike", castLike},
                         {"Where", select},
                         {"IsInf", isInfinite},
                         {"PRelu", prelu},
                         {"Gelu", gelu},
                         {"Shrink", shrink},
                         {"Dropout", dropout}});
  return all;
}

} // namespace tenon::random
