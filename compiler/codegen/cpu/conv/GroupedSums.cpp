// The sums of a convolution by groups: neighbouring pixels of a vector of output channels, in
// registers over all taps and input channels.
#include "compiler/codegen/cpu/conv/ConvGrouped.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace tenon::codegen::cpu {
namespace {

/// Taps of a kernel line that are unrolled; those of longer lines are a loop.
constexpr int64_t kMaxUnrolled = 7;

} // namespace

Value GroupedConv::load(const IndexMath &math, Type type, Value address) const {
  return LLVM::LoadOp::create(math.builder, math.location, type, address, /*alignment=*/4);
}

/// What lies in memory for a scalar or vector of sums.
Type GroupedConv::storedAs(Type type) const {
  return type == sum ? element : VectorType::get(lanes, element);
}

/// The address so many weights, as they are multiplied, behind another.
Value GroupedConv::weightAt(const IndexMath &math, Value base, Value elements) const {
  return LLVM::GEPOp::create(math.builder, math.location, base.getType(), factor, base,
                             ArrayRef<LLVM::GEPArg>{math.toI64(elements)});
}

Value GroupedConv::loadWeight(const IndexMath &math, Value address) const {
  Value weight = LLVM::LoadOp::create(math.builder, math.location, VectorType::get(lanes, factor),
                                      address, factor.getIntOrFloatBitWidth() / 8);
  return factor == sum
             ? weight
             : arith::ExtSIOp::create(math.builder, math.location, vector, weight).getResult();
}

Value GroupedConv::multiplyAdd(const IndexMath &math, Value x, Value weight, Value added) const {
  if (isa<FloatType>(sum)) {
    return vector::FMAOp::create(math.builder, math.location, x, weight, added);
  }
  Value product = arith::MulIOp::create(math.builder, math.location, x, weight);
  return arith::AddIOp::create(math.builder, math.location, added, product);
}

Value GroupedConv::widened(const IndexMath &math, Type type, Value x, bool isSigned) const {
  OpBuilder &builder = math.builder;
  if (!isWidened()) {
    return x;
  }
  if (isa<FloatType>(element)) {
    return arith::ExtFOp::create(builder, math.location, type, x);
  }
  if (!isa<FloatType>(sum)) {
    return isSigned ? arith::ExtSIOp::create(builder, math.location, type, x).getResult()
                    : arith::ExtUIOp::create(builder, math.location, type, x).getResult();
  }
  return isSigned ? arith::SIToFPOp::create(builder, math.location, type, x).getResult()
                  : arith::UIToFPOp::create(builder, math.location, type, x).getResult();
}

/// Input channels as sums are; zeros where the mask, if there is one, is off.
Value GroupedConv::loadInput(const IndexMath &math, Type type, Value address, Value mask) const {
  OpBuilder &builder = math.builder;
  Type from = storedAs(type);
  unsigned alignment = element.getIntOrFloatBitWidth() / 8;
  Value x;
  if (mask) {
    Value zero = arith::ConstantOp::create(builder, math.location, builder.getZeroAttr(from));
    x = LLVM::MaskedLoadOp::create(builder, math.location, from, address, mask, zero, alignment);
  } else {
    x = LLVM::LoadOp::create(builder, math.location, from, address, alignment);
  }
  return widened(math, type, x, /*isSigned=*/false);
}

/// The address of an element of the input, or of packed weights, so many behind another.
Value GroupedConv::stored(const IndexMath &math, Value base, Value elements) const {
  return LLVM::GEPOp::create(math.builder, math.location, base.getType(), storedAs(sum), base,
                             ArrayRef<LLVM::GEPArg>{math.toI64(elements)});
}

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

/// One input channel of each group: `columns` are the pixels' input channels by their place in the
/// line. `lane` is the channel's place in its group where a vector spans groups.
GroupedConv::Vectors GroupedConv::addChannel(const IndexMath &math, const Taps &taps,
                                             const std::map<int64_t, Value> &columns,
                                             const Channels &channels, Value channel, int64_t lane,
                                             Vectors sums) {
  OpBuilder &builder = math.builder;
  Vectors weight;
  Value start = weightAt(math, taps.weights, math.mul(channel, channelStride));
  for (int64_t tap = 0; tap < taps.count; ++tap) {
    weight.push_back(loadWeight(math, weightAt(math, start, math.constant(tap * tapStride))));
  }
  SmallVector<int64_t> pattern;
  for (int64_t i = 0; i < lanes; ++i) {
    pattern.push_back(i / g.groupOutChannels() * g.groupChannels() + lane);
  }
  for (auto [column, pointer] : columns) {
    Value x;
    if (!spansGroups) {
      x = vector::BroadcastOp::create(
          builder, math.location, vector,
          loadInput(math, sum, stored(math, pointer, channel), /*mask=*/Value()));
    } else {
      x = loadInput(math, vector, pointer, channels.mask);
    }
    if (spansGroups && g.groupOutChannels() > 1) {
      x = vector::ShuffleOp::create(builder, math.location, x, x, pattern);
    }
    for (auto [pixel, added] : llvm::enumerate(sums)) {
      int64_t distance = column - static_cast<int64_t>(pixel) * g.width.stride;
      int64_t tap = distance / g.width.dilation;
      if (distance >= 0 && distance % g.width.dilation == 0 && tap < taps.count) {
        added = multiplyAdd(math, x, weight[tap], added);
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
      stored(math, math.pointer(input, math.constant(0)), math.add(first, channels.inputs));
  for (size_t pixel = 0; pixel < sums.size(); ++pixel) {
    for (int64_t tap = 0; tap < taps.count; ++tap) {
      int64_t column = pixel * g.width.stride + tap * g.width.dilation;
      Value &pointer = columns[column];
      if (pointer) {
        continue;
      }
      pointer = stored(math, start, math.constant(column * g.channels));
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
  bool isUnrolled = g.width.kernel <= kMaxUnrolled;
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
        Value weight = weightAt(c, channels.weights, c.mul(tap, tapStride));
        Taps taps{c.mul(line, size(c, g.width.in)), inputOf(c, g.width, pixels.first, w), weight,
                  isUnrolled ? g.width.kernel : 1};
        return addTaps(c, taps, channels, inner);
      });
    });
  });
  for (auto [pixel, result] : llvm::enumerate(state)) {
    if (element.isInteger(8) && isa<FloatType>(sum)) {
      VectorType integers = VectorType::get(lanes, math.builder.getI32Type());
      result = arith::FPToSIOp::create(math.builder, math.location, integers, result);
    }
    Value to = math.offset(sums, math.mul(stride, pixel));
    LLVM::StoreOp::create(math.builder, math.location, result, to, /*alignment=*/4);
  }
}

} // namespace tenon::codegen::cpu
