// Random operators: uniform numbers by a hash, and what is made of them.
// Relies on ui32 arithmetic wrapping.
#include "compiler/frontend/onnx/Random.h"

#include "llvm/Support/xxhash.h"

#include <bit>
#include <cmath>

using namespace mlir;

namespace tenon::onnx {
namespace {

/// Two numbers that differ from node to node, and with the seed.
std::pair<uint32_t, uint32_t> seedsOf(NodeContext &c, uint32_t stream) {
  std::string text = c.node.outputs.empty() ? "" : std::string(c.node.outputs[0]);
  // Dropout's seed is an integer, that of the others a float.
  if (const Attribute *seed = c.find("seed")) {
    text = std::to_string(seed->i) + "," + std::to_string(std::bit_cast<uint32_t>(seed->f));
  }
  text += "." + std::to_string(stream);
  // Iterations of a loop draw anew.
  if (uint64_t unrolled = c.importer().unrolledNodes) {
    text += "." + std::to_string(unrolled);
  }
  uint64_t hash = llvm::xxh3_64bits(text);
  return {static_cast<uint32_t>(hash), static_cast<uint32_t>(hash >> 32)};
}

Value shiftRight(NodeContext &c, Value x, double bits) {
  return c.make<tn::ShiftOp>(x, c.scalarLike(bits, x), false);
}

/// The mixing of MurmurHash3, which lets each bit depend on all.
Value mix(NodeContext &c, Value x) {
  x = c.make<tn::XorOp>(x, shiftRight(c, x, 16));
  x = c.mul(x, c.scalarLike(0x85EBCA6B, x));
  x = c.make<tn::XorOp>(x, shiftRight(c, x, 13));
  x = c.mul(x, c.scalarLike(0xC2B2AE35, x));
  return c.make<tn::XorOp>(x, shiftRight(c, x, 16));
}

} // namespace

Value uniformNumbers(NodeContext &c, ArrayRef<AffineExpr> dims, uint32_t stream) {
  AffineExpr count = tn::elementCount(c.builder().getContext(), dims);
  if (!count) {
    c.gap("the number of its elements cannot be written as an expression",
          "declare the dimensions with --shape");
    return Value();
  }
  Type word = c.builder().getIntegerType(32, /*isSigned=*/false);
  auto [first, second] = seedsOf(c, stream);
  Value x = c.cast(c.positions(count), word);
  x = mix(c, c.add(x, c.scalar(first, word)));
  x = mix(c, c.make<tn::XorOp>(x, c.scalar(second, word)));
  Type real = c.builder().getF32Type();
  Value unit = c.mul(c.cast(shiftRight(c, x, 8), real), c.scalar(0x1p-24, real));
  return c.reshape(unit, dims);
}

namespace {

Value uniform(NodeContext &c, ArrayRef<AffineExpr> dims) {
  Value unit = uniformNumbers(c, dims, 0);
  double low = c.real("low", 0), high = c.real("high", 1);
  return c.add(c.mul(unit, c.scalarLike(high - low, unit)), c.scalarLike(low, unit));
}

/// Box and Muller's way from two uniform numbers to a normal one.
Value normal(NodeContext &c, ArrayRef<AffineExpr> dims) {
  Value first = uniformNumbers(c, dims, 0), second = uniformNumbers(c, dims, 1);
  // In (0, 1], so that the logarithm is finite.
  Value positive = c.sub(c.scalarLike(1, first), first);
  Value radius = c.unary<tn::SqrtOp>(c.mul(c.unary<tn::LogOp>(positive), c.scalarLike(-2, first)));
  Value angle = c.unary<tn::CosOp>(c.mul(second, c.scalarLike(2 * M_PI, second)));
  Value number = c.mul(radius, angle);
  return c.add(c.mul(number, c.scalarLike(c.real("scale", 1), number)),
               c.scalarLike(c.real("mean", 0), number));
}

using Numbers = Value (*)(NodeContext &, ArrayRef<AffineExpr>);

template <Numbers numbers> void randomShape(NodeContext &c) {
  Type element = c.elementNamed("dtype", c.builder().getF32Type());
  tn::Dims dims;
  for (int64_t size : c.integerList("shape")) {
    dims.push_back(c.constantSize(size));
  }
  if (element && c.requireNotNegative(dims, "a dimension of the requested shape")) {
    c.setOutput(0, c.cast(numbers(c, dims), element));
  }
}

template <Numbers numbers> void randomLike(NodeContext &c) {
  c.ignoreInput(0); // its shape and type are what counts
  if (Type element = c.elementNamed("dtype", c.element(0))) {
    c.setOutput(0, c.cast(numbers(c, c.dims(0)), element));
  }
}

void bernoulli(NodeContext &c) {
  Type element = c.elementNamed("dtype", c.element(0));
  Value unit = uniformNumbers(c, c.dims(0), 0);
  Value chance = c.cast(c.value(0), c.builder().getF32Type());
  if (element) {
    c.setOutput(0, c.cast(c.compare(unit, tn::Predicate::lt, chance), element));
  }
}

/// The class whose part of the summed probabilities a uniform number falls into.
void multinomial(NodeContext &c) {
  int64_t samples = c.integer("sample_size", 1);
  int64_t type = c.integer("dtype", 6);
  tn::Dims dims = c.dims(0);
  if (dims.size() != 2 || samples < 1 || samples > (int64_t{1} << 20) || (type != 6 && type != 7)) {
    return c.error(
        ErrorId::OnnxBadNode,
        "its input is not a list of distributions, or an attribute has an unknown value");
  }
  Type real = c.builder().getF32Type();
  Value chances = c.unary<tn::SoftmaxOp>(c.cast(c.value(0), real), int64_t{1}, false);
  Value sums = c.unary<tn::CumsumOp>(chances, int64_t{1}, false, false);
  AffineExpr one = c.constantSize(1), count = c.constantSize(samples);
  Value unit = c.reshape(uniformNumbers(c, {dims[0], count}, 0), {dims[0], count, one});
  Value passed = c.compare(c.reshape(sums, {dims[0], one, dims[1]}), tn::Predicate::le, unit);
  Type index = c.builder().getI64Type();
  Value chosen = c.reduce(tn::ReduceKind::sum, c.cast(passed, index), {2}, false);
  // Rounding may leave the last sum below 1.
  Value last = c.sub(c.sizeValue(dims[1], index), c.scalar(1, index));
  c.setOutput(0, c.cast(c.min(chosen, last), type == 6 ? Type(c.builder().getI32Type()) : index));
}

constexpr Attributes kUniform = {
    {"dtype", kInt}, {"high", kFloat}, {"low", kFloat}, {"seed", kFloat}};
constexpr Attributes kUniformOfShape = {
    {"dtype", kInt}, {"high", kFloat}, {"low", kFloat}, {"seed", kFloat}, needs({"shape", kInts})};
constexpr Attributes kNormal = {
    {"dtype", kInt}, {"mean", kFloat}, {"scale", kFloat}, {"seed", kFloat}};
constexpr Attributes kNormalOfShape = {{"dtype", kInt},
                                       {"mean", kFloat},
                                       {"scale", kFloat},
                                       {"seed", kFloat},
                                       needs({"shape", kInts})};

constexpr OpRow kRandomOpRows[] = {
    {"Bernoulli", 15, 1, 1, 1, bernoulli, {{"dtype", kInt}, {"seed", kFloat}}},
    {"Multinomial",
     7,
     1,
     1,
     1,
     multinomial,
     {{"dtype", kInt}, {"sample_size", kInt}, {"seed", kFloat}}},
    {"RandomNormal", 1, 0, 0, 1, randomShape<normal>, kNormalOfShape},
    {"RandomNormalLike", 1, 1, 1, 1, randomLike<normal>, kNormal},
    {"RandomUniform", 1, 0, 0, 1, randomShape<uniform>, kUniformOfShape},
    {"RandomUniformLike", 1, 1, 1, 1, randomLike<uniform>, kUniform},
};

} // namespace

ArrayRef<OpRow> randomRows() { return kRandomOpRows; }

} // namespace tenon::onnx
