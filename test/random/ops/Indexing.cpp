// Operators that read or write where indices say.
#include "test/random/Operators.h"

#include <algorithm>
#include <numeric>

namespace tenon::random {
namespace {

using namespace onnx::test;

/// Indices into `size` elements; negative ones where the operator has them.
Content indices(Sketch &s, int64_t size, bool mayBeNegative = true) {
  double low = mayBeNegative && s.draw.chance(0.3) ? static_cast<double>(-size) : 0;
  return {.low = low, .high = static_cast<double>(size - 1)};
}

DType indexType(Sketch &s) { return s.draw.one({DType::I64, DType::I64, DType::I32}); }

/// An axis whose size is constant and not zero; none if -1.
int64_t fixedAxis(Sketch &s, const Value &x) {
  int64_t axis = s.draw.below(x.rank());
  return x.isFixed(axis) && x.sizes[axis] > 0 ? axis : -1;
}

bool gather(Sketch &s) {
  Value x = s.operand(kAnything, 1, 4);
  int64_t axis = fixedAxis(s, x);
  if (axis < 0) {
    return false;
  }
  Value at = s.source(indexType(s), s.shape(0, 2), indices(s, x.sizes[axis], s.opset >= 11));
  return s.node("Gather", {x.name, at.name}, 1, {attrInt("axis", axis)});
}

bool gatherElements(Sketch &s) {
  Value x = s.operand(kAnything, 1, 4);
  int64_t axis = fixedAxis(s, x);
  if (axis < 0) {
    return false;
  }
  std::vector<Dim> dims = s.dimsLike(x);
  dims[axis] = s.dim();
  Value at = s.source(indexType(s), dims, indices(s, x.sizes[axis]));
  return s.node("GatherElements", {x.name, at.name}, 1, {attrInt("axis", axis)});
}

/// Indices [..., depth] that are valid in each of the dims that they index.
std::optional<Value> positionsIn(Sketch &s, const Value &x, int64_t first, std::vector<Dim> dims) {
  int64_t depth = s.draw.within(1, x.rank() - first);
  int64_t least = 1 << 20;
  for (int64_t i = first; i < first + depth; ++i) {
    if (!x.isFixed(i)) {
      return std::nullopt;
    }
    least = std::min(least, x.sizes[i]);
  }
  dims.push_back(depth);
  return least > 0 ? std::optional(s.source(DType::I64, dims, indices(s, least))) : std::nullopt;
}

bool gatherNd(Sketch &s) {
  Value x = s.operand(kAnything, 1, 4);
  std::optional<Value> at = positionsIn(s, x, 0, s.shape(1, 2));
  return at && s.node("GatherND", {x.name, at->name});
}

std::vector<Message> reductionOf(Sketch &s, DType type, bool hasOrder) {
  bool isNumber = type != DType::Bool;
  if (s.opset < 16 || !isNumber || s.draw.chance(0.6)) {
    return {};
  }
  return {attrText("reduction", hasOrder && s.opset >= 18 ? s.draw.one({"add", "mul", "max", "min"})
                                                          : s.draw.one({"add", "mul"}))};
}

/// Different indices along `axis`: without a reduction two writes to one place have no order.
Value permuted(Sketch &s, const std::vector<int64_t> &dims, int64_t axis, int64_t size) {
  int64_t count = std::accumulate(dims.begin(), dims.end(), int64_t{1}, std::multiplies<>());
  int64_t inner =
      std::accumulate(dims.begin() + axis + 1, dims.end(), int64_t{1}, std::multiplies<>());
  std::vector<double> elements(count);
  int64_t shift = s.draw.below(size);
  for (int64_t i = 0; i < count; ++i) {
    elements[i] = static_cast<double>((i / inner % dims[axis] + shift) % size);
  }
  return s.constant(DType::I64, dims, elements);
}

bool scatterElements(Sketch &s, const char *name) {
  bool isOld = std::string_view(name) == "Scatter";
  if (isOld != (s.opset < 11)) {
    return false;
  }
  Value x = s.operand(Types{DType::F32, DType::F64, DType::I64, DType::I32}, 1, 3);
  if (!x.isFixed() || x.count() == 0) {
    return false;
  }
  int64_t axis = s.draw.below(x.rank());
  std::vector<int64_t> dims = x.sizes;
  dims[axis] = s.draw.within(1, dims[axis]);
  Value at = permuted(s, dims, axis, x.sizes[axis]);
  Value updates = s.source(x.type, {dims.begin(), dims.end()});
  std::vector<Message> attributes = reductionOf(s, x.type, true);
  attributes.push_back(attrInt("axis", axis));
  return s.node(name, {x.name, at.name, updates.name}, 1, attributes);
}

bool scatterNd(Sketch &s) {
  Value x = s.operand(Types{DType::F32, DType::F64, DType::I64}, 1, 3);
  if (!x.isFixed() || x.count() == 0) {
    return false;
  }
  int64_t rows = s.draw.within(1, x.sizes[0]);
  Value at = permuted(s, {rows, 1}, 0, x.sizes[0]);
  std::vector<Dim> dims = {rows};
  dims.insert(dims.end(), x.sizes.begin() + 1, x.sizes.end());
  return s.node("ScatterND", {x.name, at.name, s.source(x.type, dims).name}, 1,
                reductionOf(s, x.type, true));
}

bool oneHot(Sketch &s) {
  int64_t depth = s.draw.within(1, 7);
  Value at =
      s.source(DType::I64, s.shape(0, 3), {.low = 0, .high = static_cast<double>(depth - 1)});
  Value values = s.constant(s.draw.one({DType::F32, DType::I64}), {2}, {0, 3});
  return s.node("OneHot", {at.name, s.integers({depth}).name, values.name}, 1,
                {attrInt("axis", s.draw.chance(0.6) ? -1 : s.draw.within(0, at.rank()))});
}

bool topK(Sketch &s) {
  Value x = s.operand(Types{DType::F32, DType::F32, DType::F64, DType::I64, DType::I32}, 1, 4);
  int64_t axis = fixedAxis(s, x);
  if (axis < 0) {
    return false;
  }
  int64_t count = s.draw.within(1, x.sizes[axis]);
  std::vector<Message> attributes = {attrInt("axis", axis)};
  if (s.opset < 10) {
    attributes.push_back(attrInt("k", count));
    return s.node("TopK", {x.name}, 2, attributes);
  }
  if (s.opset >= 11) {
    attributes.push_back(attrInt("largest", s.draw.below(2)));
  }
  return s.node("TopK", {x.name, s.integers({count}).name}, 2, attributes);
}

bool compress(Sketch &s) {
  Value x = s.operand(kAnything, 1, 3);
  int64_t axis = fixedAxis(s, x);
  if (axis < 0) {
    return false;
  }
  std::vector<double> takes;
  for (int64_t i = 0; i < x.sizes[axis]; ++i) {
    takes.push_back(static_cast<double>(s.draw.below(2)));
  }
  Value condition = s.constant(DType::Bool, {x.sizes[axis]}, takes);
  return s.node("Compress", {x.name, condition.name}, 1, {attrInt("axis", axis)});
}

bool reverse(Sketch &s) {
  std::vector<Dim> dims = s.shape(2, 4);
  int64_t time = s.draw.below(2);
  dims[time] = s.draw.within(1, 6);
  Value x = s.operandLike(DType::F32, dims);
  Value lengths = s.source(DType::I64, {dims[1 - time]},
                           {.low = 1, .high = static_cast<double>(s.sizeOf(dims[time]))});
  return s.node("ReverseSequence", {x.name, lengths.name}, 1,
                {attrInt("time_axis", time), attrInt("batch_axis", 1 - time)});
}

bool triangle(Sketch &s) {
  Value x = s.operand(kAnything, 2, 4);
  std::vector<std::string> names = {x.name};
  if (s.draw.chance(0.6)) {
    names.push_back(s.scalar(DType::I64, static_cast<double>(s.draw.within(-2, 2))).name);
  }
  return s.node("Trilu", names, 1, {attrInt("upper", s.draw.below(2))});
}

} // namespace

std::vector<Operator> indexingOperators() {
  return {
      {"Gather", gather},
      {"GatherElements", gatherElements},
      {"GatherND", gatherNd},
      {"Scatter", [](Sketch &s) { return scatterElements(s, "Scatter"); }},
      {"ScatterElements", [](Sketch &s) { return scatterElements(s, "ScatterElements"); }},
      {"ScatterND", scatterNd},
      {"OneHot", oneHot},
      {"TopK", topK},
      {"Compress", compress},
      {"ReverseSequence", reverse},
      {"Trilu", triangle},
  };
}

} // namespace tenon::random
