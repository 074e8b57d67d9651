// Convolutions and products: an index of the depth goes from both operands at once, where their
// slices meet; groups and batches go whole.
#include "compiler/prune/Rules.h"

#include <map>
#include <set>

namespace tenon::prune {
namespace {

using std::string_view;

void keepFrom(NodeContext &context, const Axes *axes, size_t first, string_view what) {
  for (size_t i = first; axes && i < axes->size(); ++i) {
    context.keep((*axes)[i], what);
  }
}

/// Rows, columns and depth of a product of two computed values: positions, and the size of a head,
/// which a scale is derived from. Heads go whole instead, and those are batches of the product.
constexpr string_view kDepth =
    "multiplies two computed values, of which it is the depth, rows or columns";

bool isOfParameters(const NodeContext &context) {
  return context.values.isParameter(context.own().inputs[0]) ||
         context.graph.constant(context.own().inputs[0]) ||
         context.values.isParameter(context.own().inputs[1]) ||
         context.graph.constant(context.own().inputs[1]);
}

/// Shared by both kinds of convolution: `inputs` and `outputs` are axes of the weight, of which one
/// counts the channels of a group where there are several groups.
void convolution(NodeContext &context, bool isTransposed) {
  constexpr string_view slides = "slides a window over it";
  const Axes *x = context.operand(0), *w = context.operand(1), *bias = context.operand(2),
             *y = context.result();
  if (!x || !w || !y || x->size() < 2 || w->size() != x->size() || y->size() != x->size()) {
    return context.keepNode("has operands of unknown rank");
  }
  keepFrom(context, x, 2, slides);
  keepFrom(context, w, 2, "has a window of this size");
  keepFrom(context, y, 2, slides);
  context.tie((*x)[0], (*y)[0]);
  if (bias && bias->size() == 1) {
    context.tie((*bias)[0], (*y)[1]);
  }
  Axis in = (*x)[1], out = (*y)[1];
  if (!isOfParameters(context)) {
    context.keep(in, "multiplies two computed values over it");
    context.keep(out, "makes it of two computed values");
    context.keepAll(w, "multiplies by it, and it is computed");
  }
  Axis of = (*w)[isTransposed ? 0 : 1], to = (*w)[isTransposed ? 1 : 0];
  int64_t group = context.integer("group", 1);
  if (group <= 1) {
    context.tie(in, of);
    context.tie(out, to);
    return;
  }
  if (in.size % group != 0 || out.size % group != 0) {
    return context.keepNode("has groups that do not divide its channels");
  }
  uint32_t number = static_cast<uint32_t>(group);
  Axis groups = context.count("group", number);
  Axis inEach = context.axisClasses.add(in.size / number),
       outEach = context.axisClasses.add(out.size / number);
  context.product(in, {groups, inEach});
  context.product(out, {groups, outEach});
  context.tie(of, isTransposed ? in : inEach);
  context.tie(to, isTransposed ? outEach : out);
}

void conv(NodeContext &context) { convolution(context, false); }
void convTranspose(NodeContext &context) { convolution(context, true); }

void gemm(NodeContext &context) {
  const Axes *a = context.operand(0), *b = context.operand(1), *c = context.operand(2),
             *y = context.result();
  if (!a || !b || !y || a->size() != 2 || b->size() != 2 || y->size() != 2) {
    return context.keepNode("has operands of unknown rank");
  }
  bool flipsA = context.integer("transA", 0) != 0, flipsB = context.integer("transB", 0) != 0;
  context.tie((*a)[flipsA ? 0 : 1], (*b)[flipsB ? 1 : 0]);
  context.tie((*a)[flipsA ? 1 : 0], (*y)[0]);
  context.tie((*b)[flipsB ? 0 : 1], (*y)[1]);
  if (!isOfParameters(context)) {
    context.keepAll(a, "multiplies two computed values over it");
    context.keepAll(b, "multiplies two computed values over it");
  }
  for (size_t i = 0; c && i < c->size(); ++i) {
    Axis from = (*c)[c->size() - 1 - i], to = (*y)[1 - std::min<size_t>(i, 1)];
    if (from.size != 1) {
      context.tie(from, to);
    }
  }
}

void matMul(NodeContext &context) {
  const Axes *a = context.operand(0), *b = context.operand(1), *y = context.result();
  if (!a || !b || !y || a->empty() || b->empty()) {
    return context.keepNode("has operands of unknown rank");
  }
  Axis depth = a->back(), other = b->size() == 1 ? b->front() : (*b)[b->size() - 2];
  context.tie(depth, other);
  if (!isOfParameters(context)) {
    context.keep(depth, kDepth);
    context.keep(b->back(), kDepth);
    context.keep((*a)[a->size() - std::min<size_t>(2, a->size())], kDepth);
    for (size_t i = 0; y && i + 2 < y->size(); ++i) {
      context.axisClasses.markHeads((*y)[i]);
    }
  }
  // The result has rows unless a is a vector, columns unless b is one, and the batches before them.
  size_t rows = a->size() > 1, columns = b->size() > 1;
  if (y->size() < rows + columns) {
    return context.keepNode("has a result of unknown rank");
  }
  if (columns) {
    context.tie(b->back(), y->back());
  }
  if (rows) {
    context.tie((*a)[a->size() - 2], (*y)[y->size() - 1 - columns]);
  }
  size_t batches = y->size() - rows - columns;
  for (const Axes *operand : {a, b}) {
    size_t own = operand->size() > 2 ? operand->size() - 2 : 0;
    for (size_t i = 0; i < own && i < batches; ++i) {
      Axis from = (*operand)[own - 1 - i], to = (*y)[batches - 1 - i];
      if (from.size != 1 || to.size == 1) {
        context.tie(from, to);
      }
    }
  }
}

/// Letters name axes; those that the result lacks are summed over.
void einsum(NodeContext &context) {
  std::string equation;
  for (char c : context.text("equation", "")) {
    equation += c == ' ' ? "" : std::string(1, c);
  }
  size_t arrow = equation.find("->");
  const Axes *y = context.result();
  if (arrow == std::string::npos || equation.find('.') != std::string::npos || !y) {
    return context.keepNode("has an equation without '->' or with '...'");
  }
  std::map<char, Axis> letters;
  auto read = [&](const Axes *axes, string_view names) {
    if (!axes || axes->size() != names.size()) {
      return context.keepNode("has operands of unknown rank");
    }
    for (size_t i = 0; i < names.size(); ++i) {
      auto [known, isNew] = letters.emplace(names[i], (*axes)[i]);
      if (!isNew) {
        context.tie(known->second, (*axes)[i]);
      }
    }
  };
  size_t begin = 0, computed = 0;
  std::map<char, size_t> readers;
  std::set<char> weighted;
  for (size_t i = 0; i < context.own().inputs.size() && begin <= arrow; ++i) {
    size_t end = std::min(equation.find(',', begin), arrow);
    string_view names = string_view(equation).substr(begin, end - begin);
    read(context.operand(i), names);
    string_view value = context.own().inputs[i];
    bool isComputed = !context.values.isParameter(value) && !context.graph.constant(value);
    computed += isComputed;
    for (char name : names) {
      readers[name] += isComputed;
      if (!isComputed) {
        weighted.insert(name);
      }
    }
    begin = end + 1;
  }
  string_view kept = string_view(equation).substr(arrow + 2);
  read(y, kept);
  for (const auto &[letter, axis] : letters) {
    bool isBatch = kept.find(letter) != string_view::npos && readers[letter] == computed;
    if (computed > 1 && readers[letter] > 0 && !isBatch) {
      context.keep(axis, kDepth);
    }
    if (computed > 1 && isBatch) {
      context.axisClasses.markHeads(axis);
    }
    // What no weight multiplies needs not be zero.
    if (kept.find(letter) == string_view::npos && !weighted.contains(letter)) {
      context.keep(axis, "sums over it");
    }
  }
}

/// Scaled dot products of queries, keys and values. Heads go whole, with the heads of queries that
/// share one of keys.
void attention(NodeContext &context) {
  const Axes *q = context.operand(0), *k = context.operand(1), *v = context.operand(2),
             *y = context.result();
  bool isPlain = q && k && v && y && q->size() == k->size() && q->size() == v->size() &&
                 y->size() == q->size() && (q->size() == 4 || q->size() == 3);
  // Caches and scores that come out too have heads as well.
  if (!isPlain || context.own().outputs.size() > 1 || context.own().inputs.size() > 4) {
    return context.keepNode("has caches, or operands of unknown rank");
  }
  Axis heads = (*q)[1];
  if (q->size() == 4) {
    Axis each = context.axisClasses.add((*q)[1].size / std::max(1U, (*k)[1].size));
    context.product((*q)[1], {(*k)[1], each});
    context.tie((*k)[1], (*v)[1]);
    context.tie((*y)[1], (*q)[1]);
    for (const Axes *axes : {q, k, v, y}) {
      context.keep((*axes)[0], "runs over it");
      keepFrom(context, axes, 2, "has a head of this size");
    }
  } else {
    int64_t queries = context.integer("q_num_heads", 0),
            shared = context.integer("kv_num_heads", 0);
    if (queries < 1 || shared < 1 || queries % shared != 0 || (*q)[2].size % queries != 0 ||
        (*v)[2].size % shared != 0) {
      return context.keepNode("does not say how many heads it has");
    }
    Axis number = context.count("kv_num_heads", static_cast<uint32_t>(shared));
    Axis all = context.count("q_num_heads", static_cast<uint32_t>(queries));
    heads = all;
    Axis each = context.axisClasses.add(static_cast<uint32_t>(queries / shared));
    Axis depth = context.axisClasses.add((*q)[2].size / static_cast<uint32_t>(queries));
    Axis width = context.axisClasses.add((*v)[2].size / static_cast<uint32_t>(shared));
    context.keep(depth, "has a head of this size");
    context.keep(width, "has a head of this size");
    context.product(all, {number, each});
    context.product((*q)[2], {number, each, depth});
    context.product((*k)[2], {number, depth});
    context.product((*v)[2], {number, width});
    context.product((*y)[2], {number, each, width});
    for (const Axes *axes : {q, k, v, y}) {
      context.keep((*axes)[0], "runs over it");
      context.keep((*axes)[1], "runs over it");
    }
  }
  context.axisClasses.markHeads(heads);
  // Aligned from the last dim with [batch, heads, queries, keys].
  const Axes *mask = context.operand(3);
  for (size_t i = 0; mask && i < mask->size(); ++i) {
    bool isHeads = i + 3 == mask->size() && (*mask)[i].size == heads.size;
    isHeads ? context.tie((*mask)[i], heads) : context.keep((*mask)[i], "masks by it");
  }
}

/// Features of the input can go; the state is computed of itself, and stays.
void recurrent(NodeContext &context) {
  const Axes *x = context.operand(0), *w = context.operand(1);
  bool isPlain = x && w && x->size() == 3 && w->size() == 3 && isOfParameters(context);
  if (!isPlain) {
    return context.keepNode("has operands of unknown rank");
  }
  context.tie((*x)[2], (*w)[2]);
  constexpr string_view what = "carries a state of this size";
  for (const Axes *axes : {x, w}) {
    context.keep((*axes)[0], what);
    context.keep((*axes)[1], what);
  }
  for (size_t i = 2; i < context.own().inputs.size(); ++i) {
    context.keepAll(context.operand(i), what);
  }
  for (size_t i = 0; i < context.own().outputs.size(); ++i) {
    context.keepAll(context.result(i), what);
  }
}

constexpr std::pair<string_view, Rule> kProductRules[] = {
    {"Conv", conv},     {"ConvTranspose", convTranspose}, {"Gemm", gemm},      {"MatMul", matMul},
    {"Einsum", einsum}, {"Attention", attention},         {"LSTM", recurrent}, {"GRU", recurrent},
    {"RNN", recurrent}};

} // namespace

Rule productRule(string_view op) {
  for (const auto &[name, rule] : kProductRules) {
    if (name == op) {
      return rule;
    }
  }
  return nullptr;
}

} // namespace tenon::prune
