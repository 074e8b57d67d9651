// Attention: `tn.attention` with the mask that the node's inputs and flags describe.
// Relies on grouped heads being repeated by `tn.attention`.
#include "compiler/frontend/onnx/NodeContext.h"

#include <cmath>

using namespace mlir;

namespace tenon::onnx {
namespace {

/// [B, S, H * D] as [B, H, S, D]; rank 4 stays.
Value splitHeads(NodeContext &c, unsigned i, StringRef attribute) {
  if (c.rank(i) == 4) {
    return c.value(i);
  }
  int64_t heads = c.integer(attribute, 0);
  tn::Dims d = c.dims(i);
  if (c.rank(i) != 3 || heads <= 0) {
    c.error(ErrorId::OnnxBadNode,
            "an input has neither three nor four dimensions, or its number of heads is not given");
    return Value();
  }
  AffineExpr h = c.constantSize(heads);
  AffineExpr width = divideProducts(c.symbols(), {d[2]}, {h});
  return width ? c.transpose(c.reshape(c.value(i), {d[0], d[1], h, width}), {0, 2, 1, 3}) : Value();
}

Value positions(NodeContext &c, AffineExpr count) {
  Type index = c.builder().getI64Type();
  return c.makeTyped<tn::IotaOp>(tn::makeTensor({count}, index), c.scalar(0, index),
                                 c.scalar(1, index));
}

/// 0 where a key may be seen, minus infinity elsewhere.
Value additive(NodeContext &c, Value allowed, Type element) {
  return c.select(allowed, c.scalar(0, element),
                  c.scalar(-std::numeric_limits<double>::infinity(), element));
}

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

/// Query i sees keys up to i + offset.
Value causalAddend(NodeContext &c, AffineExpr queries, AffineExpr keys, AffineExpr offset,
                   Type element) {
  Value rows = c.add(c.alongAxis(positions(c, queries), 0, 2),
                     c.materialize(Sizes::scalar(offset), c.builder().getI64Type()));
  Value columns = c.alongAxis(positions(c, keys), 1, 2);
  return additive(c, c.compare(columns, tn::Predicate::le, rows), element);
}

void attention(NodeContext &c) {
  if (c.real("softcap", 0) != 0 || c.wantsOutput(3) || c.has(6)) {
    return c.gap(
        "softcap, the matrix of scores as a result and padded key lengths are not supported",
        "export attention as separate operators");
  }
  Value q = splitHeads(c, 0, "q_num_heads");
  Value k = splitHeads(c, 1, "kv_num_heads");
  Value v = splitHeads(c, 2, "kv_num_heads");
  if (!q || !k || !v) {
    return;
  }
  AffineExpr past = c.constantSize(0);
  if (c.has(4) && c.has(5)) {
    past = c.dims(4)[2];
    k = c.concat({c.value(4), k}, 2);
    v = c.concat({c.value(5), v}, 2);
  }
  if (!k || !v) {
    return;
  }
  c.setOutput(1, k);
  c.setOutput(2, v);
  tn::Dims queryDims = tn::getDims(q.getType());
  AffineExpr keys = tn::getDims(k.getType())[2];
  std::optional<int64_t> width = tn::constantDim(queryDims[3]);
  if (!width && !c.hasAttribute("scale")) {
    return c.gap("the width of a head is not a constant", "declare it with --shape");
  }
  double scale = c.real("scale", width ? 1 / std::sqrt(static_cast<double>(*width)) : 1);
  bool causal = c.integer("is_causal", 0) != 0;
  bool square = causal && tn::sameDim(queryDims[2], keys);
  Value mask = maskAddend(c, keys, c.element(0));
  if (causal && !square) {
    Value addend = causalAddend(c, queryDims[2], keys, past, c.element(0));
    mask = mask ? c.add(mask, addend) : addend;
  }
  bool inner[] = {false, false, false, false};
  Value y = c.make<tn::AttentionOp>(q, k, v, mask, llvm::APFloat(scale), square, inner);
  if (y && c.rank(0) == 3) {
    tn::Dims d = tn::getDims(y.getType());
    AffineExpr merged = multiplySizes(d[1], d[3]);
    y = merged ? c.reshape(c.transpose(y, {0, 2, 1, 3}), {d[0], d[2], merged}) : Value();
  }
  c.setOutput(0, y);
}

constexpr OpRow kRows[] = {
    {"Attention", 23, 3, 7, 4, attention},
};

} // namespace

ArrayRef<OpRow> attentionRows() { return kRows; }

} // namespace tenon::onnx
