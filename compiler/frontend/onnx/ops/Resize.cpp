// Resize and its predecessor Upsample: scales or sizes become result dims and one scale a dim.
// Relies on constant scales being fractions where the dim is symbolic.
#include "compiler/frontend/common/Resizing.h"
#include "compiler/frontend/onnx/StatedSizes.h"

#include <cmath>

using namespace mlir;

namespace tenon::onnx {
namespace {

/// The axes that scales, sizes and roi speak of.
SmallVector<int64_t> resizedAxes(NodeContext &c) {
  SmallVector<int64_t> axes = c.opset >= 18 ? c.integerList("axes") : SmallVector<int64_t>();
  if (axes.empty()) {
    return llvm::to_vector(llvm::seq<int64_t>(0, c.rank(0)));
  }
  for (int64_t &axis : axes) {
    axis = c.normalizeAxis(axis, c.rank(0));
  }
  return axes;
}

Resized unresized(NodeContext &c) {
  return {c.dims(0), SmallVector<std::optional<double>>(c.rank(0), 1.0)};
}

std::optional<Resized> fromScales(NodeContext &c, ArrayRef<double> scales, ArrayRef<int64_t> axes) {
  Resized request = unresized(c);
  if (scales.size() != axes.size()) {
    c.error(ErrorId::OnnxBadNode, "the scales do not fit its input");
    return std::nullopt;
  }
  for (auto [axis, scale] : llvm::zip_equal(axes, scales)) {
    if (!std::isfinite(scale) || scale <= 0) {
      c.error(ErrorId::OnnxBadNode, "a scale is not positive and finite");
      return std::nullopt;
    }
    request.scales[axis] = scale;
    AffineExpr size = request.dims[axis];
    request.dims[axis] = scaledSize(c.symbols(), size, scale, /*inDoubles=*/false);
    if (!request.dims[axis]) {
      std::optional<int64_t> largest = largestScaled(c.symbols(), size, scale);
      c.gap("the rounded product of its factor and a size is not a fraction of the size",
            largest ? "give the dimension a range of sizes up to " + Twine(*largest)
                    : Twine("give the dimension one size with --shape"));
      return std::nullopt;
    }
  }
  return request;
}

std::optional<Resized> fromSizes(NodeContext &c, ArrayRef<AffineExpr> sizes,
                                 ArrayRef<int64_t> axes) {
  Resized request = unresized(c);
  if (sizes.size() != axes.size()) {
    c.error(ErrorId::OnnxBadNode, "the sizes do not fit its input");
    return std::nullopt;
  }
  std::string policy =
      c.choice("keep_aspect_ratio_policy", {"stretch", "not_larger", "not_smaller"});
  std::optional<double> common;
  for (auto [axis, size] : llvm::zip_equal(axes, sizes)) {
    std::optional<double> scale = constantRatio(c.symbols(), size, request.dims[axis]);
    bool isConstant = tn::constantDim(size) && tn::constantDim(request.dims[axis]);
    if (!scale && !isConstant && policy == "stretch") {
      request.scales[axis] = std::nullopt;
      request.dims[axis] = size;
      continue;
    }
    if (!scale || *scale <= 0) {
      c.gap("the ratio of new to old size is not a constant", "declare the dimension with --shape");
      return std::nullopt;
    }
    request.scales[axis] = *scale;
    request.dims[axis] = size;
    common = !common                  ? *scale
             : policy == "not_larger" ? std::min(*common, *scale)
                                      : std::max(*common, *scale);
  }
  if (policy == "stretch" || !common) {
    return request;
  }
  for (int64_t axis : axes) {
    std::optional<int64_t> in = tn::constantDim(c.dims(0)[axis]);
    if (!in) {
      c.gap("keeping the aspect ratio of a dimension that is not constant",
            "declare the dimension with --shape");
      return std::nullopt;
    }
    request.scales[axis] = *common;
    request.dims[axis] =
        c.constantSize(static_cast<int64_t>(std::floor(*common * static_cast<double>(*in) + 0.5)));
  }
  return request;
}

/// The region of interest as begins and ends of all dims; empty after a failure.
SmallVector<double> regionOfInterest(NodeContext &c, ArrayRef<int64_t> axes) {
  std::optional<SmallVector<double>> given = c.reals(1);
  size_t rank = c.rank(0);
  SmallVector<double> roi(2 * rank, 0.0);
  std::fill(roi.begin() + rank, roi.end(), 1.0);
  if (!given || given->size() != 2 * axes.size()) {
    c.gap("the region of interest is not a constant of the right size", "make it a constant");
    return {};
  }
  for (auto [i, axis] : llvm::enumerate(axes)) {
    roi[axis] = (*given)[i];
    roi[rank + axis] = (*given)[axes.size() + i];
  }
  return roi;
}

std::optional<tn::ResizeMode> resizeMode(NodeContext &c) {
  std::string mode = c.text("mode", "nearest");
  if (mode == "nearest") {
    return tn::ResizeMode::nearest;
  }
  if (mode == "linear" || mode == "bilinear") {
    return tn::ResizeMode::linear;
  }
  if (mode == "cubic") {
    return tn::ResizeMode::cubic;
  }
  c.error(ErrorId::OnnxBadAttribute, "attribute 'mode' has an unknown value");
  return std::nullopt;
}

Value resized(NodeContext &c, Value x, Resized request, tn::ResizeMode mode, StringRef coordinates,
              StringRef nearest) {
  bool isAveraged = c.opset >= 18 && c.integer("antialias", 0) != 0;
  bool excludesOutside = c.integer("exclude_outside", 0) != 0;
  double cubic = c.real("cubic_coeff_a", -0.75);
  request.outside = static_cast<float>(c.real("extrapolation_value", 0));
  return frontend::resize(c, x, std::move(request),
                          {mode, coordinates, nearest, cubic, excludesOutside, isAveraged});
}

/// Upsample, and Resize of opset 10: asymmetric coordinates. Resize rounds up those of dims that it
/// makes smaller, as ONNX's own example and ONNX Runtime have it, and others down.
void resizeByScales(NodeContext &c) {
  std::optional<tn::ResizeMode> mode = resizeMode(c);
  std::optional<SmallVector<double>> scales;
  if (c.opset >= 9) {
    scales = c.reals(1);
  } else if (const Attribute *list = c.attribute("scales", AttributeType::Floats)) {
    scales = SmallVector<double>(list->floats.begin(), list->floats.end());
  }
  if (!scales) {
    return c.gap("its scales are not constants", "make the scales constants");
  }
  std::optional<Resized> request = mode ? fromScales(c, *scales, resizedAxes(c)) : std::nullopt;
  if (!request) {
    return;
  }
  Resized smaller = unresized(c);
  bool shrinks = false, grows = false;
  for (auto [i, scale] : llvm::enumerate(request->scales)) {
    bool isSmaller = c.opset == 10 && *mode == tn::ResizeMode::nearest && *scale < 1;
    if (isSmaller) {
      smaller.scales[i] = std::exchange(scale, 1.0);
      smaller.dims[i] = request->dims[i];
    }
    shrinks = shrinks || isSmaller;
    grows = grows || *scale != 1;
  }
  Value x = c.value(0);
  if (shrinks) {
    x = resized(c, x, smaller, *mode, "asymmetric", "ceil");
  }
  c.setOutput(0, shrinks && !grows ? x : resized(c, x, *request, *mode, "asymmetric", "floor"));
}

void resize(NodeContext &c) {
  if (c.opset < 11) {
    return resizeByScales(c);
  }
  c.ignoreInput(1);                     // of one coordinate mode
  c.ignore("keep_aspect_ratio_policy"); // of sizes
  std::optional<tn::ResizeMode> mode = resizeMode(c);
  SmallVector<int64_t> axes = resizedAxes(c);
  if (!mode || c.failed()) {
    return;
  }
  std::optional<SmallVector<double>> scales = c.reals(2);
  std::optional<Resized> request;
  Value x = c.value(0);
  if (scales && !scales->empty()) {
    request = fromScales(c, *scales, axes);
  } else if (std::optional<Sizes> sizes = c.has(3) ? c.sizes(3) : std::nullopt) {
    request = fromSizes(c, sizes->values, axes);
  } else if (std::optional<tn::Dims> stated = c.statedDims(0);
             stated && c.has(3) && axes.size() == stated->size() &&
             c.text("keep_aspect_ratio_policy", "stretch") == "stretch") {
    request = fromSizes(c, *stated, axes);
    x = requireData(c, x, 3, Sizes::list(*stated), "list of sizes");
  } else {
    c.gap("its scales or sizes are computed from input data", "make them constants");
  }
  std::string coordinates =
      c.choice("coordinate_transformation_mode",
               {"half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners",
                "asymmetric", "tf_half_pixel_for_nn", "tf_crop_and_resize"});
  std::string nearest =
      c.choice("nearest_mode", {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"});
  if (coordinates == "tf_half_pixel_for_nn") {
    // Half a step to the right of the half pixel position, where roundings have other names.
    if (nearest != "floor" && nearest != "round_prefer_floor") {
      return c.gap("coordinates tf_half_pixel_for_nn with this nearest_mode", "use half_pixel");
    }
    coordinates = "half_pixel";
    nearest = nearest == "floor" ? "round_prefer_ceil" : "ceil";
  }
  if (request && coordinates == "tf_crop_and_resize") {
    request->region = regionOfInterest(c, axes);
  }
  if (request && !c.failed()) {
    c.setOutput(0, resized(c, x, *request, *mode, coordinates, nearest));
  }
}

constexpr Attributes kResize = {{"coordinate_transformation_mode", kString},
                                {"cubic_coeff_a", kFloat},
                                {"exclude_outside", kInt},
                                {"extrapolation_value", kFloat},
                                {"mode", kString},
                                {"nearest_mode", kString}};
constexpr Attributes kResize13 = {{"antialias", kInt, 18},
                                  {"axes", kInts, 18},
                                  {"coordinate_transformation_mode", kString},
                                  {"cubic_coeff_a", kFloat},
                                  {"exclude_outside", kInt},
                                  {"extrapolation_value", kFloat},
                                  {"keep_aspect_ratio_policy", kString, 18},
                                  {"mode", kString},
                                  {"nearest_mode", kString}};

constexpr OpRow kResizeOpRows[] = {
    {"Resize", 10, 2, 2, 1, resize, {{"mode", kString}}},
    {"Resize", 11, 3, 4, 1, resize, kResize},
    {"Resize", 13, 1, 4, 1, resize, kResize13},
    {"Upsample", 7, 1, 1, 1, resizeByScales, {{"mode", kString}, needs({"scales", kFloats})}},
    {"Upsample", 9, 2, 2, 1, resizeByScales, {{"mode", kString}}},
};

} // namespace

ArrayRef<OpRow> resizeRows() { return kResizeOpRows; }

} // namespace tenon::onnx
