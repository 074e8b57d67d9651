// A greedy choice: all readers of a weight move to kernels that read it in one layout, and what is
// best by time a byte goes first, until the rest fits.
#include "compiler/pipeline/FitWeights.h"

#include "support/text/Text.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"

#include <cmath>
#include <limits>

using namespace mlir;

namespace tenon::pipeline {
namespace {

using Layout = std::optional<dispatch::WeightLayout>;

struct Reader {
  tn::RegionOp region;
  std::vector<dispatch::KernelCandidate> kernels;
  size_t chosen = 0;

  const dispatch::KernelCandidate &kernel() const { return kernels[chosen]; }
};

/// A weight and the regions whose kernels decide how it lies.
struct SharedWeight {
  Value value;
  bool isReadAsIs = false; ///< by what reads it so whatever kernel is chosen
  std::vector<Reader> readers;

  int64_t sourceBytes() const {
    return dispatch::weightBytes(cast<RankedTensorType>(value.getType()), std::nullopt);
  }
  /// Of all layouts that there are to be.
  int64_t bytes() const {
    std::vector<Layout> layouts;
    if (isReadAsIs || readers.empty()) {
      layouts.emplace_back();
    }
    for (const Reader &reader : readers) {
      if (!llvm::is_contained(layouts, reader.kernel().weight)) {
        layouts.push_back(reader.kernel().weight);
      }
    }
    int64_t sum = 0;
    for (const Layout &layout : layouts) {
      sum += dispatch::weightBytes(cast<RankedTensorType>(value.getType()), layout);
    }
    return sum;
  }
  double microseconds() const {
    double sum = 0;
    for (const Reader &reader : readers) {
      sum += reader.kernel().microseconds;
    }
    return sum;
  }
};

/// The input whose layout a region's kernel may choose.
std::optional<unsigned> decidedInput(ArrayRef<dispatch::KernelCandidate> kernels) {
  for (const dispatch::KernelCandidate &kernel : kernels) {
    if (kernel.weight) {
      return kernel.weight->input;
    }
  }
  return std::nullopt;
}

std::vector<SharedWeight> weightsOf(ModuleOp module, KernelsOf kernelsOf) {
  llvm::DenseMap<Operation *, std::vector<dispatch::KernelCandidate>> known;
  std::vector<SharedWeight> weights;
  module.walk([&](Operation *op) {
    if (!isa<tn::WeightOp, tn::ConstantOp>(op) || op->use_empty() ||
        op->getParentOfType<tn::RegionOp>()) {
      return;
    }
    SharedWeight &weight = weights.emplace_back();
    weight.value = op->getResult(0);
    for (OpOperand &use : op->getUses()) {
      tn::RegionOp region = dyn_cast<tn::RegionOp>(use.getOwner());
      auto [entry, isNew] = known.try_emplace(use.getOwner());
      if (region && isNew) {
        entry->second = kernelsOf(region);
      }
      unsigned input = use.getOperandNumber();
      bool isDecided = region && decidedInput(entry->second) == input;
      weight.isReadAsIs |= !isDecided || !dispatch::isLaidOutWhole(region, input);
      if (isDecided) {
        weight.readers.push_back({region, entry->second});
      }
    }
  });
  return weights;
}

/// The fastest kernel of each reader that has the weight in this layout; none if one has none.
std::optional<SharedWeight> movedTo(SharedWeight weight, const Layout &layout) {
  for (Reader &reader : weight.readers) {
    std::optional<size_t> best;
    for (auto [index, kernel] : llvm::enumerate(reader.kernels)) {
      bool isBetter = !best || kernel.microseconds < reader.kernels[*best].microseconds;
      if (kernel.weight == layout && isBetter) {
        best = index;
      }
    }
    if (!best) {
      return std::nullopt;
    }
    reader.chosen = *best;
  }
  return weight;
}

/// What saves bytes for the least time each; none if nothing does.
std::optional<SharedWeight> bestMove(const SharedWeight &weight, double &price) {
  std::optional<SharedWeight> best;
  price = std::numeric_limits<double>::infinity();
  if (weight.readers.empty()) {
    return best;
  }
  for (const dispatch::KernelCandidate &kernel : weight.readers.front().kernels) {
    std::optional<SharedWeight> moved = movedTo(weight, kernel.weight);
    int64_t saved = moved ? weight.bytes() - moved->bytes() : 0;
    double cost = saved > 0
                      ? (moved->microseconds() - weight.microseconds()) / static_cast<double>(saved)
                      : std::numeric_limits<double>::infinity();
    if (cost < price) {
      price = cost;
      best = std::move(moved);
    }
  }
  return best;
}

Status tooLarge(int64_t least, int64_t source, double most) {
  constexpr double kHundred = 100;
  double times =
      std::ceil(static_cast<double>(least) / static_cast<double>(source) * kHundred) / kHundred;
  return Status::error(
      ErrorId::BadArgument,
      strCat("the weights take ", least, " bytes or more, as kernels read them; the model's take ",
             source, ", and --max-weights allows ",
             std::llround(static_cast<double>(source) * most)),
      strCat("allow more: --max-weights ", llvm::formatv("{0:F2}", times).str(), "x"));
}

} // namespace

Result<llvm::DenseMap<Operation *, dispatch::KernelChoice>> fitWeights(ModuleOp module, double most,
                                                                       KernelsOf kernelsOf) {
  std::vector<SharedWeight> weights = weightsOf(module, kernelsOf);
  int64_t source = 0, total = 0;
  std::vector<std::optional<SharedWeight>> moves(weights.size());
  std::vector<double> prices(weights.size());
  for (auto [index, weight] : llvm::enumerate(weights)) {
    source += weight.sourceBytes();
    total += weight.bytes();
    moves[index] = bestMove(weight, prices[index]);
  }
  const std::vector<SharedWeight> fastest = weights;
  double limit = static_cast<double>(source) * most;
  while (static_cast<double>(total) > limit) {
    size_t best = llvm::min_element(prices) - prices.begin();
    if (!moves[best]) {
      return tooLarge(total, source, most);
    }
    total += moves[best]->bytes() - weights[best].bytes();
    weights[best] = std::move(*moves[best]);
    moves[best] = bestMove(weights[best], prices[best]);
  }
  // The last move may have saved so much that earlier ones were not needed.
  for (auto [weight, before] : llvm::zip_equal(weights, fastest)) {
    int64_t more = before.bytes() - weight.bytes();
    if (static_cast<double>(total + more) <= limit) {
      total += more;
      weight = before;
    }
  }
  llvm::DenseMap<Operation *, dispatch::KernelChoice> others;
  for (const SharedWeight &weight : weights) {
    for (const Reader &reader : weight.readers) {
      if (reader.chosen != 0) {
        others[reader.region] = reader.kernel().kernel;
      }
    }
  }
  return others;
}

} // namespace tenon::pipeline
