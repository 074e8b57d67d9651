// Maximum and mean over windows; adaptive pools where the windows are the same for all positions,
// or few.
#include "compiler/frontend/pt2/Call.h"

#include "compiler/graph/TnRare.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;

namespace tenon::pt2 {
namespace {

SmallVector<int64_t> spatial(Call &c, StringRef name, size_t dims, ArrayRef<int64_t> otherwise) {
  SmallVector<int64_t> list = c.integers(name, otherwise);
  if (list.empty()) {
    list.assign(otherwise.begin(), otherwise.end());
  }
  if (list.size() == 1) {
    list.resize(dims, list[0]);
  }
  if (list.size() != dims) {
    c.error(ErrorId::Pt2BadGraph,
            "its argument '" + name + "' does not have an entry for each dim");
  }
  return list;
}

/// x with a batch of one where it has none; `pool` on it, without that batch again.
mlir::Value batched(Call &c, mlir::Value x, size_t dims,
                    llvm::function_ref<mlir::Value(mlir::Value)> pool) {
  bool isSingle = rankOf(x) == static_cast<int64_t>(dims) + 1;
  tn::Dims own = tn::getDims(x.getType());
  if (isSingle) {
    own.insert(own.begin(), c.constantSize(1));
    x = c.reshape(x, own);
  }
  mlir::Value y = x ? pool(x) : x;
  if (!isSingle || !y) {
    return y;
  }
  tn::Dims result = tn::getDims(y.getType());
  result.erase(result.begin());
  return c.reshape(y, result);
}

/// The number of spatial dims, which ends the operator's name ("2d", "2d_with_indices").
size_t dimsOf(Call &c) {
  size_t at = c.target.name.rfind("d");
  size_t digit = c.target.name.find_last_of("123", at);
  return static_cast<size_t>(c.target.name[digit] - '0');
}

struct Windows {
  SmallVector<int64_t> kernel, strides, pads, dilations;
};

Windows windowsOf(Call &c, size_t dims) {
  Windows w;
  w.kernel = spatial(c, "kernel_size", dims, {});
  w.strides = spatial(c, "stride", dims, w.kernel);
  w.pads = spatial(c, "padding", dims, SmallVector<int64_t>(dims, 0));
  w.pads.append(SmallVector<int64_t>(w.pads));
  w.dilations = spatial(c, "dilation", dims, SmallVector<int64_t>(dims, 1));
  return w;
}

/// A count that is rounded up lets one window reach beyond the padded dim, where it reads nothing:
/// it is as large as that dim then.
void holdInside(Windows &w, tn::Dims dims) {
  dims.erase(dims.begin(), dims.end() - static_cast<int64_t>(w.kernel.size()));
  for (auto [i, dim] : llvm::enumerate(dims)) {
    std::optional<int64_t> size = tn::constantDim(dim);
    int64_t room = size.value_or(0) + 2 * w.pads[i];
    if (size && w.dilations[i] == 1 && w.kernel[i] > room && w.kernel[i] < room + w.strides[i]) {
      w.kernel[i] = room;
    }
  }
}

void maxPool(Call &c) {
  size_t dims = dimsOf(c);
  mlir::Value x = c.value("self");
  Windows w = windowsOf(c, dims);
  bool ceils = c.truth("ceil_mode", false);
  if (!x || c.failed()) {
    return;
  }
  if (ceils) {
    holdInside(w, tn::getDims(x.getType()));
  }
  auto pool = [&](mlir::Value data) {
    return c.make<tn::MaxPoolOp>(data, w.kernel, w.strides, w.pads, w.dilations, ceils, false);
  };
  mlir::Value y = batched(c, x, dims, pool);
  c.setOutput(0, y);
  if (c.numOutputs() > 1) {
    if (rankOf(x) != static_cast<int64_t>(dims) + 2) {
      return c.gap("indices of a pool without a batch are not supported", "add a dim of 1 before");
    }
    c.setOutput(1, c.make<tn::MaxPoolIndexOp>(x, y, w.kernel, w.strides, w.pads, w.dilations));
  }
}

void avgPool(Call &c) {
  size_t dims = dimsOf(c);
  mlir::Value x = c.value("self");
  Windows w = windowsOf(c, dims);
  bool ceils = c.truth("ceil_mode", false), counts = c.truth("count_include_pad", true);
  if (!x || c.failed()) {
    return;
  }
  if (ceils) {
    holdInside(w, tn::getDims(x.getType()));
  }
  double divisor = c.has("divisor_override") ? c.real("divisor_override", 0) : 0;
  double area = 1;
  for (int64_t size : w.kernel) {
    area *= static_cast<double>(size);
  }
  mlir::Value y = batched(c, x, dims, [&](mlir::Value data) {
    return c.make<tn::AvgPoolOp>(data, w.kernel, w.strides, w.pads, w.dilations, ceils,
                                 counts || divisor != 0, false);
  });
  c.setOutput(divisor != 0 ? c.mul(y, c.scalarLike(area / divisor, x)) : y);
}

/// Each output along an axis is an operation.
constexpr int64_t kMaxAdaptive = 1024;

/// Position i reads [floor(i * in / out), ceil((i + 1) * in / out)) along an axis: its mean or
/// maximum.
mlir::Value adaptAxis(Call &c, mlir::Value x, int64_t axis, int64_t out, tn::ReduceKind kind) {
  AffineExpr dim = tn::getDims(x.getType())[axis];
  if (out == 1) {
    return c.reduce(kind, x, {axis}, true);
  }
  if (tn::constantDim(dim) == out) {
    return x;
  }
  if (out < 1 || out > kMaxAdaptive) {
    c.gap("an adaptive pool of " + Twine(out) + " outputs",
          "use one of 1 to " + Twine(kMaxAdaptive));
    return mlir::Value();
  }
  SmallVector<mlir::Value> parts;
  for (int64_t i = 0; i < out; ++i) {
    auto times = [&](int64_t factor) {
      return frontend::multiplySizes(dim, c.constantSize(factor));
    };
    AffineExpr count = c.constantSize(out), up = c.constantSize(out - 1);
    AffineExpr begin = frontend::divideSizes(c.symbols(), times(i), count);
    AffineExpr end =
        frontend::divideSizes(c.symbols(), frontend::addSizes(times(i + 1), up), count);
    AffineExpr size = frontend::subtractSizes(end, begin);
    if (!size) {
      c.gap("an adaptive pool over a dim that may be empty", "declare the dimension with --shape");
      return mlir::Value();
    }
    mlir::Value part = c.sliceAxis(x, axis, begin, size);
    parts.push_back(c.reduce(kind, part, {axis}, true));
  }
  return c.concat(parts, axis);
}

/// One pool where every output divides its dim, else an axis after the other.
void adaptivePool(Call &c, tn::ReduceKind kind) {
  size_t dims = dimsOf(c);
  mlir::Value x = c.value("self");
  if (!x) {
    return;
  }
  int64_t rank = rankOf(x), first = rank - static_cast<int64_t>(dims);
  tn::Dims own = tn::getDims(x.getType());
  tn::Dims wanted = c.sizes("output_size");
  if (first < 1 || (wanted.size() != 1 && wanted.size() != dims)) {
    return c.error(ErrorId::Pt2BadGraph, "its sizes are not those of its operand");
  }
  Windows w;
  bool divides = rank == static_cast<int64_t>(dims) + 2, isGlobal = true;
  for (size_t d = 0; d < dims; ++d) {
    std::optional<int64_t> in = tn::constantDim(own[first + d]);
    std::optional<int64_t> out = tn::constantDim(wanted.size() == 1 ? wanted[0] : wanted[d]);
    isGlobal &= out == 1;
    divides &= in && out && *out > 0 && *in % *out == 0;
    w.kernel.push_back(divides ? *in / *out : 0);
  }
  if (divides && !isGlobal) {
    SmallVector<int64_t> pads(2 * dims, 0), dilations(dims, 1);
    return c.setOutput(
        kind == tn::ReduceKind::mean
            ? c.make<tn::AvgPoolOp>(x, w.kernel, w.kernel, pads, dilations, false, false, false)
            : c.make<tn::MaxPoolOp>(x, w.kernel, w.kernel, pads, dilations, false, false));
  }
  if (isGlobal) {
    return c.setOutput(c.reduce(kind, x, llvm::to_vector(llvm::seq<int64_t>(first, rank)), true));
  }
  for (size_t d = 0; d < dims && x; ++d) {
    AffineExpr size = wanted.size() == 1 ? wanted[0] : wanted[d];
    std::optional<int64_t> out = tn::constantDim(size);
    if (!out && !tn::sameDim(size, own[first + d])) {
      return c.gap("the size of an adaptive pool is not a constant",
                   "declare the dimension with --shape");
    }
    x = out ? adaptAxis(c, x, first + static_cast<int64_t>(d), *out, kind) : x;
  }
  c.setOutput(x);
}
void adaptiveAvgPool(Call &c) { adaptivePool(c, tn::ReduceKind::mean); }
void adaptiveMaxPool(Call &c) { adaptivePool(c, tn::ReduceKind::max); }

constexpr OpRow kPoolingOpRows[] = {
    {"aten.max_pool1d", maxPool},
    {"aten.max_pool2d", maxPool},
    {"aten.max_pool3d", maxPool},
    {"aten.max_pool1d_with_indices", maxPool},
    {"aten.max_pool2d_with_indices", maxPool},
    {"aten.max_pool3d_with_indices", maxPool},
    {"aten.avg_pool1d", avgPool},
    {"aten.avg_pool2d", avgPool},
    {"aten.avg_pool3d", avgPool},
    {"aten.adaptive_avg_pool1d", adaptiveAvgPool},
    {"aten.adaptive_avg_pool2d", adaptiveAvgPool},
    {"aten.adaptive_avg_pool3d", adaptiveAvgPool},
    {"aten._adaptive_avg_pool2d", adaptiveAvgPool},
    {"aten._adaptive_avg_pool3d", adaptiveAvgPool},
    {"aten.adaptive_max_pool1d", adaptiveMaxPool},
    {"aten.adaptive_max_pool2d", adaptiveMaxPool},
    {"aten.adaptive_max_pool3d", adaptiveMaxPool},
};

} // namespace

ArrayRef<OpRow> poolingRows() { return kPoolingOpRows; }

} // namespace tenon::pt2
