// Puts tn.pack and tn.unpack between a constant weight and the contraction that reads it, so that
// the weight is laid out once, when the engine is written. Relies on a CPU's contractions being
// compiled with the product micro-kernel, a GPU's convolutions being calls of a library and its
// small products and those of few rows being generated (SmallProducts.h, FewRows.h).
#include "compiler/dispatch/PackWeights.h"

#include "compiler/dispatch/FewRows.h"
#include "compiler/dispatch/FormRegions.h"
#include "compiler/dispatch/SmallProducts.h"
#include "compiler/dispatch/Strategy.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace tenon::dispatch {
namespace {

struct Layout {
  SmallVector<int64_t> permutation;
  int64_t rows = 1;
  int64_t groups = 1;
  int64_t panel = kPanelColumns;
};

int64_t filterSize(RankedTensorType weight) {
  int64_t size = 1;
  for (int64_t dim : weight.getShape().drop_front()) {
    size *= dim;
  }
  return std::max<int64_t>(size, 1);
}

/// Whether nothing but such products reads a weight, all in one way: else a second copy of it
/// would be kept.
bool isReadOnlyBy(llvm::function_ref<bool(tn::MatmulOp)> isSuch, Value weight, bool transposed) {
  return llvm::all_of(weight.getUses(), [&](OpOperand &use) {
    tn::MatmulOp matmul = dyn_cast<tn::MatmulOp>(use.getOwner());
    return isa<tn::PackOp>(use.getOwner()) ||
           (matmul && &use == &matmul.getBMutable() && isSuch(matmul) &&
            matmul.getTransposeB() == transposed);
  });
}

/// How a GPU's kernels of their own read the weights of a product; none where they lie so already,
/// or a library reads them.
std::optional<Layout> layoutOnGpu(tn::MatmulOp matmul, const target::Target &device) {
  bool transposed = matmul.getTransposeB();
  SmallVector<int64_t> permutation = {0, 1};
  if (!transposed) {
    permutation = {1, 0};
  }
  if (isStreamed(matmul) && isReadOnlyBy(isStreamed, matmul.getB(), transposed)) {
    // [depth / panel, columns, panel].
    return Layout{permutation, 1, 1, kStreamedPanel};
  }
  auto isSmall = [&](tn::MatmulOp product) { return isSmallProduct(product, device); };
  if (!transposed && isSmall(matmul) && isReadOnlyBy(isSmall, matmul.getB(), transposed)) {
    // [columns, depth].
    return Layout{permutation, 1, 1, halfProductOf(matmul)->depth};
  }
  return std::nullopt;
}

/// The operand to pack and how; none for a contraction whose weight is not constant or not packed.
std::optional<std::pair<OpOperand *, Layout>> layoutOf(Operation *op,
                                                       const target::Target &device) {
  if (tn::MatmulOp matmul = dyn_cast<tn::MatmulOp>(op)) {
    if (cast<RankedTensorType>(matmul.getB().getType()).getRank() != 2) {
      return std::nullopt;
    }
    if (device.isGpu()) {
      std::optional<Layout> layout = layoutOnGpu(matmul, device);
      return layout ? std::optional(std::pair(&matmul.getBMutable(), *layout)) : std::nullopt;
    }
    SmallVector<int64_t> permutation = {0, 1};
    if (matmul.getTransposeB()) {
      permutation = {1, 0};
    }
    return std::pair(&matmul.getBMutable(), Layout{permutation, 1, 1});
  }
  tn::ConvOp conv = cast<tn::ConvOp>(op);
  RankedTensorType weight = cast<RankedTensorType>(conv.getWeight().getType());
  int64_t rank = weight.getRank();
  if (device.isGpu() && !isDepthwise(conv)) {
    // [K, R, S, C / groups], as the library reads it.
    return std::pair(&conv.getWeightMutable(), Layout{{0, 2, 3, 1}, 1, 1, filterSize(weight)});
  }
  Layout layout;
  for (int64_t spatial = 2; spatial < rank; ++spatial) {
    layout.permutation.push_back(spatial);
  }
  layout.permutation.append({1, 0});
  layout.rows = rank - 1;
  if (isDepthwise(conv)) {
    // No products to share: one panel of all channels, so that a tap's weights lie as the data
    // does.
    layout.panel = weight.getDimSize(0);
  } else {
    layout.groups = static_cast<int64_t>(conv.getGroups());
  }
  return std::pair(&conv.getWeightMutable(), layout);
}

RankedTensorType packedType(RankedTensorType weight, const Layout &layout) {
  int64_t depth = 1;
  int64_t columns = 1;
  for (auto [index, dim] : llvm::enumerate(layout.permutation)) {
    (static_cast<int64_t>(index) < layout.rows ? depth : columns) *= weight.getDimSize(dim);
  }
  SmallVector<int64_t> shape;
  if (layout.groups > 1) {
    shape.push_back(layout.groups);
  }
  shape.append(
      {llvm::divideCeilSigned(columns / layout.groups, layout.panel), depth, layout.panel});
  return RankedTensorType::get(shape, weight.getElementType());
}

} // namespace

void packWeights(Block *block, const target::Target &device) {
  SmallVector<Operation *> roots;
  for (Operation &op : *block) {
    if (isContractionRoot(&op, device)) {
      roots.push_back(&op);
    }
  }
  llvm::DenseMap<std::pair<Value, Attribute>, tn::PackOp> known;
  for (Operation *root : roots) {
    std::optional<std::pair<OpOperand *, Layout>> found = layoutOf(root, device);
    if (!found) {
      continue;
    }
    auto &[operand, layout] = *found;
    Value weight = operand->get();
    if (!isa_and_nonnull<tn::WeightOp, tn::ConstantOp>(weight.getDefiningOp())) {
      continue;
    }
    OpBuilder builder(root);
    RankedTensorType type = cast<RankedTensorType>(weight.getType());
    DenseI64ArrayAttr permutation = builder.getDenseI64ArrayAttr(layout.permutation);
    Attribute panel = builder.getI64IntegerAttr(layout.panel);
    Attribute key =
        builder.getArrayAttr({permutation, panel, builder.getI64IntegerAttr(layout.groups)});
    tn::PackOp &pack = known[{weight, key}];
    if (!pack) {
      builder.setInsertionPointAfterValue(weight);
      pack = tn::PackOp::create(builder, weight.getLoc(), packedType(type, layout), weight,
                                permutation, builder.getI64IntegerAttr(layout.rows),
                                builder.getI64IntegerAttr(layout.panel),
                                builder.getI64IntegerAttr(layout.groups));
      builder.setInsertionPoint(root);
    }
    operand->set(tn::UnpackOp::create(builder, root->getLoc(), type, pack.getY(), permutation,
                                      pack.getRowsAttr(), pack.getPanelAttr(),
                                      pack.getGroupsAttr()));
  }
}

} // namespace tenon::dispatch
