// Fourier transforms and the mel filter bank. Relies on lengths of transforms and frames being
// constant; a signal's may be free.
#include "compiler/frontend/common/Fourier.h"

#include "compiler/frontend/onnx/NodeContext.h"

#include "mlir/IR/TypeUtilities.h"

#include <cmath>

using namespace mlir;

namespace tenon::onnx {
namespace {

/// The axis of DFT: an attribute before opset 20, an input since.
std::optional<int64_t> axisOfTransform(NodeContext &c) {
  int64_t axis = c.opset < 20 ? c.integer("axis", 1) : -2;
  if (c.opset >= 20 && c.has(2)) {
    std::optional<SmallVector<int64_t>> given = c.requireIntegers(2, "axis");
    if (!given || given->size() != 1) {
      return std::nullopt;
    }
    axis = (*given)[0];
  }
  int64_t normal = c.normalizeAxis(axis, c.rank(0));
  if (normal == c.rank(0) - 1) {
    c.error(ErrorId::OnnxBadNode, "its axis is the dimension of real and imaginary parts");
  }
  return c.failed() ? std::nullopt : std::optional(normal);
}

/// Of `size` elements; none where the transform has a length of its own.
std::optional<frontend::Transform> readTransform(NodeContext &c, std::optional<int64_t> size) {
  std::optional<int64_t> parts = tn::constantDim(c.dims(0).back());
  if (!parts || *parts < 1 || *parts > 2) {
    c.gap("its signal may be real or complex", "declare the last dimension with --shape");
    return std::nullopt;
  }
  frontend::Transform t;
  bool onesided = c.integer("onesided", 0) != 0;
  t.inverse = c.integer("inverse", 0) != 0;
  t.realResult = t.inverse && onesided;
  t.parts = *parts;
  t.points = !size ? 0 : t.realResult ? 2 * (*size - 1) : *size;
  if (c.has(1)) {
    std::optional<SmallVector<int64_t>> given = c.requireIntegers(1, "length of the transform");
    if (!given || given->size() != 1) {
      return std::nullopt;
    }
    t.points = (*given)[0];
  }
  if (t.points < 1 || t.points > frontend::kMaxTableElements ||
      (onesided && !t.inverse && t.parts == 2)) {
    c.error(ErrorId::OnnxBadNode,
            "its length is not positive, or half of the results of a complex signal is requested");
    return std::nullopt;
  }
  t.length = t.realResult ? t.points / 2 + 1 : t.points;
  t.length = size ? std::min(*size, t.length) : t.length;
  t.results = onesided && !t.inverse ? t.points / 2 + 1 : t.points;
  return t;
}

/// As many zeros behind the elements along an axis as any number of them needs to be `length`.
Value withZeros(NodeContext &c, Value x, int64_t axis, int64_t length) {
  int64_t lacking = length - c.symbols().bounds(c.dims(0)[axis]).min;
  if (lacking <= 0) {
    return x;
  }
  SmallVector<int64_t> begins(c.rank(0), 0), ends(c.rank(0), 0);
  ends[axis] = lacking;
  return c.make<tn::PadOp>(x, Value(), begins, ends, tn::PadMode::constant);
}

/// Of a length that is a symbol.
void wholeTransform(NodeContext &c, int64_t axis) {
  bool onesided = c.integer("onesided", 0) != 0, inverse = c.integer("inverse", 0) != 0;
  std::optional<int64_t> parts = tn::constantDim(c.dims(0).back());
  if ((onesided && inverse) || !parts || *parts < 1 || *parts > 2) {
    return c.gap("the length of the signal is not constant", "declare the dimension with --shape");
  }
  if (onesided && *parts == 2) {
    return c.error(ErrorId::OnnxBadNode, "half of the results of a complex signal is requested");
  }
  Value y = frontend::transformWhole(c, c.value(0), axis, inverse);
  AffineExpr half =
      addSizes(divideSizes(c.symbols(), c.dims(0)[axis], c.constantSize(2)), c.constantSize(1));
  c.setOutput(0, onesided ? c.sliceAxis(y, axis, c.constantSize(0), half) : y);
}

void dft(NodeContext &c) {
  if (c.rank(0) < 2) {
    return c.error(ErrorId::OnnxBadNode, "its input has no dimension for real and imaginary parts");
  }
  std::optional<int64_t> axis = axisOfTransform(c);
  if (!axis) {
    return;
  }
  std::optional<int64_t> size = tn::constantDim(c.dims(0)[*axis]);
  if (!size && !c.has(1)) {
    return wholeTransform(c, *axis);
  }
  if (std::optional<frontend::Transform> t = readTransform(c, size)) {
    Value x = size ? c.value(0) : withZeros(c, c.value(0), *axis, t->length);
    c.setOutput(0, frontend::transformAxis(c, x, *axis, *t));
  }
}

/// The sizes of STFT's frames.
struct Frames {
  int64_t step = 1;
  int64_t length = 0;
  int64_t parts = 1;
  AffineExpr count;
};

std::optional<Frames> readFrames(NodeContext &c) {
  Frames f;
  std::optional<SmallVector<int64_t>> step = c.requireIntegers(1, "step of the frames");
  std::optional<SmallVector<int64_t>> length =
      c.has(3) ? c.requireIntegers(3, "length of the frames") : std::nullopt;
  if (!step || (c.has(3) && !length)) {
    return std::nullopt;
  }
  tn::Dims dims = c.dims(0);
  std::optional<int64_t> window = c.has(2) ? tn::constantDim(c.dims(2)[0]) : std::nullopt;
  std::optional<int64_t> whole = tn::constantDim(dims[1]);
  f.step = step->size() == 1 ? (*step)[0] : 0;
  f.length = length && length->size() == 1 ? (*length)[0] : window ? *window : whole.value_or(0);
  f.parts = dims.size() == 3 ? tn::constantDim(dims[2]).value_or(0) : 1;
  bool fits = f.step > 0 && f.length > 0 && f.parts >= 1 && f.parts <= 2 &&
              (!c.has(2) || window == f.length);
  if ((c.has(2) && !window) || (f.length == 0 && !whole) || f.parts == 0) {
    c.gap("the length of its frames is not constant", "make it a constant and export again");
    return std::nullopt;
  }
  if (!fits) {
    c.error(ErrorId::OnnxBadNode, "its frames and window do not fit the signal");
    return std::nullopt;
  }
  if (!c.require(tn::ConstraintKind::at_least, dims[1], c.constantSize(f.length),
                 "its signal and frames")) {
    return std::nullopt;
  }
  f.count = (c.dims(0)[1] - f.length).floorDiv(f.step) + 1;
  return f;
}

void stft(NodeContext &c) {
  if (c.rank(0) < 2 || c.rank(0) > 3 || (c.has(2) && c.rank(2) != 1)) {
    return c.error(ErrorId::OnnxBadNode, "its signal or window has the wrong rank");
  }
  std::optional<Frames> f = readFrames(c);
  if (!f) {
    return;
  }
  bool onesided = c.integer("onesided", 1) != 0 && f->parts == 1;
  frontend::Transform t;
  t.length = t.points = f->length;
  t.parts = f->parts;
  t.results = onesided ? f->length / 2 + 1 : f->length;
  tn::Dims dims = c.dims(0);
  AffineExpr parts = c.constantSize(f->parts), length = c.constantSize(f->length);
  Type index = c.builder().getI64Type();
  Value starts = c.mul(c.positions(f->count), c.scalar(static_cast<double>(f->step), index));
  Value places = c.add(c.alongAxis(starts, 0, 2), c.alongAxis(c.positions(length), 1, 2));
  Value signal = c.reshape(c.value(0), {dims[0], dims[1], parts});
  Value frames = c.make<tn::GatherOp>(signal, places, int64_t{1});
  if (c.has(2)) {
    frames = c.mul(frames, c.reshape(c.value(2), {length, c.constantSize(1)}));
  }
  Value rows = c.reshape(frames, {dims[0], f->count, c.constantSize(f->length * f->parts)});
  c.setOutput(0, frontend::transformRows(c, rows, t));
}

/// A scalar input that is known.
std::optional<double> knownNumber(NodeContext &c, unsigned i) {
  if (std::optional<SmallVector<int64_t>> whole = c.integers(i); whole && whole->size() == 1) {
    return static_cast<double>((*whole)[0]);
  }
  std::optional<SmallVector<double>> real = c.reals(i);
  return real && real->size() == 1 ? std::optional((*real)[0]) : std::nullopt;
}

/// Triangles over the bins of a spectrum, evenly spaced on the mel scale.
void melWeightMatrix(NodeContext &c) {
  double numbers[5];
  for (unsigned i = 0; i < 5; ++i) {
    std::optional<double> number = knownNumber(c, i);
    if (!number) {
      return c.gap("an input is not a constant", "make its inputs constants and export again");
    }
    numbers[i] = *number;
  }
  Type element = c.elementNamed("output_datatype", c.builder().getF32Type());
  double length = numbers[1], rate = numbers[2];
  if (!element || numbers[0] < 1 || length < 1 || rate <= 0 ||
      numbers[0] * length > static_cast<double>(frontend::kMaxTableElements)) {
    return c.error(ErrorId::OnnxBadNode, "its sizes are not positive or too large");
  }
  int64_t filters = static_cast<int64_t>(numbers[0]);
  int64_t bins = static_cast<int64_t>(length) / 2 + 1;
  auto mel = [](double hertz) { return 2595 * std::log10(1 + hertz / 700); };
  double low = mel(numbers[3]), step = (mel(numbers[4]) - low) / static_cast<double>(filters + 2);
  SmallVector<int64_t> edges;
  for (int64_t i = 0; i < filters + 2; ++i) {
    double hertz = 700 * (std::pow(10, (low + static_cast<double>(i) * step) / 2595) - 1);
    edges.push_back(static_cast<int64_t>(std::floor((length + 1) * hertz / rate)));
  }
  std::vector<double> matrix(bins * filters, 0);
  auto set = [&](int64_t bin, int64_t filter, double value) {
    if (bin >= 0 && bin < bins) {
      matrix[bin * filters + filter] = value;
    }
  };
  for (int64_t i = 0; i < filters; ++i) {
    double left = static_cast<double>(edges[i]), middle = static_cast<double>(edges[i + 1]),
           right = static_cast<double>(edges[i + 2]);
    set(edges[i + 1], i, 1);
    for (int64_t j = edges[i]; j < edges[i + 1]; ++j) {
      set(j, i, (static_cast<double>(j) - left) / (middle - left));
    }
    for (int64_t j = edges[i + 1]; j < edges[i + 2]; ++j) {
      set(j, i, (right - static_cast<double>(j)) / (right - middle));
    }
  }
  Type real = element.isF64() ? element : Type(c.builder().getF32Type());
  c.setOutput(0, c.cast(c.realConstant(matrix, {bins, filters}, real), element));
}

constexpr OpRow kSignalOpRows[] = {
    {"DFT", 17, 1, 2, 1, dft, {{"axis", kInt}, {"inverse", kInt}, {"onesided", kInt}}},
    {"DFT", 20, 1, 3, 1, dft, {{"inverse", kInt}, {"onesided", kInt}}},
    {"MelWeightMatrix", 17, 5, 5, 1, melWeightMatrix, {{"output_datatype", kInt}}},
    {"STFT", 17, 2, 4, 1, stft, {{"onesided", kInt}}},
};

} // namespace

ArrayRef<OpRow> signalRows() { return kSignalOpRows; }

} // namespace tenon::onnx
