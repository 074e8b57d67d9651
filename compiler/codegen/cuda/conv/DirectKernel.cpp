// The kernel of direct convolutions. A block keeps the filter of its channels in shared memory and
// goes from tile to tile of the pictures: the input under the next one is on its way while warps
// multiply. A lane names the pixels that it wants of ldmatrix one by one, so windows are read where
// they lie. Relies on 16 bytes being eight channels of one pixel, or four of two. One file: copies,
// products and results read the same places of shared memory.
#include "compiler/codegen/common/region/RegionSource.h"
#include "compiler/codegen/cuda/base/ElementEmitter.h"
#include "compiler/codegen/cuda/base/TensorCore.h"
#include "compiler/codegen/cuda/conv/ConvFilter.h"
#include "compiler/codegen/cuda/conv/DirectConv.h"
#include "compiler/codegen/cuda/gemm/EpilogueStore.h"
#include "compiler/codegen/cuda/gemm/TileLoader.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;

namespace tenon::codegen::cuda {
namespace {

using Values = ThreadBuilder::Values;

constexpr int64_t kOctet = 8;

class DirectKernel {
public:
  DirectKernel(RegionBuilder &region, const ConvProblem &problem, const DirectTile &tile)
      : kernel(region, tile.threads()), emitter(kernel), math(kernel.math), p(problem), tile(tile),
        layout(problem, tile), element(problem.element()),
        stored(IntegerType::get(element.getContext(), 16)) {}

  bool run();

private:
  /// A tile of the result: its image, and its first position.
  struct Spot {
    Value image, row, column;
  };
  /// What a warp multiplies at a time: 16 * warpTiles positions from `first` on, and the channels
  /// from `channel` on of the block's.
  struct Piece {
    Value first, channel;
  };
  /// Products beside each other of whose columns a lane has neighbours.
  struct Part {
    int64_t first, count;
  };

  void place();
  void copyFilter(const ThreadBuilder &t);
  void copyInput(const ThreadBuilder &t, Value number, Value stage);
  Spot spotOf(const ThreadBuilder &t, Value number) const;
  Value columnOf(const ThreadBuilder &t, Value line) const;
  void multiplySegment(const ThreadBuilder &t, ArrayRef<Value> pixels, Value lines, Value lastLines,
                       Values &sums) const;
  Values multiplyPiece(const ThreadBuilder &t, const Piece &piece, Value stage) const;
  void storePiece(const ThreadBuilder &t, const Spot &spot, const Piece &piece, ValueRange sums);
  void goThroughPieces(const ThreadBuilder &t, const Spot &spot, Value stage);
  SmallVector<Part> parts() const;
  Value at(const ThreadBuilder &t, Value octet) const {
    return t.offset(shared, stored, t.mul(octet, kOctet));
  }
  Value isBelow(const ThreadBuilder &t, Value a, Value b) const {
    return t.builder.createOrFold<arith::CmpIOp>(t.location, arith::CmpIPredicate::ult, a, b);
  }
  int64_t products() const { return tile.warpWidth / kMmaColumns; }
  int64_t inputStart() const { return 1 + layout.filterOctets; }

  KernelFrame kernel;
  ElementEmitter emitter;
  IndexMath &math;
  const ConvProblem &p;
  const DirectTile &tile;
  const DirectLayout layout;
  Type element, stored;
  GemmTensors tensors;

  Value thread, shared, input, filter;
  Value outRows, outColumns, inRows, inColumns, imageStride, rowStride, columnStride;
  Value rowTiles, columnTiles, tiles, firstTile, firstChannel;
};

SmallVector<DirectKernel::Part> DirectKernel::parts() const {
  SmallVector<Part> parts;
  for (int64_t first = 0; first < products();) {
    int64_t count = 4;
    while (count > products() - first) {
      count /= 2;
    }
    parts.push_back({first, count});
    first += count;
  }
  return parts;
}

void DirectKernel::place() {
  ThreadBuilder t = kernel.code();
  thread = t.thread();
  shared = kernel.dynamicShared();
  input = kernel.pointer(p.x.buffer, /*isWritten=*/false);
  filter = kernel.pointer(p.filter.buffer, /*isWritten=*/false);
  ArrayRef<AffineExpr> rowDims = p.product.rowDims;
  outRows = kernel.size32(rowDims[1]);
  outColumns = kernel.size32(rowDims[2]);
  inRows = kernel.size32(p.dims[0].in);
  inColumns = kernel.size32(p.dims[1].in);
  imageStride = kernel.size64(p.x.strides[0]);
  rowStride = kernel.size32(p.x.strides[1]);
  columnStride = kernel.size32(p.x.strides[2]);
  rowTiles = kernel.size32(rowDims[1].ceilDiv(tile.rows));
  columnTiles = kernel.size32(rowDims[2].ceilDiv(tile.columns));
  tiles = t.mul(kernel.size32(rowDims[0]), t.mul(rowTiles, columnTiles));
  firstTile = t.div(t.block(), layout.slabs);
  firstChannel = t.mul(t.rem(t.block(), layout.slabs), tile.width);
  Value zeros = t.pack(Values(4, t.i32(0)));
  t.when(t.isEqual(thread, t.i32(0)), [&](const ThreadBuilder &c) { c.store(zeros, shared, 16); });
}

DirectKernel::Spot DirectKernel::spotOf(const ThreadBuilder &t, Value number) const {
  Value row = t.div(number, columnTiles);
  return {t.div(row, rowTiles), t.mul(t.rem(row, rowTiles), tile.rows),
          t.mul(t.rem(number, columnTiles), tile.columns)};
}

/// The channel, of the block's, whose filter stands at a line. mma gives lane 4 g + q columns 2 q
/// and 2 q + 1 of each 8 lines.
Value DirectKernel::columnOf(const ThreadBuilder &t, Value line) const {
  Value inChunk = t.rem(line, tile.warpWidth), result;
  for (const Part &part : parts()) {
    Value first = t.i32(part.first * kMmaColumns), own = t.sub(inChunk, first);
    Value place = t.rem(own, kMmaColumns);
    Value column = t.add(t.mul(t.div(place, 2), 2 * part.count), t.rem(place, 2));
    column = t.add(t.add(column, t.mul(t.div(own, kMmaColumns), 2)), first);
    result = result ? t.select(t.isLess(inChunk, first), result, column) : column;
  }
  return t.add(t.sub(line, inChunk), result);
}

/// [line][octet]; zeros beside the channels of a column's own group, and behind a segment's depth.
void DirectKernel::copyFilter(const ThreadBuilder &t) {
  int64_t pieces = kOctet / p.filterWidth, octets = layout.segments * layout.segmentOctets;
  Values strides;
  for (AffineExpr stride : p.filter.strides) {
    strides.push_back(kernel.size32(stride));
  }
  Value offset = kernel.size32(p.filter.offset);
  auto copy = [&](const ThreadBuilder &c, Value number, ValueRange) -> Values {
    Value line = c.div(number, octets * pieces), inLine = c.rem(number, octets * pieces);
    Value octet = c.div(inLine, pieces), inOctet = c.mul(c.rem(inLine, pieces), p.filterWidth);
    Value inSegment = c.rem(octet, layout.segmentOctets);
    Value tap = c.div(inSegment, layout.unitOctets);
    Value row =
        layout.segments == 1 ? c.div(tap, layout.tapColumns) : c.div(octet, layout.segmentOctets);
    Value column = layout.segments == 1 ? c.rem(tap, layout.tapColumns) : tap;
    Value channel = c.add(firstChannel, columnOf(c, line));
    Value group = c.div(c.rem(channel, layout.unitColumns), p.groupColumns);
    Value depth = c.add(c.mul(c.rem(inSegment, layout.unitOctets), kOctet), inOctet), isRead;
    if (layout.folded > 1) {
      column = c.add(c.mul(column, layout.folded), c.div(depth, p.groupChannels));
      depth = c.rem(depth, p.groupChannels);
      isRead = c.isLess(column, c.i32(p.dims[1].taps));
    }
    depth = c.sub(depth, c.mul(group, p.groupChannels));
    if (layout.usedOctets < layout.segmentOctets) {
      Value isDeep = c.isLess(inSegment, c.i32(layout.usedOctets));
      isRead = isRead ? c.bitAnd(isRead, isDeep) : isDeep;
    }
    if (p.joined > 1) {
      Value isOwn = isBelow(c, depth, c.i32(p.groupChannels));
      isRead = isRead ? c.bitAnd(isRead, isOwn) : isOwn;
    }
    Value from = c.add(offset, c.mul(channel, strides[0]));
    from = c.add(from, c.mul(depth, strides[1]));
    from = c.add(c.add(from, c.mul(row, strides[2])), c.mul(column, strides[3]));
    Value to = c.add(c.mul(c.add(c.mul(line, layout.filterPitch), octet), kOctet), inOctet);
    copyNeighbours(c, element, p.filterWidth, c.offset(filter, element, from),
                   c.offset(shared, stored, c.add(to, kOctet)), isRead, {});
    return {};
  };
  t.loop(thread, t.i32(tile.width * octets * pieces), t.i32(tile.threads()), {}, copy);
}

/// What lies under a tile of the result, [row][column by its remainder of the stride][octet], with
/// zeros outside of the picture.
void DirectKernel::copyInput(const ThreadBuilder &t, Value number, Value stage) {
  Spot spot = spotOf(t, number);
  const ConvDim &rows = p.dims[0], &columns = p.dims[1];
  int64_t pieces = layout.units * layout.unitOctets * layout.folded;
  int64_t width = kOctet / layout.folded, atOnce = tile.threads() / pieces;
  Value piece = t.rem(thread, pieces), first = t.div(thread, pieces);
  Value unit = t.mul(t.div(firstChannel, layout.unitColumns), layout.unitOctets * kOctet);
  Value octet = t.div(piece, layout.folded), pixel = t.rem(piece, layout.folded);
  Value channel = t.add(unit, t.mul(octet, kOctet));
  Value image = t.add(t.mul(t.toI64(spot.image), imageStride), t.toI64(channel));
  Value from = t.offset(input, element, t.add(image, kernel.size64(p.x.offset)));
  Value firstRow = t.add(t.mul(spot.row, rows.stride), -rows.padBegin);
  Value firstColumn = t.add(t.mul(spot.column, columns.stride), -columns.padBegin);
  firstColumn = t.add(firstColumn, pixel);
  Value to = t.add(t.add(t.mul(stage, layout.inputOctets), octet), inputStart());
  Value target = t.offset(at(t, to), stored, t.mul(pixel, width));
  auto copy = [&](const ThreadBuilder &c, Value index, ValueRange) -> Values {
    Value inRow = c.div(index, layout.inColumns), inColumn = c.rem(index, layout.inColumns);
    Value row = c.add(firstRow, inRow);
    Value column = c.add(firstColumn, c.mul(inColumn, layout.folded));
    Value isRead = c.bitAnd(isBelow(c, row, inRows), isBelow(c, column, inColumns));
    Value place = c.add(c.mul(row, rowStride), c.mul(column, columnStride));
    Value phase = c.mul(c.rem(inColumn, layout.columnStride), layout.phaseColumns);
    Value spotInTile = c.add(c.mul(inRow, layout.linePixels), phase);
    spotInTile = c.add(spotInTile, c.div(inColumn, layout.columnStride));
    spotInTile = c.mul(spotInTile, layout.pixelPitch * kOctet);
    copyNeighbours(c, element, width, c.offset(from, element, place),
                   c.offset(target, stored, spotInTile), isRead, {});
    return {};
  };
  Value count = t.i32(layout.inRows * layout.inColumns);
  if (atOnce * pieces < tile.threads()) {
    count = t.select(t.isLess(first, t.i32(atOnce)), count, t.i32(0));
  }
  t.loop(first, count, t.i32(atOnce), {}, copy);
}

/// Adds a segment's products. `pixels` are octets of a lane's pixels, one for each 16 positions;
/// `lines` and `lastLines` those of its lines of the filter, by two products and of a single last.
void DirectKernel::multiplySegment(const ThreadBuilder &t, ArrayRef<Value> pixels, Value lines,
                                   Value lastLines, Values &sums) const {
  Value isSecond = t.div(t.rem(t.lane(), kWarp), 16);
  Values last;
  for (int64_t step = 0; step < layout.steps(); ++step) {
    int64_t octet = 2 * step, first = layout.distance(p, octet);
    bool isWhole = octet + 1 < layout.usedOctets;
    int64_t further = isWhole ? layout.distance(p, octet + 1) - first : 0;
    SmallVector<Values> left, right;
    for (Value pixel : pixels) {
      Value from = isWhole ? t.add(pixel, t.mul(isSecond, further))
                           : t.select(t.isEqual(isSecond, t.i32(0)), pixel, t.i32(-first));
      left.push_back(loadMatrices(t, t.offset(at(t, from), stored, first * kOctet), false));
    }
    for (int64_t pair = 0; pair < products() / 2; ++pair) {
      int64_t distance = pair * 16 * layout.filterPitch + octet;
      Values words = loadMatrices(t, t.offset(at(t, lines), stored, distance * kOctet), false);
      right.push_back({words[0], words[1]});
      right.push_back({words[2], words[3]});
    }
    if (products() % 2 != 0) {
      if (step % 2 == 0) {
        last = loadMatrices(t, t.offset(at(t, lastLines), stored, octet * kOctet), false);
      }
      right.push_back({last[step % 2 * 2], last[step % 2 * 2 + 1]});
    }
    for (size_t i = 0; i < left.size(); ++i) {
      for (int64_t c = 0; c < products(); ++c) {
        MutableArrayRef<Value> sum =
            MutableArrayRef<Value>(sums).slice((int64_t(i) * products() + c) * 4, 4);
        Values next = element.isInteger()
                          ? multiplyBytes(t, p.product.isSigned, left[i], right[c], sum)
                          : multiply(t, element, left[i], right[c], sum);
        llvm::copy(next, sum.begin());
      }
    }
  }
}

Values DirectKernel::multiplyPiece(const ThreadBuilder &t, const Piece &piece, Value stage) const {
  Value lane = t.lane();
  Value unit = t.mul(t.div(piece.channel, layout.unitColumns), layout.unitOctets);
  if (layout.units == 1) {
    unit = t.i32(0);
  }
  Value start = t.add(t.add(t.mul(stage, layout.inputOctets), unit), inputStart());
  Values pixels;
  for (int64_t i = 0; i < tile.warpTiles; ++i) {
    Value position = t.add(piece.first, t.add(t.rem(lane, 16), i * 16));
    position = t.min(position, t.i32(tile.positions() - 1));
    Value row = t.mul(t.div(position, tile.columns), p.dims[0].stride * layout.linePixels);
    Value pixel = t.add(row, t.rem(position, tile.columns));
    pixels.push_back(t.add(start, t.mul(pixel, layout.pixelPitch)));
  }
  TileSpot spot = columnsFirst(t);
  Value line = t.add(piece.channel, spot.row);
  Value lines = t.add(t.add(t.mul(line, layout.filterPitch), t.div(spot.column, kOctet)), 1);
  Value lastLine = t.add(piece.channel, t.add(t.rem(lane, 8), (products() - 1) * kMmaColumns));
  Value lastLines = t.add(t.add(t.mul(lastLine, layout.filterPitch), t.div(lane, 8)), 1);
  Value zero = element.isInteger() ? t.i32(0) : t.f32(0);
  Values sums(tile.warpTiles * products() * 4, zero);
  if (layout.segments == 1) {
    multiplySegment(t, pixels, lines, lastLines, sums);
    return sums;
  }
  int64_t nextRow = p.dims[0].dilation * layout.linePixels * layout.pixelPitch;
  return t.loop(t.i32(0), t.i32(layout.segments), t.i32(1), sums,
                [&](const ThreadBuilder &c, Value segment, ValueRange carried) {
                  Values result(carried), below;
                  for (Value pixel : pixels) {
                    below.push_back(c.add(pixel, c.mul(segment, nextRow)));
                  }
                  Value along = c.mul(segment, layout.segmentOctets);
                  multiplySegment(c, below, c.add(lines, along), c.add(lastLines, along), result);
                  return result;
                });
}

/// Positions beyond the ends are not stored; what follows reads the last ones there.
void DirectKernel::storePiece(const ThreadBuilder &t, const Spot &spot, const Piece &piece,
                              ValueRange sums) {
  Value group = t.div(t.lane(), 4), quad = t.rem(t.lane(), 4);
  ArrayRef<AffineExpr> rowDims = p.product.rowDims;
  bool isExact = tile.positions() % (16 * tile.warpTiles) == 0 &&
                 rowDims[1].isMultipleOf(tile.rows) && rowDims[2].isMultipleOf(tile.columns);
  AffineExpr channels = p.product.columns;
  for (AffineExpr others : p.product.batch) {
    channels = channels * others;
  }
  for (int64_t i = 0; i < tile.warpTiles; ++i) {
    SmallVector<ResultStrip> strips;
    for (int64_t below : {0, 1}) {
      Value position = t.add(piece.first, t.add(group, i * 16 + below * 8));
      Value row = t.add(spot.row, t.div(position, tile.columns));
      Value column = t.add(spot.column, t.rem(position, tile.columns));
      Value isStored;
      if (!isExact) {
        isStored = t.bitAnd(isBelow(t, row, outRows), isBelow(t, column, outColumns));
        isStored = t.bitAnd(isStored, t.isLess(position, t.i32(tile.positions())));
        row = t.min(row, t.add(outRows, -1));
        column = t.min(column, t.add(outColumns, -1));
      }
      Value words[] = {spot.image, row, column};
      Indices places;
      for (auto [dim, word] : llvm::zip_equal(rowDims, words)) {
        // The emitter asks for the only place of a dim as 0.
        places.push_back(tn::constantDim(dim) == 1 ? Index::constant(0) : math.fromWord(word));
      }
      Index pixel = math.add(math.multiply(places[0], kernel.size(rowDims[1])), places[1]);
      pixel = math.add(math.multiply(pixel, kernel.size(rowDims[2])), places[2]);
      Index line = math.multiply(pixel, kernel.size(channels));
      for (const Part &part : parts()) {
        Value channel = t.add(t.add(firstChannel, piece.channel), part.first * kMmaColumns);
        channel = t.add(channel, t.mul(quad, 2 * part.count));
        ResultStrip strip;
        Index inLine = math.fromWord(channel, 2 * part.count);
        strip.place = places;
        strip.place.push_back(inLine);
        strip.linear = math.add(line, inLine);
        strip.isStored = isStored;
        for (int64_t c = 0; c < part.count; ++c) {
          int64_t number = i * products() + part.first + c;
          llvm::append_range(strip.accumulators, sums.slice(number * 4 + below * 2, 2));
        }
        strips.push_back(strip);
      }
    }
    storeThroughEpilogue(emitter, tensors, strips);
  }
}

void DirectKernel::goThroughPieces(const ThreadBuilder &t, const Spot &spot, Value stage) {
  int64_t pieces = tile.pieces(), all = pieces * tile.chunks();
  auto doPiece = [&](const ThreadBuilder &c, Value number, ValueRange) -> Values {
    emitter.openScope();
    Piece piece{c.mul(c.rem(number, pieces), 16 * tile.warpTiles),
                c.mul(c.div(number, pieces), tile.warpWidth)};
    storePiece(c, spot, piece, multiplyPiece(c, piece, stage));
    emitter.closeScope();
    return {};
  };
  t.loop(t.div(thread, kWarp), t.i32(all), t.i32(tile.warps), {}, doPiece);
}

bool DirectKernel::run() {
  std::optional<GemmTensors> found = productTensors(kernel.region);
  if (!found) {
    return false;
  }
  tensors = *found;
  kernel.setMinBlocksPerSm(1);
  place();
  ThreadBuilder t = kernel.code();
  func::FuncOp source = kernel.region.source;
  // Weights are there before any kernel runs.
  bool isConstant = p.filter.buffer < source.getNumArguments() &&
                    source.getArgAttr(p.filter.buffer, kConstantArgument);
  if (isConstant) {
    copyFilter(t);
  }
  kernel.waitHere();
  kernel.launchDependentsHere();
  if (!isConstant) {
    copyFilter(t);
  }
  int64_t blocks = directBlocks(kernel.region, p, tile);
  auto copyIfAny = [&](const ThreadBuilder &c, Value number, Value stage) {
    c.when(c.isLess(number, tiles), [&](const ThreadBuilder &d) { copyInput(d, number, stage); });
    commitCopies(c);
  };
  copyIfAny(t, firstTile, t.i32(0));
  t.loop(firstTile, tiles, t.i32(blocks), {t.i32(0)},
         [&](const ThreadBuilder &c, Value number, ValueRange carried) -> Values {
           Value stage = carried.front(), other = c.sub(c.i32(1), stage);
           emitter.openScope();
           copyIfAny(c, c.add(number, blocks), other);
           waitForCopies(c, 1);
           c.barrier();
           goThroughPieces(c, spotOf(c, number), stage);
           c.barrier();
           emitter.closeScope();
           return {other};
         });
  kernel.finish(getAffineConstantExpr(layout.slabs * blocks, kernel.region.source.getContext()),
                layout.bytes());
  return !emitter.hasFailed();
}

} // namespace

bool emitDirect(RegionBuilder &region, const ConvProblem &problem, const DirectTile &tile) {
  ConvProblem own = problem;
  if (!problem.filterSizes.empty()) {
    own.filter.buffer = layOutFilter(region, problem.computed, problem.filterSizes);
    own.product.b.at = own.filter;
  }
  return DirectKernel(region, own, tile).run();
}

} // namespace tenon::codegen::cuda
