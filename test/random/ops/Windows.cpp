// Pooling and resizing.
#include "test/random/Operators.h"

#include <algorithm>

namespace tenon::random {
namespace {

using namespace onnx::test;

const Types kPooled = {DType::F32, DType::F32, DType::F32, DType::F64, DType::F16};

Value image(Sketch &s, int64_t maxRank) {
  Value x = s.operand(kPooled, 3, maxRank);
  bool isFixed = true;
  for (size_t i = 2; i < x.dims.size(); ++i) {
    isFixed = isFixed && x.isFixed(i);
  }
  if (isFixed || s.draw.chance(0.15)) {
    return x;
  }
  std::vector<Dim> dims = s.shape(3, maxRank);
  for (size_t i = 2; i < dims.size(); ++i) {
    dims[i] = s.draw.within(1, 9);
  }
  return s.source(x.type, dims);
}

/// Windows with gaps over several positions, where another gap in one dim often gives as many
/// windows.
bool dilatedPool(Sketch &s) {
  std::vector<Dim> dims = {s.dim(), s.draw.within(1, 4), s.draw.within(6, 9), s.draw.within(6, 9)};
  Value x = s.source(s.draw.of(kPooled), dims);
  std::vector<int64_t> kernel, strides, dilations;
  for (int i = 0; i < 2; ++i) {
    kernel.push_back(s.draw.within(2, 3));
    strides.push_back(s.draw.within(2, 3));
    dilations.push_back(s.draw.within(1, 2));
  }
  return s.node("MaxPool", {x.name}, 1,
                {attrInts("kernel_shape", kernel), attrInts("strides", strides),
                 attrInts("dilations", dilations)});
}

bool pool(Sketch &s, const char *name) {
  if (std::string_view(name) == "MaxPool" && s.opset >= 10 && s.draw.chance(0.3)) {
    return dilatedPool(s);
  }
  Value x = image(s, 5);
  size_t rank = x.sizes.size() - 2;
  std::vector<int64_t> kernel, strides, pads(2 * rank), dilations;
  for (size_t i = 0; i < rank; ++i) {
    kernel.push_back(s.draw.within(1, std::clamp<int64_t>(x.sizes[2 + i], 1, 4)));
    strides.push_back(s.draw.within(1, 3));
    dilations.push_back(s.draw.chance(0.15) && 2 * (kernel[i] - 1) < x.sizes[2 + i] ? 2 : 1);
    pads[i] = s.draw.chance(0.4) ? s.draw.within(0, kernel[i] - 1) : 0;
    pads[rank + i] = s.draw.chance(0.7) ? pads[i] : s.draw.within(0, kernel[i] - 1);
  }
  std::string_view op = name;
  bool hasDilations = (op == "MaxPool" && s.opset >= 10) || (op != "MaxPool" && s.opset >= 19);
  bool hasCeil = s.opset >= 10 && (op != "LpPool" || s.opset >= 18);
  std::vector<Message> attributes = {attrInts("kernel_shape", kernel),
                                     attrInts("strides", strides)};
  if (s.draw.chance(0.85)) {
    attributes.push_back(attrInts("pads", pads));
  } else {
    attributes.push_back(attrText("auto_pad", s.draw.one({"SAME_UPPER", "SAME_LOWER", "VALID"})));
  }
  if (hasDilations) {
    attributes.push_back(attrInts("dilations", dilations));
  }
  if (hasCeil && s.draw.chance(0.25)) {
    attributes.push_back(attrInt("ceil_mode", 1));
  }
  if (op == "AveragePool" && s.draw.chance(0.4)) {
    attributes.push_back(attrInt("count_include_pad", 1));
  }
  if (op == "LpPool") {
    attributes.push_back(attrInt("p", s.draw.within(1, 2)));
  }
  return s.node(name, {x.name}, 1, attributes);
}

Operator global(const char *name) {
  return {name, [=](Sketch &s) {
            Value x = s.operand(kPooled, 3, 5);
            return s.node(name, {x.name});
          }};
}

bool resize(Sketch &s) {
  Value x = image(s, 4);
  std::vector<double> scales = {1, 1};
  std::vector<int64_t> sizes = {x.sizes[0], x.sizes[1]};
  for (size_t i = 2; i < x.sizes.size(); ++i) {
    double scale = s.draw.one({2.0, 0.5, 1.5, 1.0, 3.0, 0.75});
    scales.push_back(scale);
    sizes.push_back(
        std::max<int64_t>(1, static_cast<int64_t>(static_cast<double>(x.sizes[i]) * scale)));
  }
  const char *mode = s.draw.one({"nearest", "linear", "cubic"});
  int64_t rank = x.rank();
  if (s.opset < 11) {
    Value by = s.constant(DType::F32, {rank}, scales);
    return s.node("Resize", {x.name, by.name}, 1,
                  {attrText("mode", s.draw.one({"nearest", "linear"}))});
  }
  std::vector<Message> attributes = {
      attrText("mode", mode),
      attrText("coordinate_transformation_mode",
               s.draw.one({"half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"}))};
  if (std::string_view(mode) == "nearest") {
    attributes.push_back(attrText(
        "nearest_mode", s.draw.one({"round_prefer_floor", "floor", "ceil", "round_prefer_ceil"})));
  }
  if (x.isFixed() && s.draw.chance(0.4)) {
    return s.node("Resize",
                  {x.name, s.constant(DType::F32, {0}, {}).name,
                   s.constant(DType::F32, {0}, {}).name, s.integers(sizes).name},
                  1, attributes);
  }
  return s.node(
      "Resize",
      {x.name, s.constant(DType::F32, {0}, {}).name, s.constant(DType::F32, {rank}, scales).name},
      1, attributes);
}

bool upsample(Sketch &s) {
  if (s.opset > 9) {
    return false;
  }
  Value x = image(s, 4);
  std::vector<double> scales(x.sizes.size(), 2);
  scales[0] = scales[1] = 1;
  return s.node("Upsample", {x.name, s.constant(DType::F32, {x.rank()}, scales).name}, 1,
                {attrText("mode", s.draw.one({"nearest", "linear"}))});
}

bool blocks(Sketch &s, bool toSpace) {
  int64_t size = s.draw.within(1, 3);
  std::vector<Dim> dims = {s.dim(), s.draw.within(1, 3) * (toSpace ? size * size : 1)};
  for (int i = 0; i < 2; ++i) {
    dims.push_back(toSpace ? s.dim() : Dim(size * s.draw.within(1, 3)));
  }
  Value x = s.operandLike(s.draw.one({DType::F32, DType::F32, DType::F64}), dims);
  std::vector<Message> attributes = {attrInt("blocksize", size)};
  if (toSpace && s.opset >= 11) {
    attributes.push_back(attrText("mode", s.draw.one({"DCR", "CRD"})));
  }
  return s.node(toSpace ? "DepthToSpace" : "SpaceToDepth", {x.name}, 1, attributes);
}

} // namespace

std::vector<Operator> windowOperators() {
  return {
      {"MaxPool", [](Sketch &s) { return pool(s, "MaxPool"); }},
      {"AveragePool", [](Sketch &s) { return pool(s, "AveragePool"); }},
      {"LpPool", [](Sketch &s) { return pool(s, "LpPool"); }},
      global("GlobalAveragePool"),
      global("GlobalMaxPool"),
      global("GlobalLpPool"),
      {"Resize", resize},
      {"Upsample", upsample},
      {"DepthToSpace", [](Sketch &s) { return blocks(s, true); }},
      {"SpaceToDepth", [](Sketch &s) { return blocks(s, false); }},
  };
}

} // namespace tenon::random
