// Writes rows of tokens to their pages: one kernel for all writes of a region, which have the same
// slots (keys and values of a layer). Relies on no two slots being equal, and on pages being
// [page][head][position][column], row-major.
#include "compiler/codegen/common/math/ScalarBody.h"
#include "compiler/codegen/common/region/Failures.h"
#include "compiler/codegen/cuda/KernelFamily.h"
#include "compiler/codegen/cuda/base/WarpOps.h"
#include "compiler/codegen/cuda/scatter/Scatter.h"
#include "compiler/dispatch/Strategy.h"
#include "compiler/graph/TnRare.h"
#include "mlir/IR/TypeUtilities.h"

#include <numeric>

using namespace mlir;

namespace tenon::codegen::cuda {
namespace {

constexpr int64_t kMostBytes = 16;

/// One of keys or values: where rows come from and go to.
struct PageWrite {
  uint32_t cache = 0, x = 0, output = 0; ///< buffers of the region
  Type element;
  AffineExpr pages, heads, positions, width;

  /// Elements that a thread moves at once, and such strips of a row.
  int64_t lanes() const {
    return std::gcd(tn::constantDim(width).value_or(1), kMostBytes / byteSize(element));
  }
  AffineExpr strips() const { return width.floorDiv(lanes()); }
  AffineExpr bytes() const { return pages * heads * positions * width * byteSize(element); }
};

struct PageWrites {
  uint32_t slots = 0;
  AffineExpr tokens;
  SmallVector<PageWrite> writes;

  /// Strips of the writes before one.
  AffineExpr before(size_t number) const {
    AffineExpr count = tokens * 0;
    for (const PageWrite &write : ArrayRef(writes).take_front(number)) {
      count = count + tokens * write.heads * write.strips();
    }
    return count;
  }
};

FamilyMatch matchPagedWrite(RegionBuilder &region) {
  PageWrites all;
  Operation *end = region.source.getBody().front().getTerminator();
  for (auto [i, result] : llvm::enumerate(end->getOperands())) {
    tn::PagedWriteOp op = result.getDefiningOp<tn::PagedWriteOp>();
    if (!op || !llvm::all_of(op->getOperands(), llvm::IsaPred<BlockArgument>)) {
      return FamilyMatch::refuse("it is not writes to pages alone");
    }
    auto buffer = [&](Value operand) {
      return region.input(cast<BlockArgument>(operand).getArgNumber());
    };
    uint32_t slots = buffer(op.getSlots());
    if (i > 0 && slots != all.slots) {
      return FamilyMatch::refuse("writes to pages go to different slots");
    }
    all.slots = slots;
    all.tokens = tn::getDims(op.getX().getType())[0];
    tn::Dims dims = tn::getDims(op.getCache().getType());
    all.writes.push_back({buffer(op.getCache()), buffer(op.getX()),
                          region.output(static_cast<unsigned>(i)),
                          storageType(getElementTypeOrSelf(op.getCache().getType())), dims[0],
                          dims[1], dims[2], dims[3]});
  }
  return FamilyMatch::take(all, {kPagedWrite.name.str(), {}}, "");
}

double pagedWriteSeconds(RegionBuilder &region, const PageWrites &all,
                         const dispatch::KernelChoice &) {
  double bytes = 0;
  for (const PageWrite &write : all.writes) {
    bytes += 2 * double(region.estimate(all.tokens * write.heads * write.width)) *
             double(byteSize(write.element));
  }
  return bytes / region.gpu.memoryBandwidth + region.gpu.launchSeconds;
}

/// Moves strip `number` (i64) of a write from buffer `from` to buffer `to` of the kernel.
void moveStrip(const ThreadBuilder &t, KernelFrame &frame, const PageWrite &write, Value number,
               unsigned from, unsigned to) {
  Value strips = frame.size64(write.strips()), heads = frame.size64(write.heads);
  Value positions = frame.size64(write.positions), one = t.i64(1);
  Value row = t.div(number, strips), strip = t.rem(number, strips);
  Value token = t.div(row, heads), head = t.rem(row, heads);
  Value slot = t.load(t.i64Type(), t.offset(frame.buffer(0), t.i64Type(), token), 8);
  Value last = t.sub(t.mul(frame.size64(write.pages), positions), one);
  Value held = t.max(t.i64(-1), t.min(slot, last));
  held = require(t.builder, t.location, held, t.isEqual(held, slot), tn::Failure::index);
  Type type = write.lanes() == 1 ? write.element : t.vectorType(write.lanes(), write.element);
  unsigned bytes = write.lanes() * byteSize(write.element);
  Value strip0 = t.mul(number, write.lanes());
  Value moved = t.load(type, t.offset(frame.buffer(from), write.element, strip0), bytes);
  t.when(t.isLess(t.i64(-1), held), [&](const ThreadBuilder &b) {
    Value place = b.add(b.mul(b.div(held, positions), heads), head);
    place = b.add(b.mul(place, positions), b.rem(held, positions));
    place = b.add(b.mul(place, frame.size64(write.width)), b.mul(strip, write.lanes()));
    b.store(moved, b.offset(frame.buffer(to), write.element, place), bytes);
  });
}

LogicalResult emitPagedWrite(RegionBuilder &region, const PageWrites &all,
                             const dispatch::KernelChoice &) {
  unsigned count = all.writes.size();
  SmallVector<uint32_t> buffers = {all.slots};
  for (const PageWrite &write : all.writes) {
    emitDataCopy(region, write.cache, write.output, write.bytes());
    buffers.push_back(write.x);
  }
  for (const PageWrite &write : all.writes) {
    buffers.push_back(write.output);
  }
  emitForEach(region, buffers, 1 + count, all.before(count),
              [&](const ThreadBuilder &t, KernelFrame &frame, Value number) {
                for (unsigned i = 0; i < count; ++i) {
                  Value own = t.sub(number, frame.size64(all.before(i)));
                  auto move = [&](const ThreadBuilder &b) {
                    moveStrip(b, frame, all.writes[i], own, 1 + i, 1 + count + i);
                  };
                  Value end = frame.size64(all.before(i + 1));
                  Value isOwn = both(t, t.isLess(number, end), t.isLess(t.i64(-1), own));
                  t.when(isOwn, move);
                }
              });
  return success();
}

} // namespace

constexpr KernelFamily kPagedWrite = {
    .name = "paged_write",
    .what = "rows of tokens to the pages of keys and values, by one kernel for both",
    .strategies = {dispatch::kSingle},
    .needs = {"paged_write"},
    .match = matchPagedWrite,
    .seconds = on<pagedWriteSeconds>,
    .emit = on<emitPagedWrite>,
    .order = noSums<RegionBuilder>};

} // namespace tenon::codegen::cuda
