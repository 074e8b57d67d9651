// The family of scans: which regions they take, how these are shared out, and what they cost.
// Relies on a scan being a region of its own.
#include "compiler/codegen/cuda/scan/Scan.h"

#include "compiler/codegen/common/lower/Reduce.h"
#include "compiler/codegen/common/math/ScalarBody.h"
#include "compiler/codegen/cuda/KernelFamily.h"
#include "compiler/codegen/cuda/base/ElementRun.h"
#include "compiler/dispatch/Strategy.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/TypeUtilities.h"
#include "llvm/Support/MathExtras.h"

#include <numeric>

using namespace mlir;

namespace tenon::codegen::cuda {

Type sumType(Type storage) {
  Type wide = accumulatorType(storage);
  bool isNarrow = wide.isInteger() && wide.getIntOrFloatBitWidth() < 32;
  return isNarrow ? Type(IntegerType::get(storage.getContext(), 32)) : wide;
}

Value toSum(const ThreadBuilder &t, Type sum, Value stored) {
  Value wide = widen(t.builder, t.location, stored);
  // Sums wrap, so that it does not matter what stands in the bits above.
  return wide.getType() == sum ? wide
                               : t.builder.createOrFold<arith::ExtSIOp>(t.location, sum, wide);
}

Value fromSum(const ThreadBuilder &t, Type storage, Value sum) {
  if (isa<FloatType>(storage)) {
    return narrow(t.builder, t.location, sum, storage);
  }
  return sum.getType() == storage
             ? sum
             : t.builder.createOrFold<arith::TruncIOp>(t.location, storage, sum);
}

Value addSums(const ThreadBuilder &t, Value a, Value b) {
  return combineSum(t.builder, t.location, a, b);
}

Value zeroSum(const ThreadBuilder &t, Type sum) {
  return arith::ConstantOp::create(t.builder, t.location, t.builder.getZeroAttr(sum));
}

std::optional<ScanWork> scanOf(RegionBuilder &region) {
  Operation *op = region.source.getBody().front().getTerminator()->getOperand(0).getDefiningOp();
  tn::CumsumOp cumsum = dyn_cast_or_null<tn::CumsumOp>(op);
  BlockArgument x = cumsum ? dyn_cast<BlockArgument>(cumsum.getX()) : BlockArgument();
  if (!x || region.source.getNumResults() != 1) {
    return std::nullopt;
  }
  tn::Dims dims = tn::getDims(x.getType());
  ArrayRef<AffineExpr> all(dims);
  MLIRContext *context = region.source.getContext();
  ScanWork work;
  work.outer = tn::elementCount(context, all.take_front(cumsum.getAxis()));
  work.length = dims[cumsum.getAxis()];
  work.inner = tn::elementCount(context, all.drop_front(cumsum.getAxis() + 1));
  work.element = storageType(getElementTypeOrSelf(x.getType()));
  work.sum = sumType(work.element);
  work.isExclusive = cumsum.getExclusive();
  work.isReverse = cumsum.getReverse();
  work.input = region.input(x.getArgNumber());
  work.output = region.output(0);
  return work;
}

namespace {

/// A length that no decision should take for short: of one that varies, the longest that it may be.
int64_t longest(RegionBuilder &region, AffineExpr length) {
  constexpr int64_t enough = int64_t(1) << 24;
  tn::SymbolList declared(region.source->getParentOfType<ModuleOp>());
  return std::clamp<int64_t>(declared.bounds(length).max, 1, enough);
}

/// Pieces of an axis of so many tiles where `blocks` would each take a whole one. A second kernel
/// is worth it for axes of several tiles.
int64_t piecesOf(RegionBuilder &region, int64_t blocks, int64_t tiles) {
  int64_t wanted = tuning::kScanBlocks * region.gpu.cores;
  int64_t most = tiles < tuning::kFewTiles ? 1 : std::min(tiles, tuning::kMaxPieces);
  return std::clamp<int64_t>(llvm::divideCeil(wanted, std::max<int64_t>(blocks, 1)), 1, most);
}

ScanLayout rowLayout(RegionBuilder &region, const ScanWork &work) {
  ScanLayout layout;
  int64_t items = std::max(tuning::kScanBytes / byteSize(work.element), lanesOf(work.element));
  int64_t length = longest(region, work.length);
  // A row that begins within a vector touches one more.
  int64_t vectors = llvm::divideCeil(length, lanesOf(work.element)) + 1;
  int64_t threads = llvm::PowerOf2Ceil(llvm::divideCeil(
      length % lanesOf(work.element) == 0 ? vectors - 1 : vectors, items / lanesOf(work.element)));
  layout.height = std::min(threads, tuning::kScanThreads);
  if (layout.height <= kWarp) {
    layout.rows = tuning::kScanThreads / layout.height;
    return layout;
  }
  int64_t tiles = llvm::divideCeil(length, layout.height * items);
  layout.pieces = piecesOf(region, region.estimate(work.outer), tiles);
  return layout;
}

ScanLayout columnLayout(RegionBuilder &region, const ScanWork &work) {
  ScanLayout layout;
  int64_t inner = tn::constantDim(work.inner).value_or(1);
  layout.lanes = std::gcd(inner, lanesOf(work.element));
  int64_t columns = std::max<int64_t>(region.estimate(work.inner), 1);
  int64_t strips = llvm::PowerOf2Ceil(llvm::divideCeil(columns, layout.lanes));
  int64_t length = longest(region, work.length);
  int64_t tall = llvm::PowerOf2Ceil(llvm::divideCeil(length, tuning::kColumnSteps));
  int64_t narrow = std::min(strips, kWarp);
  layout.height = std::clamp<int64_t>(tall, 1, tuning::kScanThreads / narrow);
  layout.width = std::min(strips, tuning::kScanThreads / layout.height);
  int64_t blocks = region.estimate(work.outer) * llvm::divideCeil(strips, layout.width);
  int64_t tiles = llvm::divideCeil(length, layout.height * tuning::kColumnSteps);
  layout.pieces = piecesOf(region, blocks, tiles);
  return layout;
}

FamilyMatch matchScan(RegionBuilder &region) {
  std::optional<ScanWork> work = scanOf(region);
  if (!work) {
    return FamilyMatch::refuse("it is no running sum of an input");
  }
  ScanLayout layout = scanLayout(region, *work);
  return FamilyMatch::take(
      *work, dispatch::choiceOf(kPrefixScan.name, layout),
      layout.pieces > 1 ? "pieces of the axis are summed, then scanned from those sums"
                        : "a tile of the axis after the other, each in the registers of a block");
}

/// Pieces are read twice, by one more kernel.
double scanSeconds(RegionBuilder &region, const ScanWork &work,
                   const dispatch::KernelChoice &choice) {
  ScanLayout layout = configOf<ScanLayout>(choice);
  double elements = double(region.estimate({work.outer, work.length, work.inner}));
  double passes = layout.pieces > 1 ? 3 : 2, kernels = layout.pieces > 1 ? 2 : 1;
  return passes * elements * double(byteSize(work.element)) / region.gpu.memoryBandwidth +
         kernels * region.gpu.launchSeconds;
}

LogicalResult emitScanSteps(RegionBuilder &region, const ScanWork &work,
                            const dispatch::KernelChoice &choice) {
  emitScan(region, work, configOf<ScanLayout>(choice));
  return success();
}

/// Its own, and with and without pieces.
std::vector<dispatch::KernelChoice> scanConfigs(RegionBuilder &region, const ScanWork &work) {
  ScanLayout own = scanLayout(region, work);
  std::vector<dispatch::KernelChoice> choices = {dispatch::choiceOf(kPrefixScan.name, own)};
  for (int64_t pieces : {1, 3}) {
    if (own.rows == 1 && pieces != own.pieces) {
      ScanLayout layout = own;
      layout.pieces = pieces;
      choices.push_back(dispatch::choiceOf(kPrefixScan.name, layout));
    }
  }
  return choices;
}

} // namespace

ScanLayout scanLayout(RegionBuilder &region, const ScanWork &work) {
  return tn::constantDim(work.inner) == 1 ? rowLayout(region, work) : columnLayout(region, work);
}

constexpr KernelFamily kPrefixScan = {
    .name = "prefix_scan",
    .what = "running sums: a tile at a time by prefix sums over the threads of a block; few long "
            "axes in pieces, whose sums come first",
    .strategies = {dispatch::kSingle},
    .needs = {"cumsum"},
    .match = matchScan,
    .configs = on<scanConfigs>,
    .seconds = on<scanSeconds>,
    .emit = on<emitScanSteps>};

} // namespace tenon::codegen::cuda
