// Interpolation in all modes.
#include "compiler/frontend/common/Resizing.h"
#include "compiler/frontend/pt2/Call.h"

#include "mlir/IR/TypeUtilities.h"

#include <cmath>

using namespace mlir;

namespace tenon::pt2 {
namespace {

/// floor(dim * scale); null if that is no expression.
AffineExpr scaled(Call &c, AffineExpr dim, double scale) {
  if (std::optional<int64_t> size = tn::constantDim(dim)) {
    return c.constantSize(static_cast<int64_t>(std::floor(static_cast<double>(*size) * scale)));
  }
  double inverse = 1 / scale;
  constexpr int64_t kDenominator = 64; // products with such fractions are exact
  double numerator = scale * kDenominator;
  if (scale >= 1 && scale == std::floor(scale)) {
    return frontend::multiplySizes(dim, c.constantSize(static_cast<int64_t>(scale)));
  }
  return inverse == std::floor(inverse)
             ? frontend::divideSizes(c.symbols(), dim,
                                     c.constantSize(static_cast<int64_t>(inverse)))
         : numerator == std::floor(numerator) && numerator < kDenominator * 64
             ? frontend::divideSizes(
                   c.symbols(),
                   frontend::multiplySizes(dim, c.constantSize(static_cast<int64_t>(numerator))),
                   c.constantSize(kDenominator))
             : AffineExpr();
}

/// The ratio of two dims, if it is a constant.
std::optional<double> ratio(Call &c, AffineExpr out, AffineExpr in) {
  std::optional<int64_t> above = tn::constantDim(out), below = tn::constantDim(in);
  if (above && below) {
    return *below > 0 ? std::optional(static_cast<double>(*above) / static_cast<double>(*below))
                      : std::nullopt;
  }
  for (bool isGrown : {true, false}) {
    AffineExpr large = isGrown ? out : in, small = isGrown ? in : out;
    AffineExpr quotient = frontend::divideProducts(c.symbols(), {large}, {small});
    std::optional<int64_t> whole = quotient ? tn::constantDim(quotient) : std::nullopt;
    if (whole && *whole > 0 && tn::sameDim(frontend::multiplySizes(quotient, small), large)) {
      return isGrown ? static_cast<double>(*whole) : 1.0 / static_cast<double>(*whole);
    }
  }
  return std::nullopt;
}

void resizeAs(Call &c, tn::ResizeMode mode, StringRef coordinates, StringRef nearest,
              bool antialias) {
  mlir::Value x = c.value(c.has("self") ? "self" : "input");
  if (!x) {
    return;
  }
  tn::Dims dims = tn::getDims(x.getType()), own = dims;
  SmallVector<double> scales(dims.size(), 1.0);
  size_t spatial = dims.size() - 2;
  SmallVector<double> factors =
      c.has("scale_factors") ? c.reals("scale_factors") : SmallVector<double>();
  for (StringRef name : {"scales", "scales_d", "scales_h", "scales_w"}) {
    if (c.has(name)) {
      factors.push_back(c.real(name, 1));
    }
  }
  tn::Dims sizes = c.sizes("output_size");
  if (own.size() < 3 || (!sizes.empty() && sizes.size() != spatial)) {
    return c.error(ErrorId::Pt2BadGraph, "its sizes are not those of its operand");
  }
  c.ignore({"output_size", "scale_factors"});
  double cubic = antialias ? -0.5 : -0.75;
  frontend::Reading reading{mode,      coordinates,        nearest, cubic, antialias,
                            antialias, /*multiplies=*/true};
  for (size_t d = 0; d < spatial; ++d) {
    AffineExpr &dim = dims[d + 2];
    bool hasFactor = factors.size() == spatial;
    dim = !sizes.empty() ? sizes[d] : hasFactor ? scaled(c, dim, factors[d]) : AffineExpr();
    // A factor that is given is what coordinates are computed with, rather than the ratio of sizes.
    // Corners that are aligned lie where the sizes put them.
    std::optional<double> scale = hasFactor && coordinates != "align_corners"
                                      ? std::optional(factors[d])
                                  : dim ? ratio(c, dim, own[d + 2])
                                        : std::nullopt;
    if (dim && !scale && !hasFactor && frontend::canResizeAlong(reading, getElementTypeOrSelf(x))) {
      x = frontend::resizeAlong(c, x, static_cast<int64_t>(d) + 2, dim, reading);
      if (!x) {
        return;
      }
      continue;
    }
    if (!dim || !scale) {
      return c.gap("the ratio of new to old size is not a constant",
                   "declare the dimension with --shape");
    }
    scales[d + 2] = *scale;
  }
  dims = c.symbols().canonical(dims);
  if (tn::sameDims(dims, tn::getDims(x.getType())) && !tn::sameDims(dims, own)) {
    return c.setOutput(x); // each axis is resized already
  }
  c.setOutput(c.makeTyped<tn::ResizeOp>(
      tn::makeTensor(dims, getElementTypeOrSelf(x)), x, mode, coordinates, nearest, scales,
      llvm::APFloat(cubic), antialias, antialias, llvm::APFloat(0.0), ArrayRef<double>()));
}

void nearest(Call &c) { resizeAs(c, tn::ResizeMode::nearest, "asymmetric", "floor", false); }
void nearestExact(Call &c) {
  resizeAs(c, tn::ResizeMode::nearest, "half_pixel", "round_prefer_ceil", false);
}
template <tn::ResizeMode mode> void smooth(Call &c) {
  bool aligns = c.truth("align_corners", false);
  resizeAs(c, mode, aligns ? "align_corners" : "half_pixel", "floor",
           c.target.name.contains("_aa"));
}

constexpr OpRow kRows[] = {
    {"aten.upsample_nearest1d", nearest},
    {"aten.upsample_nearest2d", nearest},
    {"aten.upsample_nearest3d", nearest},
    {"aten._upsample_nearest_exact1d", nearestExact},
    {"aten._upsample_nearest_exact2d", nearestExact},
    {"aten._upsample_nearest_exact3d", nearestExact},
    {"aten.upsample_linear1d", smooth<tn::ResizeMode::linear>},
    {"aten.upsample_bilinear2d", smooth<tn::ResizeMode::linear>},
    {"aten.upsample_trilinear3d", smooth<tn::ResizeMode::linear>},
    {"aten.upsample_bicubic2d", smooth<tn::ResizeMode::cubic>},
    {"aten._upsample_bilinear2d_aa", smooth<tn::ResizeMode::linear>},
    {"aten._upsample_bicubic2d_aa", smooth<tn::ResizeMode::cubic>},
};

} // namespace

ArrayRef<OpRow> resizeRows() { return kRows; }

} // namespace tenon::pt2
