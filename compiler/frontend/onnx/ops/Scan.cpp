// Operators that carry a state along a sequence, and the writing of a sequence into a cache.
// Relies on the length of a scanned sequence being constant: its steps are unrolled.
#include "compiler/frontend/onnx/NodeContext.h"

#include "mlir/IR/TypeUtilities.h"

#include <cmath>

using namespace mlir;

namespace tenon::onnx {
namespace {

void tensorScatter(NodeContext &c) {
  std::string mode = c.choice("mode", {"linear", "circular"});
  int64_t rank = c.rank(0);
  int64_t axis = c.axis("axis", -2, rank);
  if (c.failed()) {
    return;
  }
  tn::Dims cache = c.dims(0), update = c.dims(1);
  if (axis == 0 || update.size() != cache.size() || (c.has(2) && c.rank(2) != 1)) {
    return c.error(ErrorId::OnnxBadNode, "its axis, update or write indices do not fit");
  }
  Type index = c.builder().getI64Type();
  Value places = c.alongAxis(c.positions(update[axis]), axis, rank);
  if (c.has(2)) {
    places = c.add(places, c.alongAxis(c.cast(c.value(2), index), 0, rank));
  }
  places = mode == "circular" ? c.make<tn::ModOp>(places, c.sizeValue(cache[axis], index), false)
                              : c.fromStart(places);
  c.setOutput(0, c.make<tn::ScatterElementsOp>(c.value(0), c.broadcast(places, update), c.value(1),
                                               axis, tn::ScatterKind::none));
}

/// x moved by `count` places along an axis, ones following: x is shorter than that or longer.
Value shifted(NodeContext &c, Value x, int64_t axis, int64_t count, bool reverse) {
  tn::Dims dims = c.dims(0), ones = dims;
  ones[axis] = c.constantSize(count);
  Value before = c.broadcast(c.scalarLike(1, x), ones);
  Value all = reverse ? c.concat({x, before}, axis) : c.concat({before, x}, axis);
  return c.sliceAxis(all, axis, c.constantSize(reverse ? count : 0), dims[axis]);
}

/// Running products in as many steps as the length has bits: after each, an element is the product
/// of twice as many before it.
void cumProd(NodeContext &c) {
  std::optional<SmallVector<int64_t>> given = c.requireIntegers(1, "axis");
  if (!given || given->size() != 1) {
    return;
  }
  int64_t axis = c.normalizeAxis((*given)[0], c.rank(0));
  if (c.failed()) {
    return;
  }
  bool reverse = c.integer("reverse", 0) != 0;
  int64_t longest = c.symbols().bounds(c.dims(0)[axis]).max;
  Value y = c.value(0);
  for (int64_t step = 1; step < longest && y; step *= 2) {
    y = c.mul(y, shifted(c, y, axis, step, reverse));
  }
  c.setOutput(0, c.integer("exclusive", 0) != 0 ? shifted(c, y, axis, 1, reverse) : y);
}

void causalConvWithState(NodeContext &c) {
  std::string activation = c.choice("activation", {"none", "silu", "swish"});
  RankedTensorType weight = c.type(1);
  tn::Dims dims = c.dims(0);
  if (dims.size() != 3 || weight.getRank() != 3) {
    return c.error(ErrorId::OnnxBadNode, "its input and weight do not have three dimensions");
  }
  if (!weight.hasStaticShape()) {
    return c.gap("the shape of its weight is not constant", "make the weight a constant");
  }
  int64_t channels = weight.getDimSize(0), before = weight.getDimSize(2) - 1;
  Value x = c.value(0);
  tn::Dims past = {dims[0], dims[1], c.constantSize(before)};
  if (before > 0) {
    Value state = c.has(3) ? c.value(3) : c.broadcast(c.scalarLike(0, x), past);
    x = c.concat({state, x}, 2);
  }
  Value y = c.make<tn::ConvOp>(x, c.value(1), c.value(2), ArrayRef<int64_t>{1},
                               ArrayRef<int64_t>{0, 0}, ArrayRef<int64_t>{1}, channels, false);
  c.setOutput(0, activation == "none" ? y : c.unary<tn::SiluOp>(y));
  if (c.wantsOutput(1)) {
    c.setOutput(1, c.sliceAxis(x, 2, dims[2], c.constantSize(before)));
  }
}

/// The operands of LinearAttention as f32, heads apart.
struct LinearAttention {
  int64_t length, heads, group, keySize, valueSize;
  bool decays, corrects;
  AffineExpr batch;
  Value query; ///< [batch, length, heads, group, key]
  Value key;   ///< [batch, length, heads, 1, key]
  Value value; ///< [batch, length, heads, 1, value]
  Value decay; ///< [batch, length, heads, key or 1, 1]
  Value beta;  ///< [batch, length, heads or 1, 1, 1]
};

constexpr int64_t kMaxSteps = 512;

bool readRule(NodeContext &c, LinearAttention &a) {
  std::string rule = c.text("update_rule", "gated_delta");
  a.decays = rule == "gated" || rule == "gated_delta";
  a.corrects = rule == "delta" || rule == "gated_delta";
  if ((!a.decays && !a.corrects && rule != "linear") || a.decays != c.has(4) ||
      a.corrects != c.has(5)) {
    c.error(ErrorId::OnnxBadNode, "attribute 'update_rule' does not fit the inputs");
  }
  return !c.failed();
}

std::optional<LinearAttention> readLinearAttention(NodeContext &c) {
  LinearAttention a;
  int64_t queryHeads = c.integer("q_num_heads", 0);
  a.heads = c.integer("kv_num_heads", 0);
  if (!readRule(c, a)) {
    return std::nullopt;
  }
  if (c.rank(0) != 3 || c.rank(1) != 3 || c.rank(2) != 3 || a.heads < 1 || queryHeads < 1 ||
      queryHeads % a.heads != 0) {
    c.error(ErrorId::OnnxBadNode, "its heads do not fit its inputs");
    return std::nullopt;
  }
  std::optional<int64_t> length = tn::constantDim(c.dims(0)[1]);
  std::optional<int64_t> width = tn::constantDim(c.dims(0)[2]);
  std::optional<int64_t> values = tn::constantDim(c.dims(2)[2]);
  if (!length || *length > kMaxSteps || !width || !values) {
    c.gap("its length is not constant or above 512", "declare the dimension with --shape");
    return std::nullopt;
  }
  a.length = *length;
  a.group = queryHeads / a.heads;
  a.keySize = *width / queryHeads;
  a.valueSize = *values / a.heads;
  a.batch = c.dims(0)[0];
  Type real = c.builder().getF32Type();
  auto apart = [&](unsigned input, ArrayRef<int64_t> sizes) {
    tn::Dims dims = {a.batch, c.constantSize(a.length)};
    for (int64_t size : sizes) {
      dims.push_back(c.constantSize(size));
    }
    return c.reshape(c.cast(c.value(input), real), dims);
  };
  a.query = apart(0, {a.heads, a.group, a.keySize});
  a.key = apart(1, {a.heads, 1, a.keySize});
  a.value = apart(2, {a.heads, 1, a.valueSize});
  if (a.decays) {
    bool isWhole = tn::constantDim(c.dims(4)[2]) == a.heads;
    a.decay = c.unary<tn::ExpOp>(apart(4, {a.heads, isWhole ? 1 : a.keySize, 1}));
  }
  if (a.corrects) {
    a.beta = apart(5, {tn::constantDim(c.dims(5)[2]) == 1 ? 1 : a.heads, 1, 1});
  }
  return c.failed() ? std::nullopt : std::optional(a);
}

/// One step's part of an operand, without the dim of steps.
Value stepOf(NodeContext &c, Value x, int64_t step) {
  if (!x) {
    return x;
  }
  tn::Dims dims = tn::getDims(x.getType());
  dims.erase(dims.begin() + 1);
  return c.reshape(c.sliceAxis(x, 1, c.constantSize(step), c.constantSize(1)), dims);
}

void linearAttention(NodeContext &c) {
  std::optional<LinearAttention> a = readLinearAttention(c);
  if (!a) {
    return;
  }
  c.ignore("chunk_size"); // how an implementation may cut the sequence
  double scale = c.real("scale", 0);
  scale = scale == 0 ? 1 / std::sqrt(static_cast<double>(a->keySize)) : scale;
  Type real = c.builder().getF32Type();
  tn::Dims dims = {a->batch, c.constantSize(a->heads), c.constantSize(a->keySize),
                   c.constantSize(a->valueSize)};
  Value state = c.has(3) ? c.cast(c.value(3), real) : c.broadcast(c.scalar(0, real), dims);
  SmallVector<Value> outputs;
  for (int64_t i = 0; i < a->length && !c.failed(); ++i) {
    Value key = stepOf(c, a->key, i), value = stepOf(c, a->value, i);
    if (a->decays) {
      state = c.mul(state, stepOf(c, a->decay, i));
    }
    if (a->corrects) {
      Value found = c.make<tn::MatmulOp>(key, state, false, false);
      value = c.mul(stepOf(c, a->beta, i), c.sub(value, found));
    }
    state = c.add(state, c.mul(c.transpose(key, {0, 1, 3, 2}), value));
    Value read = c.make<tn::MatmulOp>(stepOf(c, a->query, i), state, false, false);
    outputs.push_back(c.reshape(
        read, {a->batch, c.constantSize(1), c.constantSize(a->heads * a->group * a->valueSize)}));
  }
  if (outputs.empty()) {
    return c.gap("a sequence without steps is not supported", "declare a length above 0");
  }
  Value y = c.mul(c.concat(outputs, 1), c.scalar(scale, real));
  c.setOutput(0, c.cast(y, c.element(0)));
  c.setOutput(1, c.cast(state, c.has(3) ? c.element(3) : c.element(0)));
}

constexpr OpRow kScanOpRows[] = {
    {"CausalConvWithState", 27, 2, 4, 2, causalConvWithState, {{"activation", kString}}},
    {"CumProd", 26, 2, 2, 1, cumProd, {{"exclusive", kInt}, {"reverse", kInt}}},
    {"LinearAttention",
     27,
     3,
     6,
     2,
     linearAttention,
     {{"chunk_size", kInt},
      needs({"kv_num_heads", kInt}),
      needs({"q_num_heads", kInt}),
      {"scale", kFloat},
      {"update_rule", kString}}},
    {"TensorScatter", 24, 2, 3, 1, tensorScatter, {{"axis", kInt}, {"mode", kString}}},
};

} // namespace

ArrayRef<OpRow> scanRows() { return kScanOpRows; }

} // namespace tenon::onnx
