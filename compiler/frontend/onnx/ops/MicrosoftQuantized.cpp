// ONNX Runtime's quantized operators of the domain com.microsoft: computed on dequantized values
// and quantized again, as its own definitions say. Relies on weights of a few bits being unpacked
// once, when constants are folded.
#include "compiler/frontend/onnx/Windows.h"
#include "compiler/frontend/onnx/ops/PackedWeights.h"
#include "compiler/frontend/onnx/ops/Quantizing.h"

#include "mlir/IR/TypeUtilities.h"

using namespace mlir;

namespace tenon::onnx {
namespace {

/// Input `i` with its scale and zero point in the two inputs after it, as floats.
Value real(NodeContext &c, unsigned i) {
  int first = static_cast<int>(i);
  checkQuantization(c, {{first, first + 1, first + 2}});
  Value scale = c.value(i + 1);
  return emitDequantize(c, c.value(i), scale, zeroPoint(c, i + 2, scale, c.element(i)), 0);
}

/// Output 0 is y with the scale and zero point of inputs `i` and `i + 1`.
void setQuantized(NodeContext &c, Value y, unsigned i, Type element) {
  checkQuantization(c, {{-1, static_cast<int>(i), static_cast<int>(i) + 1}});
  Value scale = c.value(i);
  c.setOutput(0, emitQuantize(c, y, scale, zeroPoint(c, i + 1, scale, element), 0, element));
}

template <typename Op> void binary(NodeContext &c) {
  setQuantized(c, c.make<Op>(real(c, 0), real(c, 3)), 6, c.element(0));
}

void sigmoid(NodeContext &c) {
  setQuantized(c, c.unary<tn::SigmoidOp>(real(c, 0)), 3, c.element(0));
}

void leakyRelu(NodeContext &c) {
  llvm::APFloat alpha(c.real("alpha", 0.01f));
  setQuantized(c, c.unary<tn::LeakyReluOp>(real(c, 0), alpha), 3, c.element(0));
}

void where(NodeContext &c) {
  setQuantized(c, c.select(c.value(0), real(c, 1), real(c, 4)), 7, c.element(1));
}

bool isChannelsLast(NodeContext &c) {
  if (c.integer("channels_last", 0) == 0) {
    return false;
  }
  c.gap("channels_last is not supported", "export channels first");
  return true;
}

void averagePool(NodeContext &c) {
  std::optional<Windows> w = isChannelsLast(c) ? std::nullopt : readWindows(c, {});
  if (w) {
    Value y = c.make<tn::AvgPoolOp>(real(c, 0), w->kernel, w->strides, w->pads, w->dilations,
                                    c.integer("ceil_mode", 0) != 0,
                                    c.integer("count_include_pad", 0) != 0, false);
    setQuantized(c, y, 3, c.element(0));
  }
}

void globalAveragePool(NodeContext &c) {
  if (isChannelsLast(c)) {
    return;
  }
  SmallVector<int64_t> axes =
      llvm::to_vector(llvm::seq<int64_t>(2, std::max<int64_t>(2, c.rank(0))));
  setQuantized(c, c.reduce(tn::ReduceKind::mean, real(c, 0), axes, true), 3, c.element(0));
}

void softmax(NodeContext &c) {
  int64_t axis = c.axis("axis", -1, c.rank(0));
  if (c.integer("opset", 0) < 13 && axis != c.rank(0) - 1) {
    return c.gap("softmax over several dimensions is not supported", "use the last axis");
  }
  setQuantized(c, c.unary<tn::SoftmaxOp>(real(c, 0), axis, false), 3, c.element(0));
}

void concat(NodeContext &c) {
  if (c.numInputs() % 3 != 2) {
    return c.error(ErrorId::OnnxBadArity, "an input lacks its scale or zero point");
  }
  int64_t axis = c.axis("axis", 0, c.rank(2));
  SmallVector<Value> parts;
  for (unsigned i = 2; i < c.numInputs(); i += 3) {
    parts.push_back(real(c, i));
  }
  setQuantized(c, c.failed() ? Value() : c.concat(parts, axis), 0, c.element(1));
}

//===--- Products with weights of a few bits ---===//

/// What the attributes of MatMulNBits say.
struct Packing {
  int64_t n = 0;
  int64_t k = 0;
  int64_t bits = 0;
  int64_t block = 0;
  int64_t blocks = 0;
};

std::optional<Packing> readPacking(NodeContext &c) {
  Packing p{c.integer("N", 0), c.integer("K", 0), c.integer("bits", 4), c.integer("block_size", 0)};
  c.ignore("accuracy_level"); // how exact the products of a kernel must be at least
  if ((p.bits != 2 && p.bits != 4 && p.bits != 8) || c.integer("weight_prepacked", 0) != 0) {
    c.gap("weights of " + Twine(p.bits) + " bits, or packed for a kernel, are not supported",
          "quantize to 2, 4 or 8 bits");
    return std::nullopt;
  }
  constexpr int64_t kMax = int64_t{1} << 31;
  bool sound = p.n > 0 && p.n < kMax && p.k > 0 && p.k < kMax && p.block >= 2 && p.block < kMax &&
               p.block % 2 == 0;
  p.blocks = sound ? (p.k + p.block - 1) / p.block : 0;
  sound = sound && c.type(1).hasStaticShape() && c.type(2).hasStaticShape() &&
          c.type(1).getNumElements() == p.n * p.blocks * (p.block * p.bits / 8) &&
          c.type(2).getNumElements() == p.n * p.blocks;
  if (!sound || !c.element(1).isUnsignedInteger(8)) {
    c.error(
        ErrorId::OnnxBadNode,
        "its weights or scales do not have the sizes that follow from N, K, bits and block_size");
    return std::nullopt;
  }
  return p;
}

/// The zero points as [N * blocks] in ui8, or floats; they are packed as the weights if they are
/// integers.
Value zeroPoints(NodeContext &c, const Packing &p) {
  AffineExpr n = c.constantSize(p.n), blocks = c.constantSize(p.blocks), one = c.constantSize(1);
  tn::Dims each = {c.constantSize(p.n * p.blocks)};
  if (!c.has(3)) {
    return c.broadcast(c.scalar(static_cast<double>(int64_t{1} << (p.bits - 1)),
                                c.builder().getIntegerType(8, false)),
                       each);
  }
  bool isFloat = isa<FloatType>(c.element(3));
  int64_t bytes = isFloat ? p.blocks : (p.blocks * p.bits + 7) / 8;
  if (!c.type(3).hasStaticShape() || c.type(3).getNumElements() != p.n * bytes) {
    c.error(ErrorId::OnnxBadNode,
            "its zero points do not have the size that follows from N, K and bits");
    return Value();
  }
  if (isFloat) {
    return c.reshape(c.value(3), each);
  }
  Value packed = c.reshape(c.value(3), {n, one, c.constantSize(bytes)});
  return c.reshape(c.sliceAxis(unpackBits(c, packed, p.bits), 2, c.constantSize(0), blocks), each);
}

/// The weights as [N, K] in f32 where input 4 names the block that each column has its scale of.
Value dequantizedByGroups(NodeContext &c, const Packing &p, Value numbers) {
  Type real = c.builder().getF32Type();
  AffineExpr n = c.constantSize(p.n), k = c.constantSize(p.k), none = c.constantSize(0);
  Value zero = zeroPoints(c, p);
  if (!zero || !numbers || c.rank(4) != 1) {
    c.error(ErrorId::OnnxBadNode, "it does not have one group per row of the weights");
    return Value();
  }
  Value groups = c.sliceAxis(c.fromStart(c.value(4)), 0, none, k);
  auto column = [&](Value x) {
    x = c.reshape(c.cast(x, real), {n, c.constantSize(p.blocks)});
    return c.make<tn::GatherOp>(x, groups, int64_t{1});
  };
  numbers = c.reshape(numbers, {n, c.constantSize(p.blocks * p.block)});
  Value level = c.sub(c.cast(c.sliceAxis(numbers, 1, none, k), real), column(zero));
  return c.mul(level, column(c.value(2)));
}

/// The weights as [N * blocks, block] in f32.
Value dequantized(NodeContext &c, const Packing &p, Value numbers) {
  Type real = c.builder().getF32Type();
  AffineExpr rows = c.constantSize(p.n * p.blocks);
  Value zero = zeroPoints(c, p), scale = c.cast(c.reshape(c.value(2), {rows}), real);
  if (!zero || !numbers) {
    return Value();
  }
  if (!isa<FloatType>(getElementTypeOrSelf(zero))) {
    return emitDequantize(c, numbers, scale, zero, /*axis=*/0);
  }
  // The nearest integer is a zero point like others; the rest is taken off scaled.
  zero = c.cast(zero, real);
  Value level =
      c.unary<tn::ClampOp>(c.unary<tn::RoundOp>(zero), llvm::APFloat(0.0), llvm::APFloat(255.0));
  Value whole = c.cast(level, getElementTypeOrSelf(numbers));
  Value rest = c.mul(c.sub(zero, c.cast(whole, real)), scale);
  Value y = emitDequantize(c, numbers, scale, whole, /*axis=*/0);
  return c.sub(y, c.reshape(rest, {rows, c.constantSize(1)}));
}

void matMulNBits(NodeContext &c) {
  std::optional<Packing> p = readPacking(c);
  checkScales(c, 2, /*divides=*/false);
  if (!p || c.failed()) {
    return;
  }
  AffineExpr n = c.constantSize(p->n), blocks = c.constantSize(p->blocks);
  Value bytes = c.reshape(c.value(1), {n, blocks, c.constantSize(p->block * p->bits / 8)});
  Value numbers = c.reshape(unpackBits(c, bytes, p->bits),
                            {c.constantSize(p->n * p->blocks), c.constantSize(p->block)});
  Value weight =
      c.has(4) ? dequantizedByGroups(c, *p, numbers)
               : c.reshape(dequantized(c, *p, numbers), {n, c.constantSize(p->blocks * p->block)});
  weight = c.cast(c.sliceAxis(weight, 1, c.constantSize(0), c.constantSize(p->k)), c.element(0));
  Value y = c.make<tn::MatmulOp>(c.value(0), weight, false, true);
  c.setOutput(0, c.has(5) ? c.add(y, c.value(5)) : y);
}

constexpr Attributes kAveragePool = {{"auto_pad", kString},
                                     {"ceil_mode", kInt},
                                     {"channels_last", kInt},
                                     {"count_include_pad", kInt},
                                     needs({"kernel_shape", kInts}),
                                     {"pads", kInts},
                                     {"strides", kInts}};
constexpr Attributes kNBits = {{"accuracy_level", kInt},    {"bits", kInt},
                               needs({"block_size", kInt}), needs({"K", kInt}),
                               needs({"N", kInt}),          {"weight_prepacked", kInt}};
constexpr Attributes kSoftmax = {{"axis", kInt}, needs({"opset", kInt})};

constexpr OpRow kMicrosoftQuantizedOpRows[] = {
    {"MatMulNBits", 1, 3, 6, 1, matMulNBits, kNBits, kMicrosoft},
    {"QLinearAdd", 1, 7, 8, 1, binary<tn::AddOp>, {}, kMicrosoft, 1 << 2 | 1 << 5},
    {"QLinearAveragePool", 1, 4, 5, 1, averagePool, kAveragePool, kMicrosoft, 1 << 2},
    {"QLinearConcat", 1, 3, kMany, 1, concat, {needs({"axis", kInt})}, kMicrosoft},
    {"QLinearGlobalAveragePool",
     1,
     5,
     5,
     1,
     globalAveragePool,
     {{"channels_last", kInt}},
     kMicrosoft},
    {"QLinearLeakyRelu", 1, 4, 5, 1, leakyRelu, {{"alpha", kFloat}}, kMicrosoft, 1 << 2},
    {"QLinearMul", 1, 7, 8, 1, binary<tn::MulOp>, {}, kMicrosoft, 1 << 2 | 1 << 5},
    {"QLinearSigmoid", 1, 4, 5, 1, sigmoid, {}, kMicrosoft, 1 << 2},
    {"QLinearSoftmax", 1, 5, 5, 1, softmax, kSoftmax, kMicrosoft, 1 << 2},
    {"QLinearWhere", 1, 9, 9, 1, where, {}, kMicrosoft},
};

} // namespace

ArrayRef<OpRow> microsoftQuantizedRows() { return kMicrosoftQuantizedOpRows; }

} // namespace tenon::onnx
