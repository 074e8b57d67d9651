// What moves elements: concatenation, splits, slices, transposes, padding, gathers and resizing.
#include "compiler/frontend/common/Padding.h"
#include "compiler/frontend/common/Resizing.h"
#include "compiler/frontend/tflite/Node.h"
#include "mlir/IR/TypeUtilities.h"

#include <limits>

using namespace mlir;

namespace tenon::tflite {
namespace {

void concatenation(Node &c) {
  const fb::ConcatenationOptions *options = c.options(c.op.options_as_ConcatenationOptions());
  SmallVector<mlir::Value> parts;
  for (size_t i = 0; i < c.numInputs(); ++i) {
    parts.push_back(c.value(i));
  }
  std::optional<int64_t> axis =
      options && !c.failed() ? c.axis(options->axis(), c.rank(parts[0])) : std::nullopt;
  if (axis) {
    c.setOutput(c.activated(c.concat(parts, *axis), options->activation()));
  }
}

/// Parts one after the other along an axis, as large as the file states.
void splitAlong(Node &c, size_t xInput, size_t axisInput) {
  mlir::Value x = c.value(xInput);
  std::optional<SmallVector<int64_t>> given = c.integers(axisInput);
  if (!x || !given) {
    return;
  }
  std::optional<int64_t> axis =
      given->size() == 1 ? c.axis(given->front(), c.rank(x)) : std::nullopt;
  if (!axis) {
    return c.error(ErrorId::OnnxBadNode, "its axis is not one number");
  }
  int64_t start = 0;
  for (size_t i = 0; i < c.numOutputs(); ++i) {
    SmallVector<int64_t> stated = c.statedShape(i);
    int64_t size = static_cast<int64_t>(stated.size()) == c.rank(x) ? stated[*axis] : -1;
    if (size < 0 || start + size > c.shape(x)[*axis]) {
      return c.error(ErrorId::OnnxBadNode, "its results are not parts of its operand");
    }
    c.setOutput(i, c.sliceAxis(x, *axis, c.constantSize(start), c.constantSize(size)));
    start += size;
  }
}

void split(Node &c) { splitAlong(c, 1, 0); }
void splitV(Node &c) { splitAlong(c, 0, 2); }

mlir::Value sliceOf(Node &c, mlir::Value x, ArrayRef<int64_t> starts, ArrayRef<int64_t> sizes,
                    ArrayRef<int64_t> steps) {
  tn::Dims first;
  for (int64_t start : starts) {
    first.push_back(c.constantSize(start));
  }
  return c.makeTyped<tn::SliceOp>(RankedTensorType::get(sizes, getElementTypeOrSelf(x)), x,
                                  tn::symbolMap(first, &c.importer().context), steps);
}

void slice(Node &c) {
  mlir::Value x = c.value(0);
  std::optional<SmallVector<int64_t>> starts = c.integers(1), sizes = c.integers(2);
  if (!x || !starts || !sizes) {
    return;
  }
  size_t rank = c.shape(x).size();
  bool isFit = starts->size() == rank && sizes->size() == rank;
  for (size_t i = 0; isFit && i < rank; ++i) {
    int64_t dim = c.shape(x)[i];
    isFit = (*starts)[i] >= 0 && (*starts)[i] <= dim;
    (*sizes)[i] = isFit && (*sizes)[i] == -1 ? dim - (*starts)[i] : (*sizes)[i];
    isFit &= (*sizes)[i] >= 0 && (*sizes)[i] <= dim - (*starts)[i];
  }
  if (!isFit) {
    return c.error(ErrorId::OnnxBadNode, "its bounds lie beyond its operand");
  }
  c.setOutput(sliceOf(c, x, *starts, *sizes, SmallVector<int64_t>(rank, 1)));
}

void stridedSlice(Node &c) {
  const fb::StridedSliceOptions *options = c.options(c.op.options_as_StridedSliceOptions());
  mlir::Value x = c.value(0);
  std::optional<SmallVector<int64_t>> begins = c.integers(1), ends = c.integers(2),
                                      steps = c.integers(3);
  if (!options || !x || !begins || !ends || !steps) {
    return;
  }
  size_t rank = c.shape(x).size();
  if (options->ellipsis_mask() != 0 || options->new_axis_mask() != 0) {
    return c.gap("it has an ellipsis or a new axis", "convert the model again");
  }
  if (begins->size() > rank || ends->size() != begins->size() || steps->size() != begins->size()) {
    return c.error(ErrorId::OnnxBadNode, "its bounds are not one for each dim of its operand");
  }
  SmallVector<int64_t> starts, sizes;
  for (size_t i = 0; i < rank; ++i) {
    int64_t dim = c.shape(x)[i];
    if (i >= begins->size()) {
      starts.push_back(0);
      sizes.push_back(dim);
      steps->push_back(1);
      continue;
    }
    int64_t step = (*steps)[i];
    if (step == 0 || step < std::numeric_limits<int32_t>::min() ||
        step > std::numeric_limits<int32_t>::max()) {
      return c.error(ErrorId::OnnxBadNode, "a step of it is 0");
    }
    auto has = [&](int32_t mask) { return (static_cast<uint32_t>(mask) >> i & 1) != 0; };
    int64_t least = step > 0 ? 0 : -1, most = step > 0 ? dim : dim - 1;
    auto placed = [&](int64_t at) { return std::clamp(at < 0 ? at + dim : at, least, most); };
    int64_t begin = has(options->begin_mask()) ? (step > 0 ? least : most) : placed((*begins)[i]);
    int64_t end = has(options->end_mask()) ? (step > 0 ? most : least)
                  : options->offset()      ? placed(begin + (*ends)[i])
                                           : placed((*ends)[i]);
    if (has(options->shrink_axis_mask())) {
      begin = (*begins)[i] < 0 ? (*begins)[i] + dim : (*begins)[i];
      if (begin < 0 || begin >= dim) {
        return c.error(ErrorId::OnnxBadNode, "it takes an element that its operand does not have");
      }
      step = (*steps)[i] = 1;
      end = begin + 1;
    }
    int64_t distance = step > 0 ? end - begin : begin - end;
    starts.push_back(begin);
    sizes.push_back(std::max<int64_t>(0, llvm::divideCeilSigned(distance, std::abs(step))));
    if (sizes.back() == 0) {
      starts.back() = 0;
    }
  }
  c.setOutput(c.reshape(sliceOf(c, x, starts, sizes, *steps), c.statedShape(0)));
}

void transpose(Node &c) {
  mlir::Value x = c.value(0);
  std::optional<SmallVector<int64_t>> order = c.integers(1);
  if (!x || !order) {
    return;
  }
  SmallVector<int64_t> sorted = *order;
  llvm::sort(sorted);
  bool isOrder = sorted.size() == c.shape(x).size();
  for (auto [i, dim] : llvm::enumerate(sorted)) {
    isOrder &= dim == static_cast<int64_t>(i);
  }
  if (!isOrder) {
    return c.error(ErrorId::OnnxBadNode, "its order does not name each dim once");
  }
  c.setOutput(c.transpose(x, *order));
}

void padded(Node &c, mlir::Value value, tn::PadMode mode) {
  mlir::Value x = c.value(0);
  std::optional<SmallVector<int64_t>> pads = c.integers(1);
  if (!x || !pads) {
    return;
  }
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  if (pads->size() != 2 * c.shape(x).size() ||
      llvm::any_of(*pads, [](int64_t pad) { return pad < 0 || pad > kMost; })) {
    return c.error(ErrorId::OnnxBadNode, "its padding is not two numbers for each dim");
  }
  tn::Dims begins, ends;
  for (size_t i = 0; i < pads->size(); i += 2) {
    begins.push_back(c.constantSize((*pads)[i]));
    ends.push_back(c.constantSize((*pads)[i + 1]));
  }
  c.setOutput(frontend::padBy(c, x, value, begins, ends, mode));
}

void pad(Node &c) { padded(c, mlir::Value(), tn::PadMode::constant); }

void padV2(Node &c) {
  mlir::Value value = c.value(2);
  if (value) {
    padded(c, c.reshape(value, ArrayRef<int64_t>()), tn::PadMode::constant);
  }
}

void mirrorPad(Node &c) {
  const fb::MirrorPadOptions *options = c.options(c.op.options_as_MirrorPadOptions());
  if (options && options->mode() != 0) {
    return c.gap("it repeats the element at the border", "pad with mode REFLECT");
  }
  if (options) {
    padded(c, mlir::Value(), tn::PadMode::reflect);
  }
}

void gather(Node &c) {
  const fb::GatherOptions *options = c.options(c.op.options_as_GatherOptions());
  mlir::Value x = c.value(0), indices = c.stored(1);
  std::optional<int64_t> axis = options && x ? c.axis(options->axis(), c.rank(x)) : std::nullopt;
  if (!axis || !indices) {
    return;
  }
  if (options->batch_dims() != 0) {
    return c.gap("it has dims of a batch", "gather along one axis");
  }
  c.setOutput(c.make<tn::GatherOp>(x, c.fromStart(indices), *axis));
}

void resized(Node &c, tn::ResizeMode mode, bool alignsCorners, bool hasHalfPixels) {
  mlir::Value x = c.value(0);
  SmallVector<int64_t> stated = c.statedShape(0);
  if (!x) {
    return;
  }
  if (c.rank(x) != 4 || stated.size() != 4) {
    return c.error(ErrorId::OnnxBadNode, "its operand or result does not have four dims");
  }
  bool isNearest = mode == tn::ResizeMode::nearest;
  frontend::Resized to;
  for (auto [i, dim] : llvm::enumerate(stated)) {
    if (dim < 1 || c.shape(x)[i] < 1) {
      return c.error(ErrorId::OnnxBadNode, "a dim of its operand or result is 0");
    }
    to.dims.push_back(c.constantSize(dim));
    to.scales.push_back(static_cast<double>(dim) / static_cast<double>(c.shape(x)[i]));
  }
  StringRef coordinates = alignsCorners   ? "align_corners"
                          : hasHalfPixels ? "half_pixel"
                                          : "asymmetric";
  StringRef nearest = !isNearest || coordinates == "asymmetric" ? "floor" : "round_prefer_ceil";
  c.setOutput(
      frontend::resize(c, x, to, {.mode = mode, .coordinates = coordinates, .nearest = nearest}));
}

void resizeBilinear(Node &c) {
  if (const fb::ResizeBilinearOptions *options =
          c.options(c.op.options_as_ResizeBilinearOptions())) {
    resized(c, tn::ResizeMode::linear, options->aligns_corners(), options->has_half_pixels());
  }
}

void resizeNearest(Node &c) {
  if (const fb::ResizeNearestOptions *options = c.options(c.op.options_as_ResizeNearestOptions())) {
    resized(c, tn::ResizeMode::nearest, options->aligns_corners(), options->has_half_pixels());
  }
}

} // namespace

llvm::ArrayRef<OpRow> movementRows() {
  static constexpr OpRow kRows[] = {
      {"CONCATENATION", 1, concatenation},
      {"GATHER", 2, gather},
      {"MIRROR_PAD", 2, mirrorPad},
      {"PAD", 2, pad},
      {"PADV2", 3, padV2},
      {"RESIZE_BILINEAR", 1, resizeBilinear},
      {"RESIZE_NEAREST_NEIGHBOR", 1, resizeNearest},
      {"SLICE", 3, slice},
      {"SPLIT", 2, split},
      {"SPLIT_V", 3, splitV},
      {"STRIDED_SLICE", 4, stridedSlice},
      {"TRANSPOSE", 2, transpose},
  };
  return kRows;
}

} // namespace tenon::tflite
