// Operators that only move elements.
#include "test/random/Operators.h"

#include <algorithm>
#include <numeric>

namespace tenon::random {
namespace {

using namespace onnx::test;

bool concat(Sketch &s) {
  Value a = s.operand(kAnything, 1, 5);
  int64_t axis = s.draw.below(a.rank());
  std::vector<std::string> names = {a.name};
  for (int64_t i = s.draw.within(0, 2); i > 0; --i) {
    std::vector<Dim> dims = s.dimsLike(a);
    dims[axis] = s.draw.chance(0.5) ? s.dim() : Dim(s.draw.within(1, 3));
    names.push_back(s.draw.chance(0.2) ? a.name : s.operandLike(a.type, dims).name);
  }
  return s.node("Concat", names, 1,
                {attrInt("axis", s.opset >= 11 && s.draw.chance(0.5) ? axis - a.rank() : axis)});
}

bool expand(Sketch &s) {
  std::vector<Dim> dims = s.shape(0, 4);
  std::vector<int64_t> to;
  for (Dim &dim : dims) {
    bool isStretched = s.draw.chance(0.4);
    dim = isStretched ? Dim(int64_t{1}) : Dim(s.sizeOf(dim));
    to.push_back(isStretched ? s.draw.within(1, 4) : s.draw.chance(0.5) ? 1 : s.sizeOf(dim));
  }
  if (s.draw.chance(0.3)) {
    to.insert(to.begin(), s.draw.within(1, 3));
  }
  return s.node("Expand", {s.operandLike(s.draw.of(kAnything), dims).name, s.integers(to).name});
}

bool flatten(Sketch &s) {
  Value x = s.operand(kAnything, 1, 5);
  return s.node("Flatten", {x.name}, 1, {attrInt("axis", s.draw.within(0, x.rank()))});
}

/// Neighbouring dims joined, split, or one of them left to be found.
bool reshape(Sketch &s) {
  Value x = s.operand(kAnything, 0, 5);
  std::vector<int64_t> to;
  bool hasFree = false;
  for (int64_t i = 0; i < x.rank(); ++i) {
    bool joins = i + 1 < x.rank() && s.draw.chance(0.35);
    bool areFixed = x.isFixed(i) && (!joins || x.isFixed(i + 1));
    if (joins && (areFixed || !hasFree)) {
      hasFree = hasFree || !areFixed;
      to.push_back(areFixed ? x.sizes[i] * x.sizes[i + 1] : -1);
      ++i;
    } else if (x.isFixed(i) && x.sizes[i] % 2 == 0 && x.sizes[i] > 0 && s.draw.chance(0.3)) {
      to.insert(to.end(), {2, x.sizes[i] / 2});
    } else if (x.isFixed(i)) {
      to.push_back(x.sizes[i]);
    } else if (to.size() == static_cast<size_t>(i) && (hasFree || s.draw.chance(0.6))) {
      to.push_back(0);
    } else {
      hasFree = true;
      to.push_back(-1);
    }
  }
  if (s.draw.chance(0.2)) {
    to.insert(to.begin() + s.draw.within(0, static_cast<int64_t>(to.size())), 1);
  }
  return std::count(to.begin(), to.end(), -1) <= 1 &&
         s.node("Reshape", {x.name, s.integers(to).name});
}

bool transpose(Sketch &s) {
  Value x = s.operand(kAnything, 0, 5);
  std::vector<int64_t> permutation(x.rank());
  std::iota(permutation.begin(), permutation.end(), 0);
  for (size_t i = permutation.size(); i > 1; --i) {
    std::swap(permutation[i - 1], permutation[s.draw.below(static_cast<int64_t>(i))]);
  }
  return s.node("Transpose", {x.name}, 1,
                s.draw.chance(0.15) ? std::vector<Message>{}
                                    : std::vector{attrInts("perm", permutation)});
}

bool withAxes(Sketch &s, const char *name, const Value &x, std::vector<int64_t> axes) {
  if (s.opset >= 13) {
    return s.node(name, {x.name, s.integers(axes).name});
  }
  return s.node(name, {x.name}, 1, {attrInts("axes", axes)});
}

bool squeeze(Sketch &s) {
  std::vector<Dim> dims = s.shape(1, 4);
  std::vector<int64_t> axes;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (s.draw.chance(0.5)) {
      dims[i] = int64_t{1};
      axes.push_back(static_cast<int64_t>(i));
    }
  }
  return !axes.empty() && withAxes(s, "Squeeze", s.operandLike(s.draw.of(kAnything), dims), axes);
}

bool unsqueeze(Sketch &s) {
  Value x = s.operand(kAnything, 0, 4);
  return withAxes(s, "Unsqueeze", x, {s.draw.within(s.opset >= 11 ? -x.rank() - 1 : 0, x.rank())});
}

bool pad(Sketch &s) {
  Value x = s.operand(s.opset >= 13 ? kAnything : kFloats, 1, 4);
  size_t rank = x.sizes.size();
  const char *mode = s.draw.one({"constant", "constant", "reflect", "edge"});
  if (s.opset >= 19 && s.draw.chance(0.15)) {
    mode = "wrap";
  }
  std::vector<int64_t> pads(2 * rank);
  for (size_t i = 0; i < 2 * rank; ++i) {
    int64_t size = x.sizes[i % rank];
    bool isConstant = std::string_view(mode) == "constant";
    int64_t most = isConstant ? 3 : std::max<int64_t>(0, std::min<int64_t>(3, size - 1));
    pads[i] = s.draw.chance(0.5) ? s.draw.within(0, most) : 0;
    if (isConstant && size > 4 && s.draw.chance(0.1)) {
      pads[i] = -1;
    }
  }
  std::vector<Message> attributes = {attrText("mode", mode)};
  if (s.opset < 11) {
    attributes.push_back(attrInts("pads", pads));
    attributes.push_back(attrFloat("value", 0.5f));
    return s.node("Pad", {x.name}, 1, attributes);
  }
  std::vector<std::string> names = {x.name, s.integers(pads).name};
  if (s.draw.chance(0.5)) {
    names.push_back(s.scalar(x.type, 1).name);
  }
  return s.node("Pad", names, 1, attributes);
}

bool slice(Sketch &s) {
  Value x = s.operand(kAnything, 1, 5);
  std::vector<int64_t> starts, ends, axes, steps;
  for (int64_t axis = 0; axis < x.rank(); ++axis) {
    if (!s.draw.chance(0.5)) {
      continue;
    }
    int64_t size = std::max<int64_t>(x.sizes[axis], 1);
    int64_t step = s.opset < 10 ? 1 : s.draw.one<int64_t>({1, 1, 1, 2, 3, -1, -2});
    int64_t start = s.draw.below(size), end = s.draw.within(start + 1, size);
    bool isWhole = s.draw.chance(0.3);
    if (step < 0) {
      starts.push_back(isWhole ? -1 : end - 1);
      ends.push_back(isWhole || start == 0 ? std::numeric_limits<int64_t>::min() + 1 : start - 1);
    } else {
      starts.push_back(s.draw.chance(0.3) ? start - size : start);
      ends.push_back(isWhole                            ? std::numeric_limits<int64_t>::max()
                     : s.draw.chance(0.3) && end < size ? end - size
                                                        : end);
    }
    axes.push_back(s.draw.chance(0.3) && s.opset >= 11 ? axis - x.rank() : axis);
    steps.push_back(step);
  }
  if (starts.empty()) {
    return false;
  }
  if (s.opset < 10) {
    return s.node("Slice", {x.name}, 1,
                  {attrInts("starts", starts), attrInts("ends", ends), attrInts("axes", axes)});
  }
  return s.node("Slice", {x.name, s.integers(starts).name, s.integers(ends).name,
                          s.integers(axes).name, s.integers(steps).name});
}

bool split(Sketch &s) {
  Value x = s.operand(kAnything, 1, 4);
  int64_t axis = s.draw.below(x.rank());
  int64_t size = x.sizes[axis];
  if (!x.isFixed(axis) || size < 1) {
    return false;
  }
  int64_t parts = s.draw.within(1, std::min<int64_t>(3, size));
  std::vector<Message> attributes = {attrInt("axis", axis)};
  bool isEven = size % parts == 0;
  if (isEven && s.draw.chance(0.5)) {
    if (s.opset >= 18) {
      attributes.push_back(attrInt("num_outputs", parts));
    }
    return s.node("Split", {x.name}, static_cast<int>(parts), attributes);
  }
  std::vector<int64_t> sizes(parts, 1);
  sizes.back() = size - parts + 1;
  if (s.opset >= 13) {
    return s.node("Split", {x.name, s.integers(sizes).name}, static_cast<int>(parts), attributes);
  }
  attributes.push_back(attrInts("split", sizes));
  return s.node("Split", {x.name}, static_cast<int>(parts), attributes);
}

bool tile(Sketch &s) {
  Value x = s.operand(kAnything, 1, 4);
  std::vector<int64_t> repeats;
  for (int64_t i = 0; i < x.rank(); ++i) {
    repeats.push_back(s.draw.chance(0.6) ? 1 : s.draw.within(1, 3));
  }
  return s.node("Tile", {x.name, s.integers(repeats).name});
}

/// x reshaped by its own sizes, as exporters write it.
bool reshapeByShape(Sketch &s) {
  Value x = s.operand(Types{DType::F32}, 2, 4);
  if (!s.node("Shape", {x.name})) {
    return false;
  }
  std::string shape = s.all().back().name;
  if (!s.node("Gather", {shape, s.scalar(DType::I64, 0).name}, 1, {attrInt("axis", 0)}) ||
      !withAxes(s, "Unsqueeze", s.all().back(), {0})) {
    return false;
  }
  std::string first = s.all().back().name;
  return s.node("Concat", {first, s.integers({-1}).name}, 1, {attrInt("axis", 0)}) &&
         s.node("Reshape", {x.name, s.all().back().name});
}

} // namespace

std::vector<Operator> movementOperators() {
  return {
      {"Concat", concat},
      {"Expand", expand},
      {"Flatten", flatten},
      {"Reshape", reshape},
      {"Squeeze", squeeze},
      {"Transpose", transpose},
      {"Pad", pad},
      {"Unsqueeze", unsqueeze},
      {"Slice", slice},
      {"Split", split},
      {"Tile", tile},
      {"Reshape", reshapeByShape},
      {"Transpose", transpose},
  };
}

} // namespace tenon::random
