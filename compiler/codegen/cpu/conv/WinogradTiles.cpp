// Which convolutions Winograd's filtering takes, how they are cut into tiles, and what it costs.
#include "compiler/codegen/common/region/Weights.h"
#include "compiler/codegen/cpu/base/KernelFamily.h"
#include "compiler/codegen/cpu/conv/ConvWinograd.h"

using namespace mlir;

namespace tenon::codegen::cpu {
namespace {

/// Fewest rows of a product worth a chunk of its own, which is those of one block of registers.
constexpr int64_t kMinTiles = 14;
/// Most tiles of a line that cannot be cut: of 256 channels they are 4 or 9 MiB.
constexpr int64_t kMaxTiles = 256;
/// Fewest input channels: a vector of the widest level.
constexpr int64_t kMinChannels = 16;
/// Operations of the same time as transforming one channel of a tile, input and output: loads,
/// stores and arithmetic of (m + 2) x (m + 2) values, measured on a Zen 4.
constexpr double kTransformWork2 = 120, kTransformWork4 = 400;

/// The filters of a weight, and the taps of them.
template <int64_t m>
constexpr dispatch::WeightTransform kTransform = {
    .typeOf = [](RankedTensorType weight) { return tn::WinogradFilterOp::typeOf(weight, m); },
    .apply = [](OpBuilder &builder, Value weight) -> Value {
      Type type = tn::WinogradFilterOp::typeOf(cast<RankedTensorType>(weight.getType()), m);
      return tn::WinogradFilterOp::create(builder, weight.getLoc(), type, weight, m);
    },
    .undo = [](OpBuilder &builder, Value filter, Type weight) -> Value {
      return tn::WinogradTapsOp::create(builder, filter.getLoc(), weight, filter, m);
    }};

AffineExpr tilesOf(const ConvDim &dim, int64_t m) {
  return dim.out.ceilDiv(dim.dilation).ceilDiv(m) * dim.dilation;
}

} // namespace

WinogradTiles::WinogradTiles(tn::ConvOp conv, int64_t m, int64_t most)
    : g(geometryOf(conv)), m(m), rows(tilesOf(g.height, m)), columns(tilesOf(g.width, m)) {
  AffineExpr one = getAffineConstantExpr(1, conv.getContext());
  std::optional<int64_t> ofPlane = tn::constantDim(rows * columns);
  skipsPlanes = g.depth.isPadded() && ofPlane.value_or(kMinTiles) >= kMinTiles;
  planes = skipsPlanes ? g.images * g.depth.out : one;
  lines = skipsPlanes ? rows : g.images * g.depth.out * rows;
  std::optional<int64_t> ofLine = tn::constantDim(columns);
  segments = one;
  mostLines = 1;
  if (ofLine && *ofLine > 0) {
    // The pixels of a dilated tile lie side by side with those of others only in whole lines.
    int64_t parts = g.width.dilation > 1 ? 1 : llvm::divideCeil(*ofLine, most);
    lineTiles = llvm::divideCeil(*ofLine, parts);
    segments = getAffineConstantExpr(parts, conv.getContext());
    mostLines = parts == 1 ? std::max<int64_t>(1, most / lineTiles) : 1;
  } else {
    lineTiles = most;
    segments = columns.ceilDiv(most);
  }
}

int64_t WinogradTiles::leastLines() const { return llvm::divideCeil(kMinTiles, lineTiles); }

StringRef refuseWinograd(tn::ConvOp conv, int64_t m) {
  if (!conv || !canLowerConv(conv) || productType(conv) != ProductType::F32 ||
      conv.getGroups() != 1) {
    return "no convolution of f32 with channels last, one group and a weight of constant sizes";
  }
  Geometry g = geometryOf(conv);
  auto isDense = [](const ConvDim &dim) { return dim.kernel == 3 && dim.stride == 1; };
  if (!isDense(g.height) || !isDense(g.width)) {
    return "the kernel is not 3 x 3 with stride 1";
  }
  if (g.channels < kMinChannels) {
    return "fewer than 16 input channels";
  }
  std::optional<int64_t> columns = tn::constantDim(tilesOf(g.width, m));
  if (g.width.dilation > 1 && columns.value_or(kMaxTiles + 1) > kMaxTiles) {
    return "a dilated kernel over lines of dynamic or of large width";
  }
  tn::WinogradTapsOp taps = conv.getWeight().getDefiningOp<tn::WinogradTapsOp>();
  if (taps ? static_cast<int64_t>(taps.getM()) != m : !packableInput(conv.getWeight())) {
    return "the weight is computed, or laid out for another kernel";
  }
  return "";
}

/// [panel, (m + 2) x (m + 2), depth of the kernel, input channel, output channel].
std::optional<dispatch::WeightLayout> winogradWeight(tn::ConvOp conv, int64_t m) {
  std::optional<dispatch::WeightLayout> layout = layoutInPanels(conv, kPanel, /*groups=*/1);
  if (layout) {
    // The first two dims of the filters lie before their depth.
    std::vector<int64_t> &order = layout->packing.outerDimsPerm;
    std::rotate(order.begin() + 1, order.end() - 3, order.end() - 1);
    layout->transform = m == 2 ? &kTransform<2> : &kTransform<4>;
  }
  return layout;
}

double winogradSavings(tn::ConvOp conv, int64_t m, const dispatch::CostModel &costs) {
  WinogradTiles tiles(conv, m, kMinTiles);
  const Geometry &g = tiles.g;
  double count = costs.countOf({tiles.count()});
  double points = tiles.side() * tiles.side(), depth = tiles.depthChannels();
  double columns = g.panelsPerGroup() * kPanel;
  // Rows of a product that share the loads of a step.
  double rows = std::min<double>(count, kMinTiles);
  double transform = m == 4 ? kTransformWork4 : kTransformWork2;
  double products = 2 * count * points * depth * columns * (1 + 2 / rows);
  double work = products + transform * count * (depth + columns);
  double bytes = (points - 9) * depth * columns * sizeof(float);
  const target::Target &target = costs.profile();
  return (costs.workOf(conv) - work) / target.peak - bytes / target.memoryBandwidth;
}

} // namespace tenon::codegen::cpu
