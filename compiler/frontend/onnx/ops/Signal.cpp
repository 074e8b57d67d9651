// Fourier transforms as products with tables of cosines and sines, and the mel filter bank.
// Relies on lengths being constant; a table is as large as the transform's length squared.
#include "compiler/frontend/onnx/NodeContext.h"

#include "mlir/IR/TypeUtilities.h"

#include <cmath>

using namespace mlir;

namespace tenon::onnx {
namespace {

/// Larger tables would outweigh any model.
constexpr int64_t kMostTableElements = int64_t{1} << 24;

/// One dimension's transform: `length` of the signal's elements are used, of `parts` numbers each.
struct Transform {
  int64_t length = 0;
  int64_t parts = 1;   ///< 1 for real, 2 for complex input
  int64_t points = 0;  ///< the transform's length
  int64_t results = 0; ///< how many results are wanted
  bool inverse = false;
  bool realResult = false; ///< the input is half of a symmetric spectrum

  int64_t resultParts() const { return realResult ? 1 : 2; }
  int64_t tableElements() const { return length * parts * results * resultParts(); }
};

/// The table [length * parts, results * parts of a result], row-major.
std::vector<double> tableOf(const Transform &t) {
  std::vector<double> table(t.tableElements());
  double unit = (t.inverse ? 2 : -2) * M_PI / static_cast<double>(t.points);
  int64_t columns = t.results * t.resultParts();
  for (int64_t j = 0; j < t.length; ++j) {
    // An inner element of half a spectrum stands for its mirror image too.
    bool isInner = t.realResult && j != 0 && 2 * j != t.points;
    double weight = (isInner ? 2.0 : 1.0) / (t.inverse ? static_cast<double>(t.points) : 1.0);
    for (int64_t k = 0; k < t.results; ++k) {
      double angle = unit * static_cast<double>(j * k % t.points);
      double re = weight * std::cos(angle), im = weight * std::sin(angle);
      double *real = &table[j * t.parts * columns + k * t.resultParts()];
      real[0] = re;
      if (!t.realResult) {
        real[1] = im;
      }
      if (t.parts == 2) {
        double *imaginary = real + columns;
        imaginary[0] = -im;
        if (!t.realResult) {
          imaginary[1] = re;
        }
      }
    }
  }
  return table;
}

/// x [..., length * parts] times the table, [..., results, parts of a result].
Value transformRows(NodeContext &c, Value x, const Transform &t) {
  if (!x) {
    return x;
  }
  if (t.tableElements() > kMostTableElements) {
    c.gap("a transform of that length needs too large a table", "use a shorter transform");
    return Value();
  }
  Value table = c.realConstant(tableOf(t), {t.length * t.parts, t.results * t.resultParts()},
                               getElementTypeOrSelf(x));
  tn::Dims dims = tn::getDims(x.getType());
  Value rows = dims.size() > 1 ? x : c.reshape(x, {c.constantSize(1), dims[0]});
  Value y = c.make<tn::MatmulOp>(rows, table, false, false);
  dims.back() = c.constantSize(t.results);
  dims.push_back(c.constantSize(t.resultParts()));
  return c.reshape(y, dims);
}

/// The axis of DFT: an attribute before opset 20, an input since.
std::optional<int64_t> transformAxis(NodeContext &c) {
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

std::optional<Transform> readTransform(NodeContext &c, int64_t axis) {
  tn::Dims dims = c.dims(0);
  std::optional<int64_t> size = tn::constantDim(dims[axis]), parts = tn::constantDim(dims.back());
  if (!size || !parts || *parts < 1 || *parts > 2) {
    c.gap("the length of the signal is not constant", "declare the dimension with --shape");
    return std::nullopt;
  }
  Transform t;
  bool onesided = c.integer("onesided", 0) != 0;
  t.inverse = c.integer("inverse", 0) != 0;
  t.realResult = t.inverse && onesided;
  t.parts = *parts;
  t.points = t.realResult ? 2 * (*size - 1) : *size;
  if (c.has(1)) {
    std::optional<SmallVector<int64_t>> given = c.requireIntegers(1, "length of the transform");
    if (!given || given->size() != 1) {
      return std::nullopt;
    }
    t.points = (*given)[0];
  }
  if (t.points < 1 || t.points > kMostTableElements || (onesided && !t.inverse && t.parts == 2)) {
    c.error(ErrorId::OnnxBadNode, "its length is not positive, or half of the results of a "
                                  "complex signal is wanted");
    return std::nullopt;
  }
  t.length = std::min(*size, t.realResult ? t.points / 2 + 1 : t.points);
  t.results = onesided && !t.inverse ? t.points / 2 + 1 : t.points;
  return t;
}

void dft(NodeContext &c) {
  if (c.rank(0) < 2) {
    return c.error(ErrorId::OnnxBadNode, "its input has no dimension of parts");
  }
  std::optional<int64_t> axis = transformAxis(c);
  std::optional<Transform> t = axis ? readTransform(c, *axis) : std::nullopt;
  if (!t) {
    return;
  }
  // The axis goes next to the parts, and both become a row.
  int64_t rank = c.rank(0);
  SmallVector<int64_t> there = llvm::to_vector(llvm::seq<int64_t>(0, rank));
  there.erase(there.begin() + *axis);
  there.insert(there.end() - 1, *axis);
  SmallVector<int64_t> back = llvm::to_vector(llvm::seq<int64_t>(0, rank));
  back.erase(back.end() - 2);
  back.insert(back.begin() + *axis, rank - 2);
  Value x = c.sliceAxis(c.value(0), *axis, c.constantSize(0), c.constantSize(t->length));
  x = c.transpose(x, there);
  tn::Dims rows = x ? tn::getDims(x.getType()) : tn::Dims(rank);
  rows.pop_back();
  rows.back() = c.constantSize(t->length * t->parts);
  c.setOutput(0, c.transpose(transformRows(c, c.reshape(x, rows), *t), back));
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
  AffineExpr room = subtractSizes(dims[1], c.constantSize(f.length));
  bool isKnown = (!c.has(2) || window) && (f.length > 0 || whole) && f.parts != 0;
  if (!isKnown || !room || (!whole && c.symbols().bounds(room).min < 0)) {
    c.gap("the length of its frames is not constant, or longer than the signal may be",
          "declare the dimension with --shape");
    return std::nullopt;
  }
  if (!fits || c.symbols().bounds(room).min < 0) {
    c.error(ErrorId::OnnxBadNode, "its frames and window do not fit the signal");
    return std::nullopt;
  }
  AffineExpr more = divideSizes(c.symbols(), room, c.constantSize(f.step));
  f.count = more ? addSizes(more, c.constantSize(1)) : nullptr;
  if (!f.count) {
    c.gap("the number of frames cannot be written as an expression",
          "declare the dimension with --shape");
  }
  return f.count ? std::optional(f) : std::nullopt;
}

void stft(NodeContext &c) {
  if (c.rank(0) < 2 || c.rank(0) > 3 || (c.has(2) && c.rank(2) != 1)) {
    return c.error(ErrorId::OnnxBadNode, "its signal or window has another rank than needed");
  }
  std::optional<Frames> f = readFrames(c);
  if (!f) {
    return;
  }
  bool onesided = c.integer("onesided", 1) != 0 && f->parts == 1;
  Transform t;
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
  c.setOutput(0, transformRows(c, rows, t));
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
      numbers[0] * length > static_cast<double>(kMostTableElements)) {
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

constexpr OpRow kRows[] = {
    {"DFT", 17, 1, 2, 1, dft, {{"axis", kInt}, {"inverse", kInt}, {"onesided", kInt}}},
    {"DFT", 20, 1, 3, 1, dft, {{"inverse", kInt}, {"onesided", kInt}}},
    {"MelWeightMatrix", 17, 5, 5, 1, melWeightMatrix, {{"output_datatype", kInt}}},
    {"STFT", 17, 2, 4, 1, stft, {{"onesided", kInt}}},
};

} // namespace

ArrayRef<OpRow> signalRows() { return kRows; }

} // namespace tenon::onnx
