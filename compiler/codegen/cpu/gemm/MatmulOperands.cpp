// A matrix product's operands: where a batch's matrices lie, rows of A copied side by side, and
// panels of a B that is not packed at compile time.
#include "compiler/codegen/cpu/gemm/MatmulLowering.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;

namespace tenon::codegen::cpu {

/// Which of an operand's matrices belongs to a batch of the result.
Value MatmulLowering::batchOffset(const IndexMath &math, Value operand, Value batch) const {
  Value offset = math.constant(0), stride = math.constant(1), rest = batch;
  tn::Dims own = tn::getDims(operand.getType());
  own.resize(own.size() - 2);
  size_t missing = batchDims.size() - std::min(own.size(), batchDims.size());
  for (size_t i = batchDims.size(); i-- > missing;) {
    Value size = math.size(kernel, batchDims[i]);
    if (tn::constantDim(own[i - missing]) != 1) {
      Value index = i == 0 ? rest : math.rem(rest, size);
      offset = math.add(offset, math.mul(index, stride));
      stride = math.mul(stride, size);
    }
    rest = math.div(rest, size);
  }
  return offset;
}

/// The chunk's rows of A, side by side in k, with a stride that spreads them over the cache.
void MatmulLowering::packRows(const IndexMath &math, const GridPoint &point) {
  Range range = rowsOf(math, point);
  Value matrix = batchOffset(math, matmul.getA(), point.batch);
  Value a = math.asRows(inputOf(matmul.getA()));
  Value zero = math.constant(0);
  Value to = math.view(rowCopy, {zero, zero}, {range.count, depth});
  AffineExpr row = math.builder.getAffineDimExpr(0), column = math.builder.getAffineDimExpr(1);
  if (matmul.getTransposeA()) {
    Value from = math.view(a, {math.mul(matrix, depth), range.first}, {depth, range.count});
    copyElements(math, from, to, AffineMap::get(2, 0, {column, row}, context));
    return;
  }
  Value first = math.add(math.mul(matrix, rows), range.first);
  Value from = math.view(a, {first, zero}, {range.count, depth});
  copyElements(math, from, to, AffineMap::get(2, 0, {row, column}, context));
}

/// The same of elements of which a word holds several of a column; the last word is filled up with
/// zeros.
Value MatmulLowering::packWords(const IndexMath &math, Value matrix, Value first, Value count) {
  Value pointer = math.pointer(panelCopy, math.constant(0));
  bool isWhole = tn::constantDim(k).value_or(1) % perWord == 0;
  Value b = inputOf(matmul.getB());
  if (matmul.getTransposeB() && isWhole) {
    Value row = math.add(math.mul(matrix, columns), first);
    callPackTransposed(math, kernel.function(), math.pointer(b, math.mul(row, words)), words,
                       pointer, words, count);
    return pointer;
  }
  if (matmul.getTransposeB()) {
    copyWords(math, matrix, first, count);
    return pointer;
  }
  auto packRows = [&](const IndexMath &in) {
    Value start = in.add(in.mul(in.mul(matrix, depth), columns), first);
    callPackRows(in, kernel.function(), perWord, in.elementPointer(b, start), columns, pointer,
                 depth);
  };
  if (tn::constantDim(n).value_or(1) % kPanel == 0) {
    packRows(math);
    return pointer;
  }
  scf::IfOp::create(
      math.builder, math.location, math.isLess(count, math.constant(kPanel)),
      [&](OpBuilder &then, Location at) {
        copyWords(IndexMath(then, at), matrix, first, count);
        scf::YieldOp::create(then, at);
      },
      [&](OpBuilder &otherwise, Location at) {
        packRows(IndexMath(otherwise, at));
        scf::YieldOp::create(otherwise, at);
      });
  return pointer;
}

/// Of any panel, element by element.
void MatmulLowering::copyWords(const IndexMath &math, Value matrix, Value first, Value count) {
  Value zero = math.constant(0), wordSize = math.constant(perWord);
  Value b = inputOf(matmul.getB());
  clear(math, panelCopy);
  AffineExpr word = math.builder.getAffineDimExpr(0), column = math.builder.getAffineDimExpr(1);
  AffineExpr element = math.builder.getAffineDimExpr(2);
  // Whole words first, then the elements behind them.
  Value whole = math.div(depth, wordSize), begin = zero;
  for (bool isRest : {false, true}) {
    Value size = isRest ? math.sub(depth, begin) : math.mul(whole, wordSize);
    AffineExpr inDepth = isRest ? element : word * perWord + element;
    Value from = matmul.getTransposeB()
                     ? math.view(math.asRows(b),
                                 {math.add(math.mul(matrix, columns), first), begin}, {count, size})
                     : math.view(math.asRows(b), {math.add(math.mul(matrix, depth), begin), first},
                                 {size, count});
    Value to = isRest ? math.view(panelCopy, {whole, zero, zero}, {math.constant(1), count, size})
                      : math.view(panelCopy, {zero, zero, zero}, {whole, count, wordSize});
    SmallVector<AffineExpr> place = {inDepth, column};
    if (matmul.getTransposeB()) {
      std::swap(place[0], place[1]);
    }
    copyElements(math, from, to, AffineMap::get(3, 0, place, context));
    if (tn::constantDim(k).value_or(1) % perWord == 0) {
      break;
    }
    begin = size;
  }
}

/// One panel of B into scratch, its missing columns zero; the address of the panel.
Value MatmulLowering::packPanel(const IndexMath &math, const GridPoint &point) {
  Value matrix = batchOffset(math, matmul.getB(), point.batch);
  Value zero = math.constant(0);
  Value first = math.mul(point.panel, kPanel);
  Value count = math.min(math.constant(kPanel), math.sub(columns, first));
  std::optional<int64_t> constantColumns = tn::constantDim(n);
  bool isWhole = constantColumns && *constantColumns % kPanel == 0;
  if (perWord > 1) {
    return packWords(math, matrix, first, count);
  }
  Value pointer = math.pointer(panelCopy, zero);
  AffineMap identity = math.builder.getMultiDimIdentityMap(2);
  if (packedB) {
    Value from = math.view(math.asRows(packedB), {math.mul(point.panel, depth), zero},
                           {depth, math.constant(kPanel)});
    copyElements(math, from, panelCopy, identity);
    return pointer;
  }
  if (matmul.getTransposeB()) {
    Value row = math.add(math.mul(matrix, columns), first);
    Value from;
    if (wideRows) {
      Value rows = math.view(math.asRows(inputOf(matmul.getB())), {row, zero}, {count, depth});
      copyElements(math, rows, math.view(wideRows, {zero, zero}, {count, depth}), identity);
      from = math.pointer(wideRows, zero);
    } else {
      from = math.pointer(inputOf(matmul.getB()), math.mul(row, depth));
    }
    callPackTransposed(math, kernel.function(), from, depth, pointer, depth, count);
    return pointer;
  }
  if (isWhole) {
    count = math.constant(kPanel);
  } else {
    clear(math, panelCopy);
  }
  Value b = math.asRows(inputOf(matmul.getB()));
  Value from = math.view(b, {math.mul(matrix, depth), first}, {depth, count});
  Value to = math.view(panelCopy, {zero, zero}, {depth, count});
  copyElements(math, from, to, identity);
  return pointer;
}

Value MatmulLowering::rowsOfA(const IndexMath &math, const GridPoint &point) {
  if (rowCopy) {
    return math.pointer(rowCopy, math.constant(0));
  }
  Value matrix = batchOffset(math, matmul.getA(), point.batch);
  Value first = math.add(math.mul(matrix, rows), rowsOf(math, point).first);
  return math.pointer(inputOf(matmul.getA()), math.mul(first, words));
}

} // namespace tenon::codegen::cpu
