// Norms, pooling, reductions and what else looks along an axis. What takes a mean or a maximum over
// an axis keeps it: without an index its result would be another one than with a zero there.
#include "compiler/prune/Rules.h"

#include <algorithm>

namespace tenon::prune {
namespace {

using std::string_view;

constexpr string_view kMean = "takes statistics over it";

/// All axes from input to result, but those listed, which stay.
void alongAxes(Site &site, const std::vector<size_t> &along, string_view what) {
  const Axes *x = site.operand(0), *y = site.result();
  if (!x || !y || x->size() != y->size()) {
    return site.keepNode("has operands of unknown rank");
  }
  for (size_t i = 0; i < x->size(); ++i) {
    site.tie((*x)[i], (*y)[i]);
    if (std::find(along.begin(), along.end(), i) != along.end()) {
      site.keep((*x)[i], what);
    }
  }
}

size_t rankOf(const Site &site) {
  const Axes *x = site.operand(0);
  return x ? x->size() : 0;
}

std::vector<size_t> from(size_t first, size_t rank) {
  std::vector<size_t> axes;
  for (size_t i = first; i < rank; ++i) {
    axes.push_back(i);
  }
  return axes;
}

void tieParameters(Site &site, size_t first, size_t last) {
  const Axes *x = site.operand(0);
  for (size_t i = first; i <= last; ++i) {
    const Axes *own = site.operand(i);
    if (own && own->size() == 1 && x && x->size() > 1) {
      site.tie((*own)[0], (*x)[1]);
    }
  }
}

void batchNorm(Site &site) {
  alongAxes(site, {}, "");
  tieParameters(site, 1, 4);
  if (site.own().outputs.size() > 1) {
    site.keepNode("is in training mode");
  }
}

void instanceNorm(Site &site) {
  alongAxes(site, from(2, rankOf(site)), kMean);
  tieParameters(site, 1, 2);
}

/// Groups go whole: the statistics of one do not look at others.
void groupNorm(Site &site) {
  alongAxes(site, from(2, rankOf(site)), kMean);
  const Axes *x = site.operand(0);
  int64_t number = site.integer("num_groups", 0);
  if (!x || x->size() < 2 || number < 1 || (*x)[1].size % number != 0) {
    return site.keepNode("has groups that do not divide its channels");
  }
  Axis groups = site.count("num_groups", static_cast<uint32_t>(number));
  Axis each = site.ties.add((*x)[1].size / static_cast<uint32_t>(number));
  site.keep(each, kMean);
  site.product((*x)[1], {groups, each});
  for (size_t i : {size_t{1}, size_t{2}}) {
    const Axes *own = site.operand(i);
    if (own && own->size() == 1) {
      // Before opset 21 these count groups.
      site.tie((*own)[0], (*own)[0].size == (*x)[1].size ? (*x)[1] : groups);
    }
  }
}

void layerNorm(Site &site) {
  size_t rank = rankOf(site);
  alongAxes(site, from(fromFront(site.integer("axis", -1), rank), rank), kMean);
  for (size_t i = 1; i < site.own().outputs.size(); ++i) {
    site.keepAll(site.result(i), kMean);
  }
  for (size_t i = 1; i < site.own().inputs.size(); ++i) {
    site.keepAll(site.operand(i), kMean);
  }
}

void localNorm(Site &site) { alongAxes(site, from(1, rankOf(site)), kMean); }

void overAxis(Site &site) {
  alongAxes(site, {fromFront(site.integer("axis", -1), rankOf(site))}, "looks along it");
  for (size_t i = 1; i < site.own().outputs.size(); ++i) {
    site.keepAll(site.result(i), "counts it");
  }
}

void softmax(Site &site) {
  alongAxes(site, {fromFront(site.integer("axis", -1), rankOf(site))}, "sums over it");
}

void cumSum(Site &site) {
  std::optional<std::vector<int64_t>> axis = site.integers(1, "axis");
  if (!axis || axis->size() != 1) {
    return site.keepNode("runs along an axis that data decides");
  }
  alongAxes(site, {fromFront((*axis)[0], rankOf(site))}, "sums along it");
}

void pool(Site &site) {
  alongAxes(site, {}, "");
  const Axes *x = site.operand(0), *y = site.result();
  bool hasIndices = site.own().outputs.size() > 1 && !site.own().outputs[1].empty();
  for (size_t i = hasIndices ? 0 : 2; x && y && i < x->size() && i < y->size(); ++i) {
    site.keep((*x)[i], hasIndices ? "numbers what it picks" : "slides a window over it");
    site.keep((*y)[i], hasIndices ? "numbers what it picks" : "slides a window over it");
  }
  site.keepAll(site.result(1), "numbers what it picks");
}

void reduce(Site &site) {
  const Axes *x = site.operand(0), *y = site.result();
  if (!x || !y) {
    return site.keepNode("has operands of unknown rank");
  }
  std::string_view op = site.own().opType;
  bool isArgument = op == "ArgMax" || op == "ArgMin";
  std::optional<std::vector<int64_t>> axes =
      isArgument ? std::vector{site.integer("axis", 0)} : site.integers(1, "axes");
  bool isComputed = !axes && site.own().inputs.size() > 1 && !site.own().inputs[1].empty();
  if (isComputed) {
    return site.keepNode("reduces axes that data decide");
  }
  bool keepsDims = site.integer("keepdims", 1) != 0;
  bool isNothing = (!axes || axes->empty()) && site.integer("noop_with_empty_axes", 0) != 0;
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
      site.keep((*x)[i], "reduces it");
      to += keepsDims;
    } else if (to < y->size()) {
      site.tie((*x)[i], (*y)[to++]);
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
