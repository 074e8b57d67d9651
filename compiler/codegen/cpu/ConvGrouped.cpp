// Direct convolutions of few channels a group, depthwise ones among them, channels last: a vector
// of output channels is several whole groups or a part of one, so that groups need no padding, and
// the sums of neighbouring pixels stay in registers. Relies on the weights of each vector lying
// side by side (groupedWeight).
#include "compiler/codegen/common/Weights.h"
#include "compiler/codegen/cpu/ConvTiles.h"
#include "compiler/codegen/cpu/KernelFamily.h"
#include "compiler/codegen/cpu/Levels.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

#include <map>

using namespace mlir;

namespace tenon::codegen::cpu {
namespace {

/// Taps of a kernel line that are unrolled; those of longer lines are a loop.
constexpr int64_t kMostUnrolled = 7;

/// Output channels of a vector: whole groups, or a part of one group; none if neither divides.
std::optional<int64_t> lanesOf(const Geometry &g) {
  for (int64_t lanes : {16, 8}) {
    bool spansGroups = g.groupOutChannels() < lanes && lanes % g.groupOutChannels() == 0 &&
                       g.groupChannels() <= g.groupOutChannels();
    if (spansGroups || g.groupOutChannels() % lanes == 0) {
      return lanes;
    }
  }
  return std::nullopt;
}

/// Pixels whose sums stay in registers: half of these, for operands need some too.
int64_t mostPixels(engine::CpuLevel level, int64_t lanes) {
  int64_t registers = floatLanes(level) == 8 ? 16 : 32;
  int64_t perVector = std::max<int64_t>(1, lanes / floatLanes(level));
  return std::min<int64_t>(8, registers / 2 / perVector);
}

/// The largest block of pixels that leaves the fewest sums of a line to be computed twice.
int64_t pixelsOfBlock(std::optional<int64_t> line, int64_t most) {
  if (!line) {
    return most;
  }
  auto computed = [&](int64_t pixels) { return llvm::divideCeil(*line, pixels) * pixels; };
  int64_t best = 1;
  for (int64_t pixels = 1; pixels <= std::min(most, *line); ++pixels) {
    // Four pixels and more hide the latency of a sum.
    bool isBetter = pixels <= 4 || computed(pixels) <= computed(best);
    best = isBetter ? pixels : best;
  }
  return best;
}

class GroupedConv : public ConvTiles {
public:
  GroupedConv(KernelBuilder &kernel, func::FuncOp source, tn::ConvOp conv, engine::CpuLevel level,
              int64_t tileRows)
      : ConvTiles(kernel, conv, tileRows), epilogue(kernel, source, conv, conv.getBias()),
        lanes(*lanesOf(g)), spansGroups(g.groupOutChannels() < lanes) {
    f32 = kernel.builder.getF32Type();
    vector = VectorType::get(lanes, f32);
    std::optional<int64_t> width =
        tn::constantDim(segments) == 1 && !isFlat ? std::optional(linePixels) : std::nullopt;
    blockPixels = pixelsOfBlock(width, mostPixels(level, lanes));
    // Channels that the last vector reads beyond those of its pixel are masked.
    isMasked = spansGroups && (g.outChannels % lanes != 0 || inputLanes() != lanes);
  }

  LogicalResult lower();

private:
  using Vectors = SmallVector<Value>;
  /// A vector of output channels.
  struct Channels {
    Value inputs;  ///< the first input channel that it reads
    Value weights; ///< pointer to its weights
    Value mask;    ///< of its input channels, or null
  };
  /// Neighbouring output pixels; all of index type.
  struct Pixels {
    Value image, plane, line, first;
  };
  /// Some taps of a kernel line.
  struct Taps {
    Value row;     ///< number of the input's first pixel in the line, among all
    Value column;  ///< of the first pixel under the first tap; may lie outside
    Value weights; ///< pointer
    int64_t count;
  };

  int64_t inputLanes() const { return lanes / g.groupOutChannels() * g.groupChannels(); }
  LogicalResult buildTile(const IndexMath &math, const GridPoint &point);
  void buildLine(const IndexMath &math, const Part &part, Value line, const Channels &channels,
                 Value sums, Value stride);
  void buildBlock(const IndexMath &math, const Pixels &pixels, int64_t count,
                  const Channels &channels, Value sums, Value stride);
  Vectors addTaps(const IndexMath &math, const Taps &taps, const Channels &channels, Vectors sums);
  Vectors addColumns(const IndexMath &math, const Taps &taps, const Channels &channels,
                     bool isInside, Vectors sums);
  Vectors addChannel(const IndexMath &math, const Taps &taps,
                     const std::map<int64_t, Value> &columns, const Channels &channels,
                     Value channel, int64_t lane, Vectors sums);

  Channels channelsOf(const IndexMath &math, Value firstChannel) const;
  Value offset(const IndexMath &math, Value base, Value elements) const {
    return LLVM::GEPOp::create(math.builder, math.location, base.getType(), f32, base,
                               ArrayRef<LLVM::GEPArg>{math.word(elements)});
  }
  Value load(const IndexMath &math, Type type, Value address) const {
    return LLVM::LoadOp::create(math.builder, math.location, type, address, /*alignment=*/4);
  }
  Vectors loop(const IndexMath &math, Value from, Value to, Vectors state,
               llvm::function_ref<Vectors(const IndexMath &, Value, Vectors)> body) const;

  Epilogue epilogue;
  std::optional<TileWriter> writer;
  int64_t lanes;
  bool spansGroups; ///< a vector holds whole groups, else a part of one
  bool isMasked;
  int64_t blockPixels;
  Type f32;
  VectorType vector;
  Value input, weights;
  Value zeros; ///< what a pixel outside the input reads
};

GroupedConv::Vectors
GroupedConv::loop(const IndexMath &math, Value from, Value to, Vectors state,
                  llvm::function_ref<Vectors(const IndexMath &, Value, Vectors)> body) const {
  if (getConstantIntValue(from) == 0 && getConstantIntValue(to) == 1) {
    return body(math, from, state);
  }
  scf::ForOp loop =
      scf::ForOp::create(math.builder, math.location, from, to, math.constant(1), state,
                         [&](OpBuilder &inner, Location location, Value index, ValueRange carried) {
                           Vectors next = body(IndexMath(inner, location), index, Vectors(carried));
                           scf::YieldOp::create(inner, location, next);
                         });
  return Vectors(loop.getResults());
}

GroupedConv::Channels GroupedConv::channelsOf(const IndexMath &math, Value first) const {
  Value group = math.div(first, math.constant(g.groupOutChannels()));
  Value inputs = math.mul(group, g.groupChannels());
  int64_t elements = g.taps() * g.groupChannels(); // of one output channel
  Channels channels{inputs, math.pointer(weights, math.mul(first, elements)), Value()};
  if (isMasked) {
    Value left = math.sub(math.constant(g.channels), inputs);
    Value count = math.min(left, math.constant(inputLanes()));
    channels.mask = vector::CreateMaskOp::create(
        math.builder, math.location, VectorType::get(lanes, math.builder.getI1Type()), count);
  }
  return channels;
}

/// One input channel of each group: `columns` are the pixels' input channels by their place in the
/// line. `lane` is the channel's place in its group where a vector spans groups.
GroupedConv::Vectors GroupedConv::addChannel(const IndexMath &math, const Taps &taps,
                                             const std::map<int64_t, Value> &columns,
                                             const Channels &channels, Value channel, int64_t lane,
                                             Vectors sums) {
  OpBuilder &builder = math.builder;
  Vectors weight;
  for (int64_t tap = 0; tap < taps.count; ++tap) {
    Value at = math.add(channel, math.constant(tap * g.groupChannels()));
    weight.push_back(load(math, vector, offset(math, taps.weights, math.mul(at, lanes))));
  }
  SmallVector<int64_t> pattern;
  for (int64_t i = 0; i < lanes; ++i) {
    pattern.push_back(i / g.groupOutChannels() * g.groupChannels() + lane);
  }
  for (auto [column, pointer] : columns) {
    Value x;
    if (!spansGroups) {
      x = vector::BroadcastOp::create(builder, math.location, vector,
                                      load(math, f32, offset(math, pointer, channel)));
    } else if (channels.mask) {
      Value zero = arith::ConstantOp::create(builder, math.location, builder.getZeroAttr(vector));
      x = LLVM::MaskedLoadOp::create(builder, math.location, vector, pointer, channels.mask, zero,
                                     /*alignment=*/4);
    } else {
      x = load(math, vector, pointer);
    }
    if (spansGroups && g.groupOutChannels() > 1) {
      x = vector::ShuffleOp::create(builder, math.location, x, x, pattern);
    }
    for (auto [pixel, sum] : llvm::enumerate(sums)) {
      int64_t distance = column - static_cast<int64_t>(pixel) * g.width.stride;
      int64_t tap = distance / g.width.dilation;
      if (distance >= 0 && distance % g.width.dilation == 0 && tap < taps.count) {
        sum = vector::FMAOp::create(builder, math.location, x, weight[tap], sum);
      }
    }
  }
  return sums;
}

GroupedConv::Vectors GroupedConv::addColumns(const IndexMath &math, const Taps &taps,
                                             const Channels &channels, bool isInside,
                                             Vectors sums) {
  Value width = size(math, g.width.in);
  std::map<int64_t, Value> columns;
  Value first = math.mul(math.add(taps.row, taps.column), g.channels);
  Value start =
      offset(math, math.pointer(input, math.constant(0)), math.add(first, channels.inputs));
  for (size_t pixel = 0; pixel < sums.size(); ++pixel) {
    for (int64_t tap = 0; tap < taps.count; ++tap) {
      int64_t column = pixel * g.width.stride + tap * g.width.dilation;
      Value &pointer = columns[column];
      if (pointer) {
        continue;
      }
      pointer = offset(math, start, math.constant(column * g.channels));
      if (!isInside) {
        Value at = math.add(taps.column, math.constant(column));
        Value isHere = arith::CmpIOp::create(math.builder, math.location, arith::CmpIPredicate::ult,
                                             at, width);
        pointer = arith::SelectOp::create(math.builder, math.location, isHere, pointer, zeros);
      }
    }
  }
  if (spansGroups) {
    for (int64_t lane = 0; lane < g.groupChannels(); ++lane) {
      sums = addChannel(math, taps, columns, channels, math.constant(lane), lane, sums);
    }
    return sums;
  }
  return loop(math, math.constant(0), math.constant(g.groupChannels()), sums,
              [&](const IndexMath &inner, Value channel, Vectors carried) {
                return addChannel(inner, taps, columns, channels, channel, 0, carried);
              });
}

GroupedConv::Vectors GroupedConv::addTaps(const IndexMath &math, const Taps &taps,
                                          const Channels &channels, Vectors sums) {
  if (!g.width.isPadded()) {
    return addColumns(math, taps, channels, /*isInside=*/true, sums);
  }
  OpBuilder &builder = math.builder;
  int64_t last = (sums.size() - 1) * g.width.stride + (taps.count - 1) * g.width.dilation;
  Value end = math.add(taps.column, math.constant(last));
  Value isAfterBegin = arith::CmpIOp::create(builder, math.location, arith::CmpIPredicate::sge,
                                             taps.column, math.constant(0));
  Value isInside = arith::AndIOp::create(builder, math.location, isAfterBegin,
                                         math.isLess(end, size(math, g.width.in)));
  auto branch = [&](bool inside) {
    return [&, inside](OpBuilder &body, Location location) {
      IndexMath inner(body, location);
      scf::YieldOp::create(body, location, addColumns(inner, taps, channels, inside, sums));
    };
  };
  return Vectors(scf::IfOp::create(builder, math.location, isInside, branch(true), branch(false))
                     .getResults());
}

/// Sums of `count` neighbouring pixels for a vector of channels, stored with `stride` between
/// pixels.
void GroupedConv::buildBlock(const IndexMath &math, const Pixels &pixels, int64_t count,
                             const Channels &channels, Value sums, Value stride) {
  Value zero =
      arith::ConstantOp::create(math.builder, math.location, math.builder.getZeroAttr(vector));
  Vectors state(count, zero);
  auto inputOf = [](const IndexMath &at, const ConvDim &dim, Value position, Value tap) {
    Value start = at.sub(at.mul(position, dim.stride), at.constant(dim.padBegin));
    return at.add(start, at.mul(tap, dim.dilation));
  };
  bool isUnrolled = g.width.kernel <= kMostUnrolled;
  Value steps = math.constant(isUnrolled ? 1 : g.width.kernel);
  auto [firstPlane, endPlane] = tapsInside(math, g.depth, pixels.plane);
  auto [firstLine, endLine] = tapsInside(math, g.height, pixels.line);
  state = loop(math, firstPlane, endPlane, state, [&](const IndexMath &a, Value d, Vectors outer) {
    Value plane =
        a.add(a.mul(pixels.image, size(a, g.depth.in)), inputOf(a, g.depth, pixels.plane, d));
    return loop(a, firstLine, endLine, outer, [&](const IndexMath &b, Value h, Vectors middle) {
      Value line = b.add(b.mul(plane, size(b, g.height.in)), inputOf(b, g.height, pixels.line, h));
      Value kernelLine = b.add(b.mul(d, g.height.kernel), h);
      return loop(b, b.constant(0), steps, middle, [&](const IndexMath &c, Value w, Vectors inner) {
        Value tap = c.add(c.mul(kernelLine, g.width.kernel), w);
        Value weight = offset(c, channels.weights, c.mul(tap, g.groupChannels() * lanes));
        Taps taps{c.mul(line, size(c, g.width.in)), inputOf(c, g.width, pixels.first, w), weight,
                  isUnrolled ? g.width.kernel : 1};
        return addTaps(c, taps, channels, inner);
      });
    });
  });
  for (auto [pixel, sum] : llvm::enumerate(state)) {
    Value to = offset(math, sums, math.mul(stride, pixel));
    LLVM::StoreOp::create(math.builder, math.location, sum, to, /*alignment=*/4);
  }
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
      buildBlock(inner, here, pixels, channels, offset(inner, sums, inner.mul(start, stride)),
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
                      offset(inner, sums.pointer, to), sums.stride);
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
  writer.emplace(kernel, epilogue, mostLines * linePixels);
  if (g.width.isPadded()) {
    Value buffer = allocate(kernel, {math.constant(std::max(lanes, g.groupChannels()))});
    clear(math, buffer);
    zeros = math.pointer(buffer, math.constant(0));
  }
  llvm::function_ref<void(const IndexMath &, const GridPoint &)> none;
  return buildGridLoop(kernel, grid, none, [&](const IndexMath &inner, const GridPoint &point) {
    return buildTile(inner, point);
  });
}

tn::ConvOp convOf(func::FuncOp source) {
  auto convs = source.getOps<tn::ConvOp>();
  return convs.empty() ? tn::ConvOp() : *convs.begin();
}

} // namespace

StringRef refuseGrouped(func::FuncOp source) {
  tn::ConvOp conv = convOf(source);
  if (!conv || conv.getGroups() == 1) {
    return "not a convolution by groups";
  }
  if (!canLowerConv(conv)) {
    return "channels first, of a weight whose sizes vary, or not of f32";
  }
  Geometry g = geometryOf(conv);
  std::optional<int64_t> lanes = lanesOf(g);
  if (!lanes) {
    return "vectors of 16 or 8 channels neither hold whole groups nor parts of one";
  }
  bool isPacked = conv.getWeight().getDefiningOp<tn::UnpackOp>() != nullptr;
  if (isPacked ? !hasWeight(conv, *lanes, /*groups=*/1) : !packableInput(conv.getWeight())) {
    return "the weight is computed, or laid out for another kernel";
  }
  // Of 32 channels and more, those that fill panels are products like others.
  int64_t padded = g.panelsPerGroup() * kPanel;
  return g.groupOutChannels() >= kPanel && padded * 4 <= g.groupOutChannels() * 5
             ? "its groups fill the panels of gemm_packed"
             : "";
}

std::optional<dispatch::WeightLayout> groupedWeight(func::FuncOp source) {
  tn::ConvOp conv = convOf(source);
  return layoutInPanels(conv, *lanesOf(geometryOf(conv)), /*groups=*/1);
}

FailureOr<AffineExpr> lowerGrouped(KernelBuilder &kernel, func::FuncOp source,
                                   engine::CpuLevel level, int64_t tileRows) {
  tn::ConvOp conv = convOf(source);
  if (!refuseGrouped(source).empty() || failed(checkBuffers(conv))) {
    return source.emitError("no convolution by groups that reads packed weights");
  }
  GroupedConv lowering(kernel, source, conv, level, tileRows);
  int64_t channels = cast<RankedTensorType>(conv.getWeight().getType()).getDimSize(0);
  AffineExpr points = lowering.chooseGrid(llvm::divideCeil(channels, kPanel));
  if (failed(lowering.lower())) {
    return failure();
  }
  return points;
}

} // namespace tenon::codegen::cpu
