// Brings the partial results of attention split over keys together: a warp sums one row. Relies on
// the temporaries' layout as AttentionTensorCore.cpp writes them.
#include "compiler/codegen/cuda/attention/AttentionKernels.h"
#include "compiler/codegen/cuda/attention/Tuning.h"
#include "compiler/codegen/cuda/base/KernelFrame.h"

using namespace mlir;

namespace tenon::codegen::cuda {
namespace {

using tuning::kCombineRows;

/// Row number [batch][head][query] as an element offset in the result.
Value resultOffset(KernelFrame &frame, const ThreadBuilder &t, const AttentionProblem &p,
                   Value row) {
  Value queries = frame.size64(p.queries), heads = frame.size64(p.heads);
  Value list = t.div(row, queries);
  Value at =
      t.add(frame.size64(p.y.offset), t.mul(t.rem(row, queries), frame.size64(p.y.strides[2])));
  at = t.add(at, t.mul(t.rem(list, heads), frame.size64(p.y.strides[1])));
  return t.add(at, t.mul(t.div(list, heads), frame.size64(p.y.strides[0])));
}

} // namespace

Value totalDivisor(const ThreadBuilder &t, KernelFrame &frame, const AttentionProblem &p,
                   Value total) {
  if (!p.maskedRowsAreNan) {
    return t.maxF(total, t.f32(1e-30));
  }
  if (tn::constantDim(p.keys).value_or(0) > 0) {
    return total;
  }
  Value hasNoKeys = t.isEqual(frame.size32(p.keys), t.i32(0));
  return t.select(hasNoKeys, t.f32(1), total);
}

Value inverseTotal(const ThreadBuilder &t, KernelFrame &frame, const AttentionProblem &p,
                   Value total) {
  return t.divF(t.f32(1), totalDivisor(t, frame, p, total));
}

void emitAttentionCombine(RegionBuilder &region, const AttentionProblem &p, int64_t splits) {
  KernelFrame frame(region, {p.firstTemporary, p.firstTemporary + 1, p.y.buffer}, 2,
                    kCombineRows * kWarp);
  ThreadBuilder t = frame.code();
  AffineExpr rowCount = p.batches * p.heads * p.queries;
  int64_t width = *tn::constantDim(p.valueWidth);
  Type real = t.f32Type(), pairType = t.vectorType(2, real);
  Value rows = frame.size64(rowCount);
  Value row = t.toI64(t.add(t.mul(t.block(), kCombineRows), t.div(t.thread(), kWarp)));
  t.when(t.isLess(row, rows), [&](const ThreadBuilder &b) {
    Value factor = b.f32(weightExponent(p)), maximum, total = b.f32(0);
    SmallVector<Value> places, weights, totals;
    for (int64_t s = 0; s < splits; ++s) {
      places.push_back(b.add(row, b.mul(rows, s)));
      Value mark = b.load(pairType, b.offset(frame.buffer(1), real, b.mul(places[s], 2)), 8);
      weights.push_back(b.extract(mark, 0));
      totals.push_back(b.extract(mark, 1));
      maximum = maximum ? b.maxF(maximum, weights[s]) : weights[s];
    }
    for (int64_t s = 0; s < splits; ++s) {
      weights[s] = b.exp2(b.mulF(b.subF(weights[s], maximum), factor));
      total = b.fma(totals[s], weights[s], total);
    }
    Value inverse = inverseTotal(b, frame, p, total);
    Value to = b.offset(frame.buffer(2), p.y.element, resultOffset(frame, b, p, row));
    for (int64_t first = 0; first < width; first += kWarp * 2) {
      Value column = b.add(b.mul(b.lane(), 2), first);
      auto store = [&](const ThreadBuilder &c) {
        Value low = c.f32(0), high = low;
        for (int64_t s = 0; s < splits; ++s) {
          Value at = c.add(c.mul(places[s], width), c.toI64(column));
          Value pair = c.load(pairType, c.offset(frame.buffer(0), real, at), 8);
          low = c.fma(c.extract(pair, 0), weights[s], low);
          high = c.fma(c.extract(pair, 1), weights[s], high);
        }
        Value pair = c.packPair(p.y.element, c.mulF(low, inverse), c.mulF(high, inverse));
        c.store(pair, c.offset(to, p.y.element, column), 4);
      };
      if (first + kWarp * 2 <= width) {
        store(b);
      } else {
        b.when(b.isLess(column, b.i32(width)), store);
      }
    }
  });
  frame.finish(rowCount.ceilDiv(kCombineRows));
}

} // namespace tenon::codegen::cuda
