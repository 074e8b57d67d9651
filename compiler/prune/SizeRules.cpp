// Operators that change or read sizes: resizing, pixels and channels, sampling, Shape.
#include "compiler/prune/Rules.h"

#include <algorithm>

namespace tenon::prune {
namespace {

using std::string_view;
using Indices = std::vector<int64_t>;

constexpr string_view kUnknownRank = "has operands of unknown rank";

/// Of an axis whose size stays, linear and cubic interpolation are the identity.
void resize(NodeContext &context) {
  const Axes *x = context.operand(0), *y = context.result();
  if (!x || !y || x->size() != y->size() ||
      context.text("coordinate_transformation_mode", "") == "tf_crop_and_resize") {
    return context.keepNode("resizes a part of it");
  }
  for (size_t i = 0; i < x->size(); ++i) {
    if (i < 2) {
      context.tie((*x)[i], (*y)[i]);
    } else {
      context.keep((*x)[i], "resizes it");
      context.keep((*y)[i], "resizes it");
    }
  }
}

/// The axis of channels is blocks and what stays: in the order (blocks, rest), or (rest, blocks).
void blocks(NodeContext &context, bool isDepthToSpace) {
  const Axes *x = context.operand(0), *y = context.result();
  uint32_t block = static_cast<uint32_t>(context.integer("blocksize", 1));
  if (!x || !y || x->size() != 4 || y->size() != 4) {
    return context.keepNode(kUnknownRank);
  }
  Axis across = context.axisClasses.add(block), down = context.axisClasses.add(block);
  context.keep(across, "makes space of it");
  context.keep(down, "makes space of it");
  Axis deep = (*(isDepthToSpace ? x : y))[1], flat = (*(isDepthToSpace ? y : x))[1];
  context.text("mode", "DCR") == "CRD" ? context.product(deep, {flat, across, down})
                                       : context.product(deep, {across, down, flat});
  context.tie((*x)[0], (*y)[0]);
  for (size_t i : {size_t{2}, size_t{3}}) {
    context.keep((*x)[i], "makes space of it");
    context.keep((*y)[i], "makes space of it");
  }
}

void depthToSpace(NodeContext &context) { blocks(context, true); }
void spaceToDepth(NodeContext &context) { blocks(context, false); }

/// Which of `rank` dims a reader of them takes, where constants say so: a Gather or a Slice.
std::optional<Indices> dimsRead(const NodeContext &context, quant::Use use, size_t rank) {
  const onnx::Node &reader = context.graph.node(use.node);
  auto constant = [&](size_t operand) {
    bool isThere = operand < reader.inputs.size() && !reader.inputs[operand].empty();
    return isThere ? context.elements(reader.inputs[operand]) : std::nullopt;
  };
  if (use.operand != 0) {
    return std::nullopt;
  }
  if (reader.opType == "Gather") {
    return constant(1);
  }
  std::optional<Indices> starts = constant(1), ends = constant(2), steps = constant(4);
  bool isRun = reader.inputs.size() < 5 || (steps && *steps == Indices{1});
  if (reader.opType != "Slice" || !starts || !ends || starts->size() != 1 || !isRun) {
    return std::nullopt;
  }
  int64_t size = static_cast<int64_t>(rank);
  auto place = [&](int64_t at) { return std::clamp<int64_t>(at < 0 ? at + size : at, 0, size); };
  Indices read;
  for (int64_t i = place((*starts)[0]); i < place((*ends)[0]); ++i) {
    read.push_back(i);
  }
  return read;
}

/// Whether the node gives its result the dims of x, whose axes then shrink alike.
bool takesDims(const NodeContext &context, quant::Use use, const Axes &x) {
  constexpr string_view sized[] = {"Reshape", "Expand"};
  const Axes *y = context.values.result(use.node, 0);
  return context.graph.isOneOf(use.node, sized) && use.operand == 1 && y &&
         std::equal(x.begin(), x.end(), y->begin(), y->end(),
                    [](Axis one, Axis other) { return one.size == other.size && one.size > 0; });
}

/// Sizes that other nodes compute with have to stay.
void shape(NodeContext &context) {
  constexpr string_view reads = "reads its size";
  const Axes *x = context.operand(0);
  context.keepAll(context.result(), "counts dims");
  if (!x || context.graph.isKept(context.own().outputs[0])) {
    return context.keepNode(reads);
  }
  int64_t rank = static_cast<int64_t>(x->size());
  auto place = [&](int64_t at) { return std::clamp<int64_t>(at < 0 ? at + rank : at, 0, rank); };
  size_t first = static_cast<size_t>(place(context.integer("start", 0)));
  size_t last = std::max(first, static_cast<size_t>(place(context.integer("end", rank))));
  for (quant::Use use : context.graph.uses(context.own().outputs[0])) {
    if (first == 0 && last == x->size() && takesDims(context, use, *x)) {
      context.tieAll(*x, *context.values.result(use.node, 0));
      continue;
    }
    std::optional<Indices> read = dimsRead(context, use, last - first);
    for (size_t i = first; i < last && !read; ++i) {
      context.keep((*x)[i], reads);
    }
    for (int64_t index : read.value_or(Indices())) {
      size_t axis = first + fromFront(index, last - first);
      if (axis < last) {
        context.keep((*x)[axis], reads);
      }
    }
  }
}

/// Channels pass; the places that are sampled are computed.
void sample(NodeContext &context) {
  const Axes *x = context.operand(0), *y = context.result();
  if (!x || !y || x->size() < 2 || y->size() < 2) {
    return context.keepNode(kUnknownRank);
  }
  Axis in = (*x)[1], out = (*y)[1];
  context.tie(in, out);
  for (size_t i = 0; i < context.own().inputs.size(); ++i) {
    for (const Axis &axis : context.operand(i) ? *context.operand(i) : Axes()) {
      if (axis.first != in.first) {
        context.keep(axis, "samples at it");
      }
    }
  }
  for (const Axis &axis : *y) {
    if (axis.first != out.first) {
      context.keep(axis, "samples at it");
    }
  }
}

constexpr std::pair<string_view, Rule> kSizeRules[] = {
    {"Resize", resize},    {"DepthToSpace", depthToSpace}, {"SpaceToDepth", spaceToDepth},
    {"Shape", shape},      {"GridSample", sample},         {"RoiAlign", sample},
    {"MaxRoiPool", sample}};

} // namespace

Rule sizeRule(string_view op) {
  for (const auto &[name, rule] : kSizeRules) {
    if (name == op) {
      return rule;
    }
  }
  return nullptr;
}

} // namespace tenon::prune
