// Looks at the dims of results and reductions only; how many points suit threads is a constant
// here.
#include "compiler/codegen/cpu/strips/Tiling.h"

#include "compiler/graph/Shape.h"
#include "compiler/graph/Tn.h"
#include "llvm/ADT/SmallBitVector.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace tenon::codegen::cpu {
namespace {

/// Grid points that are too few to share out.
constexpr int64_t kFewPoints = 8;

/// The first dim that a row-wise op needs whole, or none without such an op.
std::optional<size_t> firstWholeDim(func::FuncOp source) {
  std::optional<size_t> first;
  auto note = [&](size_t dim) { first = first ? std::min(*first, dim) : dim; };
  source.walk([&](Operation *op) {
    llvm::TypeSwitch<Operation *, void>(op)
        .Case([&](tn::ReduceOp reduce) {
          for (int64_t axis : reduce.getAxes()) {
            note(axis);
          }
        })
        .Case<tn::SoftmaxOp, tn::LayerNormOp, tn::RmsNormOp, tn::ArgReduceOp, tn::CumsumOp>(
            [&](auto rows) { note(rows.getAxis()); })
        .Case([&](tn::GroupNormOp) { note(1); })
        .Default([](Operation *) {});
  });
  return first;
}

/// All outer dims one by one.
Tiling tileOuter(func::FuncOp source) {
  MLIRContext *context = source.getContext();
  tn::Dims dims = tn::getDims(source.getResultTypes().front());
  Tiling tiling{{}, getAffineConstantExpr(1, context)};
  size_t whole = firstWholeDim(source).value_or(dims.empty() ? 0 : dims.size() - 1);
  for (size_t i = 0; i < std::min(whole, dims.size()); ++i) {
    tiling.sizes.push_back(1);
    tiling.gridPoints = tiling.gridPoints * dims[i];
  }
  return tiling;
}

/// Dims that a lone op on rows reduces or passes over, if the last dim is none of them: then its
/// rows lie across the memory. Empty for other regions.
llvm::SmallBitVector dimsAcross(func::FuncOp source) {
  Operation &op = source.getBody().front().front();
  if (!op.hasTrait<tn::TnRowWise>() || !isa<func::ReturnOp>(op.getNextNode())) {
    return {};
  }
  llvm::SmallBitVector across(cast<RankedTensorType>(op.getOperand(0).getType()).getRank());
  llvm::TypeSwitch<Operation *, void>(&op)
      .Case([&](tn::ReduceOp reduce) {
        for (int64_t axis : reduce.getAxes()) {
          across.set(axis);
        }
      })
      .Case<tn::SoftmaxOp, tn::ArgReduceOp>([&](auto rows) { across.set(rows.getAxis()); })
      .Default([](Operation *) {});
  return across.none() || across[across.size() - 1] ? llvm::SmallBitVector() : across;
}

/// Columns of such rows side by side: some cache lines of each row, as a step to the next costs
/// more than what lies beside; fewer of so many rows that what the passes share leaves the caches.
int64_t columnsAcross(func::FuncOp source, const llvm::SmallBitVector &across) {
  constexpr int64_t most = 128, least = 32, mostElements = 1 << 19;
  Operation &op = source.getBody().front().front();
  tn::Dims dims = tn::getDims(op.getOperand(0).getType());
  int64_t rows = 1;
  for (unsigned dim : across.set_bits()) {
    rows *= tn::constantDim(dims[dim]).value_or(1);
  }
  int64_t columns = most;
  while (isa<tn::SoftmaxOp>(op) && columns > least && columns * rows > mostElements) {
    columns /= 2;
  }
  return columns;
}

/// All dims that are kept one by one, and the last in pieces.
Tiling tileAcross(func::FuncOp source, const llvm::SmallBitVector &across) {
  Operation &op = source.getBody().front().front();
  tn::Dims dims = tn::getDims(op.getOperand(0).getType());
  bool keeps = dims.size() == tn::getDims(source.getResultTypes().front()).size();
  Tiling tiling{{}, getAffineConstantExpr(1, source.getContext())};
  int64_t columns = columnsAcross(source, across);
  for (auto [i, dim] : llvm::enumerate(dims)) {
    bool isLast = i + 1 == dims.size();
    if (across[i] && !keeps) {
      continue;
    }
    std::optional<int64_t> size = tn::constantDim(dim);
    bool isWhole = across[i] || (isLast && size && *size <= columns);
    int64_t tile = isWhole ? 0 : isLast ? columns : 1;
    tiling.sizes.push_back(tile);
    tiling.gridPoints = tile ? tiling.gridPoints * dim.ceilDiv(tile) : tiling.gridPoints;
  }
  return tiling;
}

/// The dim of the results along which the region's transposes read what lies side by side; none if
/// that is the last one, or not one.
std::optional<size_t> crossDim(func::FuncOp source) {
  std::optional<size_t> cross;
  bool isOne = true;
  source.walk([&](tn::TransposeOp transpose) {
    ArrayRef<int64_t> permutation = transpose.getPermutation();
    int64_t last = static_cast<int64_t>(permutation.size()) - 1;
    size_t dim = llvm::find(permutation, last) - permutation.begin();
    if (!permutation.empty() && permutation.back() != last) {
      isOne &= !cross || *cross == dim;
      cross = dim;
    }
  });
  return isOne ? cross : std::nullopt;
}

/// Rows of a tile of a transpose: two cache lines of what it reads.
constexpr int64_t kTransposedRows = 32;

} // namespace

bool isChunked(func::FuncOp source) {
  std::optional<int64_t> points = tn::constantDim(tileOuter(source).gridPoints);
  return !firstWholeDim(source) && !tn::getDims(source.getResultTypes().front()).empty() &&
         points && *points < kFewPoints;
}

Tiling chooseTiling(func::FuncOp source, int64_t chunk) {
  llvm::SmallBitVector across = dimsAcross(source);
  if (!across.empty()) {
    return tileAcross(source, across);
  }
  Tiling tiling = tileOuter(source);
  std::optional<size_t> cross = crossDim(source);
  if (cross && *cross < tiling.sizes.size()) {
    tiling.sizes[*cross] = kTransposedRows;
    tiling.gridPoints = getAffineConstantExpr(1, source.getContext());
    for (auto [size, dim] : llvm::zip(tiling.sizes, tn::getDims(source.getResultTypes().front()))) {
      tiling.gridPoints = tiling.gridPoints * dim.ceilDiv(size);
    }
  }
  if (isChunked(source)) {
    AffineExpr last = tn::getDims(source.getResultTypes().front()).back();
    std::optional<int64_t> size = tn::constantDim(last);
    if (!size || *size > 2 * chunk) {
      tiling.sizes.push_back(chunk);
      tiling.gridPoints = tiling.gridPoints * last.ceilDiv(chunk);
    }
  }
  return tiling;
}

} // namespace tenon::codegen::cpu
