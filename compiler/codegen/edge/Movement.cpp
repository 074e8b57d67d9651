// Movement of 8-bit numbers: reshapes are the tensor itself, everything else is copies of four dims
// between strides.
#include "compiler/codegen/edge/Lowering.h"

#include "compiler/graph/Shape.h"
#include "llvm/ADT/STLExtras.h"

#include <functional>
#include <numeric>

using namespace mlir;

namespace tenon::codegen::edge {
namespace {

SmallVector<int64_t> denseStrides(ArrayRef<int64_t> dims) {
  SmallVector<int64_t> strides(dims.size(), 1);
  for (size_t i = dims.size(); i-- > 1;) {
    strides[i - 1] = strides[i] * dims[i];
  }
  return strides;
}

/// Without dims of one, and with neighbours merged where both sides allow it.
Strided merged(const Strided &strided) {
  Strided result{{}, {}, {}, strided.inOffset, strided.outOffset};
  for (auto [size, in, out] : llvm::zip_equal(strided.sizes, strided.in, strided.out)) {
    if (size == 1) {
      continue;
    }
    bool isNext =
        !result.sizes.empty() && result.in.back() == in * size && result.out.back() == out * size;
    if (isNext) {
      result.sizes.back() *= size;
      result.in.back() = in;
      result.out.back() = out;
      continue;
    }
    result.sizes.push_back(size);
    result.in.push_back(in);
    result.out.push_back(out);
  }
  return result;
}

int64_t productOf(ArrayRef<int64_t> sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), int64_t{1}, std::multiplies<int64_t>());
}

} // namespace

Lowering::Maybe Lowering::copy(Operation *op, int from, int to, Strided strided, bool completes) {
  strided = merged(strided);
  constexpr size_t kDims = 4;
  if (strided.sizes.size() > kDims) {
    return gap(op, "a movement of more than four dims has no kernel");
  }
  while (strided.sizes.size() < kDims) {
    strided.sizes.insert(strided.sizes.begin(), 1);
    strided.in.insert(strided.in.begin(), 0);
    strided.out.insert(strided.out.begin(), 0);
  }
  std::vector<int32_t> shape(strided.sizes.begin(), strided.sizes.end());
  shape.push_back(static_cast<int32_t>(strided.inOffset));
  shape.insert(shape.end(), strided.in.begin(), strided.in.end());
  shape.push_back(static_cast<int32_t>(strided.outOffset));
  shape.insert(shape.end(), strided.out.begin(), strided.out.end());
  call(op, Kernel::Move, {from}, to, std::move(shape)).completes = completes;
  return to;
}

/// The tensor of a result of movement with one operand, which lies in `tensor`.
Lowering::Maybe Lowering::moved(Operation *op, int tensor, const View &view) {
  Value x = op->getOperand(0), y = op->getResult(0);
  ArrayRef<int64_t> in = shapeOf(x), out = shapeOf(y);
  SmallVector<int64_t> inStrides = denseStrides(in), outStrides = denseStrides(out);
  if (countOf(y) == 0) {
    return gap(op, "its result has no elements");
  }
  if (isa<tn::ReshapeOp>(op)) {
    return tensor;
  }
  Strided strided{SmallVector<int64_t>(out), {}, outStrides, 0, 0};
  if (tn::TransposeOp transpose = dyn_cast<tn::TransposeOp>(op)) {
    strided.in = opt::permuted(ArrayRef<int64_t>(inStrides), transpose.getPermutation());
    Strided whole = merged(strided);
    if (whole.sizes.size() < 2) {
      return tensor;
    }
  } else if (tn::SliceOp slice = dyn_cast<tn::SliceOp>(op)) {
    for (auto [i, start] : llvm::enumerate(slice.getStarts().getResults())) {
      std::optional<int64_t> constant = tn::constantDim(start);
      if (!constant) {
        return gap(op, "where it begins is no constant");
      }
      strided.inOffset += *constant * inStrides[i];
      strided.in.push_back(inStrides[i] * slice.getSteps()[i]);
    }
  } else if (isa<tn::BroadcastOp>(op)) {
    size_t added = out.size() - in.size();
    for (size_t i = 0; i < out.size(); ++i) {
      strided.in.push_back(i < added || in[i - added] == 1 ? 0 : inStrides[i - added]);
    }
  } else if (tn::PadOp pad = dyn_cast<tn::PadOp>(op)) {
    bool isGrown = llvm::all_of(pad.getBegins(), [](int64_t n) { return n >= 0; }) &&
                   llvm::all_of(pad.getEnds(), [](int64_t n) { return n >= 0; });
    std::optional<double> value = pad.getValue() ? constants.scalar(pad.getValue()) : 0.0;
    if (pad.getMode() != tn::PadMode::constant || !isGrown || !value) {
      return gap(op, "pads by a constant have a kernel, not this one");
    }
    int32_t number = isa<FloatType>(opt::tensorType(x).getElementType())
                         ? Quantizer{view.scale, view.zero}.quantized(*value)
                         : static_cast<int32_t>(*value);
    int padded = newTensor(countOf(y));
    call(op, Kernel::Fill, {}, padded, {static_cast<int32_t>(countOf(y)), number}).completes =
        false;
    strided.sizes.assign(in.begin(), in.end());
    strided.in = inStrides;
    for (auto [begin, stride] : llvm::zip_equal(pad.getBegins(), outStrides)) {
      strided.outOffset += begin * stride;
    }
    return copy(op, tensor, padded, strided, true);
  } else {
    return std::nullopt;
  }
  return copy(op, tensor, newTensor(countOf(y)), strided, true);
}

Lowering::Maybe Lowering::concat(tn::ConcatOp op, const Quantizer &quantizer) {
  ArrayRef<int64_t> out = shapeOf(op.getY());
  int64_t axis = op.getAxis();
  int64_t outer = productOf(out.take_front(axis)), inner = productOf(out.drop_front(axis + 1));
  int64_t row = out[axis] * inner, begin = 0;
  SmallVector<int> parts;
  for (Value x : op.getXs()) {
    std::optional<View> view = viewOf(x);
    Maybe part = view ? rescaled(op, *view, countOf(x), quantizer) : std::nullopt;
    if (!part) {
      return std::nullopt;
    }
    parts.push_back(*part);
  }
  int tensor = newTensor(countOf(op.getY()));
  for (auto [x, part] : llvm::zip_equal(op.getXs(), parts)) {
    int64_t size = shapeOf(x)[axis] * inner;
    copy(op, part, tensor, {{outer, size}, {size, 1}, {row, 1}, 0, begin}, begin + size == row);
    begin += size;
  }
  return tensor;
}

bool Lowering::movement(Operation *op) {
  if (tn::ConcatOp concat = dyn_cast<tn::ConcatOp>(op)) {
    std::optional<View> first = viewOf(concat.getXs().front());
    bool isSame = first && llvm::all_of(concat.getXs(), [&](Value x) {
                    std::optional<View> view = viewOf(x);
                    return view && view->scale == first->scale && view->zero == first->zero;
                  });
    Maybe tensor = isSame ? this->concat(concat, {first->scale, first->zero}) : std::nullopt;
    if (tensor) {
      views[concat.getY()] = {*tensor, first->scale, first->zero};
    }
    return tensor.has_value();
  }
  if (!isa<tn::ReshapeOp, tn::TransposeOp, tn::SliceOp, tn::BroadcastOp, tn::PadOp>(op)) {
    return false;
  }
  std::optional<View> view = viewOf(op->getOperand(0));
  Maybe tensor = view ? moved(op, view->tensor, *view) : std::nullopt;
  if (tensor) {
    views[op->getResult(0)] = {*tensor, view->scale, view->zero};
  }
  return tensor.has_value();
}

} // namespace tenon::codegen::edge
