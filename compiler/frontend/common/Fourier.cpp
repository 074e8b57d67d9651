// Tables of constant lengths are weights; those of symbols are computed where they are used.
#include "compiler/frontend/common/Fourier.h"

#include "mlir/IR/TypeUtilities.h"

#include <cmath>

using namespace mlir;

namespace tenon::frontend {
namespace {

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

} // namespace

Value transformRows(Emitter &c, Value x, const Transform &t) {
  if (!x) {
    return x;
  }
  if (t.tableElements() > kMaxTableElements) {
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

namespace {

/// The axis goes next to the parts, and both become a row, which `transform` makes rows and parts
/// of results; then the axis goes back.
Value alongRows(Emitter &c, Value x, int64_t axis, AffineExpr length,
                llvm::function_ref<Value(Value rows)> transform) {
  int64_t rank = x ? cast<RankedTensorType>(x.getType()).getRank() : 0;
  if (rank < 2) {
    return Value();
  }
  SmallVector<int64_t> there = llvm::to_vector(llvm::seq<int64_t>(0, rank));
  there.erase(there.begin() + axis);
  there.insert(there.end() - 1, axis);
  SmallVector<int64_t> back = llvm::to_vector(llvm::seq<int64_t>(0, rank));
  back.erase(back.end() - 2);
  back.insert(back.begin() + axis, rank - 2);
  x = c.transpose(c.sliceAxis(x, axis, c.constantSize(0), length), there);
  tn::Dims rows = x ? tn::getDims(x.getType()) : tn::Dims(rank);
  AffineExpr parts = rows.pop_back_val();
  rows.back() = multiplySizes(length, parts);
  return c.transpose(transform(c.reshape(x, rows)), back);
}

/// [n, parts, n, 2] for a length that is a symbol. The product of both positions is reduced by the
/// length before it becomes an angle, so that its float is exact, and the angle is an f64: the sine
/// of a half turn vanishes beside the others.
Value openTable(Emitter &c, AffineExpr length, int64_t parts, bool inverse, Type real) {
  Type index = c.builder().getI64Type();
  Type wide = c.builder().getF64Type();
  Value i = c.positions(length), n = c.sizeValue(length, wide);
  Value turns = c.make<tn::ModOp>(c.mul(c.alongAxis(i, 0, 2), c.alongAxis(i, 1, 2)),
                                  c.sizeValue(length, index), /*fmod=*/false);
  double unit = (inverse ? 2 : -2) * M_PI;
  Value angle = c.div(c.mul(c.cast(turns, wide), c.scalar(unit, wide)), n);
  Value re = c.unary<tn::CosOp>(angle), im = c.unary<tn::SinOp>(angle);
  if (inverse) {
    re = c.div(re, n), im = c.div(im, n);
  }
  re = c.cast(re, real), im = c.cast(im, real);
  AffineExpr one = c.constantSize(1);
  auto apart = [&](Value x) { return c.reshape(x, {length, one, length, one}); };
  Value fromReal = c.concat({apart(re), apart(im)}, 3);
  if (parts == 1) {
    return fromReal;
  }
  return c.concat({fromReal, c.concat({apart(c.unary<tn::NegOp>(im)), apart(re)}, 3)}, 1);
}

} // namespace

Value transformAxis(Emitter &c, Value x, int64_t axis, const Transform &t) {
  return alongRows(c, x, axis, c.constantSize(t.length),
                   [&](Value rows) { return transformRows(c, rows, t); });
}

Value transformWhole(Emitter &c, Value x, int64_t axis, bool inverse) {
  tn::Dims dims = x ? tn::getDims(x.getType()) : tn::Dims();
  std::optional<int64_t> parts = x ? tn::constantDim(dims.back()) : std::nullopt;
  if (!parts) {
    return Value();
  }
  AffineExpr length = dims[axis];
  if (std::optional<int64_t> known = tn::constantDim(length)) {
    return transformAxis(c, x, axis,
                         {.length = *known,
                          .parts = *parts,
                          .points = *known,
                          .results = *known,
                          .inverse = inverse});
  }
  Value table = openTable(c, length, *parts, inverse, getElementTypeOrSelf(x));
  AffineExpr two = c.constantSize(2);
  return alongRows(c, x, axis, length, [&](Value rows) {
    tn::Dims own = rows ? tn::getDims(rows.getType()) : tn::Dims(2);
    Value flat = own.size() > 1 ? rows : c.reshape(rows, {c.constantSize(1), own[0]});
    Value product = c.make<tn::MatmulOp>(
        flat, c.reshape(table, {own.back(), multiplySizes(length, two)}), false, false);
    own.back() = length;
    own.push_back(two);
    return c.reshape(product, own);
  });
}

} // namespace tenon::frontend
