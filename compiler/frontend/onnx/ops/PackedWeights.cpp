// GatherBlockQuantized of the domain com.microsoft, and how numbers of a few bits are unpacked.
// Relies on constants being unpacked once, when they are folded.
#include "compiler/frontend/onnx/ops/PackedWeights.h"

#include "compiler/graph/TnRare.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;

namespace tenon::onnx {

Value unpackBits(NodeContext &c, Value x, int64_t bits) {
  if (!x || bits == 8) {
    return x;
  }
  int64_t each = 8 / bits;
  tn::Dims dims = tn::getDims(x.getType()), apart = dims;
  Type byte = c.builder().getIntegerType(8, false);
  dims.back() = multiplySizes(dims.back(), c.constantSize(each));
  tn::ReshapeOp reshaped = x.getDefiningOp<tn::ReshapeOp>();
  Value source = reshaped ? reshaped.getX() : x;
  if (isa_and_nonnull<tn::ConstantOp, tn::WeightOp>(source.getDefiningOp())) {
    Value line =
        c.reshape(x, {tn::elementCount(c.builder().getContext(), tn::getDims(x.getType()))});
    Type number = c.builder().getIntegerType(static_cast<unsigned>(bits), false);
    return c.cast(c.makeTyped<tn::UnpackBitsOp>(tn::makeTensor(dims, number), line), byte);
  }
  apart.push_back(c.constantSize(1));
  SmallVector<Value> parts;
  for (int64_t i = 0; i < each; ++i) {
    Value part =
        i == 0 ? x : c.make<tn::ShiftOp>(x, c.scalar(static_cast<double>(i * bits), byte), false);
    part = c.make<tn::AndOp>(part, c.scalar(static_cast<double>((1 << bits) - 1), byte));
    parts.push_back(c.reshape(part, apart));
  }
  return c.failed() ? Value()
                    : c.reshape(c.concat(parts, static_cast<int64_t>(apart.size()) - 1), dims);
}

Value repeatBlocks(NodeContext &c, Value x, int64_t axis, int64_t block, AffineExpr size) {
  if (!x || c.failed()) {
    return Value();
  }
  tn::Dims dims = tn::getDims(x.getType()), apart = dims;
  apart.insert(apart.begin() + axis + 1, c.constantSize(1));
  Value y = c.reshape(x, apart);
  apart[axis + 1] = c.constantSize(block);
  dims[axis] = multiplySizes(dims[axis], c.constantSize(block));
  return c.sliceAxis(c.reshape(c.broadcast(y, apart), dims), axis, c.constantSize(0), size);
}

namespace {

void gatherBlockQuantized(NodeContext &c) {
  int64_t rank = c.rank(0), bits = c.integer("bits", 4), block = c.integer("block_size", 128);
  int64_t gathered = c.axis("gather_axis", 0, rank);
  int64_t quantized = c.axis("quantize_axis", 1, rank);
  bool isPacked = c.element(0).isUnsignedInteger(8);
  if (!isa<IntegerType>(c.element(0)) || (bits != 2 && bits != 4 && bits != 8)) {
    return c.gap("data of floats, and numbers of other than 2, 4 or 8 bits, are not supported",
                 "quantize to 2, 4 or 8 bits");
  }
  if (c.failed() || block < 1 || c.rank(2) != rank || (c.has(3) && c.rank(3) != rank) ||
      (isPacked && bits < 8 && gathered == rank - 1)) {
    return c.error(ErrorId::OnnxBadNode, "its data, scales, block size and axes do not fit");
  }
  Type real = c.builder().getF32Type();
  // A scale for all along an axis is not gathered.
  auto pick = [&](unsigned i) {
    return tn::constantDim(c.dims(i)[gathered]) == 1 && tn::constantDim(c.dims(0)[gathered]) != 1
               ? c.broadcast(c.value(i),
                             [&] {
                               tn::Dims dims = c.dims(i);
                               dims[gathered] = c.dims(0)[gathered];
                               return dims;
                             }())
               : c.value(i);
  };
  Value data = c.value(0), scale = pick(2), zero = c.has(3) ? pick(3) : Value();
  auto gather = [&](Value x) { return x ? c.make<tn::GatherOp>(x, c.value(1), gathered) : x; };
  // Rows are gathered before they are dequantized, unless blocks lie along them.
  bool isFirst = gathered != quantized;
  int64_t moved = isFirst && quantized > gathered ? c.rank(1) - 1 : 0;
  if (isFirst) {
    data = gather(data);
    scale = gather(scale);
    zero = gather(zero);
  }
  data = isPacked ? unpackBits(c, data, bits) : data;
  zero = isPacked && zero ? unpackBits(c, zero, bits) : zero;
  if (!data || !scale) {
    return;
  }
  int64_t axis = quantized + moved;
  AffineExpr size = tn::getDims(data.getType())[axis];
  if (zero) {
    zero = c.sliceAxis(zero, axis, c.constantSize(0), tn::getDims(scale.getType())[axis]);
    zero = repeatBlocks(c, c.cast(zero, real), axis, block, size);
  } else {
    zero = c.scalar(isPacked ? static_cast<double>(int64_t{1} << (bits - 1)) : 0, real);
  }
  Value y = c.mul(c.sub(c.cast(data, real), zero),
                  repeatBlocks(c, c.cast(scale, real), axis, block, size));
  c.setOutput(0, c.cast(isFirst ? y : gather(y), c.element(2)));
}

constexpr Attributes kGatherBlocks = {
    {"bits", kInt}, {"block_size", kInt}, {"gather_axis", kInt}, {"quantize_axis", kInt}};

constexpr OpRow kPackedWeightOpRows[] = {
    {"GatherBlockQuantized", 1, 3, 4, 1, gatherBlockQuantized, kGatherBlocks, kMicrosoft},
};

} // namespace

ArrayRef<OpRow> packedWeightRows() { return kPackedWeightOpRows; }

} // namespace tenon::onnx
