// Histograms of rows: each grid point counts a row into bins that stay in its cache.
#include "compiler/codegen/common/lower/Compute.h"
#include "compiler/codegen/cpu/base/IndexMath.h"
#include "compiler/codegen/cpu/base/KernelFamily.h"
#include "compiler/graph/TnRare.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"

using namespace mlir;

namespace tenon::codegen::cpu {
namespace {

FamilyMatch matchHistogram(Region &region) {
  tn::HistogramOp histogram = onlyOp<tn::HistogramOp>(region.source);
  return histogram && isa<BlockArgument>(histogram.getX())
             ? FamilyMatch::take(histogram)
             : FamilyMatch::refuse("not a histogram of a buffer");
}

FailureOr<AffineExpr> lowerHistogram(KernelBuilder &kernel, Region &,
                                     const tn::HistogramOp &matched) {
  tn::HistogramOp histogram = matched;
  int64_t bits = histogram.getBits();
  tn::Dims dims = tn::getDims(histogram.getX().getType());
  Value x = kernel.input(0), counts = kernel.output(0);
  IndexMath outside(kernel.builder, kernel.location);
  forEach(outside, kernel.begin, kernel.end, 1, [&](const IndexMath &math, Value row) {
    Value none =
        arith::ConstantOp::create(math.builder, math.location, math.builder.getI32IntegerAttr(0));
    forEach(math, math.constant(0), math.constant(int64_t{1} << bits), 1,
            [&](const IndexMath &each, Value bin) {
              memref::StoreOp::create(each.builder, each.location, none, counts,
                                      ValueRange{row, bin});
            });
    forEach(math, math.constant(0), math.size(kernel, dims[1]), 1,
            [&](const IndexMath &each, Value i) {
              OpBuilder &b = each.builder;
              Location location = each.location;
              Value element = memref::LoadOp::create(b, location, x, ValueRange{row, i});
              Value bin = binOf(b, location, element, bits);
              Value count = memref::LoadOp::create(b, location, counts, ValueRange{row, bin});
              Value one = arith::ConstantOp::create(b, location, b.getI32IntegerAttr(1));
              Value more = arith::AddIOp::create(b, location, count, one);
              memref::StoreOp::create(b, location, more, counts, ValueRange{row, bin});
            });
  });
  return dims[0];
}

} // namespace

constexpr KernelFamily kHistogram = {.name = "histogram_rows",
                                     .what = "histograms: each grid point counts a row",
                                     .strategies = {dispatch::kSingle},
                                     .needs = {"histogram"},
                                     .match = matchHistogram,
                                     .emit = emitKernel<lowerHistogram>};

} // namespace tenon::codegen::cpu
