// Operators that change or read sizes: resizing, pixels and channels, sampling, Shape.
#include "compiler/prune/Rules.h"

namespace tenon::prune {
namespace {

using std::string_view;

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

/// What is computed of sizes is followed by Sizes.
void shape(NodeContext &context) { context.keepAll(context.result(), "counts dims"); }

/// All elements are equal.
void filled(NodeContext &) {}

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
    {"Resize", resize},   {"DepthToSpace", depthToSpace}, {"SpaceToDepth", spaceToDepth},
    {"Shape", shape},     {"ConstantOfShape", filled},    {"GridSample", sample},
    {"RoiAlign", sample}, {"MaxRoiPool", sample}};

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
