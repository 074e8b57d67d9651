// ONNX Runtime's Attention and QAttention of the domain com.microsoft: one product with the weights
// of queries, keys and values, then attention. Relies on past keys and values coming in one tensor.
#include "compiler/frontend/onnx/ops/MicrosoftAttention.h"
#include "compiler/frontend/onnx/ops/Quantizing.h"

using namespace mlir;

namespace tenon::onnx {
namespace {

/// The inputs behind the product, whose numbers differ between the two operators.
struct Rest {
  unsigned mask, past, addend;
};

bool packsUnsupported(NodeContext &c) {
  c.ignore("rotary_embedding_dim"); // of a rotation that is a gap
  if (c.rank(0) != 3 || c.rank(1) != 2) {
    c.error(ErrorId::OnnxBadNode, "its input does not have three dimensions, or its weights two");
  } else if (c.integer("do_rotary", 0) != 0 || c.integer("past_present_share_buffer", 0) != 0) {
    c.gap("rotation and a cache that is input and output at once are not supported",
          "export without do_rotary and past_present_share_buffer");
  }
  return c.failed();
}

/// The widths of queries, keys and values in the product.
SmallVector<AffineExpr> readWidths(NodeContext &c) {
  SmallVector<AffineExpr> widths;
  for (int64_t width : c.integerList("qkv_hidden_sizes")) {
    widths.push_back(c.constantSize(width));
  }
  if (widths.empty()) {
    AffineExpr third = divideProducts(c.symbols(), {c.dims(1)[1]}, {c.constantSize(3)});
    widths.assign(3, third);
  }
  if (widths.size() != 3 || !widths[0]) {
    c.error(ErrorId::OnnxBadNode, "its weights are not those of queries, keys and values");
  }
  return widths;
}

/// Keys (0) or values (1) of the past [2, B, H, P, D], then the new ones.
Value withPast(NodeContext &c, unsigned past, int64_t part, Value fresh) {
  if (!c.has(past) || !fresh || c.failed()) {
    return fresh;
  }
  tn::Dims dims = c.dims(past);
  if (dims.size() != 5) {
    c.error(ErrorId::OnnxBadNode, "its past does not have five dimensions");
    return Value();
  }
  Value own = c.sliceAxis(c.value(past), 0, c.constantSize(part), c.constantSize(1));
  dims.erase(dims.begin());
  return c.concat({c.reshape(own, dims), fresh}, 2);
}

/// Keys and values as one tensor.
Value stacked(NodeContext &c, Value k, Value v) {
  SmallVector<Value> parts;
  for (Value part : {k, v}) {
    tn::Dims dims = part ? tn::getDims(part.getType()) : tn::Dims();
    dims.insert(dims.begin(), c.constantSize(1));
    parts.push_back(c.reshape(part, dims));
  }
  return c.failed() ? Value() : c.concat(parts, 0);
}

void attend(NodeContext &c, Value product, const Rest &rest) {
  SmallVector<AffineExpr> widths = readWidths(c);
  int64_t heads = c.integer("num_heads", 0);
  AffineExpr start = c.constantSize(0);
  Value parts[3];
  for (unsigned i = 0; i < 3 && !c.failed(); ++i) {
    parts[i] = splitHeads(c, c.sliceAxis(product, 2, start, widths[i]), heads);
    start = addSizes(start, widths[i]);
  }
  Value k = withPast(c, rest.past, 0, parts[1]);
  Value v = withPast(c, rest.past, 1, parts[2]);
  if (!k || !v || c.failed()) {
    return;
  }
  if (c.wantsOutput(1)) {
    c.setOutput(1, stacked(c, k, v));
  }
  Value mask = paddingAddend(c, rest.mask, c.dims(0)[0], tn::getDims(k.getType())[2],
                             getElementTypeOrSelf(product));
  mask = sumOf(c, mask, c.value(rest.addend));
  setAttention(c, parts[0], k, v, mask, c.integer("unidirectional", 0) != 0, bool(mask));
}

void attention(NodeContext &c) {
  if (!packsUnsupported(c)) {
    Value product = c.make<tn::MatmulOp>(c.value(0), c.value(1), false, false);
    attend(c, c.has(2) ? c.add(product, c.value(2)) : product, {3, 4, 5});
  }
}

void qAttention(NodeContext &c) {
  constexpr unsigned kNone = 9;
  if (!packsUnsupported(c)) {
    checkQuantization(c, {{0, 3, 6}, {1, 4, 7}});
    Value x = centered(c, c.value(0), c.value(6), 1);
    Value weights = centered(c, c.value(1), c.value(7), 1);
    Value product = scaledProduct(c, x, weights, c.value(3), c.value(4));
    attend(c, c.add(product, c.value(2)), {5, 8, kNone});
  }
}

constexpr Attributes kAttention = {{"do_rotary", kInt},         {"mask_filter_value", kFloat},
                                   needs({"num_heads", kInt}),  {"past_present_share_buffer", kInt},
                                   {"qkv_hidden_sizes", kInts}, {"rotary_embedding_dim", kInt},
                                   {"scale", kFloat},           {"unidirectional", kInt}};
constexpr Attributes kQuantized = {{"do_rotary", kInt},        {"mask_filter_value", kFloat},
                                   needs({"num_heads", kInt}), {"past_present_share_buffer", kInt},
                                   {"scale", kFloat},          {"unidirectional", kInt}};

constexpr OpRow kPackedAttentionOpRows[] = {
    {"Attention", 1, 2, 7, 2, attention, kAttention, kMicrosoft},
    {"QAttention", 1, 5, 9, 2, qAttention, kQuantized, kMicrosoft},
};

} // namespace

ArrayRef<OpRow> packedAttentionRows() { return kPackedAttentionOpRows; }

} // namespace tenon::onnx
