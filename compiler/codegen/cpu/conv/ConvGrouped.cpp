// Direct convolutions of few output channels a group, depthwise ones among them, channels last: a
// vector of output channels is several whole groups or a part of one, so that groups need no
// padding, and the sums of neighbouring pixels stay in registers. Constant weights of each vector
// lie side by side (groupedWeight), computed ones are laid out by panels as the kernel runs.
#include "compiler/codegen/cpu/conv/ConvGrouped.h"
#include "compiler/codegen/common/math/ScalarBody.h"
#include "compiler/codegen/common/region/Weights.h"
#include "compiler/codegen/cpu/base/KernelFamily.h"
#include "engine/Level.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace tenon::codegen::cpu {
namespace {

/// Output channels of a vector: whole groups, or a part of one group; none if neither divides. All
/// of a convolution of one group if they are few, where a panel of gemm_packed would be half empty.
/// Below AVX-512 a masked load of bytes or halves is one of single elements: vectors of those fill
/// all channels where they can.
std::optional<int64_t> lanesOf(tn::ConvOp conv) {
  Geometry g = geometryOf(conv);
  if (g.groups == 1) {
    return g.outChannels <= 8    ? std::optional(8)
           : g.outChannels <= 16 ? std::optional(16)
                                 : std::nullopt;
  }
  constexpr int64_t kWide = 16, kNarrow = 8;
  bool isNarrow = getElementTypeOrSelf(conv.getX().getType()).getIntOrFloatBitWidth() < 32;
  bool fillsNarrow = g.outChannels % kWide != 0 && g.outChannels % kNarrow == 0;
  for (int64_t lanes : {isNarrow && fillsNarrow ? kNarrow : kWide, kNarrow}) {
    bool spansGroups = g.groupOutChannels() < lanes && lanes % g.groupOutChannels() == 0 &&
                       g.groupChannels() <= g.groupOutChannels();
    if (spansGroups || g.groupOutChannels() % lanes == 0) {
      return lanes;
    }
  }
  return std::nullopt;
}

/// Computed weights that are laid out as a whole: a quarter of the smallest L2 cache in use.
constexpr int64_t kMaxCopied = 64 << 10;
/// Of a u8 and an s8, and the integers that f32 holds exactly.
constexpr int64_t kMaxProduct = 255 * 128, kMaxExact = int64_t(1) << 24;
/// Output pixels for which laying out a weight, which each thread does, is little work.
constexpr int64_t kManyPixels = 1024;

/// Pixels whose sums stay in registers: half of these, for operands need some too. Those of 16 bits
/// need twelve.
int64_t mostPixels(engine::CpuLevel level, int64_t lanes, bool sumsIntegers) {
  int64_t registers = floatLanes(level) == 8 ? 16 : 32;
  int64_t perVector = std::max<int64_t>(1, lanes / floatLanes(level));
  return std::min<int64_t>(8, (sumsIntegers ? registers - 12 : registers / 2) / perVector);
}

/// The largest block of pixels that leaves the fewest sums of a line to be computed twice, of those
/// that hide the latency of a sum.
int64_t pixelsOfBlock(std::optional<int64_t> line, int64_t most, int64_t hiding) {
  if (!line) {
    return most;
  }
  auto computed = [&](int64_t pixels) { return llvm::divideCeil(*line, pixels) * pixels; };
  int64_t best = 1;
  for (int64_t pixels = 1; pixels <= std::min(most, *line); ++pixels) {
    bool isBetter = pixels <= hiding || computed(pixels) <= computed(best);
    best = isBetter ? pixels : best;
  }
  return best;
}

} // namespace

GroupedConv::GroupedConv(KernelBuilder &kernel, func::FuncOp source, tn::ConvOp conv,
                         engine::CpuLevel level, int64_t tileRows)
    : ConvTiles(kernel, conv, tileRows), epilogue(kernel, source, conv, conv.getBias()),
      lanes(*lanesOf(conv)), spansGroups(g.groups > 1 && g.groupOutChannels() < lanes) {
  bool sumsIntegers = productType(conv) == ProductType::U8S8 &&
                      engine::rowOf(level).architecture != engine::Architecture::X86_64;
  sum = sumsIntegers ? Type(kernel.builder.getI32Type()) : kernel.builder.getF32Type();
  factor = sumsIntegers ? Type(kernel.builder.getI16Type()) : sum;
  vector = VectorType::get(lanes, sum);
  std::optional<int64_t> width =
      tn::constantDim(segments) == 1 && !isFlat ? std::optional(linePixels) : std::nullopt;
  // Four sums do; of integers a vector has as many registers.
  blockPixels = pixelsOfBlock(width, mostPixels(level, lanes, sumsIntegers), sumsIntegers ? 1 : 4);
  element = storageType(getElementTypeOrSelf(conv.getX().getType()));
  // Channels that the last vector reads beyond those of its pixel are masked.
  isMasked = spansGroups && (g.outChannels % lanes != 0 || inputLanes() != lanes);
}

GroupedConv::Channels GroupedConv::channelsOf(const IndexMath &math, Value first) const {
  Value group = math.div(first, math.constant(g.groupOutChannels()));
  Value inputs = math.mul(group, g.groupChannels());
  int64_t elements = g.taps() * g.groupChannels(); // of one output channel
  Value own = math.mul(first, elements);
  if (wide) {
    own = math.mul(math.rem(first, math.constant(kPanel)), elements);
  } else if (!weights) {
    Value lane = math.rem(first, math.constant(kPanel));
    own = copiesAll ? math.add(math.mul(math.sub(first, lane), elements), lane) : lane;
  }
  Value from = wide ? wide : weights ? weights : panelCopy;
  Channels channels{inputs, weightAt(math, math.pointer(from, math.constant(0)), own), Value()};
  if (isMasked) {
    Value left = math.sub(math.constant(g.channels), inputs);
    Value count = math.min(left, math.constant(inputLanes()));
    channels.mask = vector::CreateMaskOp::create(
        math.builder, math.location, VectorType::get(lanes, math.builder.getI1Type()), count);
  }
  return channels;
}

/// The weights of some vectors of output channels from `first` on, as they are multiplied.
void GroupedConv::widenWeights(const IndexMath &math, Value first, Value vectors) {
  int64_t elements = g.taps() * g.groupChannels();
  Value from = stored(math, math.pointer(weights, math.constant(0)), math.mul(first, elements));
  forEach(math, math.constant(0), math.mul(vectors, elements), 1,
          [&](const IndexMath &inner, Value number) {
            Value at = inner.mul(number, lanes);
            Value bytes = LLVM::LoadOp::create(inner.builder, inner.location, storedAs(vector),
                                               stored(inner, from, at), /*alignment=*/1);
            Value to = weightAt(inner, inner.pointer(wide, inner.constant(0)), at);
            LLVM::StoreOp::create(
                inner.builder, inner.location,
                widened(inner, VectorType::get(lanes, factor), bytes, /*isSigned=*/true), to,
                factor.getIntOrFloatBitWidth() / 8);
          });
}

/// The pixels of a line by blocks, of which the last may begin before the one before it ends; lines
/// that are shorter than a block by single pixels.
void GroupedConv::buildLine(const IndexMath &math, const Part &part, Value line,
                            const Channels &channels, Value sums, Value stride) {
  Value count = isFlat ? part.lines : part.pixels;
  Value first = isFlat ? part.firstLine : part.firstPixel;
  auto blocks = [&](const IndexMath &at, int64_t pixels) {
    Value number = at.div(at.add(count, at.constant(pixels - 1)), at.constant(pixels));
    loop(at, at.constant(0), number, {}, [&](const IndexMath &inner, Value block, Vectors) {
      Value start = inner.min(inner.mul(block, pixels), inner.sub(count, inner.constant(pixels)));
      Pixels here{part.image, part.plane, line, inner.add(first, start)};
      buildBlock(inner, here, pixels, channels, inner.offset(sums, inner.mul(start, stride)),
                 stride);
      return Vectors();
    });
  };
  std::optional<int64_t> known = getConstantIntValue(count);
  if (known) {
    blocks(math, *known >= blockPixels ? blockPixels : 1);
    return;
  }
  Value isShort = math.isLess(count, math.constant(blockPixels));
  auto branch = [&](int64_t pixels) {
    return [&, pixels](OpBuilder &body, Location location) {
      blocks(IndexMath(body, location), pixels);
      scf::YieldOp::create(body, location);
    };
  };
  scf::IfOp::create(math.builder, math.location, isShort, branch(1), branch(blockPixels));
}

LogicalResult GroupedConv::buildTile(const IndexMath &math, const GridPoint &point) {
  Part part = partOf(math, point);
  Value first = math.mul(point.panel, kPanel);
  Value left = math.sub(math.constant(g.outChannels), first);
  Value wanted = math.min(math.constant(kPanel), left);
  Value vectors = math.div(math.add(wanted, math.constant(lanes - 1)), math.constant(lanes));
  TileWriter::Columns columns{math.constant(0), point.panel,
                              getAffineConstantExpr(g.outChannels, context)};
  if (wide) {
    widenWeights(math, first, vectors);
  }
  Value lineCount = isFlat ? math.constant(1) : part.lines;
  Value rows = math.mul(part.lines, part.pixels);
  return writer->write(
      math, firstRow(math, point, part), rows, columns, [&](const IndexMath &at, const Sums &sums) {
        Value none = at.constant(0);
        loop(at, none, vectors, {}, [&](const IndexMath &outer, Value number, Vectors) {
          Value column = outer.mul(number, lanes);
          Channels channels = channelsOf(outer, outer.add(first, column));
          loop(outer, none, lineCount, {}, [&](const IndexMath &inner, Value line, Vectors) {
            Value row = inner.mul(line, part.pixels);
            Value to = inner.add(inner.mul(row, sums.stride), column);
            buildLine(inner, part, isFlat ? line : inner.add(part.firstLine, line), channels,
                      inner.offset(sums.pointer, to), sums.stride);
            return Vectors();
          });
          return Vectors();
        });
      });
}

LogicalResult GroupedConv::lower() {
  IndexMath math(kernel.builder, kernel.location);
  input = kernel.input(cast<BlockArgument>(conv.getX()).getArgNumber());
  weights = packedBuffer(kernel, conv.getWeight());
  Type sums = element.isInteger(8) ? Type(math.builder.getI32Type()) : sum;
  writer.emplace(kernel, epilogue, mostLines * linePixels, sums);
  if (isWidened()) {
    wide = allocate(kernel, {math.constant(g.taps() * g.groupChannels()), math.constant(kPanel)},
                    factor);
  }
  if (g.width.isPadded()) {
    Value buffer = allocate(kernel, {math.constant(std::max(lanes, g.groupChannels()))});
    clear(math, buffer);
    zeros = math.pointer(buffer, math.constant(0));
  }
  if (!weights) {
    return lowerComputed(math);
  }
  tapStride = g.groupChannels() * lanes;
  channelStride = lanes;
  llvm::function_ref<void(const IndexMath &, const GridPoint &)> none;
  return buildGridLoop(kernel, grid, none, [&](const IndexMath &inner, const GridPoint &point) {
    return buildTile(inner, point);
  });
}

/// Weights that are computed are laid out by panels, [input channel, tap, output channel] as
/// transposing them gives it.
LogicalResult GroupedConv::lowerComputed(const IndexMath &math) {
  int64_t elements = g.taps() * g.groupChannels();
  int64_t panels = llvm::divideCeil(g.outChannels, kPanel);
  tapStride = kPanel;
  channelStride = g.taps() * kPanel;
  copiesAll = copiesAllPanels(panels * elements * kPanel);
  panelCopy =
      allocate(kernel, {math.constant((copiesAll ? panels : 1) * elements), math.constant(kPanel)});
  auto tile = [&](const IndexMath &at, const GridPoint &point) { return buildTile(at, point); };
  if (copiesAll) {
    loop(math, math.constant(0), math.constant(panels), {},
         [&](const IndexMath &inner, Value panel, Vectors) {
           packPanel(inner, panel);
           return Vectors();
         });
    llvm::function_ref<void(const IndexMath &, const GridPoint &)> none;
    return buildGridLoop(kernel, grid, none, tile);
  }
  ContractionGrid byPanels{getAffineConstantExpr(1, context), grid.panels,
                           grid.batches * grid.chunks};
  auto pack = [&](const IndexMath &at, const GridPoint &point) { packPanel(at, point.chunk); };
  return buildGridLoop(kernel, byPanels, pack, [&](const IndexMath &at, const GridPoint &point) {
    Value chunks = size(at, grid.chunks);
    return tile(at, {at.div(point.panel, chunks), at.rem(point.panel, chunks), point.chunk});
  });
}

/// Whether all panels are laid out first, so that a chunk's pixels are read by all panels while
/// they are in a cache. Else panels are outermost, each laid out once among all threads.
bool GroupedConv::copiesAllPanels(int64_t elements) const {
  std::optional<int64_t> pixels = tn::constantDim(planes * lines * g.width.out);
  return elements <= kMaxCopied && pixels.value_or(kManyPixels) >= kManyPixels;
}

void GroupedConv::packPanel(const IndexMath &math, Value panel) {
  Value computed = kernel.input(cast<BlockArgument>(conv.getWeight()).getArgNumber());
  Value elements = math.constant(g.taps() * g.groupChannels()), first = math.mul(panel, kPanel);
  Value to = copiesAll ? math.mul(first, elements) : math.constant(0);
  callPackTransposed(
      math, kernel.function(), math.pointer(computed, math.mul(first, elements)), elements,
      math.pointer(panelCopy, to), elements,
      math.min(math.constant(kPanel), math.sub(math.constant(g.outChannels), first)));
}

namespace {

FamilyMatch matchGrouped(Region &region) {
  tn::ConvOp conv = firstOp<tn::ConvOp>(region.source);
  if (!conv) {
    return FamilyMatch::refuse("not a convolution");
  }
  if (!hasConstantSizes(conv)) {
    return FamilyMatch::refuse("channels first, of a weight whose sizes vary, or of f16");
  }
  Geometry g = geometryOf(conv);
  bool isOfBytes = productType(conv) == ProductType::U8S8;
  if (isOfBytes && g.taps() * g.groupChannels() * kMaxProduct > kMaxExact) {
    return FamilyMatch::refuse("sums of bytes that f32 does not hold");
  }
  std::optional<int64_t> lanes = lanesOf(conv);
  if (!lanes) {
    return FamilyMatch::refuse(
        g.groups == 1 ? "more than 16 output channels of one group"
                      : "vectors of 16 or 8 channels neither hold whole groups nor parts of one");
  }
  bool isPacked = conv.getWeight().getDefiningOp() != nullptr;
  bool isWanted = isPacked
                      ? hasWeight(conv, *lanes, /*groups=*/1)
                      : productType(conv) == ProductType::F32 || packableInput(conv.getWeight());
  if (!isWanted) {
    return FamilyMatch::refuse("the weight is laid out for another kernel");
  }
  // Of 32 channels and more, those that fill panels are products like others.
  int64_t padded = g.panelsPerGroup() * kPanel;
  return g.groupOutChannels() >= kPanel && padded * 4 <= g.groupOutChannels() * 5
             ? FamilyMatch::refuse("its groups fill the panels of gemm_packed")
             : FamilyMatch::take(conv);
}

/// Bytes of a single group are widened one by one, which takes several times as long as multiplying
/// them; so are halves, in about the time of multiplying. Measured.
constexpr double kOfSingleBytes = 4, kOfSingleHalves = 2;

/// A single group is padded to whole vectors.
double groupedSeconds(Region &region, const tn::ConvOp &, const dispatch::KernelChoice &) {
  return secondsWithWork(region, [](Operation &op) {
    tn::ConvOp conv = cast<tn::ConvOp>(op);
    if (conv.getGroups() > 1) {
      return 1.0;
    }
    double channels = double(geometryOf(conv).outChannels);
    double padded = (channels <= 8 ? 8 : 16) / channels;
    std::optional<ProductType> type = productType(conv);
    return padded * (type == ProductType::U8S8   ? kOfSingleBytes
                     : type == ProductType::BF16 ? kOfSingleHalves
                                                 : 1);
  });
}

/// The weights of each vector of output channels together.
std::optional<dispatch::WeightLayout> groupedWeights(Region &, const tn::ConvOp &conv) {
  return layoutInPanels(conv, *lanesOf(conv), /*groups=*/1);
}

FailureOr<AffineExpr> lowerGrouped(KernelBuilder &kernel, Region &region, const tn::ConvOp &op,
                                   int64_t tileRows) {
  tn::ConvOp conv = op;
  if (failed(checkBuffers(conv))) {
    return failure();
  }
  GroupedConv lowering(kernel, region.source, conv, region.level(), tileRows);
  int64_t channels = cast<RankedTensorType>(conv.getWeight().getType()).getDimSize(0);
  AffineExpr points = lowering.chooseGrid(llvm::divideCeil(channels, kPanel));
  if (failed(lowering.lower())) {
    return failure();
  }
  return points;
}

} // namespace

constexpr KernelFamily kConvGrouped = {
    .name = "conv_grouped",
    .what = "direct convolution by groups, depthwise too: vectors of output channels, the sums of "
            "neighbouring pixels in registers",
    .strategies = {dispatch::kContraction, dispatch::kDepthwise},
    .needs = {"conv"},
    .needsElements = true,
    .match = matchGrouped,
    .parameter = "tile_rows",
    // The sums of 128 x 32 are half of the smallest L1 cache in use.
    .candidates = {128, 64, 32, 16},
    .seconds = on<groupedSeconds>,
    .weights = on<groupedWeights>,
    .emit = emitKernel<lowerGrouped>};

} // namespace tenon::codegen::cpu
