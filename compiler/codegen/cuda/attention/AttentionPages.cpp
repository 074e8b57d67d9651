// Places in sequences and pages. Relies on pages being [page][head][position][column], row-major.
#include "compiler/codegen/cuda/attention/AttentionPages.h"

#include "compiler/codegen/common/region/Failures.h"
#include "compiler/codegen/common/region/GivenArgument.h"
#include "compiler/codegen/cuda/base/WarpOps.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

using namespace mlir;

namespace tenon::codegen::cuda {
namespace {

using Values = ThreadBuilder::Values;

constexpr double kPagesLog2E = 1.4426950408889634;
/// By which differences of numbers of tokens and sequences are made positive.
constexpr int64_t kMostSequences = int64_t(1) << 20;

/// Positions of the tables among a kernel's buffers.
unsigned pagesPosition(const AttentionProblem &p) { return p.reads() - 3; }
unsigned startsPosition(const AttentionProblem &p) { return p.reads() - 2; }
unsigned lengthsPosition(const AttentionProblem &p) { return p.reads() - 1; }

/// An entry of a table, as an i32 that keeps what is out of its range out of it.
Value entryAt(const ThreadBuilder &t, KernelFrame &frame, unsigned position, Value at) {
  Value entry = t.load(t.i64Type(), t.offset(frame.buffer(position), t.i64Type(), at), 8);
  constexpr int64_t most = int64_t(1) << 30;
  return t.toI32(t.max(t.min(entry, t.i64(most)), t.i64(-1)));
}

/// The i32 of a lane.
Value entryOf(const ThreadBuilder &t, Value entry, Value lane) {
  return NVVM::ShflOp::create(t.builder, t.location, entry.getType(), t.i32(-1), entry, lane,
                              t.i32(kWarp - 1), NVVM::ShflKind::idx, UnitAttr());
}

/// Whole tokens of a block of rows.
int64_t tokensOfBlock(int64_t rows, int64_t rowsOfToken) {
  return std::max<int64_t>(1, rows / rowsOfToken);
}

} // namespace

MatchResult<AttentionProblem> matchPagedAttention(func::FuncOp region) {
  auto ops = region.getOps<tn::PagedAttentionOp>();
  if (!llvm::hasSingleElement(ops) || region.getNumResults() != 1) {
    return MatchFailure{"it is not one attention over pages with one result"};
  }
  tn::PagedAttentionOp op = *ops.begin();
  Operation *end = region.getBody().front().getTerminator();
  if (end->getOperand(0) != op.getY() ||
      !llvm::all_of(op->getOperands(), llvm::IsaPred<BlockArgument>)) {
    return MatchFailure{
        "operands or the result of attention over pages are computed in the region"};
  }
  MLIRContext *context = op->getContext();
  tn::Dims q = tn::getDims(op.getQ().getType()), keys = tn::getDims(op.getKeys().getType()),
           values = tn::getDims(op.getValues().getType()),
           table = tn::getDims(op.getPages().getType());
  std::optional<int64_t> page = tn::constantDim(keys[2]);
  if (!page || !tn::constantDim(q[1]) || !tn::constantDim(keys[1])) {
    return MatchFailure{"pages of positions, or heads, whose number varies"};
  }
  auto numberOf = [](Value operand) { return cast<BlockArgument>(operand).getArgNumber(); };
  auto rows = [&](uint32_t buffer, Value value, ArrayRef<AffineExpr> strides) {
    return StridedTensor{buffer, getElementTypeOrSelf(value.getType()),
                         getAffineConstantExpr(0, context), tn::Dims(strides)};
  };
  AffineExpr one = getAffineConstantExpr(1, context);
  auto tokens = [&](uint32_t buffer, Value value) {
    tn::Dims dims = tn::getDims(value.getType());
    AffineExpr token = dims[1] * dims[2];
    return rows(buffer, value, {token, dims[2], token, one});
  };
  auto pages = [&](Value value) {
    tn::Dims dims = tn::getDims(value.getType());
    AffineExpr head = dims[2] * dims[3];
    return rows(numberOf(value), value, {dims[1] * head, head, dims[3], one});
  };
  AttentionProblem problem;
  problem.q = tokens(numberOf(op.getQ()), op.getQ());
  problem.k = pages(op.getKeys());
  problem.v = pages(op.getValues());
  problem.y = tokens(region.getNumArguments(), op.getY());
  problem.batches = one;
  problem.heads = q[1];
  problem.keyHeads = keys[1];
  problem.queries = q[0];
  problem.keys = table[1] * keys[2];
  problem.width = q[2];
  problem.valueWidth = values[3];
  problem.scale = op.getScale().convertToDouble();
  problem.softcap = op.getSoftcap().convertToDouble();
  problem.causal = true;
  problem.window = op.getWindow();
  bool areGiven = llvm::all_of(op->getOperands().take_back(3), [&](Value table) {
    return region.getArgAttr(numberOf(table), kGivenArgument) != nullptr;
  });
  problem.sequences = Sequences{numberOf(op.getPages()),
                                numberOf(op.getStarts()),
                                numberOf(op.getLengths()),
                                table[0],
                                table[1],
                                keys[0],
                                *page,
                                areGiven};
  problem.firstTemporary = region.getNumArguments() + region.getNumResults();
  return problem;
}

AffineExpr rowBlocksOf(const AttentionProblem &p, int64_t rows, int64_t rowsOfToken) {
  AffineExpr sequences = p.sequences->count;
  return sequences + (p.queries - sequences).floorDiv(tokensOfBlock(rows, rowsOfToken));
}

SequencePlace placeInSequence(const ThreadBuilder &t, KernelFrame &frame, const AttentionProblem &p,
                              Value number, int64_t rows, int64_t rowsOfToken) {
  const Sequences &all = *p.sequences;
  Value count = frame.size32(all.count), last = t.sub(count, t.i32(1)), zero = t.i32(0);
  Value tokens = frame.size32(p.queries);
  int64_t together = tokensOfBlock(rows, rowsOfToken);
  auto firstBlock = [&](const ThreadBuilder &b, Value sequence, Value first) {
    // A quotient of what may be negative, rounded down.
    Value held = b.max(b.min(first, tokens), zero);
    Value more = b.add(b.sub(held, sequence), kMostSequences * together);
    return b.sub(b.add(sequence, b.div(more, together)), b.i32(kMostSequences));
  };
  // A lane looks at a sequence: the last one that begins at the block or before it has it.
  Values found =
      t.loop(zero, count, t.i32(kWarp), {zero, zero, zero, zero},
             [&](const ThreadBuilder &b, Value chunk, ValueRange before) -> Values {
               Value own = b.add(chunk, b.lane()), held = b.min(own, last);
               Values entries = {entryAt(b, frame, startsPosition(p), held),
                                 entryAt(b, frame, startsPosition(p), b.add(held, 1)),
                                 entryAt(b, frame, lengthsPosition(p), held)};
               Value begin = firstBlock(b, held, entries[0]);
               Value isBegun = both(b, b.isLess(own, count), b.isLess(begin, b.add(number, 1)));
               Value begun = bitCount(b, ballot(b, isBegun)), isHere = b.isLess(zero, begun);
               Value lane = b.max(b.sub(begun, b.i32(1)), zero);
               Values after = {b.select(isHere, b.add(chunk, lane), before[0])};
               for (auto [entry, old] : llvm::zip(entries, before.drop_front())) {
                 after.push_back(b.select(isHere, entryOf(b, entry, lane), old));
               }
               return after;
             });
  SequencePlace place;
  place.sequence = found[0];
  Value first = found[1], next = found[2], length = found[3];
  Value own = t.sub(next, first), most = frame.size32(p.keys);
  auto isAtMost = [&](Value a, Value b) { return t.isLess(a, t.add(b, 1)); };
  Value fits = both(t, isAtMost(zero, first), isAtMost(first, next));
  fits = both(t, fits, both(t, isAtMost(next, tokens), isAtMost(length, most)));
  fits = both(t, fits, isAtMost(own, length));
  place.tokens =
      require(t.builder, t.location, t.select(fits, own, zero), fits, tn::Failure::index);
  place.firstToken = t.max(zero, t.min(first, t.sub(tokens, t.i32(1))));
  place.length = t.select(fits, length, zero);
  place.rowBlock = t.max(zero, t.sub(number, firstBlock(t, place.sequence, first)));
  return place;
}

Value pageOf(const ThreadBuilder &t, KernelFrame &frame, const AttentionProblem &p, Value sequence,
             Value key, Value length) {
  const Sequences &all = *p.sequences;
  Value last = t.max(t.sub(length, t.i32(1)), t.i32(0));
  Value at = t.add(t.mul(t.toI64(sequence), frame.size64(all.table)),
                   t.toI64(t.div(t.min(key, last), all.page)));
  Value page = t.load(t.i64Type(), t.offset(frame.buffer(pagesPosition(p)), t.i64Type(), at), 8);
  Value held = t.max(t.i64(0), t.min(page, t.sub(frame.size64(all.pageCount), t.i64(1))));
  // A sequence without positions has no pages.
  Value isRight = either(t, t.isEqual(held, page), t.isLess(length, t.i32(1)));
  return require(t.builder, t.location, held, isRight, tn::Failure::index);
}

void clearRest(const ThreadBuilder &t, KernelFrame &frame, const AttentionProblem &p, Value block,
               Value blocks, Value firstHead, int64_t heads, int64_t threads) {
  Value end = entryAt(t, frame, startsPosition(p), frame.size32(p.sequences->count));
  int64_t columns = heads * *tn::constantDim(p.valueWidth);
  unsigned bytes = p.y.element.getIntOrFloatBitWidth() / 8;
  t.loop(t.add(t.max(end, t.i32(0)), block), frame.size32(p.queries), blocks, {},
         [&](const ThreadBuilder &b, Value token, ValueRange) -> Values {
           Value to = pointerTo(b, frame, p.reads(), p.y, {token, firstHead});
           b.loop(b.thread(), b.i32(columns), b.i32(threads), {},
                  [&](const ThreadBuilder &c, Value column, ValueRange) -> Values {
                    Value nothing = c.fromF32(p.y.element, c.f32(0));
                    c.store(nothing, c.offset(to, p.y.element, column), bytes);
                    return {};
                  });
           return {};
         });
}

Value cappedScore(const ThreadBuilder &t, Value dot, const AttentionProblem &p) {
  // tanh(x) is 1 - 2 / (e^2x + 1).
  Value power = t.exp2(t.mulF(dot, t.f32(2 * kPagesLog2E * p.scale / p.softcap)));
  Value quotient = t.divF(t.f32(2 * p.softcap), t.addF(power, t.f32(1)));
  return t.subF(t.f32(p.softcap), quotient);
}

} // namespace tenon::codegen::cuda
