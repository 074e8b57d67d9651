// The attention of a layer: projections, rotary embeddings, cache and scores. Relies on keys and
// values that lie in the cache at their positions.
#include "compiler/frontend/language/Step.h"

#include "compiler/graph/TnRare.h"
#include "support/text/Text.h"

using namespace mlir;

namespace tenon::language {

/// [tokens, heads, head width]
Value Step::projected(Value x, const std::string &part, Rows rows, int64_t headWidth) {
  Emitter c(*this, fileName(part));
  Value y = product(x, part, rows, model.width, model.family->hasProjectionBias);
  AffineExpr heads = c.constantSize(rows.count / headWidth);
  return y ? c.reshape(y, {tokens, heads, c.constantSize(headWidth)}) : y;
}

/// Rotary embeddings of the first elements of each head: x * cosine + swapped x * sine, where the
/// sine has the signs. Pairs lie along a dim of two of their own, so that swapping is one slice.
Value Step::turned(Emitter &c, Value x, int64_t heads, const Angles &by) {
  if (!x || c.failed()) {
    return Value();
  }
  bool isPairs = model.rope == Rope::Pairs;
  AffineExpr count = c.constantSize(heads), half = c.constantSize(model.turned / 2);
  AffineExpr two = c.constantSize(2), whole = c.constantSize(model.turned);
  tn::Dims pairs =
      isPairs ? tn::Dims{tokens, count, half, two} : tn::Dims{tokens, count, two, half};
  Value part = model.turned == model.keyWidth ? x : c.sliceAxis(x, 2, c.constantSize(0), whole);
  part = c.reshape(part, pairs);
  SmallVector<AffineExpr> starts(pairs.size(), c.constantSize(0));
  SmallVector<int64_t> steps(pairs.size(), 1);
  size_t axis = isPairs ? 3 : 2;
  starts[axis] = c.constantSize(1);
  steps[axis] = -1;
  Value swapped = c.makeTyped<tn::SliceOp>(cast<RankedTensorType>(part.getType()), part,
                                           tn::symbolMap(starts, &context), steps);
  Value y = c.add(c.mul(part, by.cosine), c.mul(swapped, by.sine));
  y = c.reshape(y, {tokens, count, whole});
  if (model.turned == model.keyWidth) {
    return y;
  }
  Value rest = c.sliceAxis(x, 2, whole, c.constantSize(model.keyWidth - model.turned));
  return c.concat({y, rest}, 2);
}

Value Step::writtenToPages(Emitter &c, std::string_view kind, int64_t index, Value x) {
  if (!x || c.failed()) {
    return Value();
  }
  std::string name = strCat(kind, '.', index);
  Value cache = c.make<tn::PagedWriteOp>(caches[name], x, slots, kind == "keys");
  states.emplace_back(name, cache);
  return cache;
}

/// What is read of the layer's cache with the new rows, [1, context, key heads, width].
Value Step::cached(Emitter &c, std::string_view kind, int64_t index, Value x) {
  if (!x || c.failed()) {
    return Value();
  }
  std::string name = strCat(kind, '.', index);
  Value indices = c.reshape(places, {tokens, c.constantSize(1)});
  Value cache = c.make<tn::ScatterNdOp>(caches[name], indices, x, tn::ScatterKind::none);
  states.emplace_back(name, cache);
  Value read = c.sliceAxis(cache, 0, c.constantSize(0), seen);
  tn::Dims dims = tn::getDims(read.getType());
  dims.insert(dims.begin(), c.constantSize(1));
  return c.reshape(read, dims);
}

Value Step::capped(Emitter &c, Value x, double cap) {
  if (!x || cap == 0) {
    return x;
  }
  Value limit = c.scalarLike(cap, x);
  return c.mul(c.unary<tn::TanhOp>(c.div(x, limit)), limit);
}

/// Of queries [tokens, heads, width] and what is cached: [tokens, heads * width of values].
Value Step::attended(Emitter &c, Value q, Value k, Value v, bool isWindowed) {
  AffineExpr one = c.constantSize(1), key = c.constantSize(model.keyWidth);
  AffineExpr keyHeads = c.constantSize(model.keyHeads);
  AffineExpr shared = c.constantSize(model.heads / model.keyHeads);
  AffineExpr width = c.constantSize(model.heads * model.valueWidth);
  if (model.scoreCap == 0) {
    q = c.reshape(q, {one, tokens, c.constantSize(model.heads), key});
    bool inner[] = {true, true, true, true};
    int64_t window = isWindowed && model.window < positions ? model.window : 0;
    Value y = c.make<tn::AttentionOp>(q, k, v, /*mask=*/Value(), start,
                                      llvm::APFloat(model.scoreScale), /*causal=*/true, inner,
                                      /*maskedRowsAreNan=*/false, window);
    return y ? c.reshape(y, {tokens, width}) : y;
  }
  // `tn.attention` has no cap. A head of keys meets those of queries that share it.
  q = c.transpose(c.reshape(q, {tokens, keyHeads, shared, key}), {1, 2, 0, 3});
  k = c.transpose(k, {2, 0, 1, 3});
  v = c.transpose(v, {2, 0, 1, 3});
  Value scores = c.make<tn::MatmulOp>(q, k, false, true);
  scores = capped(c, scores ? c.mul(scores, c.scalarLike(model.scoreScale, scores)) : scores,
                  model.scoreCap);
  scores = c.unary<tn::SoftmaxOp>(c.add(scores, isWindowed ? windowMask : mask), int64_t{3}, false);
  Value y = c.make<tn::MatmulOp>(scores, v, false, false);
  return c.reshape(c.transpose(y, {2, 0, 1, 3}), {tokens, width});
}

Value Step::attendedPages(Emitter &c, Value q, Value k, Value v, bool isWindowed) {
  int64_t window = isWindowed && model.window < positions ? model.window : 0;
  Value y = c.make<tn::PagedAttentionOp>(q, k, v, pageTable, starts, lengths,
                                         llvm::APFloat(model.scoreScale), window,
                                         llvm::APFloat(model.scoreCap));
  return y ? c.reshape(y, {tokens, c.constantSize(model.heads * model.valueWidth)}) : y;
}

Value Step::attention(int64_t index, Value x) {
  Emitter c(*this, partName(layerTensor(index, "attention"), layerTensor(index, "attn_output"), 1));
  auto named = [&](std::string_view part) { return layerTensor(index, part); };
  bool isFused = model.tensor(named("attn_qkv.weight"));
  int64_t queries = model.heads * model.keyWidth, keys = model.keyHeads * model.keyWidth;
  int64_t values = model.keyHeads * model.valueWidth, all = queries + keys + values;
  auto part = [&](std::string_view name, int64_t first, int64_t rows, int64_t headWidth) {
    return isFused ? projected(x, named("attn_qkv"), Rows(all, first, rows), headWidth)
                   : projected(x, named(name), rows, headWidth);
  };
  Value q = part("attn_q", 0, queries, model.keyWidth);
  Value k = part("attn_k", queries, keys, model.keyWidth);
  Value v = part("attn_v", queries + keys, values, model.valueWidth);
  if (model.family->normalizesHeads && q && k) {
    q = norm(q, named("attn_q_norm"), model.keyWidth);
    k = norm(k, named("attn_k_norm"), model.keyWidth);
  }
  int64_t every = model.family->noRopeEvery;
  bool isTurned = model.rope != Rope::None && (every == 0 || (index + 1) % every != 0);
  if (isTurned) {
    const Angles &by = model.isWindowed[index] ? windowAngles : angles;
    q = turned(c, q, model.heads, by);
    k = turned(c, k, model.keyHeads, by);
  }
  bool isWindowed = model.isWindowed[index];
  k = hasPages() ? writtenToPages(c, "keys", index, k) : cached(c, "keys", index, k);
  v = hasPages() ? writtenToPages(c, "values", index, v) : cached(c, "values", index, v);
  if (!q || !k || !v || c.failed()) {
    return Value();
  }
  Value y = hasPages() ? attendedPages(c, q, k, v, isWindowed) : attended(c, q, k, v, isWindowed);
  return product(y, named("attn_output"), model.width, model.heads * model.valueWidth);
}

} // namespace tenon::language
