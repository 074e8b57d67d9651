// Norms, pooling, reductions and what else looks along an axis. What takes a mean or a maximum over
// an axis keeps it: without an index its result would be another one than with a zero there.
#include "compiler/prune/Rules.h"

#include <algorithm>

namespace tenon::prune {
namespace {

using std::string_view;

constexpr string_view kMean = "takes statistics over it";

/// All axes from input to result, but those listed, which stay.
void alongAxes(NodeContext &context, const std::vector<size_t> &along, string_view what) {
  const Axes *x = context.operand(0), *y = context.result();
  if (!x || !y || x->size() != y->size()) {
    return context.keepNode("has operands of unknown rank");
  }
  for (size_t i = 0; i < x->size(); ++i) {
    context.tie((*x)[i], (*y)[i]);
    if (std::find(along.begin(), along.end(), i) != along.end()) {
      context.keep((*x)[i], what);
    }
  }
}

size_t rankOf(const NodeContext &context) {
  const Axes *x = context.operand(0);
  return x ? x->size() : 0;
}

std::vector<size_t> from(size_t first, size_t rank) {
  std::vector<size_t> axes;
  for (size_t i = first; i < rank; ++i) {
    axes.push_back(i);
  }
  return axes;
}

void tieParameters(NodeContext &context, size_t first, size_t last) {
  const Axes *x = context.operand(0);
  for (size_t i = first; i <= last; ++i) {
    const Axes *own = context.operand(i);
    if (own && own->size() == 1 && x && x->size() > 1) {
      context.tie((*own)[0], (*x)[1]);
    }
  }
}

void batchNorm(NodeContext &context) {
  alongAxes(context, {}, "");
  tieParameters(context, 1, 4);
  if (context.own().outputs.size() > 1) {
    context.keepNode("is in training mode");
  }
}

void instanceNorm(NodeContext &context) {
  alongAxes(context, from(2, rankOf(context)), kMean);
  tieParameters(context, 1, 2);
}

/// Groups go whole: the statistics of one do not look at others.
void groupNorm(NodeContext &context) {
  alongAxes(context, from(2, rankOf(context)), kMean);
  const Axes *x = context.operand(0);
  int64_t number = context.integer("num_groups", 0);
  if (!x || x->size() < 2 || number < 1 || (*x)[1].size % number != 0) {
    return context.keepNode("has groups that do not divide its channels");
  }
  Axis groups = context.count("num_groups", static_cast<uint32_t>(number));
  Axis each = context.axisClasses.add((*x)[1].size / static_cast<uint32_t>(number));
  context.keep(each, kMean);
  context.product((*x)[1], {groups, each});
  for (size_t i : {size_t{1}, size_t{2}}) {
    const Axes *own = context.operand(i);
    if (own && own->size() == 1) {
      // Before opset 21 these count groups.
      context.tie((*own)[0], (*own)[0].size == (*x)[1].size ? (*x)[1] : groups);
    }
  }
}

void layerNorm(NodeContext &context) {
  size_t rank = rankOf(context);
  alongAxes(context, from(fromFront(context.integer("axis", -1), rank), rank), kMean);
  for (size_t i = 1; i < context.own().outputs.size(); ++i) {
    context.keepAll(context.result(i), kMean);
  }
  for (size_t i = 1; i < context.own().inputs.size(); ++i) {
    context.keepAll(context.operand(i), kMean);
  }
}

void localNorm(NodeContext &context) { alongAxes(context, from(1, rankOf(context)), kMean); }

void overAxis(NodeContext &context) {
  alongAxes(context, {fromFront(context.integer("axis", -1), rankOf(context))}, "looks along it");
  for (size_t i = 1; i < context.own().outputs.size(); ++i) {
    if (context.result() && context.result(i)) {
      context.tieAll(*context.result(), *context.result(i));
    }
  }
}

void softmax(NodeContext &context) {
  alongAxes(context, {fromFront(context.integer("axis", -1), rankOf(context))}, "sums over it");
}

void cumSum(NodeContext &context) {
  std::optional<std::vector<int64_t>> axis = context.integers(1, "axis");
  if (!axis || axis->size() != 1) {
    return context.keepNode("runs along an axis that data decides");
  }
  alongAxes(context, {fromFront((*axis)[0], rankOf(context))}, "sums along it");
}

void pool(NodeContext &context) {
  alongAxes(context, {}, "");
  const Axes *x = context.operand(0), *y = context.result();
  bool hasIndices = context.own().outputs.size() > 1 && !context.own().outputs[1].empty();
  for (size_t i = hasIndices ? 0 : 2; x && y && i < x->size() && i < y->size(); ++i) {
    context.keep((*x)[i], hasIndices ? "numbers what it picks" : "slides a window over it");
    context.keep((*y)[i], hasIndices ? "numbers what it picks" : "slides a window over it");
  }
  context.keepAll(context.result(1), "numbers what it picks");
}

void reduce(NodeContext &context) {
  const Axes *x = context.operand(0), *y = context.result();
  if (!x || !y) {
    return context.keepNode("has operands of unknown rank");
  }
  std::string_view op = context.own().opType;
  bool isArgument = op == "ArgMax" || op == "ArgMin";
  std::optional<std::vector<int64_t>> axes =
      isArgument ? std::vector{context.integer("axis", 0)} : context.integers(1, "axes");
  bool isComputed = !axes && context.own().inputs.size() > 1 && !context.own().inputs[1].empty();
  if (isComputed) {
    return context.keepNode("reduces axes that data decide");
  }
  bool keepsDims = context.integer("keepdims", 1) != 0;
  bool isNothing = (!axes || axes->empty()) && context.integer("noop_with_empty_axes", 0) != 0;
  std::vector<bool> gone(x->size(), (!axes || axes->empty()) && !isNothing);
  for (int64_t axis : axes.value_or(std::vector<int64_t>())) {
    size_t index = fromFront(axis, x->size());
    if (index < gone.size()) {
      gone[index] = true;
    }
  }
  size_t to = 0;
  for (size_t i = 0; i < x->size(); ++i) {
    if (gone[i]) {
      context.keep((*x)[i], "reduces it");
      to += keepsDims;
    } else if (to < y->size()) {
      context.tie((*x)[i], (*y)[to++]);
    }
  }
}

constexpr std::pair<string_view, Rule> kNormRules[] = {
    {"BatchNormalization", batchNorm},
    {"InstanceNormalization", instanceNorm},
    {"GroupNormalization", groupNorm},
    {"LayerNormalization", layerNorm},
    {"RMSNormalization", layerNorm},
    {"LRN", localNorm},
    {"LpNormalization", overAxis},
    {"Softmax", softmax},
    {"LogSoftmax", softmax},
    {"Hardmax", softmax},
    {"TopK", overAxis},
    {"CumSum", cumSum},
    {"MaxPool", pool},
    {"AveragePool", pool},
    {"LpPool", pool},
    {"GlobalMaxPool", pool},
    {"GlobalAveragePool", pool},
    {"GlobalLpPool", pool},
    {"ArgMax", reduce},
    {"ArgMin", reduce},
};

} // namespace

Rule normRule(string_view op) {
  if (op.starts_with("Reduce")) {
    return reduce;
  }
  for (const auto &[name, rule] : kNormRules) {
    if (name == op) {
      return rule;
    }
  }
  return nullptr;
}

} // namespace tenon::prune
