// Padding with one number as copies and fills of neighbouring elements, where the last dim stays as
// it is: a line of the last padded dim and of all behind it is what is filled before, copied, and
// filled behind, or filled as a whole.
#include "compiler/codegen/common/math/ScalarBody.h"
#include "compiler/codegen/cpu/base/IndexMath.h"
#include "compiler/codegen/cpu/base/KernelFamily.h"
#include "engine/Level.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace tenon::codegen::cpu {
namespace {

FamilyMatch matchPadRows(Region &region) {
  tn::PadOp pad;
  for (Operation &op : region.source.getBody().front().without_terminator()) {
    if (tn::PadOp found = dyn_cast<tn::PadOp>(op); found && !pad) {
      pad = found;
    } else if (!isa<tn::ConstantOp>(op)) {
      return FamilyMatch::refuse("something else is computed with it");
    }
  }
  if (!pad || pad.getMode() != tn::PadMode::constant || !isa<BlockArgument>(pad.getX())) {
    return FamilyMatch::refuse("no padding of an input with one number");
  }
  auto isNegative = [](int64_t count) { return count < 0; };
  if (llvm::any_of(pad.getBegins(), isNegative) || llvm::any_of(pad.getEnds(), isNegative) ||
      pad.getBegins().empty() || pad.getBegins().back() != 0 || pad.getEnds().back() != 0) {
    return FamilyMatch::refuse("elements are taken off, or added to the last dim");
  }
  return FamilyMatch::take(pad);
}

class PadRows {
public:
  PadRows(KernelBuilder &kernel, Region &region, const tn::PadOp &pad);

  AffineExpr lower();

private:
  Value numberOf(const IndexMath &math) const;
  Value sizeOf(const IndexMath &math, AffineExpr size) const { return math.size(kernel, size); }
  /// `body` at vectors of neighbours that cover [first, first + count), the last of them over some
  /// of those before; at elements, with a null type, where there are fewer than a vector has.
  void cover(const IndexMath &math, Value first, Value count,
             llvm::function_ref<void(const IndexMath &, Value, Type)> body) const;
  void fill(const IndexMath &math, Value first, Value count) const;
  void copy(const IndexMath &math, Value from, Value first, Value count) const;
  void writeLine(const IndexMath &math, Value line) const;

  KernelBuilder &kernel;
  mutable tn::PadOp pad; ///< a handle, whose accessors are not const
  size_t last = 0;       ///< the last dim that is padded
  tn::Dims from, to;
  VectorType vector;
  AffineExpr inner; ///< elements behind an element of that dim
  Value source, result, number;
};

PadRows::PadRows(KernelBuilder &kernel, Region &region, const tn::PadOp &op)
    : kernel(kernel), pad(op) {
  from = tn::getDims(pad.getX().getType());
  to = tn::getDims(pad.getType());
  for (size_t dim = 0; dim < from.size(); ++dim) {
    last = pad.getBegins()[dim] != 0 || pad.getEnds()[dim] != 0 ? dim : last;
  }
  inner = getAffineConstantExpr(1, kernel.builder.getContext());
  for (size_t dim = last + 1; dim < from.size(); ++dim) {
    inner = inner * from[dim];
  }
  Type element = storageType(getElementTypeOrSelf(pad.getType()));
  constexpr int64_t kFloatBits = 32;
  vector = VectorType::get(
      floatLanes(region.level()) * kFloatBits / element.getIntOrFloatBitWidth(), element);
}

void PadRows::cover(const IndexMath &math, Value first, Value count,
                    llvm::function_ref<void(const IndexMath &, Value, Type)> body) const {
  Value lanes = math.constant(vector.getNumElements());
  scf::IfOp::create(
      math.builder, math.location, math.isLess(count, lanes),
      [&](OpBuilder &b, Location location) {
        IndexMath in(b, location);
        forEach(in, first, in.add(first, count), 1,
                [&](const IndexMath &each, Value place) { body(each, place, Type()); });
        scf::YieldOp::create(b, location);
      },
      [&](OpBuilder &b, Location location) {
        IndexMath in(b, location);
        Value end = in.sub(in.add(first, count), lanes);
        forEach(in, first, end, vector.getNumElements(),
                [&](const IndexMath &each, Value place) { body(each, place, vector); });
        body(in, end, vector);
        scf::YieldOp::create(b, location);
      });
}

void PadRows::fill(const IndexMath &math, Value first, Value count) const {
  cover(math, first, count, [&](const IndexMath &in, Value place, Type wide) {
    if (wide) {
      Value all = vector::BroadcastOp::create(in.builder, in.location, wide, number);
      vector::StoreOp::create(in.builder, in.location, all, result, place);
    } else {
      memref::StoreOp::create(in.builder, in.location, number, result, place);
    }
  });
}

void PadRows::copy(const IndexMath &math, Value start, Value first, Value count) const {
  cover(math, first, count, [&](const IndexMath &in, Value place, Type wide) {
    Value at = in.add(start, in.sub(place, first));
    if (wide) {
      Value all =
          vector::LoadOp::create(in.builder, in.location, cast<VectorType>(wide), source, at);
      vector::StoreOp::create(in.builder, in.location, all, result, place);
    } else {
      Value one = memref::LoadOp::create(in.builder, in.location, source, at);
      memref::StoreOp::create(in.builder, in.location, one, result, place);
    }
  });
}

void PadRows::writeLine(const IndexMath &math, Value line) const {
  OpBuilder &b = math.builder;
  Value rest = line, sourceLine = math.constant(0), step = math.constant(1);
  Value isInside = arith::ConstantOp::create(b, math.location, b.getBoolAttr(true));
  for (size_t dim = last; dim-- > 0;) {
    Value size = sizeOf(math, from[dim]), whole = sizeOf(math, to[dim]);
    Value own = math.sub(math.rem(rest, whole), math.constant(pad.getBegins()[dim]));
    rest = math.div(rest, whole);
    // Also of those below zero, which are large without a sign.
    Value isOwn = arith::CmpIOp::create(b, math.location, arith::CmpIPredicate::ult, own, size);
    isInside = arith::AndIOp::create(b, math.location, isInside, isOwn);
    sourceLine = math.add(sourceLine, math.mul(own, step));
    step = math.mul(step, size);
  }
  Value each = sizeOf(math, inner), count = math.mul(sizeOf(math, from[last]), each);
  Value first = math.mul(line, math.mul(sizeOf(math, to[last]), each));
  Value before = math.mul(each, pad.getBegins()[last]);
  Value behind = math.mul(each, pad.getEnds()[last]);
  scf::IfOp::create(
      b, math.location, isInside,
      [&](OpBuilder &body, Location location) {
        IndexMath in(body, location);
        Value start = in.add(first, before);
        fill(in, first, before);
        copy(in, in.mul(sourceLine, count), start, count);
        fill(in, in.add(start, count), behind);
        scf::YieldOp::create(body, location);
      },
      [&](OpBuilder &body, Location location) {
        IndexMath in(body, location);
        fill(in, first, in.add(in.add(before, count), behind));
        scf::YieldOp::create(body, location);
      });
}

/// What is added: an element of an input, a constant, or zero.
Value PadRows::numberOf(const IndexMath &math) const {
  OpBuilder &b = math.builder;
  Type element = vector.getElementType();
  tn::ConstantOp constant;
  if (Value value = pad.getValue()) {
    if (BlockArgument argument = dyn_cast<BlockArgument>(value)) {
      Value given = kernel.input(argument.getArgNumber());
      SmallVector<Value> place(cast<MemRefType>(given.getType()).getRank(), math.constant(0));
      return memref::LoadOp::create(b, math.location, given, place);
    }
    constant = value.getDefiningOp<tn::ConstantOp>();
  }
  TypedAttr number = b.getZeroAttr(element);
  if (constant) {
    DenseElementsAttr elements = cast<DenseElementsAttr>(constant.getValue());
    number = isa<FloatType>(element)
                 ? TypedAttr(FloatAttr::get(element, elements.getSplatValue<APFloat>()))
                 : TypedAttr(IntegerAttr::get(element, elements.getSplatValue<APInt>().zextOrTrunc(
                                                           element.getIntOrFloatBitWidth())));
  }
  return arith::ConstantOp::create(b, math.location, number);
}

AffineExpr PadRows::lower() {
  IndexMath math(kernel.builder, kernel.location);
  source = math.asLine(kernel.input(cast<BlockArgument>(pad.getX()).getArgNumber()));
  result = math.asLine(kernel.output(0));
  number = numberOf(math);
  AffineExpr lines = getAffineConstantExpr(1, kernel.builder.getContext());
  for (size_t dim = 0; dim < last; ++dim) {
    lines = lines * to[dim];
  }
  forEach(math, kernel.begin, kernel.end, 1,
          [&](const IndexMath &in, Value line) { writeLine(in, line); });
  return lines;
}

FailureOr<AffineExpr> lowerPadRows(KernelBuilder &kernel, Region &region, const tn::PadOp &pad) {
  return PadRows(kernel, region, pad).lower();
}

} // namespace

constexpr KernelFamily kPadRows = {.name = "pad_rows",
                                   .what = "padding as copies and fills of whole rows",
                                   .strategies = {dispatch::kSingle},
                                   .needs = {"pad"},
                                   .needsElements = true,
                                   .match = matchPadRows,
                                   .emit = emitKernel<lowerPadRows>};

} // namespace tenon::codegen::cpu
