// Linear and cubic resampling of the innermost dims, one after the other: the rows that a row of
// the result is made of are added up as they lie, then each of its elements gathers its taps from
// that sum, which is in the first-level cache. The tables of taps are computed once a call.
#include "compiler/codegen/common/lower/Resize.h"

#include "compiler/codegen/common/lower/Reduce.h"
#include "compiler/codegen/common/math/ScalarBody.h"
#include "compiler/codegen/cpu/base/KernelFamily.h"
#include "compiler/codegen/cpu/gemm/Contraction.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Bufferization/IR/Bufferization.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;

namespace tenon::codegen::cpu {
namespace {

class ResizeLowering {
public:
  ResizeLowering(KernelBuilder &kernel, tn::ResizeOp op)
      : kernel(kernel), op(op), element(getElementTypeOrSelf(op.getX())), real(realOf(element)),
        in(tn::getDims(op.getX().getType())), out(tn::getDims(op.getY().getType())) {}

  FailureOr<AffineExpr> lower();

private:
  using BodyFn = llvm::function_ref<Value(OpBuilder &, Location, ValueRange)>;
  void generic(const IndexMath &math, ValueRange inputs, Value output, ArrayRef<AffineMap> maps,
               bool reduces, BodyFn body) const;
  Value weighted(OpBuilder &b, Location location, Value weight, Value x, Value sum) const;
  LogicalResult makeTables(size_t dim, ResizeTables &tables);
  void addRows(const IndexMath &math, Value plane, Value row);
  void gatherTaps(const IndexMath &math);
  Value rowOf(const IndexMath &math, Value buffer, ArrayRef<AffineExpr> dims, Value plane,
              Value row) const;

  KernelBuilder &kernel;
  tn::ResizeOp op;
  Type element, real;
  tn::Dims in, out;
  ResizeTables rows, columns; ///< of the last two dims, as memrefs
  Value sums;                 ///< [columns of the data]: rows added up
  Value results;              ///< [columns of the result]
};

void ResizeLowering::generic(const IndexMath &math, ValueRange inputs, Value output,
                             ArrayRef<AffineMap> maps, bool reduces, BodyFn body) const {
  SmallVector<utils::IteratorType> loops = {utils::IteratorType::parallel};
  if (reduces) {
    loops.push_back(utils::IteratorType::reduction);
  }
  linalg::GenericOp::create(math.builder, math.location, inputs, ValueRange{output}, maps, loops,
                            [&](OpBuilder &b, Location location, ValueRange elements) {
                              linalg::YieldOp::create(b, location, body(b, location, elements));
                            });
}

/// sum + weight * x; a weight of zero takes no NaN or infinity along.
Value ResizeLowering::weighted(OpBuilder &b, Location location, Value weight, Value x,
                               Value sum) const {
  Value zero = arith::ConstantOp::create(b, location, b.getZeroAttr(real));
  Value isNone = arith::CmpFOp::create(b, location, arith::CmpFPredicate::OEQ, weight, zero);
  Value product = arith::MulFOp::create(b, location, weight, x);
  Value part = arith::SelectOp::create(b, location, isNone, zero, product);
  return arith::AddFOp::create(b, location, sum, part);
}

LogicalResult ResizeLowering::makeTables(size_t dim, ResizeTables &tables) {
  Lowering lowering(kernel.builder, kernel.location, kernel.symbols);
  std::optional<ResizeTables> made = makeResizeTables(lowering, op, dim, real);
  if (!made) {
    return failure();
  }
  for (auto [tensor, memref] :
       {std::pair(made->positions, &tables.positions), std::pair(made->weights, &tables.weights)}) {
    if (tensor) {
      RankedTensorType type = cast<RankedTensorType>(tensor.getType());
      *memref = bufferization::ToBufferOp::create(
          kernel.builder, kernel.location, MemRefType::get(type.getShape(), type.getElementType()),
          tensor, /*read_only=*/true);
    }
  }
  return success();
}

/// One row of a buffer as a line.
Value ResizeLowering::rowOf(const IndexMath &math, Value buffer, ArrayRef<AffineExpr> dims,
                            Value plane, Value row) const {
  Value height = math.size(kernel, dims[dims.size() - 2]);
  Value width = math.size(kernel, dims.back());
  Value start = math.mul(math.add(math.mul(plane, height), row), width);
  return math.view(math.asLine(buffer), {start}, {width});
}

/// The data's rows that a row of the result reads, weighted and added up.
void ResizeLowering::addRows(const IndexMath &math, Value plane, Value row) {
  AffineMap line = math.builder.getMultiDimIdentityMap(1);
  if (!rows.weights) {
    Value from = rowOf(math, kernel.input(0), in, plane, row);
    return generic(math, from, sums, {line, line}, /*reduces=*/false,
                   [&](OpBuilder &b, Location location, ValueRange elements) {
                     return toReal(b, location, element, real, elements[0]);
                   });
  }
  clear(math, sums);
  Value taps = math.builder.createOrFold<memref::DimOp>(math.location, rows.weights, 0);
  scf::ForOp::create(
      math.builder, math.location, math.constant(0), taps, math.constant(1), ValueRange(),
      [&](OpBuilder &b, Location location, Value tap, ValueRange) {
        IndexMath inner(b, location);
        Value weight = memref::LoadOp::create(b, location, rows.weights, ValueRange{tap, row});
        Value place = memref::LoadOp::create(b, location, rows.positions, ValueRange{tap, row});
        place = arith::IndexCastOp::create(b, location, b.getIndexType(), place);
        Value from = rowOf(inner, kernel.input(0), in, plane, place);
        generic(inner, from, sums, {line, line}, /*reduces=*/false,
                [&](OpBuilder &body, Location, ValueRange elements) {
                  Value x = toReal(body, location, element, real, elements[0]);
                  return weighted(body, location, weight, x, elements[1]);
                });
        scf::YieldOp::create(b, location);
      });
}

void ResizeLowering::gatherTaps(const IndexMath &math) {
  AffineExpr column = math.builder.getAffineDimExpr(0), tap = math.builder.getAffineDimExpr(1);
  MLIRContext *context = op.getContext();
  AffineMap table = AffineMap::get(2, 0, {tap, column}, context);
  AffineMap line = AffineMap::get(2, 0, column);
  clear(math, results);
  generic(math, {columns.weights, columns.positions}, results, {table, table, line},
          /*reduces=*/true, [&](OpBuilder &b, Location location, ValueRange elements) {
            Value place = arith::IndexCastOp::create(b, location, b.getIndexType(), elements[1]);
            Value x = memref::LoadOp::create(b, location, sums, place);
            return weighted(b, location, elements[0], x, elements[2]);
          });
}

FailureOr<AffineExpr> ResizeLowering::lower() {
  IndexMath outside(kernel.builder, kernel.location);
  size_t rank = out.size();
  if (failed(makeTables(rank - 2, rows)) || failed(makeTables(rank - 1, columns))) {
    return failure();
  }
  sums = allocate(kernel, {outside.size(kernel, in.back())}, real);
  if (columns.weights) {
    results = allocate(kernel, {outside.size(kernel, out.back())}, real);
  }
  scf::ForOp::create(kernel.builder, kernel.location, kernel.begin, kernel.end, outside.constant(1),
                     ValueRange(), [&](OpBuilder &b, Location location, Value point, ValueRange) {
                       IndexMath math(b, location);
                       Value height = math.size(kernel, out[rank - 2]);
                       Value plane = math.div(point, height), row = math.rem(point, height);
                       addRows(math, plane, row);
                       if (columns.weights) {
                         gatherTaps(math);
                       }
                       AffineMap line = b.getMultiDimIdentityMap(1);
                       generic(math, columns.weights ? results : sums,
                               rowOf(math, kernel.output(0), out, plane, row), {line, line},
                               /*reduces=*/false,
                               [&](OpBuilder &body, Location, ValueRange elements) {
                                 return fromReal(body, location, element, elements[0]);
                               });
                       scf::YieldOp::create(b, location);
                     });
  return tn::elementCount(op.getContext(), ArrayRef<AffineExpr>(out).drop_back());
}

/// Linear or cubic, of at most the last two dims.
bool isRowResize(tn::ResizeOp resize) {
  if (resize.getMode() == tn::ResizeMode::nearest ||
      resize.getCoordinates() == "tf_crop_and_resize") {
    return false;
  }
  tn::Dims in = tn::getDims(resize.getX().getType()), out = tn::getDims(resize.getY().getType());
  if (in.size() < 2 || llvm::any_of(in, [](AffineExpr dim) { return tn::constantDim(dim) == 0; })) {
    return false;
  }
  for (size_t i = 0; i + 2 < in.size(); ++i) {
    if (!tn::sameDim(in[i], out[i]) || resize.getScales()[i] != 1) {
      return false;
    }
  }
  return true;
}

FamilyMatch matchResize(Region &region) {
  tn::ResizeOp resize = onlyOp<tn::ResizeOp>(region.source);
  return resize && isRowResize(resize)
             ? FamilyMatch::take(resize)
             : FamilyMatch::refuse("not a linear or cubic resize of the last two dims");
}

FailureOr<AffineExpr> lowerResize(KernelBuilder &kernel, Region &, const tn::ResizeOp &resize) {
  return ResizeLowering(kernel, resize).lower();
}

} // namespace

constexpr KernelFamily kResizeRows = {
    .name = "resize_rows",
    .what = "separable resampling: rows added up, then the taps of each column",
    .strategies = {dispatch::kSingle},
    .needs = {"resize"},
    .needsElements = true,
    .match = matchResize,
    .emit = emitKernel<lowerResize>};

} // namespace tenon::codegen::cpu
