// Interpolation in all modes.
#include "compiler/frontend/common/Resizing.h"
#include "compiler/frontend/pt2/Call.h"

using namespace mlir;

namespace tenon::pt2 {
namespace {

void resizeAs(Call &c, tn::ResizeMode mode, StringRef coordinates, StringRef nearest,
              bool antialias) {
  mlir::Value x = c.value(c.has("self") ? "self" : "input");
  if (!x) {
    return;
  }
  tn::Dims own = tn::getDims(x.getType());
  size_t spatial = own.size() - 2;
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
  frontend::Resized result{own, SmallVector<std::optional<double>>(own.size(), 1.0)};
  bool hasFactors = factors.size() == spatial;
  for (size_t d = 0; d < spatial; ++d) {
    AffineExpr &dim = result.dims[d + 2];
    dim = !sizes.empty() ? sizes[d]
          : hasFactors   ? frontend::scaledSize(c.symbols(), dim, factors[d], /*inDoubles=*/true)
                         : AffineExpr();
    if (!dim) {
      return c.gap("the ratio of new to old size is not a constant",
                   "declare the dimension with --shape");
    }
    // A factor that is given is what coordinates are computed with, rather than the ratio of sizes.
    // Corners that are aligned lie where the sizes put them.
    result.scales[d + 2] = hasFactors && coordinates != "align_corners"
                               ? std::optional(factors[d])
                               : frontend::constantRatio(c.symbols(), dim, own[d + 2]);
  }
  double cubic = antialias ? -0.5 : -0.75;
  c.setOutput(frontend::resize(c, x, result,
                               {mode, coordinates, nearest, cubic, antialias, antialias,
                                /*multiplies=*/true}));
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

constexpr OpRow kResizeOpRows[] = {
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

ArrayRef<OpRow> resizeRows() { return kResizeOpRows; }

} // namespace tenon::pt2
