// Averages, maxima and softmax: what reads windows or rows without weights.
#include "compiler/codegen/edge/Lowering.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <numeric>

using namespace mlir;

namespace tenon::codegen::edge {

std::optional<Windows> windowsOf(Value x, Value y, ArrayRef<int64_t> kernel,
                                 ArrayRef<int64_t> strides, ArrayRef<int64_t> dilations,
                                 ArrayRef<int64_t> pads, bool areChannelsLast) {
  ArrayRef<int64_t> in = shapeOf(x), out = shapeOf(y);
  bool isFlat = in.size() == 3;
  if ((!isFlat && in.size() != 4) || kernel.size() != in.size() - 2) {
    return std::nullopt;
  }
  auto at = [&](ArrayRef<int64_t> values, bool isHeight, int64_t missing) {
    return static_cast<int32_t>(isHeight ? (isFlat ? missing : values[0]) : values[isFlat ? 0 : 1]);
  };
  ArrayRef<int64_t> inSpace = areChannelsLast ? in.slice(1, in.size() - 2) : in.drop_front(2);
  ArrayRef<int64_t> outSpace = areChannelsLast ? out.slice(1, out.size() - 2) : out.drop_front(2);
  int64_t batch = areChannelsLast ? in[0] : in[0] * in[1];
  int64_t channels = areChannelsLast ? in.back() : 1;
  return Windows{static_cast<int32_t>(batch), at(inSpace, true, 1),
                 at(inSpace, false, 1),       static_cast<int32_t>(channels),
                 at(outSpace, true, 1),       at(outSpace, false, 1),
                 at(kernel, true, 1),         at(kernel, false, 1),
                 at(strides, true, 1),        at(strides, false, 1),
                 at(dilations, true, 1),      at(dilations, false, 1),
                 at(pads, true, 0),           at(pads, false, 0)};
}

namespace {

/// How many elements of [0, size) a window has, for each of `count` windows.
std::vector<int64_t> elementsInside(int64_t count, int64_t size, int64_t kernel, int64_t stride,
                                    int64_t pad) {
  std::vector<int64_t> inside;
  for (int64_t i = 0; i < count; ++i) {
    int64_t begin = i * stride - pad;
    inside.push_back(std::min(begin + kernel, size) - std::max(begin, int64_t{0}));
  }
  return inside;
}

} // namespace

Lowering::Maybe Lowering::averagePool(tn::AvgPoolOp op, const Quantizer &quantizer) {
  if (!viewOf(op.getX())) {
    return std::nullopt;
  }
  std::optional<Windows> at = windowsOf(op.getX(), op.getY(), op.getKernel(), op.getStrides(),
                                        op.getDilations(), op.getPads(), op.getChannelsLast());
  if (!at || at->dilationH != 1 || at->dilationW != 1 ||
      (op.getCeilMode() && op.getCountIncludePad())) {
    return gap(op, "an average over windows of this form has no kernel");
  }
  int32_t counted = op.getCountIncludePad() ? at->kernelH * at->kernelW : 0;
  if (roundsTwice) {
    return averageLite(op,
                       {at->batch, at->inH, at->inW, at->channels, at->outH, at->outW, at->kernelH,
                        at->kernelW, at->strideH, at->strideW, at->padH, at->padW},
                       quantizer);
  }
  return average(op, op.getX(),
                 {at->batch, at->inH, at->inW, at->channels, at->outH, at->outW, at->kernelH,
                  at->kernelW, at->strideH, at->strideW, at->padH, at->padW, counted},
                 0, quantizer);
}

/// `shape` has the kernel's parameters up to `counted`. A `divisor` takes the place of counts.
Lowering::Maybe Lowering::average(Operation *op, Value x, std::vector<int32_t> shape,
                                  double divisor, const Quantizer &quantizer) {
  View view = *viewOf(x);
  int32_t counted = shape[12];
  int64_t least = counted, most = counted;
  if (counted == 0) {
    std::vector<int64_t> rows = elementsInside(shape[4], shape[1], shape[6], shape[8], shape[10]);
    std::vector<int64_t> columns =
        elementsInside(shape[5], shape[2], shape[7], shape[9], shape[11]);
    int64_t leastRows = *llvm::min_element(rows), leastColumns = *llvm::min_element(columns);
    if (leastRows < 1 || leastColumns < 1) {
      return gap(op, "a window has padding alone");
    }
    least = leastRows * leastColumns;
    most = *llvm::max_element(rows) * *llvm::max_element(columns);
  }
  std::vector<int32_t> multipliers;
  std::vector<uint8_t> shifts;
  for (int64_t count = least; count <= most; ++count) {
    double factor =
        view.scale / (quantizer.scale * (divisor > 0 ? divisor : static_cast<double>(count)));
    std::optional<FixedPoint> fixed = fixedPoint(factor);
    if (fixed && roundsTwice && divisor == 0) {
      // The factor between the scales, divided by the count with all of its bits.
      fixed = fixedPoint(view.scale / quantizer.scale);
      int32_t more = fixed ? std::min<int32_t>(llvm::Log2_64(count), 62 - fixed->shift) : 0;
      if (fixed) {
        fixed->value = static_cast<int32_t>((int64_t{fixed->value} << more) / count);
        fixed->shift += more;
      }
    }
    if (!fixed || factor * static_cast<double>(count) * 255 > 1 << 30) {
      return gap(op, "its operand is far beyond the range of its quantized result");
    }
    multipliers.push_back(fixed->value);
    shifts.push_back(static_cast<uint8_t>(fixed->shift));
  }
  shape.insert(shape.end(), {static_cast<int32_t>(least), view.zero, quantizer.zero, quantizer.low,
                             quantizer.high});
  int tensor = newTensor(countOf(op->getResult(0)));
  Call &made = call(op, Kernel::Average, {view.tensor}, tensor, std::move(shape));
  made.constants.push_back(constantOf("multiplier", "int32_t", multipliers));
  made.constants.push_back(constantOf("shift", "uint8_t", shifts));
  return tensor;
}

/// Sums and means over neighbouring dims: one window of a column.
Lowering::Maybe Lowering::reduction(tn::ReduceOp op, const Quantizer &quantizer) {
  if (!viewOf(op.getX())) {
    return std::nullopt;
  }
  ArrayRef<int64_t> axes = op.getAxes(), dims = shapeOf(op.getX());
  bool isSum = op.getKind() == tn::ReduceKind::sum;
  bool areNeighbours =
      !axes.empty() && axes.back() - axes.front() + 1 == static_cast<int64_t>(axes.size());
  if ((!isSum && op.getKind() != tn::ReduceKind::mean) || !areNeighbours) {
    return gap(op, "sums and means over neighbouring dims have kernels, not this reduction");
  }
  auto product = [](ArrayRef<int64_t> sizes) {
    return static_cast<int32_t>(
        std::accumulate(sizes.begin(), sizes.end(), int64_t{1}, std::multiplies<int64_t>()));
  };
  int32_t outer = product(dims.take_front(axes.front()));
  int32_t size = product(dims.slice(axes.front(), axes.size()));
  int32_t inner = product(dims.drop_front(axes.back() + 1));
  return average(op, op.getX(), {outer, size, 1, inner, 1, 1, size, 1, 1, 1, 0, 0, size},
                 isSum ? 1 : 0, quantizer);
}

Lowering::Maybe Lowering::softmax(tn::SoftmaxOp op, const Quantizer &quantizer) {
  std::optional<View> x = viewOf(op.getX());
  if (!x) {
    return std::nullopt;
  }
  ArrayRef<int64_t> dims = shapeOf(op.getX());
  int64_t axis = op.getAxis();
  bool isLast = llvm::all_of(dims.drop_front(axis + 1), [](int64_t size) { return size == 1; });
  if (op.getLog() || !isLast) {
    return gap(op, "softmax along the last dim has a kernel, not this one");
  }
  constexpr int kPointBits = 15;
  int64_t columns = dims[axis];
  if (roundsTwice) {
    return softmaxLite(op, *x, columns, quantizer);
  }
  double inverse = 1 / quantizer.scale;
  int shift = kPointBits;
  auto fits = [&] {
    return std::nearbyint(std::ldexp(inverse, shift)) < 1 << 16 &&
           (columns << (kPointBits + shift)) <= int64_t{1} << 31;
  };
  while (shift >= 0 && !fits()) {
    --shift;
  }
  if (shift < 0) {
    return gap(op, "its rows are too long or its result's scale is too small for 32 bits");
  }
  std::vector<uint16_t> powers;
  for (int distance : {16, 1}) {
    for (int i = 0; i < 16; ++i) {
      powers.push_back(static_cast<uint16_t>(
          std::nearbyint(std::ldexp(std::exp(-distance * i * x->scale), kPointBits))));
    }
  }
  int32_t count = static_cast<int32_t>(countOf(op.getX()));
  int tensor = newTensor(count);
  Call &made = call(op, Kernel::Softmax, {x->tensor}, tensor,
                    {static_cast<int32_t>(count / columns), static_cast<int32_t>(columns),
                     static_cast<int32_t>(std::nearbyint(std::ldexp(inverse, shift))), shift,
                     quantizer.zero, quantizer.low, quantizer.high});
  made.mayOverwrite = true;
  made.constants.push_back(constantOf("powers", "uint16_t", powers));
  return tensor;
}

/// Of the numbers in tensor `x`.
Lowering::Maybe Lowering::maximum(tn::MaxPoolOp op, int x) {
  std::optional<Windows> at = windowsOf(op.getX(), op.getY(), op.getKernel(), op.getStrides(),
                                        op.getDilations(), op.getPads(), op.getChannelsLast());
  if (!at) {
    return gap(op, "a maximum over windows of this form has no kernel");
  }
  int tensor = newTensor(countOf(op.getY()));
  call(op, Kernel::Maximum, {x}, tensor,
       {at->batch, at->inH, at->inW, at->channels, at->outH, at->outW, at->kernelH, at->kernelW,
        at->strideH, at->strideW, at->dilationH, at->dilationW, at->padH, at->padW});
  return tensor;
}

} // namespace tenon::codegen::edge
