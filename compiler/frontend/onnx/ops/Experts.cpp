// Mixtures of experts of the domain com.microsoft: MoE, and QMoE with weights of a few bits. Every
// expert computes every row, and those that a row does not choose count nothing: which rows an
// expert has is known when a run has begun. Relies on ONNX Runtime's routing.
#include "compiler/frontend/onnx/ops/PackedWeights.h"
#include "compiler/frontend/onnx/ops/Quantizing.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;

namespace tenon::onnx {
namespace {

/// A product of every expert: weights [experts, outputs, inputs] and biases [experts, outputs].
struct Layer {
  Value weight;
  Value bias;
};

/// x [1 or experts, rows, inputs] through a layer: [experts, rows, outputs].
Value through(NodeContext &c, Value x, const Layer &layer) {
  Value y = c.make<tn::MatmulOp>(x, layer.weight, false, true);
  if (!layer.bias || !y) {
    return y;
  }
  tn::Dims dims = tn::getDims(layer.bias.getType());
  return c.add(y, c.reshape(layer.bias, {dims[0], c.constantSize(1), dims[1]}));
}

/// How much each expert counts in each row, [rows, experts]; 0 for those that it does not choose.
/// `normalizes`: whether the shares of what it chooses are 1 in all.
Value shares(NodeContext &c, Value logits, Value weights, int64_t chosen, bool normalizes) {
  Type real = c.builder().getF32Type();
  logits = c.cast(logits, real);
  tn::TopKOp top = c.topK(logits, 1, c.constantSize(chosen), true);
  if (!top) {
    return Value();
  }
  Value values = top.getValues(), places = top.getIndices();
  if (weights) {
    values = c.make<tn::GatherElementsOp>(c.cast(weights, real), places, int64_t{1});
    Value sum = c.reduce(tn::ReduceKind::sum, values, {1}, true);
    values = normalizes ? c.div(values, sum) : values;
  } else if (normalizes) {
    values = c.unary<tn::SoftmaxOp>(values, int64_t{1}, false);
  } else {
    Value all = c.unary<tn::SoftmaxOp>(logits, int64_t{1}, false);
    values = c.make<tn::GatherElementsOp>(all, places, int64_t{1});
  }
  Value none = c.broadcast(c.scalar(0, real), tn::getDims(logits.getType()));
  return c.make<tn::ScatterElementsOp>(none, places, values, int64_t{1}, tn::ScatterKind::none);
}

/// Half of the last dim: every second element, or one half after the other.
Value halfOf(NodeContext &c, Value x, bool isInterleaved, int64_t part) {
  tn::Dims dims = tn::getDims(x.getType());
  AffineExpr two = c.constantSize(2);
  AffineExpr half = divideProducts(c.symbols(), {dims.back()}, {two});
  if (!half) {
    c.error(ErrorId::OnnxBadNode, "the width of its first matmul is odd");
    return Value();
  }
  if (!isInterleaved) {
    return c.sliceAxis(x, 2, multiplySizes(half, c.constantSize(part)), half);
  }
  Value apart = c.reshape(x, {dims[0], dims[1], half, two});
  return c.reshape(c.sliceAxis(apart, 3, c.constantSize(part), c.constantSize(1)),
                   {dims[0], dims[1], half});
}

/// G sigmoid(alpha G) (L + beta), both clamped where there is a limit.
Value swiglu(NodeContext &c, Value gate, Value linear) {
  Type real = gate ? getElementTypeOrSelf(gate) : Type();
  if (!gate || !linear) {
    return Value();
  }
  if (c.hasAttribute("swiglu_limit")) {
    double limit = c.real("swiglu_limit", 0);
    gate = c.min(gate, c.scalar(limit, real));
    linear = c.max(c.min(linear, c.scalar(limit, real)), c.scalar(-limit, real));
  }
  Value open = c.unary<tn::SigmoidOp>(c.mul(gate, c.scalar(c.real("activation_alpha", 1), real)));
  Value shifted = c.add(linear, c.scalar(c.real("activation_beta", 0), real));
  return c.mul(c.mul(gate, open), shifted);
}

Value activatedRows(NodeContext &c, StringRef name, Value x) {
  if (name == "relu") {
    return c.unary<tn::ReluOp>(x);
  }
  if (name == "gelu") {
    return c.unary<tn::GeluOp>(x, true);
  }
  return name == "silu" ? c.mul(x, c.unary<tn::SigmoidOp>(x)) : x;
}

/// What decides between the experts beside input 1.
struct Routing {
  Value weights; ///< of the chosen ones; null for the probabilities of input 1
  bool normalizes = false;
};

void mix(NodeContext &c, const Layer &first, const Layer &second, const Layer &third,
         const Routing &routing) {
  std::string name = c.choice("activation_type", {"relu", "gelu", "silu", "swiglu", "identity"});
  int64_t fusion = c.integer("swiglu_fusion", 0), chosen = c.integer("k", 1);
  for (StringRef unused : {"activation_alpha", "activation_beta", "swiglu_limit"}) {
    c.ignore(unused); // of swiglu
  }
  if (c.integer("use_sparse_mixer", 0) != 0) {
    return c.gap("the sparse mixer is not supported", "export without use_sparse_mixer");
  }
  tn::Dims dims = c.dims(0);
  AffineExpr rows = c.dims(1)[0], width = dims.back(), one = c.constantSize(1);
  Type real = c.builder().getF32Type();
  Value x = c.reshape(c.cast(c.value(0), real), {one, rows, width});
  Value y = through(c, x, first);
  if (name == "swiglu") {
    Value linear = fusion == 0 ? through(c, x, third) : y ? halfOf(c, y, fusion == 1, 1) : Value();
    y = swiglu(c, fusion == 0 || !y ? y : halfOf(c, y, fusion == 1, 0), linear);
  } else {
    y = activatedRows(c, name, y);
    y = third.weight ? c.mul(y, through(c, x, third)) : y;
  }
  y = through(c, y, second);
  Value share = shares(c, c.value(1), routing.weights, chosen, routing.normalizes);
  if (!y || !share) {
    return;
  }
  tn::Dims sizes = tn::getDims(y.getType());
  share = c.reshape(c.transpose(share, {1, 0}), {sizes[0], rows, one});
  // What a row does not choose counts nothing, even if it is no number.
  Value isChosen = c.compare(share, tn::Predicate::ne, c.scalar(0, real));
  y = c.select(isChosen, c.mul(y, share), c.scalar(0, real));
  y = c.reduce(tn::ReduceKind::sum, y, {0}, false);
  c.setOutput(0, c.cast(c.reshape(y, dims), c.element(0)));
}

/// True if the router has a row for each row of the input; else an error.
bool fitsRouter(NodeContext &c) {
  if (c.rank(0) < 2 || c.rank(0) > 3 || c.rank(1) != 2) {
    c.error(ErrorId::OnnxBadNode, "its input has neither two nor three dimensions, or its router "
                                  "not two");
  }
  return !c.failed();
}

Value asReal(NodeContext &c, unsigned i) {
  return c.has(i) ? c.cast(c.value(i), c.builder().getF32Type()) : Value();
}

void experts(NodeContext &c) {
  if (fitsRouter(c)) {
    auto layer = [&](unsigned i) { return Layer{asReal(c, i), asReal(c, i + 1)}; };
    mix(c, layer(2), layer(4), layer(6), {Value(), c.integer("normalize_routing_weights", 0) != 0});
  }
}

//===--- QMoE ---===//

/// Weights [experts, outputs, inputs] of `bits` bits, of inputs `i`, `i + 1` (scales) and `zero`.
Value unpackedExperts(NodeContext &c, unsigned i, unsigned zero, int64_t bits) {
  if (!c.has(i)) {
    return Value();
  }
  int64_t block = c.integer("block_size", 0);
  if (!c.has(i + 1) || c.rank(i) != 3 || !c.element(i).isUnsignedInteger(8) ||
      c.rank(i + 1) != (block > 0 ? 3 : 2)) {
    c.error(ErrorId::OnnxBadNode, "its weights and scales do not fit each other");
    return Value();
  }
  Value numbers = unpackBits(c, c.value(i), bits);
  if (!numbers) {
    return Value();
  }
  tn::Dims dims = tn::getDims(numbers.getType()), scales = c.dims(i + 1);
  std::optional<int64_t> width = tn::constantDim(dims[2]);
  if (!width || (block > 0 && *width % block != 0)) {
    c.error(ErrorId::OnnxBadNode, "the block size does not divide the width of its weights");
    return Value();
  }
  AffineExpr groups = tn::elementCount(c.builder().getContext(), scales);
  Value scale = c.reshape(asReal(c, i + 1), {groups}), level;
  if (c.has(zero)) {
    level = unpackBits(c, c.value(zero), bits);
    int64_t last = c.rank(zero) - 1;
    level = level ? c.sliceAxis(level, last, c.constantSize(0), scales.back()) : level;
    level = c.reshape(level, {groups});
  } else {
    level = c.broadcast(c.scalar(static_cast<double>(int64_t{1} << (bits - 1)), c.element(i)),
                        {groups});
  }
  Value rows = c.reshape(numbers, {groups, c.constantSize(block > 0 ? block : *width)});
  return c.reshape(emitDequantize(c, rows, scale, level, /*axis=*/0), dims);
}

void quantizedExperts(NodeContext &c) {
  c.ignore("accuracy_level"); // how exact the products of a kernel must be at least
  int64_t bits = c.integer("expert_weight_bits", 4);
  int64_t widths[] = {c.integer("fc1_expert_weight_bits", bits),
                      c.integer("fc2_expert_weight_bits", bits),
                      c.integer("fc3_expert_weight_bits", bits)};
  bool isKnown = c.text("quant_type", "int") == "int" && c.integer("weights_prepacked", -1) <= 0;
  for (int64_t width : widths) {
    isKnown &= width == 2 || width == 4 || width == 8;
  }
  if (!isKnown) {
    return c.gap("weights of floats, or packed for a kernel, are not supported",
                 "quantize to integers of 2, 4 or 8 bits");
  }
  if (!fitsRouter(c)) {
    return;
  }
  Layer layers[3];
  for (unsigned i = 0; i < 3; ++i) {
    layers[i] = {unpackedExperts(c, 2 + 3 * i, 11 + i, widths[i]), asReal(c, 4 + 3 * i)};
  }
  // Probabilities are those of the chosen experts in any case, as ONNX Runtime has them on CPUs.
  bool normalizes = c.integer("normalize_routing_weights", 0) != 0;
  mix(c, layers[0], layers[1], layers[2], {c.value(14), normalizes || !c.has(14)});
}

constexpr Attributes kExpertAttributes = {{"activation_alpha", kFloat},
                                          {"activation_beta", kFloat},
                                          {"activation_type", kString},
                                          {"k", kInt},
                                          {"normalize_routing_weights", kInt},
                                          {"swiglu_fusion", kInt},
                                          {"swiglu_limit", kFloat},
                                          {"use_sparse_mixer", kInt}};
constexpr Attributes kQuantizedExperts = {{"accuracy_level", kInt},
                                          {"activation_alpha", kFloat},
                                          {"activation_beta", kFloat},
                                          {"activation_type", kString},
                                          {"block_size", kInt},
                                          {"expert_weight_bits", kInt},
                                          {"fc1_expert_weight_bits", kInt},
                                          {"fc2_expert_weight_bits", kInt},
                                          {"fc3_expert_weight_bits", kInt},
                                          {"k", kInt},
                                          {"normalize_routing_weights", kInt},
                                          {"quant_type", kString},
                                          {"swiglu_fusion", kInt},
                                          {"swiglu_limit", kFloat},
                                          {"use_sparse_mixer", kInt},
                                          {"weights_prepacked", kInt}};
constexpr uint16_t kOptionalScales = 1 << 3 | 1 << 4;

constexpr OpRow kExpertOpRows[] = {
    {"MoE", 1, 5, 8, 1, experts, kExpertAttributes, kMicrosoft, 1 << 3},
    {"QMoE", 1, 6, 21, 1, quantizedExperts, kQuantizedExperts, kMicrosoft, kOptionalScales},
};

} // namespace

ArrayRef<OpRow> expertRows() { return kExpertOpRows; }

} // namespace tenon::onnx
