// Resize and its predecessor Upsample: scales or sizes become result dims and one scale a dim.
// Relies on constant scales being fractions where the dim is symbolic; where the ratio of two dims
// is known when the model runs, positions are computed and elements gathered.
#include "compiler/frontend/common/Resizing.h"
#include "compiler/frontend/onnx/StatedSizes.h"
#include "compiler/frontend/onnx/ops/ShapeFold.h"

#include <cmath>

using namespace mlir;

namespace tenon::onnx {
namespace {

/// The ratio of two dims, if it is a constant.
std::optional<double> ratio(NodeContext &c, AffineExpr out, AffineExpr in) {
  std::optional<int64_t> above = tn::constantDim(out);
  std::optional<int64_t> below = tn::constantDim(in);
  if (above && below) {
    return *below > 0 ? std::optional(static_cast<double>(*above) / static_cast<double>(*below))
                      : std::nullopt;
  }
  for (auto [numerator, denominator, invert] :
       {std::tuple(out, in, false), std::tuple(in, out, true)}) {
    AffineExpr quotient = divideProducts(c.symbols(), {numerator}, {denominator});
    std::optional<int64_t> whole = quotient ? tn::constantDim(quotient) : std::nullopt;
    if (whole && *whole > 0 && tn::sameDim(multiplySizes(quotient, denominator), numerator)) {
      return invert ? 1.0 / static_cast<double>(*whole) : static_cast<double>(*whole);
    }
  }
  return std::nullopt;
}

struct Request {
  tn::Dims dims;
  SmallVector<double> scales; ///< kComputed where two dims decide it when the model runs
};
constexpr double kComputed = 0;

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

std::optional<Request> fromScales(NodeContext &c, ArrayRef<double> scales, ArrayRef<int64_t> axes) {
  Request request{c.dims(0), SmallVector<double>(c.rank(0), 1.0)};
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
    request.dims[axis] = scaledSize(c, request.dims[axis], scale);
    if (!request.dims[axis]) {
      c.gap("the scaled size is no expression of the input's",
            "declare the dimension with --shape");
      return std::nullopt;
    }
  }
  return request;
}

std::optional<Request> fromSizes(NodeContext &c, ArrayRef<AffineExpr> sizes,
                                 ArrayRef<int64_t> axes) {
  Request request{c.dims(0), SmallVector<double>(c.rank(0), 1.0)};
  if (sizes.size() != axes.size()) {
    c.error(ErrorId::OnnxBadNode, "the sizes do not fit its input");
    return std::nullopt;
  }
  std::string policy =
      c.choice("keep_aspect_ratio_policy", {"stretch", "not_larger", "not_smaller"});
  std::optional<double> common;
  for (auto [axis, size] : llvm::zip_equal(axes, sizes)) {
    std::optional<double> scale = ratio(c, size, request.dims[axis]);
    bool isConstant = tn::constantDim(size) && tn::constantDim(request.dims[axis]);
    if (!scale && !isConstant && policy == "stretch") {
      request.scales[axis] = kComputed;
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

void emit(NodeContext &c, Value x, Request request, tn::ResizeMode mode, StringRef coordinates,
          StringRef nearest, ArrayRef<double> roi) {
  bool isAveraged = c.opset >= 18 && c.integer("antialias", 0) != 0;
  bool excludesOutside = c.integer("exclude_outside", 0) != 0;
  double cubic = c.real("cubic_coeff_a", -0.75);
  frontend::Reading reading{mode, coordinates, nearest, cubic, excludesOutside, isAveraged};
  float outside = static_cast<float>(c.real("extrapolation_value", 0));
  SmallVector<int64_t> computed;
  for (auto [axis, scale] : llvm::enumerate(request.scales)) {
    if (scale == kComputed) {
      computed.push_back(static_cast<int64_t>(axis));
    }
  }
  if (!computed.empty() && !frontend::canResizeAlong(reading, c.element(0))) {
    return c.gap("the ratio of new to old size is not a constant",
                 "declare the dimension with --shape");
  }
  for (int64_t axis : computed) {
    x = frontend::resizeAlong(c, x, axis, request.dims[axis], reading);
    request.scales[axis] = 1;
    if (c.failed()) {
      return;
    }
    request.dims[axis] = tn::getDims(x.getType())[axis];
  }
  bool isDone = llvm::all_of(request.scales, [](double scale) { return scale == 1; });
  if (!computed.empty() && isDone) {
    return c.setOutput(0, x);
  }
  c.setOutput(0, c.makeTyped<tn::ResizeOp>(
                     tn::makeTensor(c.symbols().canonical(request.dims), c.element(0)), x, mode,
                     coordinates, nearest, request.scales, llvm::APFloat(cubic), excludesOutside,
                     isAveraged, llvm::APFloat(outside), roi));
}

/// Upsample, and Resize of opset 10: asymmetric coordinates, rounded down.
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
  std::optional<Request> request = mode ? fromScales(c, *scales, resizedAxes(c)) : std::nullopt;
  if (request) {
    emit(c, c.value(0), *request, *mode, "asymmetric", "floor", {});
  }
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
  std::optional<Request> request;
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
  SmallVector<double> roi;
  if (request && coordinates == "tf_crop_and_resize") {
    roi = regionOfInterest(c, axes);
  }
  if (request && !c.failed()) {
    emit(c, x, *request, *mode, coordinates, nearest, roi);
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

constexpr OpRow kRows[] = {
    {"Resize", 10, 2, 2, 1, resize, {{"mode", kString}}},
    {"Resize", 11, 3, 4, 1, resize, kResize},
    {"Resize", 13, 1, 4, 1, resize, kResize13},
    {"Upsample", 7, 1, 1, 1, resizeByScales, {{"mode", kString}, needs({"scales", kFloats})}},
    {"Upsample", 9, 2, 2, 1, resizeByScales, {{"mode", kString}}},
};

} // namespace

ArrayRef<OpRow> resizeRows() { return kRows; }

} // namespace tenon::onnx
