// Concatenation as copies: a grid point is a block of some rows and columns of the result, and gets
// of each operand what lies in it.
#include "compiler/codegen/cpu/base/IndexMath.h"
#include "compiler/codegen/cpu/base/KernelFamily.h"
#include "compiler/graph/Shape.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;

namespace tenon::codegen::cpu {
namespace {

/// Elements of a block.
constexpr int64_t kBlock = 8192;

/// A buffer as rows, each all that one step of the dims before the axis has.
Value rowsOf(const IndexMath &math, const KernelBuilder &kernel, Value buffer, Type type,
             size_t axis) {
  tn::Dims dims = tn::getDims(type);
  MLIRContext *context = type.getContext();
  AffineExpr rows = tn::elementCount(context, ArrayRef<AffineExpr>(dims).take_front(axis));
  AffineExpr columns = tn::elementCount(context, ArrayRef<AffineExpr>(dims).drop_front(axis));
  SmallVector<OpFoldResult> sizes = {getAsOpFoldResult(math.size(kernel, rows)),
                                     getAsOpFoldResult(math.size(kernel, columns))};
  return memrefAt(math.builder, math.location, math.pointer(buffer, math.constant(0)),
                  cast<MemRefType>(buffer.getType()).getElementType(), sizes);
}

FamilyMatch matchConcat(Region &region) {
  tn::ConcatOp concat = onlyOp<tn::ConcatOp>(region.source);
  return concat && llvm::all_of(concat.getXs(), llvm::IsaPred<BlockArgument>)
             ? FamilyMatch::take(concat)
             : FamilyMatch::refuse("not a concatenation of buffers");
}

FailureOr<AffineExpr> lowerConcat(KernelBuilder &kernel, Region &, const tn::ConcatOp &op) {
  tn::ConcatOp concat = op;
  MLIRContext *context = concat.getContext();
  size_t axis = concat.getAxis();
  tn::Dims dims = tn::getDims(concat.getY().getType());
  AffineExpr rows = tn::elementCount(context, ArrayRef<AffineExpr>(dims).take_front(axis));
  AffineExpr columns = tn::elementCount(context, ArrayRef<AffineExpr>(dims).drop_front(axis));
  int64_t rowLength = std::max<int64_t>(tn::constantDim(columns).value_or(kBlock), 1);
  int64_t blockRows = std::max<int64_t>(kBlock / rowLength, 1);
  IndexMath outside(kernel.builder, kernel.location);
  Value result = rowsOf(outside, kernel, kernel.output(0), concat.getY().getType(), axis);
  SmallVector<Value> operands;
  for (Value x : concat.getXs()) {
    Value buffer = kernel.input(cast<BlockArgument>(x).getArgNumber());
    operands.push_back(rowsOf(outside, kernel, buffer, x.getType(), axis));
  }
  AffineExpr across = columns.ceilDiv(kBlock);
  scf::ForOp::create(
      kernel.builder, kernel.location, kernel.begin, kernel.end, outside.constant(1), ValueRange(),
      [&](OpBuilder &b, Location location, Value point, ValueRange) {
        IndexMath math(b, location);
        Value blocks = math.size(kernel, across), zero = math.constant(0);
        Value row = math.mul(math.div(point, blocks), blockRows);
        Value count = math.min(math.constant(blockRows), math.sub(math.size(kernel, rows), row));
        Value low = math.mul(math.rem(point, blocks), kBlock);
        Value high = math.min(math.size(kernel, columns), math.add(low, math.constant(kBlock)));
        Value start = zero;
        for (auto [x, from] : llvm::zip(concat.getXs(), operands)) {
          tn::Dims own = tn::getDims(x.getType());
          AffineExpr length = tn::elementCount(context, ArrayRef<AffineExpr>(own).drop_front(axis));
          if (tn::constantDim(length) == 0) {
            continue;
          }
          Value width = math.size(kernel, length);
          Value end = math.add(start, width);
          Value first = math.min(math.max(low, start), end);
          Value last = math.max(math.min(high, end), first);
          Value part = math.sub(last, first);
          copyElements(math, math.view(from, {row, math.sub(first, start)}, {count, part}),
                       math.view(result, {row, first}, {count, part}), b.getMultiDimIdentityMap(2));
          start = end;
        }
        scf::YieldOp::create(b, location);
      });
  return rows.ceilDiv(blockRows) * across;
}

} // namespace

constexpr KernelFamily kConcatCopy = {.name = "concat_copy",
                                      .what = "concatenation as copies of blocks",
                                      .strategies = {dispatch::kSingle},
                                      .needs = {"concat"},
                                      .needsElements = true,
                                      .match = matchConcat,
                                      .emit = emitKernel<lowerConcat>,
                                      .order = noSums<Region>};

} // namespace tenon::codegen::cpu
