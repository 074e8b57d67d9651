// ONNX Runtime's attention of the domain com.microsoft: heads in the last dim, and caches that each
// batch entry fills on its own. Relies on grouped heads being repeated by `tn.attention`.
#include "compiler/frontend/onnx/ops/MicrosoftAttention.h"

#include "compiler/frontend/onnx/StatedSizes.h"

using namespace mlir;

namespace tenon::onnx {

Value attendSeparately(NodeContext &c, Value q, Value k, Value v, Value mask, double scale,
                       const ScoreForm &form) {
  tn::Dims dims = q ? tn::getDims(q.getType()) : tn::Dims();
  k = q ? repeatHeads(c, k, dims[1]) : k;
  v = q ? repeatHeads(c, v, dims[1]) : v;
  if (!q || !k || !v || c.failed()) {
    return Value();
  }
  Value scores = c.mul(c.make<tn::MatmulOp>(q, k, false, true), c.scalarLike(scale, q));
  if (form.cap > 0) {
    Value limit = c.scalarLike(form.cap, scores);
    scores = c.mul(c.unary<tn::TanhOp>(c.div(scores, limit)), limit);
  }
  scores = mask ? c.add(scores, mask) : scores;
  AffineExpr keys = tn::getDims(k.getType())[2];
  if (form.sink) {
    // A key of no value takes its part of the probabilities.
    Value sink =
        c.reshape(form.sink, {c.constantSize(1), dims[1], c.constantSize(1), c.constantSize(1)});
    scores =
        c.concat({scores, c.broadcast(sink, {dims[0], dims[1], dims[2], c.constantSize(1)})}, 3);
  }
  Value probabilities = c.unary<tn::SoftmaxOp>(scores, int64_t{3}, false);
  if (form.sink) {
    probabilities = c.sliceAxis(probabilities, 3, c.constantSize(0), keys);
  }
  return c.make<tn::MatmulOp>(probabilities, v, false, false);
}

void setAttention(NodeContext &c, Value q, Value k, Value v, Value mask, bool causal,
                  bool maskedRowsAreNan, const ScoreForm &form) {
  double given = c.real("scale", 0);
  std::optional<double> scale = scoreScale(c, q, given == 0 ? std::nullopt : std::optional(given));
  bool inner[] = {false, false, false, false};
  if (scale && form.isPlain()) {
    c.setOutput(0, mergeHeads(c, c.make<tn::AttentionOp>(q, k, v, mask, /*start=*/Value(),
                                                         llvm::APFloat(*scale), causal, inner,
                                                         maskedRowsAreNan)));
  } else if (scale) {
    c.setOutput(0, mergeHeads(c, attendSeparately(c, q, k, v, mask, *scale, form)));
  }
}

Value sumOf(NodeContext &c, Value a, Value b) { return a && b ? c.add(a, b) : a ? a : b; }

namespace {

/// Which keys are within the lengths of the mask's entries [B] or [2 B], as [B, 1, 1, keys].
Value seenByLengths(NodeContext &c, unsigned i, AffineExpr batch, AffineExpr keys) {
  Type index = c.builder().getI64Type();
  AffineExpr one = c.constantSize(1), all = c.dims(i)[0];
  bool hasStarts = !tn::sameDim(all, batch);
  if (hasStarts && !tn::sameDim(all, multiplySizes(batch, c.constantSize(2)))) {
    c.gap("its mask of lengths is not known to have one or two entries for each batch entry",
          "give a mask over all keys");
    return Value();
  }
  Value bounds = c.cast(c.value(i), index);
  auto entries = [&](AffineExpr start) {
    return c.reshape(c.sliceAxis(bounds, 0, start, batch), {batch, one, one, one});
  };
  Value at = c.alongAxis(c.positions(keys), 3, 4);
  Value seen = c.compare(at, tn::Predicate::lt, entries(c.constantSize(0)));
  return hasStarts ? c.make<tn::AndOp>(seen, c.compare(at, tn::Predicate::ge, entries(batch)))
                   : seen;
}

} // namespace

Value paddingAddend(NodeContext &c, unsigned i, AffineExpr batch, AffineExpr keys, Type element) {
  c.ignore("mask_filter_value");
  if (!c.has(i)) {
    return Value();
  }
  tn::Dims dims = c.dims(i);
  Value seen;
  if (dims.size() == 1) {
    seen = seenByLengths(c, i, batch, keys);
  } else if (dims.size() == 2 || dims.size() == 3) {
    dims.insert(dims.begin() + 1, 4 - dims.size(), c.constantSize(1));
    Value mask = c.reshape(c.value(i), dims);
    seen = c.compare(mask, tn::Predicate::gt, c.scalarLike(0, mask));
  } else {
    c.gap("a mask of four dimensions is not supported", "give a mask over all keys");
  }
  return c.select(seen, c.scalar(0, element),
                  c.scalar(c.real("mask_filter_value", -10000), element));
}

namespace {

//===--- MultiHeadAttention ---===//

/// Input `i` with its part of the bias added and its heads apart; the next part starts after it.
Value projected(NodeContext &c, unsigned i, int64_t heads, AffineExpr &start) {
  if (c.rank(i) == 4 && !c.has(3)) {
    return c.value(i);
  }
  if (c.rank(i) != 3) {
    c.gap("keys with heads of their own and a bias are not supported", "export without the bias");
    return Value();
  }
  Value x = c.value(i);
  AffineExpr width = c.dims(i)[2];
  if (c.has(3)) {
    x = c.add(x, c.sliceAxis(c.value(3), 0, start, width));
    start = addSizes(start, width);
  }
  return splitHeads(c, x, heads);
}

void multiHeadAttention(NodeContext &c) {
  if (c.rank(0) != 3 || !c.has(1) || !c.has(2)) {
    return c.gap("queries, keys and values in one tensor are not supported",
                 "export them as three inputs");
  }
  int64_t heads = c.integer("num_heads", 0);
  AffineExpr start = c.constantSize(0);
  Value q = projected(c, 0, heads, start);
  Value k = projected(c, 1, heads, start);
  Value v = projected(c, 2, heads, start);
  if (c.has(6) && c.has(7)) {
    k = c.concat({c.value(6), k}, 2);
    v = c.concat({c.value(7), v}, 2);
  }
  c.setOutput(1, k);
  c.setOutput(2, v);
  AffineExpr keys = k ? tn::getDims(k.getType())[2] : AffineExpr();
  Value mask = k ? paddingAddend(c, 4, c.dims(0)[0], keys, c.element(0)) : Value();
  mask = sumOf(c, mask, c.value(5));
  setAttention(c, q, k, v, mask, c.integer("unidirectional", 0) != 0, bool(mask));
}

//===--- GroupQueryAttention ---===//

/// The node's sizes and its lengths as values.
struct Cache {
  int64_t heads = 0;
  int64_t keyHeads = 0;
  AffineExpr batch;
  AffineExpr queries;
  AffineExpr past; ///< length of the buffers that come in
  AffineExpr keys; ///< length of those that go out
  Value total;     ///< keys of the longest entry with the new ones, i64
  Value filled;    ///< keys that each batch entry has before the new ones, i64 [B, 1, 1, 1]
};

/// 0, 1, ... along one of four dims.
Value counted(NodeContext &c, AffineExpr count, int64_t axis) {
  return c.alongAxis(c.positions(count), axis, 4);
}

bool readsUnsupported(NodeContext &c) {
  c.ignore("qk_norm_epsilon"); // of weights that are a gap
  bool plain = c.integer("qk_output", 0) == 0 && c.integer("kv_cache_bit_width", 0) == 0 &&
               c.integer("sliding_window_cache", 0) == 0 &&
               c.text("k_quant_type", "NONE") == "NONE" && c.text("v_quant_type", "NONE") == "NONE";
  if (!plain) {
    c.gap("quantized caches, caches that drop keys and scores as a result are not supported",
          "export without them");
  }
  return !plain;
}

/// The length of the longest sequence with its new keys. One that data gives is that of the cache
/// that goes out, or, where the model states none, of the one that comes in and the new keys; each
/// run checks that.
AffineExpr totalLength(NodeContext &c, const Cache &cache) {
  if (std::optional<Sizes> known = c.sizes(6)) {
    return known->isScalarLike() ? known->values[0] : AffineExpr();
  }
  std::optional<tn::Dims> stated = c.statedDims(1);
  bool isBuffer =
      stated && stated->size() == 4 && c.has(3) && tn::sameDim((*stated)[2], cache.past);
  return isBuffer ? cache.past : addSizes(cache.past, cache.queries);
}

/// The sizes of queries and past keys, again where a constraint has determined a symbol in them.
void readSizes(NodeContext &c, Cache &cache) {
  cache.batch = c.dims(0)[0];
  cache.queries = c.dims(0)[1];
  cache.past = c.has(3) && c.rank(3) == 4 ? c.dims(3)[2] : c.constantSize(0);
}

/// The total length, and the keys that go out, in the cache; null after a failure.
Value readTotal(NodeContext &c, Cache &cache) {
  auto compare = [&](AffineExpr a, Comparison kind, AffineExpr b) {
    return c.symbols().compare(a, kind, b).value_or(false);
  };
  AffineExpr length = totalLength(c, cache);
  if (!length) {
    c.error(ErrorId::OnnxBadNode, "its total sequence length is not a single number");
    return Value();
  }
  bool grows = compare(cache.past, Comparison::LessOrEqual, length);
  bool isKnown = c.has(3) && (grows || compare(length, Comparison::LessOrEqual, cache.past));
  if (!isKnown) {
    grows = c.require(tn::ConstraintKind::equal, length, addSizes(cache.past, cache.queries),
                      "the total sequence length and that of the past and new keys");
    readSizes(c, cache);
    length = addSizes(cache.past, cache.queries);
  }
  if (c.failed()) {
    return Value();
  }
  cache.keys = grows ? length : cache.past;
  Type index = c.builder().getI64Type();
  if (c.sizes(6)) {
    return c.materialize(Sizes::scalar(length), index);
  }
  bool isBuffer = tn::sameDim(cache.keys, cache.past);
  Value total = c.reshape(c.cast(c.value(6), index), {});
  Value fits = c.compare(total, isBuffer ? tn::Predicate::le : tn::Predicate::eq,
                         c.sizeValue(cache.keys, index));
  return requireCondition(c, total, fits,
                          isBuffer ? "total_sequence_length is at most that of the cache"
                                   : "total_sequence_length is that of the past and the new keys");
}

std::optional<Cache> readCache(NodeContext &c) {
  Cache cache;
  cache.heads = c.integer("num_heads", 0);
  cache.keyHeads = c.integer("kv_num_heads", 0);
  readSizes(c, cache);
  if (cache.heads <= 0 || cache.keyHeads <= 0 || cache.heads % cache.keyHeads != 0) {
    c.error(ErrorId::OnnxBadAttribute, "kv_num_heads does not divide num_heads");
    return std::nullopt;
  }
  cache.total = readTotal(c, cache);
  if (!cache.total || c.failed()) {
    return std::nullopt;
  }
  // The first call fills the cache from its start, however long each entry's sequence is.
  Type index = c.builder().getI64Type();
  AffineExpr one = c.constantSize(1);
  Value queries = c.materialize(Sizes::scalar(cache.queries), index);
  Value first = c.compare(cache.total, tn::Predicate::eq, queries);
  Value last = c.reshape(c.cast(c.value(5), index), {cache.batch, one, one, one});
  cache.filled =
      c.select(first, c.scalar(0, index), c.sub(c.add(last, c.scalar(1, index)), queries));
  return cache;
}

/// The buffer with the new keys (or values) behind those that each batch entry has.
Value extended(NodeContext &c, const Cache &cache, unsigned input, Value fresh) {
  if (!c.has(input) || !fresh) {
    return fresh;
  }
  Type index = c.builder().getI64Type();
  Value joined = c.concat({c.value(input), fresh}, 2);
  Value past = c.materialize(Sizes::scalar(cache.past), index);
  AffineExpr end = addSizes(addSizes(cache.past, cache.queries), c.constantSize(-1));
  Value at = counted(c, cache.keys, 2);
  Value behind =
      c.min(c.add(past, c.sub(at, cache.filled)), c.materialize(Sizes::scalar(end), index));
  Value source = c.select(c.compare(at, tn::Predicate::lt, cache.filled), at, behind);
  tn::Dims dims = tn::getDims(fresh.getType());
  dims[2] = cache.keys;
  return c.make<tn::GatherElementsOp>(joined, c.broadcast(source, dims), int64_t{2});
}

/// Which keys each query sees: those up to its own, and of these no more than the window has.
Value seenAddend(NodeContext &c, const Cache &cache) {
  Type index = c.builder().getI64Type();
  bool isCausal = c.integer("causal", 1) != 0;
  Value own =
      isCausal ? counted(c, cache.queries, 2)
               : c.materialize(Sizes::scalar(addSizes(cache.queries, c.constantSize(-1))), index);
  own = c.add(own, cache.filled);
  Value key = counted(c, cache.keys, 3);
  Value seen = c.compare(key, tn::Predicate::le, own);
  if (int64_t window = c.integer("local_window_size", -1); window > 0) {
    Value least = c.sub(own, c.integerConstant({window}, {}, index));
    seen = c.make<tn::AndOp>(seen, c.compare(least, tn::Predicate::lt, key));
  }
  return additive(c, seen, c.element(0));
}

/// What the node does to the scores beside the mask. A smooth softmax is one of a sink of 0.
ScoreForm readScoreForm(NodeContext &c, const Cache &cache) {
  ScoreForm form{c.real("softcap", 0), c.value(11)};
  if (c.integer("smooth_softmax", -1) > 0 && !form.sink) {
    form.sink = c.broadcast(c.scalar(0, c.element(0)), {c.constantSize(cache.heads)});
  }
  return form;
}

/// x [B, H, S, D] turned by its positions, where the node asks for it.
Value turned(NodeContext &c, const Cache &cache, Value x) {
  if (c.integer("do_rotary", 0) == 0) {
    c.ignore("rotary_interleaved");
    for (unsigned i : {7u, 8u, 9u}) {
      c.ignoreInput(i);
    }
    return x;
  }
  std::optional<int64_t> half =
      c.has(7) && c.has(8) && c.rank(7) == 2 ? tn::constantDim(c.dims(7)[1]) : std::nullopt;
  if (!half) {
    c.gap("rotation without caches of constant width is not supported", "make them constants");
    return Value();
  }
  tn::Dims at = {cache.batch, cache.queries};
  Value own = c.has(9) ? c.fromStart(c.value(9))
                       : c.reshape(c.add(counted(c, cache.queries, 1), cache.filled), at);
  auto angles = [&](unsigned i) {
    return c.reshape(c.make<tn::GatherOp>(c.value(i), own, int64_t{0}),
                     {at[0], at[1], c.constantSize(1), c.constantSize(*half)});
  };
  Value y = rotate(c, x ? c.transpose(x, {0, 2, 1, 3}) : x, angles(7), angles(8), 2 * *half,
                   c.integer("rotary_interleaved", 0) != 0);
  return y ? c.transpose(y, {0, 2, 1, 3}) : y;
}

void groupQueryAttention(NodeContext &c) {
  if (c.rank(0) != 3) {
    return c.error(ErrorId::OnnxBadNode, "its query does not have three dimensions");
  }
  std::optional<Cache> cache = readsUnsupported(c) ? std::nullopt : readCache(c);
  if (!cache) {
    return;
  }
  Value parts[] = {c.value(0), c.value(1), c.value(2)};
  int64_t heads[] = {cache->heads, cache->keyHeads, cache->keyHeads};
  if (!c.has(1) && !c.has(2)) {
    AffineExpr all = c.constantSize(cache->heads + 2 * cache->keyHeads);
    AffineExpr width = divideProducts(c.symbols(), {c.dims(0)[2]}, {all});
    AffineExpr start = c.constantSize(0);
    for (unsigned i = 0; i < 3 && width; ++i) {
      AffineExpr size = multiplySizes(width, c.constantSize(heads[i]));
      parts[i] = c.sliceAxis(c.value(0), 2, start, size);
      start = addSizes(start, size);
    }
  }
  Value q = turned(c, *cache, splitHeads(c, parts[0], heads[0]));
  Value k = turned(c, *cache, splitHeads(c, parts[1], heads[1]));
  k = extended(c, *cache, 3, k);
  Value v = extended(c, *cache, 4, splitHeads(c, parts[2], heads[2]));
  c.setOutput(1, k);
  c.setOutput(2, v);
  // A row of padding, which is before the first key, has no keys, as in ONNX Runtime.
  setAttention(c, q, k, v, sumOf(c, seenAddend(c, *cache), c.value(10)), false, c.has(10),
               readScoreForm(c, *cache));
}

constexpr Attributes kMultiHead = {{"mask_filter_value", kFloat},
                                   needs({"num_heads", kInt}),
                                   {"scale", kFloat},
                                   {"unidirectional", kInt}};
constexpr Attributes kGroupQuery = {{"causal", kInt},
                                    {"do_rotary", kInt},
                                    {"k_quant_type", kString},
                                    {"kv_cache_bit_width", kInt},
                                    needs({"kv_num_heads", kInt}),
                                    {"local_window_size", kInt},
                                    needs({"num_heads", kInt}),
                                    {"qk_norm_epsilon", kFloat},
                                    {"qk_output", kInt},
                                    {"rotary_interleaved", kInt},
                                    {"scale", kFloat},
                                    {"sliding_window_cache", kInt},
                                    {"smooth_softmax", kInt},
                                    {"softcap", kFloat},
                                    {"v_quant_type", kString}};
constexpr uint16_t kPacked = 1 << 1 | 1 << 2 | 1 << 3 | 1 << 4;

constexpr OpRow kMicrosoftAttentionOpRows[] = {
    {"GroupQueryAttention", 1, 7, 16, 4, groupQueryAttention, kGroupQuery, kMicrosoft, kPacked},
    {"MultiHeadAttention", 1, 1, 10, 4, multiHeadAttention, kMultiHead, kMicrosoft},
};

} // namespace

ArrayRef<OpRow> microsoftAttentionRows() { return kMicrosoftAttentionOpRows; }

} // namespace tenon::onnx
