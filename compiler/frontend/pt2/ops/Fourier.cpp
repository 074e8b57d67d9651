// Fourier transforms of PyTorch. Complex tensors are two here; for a transform they become one,
// whose last dim holds the parts.
#include "compiler/frontend/common/Fourier.h"

#include "compiler/frontend/pt2/Call.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;

namespace tenon::pt2 {
namespace {

/// `self` as [..., parts].
mlir::Value joined(Call &c) {
  Type element = c.resultElement();
  mlir::Value real = c.value("self"), imaginary = c.imaginary("self");
  if (!real || !element) {
    return mlir::Value();
  }
  tn::Dims dims = tn::getDims(real.getType());
  if (dims.empty()) {
    c.error(ErrorId::Pt2BadGraph, "a scalar has no dim to be transformed");
    return mlir::Value();
  }
  dims.push_back(c.constantSize(1));
  real = c.reshape(c.cast(real, element), dims);
  return imaginary ? c.concat({real, c.reshape(c.cast(imaginary, element), dims)},
                              static_cast<int64_t>(dims.size()) - 1)
                   : real;
}

void setParts(Call &c, mlir::Value x) {
  if (!x) {
    return;
  }
  tn::Dims dims = tn::getDims(x.getType());
  int64_t axis = static_cast<int64_t>(dims.size()) - 1;
  AffineExpr parts = dims.pop_back_val();
  auto part = [&](int64_t i) {
    return c.reshape(c.sliceAxis(x, axis, c.constantSize(i), c.constantSize(1)), dims);
  };
  if (tn::constantDim(parts) == 1) {
    return c.setOutput(part(0));
  }
  c.setComplex(0, part(0), part(1));
}

/// Scaled as by default: the inverse is divided by the length.
bool isScaledByDefault(Call &c) {
  bool isDefault = c.text("norm", "backward") == "backward";
  if (!isDefault) {
    c.gap("other scales of the transform than the default are not supported",
          "scale the result itself");
  }
  return isDefault;
}

/// The dims that are transformed: those listed, else the last ones.
SmallVector<int64_t> transformedAxes(Call &c, int64_t rank, int64_t count) {
  SmallVector<int64_t> list = c.integers("dim");
  if (list.empty()) {
    list = llvm::to_vector(llvm::seq<int64_t>(-std::min(count, rank), 0));
  }
  for (int64_t &axis : list) {
    axis = c.normalizeAxis(axis, rank);
  }
  return list;
}

constexpr int64_t kAll = 64;

/// Complex results of as many elements as there are, over one dim (fft), two (fft2) or all (fftn).
template <int64_t kCount, bool isInverse> void transform(Call &c) {
  mlir::Value x = joined(c);
  if (!x || !isScaledByDefault(c)) {
    return;
  }
  if (c.has("n") || c.has("s")) {
    return c.gap("a transform of another length than the tensor's is not supported",
                 "pad or slice the tensor");
  }
  int64_t rank = cast<RankedTensorType>(x.getType()).getRank() - 1;
  for (int64_t axis : transformedAxes(c, rank, kCount)) {
    x = frontend::transformWhole(c, x, axis, isInverse);
  }
  setParts(c, x);
}

/// The length along the axis, if it is a constant.
std::optional<int64_t> lengthAlong(Call &c, mlir::Value x, int64_t axis) {
  std::optional<int64_t> size = tn::constantDim(tn::getDims(x.getType())[axis]);
  if (!size) {
    c.gap("the length of the signal is not constant", "fix it with --shape");
  }
  return size;
}

/// rfft: half of the spectrum of a real signal, and irfft, which takes it back.
template <bool isInverse> void realTransform(Call &c) {
  mlir::Value x = joined(c);
  if (!x || !isScaledByDefault(c)) {
    return;
  }
  int64_t rank = cast<RankedTensorType>(x.getType()).getRank() - 1;
  int64_t axis = c.axis("dim", -1, rank);
  std::optional<int64_t> size = lengthAlong(c, x, axis);
  if (!size) {
    return;
  }
  int64_t points = c.integer("n", isInverse ? 2 * (*size - 1) : *size);
  int64_t half = points / 2 + 1, needed = isInverse ? half : points;
  if (points < 1 || needed > *size) {
    return c.gap("a transform that is longer than the tensor is not supported", "pad the tensor");
  }
  setParts(c, frontend::transformAxis(c, x, axis,
                                      {.length = needed,
                                       .parts = isInverse ? 2 : 1,
                                       .points = points,
                                       .results = isInverse ? points : half,
                                       .inverse = isInverse,
                                       .realResult = isInverse}));
}

/// What the others are made of: the dims and a scale by its number, which is 2 for 1 / length.
/// Forward without a scale and backward with that one are all that are common.
void transformBasic(Call &c) {
  mlir::Value x = joined(c);
  bool isInverse = !c.truth("forward", true);
  if (c.integer("normalization", 0) != (isInverse ? 2 : 0)) {
    return c.gap("other scales of the transform than the default are not supported",
                 "scale the result itself");
  }
  if (!x) {
    return;
  }
  int64_t rank = cast<RankedTensorType>(x.getType()).getRank() - 1;
  for (int64_t axis : transformedAxes(c, rank, kAll)) {
    x = frontend::transformWhole(c, x, axis, isInverse);
  }
  setParts(c, x);
}

/// The same of a real tensor along one dim, all results or (one-sided) half of them.
void transformReal(Call &c) {
  mlir::Value x = joined(c);
  SmallVector<int64_t> list = c.integers("dim");
  if (!x || list.size() != 1 || c.integer("normalization", 0) != 0) {
    return c.gap("transforms of several dims of a real tensor, or scaled ones, are not supported",
                 "transform one dim after the other");
  }
  int64_t axis = c.normalizeAxis(list[0], cast<RankedTensorType>(x.getType()).getRank() - 1);
  if (!c.truth("onesided", true)) {
    return setParts(c, frontend::transformWhole(c, x, axis, false));
  }
  if (std::optional<int64_t> size = lengthAlong(c, x, axis)) {
    setParts(c, frontend::transformAxis(
                    c, x, axis, {.length = *size, .points = *size, .results = *size / 2 + 1}));
  }
}

/// The real signal of half a spectrum, divided by its length.
void transformToReal(Call &c) {
  mlir::Value x = joined(c);
  SmallVector<int64_t> list = c.integers("dim");
  int64_t points = c.integer("last_dim_size", 0);
  if (!x || list.size() != 1 || c.integer("normalization", 0) != 2) {
    return c.gap("transforms of several dims to a real tensor, or scaled ones, are not supported",
                 "transform one dim after the other");
  }
  int64_t axis = c.normalizeAxis(list[0], cast<RankedTensorType>(x.getType()).getRank() - 1);
  std::optional<int64_t> size = lengthAlong(c, x, axis);
  int64_t needed = points / 2 + 1;
  if (!size || points < 1 || needed > *size) {
    return c.gap("a transform that is longer than the tensor is not supported", "pad the tensor");
  }
  setParts(c, frontend::transformAxis(c, x, axis,
                                      {.length = needed,
                                       .parts = 2,
                                       .points = points,
                                       .results = points,
                                       .inverse = true,
                                       .realResult = true}));
}

/// Transforms of frames of a real signal, each `hop_length` after the one before: [..., results,
/// frames].
void shortTime(Call &c) {
  mlir::Value x = c.value("self");
  int64_t length = c.integer("n_fft", 0), hop = c.integer("hop_length", length / 4);
  if (!x || c.integer("win_length", length) != length || c.truth("normalized", false) ||
      !c.truth("return_complex", true) || length < 1 || hop < 1 || c.imaginary("self")) {
    return c.gap("a window shorter than the frame, scaled or complex forms are not supported",
                 "pad the window to n_fft, and scale the result itself");
  }
  c.ignore({"align_to_window"});
  bool isHalf = c.truth("onesided", true);
  tn::Dims dims = tn::getDims(x.getType());
  AffineExpr size = dims.pop_back_val(), frame = c.constantSize(length);
  AffineExpr rest = frontend::subtractSizes(size, frame);
  if (!c.require(tn::ConstraintKind::at_least, rest, c.constantSize(0), "the signal and a frame")) {
    return;
  }
  AffineExpr count = frontend::addSizes(
      frontend::divideSizes(c.symbols(), rest, c.constantSize(hop)), c.constantSize(1));
  if (!count) {
    return c.gap("the number of frames cannot be written as an expression",
                 "declare the dimension with --shape");
  }
  Type index = c.builder().getI64Type();
  mlir::Value starts = c.mul(c.positions(count), c.scalar(static_cast<double>(hop), index));
  mlir::Value places = c.add(c.alongAxis(starts, 0, 2), c.alongAxis(c.positions(frame), 1, 2));
  int64_t axis = static_cast<int64_t>(dims.size());
  mlir::Value frames = c.make<tn::GatherOp>(x, places, axis);
  if (c.has("window")) {
    frames = c.mul(frames, c.value("window"));
  }
  mlir::Value rows = frontend::transformRows(
      c, frames, {.length = length, .points = length, .results = isHalf ? length / 2 + 1 : length});
  SmallVector<int64_t> order = llvm::to_vector(llvm::seq<int64_t>(0, axis + 3));
  std::swap(order[axis], order[axis + 1]);
  setParts(c, c.transpose(rows, order));
}

constexpr OpRow kFourierOpRows[] = {
    {"aten.stft", shortTime},
    {"aten.fft_fft", transform<1, false>},
    {"aten.fft_ifft", transform<1, true>},
    {"aten.fft_fft2", transform<2, false>},
    {"aten.fft_ifft2", transform<2, true>},
    {"aten.fft_fftn", transform<kAll, false>},
    {"aten.fft_ifftn", transform<kAll, true>},
    {"aten._fft_c2c", transformBasic},
    {"aten._fft_r2c", transformReal},
    {"aten._fft_c2r", transformToReal},
    {"aten.fft_rfft", realTransform<false>},
    {"aten.fft_irfft", realTransform<true>},
};

} // namespace

ArrayRef<OpRow> fourierRows() { return kFourierOpRows; }

} // namespace tenon::pt2
