// What the flash kernel reads of its mask: the elements of a tile, and where the last key is that a
// step of decoding has to read. Relies on all rows of a block having the same mask for the latter.
#include "compiler/codegen/cuda/attention/AttentionFlash.h"
#include "compiler/codegen/cuda/attention/Tuning.h"

using namespace mlir;

namespace tenon::codegen::cuda {
namespace {

using Values = ThreadBuilder::Values;

/// A mask at or below it keeps a key from being seen, unless all keys have such a mask. Next to a
/// key with more the probability of such a key is 0 in f32, whatever their scores.
constexpr double kUnseen = -1e30;

} // namespace

Value FlashKernel::maskAt(const ThreadBuilder &t, const Row &row, Value key, bool isEdge) const {
  Value at = isEdge ? t.min(key, t.sub(frame.size32(p.keys), t.i32(1))) : key;
  at = t.mul(t.toI64(at), frame.size64(p.mask->strides[3]));
  unsigned bytes = p.mask->element.getIntOrFloatBitWidth() / 8;
  return t.toF32(t.load(p.mask->element, t.offset(row.maskPointer, p.mask->element, at), bytes));
}

/// The mask of the warp's keys that the thread has scores of, if all rows share it and there are
/// registers for it while the keys are waited for; else nothing.
Values FlashKernel::sharedMask(const ThreadBuilder &t, Value firstKey, bool isEdge) const {
  Values mask;
  if (tile.keyWarps > 1 && sharesMask(p, tile.joinsHeads)) {
    Value first = t.add(t.add(firstKey, t.mul(keyWarp, warpKeys)), laneColumn);
    for (int64_t column = 0; column < warpKeys / 8 * 2; ++column) {
      mask.push_back(maskAt(t, placed[0][0], t.add(first, column / 2 * 8 + column % 2), isEdge));
    }
  }
  return mask;
}

/// Elements of the mask in one load: 16 bytes, or one where its rows are not aligned.
int64_t FlashShape::maskLanes() const {
  const StridedTensor &mask = *p.mask;
  int64_t lanes = 128 / mask.element.getIntOrFloatBitWidth();
  auto isAligned = [&](AffineExpr places) { return places.isMultipleOf(lanes); };
  bool isWide = tn::constantDim(mask.strides[3]) == 1 && isAligned(p.keys) &&
                isAligned(mask.offset) &&
                llvm::all_of(ArrayRef(mask.strides).take_front(3), isAligned);
  return isWide ? lanes : 1;
}

/// The thread's piece of those that begin with key `first`; past the last key it is the last piece.
FlashKernel::MaskPiece FlashKernel::loadMask(const ThreadBuilder &t, Value first) const {
  const StridedTensor &mask = *p.mask;
  int64_t lanes = maskLanes(), bytes = mask.element.getIntOrFloatBitWidth() / 8;
  Value last = t.sub(frame.size32(p.keys), t.i32(lanes));
  Value key = t.min(t.add(t.mul(t.thread(), lanes), first), last);
  Value at = t.mul(t.toI64(key), frame.size64(mask.strides[3]));
  Type type = lanes > 1 ? t.vectorType(lanes, mask.element) : mask.element;
  Value values = t.load(type, t.offset(placed[0][0].maskPointer, mask.element, at), lanes * bytes);
  return {values, t.add(key, lanes)};
}

/// The thread's pieces of the first keys; of keys whose number varies as many as there may be.
SmallVector<FlashKernel::MaskPiece> FlashKernel::firstPieces(const ThreadBuilder &t) const {
  int64_t lanes = maskLanes(), stride = tile.threads() * lanes;
  int64_t most = (lanes == 1 ? tuning::kMaskElements : tuning::kMaskPieces) * stride;
  SmallVector<MaskPiece> pieces;
  for (int64_t first = 0; first < std::min(tn::constantDim(p.keys).value_or(most), most);
       first += stride) {
    pieces.push_back(loadMask(t, t.i32(first)));
  }
  return pieces;
}

/// `end`, or the end of a later piece that lets a key through.
Value FlashKernel::seenEnd(const ThreadBuilder &t, const MaskPiece &piece, Value end) const {
  Value highest;
  for (int64_t lane = 0; lane < maskLanes(); ++lane) {
    Value element = t.toF32(maskLanes() > 1 ? t.extract(piece.values, lane) : piece.values);
    highest = highest ? t.maxF(highest, element) : element;
  }
  return t.select(t.isLessF(t.f32(kUnseen), highest), piece.end, end);
}

/// Brings the end of the tiles to the last key that the mask lets through. Where it lets none
/// through, all keys count: the probabilities of a row whose scores are all as low are not zeros.
void FlashKernel::endAtMask(const ThreadBuilder &t, ArrayRef<MaskPiece> pieces) {
  Value end = t.i32(0), keys = frame.size32(p.keys);
  int64_t stride = tile.threads() * maskLanes();
  for (const MaskPiece &piece : pieces) {
    end = seenEnd(t, piece, end);
  }
  end = t.loop(t.i32(pieces.size() * stride), keys, t.i32(stride), end,
               [&](const ThreadBuilder &b, Value first, ValueRange before) -> Values {
                 return {seenEnd(b, loadMask(b, first), before[0])};
               })[0];
  for (int64_t distance = 1; distance < kWarp; distance *= 2) {
    end = t.max(end, t.shuffleXor(end, distance));
  }
  Value marks = t.offset(shared, t.builder.getI8Type(), marksOffset());
  t.store(end, t.offset(marks, t.i32Type(), t.div(t.thread(), kWarp)), 4);
  t.barrier();
  for (int64_t i = 0; i < tile.threads() / kWarp; ++i) {
    end = t.max(end, t.load(t.i32Type(), t.offset(marks, t.i32Type(), i), 4));
  }
  end = t.select(t.isEqual(end, t.i32(0)), keys, end);
  tilesEnd = t.min(tilesEnd, t.ceilDiv(end, tile.keys));
  fullEnd = t.min(fullEnd, tilesEnd);
}

} // namespace tenon::codegen::cuda
