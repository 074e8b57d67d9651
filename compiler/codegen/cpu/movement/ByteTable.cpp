// Bytes that are read from a table of 256, as activations of quantized models are
// (opt/precision/TabulateChains.cpp): sixteen parts of sixteen bytes in registers, of which a
// shuffle gives every element the byte that it would have in that part, or zero where it belongs to
// another. Relies on a shuffle that gives zero for numbers from 128 on, as x86 has it.
#include "compiler/codegen/common/math/ScalarBody.h"
#include "compiler/codegen/common/region/Failures.h"
#include "compiler/codegen/cpu/base/IndexMath.h"
#include "compiler/codegen/cpu/base/KernelFamily.h"
#include "engine/Level.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace tenon::codegen::cpu {
namespace {

constexpr int64_t kTableBytes = 256, kPartBytes = 16, kElementsAtOnce = 32, kIndicesAtOnce = 8;
/// Elements of a grid point.
constexpr int64_t kElementsOfPoint = 4096;

FamilyMatch matchByteTable(Region &region) {
  tn::GatherOp gather = onlyOp<tn::GatherOp>(region.source);
  if (!gather || !isa<BlockArgument>(gather.getX()) || !isa<BlockArgument>(gather.getIndices())) {
    return FamilyMatch::refuse("not a gather of inputs alone");
  }
  tn::Dims table = tn::getDims(gather.getX().getType());
  bool isTable = table.size() == 1 && tn::constantDim(table[0]) == kTableBytes &&
                 storageType(getElementTypeOrSelf(gather.getType())).isInteger(8) &&
                 getElementTypeOrSelf(gather.getIndices().getType()).isInteger(32);
  if (!isTable) {
    return FamilyMatch::refuse("no table of 256 bytes by numbers of 32 bits");
  }
  if (engine::rowOf(region.level()).architecture != engine::Architecture::X86_64) {
    return FamilyMatch::refuse("the level has no such shuffle");
  }
  return FamilyMatch::take(gather);
}

class ByteTable {
public:
  explicit ByteTable(KernelBuilder &kernel, const tn::GatherOp &gather)
      : kernel(kernel), gather(gather) {
    bytes = VectorType::get(kElementsAtOnce, kernel.builder.getI8Type());
    numbers = VectorType::get(kIndicesAtOnce, kernel.builder.getI32Type());
  }

  AffineExpr lower();

private:
  Value splat(const IndexMath &math, VectorType type, int64_t value) const {
    IntegerAttr number = math.builder.getIntegerAttr(type.getElementType(), value);
    return arith::ConstantOp::create(math.builder, math.location,
                                     DenseElementsAttr::get(type, Attribute(number)));
  }
  /// Zero for the numbers that an index may be, -256 to 255.
  template <typename Constant>
  Value excess(const IndexMath &math, Value index, const Constant &constant) const {
    OpBuilder &b = math.builder;
    Value shifted = arith::AddIOp::create(b, math.location, index, constant(kTableBytes));
    return arith::AndIOp::create(b, math.location, shifted, constant(-2 * kTableBytes));
  }
  Value lookUp(const IndexMath &math, Value index) const;
  Value takeVector(const IndexMath &math, Value first, Value bad) const;
  void takeOne(const IndexMath &math, Value place) const;
  void takeRange(const IndexMath &math, Value first, Value end) const;

  KernelBuilder &kernel;
  mutable tn::GatherOp gather; ///< a handle, whose accessors are not const
  VectorType bytes, numbers;
  Value table, indices, result;
};

/// `index` are bytes: those of numbers below zero count from the end, where they are.
Value ByteTable::lookUp(const IndexMath &math, Value index) const {
  OpBuilder &b = math.builder;
  VectorType partType = VectorType::get(kPartBytes, b.getI8Type());
  SmallVector<int64_t> twice;
  for (int64_t lane = 0; lane < kElementsAtOnce; ++lane) {
    twice.push_back(lane % kPartBytes);
  }
  Value sum;
  for (int64_t first = 0; first < kTableBytes; first += kPartBytes) {
    Value part = vector::LoadOp::create(b, math.location, partType, table, math.constant(first));
    part = vector::ShuffleOp::create(b, math.location, part, part, twice);
    // Below sixteen of this part alone; with 112 added, from 128 on of all others.
    Value inPart = arith::XOrIOp::create(b, math.location, index,
                                         splat(math, bytes, static_cast<int8_t>(first)));
    inPart = LLVM::UAddSat::create(b, math.location, inPart, splat(math, bytes, 0x80 - kPartBytes));
    Value own = LLVM::CallIntrinsicOp::create(b, math.location, bytes,
                                              b.getStringAttr("llvm.x86.avx2.pshuf.b"),
                                              ValueRange{part, inPart})
                    .getResult(0);
    sum = sum ? arith::OrIOp::create(b, math.location, sum, own).getResult() : own;
  }
  return sum;
}

/// Gives `bad` with the bits of indices that no element has.
Value ByteTable::takeVector(const IndexMath &math, Value first, Value bad) const {
  OpBuilder &b = math.builder;
  SmallVector<Value> parts;
  for (int64_t i = 0; i < kElementsAtOnce; i += kIndicesAtOnce) {
    Value place = math.add(first, math.constant(i));
    Value index = vector::LoadOp::create(b, math.location, numbers, indices, place);
    Value over = excess(math, index, [&](int64_t value) { return splat(math, numbers, value); });
    bad = arith::OrIOp::create(b, math.location, bad, over);
    VectorType narrow = VectorType::get(kIndicesAtOnce, b.getI8Type());
    parts.push_back(arith::TruncIOp::create(b, math.location, narrow, index));
  }
  while (parts.size() > 1) {
    SmallVector<Value> joined;
    for (size_t i = 0; i < parts.size(); i += 2) {
      int64_t lanes = 2 * cast<VectorType>(parts[i].getType()).getDimSize(0);
      joined.push_back(vector::ShuffleOp::create(b, math.location, parts[i], parts[i + 1],
                                                 llvm::to_vector(llvm::seq<int64_t>(0, lanes))));
    }
    parts = std::move(joined);
  }
  vector::StoreOp::create(b, math.location, lookUp(math, parts.front()), result, first);
  return bad;
}

void ByteTable::takeOne(const IndexMath &math, Value place) const {
  OpBuilder &b = math.builder;
  auto constant = [&](int64_t value) {
    return arith::ConstantOp::create(b, math.location, b.getI32IntegerAttr(value));
  };
  Value index = memref::LoadOp::create(b, math.location, indices, place);
  Value isInside = arith::CmpIOp::create(b, math.location, arith::CmpIPredicate::eq,
                                         excess(math, index, constant), constant(0));
  Value low = arith::AndIOp::create(b, math.location, index, constant(kTableBytes - 1));
  low = require(b, math.location, low, isInside, tn::Failure::index);
  Value position = arith::IndexCastOp::create(b, math.location, b.getIndexType(), low);
  Value element = memref::LoadOp::create(b, math.location, table, position);
  memref::StoreOp::create(b, math.location, element, result, place);
}

void ByteTable::takeRange(const IndexMath &math, Value first, Value end) const {
  OpBuilder &b = math.builder;
  Value whole = math.mul(math.div(math.sub(end, first), math.constant(kElementsAtOnce)),
                         math.constant(kElementsAtOnce));
  Value rest = math.add(first, whole);
  scf::ForOp loop =
      scf::ForOp::create(b, math.location, first, rest, math.constant(kElementsAtOnce),
                         ValueRange{splat(math, numbers, 0)},
                         [&](OpBuilder &inner, Location location, Value place, ValueRange held) {
                           Value bad = takeVector(IndexMath(inner, location), place, held[0]);
                           scf::YieldOp::create(inner, location, bad);
                         });
  Value bad =
      vector::ReductionOp::create(b, math.location, vector::CombiningKind::OR, loop.getResult(0));
  Value zero = arith::ConstantOp::create(b, math.location, b.getI32IntegerAttr(0));
  Value areInside = arith::CmpIOp::create(b, math.location, arith::CmpIPredicate::eq, bad, zero);
  rest = require(b, math.location, rest, areInside, tn::Failure::index);
  forEach(math, rest, end, 1, [&](const IndexMath &in, Value place) { takeOne(in, place); });
}

AffineExpr ByteTable::lower() {
  IndexMath math(kernel.builder, kernel.location);
  auto inputOf = [&](Value operand) {
    return kernel.input(cast<BlockArgument>(operand).getArgNumber());
  };
  table = inputOf(gather.getX());
  indices = math.asLine(inputOf(gather.getIndices()));
  result = math.asLine(kernel.output(0));
  AffineExpr count = getAffineConstantExpr(1, kernel.builder.getContext());
  for (AffineExpr dim : tn::getDims(gather.getType())) {
    count = count * dim;
  }
  Value all = math.size(kernel, count);
  forEach(math, kernel.begin, kernel.end, 1, [&](const IndexMath &in, Value point) {
    Value first = in.mul(point, kElementsOfPoint);
    takeRange(in, first, in.min(in.add(first, in.constant(kElementsOfPoint)), all));
  });
  return count.ceilDiv(kElementsOfPoint);
}

FailureOr<AffineExpr> lowerByteTable(KernelBuilder &kernel, Region &, const tn::GatherOp &gather) {
  return ByteTable(kernel, gather).lower();
}

} // namespace

constexpr KernelFamily kByteTable = {.name = "byte_table",
                                     .what = "bytes from a table of 256 by shuffles of its parts",
                                     .strategies = {dispatch::kSingle},
                                     .needs = {"gather"},
                                     .needsElements = true,
                                     .match = matchByteTable,
                                     .emit = emitKernel<lowerByteTable>};

} // namespace tenon::codegen::cpu
