// Writes rows of tokens to their pages. A grid point owns every fourth page of a head: it copies
// them, where the result lies elsewhere, and then takes the tokens that go there.
#include "compiler/codegen/cpu/attention/Pages.h"

#include "compiler/codegen/common/lower/Reduce.h"
#include "compiler/codegen/common/math/LowBits.h"
#include "compiler/codegen/common/region/Failures.h"
#include "compiler/codegen/cpu/base/KernelFamily.h"
#include "compiler/codegen/cpu/gemm/Contraction.h"
#include "compiler/graph/TnRare.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;

namespace tenon::codegen::cpu {

Type PagedCache::element() const { return cast<MemRefType>(buffer.getType()).getElementType(); }

int64_t PagedCache::perWord() const {
  return element().isBF16() && (!isKeys || width() % 2 == 0) ? 2 : 1;
}

Value PagedCache::start(const IndexMath &math, const KernelBuilder &kernel, Value page,
                        Value head) const {
  Value block = math.add(math.mul(page, math.size(kernel, heads())), head);
  return math.mul(block, positions() * *tn::constantDim(dims[3]));
}

Value PagedCache::scales(const IndexMath &math, Value start, Value position, int64_t count) const {
  int64_t codes = positions() * width(), size = tn::CachedRows::kScaleBytes;
  Value at = math.add(start, math.add(math.constant(codes), math.mul(position, size)));
  return memrefAt(math.builder, math.location, math.elementPointer(buffer, at),
                  math.builder.getF32Type(), {math.builder.getIndexAttr(count)});
}

Value PagedCache::decode(OpBuilder &builder, Location location, Value code) const {
  Type element = getElementTypeOrSelf(type);
  if (isa<FloatType>(element)) {
    return decodedFloat(builder, location, element, code);
  }
  return arith::SIToFPOp::create(builder, location, builder.getF32Type(), code);
}

const char *refusePages(Type cache) {
  tn::Dims dims = tn::getDims(cache);
  std::optional<int64_t> positions = tn::constantDim(dims[2]);
  if (!positions || *positions % kPanel != 0) {
    return "pages of positions that are no multiple of 32";
  }
  return tn::constantDim(dims[3]) ? nullptr : "heads of a width that varies";
}

namespace {

/// Points that share the pages of a head.
constexpr int64_t kShares = 4;

class PagedWriteLowering {
public:
  PagedWriteLowering(KernelBuilder &kernel, tn::PagedWriteOp op)
      : kernel(kernel), op(op), from(cacheOf(buffer(op.getCache()))), to(cacheOf(kernel.output(0))),
        x(buffer(op.getX())), slots(buffer(op.getSlots())) {}

  AffineExpr lower();

private:
  Value buffer(Value operand) const {
    return kernel.input(cast<BlockArgument>(operand).getArgNumber());
  }
  PagedCache cacheOf(Value memory) {
    Type type = op.getCache().getType();
    return {memory, tn::getDims(type), op.getKeys(), type};
  }
  void copyShare(const IndexMath &math, Value head, Value share) const;
  void writeRow(const IndexMath &math, Value token, Value head, Value slot) const;
  Value numberOf(const IndexMath &math, Value token, Value head, Value column) const;
  Value inverseOf(const IndexMath &math, Value token, Value head, Value scales) const;
  Value codeOf(const IndexMath &math, Value number, Value inverse) const;

  KernelBuilder &kernel;
  tn::PagedWriteOp op;
  PagedCache from, to;
  Value x, slots;
};

void PagedWriteLowering::copyShare(const IndexMath &math, Value head, Value share) const {
  auto address = [&](Value buffer) -> Value {
    return memref::ExtractAlignedPointerAsIndexOp::create(math.builder, math.location, buffer);
  };
  Value isElsewhere = arith::CmpIOp::create(math.builder, math.location, arith::CmpIPredicate::ne,
                                            address(from.buffer), address(to.buffer));
  scf::IfOp::create(math.builder, math.location, isElsewhere, [&](OpBuilder &then, Location at) {
    IndexMath inner(then, at);
    Value pages = inner.size(kernel, to.dims[0]);
    Value fromLine = inner.asLine(from.buffer), toLine = inner.asLine(to.buffer);
    scf::ForOp::create(then, at, share, pages, inner.constant(kShares), ValueRange(),
                       [&](OpBuilder &b, Location location, Value page, ValueRange) {
                         IndexMath in(b, location);
                         Value first = to.start(in, kernel, page, head);
                         Value size = in.constant(to.positions() * *tn::constantDim(to.dims[3]));
                         copyElements(in, in.view(fromLine, {first}, {size}),
                                      in.view(toLine, {first}, {size}),
                                      b.getMultiDimIdentityMap(1));
                         scf::YieldOp::create(b, location);
                       });
    scf::YieldOp::create(then, at);
  });
}

Value PagedWriteLowering::numberOf(const IndexMath &math, Value token, Value head,
                                   Value column) const {
  return memref::LoadOp::create(math.builder, math.location, x, ValueRange{token, head, column});
}

/// Stores the scale of a row; gives what its numbers are multiplied by. Largest by bits, by which
/// NaN is the largest.
Value PagedWriteLowering::inverseOf(const IndexMath &math, Value token, Value head,
                                    Value scales) const {
  constexpr int32_t kMagnitude = 0x7FFFFFFF;
  constexpr int32_t kLeast = (127 + tn::CachedRows::kLeastExponent) << 23;
  OpBuilder &b = math.builder;
  Location at = math.location;
  Type f32 = b.getF32Type(), i32 = b.getI32Type();
  auto integer = [&](OpBuilder &in, int32_t value) -> Value {
    return arith::ConstantOp::create(in, at, in.getI32IntegerAttr(value));
  };
  auto real = [&](float value) -> Value {
    return arith::ConstantOp::create(b, at, b.getF32FloatAttr(value));
  };
  Value bits =
      scf::ForOp::create(
          b, at, math.constant(0), math.constant(to.width()), math.constant(1),
          ValueRange{integer(b, 0)},
          [&](OpBuilder &body, Location, Value column, ValueRange most) {
            IndexMath in(body, at);
            Value number = widen(body, at, numberOf(in, token, head, column));
            Value magnitude =
                arith::AndIOp::create(body, at, arith::BitcastOp::create(body, at, i32, number),
                                      integer(body, kMagnitude));
            scf::YieldOp::create(body, at,
                                 arith::MaxSIOp::create(body, at, most[0], magnitude).getResult());
          })
          .getResult(0);
  Value isTiny = arith::CmpIOp::create(b, at, arith::CmpIPredicate::slt, bits, integer(b, kLeast));
  Value largest = arith::BitcastOp::create(b, at, f32, bits);
  Value most = real(tn::CachedRows::most(to.type)), zero = real(0);
  // What an infinity is taken off itself is NaN.
  Value check = arith::SubFOp::create(b, at, largest, largest);
  Value quotient = arith::DivFOp::create(b, at, largest, most);
  Value scale = arith::AddFOp::create(b, at, check, quotient);
  Value stored = arith::SelectOp::create(b, at, isTiny, zero, scale);
  memref::StoreOp::create(b, at, stored, scales, ValueRange{math.constant(0)});
  Value inverse = arith::DivFOp::create(b, at, most, largest);
  return arith::SelectOp::create(b, at, isTiny, zero, inverse);
}

/// Rounded to nearest even: of integers by what is added, in whose low bits they then stand.
Value PagedWriteLowering::codeOf(const IndexMath &math, Value number, Value inverse) const {
  constexpr float kWhole = 12582912.0F;
  OpBuilder &b = math.builder;
  Location at = math.location;
  Value wide = widen(b, at, number);
  Type element = getElementTypeOrSelf(to.type);
  if (isa<FloatType>(element)) {
    return encodedFloat(b, at, element, arith::MulFOp::create(b, at, wide, inverse));
  }
  Value whole = arith::ConstantOp::create(b, at, b.getF32FloatAttr(kWhole));
  Value sum = math::FmaOp::create(b, at, wide, inverse, whole);
  Value bits = arith::BitcastOp::create(b, at, b.getI32Type(), sum);
  return arith::TruncIOp::create(b, at, b.getI8Type(), bits);
}

/// Element by element: those of a key lie 32 words apart, and those of a value in other words than
/// its neighbours'.
void PagedWriteLowering::writeRow(const IndexMath &math, Value token, Value head,
                                  Value slot) const {
  int64_t positions = to.positions(), width = to.width(), word = to.perWord();
  Value page = math.div(slot, math.constant(positions));
  Value offset = math.rem(slot, math.constant(positions));
  Value first = to.start(math, kernel, page, head), line = math.asLine(to.buffer);
  Value perWord = math.constant(word), panel = math.constant(kPanel);
  Value inverse =
      to.holdsCodes() ? inverseOf(math, token, head, to.scales(math, first, offset, 1)) : Value();
  Value stride;
  if (to.isKeys) {
    Value inPanel = math.mul(math.rem(offset, panel), word);
    first = math.add(first, math.mul(math.div(offset, panel), width * kPanel));
    first = math.add(first, inPanel);
    stride = math.constant(kPanel * word);
  } else {
    first = math.add(first, math.mul(math.div(offset, perWord), width * word));
    first = math.add(first, math.rem(offset, perWord));
    stride = math.constant(1);
  }
  int64_t together = to.isKeys ? word : 1;
  forEach(math, math.constant(0), math.constant(width / together), 1,
          [&](const IndexMath &in, Value index) {
            Value place = in.add(first, in.mul(index, to.isKeys ? stride : perWord));
            for (int64_t i = 0; i < together; ++i) {
              Value column = in.add(in.mul(index, together), in.constant(i));
              Value element = numberOf(in, token, head, column);
              element = inverse ? codeOf(in, element, inverse) : element;
              memref::StoreOp::create(in.builder, in.location, element, line,
                                      ValueRange{in.add(place, in.constant(i))});
            }
          });
}

AffineExpr PagedWriteLowering::lower() {
  IndexMath outside(kernel.builder, kernel.location);
  AffineExpr tokens = tn::getDims(op.getX().getType())[0];
  forEach(outside, kernel.begin, kernel.end, 1, [&](const IndexMath &math, Value point) {
    Value share = math.rem(point, math.constant(kShares));
    Value head = math.div(point, math.constant(kShares));
    copyShare(math, head, share);
    Value most = math.mul(math.size(kernel, to.dims[0]), to.positions());
    forEach(math, math.constant(0), math.size(kernel, tokens), 1,
            [&](const IndexMath &in, Value token) {
              OpBuilder &b = in.builder;
              Value number = memref::LoadOp::create(b, in.location, slots, token);
              Value slot = arith::IndexCastOp::create(b, in.location, b.getIndexType(), number);
              Value isSlot = in.isLess(slot, most);
              Value isRight =
                  arith::AndIOp::create(b, in.location, isSlot, in.isLess(in.constant(-2), slot));
              Value held = require(b, in.location, in.min(slot, in.sub(most, in.constant(1))),
                                   isRight, tn::Failure::index);
              Value page = in.div(in.max(held, in.constant(0)), in.constant(to.positions()));
              Value isOwn = arith::CmpIOp::create(b, in.location, arith::CmpIPredicate::eq,
                                                  in.rem(page, in.constant(kShares)), share);
              Value writes =
                  arith::AndIOp::create(b, in.location, isOwn, in.isLess(in.constant(-1), held));
              scf::IfOp::create(b, in.location, writes, [&](OpBuilder &then, Location at) {
                writeRow(IndexMath(then, at), token, head, held);
                scf::YieldOp::create(then, at);
              });
            });
  });
  return to.heads() * kShares;
}

FamilyMatch matchPagedWrite(Region &region) {
  tn::PagedWriteOp op = onlyOp<tn::PagedWriteOp>(region.source);
  if (!op || !llvm::all_of(op->getOperands(), llvm::IsaPred<BlockArgument>)) {
    return FamilyMatch::refuse("no write to pages alone");
  }
  const char *why = refusePages(op.getCache().getType());
  return why ? FamilyMatch::refuse(why) : FamilyMatch::take(op);
}

FailureOr<AffineExpr> lowerPagedWrite(KernelBuilder &kernel, Region &, const tn::PagedWriteOp &op) {
  return PagedWriteLowering(kernel, op).lower();
}

} // namespace

constexpr KernelFamily kPagedWrite = {
    .name = "paged_write",
    .what = "rows of tokens to the pages of a cache, in the panels that products read",
    .strategies = {dispatch::kSingle},
    .needs = {"paged_write"},
    .needsElements = true,
    .match = matchPagedWrite,
    .emit = emitKernel<lowerPagedWrite>,
    .order = noSums<Region>};

} // namespace tenon::codegen::cpu
