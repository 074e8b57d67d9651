// Maps read at computed positions, and patches as columns.
#include "compiler/frontend/common/GridSample.h"
#include "compiler/frontend/common/Regions.h"

#include "compiler/frontend/pt2/Call.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;

namespace tenon::pt2 {
namespace {

void gridSampler(Call &c) {
  // PyTorch's numbers: bilinear, nearest, bicubic; zeros, border, reflection.
  static constexpr StringLiteral kModes[] = {"linear", "padded nearest", "cubic"};
  int64_t mode = c.integer("interpolation_mode", 0), padding = c.integer("padding_mode", 0);
  if (mode < 0 || mode > 2 || padding < 0 || padding > 2) {
    return c.error(ErrorId::Pt2BadGraph, "its mode or padding is unknown");
  }
  c.setOutput(frontend::sampleGrid(c, c.value("input"), c.value("grid"), kModes[mode],
                                   static_cast<frontend::Padding>(padding),
                                   c.truth("align_corners", false)));
}

void affineGrid(Call &c) {
  c.setOutput(
      frontend::affineGrid(c, c.value("theta"), c.sizes("size"), c.truth("align_corners", false)));
}

/// torchvision's roi_align: each box begins with the number of its image.
void roiAlign(Call &c) {
  mlir::Value map = c.value("input"), rois = c.value("rois");
  if (!map || !rois) {
    return;
  }
  tn::Dims boxes = tn::getDims(rois.getType());
  if (tn::getDims(map.getType()).size() != 4 || boxes.size() != 2) {
    return c.error(ErrorId::Pt2BadGraph, "its operands are not images and boxes");
  }
  frontend::RegionPooling p{.height = c.integer("pooled_height", 1),
                            .width = c.integer("pooled_width", 1),
                            .samples = c.integer("sampling_ratio", -1),
                            .halfPixel = c.truth("aligned", false),
                            .isMax = false,
                            .scale = c.real("spatial_scale", 1)};
  if (p.samples < 1) {
    return c.gap("the number of samples follows from the size of each region, which only data "
                 "decides",
                 "export with a sampling_ratio above 0");
  }
  constexpr int64_t kMax = 1024;
  if (p.height < 1 || p.width < 1 || std::max({p.height, p.width, p.samples}) > kMax) {
    return c.error(ErrorId::Pt2BadGraph, "it has no bins or samples, or too many");
  }
  if (!frontend::requireDim(c, boxes[1], 5, "the length of its boxes")) {
    return;
  }
  mlir::Value images = c.sliceAxis(rois, 1, c.constantSize(0), c.constantSize(1));
  mlir::Value corners = c.sliceAxis(rois, 1, c.constantSize(1), c.constantSize(4));
  c.setOutput(frontend::alignRegions(c, map, corners, c.reshape(images, {boxes[0]}), p));
}

struct Patches {
  SmallVector<int64_t> kernel, dilation, padding, stride;
};

Patches patchesOf(Call &c) {
  auto pair = [&](StringRef name, int64_t otherwise) {
    SmallVector<int64_t> list = c.integers(name, {otherwise, otherwise});
    list.resize(2, list.empty() ? otherwise : list[0]);
    return list;
  };
  return {pair("kernel_size", 1), pair("dilation", 1), pair("padding", 0), pair("stride", 1)};
}

/// The positions that each patch reads along a dim: [kernel, patches], i64.
mlir::Value patchPositions(Call &c, int64_t kernel, int64_t dilation, int64_t stride,
                           AffineExpr count) {
  Type index = c.builder().getI64Type();
  mlir::Value first = c.mul(c.positions(count), c.scalar(static_cast<double>(stride), index));
  mlir::Value inner =
      c.mul(c.positions(c.constantSize(kernel)), c.scalar(static_cast<double>(dilation), index));
  return c.add(c.alongAxis(inner, 0, 2), c.alongAxis(first, 1, 2));
}

/// unfold: [N, C, H, W] as [N, C * kernel, patches].
void imageToColumns(Call &c) {
  mlir::Value x = c.value("self");
  Patches p = patchesOf(c);
  if (!x || tn::getDims(x.getType()).size() != 4) {
    return c.gap("unfold of an image without a batch is not supported", "add a dim of 1 before");
  }
  SmallVector<int64_t> pads = {0, 0, p.padding[0], p.padding[1]};
  x = c.make<tn::PadOp>(x, mlir::Value(), pads, pads, tn::PadMode::constant);
  tn::Dims dims = x ? tn::getDims(x.getType()) : tn::Dims();
  SmallVector<AffineExpr> counts;
  for (int64_t d = 0; d < 2 && x; ++d) {
    int64_t reach = p.dilation[d] * (p.kernel[d] - 1) + 1;
    AffineExpr room = frontend::subtractSizes(dims[2 + d], c.constantSize(reach));
    AffineExpr count = frontend::addSizes(
        frontend::divideSizes(c.symbols(), room, c.constantSize(p.stride[d])), c.constantSize(1));
    if (!count) {
      return c.gap("the number of patches cannot be written as an expression",
                   "declare the input shapes with --shape");
    }
    counts.push_back(count);
    // [.., kernel, patches] in place of each dim; the second comes two dims further on.
    x = c.make<tn::GatherOp>(x, patchPositions(c, p.kernel[d], p.dilation[d], p.stride[d], count),
                             2 + 2 * d);
  }
  if (!x) {
    return;
  }
  AffineExpr rows = frontend::multiplySizes(dims[1], c.constantSize(p.kernel[0] * p.kernel[1]));
  c.setOutput(c.reshape(c.transpose(x, {0, 1, 2, 4, 3, 5}),
                        {dims[0], rows, frontend::multiplySizes(counts[0], counts[1])}));
}

/// fold: each column is added where it belongs, which is what a transposed convolution with a
/// kernel of ones in their own places does.
void columnsToImage(Call &c) {
  mlir::Value x = c.value("self");
  Patches p = patchesOf(c);
  SmallVector<int64_t> image = c.integers("output_size");
  tn::Dims dims = x ? tn::getDims(x.getType()) : tn::Dims();
  int64_t taps = p.kernel[0] * p.kernel[1];
  std::optional<int64_t> rows = dims.size() == 3 ? tn::constantDim(dims[1]) : std::nullopt;
  if (!rows || image.size() != 2 || *rows % taps != 0 || taps > 4096) {
    return c.gap(
        "fold of columns that are not [N, C * kernel, patches] of constant sizes is not supported",
        "declare the input shapes with --shape");
  }
  SmallVector<int64_t> counts, ends,
      pads = {p.padding[0], p.padding[1], p.padding[0], p.padding[1]};
  for (int64_t d = 0; d < 2; ++d) {
    int64_t room = image[d] + 2 * p.padding[d] - (p.dilation[d] * (p.kernel[d] - 1) + 1);
    counts.push_back(room / p.stride[d] + 1);
    ends.push_back(room - (counts.back() - 1) * p.stride[d]);
  }
  SmallVector<double> one(static_cast<size_t>(taps * taps), 0);
  for (int64_t t = 0; t < taps; ++t) {
    one[t * taps + t] = 1;
  }
  Type element = getElementTypeOrSelf(x);
  int64_t channels = *rows / taps;
  AffineExpr images = frontend::multiplySizes(dims[0], c.constantSize(channels));
  mlir::Value columns = c.reshape(
      x, {images, c.constantSize(taps), c.constantSize(counts[0]), c.constantSize(counts[1])});
  mlir::Value y = c.make<tn::ConvTransposeOp>(
      columns, c.realConstant(one, {taps, 1, p.kernel[0], p.kernel[1]}, element), mlir::Value(),
      p.stride, pads, p.dilation, ends, int64_t{1});
  c.setOutput(c.reshape(
      y, {dims[0], c.constantSize(channels), c.constantSize(image[0]), c.constantSize(image[1])}));
}

constexpr OpRow kSamplingOpRows[] = {
    {"aten.grid_sampler", gridSampler},    {"aten.grid_sampler_2d", gridSampler},
    {"aten.grid_sampler_3d", gridSampler}, {"aten.affine_grid_generator", affineGrid},
    {"aten.im2col", imageToColumns},       {"aten.col2im", columnsToImage},
    {"torchvision.roi_align", roiAlign},
};

} // namespace

ArrayRef<OpRow> samplingRows() { return kSamplingOpRows; }

} // namespace tenon::pt2
