// The kernel of a tensor that reads an operand across its last dim: a tile of the operand goes
// through shared memory, so that both the operand and the result are accessed along their last
// dims.
#include "compiler/codegen/cuda/base/ElementEmitter.h"
#include "compiler/codegen/cuda/pointwise/Schedule.h"
#include "compiler/codegen/cuda/pointwise/Tuning.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;

namespace tenon::codegen::cuda {
namespace {

constexpr int64_t kTile = tuning::kTransposeTile, kRows = tuning::kTransposeRows;

/// An operand read once, by a permutation that moves its last dims to these loops of the result, of
/// which none is the last.
struct Turned {
  linalg::GenericOp op;
  OpOperand *operand = nullptr;
  SmallVector<unsigned, 4> loops;
};

/// As many of the operand's last dims as fill a tile, in their order.
SmallVector<unsigned, 4> loopsAcross(RegionBuilder &region, AffineMap map, const tn::Dims &dims) {
  SmallVector<unsigned, 4> loops;
  int64_t length = 1;
  for (unsigned i = map.getNumResults(); i-- > 0 && length < kTile;) {
    unsigned loop = map.getDimPosition(i);
    if (loop + 1 == dims.size()) {
      break;
    }
    loops.insert(loops.begin(), loop);
    length *= region.estimate(dims[loop]);
  }
  return length >= tuning::kShortestTurned ? loops : SmallVector<unsigned, 4>();
}

std::optional<Turned> findTurned(RegionBuilder &region, const KernelRoots &group) {
  Value root = group.roots.front().tensor;
  linalg::GenericOp op = root.getDefiningOp<linalg::GenericOp>();
  if (group.roots.size() != 1 || !op || isReduction(op) || op.getNumResults() != 1 ||
      !op.getMatchingIndexingMap(op.getDpsInitOperand(0)).isIdentity()) {
    return std::nullopt;
  }
  tn::Dims dims = region.dims(root);
  for (OpOperand *operand : op.getDpsInputOperands()) {
    AffineMap map = op.getMatchingIndexingMap(operand);
    if (map.getNumResults() < 2 || !region.bufferOf(operand->get()) ||
        !operand->get().hasOneUse() || !map.isPermutation()) {
      continue;
    }
    SmallVector<unsigned, 4> loops = loopsAcross(region, map, dims);
    if (!loops.empty() && region.estimate(dims.back()) >= tuning::kShortestTurned) {
      return Turned{op, operand, loops};
    }
  }
  return std::nullopt;
}

class TransposeEmitter {
public:
  TransposeEmitter(RegionBuilder &region, const Root &root, const Turned &turned)
      : kernel(region, kTile * kRows), emitter(kernel), math(kernel.math), root(root),
        turned(turned), dims(region.dims(root.tensor)) {
    for (unsigned loop : turned.loops) {
      acrossDims.push_back(dims[loop]);
    }
    acrossSize = tn::elementCount(region.source.getContext(), acrossDims);
  }

  bool run();

private:
  /// The result's place with these indices in the tile.
  Indices placeAt(const Index &across, const Index &along);
  Indices operandPlace(const Indices &place);
  /// Emits `body` where the place with these indices in the tile is inside of the result.
  void whereInside(const Index &across, const Index &along, llvm::function_ref<void()> body);
  void fillTile();
  void emitResult();
  Index inTile(const Index &row, const Index &column) {
    // A row has one element more than it holds: columns then lie in different banks.
    return math.add(math.multiply(row, Index::constant(kTile + 1)), column);
  }

  KernelFrame kernel;
  ElementEmitter emitter;
  IndexMath &math;
  Root root;
  Turned turned;
  tn::Dims dims, acrossDims;
  AffineExpr acrossSize;
  Indices outer;
  Index column, row, acrossStart, alongStart;
  Value tile;
};

Indices TransposeEmitter::placeAt(const Index &across, const Index &along) {
  Indices place = outer;
  Indices inAcross = math.delinearize(math.add(acrossStart, across), kernel.sizes(acrossDims));
  for (auto [loop, index] : llvm::zip(turned.loops, inAcross)) {
    place[loop] = index;
  }
  place.back() = math.add(alongStart, along);
  return place;
}

Indices TransposeEmitter::operandPlace(const Indices &place) {
  AffineMap map = turned.op.getMatchingIndexingMap(turned.operand);
  return llvm::map_to_vector<6>(map.getResults(), [&](AffineExpr expression) {
    return place[cast<AffineDimExpr>(expression).getPosition()];
  });
}

void TransposeEmitter::whereInside(const Index &across, const Index &along,
                                   llvm::function_ref<void()> body) {
  OpBuilder &builder = kernel.builder;
  Value inside;
  for (const auto &[index, size] : {std::pair(math.add(acrossStart, across), acrossSize),
                                    std::pair(math.add(alongStart, along), dims.back())}) {
    if (tn::constantDim(size).value_or(1) % kTile == 0) {
      continue;
    }
    Value isBelow = arith::CmpIOp::create(builder, kernel.location, arith::CmpIPredicate::slt,
                                          math.value(index), math.value(kernel.size(size)));
    inside =
        inside ? Value(arith::AndIOp::create(builder, kernel.location, inside, isBelow)) : isBelow;
  }
  emitter.when(inside, body);
}

/// The threads of a warp read along the operand's last dim.
void TransposeEmitter::fillTile() {
  Value tensor = turned.operand->get();
  Type type = getElementTypeOrSelf(tensor);
  for (int64_t step = 0; step < kTile; step += kRows) {
    Index along = math.add(row, Index::constant(step));
    Indices place = placeAt(column, along);
    whereInside(column, along, [&] {
      Value element = emitter.element(tensor, operandPlace(place));
      Index target = inTile(along, column);
      LLVM::StoreOp::create(kernel.builder, kernel.location, element,
                            kernel.address(tile, type, target), byteSize(type));
    });
  }
}

/// They compute along the result's last dim, and read the tile across.
void TransposeEmitter::emitResult() {
  Type type = getElementTypeOrSelf(turned.operand->get());
  std::map<IndicesKey, Index> sources;
  emitter.hold(turned.operand->get(), [&](ArrayRef<Index> place) -> Value {
    Index source = sources.at(keyOf(place));
    return LLVM::LoadOp::create(kernel.builder, kernel.location, type,
                                kernel.address(tile, type, source), byteSize(type));
  });
  for (int64_t step = 0; step < kTile; step += kRows) {
    Index across = math.add(row, Index::constant(step));
    Indices place = placeAt(across, column);
    sources[keyOf(operandPlace(place))] = inTile(column, across);
    whereInside(across, column, [&] {
      Value element = emitter.element(root.tensor, place);
      kernel.store(root.buffer, element, emitter.linear(root.tensor, place));
    });
  }
}

bool TransposeEmitter::run() {
  Index thread = kernel.thread(), block = kernel.block();
  tile = kernel.shared(getElementTypeOrSelf(turned.operand->get()), kTile * (kTile + 1));
  column = math.mod(thread, Index::constant(kTile));
  row = math.floorDiv(thread, Index::constant(kTile));
  tn::Dims counts(dims);
  for (unsigned loop : turned.loops) {
    counts[loop] = getAffineConstantExpr(1, kernel.region.source.getContext());
  }
  unsigned first = turned.loops.front();
  counts[first] = acrossSize.ceilDiv(kTile);
  counts.back() = dims.back().ceilDiv(kTile);
  outer = math.delinearize(block, kernel.sizes(counts));
  acrossStart = math.multiply(outer[first], Index::constant(kTile));
  alongStart = math.multiply(outer.back(), Index::constant(kTile));
  fillTile();
  kernel.barrier();
  emitResult();
  AffineExpr grid = tn::elementCount(kernel.region.source.getContext(), counts);
  kernel.finish(grid);
  return !emitter.hasFailed();
}

} // namespace

bool emitTransposeKernel(RegionBuilder &region, const KernelRoots &group, bool &hasFailed) {
  std::optional<Turned> turned = findTurned(region, group);
  if (turned) {
    hasFailed |= !TransposeEmitter(region, group.roots.front(), *turned).run();
  }
  return turned.has_value();
}

} // namespace tenon::codegen::cuda
