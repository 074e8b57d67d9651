// Attention: `tn.attention` with the mask that the node's inputs and flags describe.
// Relies on grouped heads being repeated by `tn.attention`.
#include "compiler/frontend/onnx/StatedSizes.h"
#include "compiler/frontend/onnx/ops/Bodies.h"
#include "compiler/frontend/onnx/ops/Heads.h"

using namespace mlir;

namespace tenon::onnx {
namespace {

/// The mask input as an addend, padded with "not seen" up to the number of keys; null without one.
Value maskAddend(NodeContext &c, AffineExpr keys, Type element) {
  if (!c.has(3)) {
    return Value();
  }
  Value mask = c.value(3);
  tn::Dims dims = c.dims(3);
  if (c.element(3).isInteger(1)) {
    mask = additive(c, mask, element);
  }
  std::optional<bool> whole = dims.empty()
                                  ? std::optional<bool>(true)
                                  : c.symbols().compare(dims.back(), Comparison::Equal, keys);
  if (tn::constantDim(dims.empty() ? keys : dims.back()) == 1 || whole.value_or(true)) {
    return mask;
  }
  std::optional<int64_t> missing = tn::constantDim(subtractSizes(keys, dims.back()));
  if (!missing || *missing < 0) {
    c.gap("the mask's length differs from the number of keys", "give a mask over all keys");
    return Value();
  }
  SmallVector<int64_t> begins(dims.size(), 0), ends(dims.size(), 0);
  ends.back() = *missing;
  Value outside = c.scalar(-std::numeric_limits<double>::infinity(), element);
  return c.make<tn::PadOp>(mask, outside, begins, ends, tn::PadMode::constant);
}

/// Everything that one call of attention computes from.
struct Operands {
  Value q; ///< [B, H, Sq, D]
  Value k; ///< [B, Hk, Sk, D], past keys included
  Value v;
  Value mask; ///< added to the scores; null without one
  bool causal = false;
  double scale = 1;
};

/// Keys at and after each batch entry's length are not seen; with a causal mask, as ONNX Runtime
/// has it, the last query sees the last key of that length, and each one before it a key less.
Value lengthAddend(NodeContext &c, AffineExpr queries, AffineExpr keys, bool causal) {
  AffineExpr one = c.constantSize(1);
  Type index = c.builder().getI64Type();
  Value lengths = c.reshape(c.cast(c.value(6), index), {c.dims(6)[0], one, one, one});
  lengths = requireLengths(c, lengths, keys, "nonpad_kv_seqlen is from 0 to the number of keys");
  if (causal) {
    Value later = c.sub(c.materialize(Sizes::scalar(addSizes(queries, c.constantSize(-1))), index),
                        c.alongAxis(c.positions(queries), 2, 4));
    lengths = c.sub(lengths, later);
  }
  Value seen = c.compare(c.alongAxis(c.positions(keys), 3, 4), tn::Predicate::lt, lengths);
  return additive(c, seen, c.element(0));
}

std::optional<Operands> readOperands(NodeContext &c) {
  Operands o;
  o.q = splitHeads(c, 0, "q_num_heads");
  o.k = splitHeads(c, 1, "kv_num_heads");
  o.v = splitHeads(c, 2, "kv_num_heads");
  AffineExpr past = c.constantSize(0);
  if (c.has(4) && c.has(5)) {
    past = c.rank(4) == 4 ? c.dims(4)[2] : AffineExpr();
    o.k = c.concat({c.value(4), o.k}, 2);
    o.v = c.concat({c.value(5), o.v}, 2);
  }
  if (!o.q || !o.k || !o.v || !past || c.failed()) {
    return std::nullopt;
  }
  tn::Dims queryDims = tn::getDims(o.q.getType());
  AffineExpr keys = tn::getDims(o.k.getType())[2];
  std::optional<double> scale = scoreScale(
      c, o.q, c.hasAttribute("scale") ? std::optional(c.real("scale", 1)) : std::nullopt);
  if (!scale) {
    return std::nullopt;
  }
  o.scale = *scale;
  o.mask = maskAddend(c, keys, c.element(0));
  auto addMask = [&](Value addend) { o.mask = o.mask ? c.add(o.mask, addend) : addend; };
  o.causal = c.integer("is_causal", 0) != 0;
  if (c.has(6)) {
    addMask(lengthAddend(c, queryDims[2], keys, o.causal));
    o.causal = false;
  }
  // `tn.attention` aligns its causal mask at the last query, ONNX after the past keys.
  if (o.causal && !tn::sameDim(addSizes(queryDims[2], past), keys)) {
    addMask(causalAddend(c, queryDims[2], keys, past, c.element(0)));
    o.causal = false;
  }
  return c.failed() ? std::nullopt : std::optional(o);
}

/// Attention as separate operations, for what `tn.attention` lacks: softcap, the scores as a result
/// and another type of softmax.
Value composed(NodeContext &c, const Operands &o, Type precision) {
  tn::Dims queryDims = tn::getDims(o.q.getType());
  Value k = repeatHeads(c, o.k, queryDims[1]);
  Value v = repeatHeads(c, o.v, queryDims[1]);
  Value scores = c.mul(c.make<tn::MatmulOp>(o.q, k, false, true), c.scalarLike(o.scale, o.q));
  int64_t mode = c.integer("qk_matmul_output_mode", 0);
  if (mode < 0 || mode > 3) {
    c.error(ErrorId::OnnxBadAttribute, "attribute 'qk_matmul_output_mode' is not 0 to 3");
  }
  Value raw = scores;
  if (double cap = c.real("softcap", 0); cap > 0) {
    Value limit = c.scalarLike(cap, scores);
    scores = c.mul(c.unary<tn::TanhOp>(c.div(scores, limit)), limit);
  }
  Value capped = scores;
  scores = o.mask ? c.add(scores, o.mask) : scores;
  if (o.causal) {
    AffineExpr keys = tn::getDims(o.k.getType())[2];
    AffineExpr past = subtractSizes(keys, queryDims[2]);
    scores =
        past ? c.add(scores, causalAddend(c, queryDims[2], keys, past, c.element(0))) : Value();
  }
  Value weights =
      c.cast(c.unary<tn::SoftmaxOp>(c.cast(scores, precision), int64_t{3}, false), c.element(0));
  c.setOutput(3, mode == 0 ? raw : mode == 1 ? capped : mode == 2 ? scores : weights);
  return c.make<tn::MatmulOp>(weights, v, false, false);
}

void attention(NodeContext &c) {
  std::optional<Operands> o = readOperands(c);
  if (!o) {
    return;
  }
  c.setOutput(1, o->k);
  c.setOutput(2, o->v);
  c.ignore("qk_matmul_output_mode"); // of output 3
  Type precision = c.elementNamed("softmax_precision", c.element(0));
  if (!isa_and_nonnull<FloatType>(precision)) {
    return c.error(ErrorId::OnnxBadAttribute, "attribute 'softmax_precision' is not a float type");
  }
  // `tn.attention` takes the softmax of 16-bit floats in f32.
  bool separate = precision != c.element(0) &&
                  (!precision.isF32() || c.element(0).getIntOrFloatBitWidth() > 32);
  bool inner[] = {false, false, false, false};
  Value y = c.real("softcap", 0) != 0 || c.wantsOutput(3) || separate
                ? composed(c, *o, precision)
                : c.make<tn::AttentionOp>(o->q, o->k, o->v, o->mask, /*start=*/Value(),
                                          llvm::APFloat(o->scale), o->causal, inner,
                                          /*maskedRowsAreNan=*/bool(o->mask));
  c.setOutput(0, c.rank(0) == 3 ? mergeHeads(c, y) : y);
}

/// The scores or probabilities after a body of the node that gives as many.
Value modified(NodeContext &c, StringRef name, Value x) {
  if (!x || !c.hasAttribute(name)) {
    return x;
  }
  std::optional<ImportedValues> results = importBody(c, name, {tensorOf(x)});
  if (!results || c.failed()) {
    return Value();
  }
  if (results->size() != 1 || (*results)[0].isContainer()) {
    c.error(ErrorId::OnnxBadAttribute, "attribute '" + name + "' does not give one tensor");
    return Value();
  }
  ImportedValue &result = (*results)[0];
  if (result.isPoisoned()) {
    c.setOutput(0, result);
    return Value();
  }
  return c.importer().materialize(result, c.location());
}

/// Attention with bodies between the products, in the type that softmax_precision names: by default
/// f32 or wider.
void flexAttention(NodeContext &c) {
  if (c.rank(0) != 4 || c.rank(1) != 4 || c.rank(2) != 4) {
    return c.error(ErrorId::OnnxBadNode, "its inputs do not have four dimensions");
  }
  Type usual = c.element(0).isF64() ? c.element(0) : Type(c.builder().getF32Type());
  Type precision = c.elementNamed("softmax_precision", usual);
  std::optional<double> scale = scoreScale(
      c, c.value(0), c.hasAttribute("scale") ? std::optional(c.real("scale", 1)) : std::nullopt);
  if (!scale || !isa_and_nonnull<FloatType>(precision)) {
    return;
  }
  AffineExpr heads = c.dims(0)[1];
  Value k = repeatHeads(c, c.value(1), heads), v = repeatHeads(c, c.value(2), heads);
  Value scores = c.make<tn::MatmulOp>(c.value(0), k, false, true);
  scores = c.cast(c.mul(scores, c.scalar(*scale, c.element(0))), precision);
  scores = modified(c, "score_mod", scores);
  Value probabilities = scores ? c.unary<tn::SoftmaxOp>(scores, int64_t{3}, false) : Value();
  probabilities = modified(c, "prob_mod", probabilities);
  if (probabilities) {
    Value y = c.make<tn::MatmulOp>(probabilities, c.cast(v, precision), false, false);
    c.setOutput(0, c.cast(y, c.element(2)));
  }
}

constexpr Attributes kAttention = {{"is_causal", kInt},        {"kv_num_heads", kInt},
                                   {"q_num_heads", kInt},      {"qk_matmul_output_mode", kInt},
                                   {"scale", kFloat},          {"softcap", kFloat},
                                   {"softmax_precision", kInt}};

constexpr Attributes kFlexAttention = {
    {"prob_mod", kGraph}, {"scale", kFloat}, {"score_mod", kGraph}, {"softmax_precision", kInt}};

constexpr OpRow kAttentionOpRows[] = {
    {"Attention", 23, 3, 6, 4, attention, kAttention},
    {"Attention", 24, 3, 7, 4, attention, kAttention},
    {"FlexAttention", 1, 3, 3, 1, flexAttention, kFlexAttention, "ai.onnx.preview"},
};

} // namespace

ArrayRef<OpRow> attentionRows() { return kAttentionOpRows; }

} // namespace tenon::onnx
