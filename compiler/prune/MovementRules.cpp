// Operators that move elements: each says which index of its operand an index of its result is. A
// reshape is both sides as products of the factors that they share, row-major.
#include "compiler/prune/Rules.h"

#include <algorithm>

namespace tenon::prune {
namespace {

using std::string_view;
using Indices = std::vector<int64_t>;

constexpr string_view kUnknownRank = "has operands of unknown rank";

void transpose(NodeContext &context) {
  const Axes *x = context.operand(0), *y = context.result();
  if (!x || !y || x->size() != y->size()) {
    return context.keepNode(kUnknownRank);
  }
  const onnx::Attribute *perm = quant::attributeOf(context.own(), "perm");
  for (size_t i = 0; i < y->size(); ++i) {
    size_t from =
        perm && i < perm->ints.size() ? static_cast<size_t>(perm->ints[i]) : y->size() - 1 - i;
    if (from < x->size()) {
      context.tie((*x)[from], (*y)[i]);
    }
  }
}

/// The products of the last dims, from the shortest: the places where factors end.
bool addEnds(const Axes &axes, std::vector<uint64_t> &ends) {
  uint64_t product = 1;
  for (size_t i = axes.size(); i-- > 0;) {
    product *= axes[i].extent;
    ends.push_back(product);
  }
  return product != 0;
}

/// Gives each axis its factors, of which those between the same ends are the same.
void factorize(NodeContext &context, const Axes &axes, const std::vector<uint64_t> &ends,
               const std::vector<Axis> &factors) {
  uint64_t product = 1;
  for (size_t i = axes.size(); i-- > 0;) {
    uint64_t begin = product;
    product *= axes[i].extent;
    std::vector<Axis> own;
    for (size_t f = factors.size(); f-- > 0;) {
      if (ends[f] >= begin && ends[f + 1] <= product) {
        own.push_back(factors[f]);
      }
    }
    if (own.size() == 1) {
      context.tie(axes[i], own.front());
    } else if (!own.empty()) {
      context.product(axes[i], own);
    }
  }
}

void reshape(NodeContext &context) {
  const Axes *x = context.operand(0), *y = context.result();
  std::vector<uint64_t> ends = {1};
  if (!x || !y || !addEnds(*x, ends) || !addEnds(*y, ends)) {
    return context.keepNode("reshapes sizes that data decide");
  }
  std::sort(ends.begin(), ends.end());
  ends.erase(std::unique(ends.begin(), ends.end()), ends.end());
  for (size_t i = 0; i + 1 < ends.size(); ++i) {
    if (ends[i + 1] % ends[i] != 0) {
      return context.keepNode("reshapes across its dims");
    }
  }
  std::vector<Axis> factors;
  for (size_t i = 0; i + 1 < ends.size(); ++i) {
    uint64_t size = ends[i + 1] / ends[i];
    factors.push_back(
        context.axisClasses.add(size > kMaxIndices ? 0 : static_cast<uint32_t>(size)));
  }
  factorize(context, *x, ends, factors);
  factorize(context, *y, ends, factors);
}

/// AxisClasses all axes but one.
bool tieBeside(NodeContext &context, const Axes *x, const Axes *y, size_t axis) {
  if (!x || !y || x->size() != y->size() || axis >= x->size()) {
    context.keepNode(kUnknownRank);
    return false;
  }
  for (size_t i = 0; i < x->size(); ++i) {
    if (i != axis) {
      context.tie((*x)[i], (*y)[i]);
    }
  }
  return true;
}

/// Index `begin + i` of the whole is index i of the part.
void tiePart(NodeContext &context, Axis whole, uint32_t begin, Axis part) {
  bool isMoved = (whole.isFree || part.isFree) && (begin > 0 || part.size != whole.size);
  if (isMoved || begin + part.size > whole.size || part.size == 0) {
    context.keep(whole, "reads it in another size");
    context.keep(part, "reads it in another size");
    return;
  }
  context.axisClasses.tie({whole.at(begin), part.size}, part);
}

void concat(NodeContext &context) {
  const Axes *y = context.result();
  size_t axis = y ? fromFront(context.integer("axis", 0), y->size()) : 0;
  uint32_t begin = 0;
  for (size_t i = 0; i < context.own().inputs.size(); ++i) {
    const Axes *x = context.operand(i);
    if (!tieBeside(context, x, y, axis)) {
      return;
    }
    tiePart(context, (*y)[axis], begin, (*x)[axis]);
    begin += (*x)[axis].size;
  }
}

void split(NodeContext &context) {
  const Axes *x = context.operand(0);
  size_t axis = x ? fromFront(context.integer("axis", 0), x->size()) : 0;
  uint32_t begin = 0;
  for (size_t i = 0; i < context.own().outputs.size(); ++i) {
    const Axes *y = context.result(i);
    if (!tieBeside(context, x, y, axis)) {
      return;
    }
    tiePart(context, (*x)[axis], begin, (*y)[axis]);
    begin += (*y)[axis].size;
  }
}

void slice(NodeContext &context) {
  const Axes *x = context.operand(0), *y = context.result();
  if (!x || !y || x->size() != y->size()) {
    return context.keepNode(kUnknownRank);
  }
  std::optional<Indices> starts = context.integers(1, "starts"), ends = context.integers(2, "ends"),
                         axes = context.integers(3, "axes"), steps = context.integers(4, "steps");
  starts = ends ? starts : std::nullopt;
  bool hasAxes = quant::attributeOf(context.own(), "axes") || context.own().inputs.size() > 3;
  std::vector<bool> isCut(x->size(), false);
  for (size_t i = 0; starts && i < starts->size() && (axes || !hasAxes); ++i) {
    size_t axis = axes && i < axes->size() ? fromFront((*axes)[i], x->size()) : i;
    bool isRun = !steps || i >= steps->size() || (*steps)[i] == 1;
    if (axis >= x->size() || !isRun || (context.own().inputs.size() > 4 && !steps)) {
      continue;
    }
    int64_t size = (*x)[axis].size, start = (*starts)[i];
    start = std::clamp<int64_t>(start < 0 ? start + size : start, 0, size);
    tiePart(context, (*x)[axis], static_cast<uint32_t>(start), (*y)[axis]);
    isCut[axis] = true;
  }
  for (size_t i = 0; i < x->size(); ++i) {
    bool isListed = axes && std::any_of(axes->begin(), axes->end(), [&](int64_t axis) {
                      return fromFront(axis, x->size()) == i;
                    });
    bool isWhole = !isListed && (*x)[i].size == (*y)[i].size && (axes || (!hasAxes && starts));
    if (isWhole && !isCut[i]) {
      context.tie((*x)[i], (*y)[i]);
    } else if (!isCut[i]) {
      context.keep((*x)[i], "takes a part of it");
      context.keep((*y)[i], "takes a part of it");
    }
  }
}

void gather(NodeContext &context) {
  const Axes *x = context.operand(0), *indices = context.operand(1), *y = context.result();
  // Indices of rank 0 have no axes, and are there.
  size_t more = indices ? indices->size() : 0;
  size_t axis = x ? fromFront(context.integer("axis", 0), x->size()) : 0;
  if (!x || !y || axis >= x->size() || y->size() + 1 != x->size() + more) {
    return context.keepNode(kUnknownRank);
  }
  for (size_t i = 0; i < x->size(); ++i) {
    if (i != axis) {
      context.tie((*x)[i], (*y)[i < axis ? i : i - 1 + more]);
    }
  }
  std::optional<Indices> known = context.elements(context.own().inputs[1]);
  if (more == 1 && known && known->size() == (*y)[axis].size) {
    for (uint32_t i = 0; i < known->size(); ++i) {
      size_t from = fromFront((*known)[i], (*x)[axis].size);
      if (from >= (*x)[axis].size) {
        return context.keep((*x)[axis], "picks from it");
      }
      context.axisClasses.tie((*y)[axis].at(i), (*x)[axis].at(static_cast<uint32_t>(from)));
    }
    return;
  }
  context.keep((*x)[axis], "picks from it");
  for (size_t i = 0; i < more; ++i) {
    if (indices) {
      context.tie((*indices)[i], (*y)[axis + i]);
    }
    context.keep((*y)[axis + i], "picks by it");
  }
}

void expand(NodeContext &context) {
  const Axes *x = context.operand(0), *y = context.result();
  if (!x || !y || x->size() > y->size()) {
    return context.keepNode(kUnknownRank);
  }
  size_t missing = y->size() - x->size();
  for (size_t i = 0; i < x->size(); ++i) {
    if ((*x)[i].size != 1) {
      context.tie((*x)[i], (*y)[missing + i]);
    }
  }
}

void tile(NodeContext &context) {
  const Axes *x = context.operand(0), *y = context.result();
  if (!x || !y || x->size() != y->size()) {
    return context.keepNode(kUnknownRank);
  }
  for (size_t i = 0; i < x->size(); ++i) {
    uint32_t size = (*x)[i].size;
    if (size == 0 || (*y)[i].size % size != 0) {
      context.tie((*x)[i], (*y)[i]);
      continue;
    }
    for (uint32_t begin = 0; begin < (*y)[i].size; begin += size) {
      tiePart(context, (*y)[i], begin, (*x)[i]);
    }
  }
}

void pad(NodeContext &context) {
  const Axes *x = context.operand(0), *y = context.result();
  std::optional<Indices> pads = context.integers(1, "pads"), axes = context.integers(3, "axes");
  bool hasAxes = context.own().inputs.size() > 3 && !context.own().inputs[3].empty();
  if (!x || !y || x->size() != y->size() || !pads || (hasAxes && !axes)) {
    return context.keepNode(pads || context.isOfSizes(1) ? "pads by sizes that free dims decide"
                                                         : "pads by sizes that data decide");
  }
  size_t count = pads->size() / 2;
  std::vector<int64_t> before(x->size(), 0);
  for (size_t i = 0; i < count; ++i) {
    size_t axis = axes && i < axes->size() ? fromFront((*axes)[i], x->size()) : i;
    if (axis < before.size()) {
      before[axis] = (*pads)[i];
    }
  }
  bool isConstant = context.text("mode", "constant") == "constant";
  for (size_t i = 0; i < x->size(); ++i) {
    if ((*x)[i].size == (*y)[i].size && before[i] == 0) {
      context.tie((*x)[i], (*y)[i]);
    } else if (isConstant && before[i] >= 0 && (*x)[i].size > 0) {
      tiePart(context, (*y)[i], static_cast<uint32_t>(before[i]), (*x)[i]);
    } else {
      context.keep((*x)[i], "pads it with its own elements");
      context.keep((*y)[i], "pads it with its own elements");
    }
  }
}

/// The axes of a tensor are those of whoever reads it.
void constant(NodeContext &context) {
  if (!context.graph.constant(context.own().outputs[0])) {
    context.keepNode("is a constant that is not a tensor");
  }
}

constexpr std::pair<string_view, Rule> kMovementRules[] = {
    {"Transpose", transpose}, {"Reshape", reshape}, {"Flatten", reshape}, {"Squeeze", reshape},
    {"Unsqueeze", reshape},   {"Concat", concat},   {"Split", split},     {"Slice", slice},
    {"Gather", gather},       {"Expand", expand},   {"Tile", tile},       {"Pad", pad},
    {"Constant", constant}};

} // namespace

Rule movementRule(string_view op) {
  for (const auto &[name, rule] : kMovementRules) {
    if (name == op) {
      return rule;
    }
  }
  return nullptr;
}

} // namespace tenon::prune
