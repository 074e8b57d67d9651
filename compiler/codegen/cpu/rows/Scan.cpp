// Running sums. Along the innermost dim a vector is summed in registers by shifts of 1, 2, 4 ...
// lanes and follows the sum of those before it; along another dim vectors of neighbouring columns
// are added row by row. Rows, or groups of columns, are shared among threads.
#include "compiler/codegen/common/lower/Reduce.h"
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

class ScanLowering {
public:
  ScanLowering(KernelBuilder &kernel, tn::CumsumOp cumsum, engine::CpuLevel level, int64_t columns);

  AffineExpr lower();

private:
  Value sum(const IndexMath &math, Value a, Value b) {
    return isa<FloatType>(wide.getElementType())
               ? Value(arith::AddFOp::create(math.builder, math.location, a, b))
               : Value(arith::AddIOp::create(math.builder, math.location, a, b));
  }
  Value zeros(const IndexMath &math) {
    return arith::ConstantOp::create(math.builder, math.location, math.builder.getZeroAttr(wide));
  }
  Value shifted(const IndexMath &math, Value vector, int64_t lanes);
  Value scanBlock(const IndexMath &math, ValueRange row, Value start, Value active, Value carry);
  void scanRow(const IndexMath &math, Value row);
  void scanColumns(const IndexMath &math, Value outer, Value first, int64_t strips, Value active);
  SmallVector<Value> place(ArrayRef<Value> whole) const {
    return SmallVector<Value>(whole.drop_front(hasOuter ? 0 : 1));
  }

  KernelBuilder &kernel;
  Value x, y; ///< [outer,] length [, inner]
  Type storage;
  VectorType wide; ///< sums of a strip
  int64_t lanes, columns;
  bool isExclusive, isReverse, hasOuter;
  AffineExpr outer, length, inner; ///< `inner` is null if the scan is along the last dim
};

ScanLowering::ScanLowering(KernelBuilder &kernel, tn::CumsumOp cumsum, engine::CpuLevel level,
                           int64_t columns)
    : kernel(kernel), x(kernel.input(0)), y(kernel.output(0)),
      storage(storageType(getElementTypeOrSelf(cumsum.getX()))),
      wide(VectorType::get(floatLanes(level), accumulatorType(storage))), lanes(floatLanes(level)),
      columns(columns), isExclusive(cumsum.getExclusive()), isReverse(cumsum.getReverse()),
      hasOuter(cumsum.getAxis() > 0) {
  tn::Dims dims = tn::getDims(cumsum.getX().getType());
  size_t axis = cumsum.getAxis();
  outer = hasOuter ? dims[0] : getAffineConstantExpr(1, cumsum.getContext());
  length = dims[axis];
  inner = axis + 1 < dims.size() ? dims[axis + 1] : AffineExpr();
}

/// Each lane gets what was `count` lanes before it in the order of the scan, the first ones 0.
Value ScanLowering::shifted(const IndexMath &math, Value vector, int64_t count) {
  SmallVector<int64_t> order;
  for (int64_t lane = 0; lane < lanes; ++lane) {
    int64_t source = isReverse ? lane + count : lane - count;
    order.push_back(source >= 0 && source < lanes ? source : lanes);
  }
  return vector::ShuffleOp::create(math.builder, math.location, vector, zeros(math), order);
}

/// A vector of a row; gives the sum that goes on, in all lanes.
Value ScanLowering::scanBlock(const IndexMath &math, ValueRange row, Value start, Value active,
                              Value carry) {
  SmallVector<Value> at(row);
  at.push_back(start);
  Value sums = loadLanes(math, wide, x, at, active);
  for (int64_t step = 1; step < lanes; step *= 2) {
    sums = sum(math, sums, shifted(math, sums, step));
  }
  storeLanes(math, sum(math, carry, isExclusive ? shifted(math, sums, 1) : sums), y, at, active);
  // Lanes that do not count add nothing.
  SmallVector<int64_t> last(lanes, isReverse ? 0 : lanes - 1);
  Value total = vector::ShuffleOp::create(math.builder, math.location, sums, sums, last);
  return sum(math, carry, total);
}

void ScanLowering::scanRow(const IndexMath &math, Value row) {
  Value size = math.size(kernel, length), width = math.constant(lanes);
  Value blocks = math.div(size, width), rest = math.rem(size, width);
  SmallVector<Value> at = hasOuter ? SmallVector<Value>{row} : SmallVector<Value>{};
  auto scanRest = [&](const IndexMath &here, Value carry) -> Value {
    Value isRest = here.isLess(here.constant(0), rest);
    return scf::IfOp::create(
               here.builder, here.location, isRest,
               [&](OpBuilder &b, Location location) {
                 IndexMath then(b, location);
                 Value start = then.mul(blocks, lanes);
                 scf::YieldOp::create(b, location, scanBlock(then, at, start, rest, carry));
               },
               [&](OpBuilder &b, Location location) { scf::YieldOp::create(b, location, carry); })
        .getResult(0);
  };
  Value carry = isReverse ? scanRest(math, zeros(math)) : zeros(math);
  carry = scf::ForOp::create(
              math.builder, math.location, math.constant(0), blocks, math.constant(1), carry,
              [&](OpBuilder &b, Location location, Value i, ValueRange state) {
                IndexMath body(b, location);
                Value last = body.sub(blocks, body.constant(1));
                Value block = isReverse ? body.sub(last, i) : i;
                Value next = scanBlock(body, at, body.mul(block, lanes), Value(), state[0]);
                scf::YieldOp::create(b, location, next);
              })
              .getResult(0);
  if (!isReverse) {
    scanRest(math, carry);
  }
}

/// Strips of neighbouring columns, from row to row.
void ScanLowering::scanColumns(const IndexMath &math, Value outerIndex, Value first, int64_t strips,
                               Value active) {
  Value size = math.size(kernel, length);
  SmallVector<Value> carries(strips, zeros(math));
  scf::ForOp::create(math.builder, math.location, math.constant(0), size, math.constant(1), carries,
                     [&](OpBuilder &b, Location location, Value i, ValueRange state) {
                       IndexMath body(b, location);
                       Value row = isReverse ? body.sub(body.sub(size, body.constant(1)), i) : i;
                       SmallVector<Value> next;
                       for (int64_t strip = 0; strip < strips; ++strip) {
                         Value column = body.add(first, body.constant(strip * lanes));
                         SmallVector<Value> at = place({outerIndex, row, column});
                         next.push_back(
                             sum(body, state[strip], loadLanes(body, wide, x, at, active)));
                         storeLanes(body, isExclusive ? state[strip] : next.back(), y, at, active);
                       }
                       scf::YieldOp::create(b, location, next);
                     });
}

AffineExpr ScanLowering::lower() {
  IndexMath outside(kernel.builder, kernel.location);
  AffineExpr groups = inner ? inner.ceilDiv(columns) : AffineExpr();
  scf::ForOp::create(
      kernel.builder, kernel.location, kernel.begin, kernel.end, outside.constant(1), ValueRange(),
      [&](OpBuilder &b, Location location, Value point, ValueRange) {
        IndexMath math(b, location);
        if (!inner) {
          scanRow(math, point);
          scf::YieldOp::create(b, location);
          return;
        }
        Value count = math.size(kernel, groups), total = math.size(kernel, inner);
        Value outerIndex = math.div(point, count);
        Value first = math.mul(math.rem(point, count), columns);
        Value end = math.min(total, math.add(first, math.constant(columns)));
        int64_t strips = columns / lanes;
        Value isWhole = math.isLess(math.add(first, math.constant(columns - 1)), total);
        scf::IfOp::create(
            b, location, isWhole,
            [&](OpBuilder &then, Location) {
              scanColumns(IndexMath(then, location), outerIndex, first, strips, Value());
              scf::YieldOp::create(then, location);
            },
            [&](OpBuilder &other, Location) {
              scf::ForOp::create(other, location, first, end, math.constant(lanes), ValueRange(),
                                 [&](OpBuilder &body, Location, Value column, ValueRange) {
                                   IndexMath in(body, location);
                                   Value active = in.min(in.constant(lanes), in.sub(end, column));
                                   scanColumns(in, outerIndex, column, 1, active);
                                   scf::YieldOp::create(body, location);
                                 });
              scf::YieldOp::create(other, location);
            });
        scf::YieldOp::create(b, location);
      });
  return inner ? outer * groups : outer;
}

FamilyMatch matchScan(Region &region) {
  tn::CumsumOp cumsum = onlyOp<tn::CumsumOp>(region.source);
  return cumsum ? FamilyMatch::take(cumsum) : FamilyMatch::refuse("not a running sum");
}

FailureOr<AffineExpr> lowerScan(KernelBuilder &kernel, Region &region, int64_t columns) {
  tn::CumsumOp cumsum = cast<tn::CumsumOp>(region.source.getBody().front().front());
  return ScanLowering(kernel, cumsum, region.level(), columns).lower();
}

} // namespace

constexpr KernelFamily kScan = {
    .name = "scan",
    .what = "running sums: scans in registers along rows, or rows of columns added up",
    .strategies = {dispatch::kSingle},
    .needs = {"cumsum"},
    .needsElements = true,
    .match = matchScan,
    .parameter = "columns",
    // Some cache lines of each row, whose sums stay in registers.
    .candidates = {128, 64, 256, 32},
    .emit = emitReshaped<lowerScan>};

} // namespace tenon::codegen::cpu
