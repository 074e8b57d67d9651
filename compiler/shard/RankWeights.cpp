// Takes tn.rank_slice and tn.all_gather apart. Relies on cut dims being constants.
#include "compiler/shard/RankWeights.h"

#include "compiler/graph/ContentGenerator.h"
#include "compiler/graph/Shape.h"
#include "compiler/graph/TnRare.h"
#include "compiler/graph/TnShard.h"
#include "compiler/opt/Constants.h"
#include "compiler/opt/WeightSource.h"
#include "compiler/shard/CutGraph.h"
#include "compiler/shard/State.h"
#include "support/text/Text.h"
#include "llvm/ADT/StringMap.h"

#include <algorithm>
#include <cstring>
#include <numeric>

using namespace mlir;

namespace tenon::shard {
namespace {

constexpr uint64_t kMaxCompared = uint64_t(64) << 10;

/// Reads of the whole what the store's rank has of it.
struct PartOfRank {
  opt::WeightSource whole;
  const tn::WeightStore *weights;
  std::vector<SmallVector<Chunk>> chunks; ///< by rank
  int64_t wholeRow = 0, partRow = 0;      ///< bytes of one step of the dims before the cut one
  int64_t inner = 0;                      ///< bytes of one step of the cut dim

  void operator()(uint64_t begin, uint64_t size, char *out) const {
    int64_t first = static_cast<int64_t>(begin), last = first + static_cast<int64_t>(size);
    for (int64_t row = first / partRow; row * partRow < last; ++row) {
      int64_t at = row * partRow;
      for (const Chunk &chunk : chunks[weights->rank]) {
        int64_t bytes = chunk.count * inner;
        int64_t from = std::max(first, at), to = std::min(last, at + bytes);
        if (from < to) {
          whole.read(row * wholeRow + chunk.first * inner + (from - at), to - from,
                     out + (from - first));
        }
        at += bytes;
      }
    }
  }
};

class Placer {
public:
  Placer(tn::WeightStore &store, int64_t number) : weights(store), ranks(number) {}

  void place(tn::RankSliceOp op);
  void place(tn::AllGatherOp op);

private:
  Value partOfWeight(tn::RankSliceOp op);
  /// The chunks of a constant's dim, by rank.
  Value partOf(Operation *op, int64_t dim, std::vector<SmallVector<Chunk>> chunks, StringRef cut);
  Value indices(OpBuilder &builder, Location location, const Cut &cut);
  Value numbers(OpBuilder &builder, Location location, ArrayRef<int64_t> values);

  tn::WeightStore &weights;
  int64_t ranks;
  llvm::StringMap<std::string> made; ///< by weight and cut
};

Value Placer::partOf(Operation *op, int64_t dim, std::vector<SmallVector<Chunk>> chunks,
                     StringRef cut) {
  Value x = op->getOperand(0);
  RankedTensorType whole = cast<RankedTensorType>(x.getType());
  RankedTensorType part = cast<RankedTensorType>(op->getResult(0).getType());
  PartOfRank reader{opt::WeightSource::of(x, weights), &weights, std::move(chunks)};
  std::string key = reader.whole.key + '\n' + cut.str();
  bool isOfRank = reader.whole.isOfRank || !llvm::all_equal(ArrayRef(reader.chunks));
  std::string &id = made[key];
  OpBuilder builder(op);
  if (id.empty()) {
    int64_t elementBytes = opt::elementBytes(whole.getElementType());
    reader.inner = elementBytes;
    for (int64_t size : whole.getShape().drop_front(dim + 1)) {
      reader.inner *= size;
    }
    reader.wholeRow = whole.getDimSize(dim) * reader.inner;
    reader.partRow = part.getDimSize(dim) * reader.inner;
    tn::WeightOp weight = x.getDefiningOp<tn::WeightOp>();
    std::string name = weight ? weight.getId().str() : "constant";
    uint64_t bytes = part.getNumElements() * elementBytes;
    // Small ones that all ranks have alike are known to all passes.
    if (bytes <= kMaxCompared) {
      std::vector<std::vector<char>> parts(ranks, std::vector<char>(bytes));
      for (weights.rank = 0; weights.rank < ranks; ++weights.rank) {
        reader(0, bytes, parts[weights.rank].data());
      }
      weights.rank = 0;
      if (llvm::all_equal(parts)) {
        return opt::Constants(weights).make(builder, op->getLoc(), part, std::move(parts[0]),
                                            name + ".part", "shard");
      }
    }
    // Of equal texts for other plans of the model, which share it.
    tn::ContentGenerator generate{strCat(ranks, " parts of ", key), std::move(reader)};
    id = weights.addDerived(name + ".part", bytes, std::move(generate), isOfRank,
                            "a part of " + name);
  }
  return tn::WeightOp::create(builder, op->getLoc(), part, id);
}

Value Placer::partOfWeight(tn::RankSliceOp op) {
  Cut cut = cutOf(op);
  std::vector<SmallVector<Chunk>> chunks;
  for (int64_t rank = 0; rank < ranks; ++rank) {
    chunks.push_back(op.getPart() ? chunksOf(cut, int64_t(op.getRanks()), int64_t(*op.getPart()))
                                  : chunksOf(cut, ranks, rank));
  }
  std::string text = textOf(State::split(cut));
  return partOf(op, cut.dim, std::move(chunks),
                op.getPart() ? strCat("part ", *op.getPart(), " of ", op.getRanks(), ' ', text)
                             : text);
}

Value Placer::numbers(OpBuilder &builder, Location location, ArrayRef<int64_t> values) {
  RankedTensorType type =
      RankedTensorType::get({static_cast<int64_t>(values.size())}, builder.getI64Type());
  std::vector<char> bytes(values.size() * sizeof(int64_t));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return opt::Constants(weights).make(builder, location, type, std::move(bytes), "order", "shard");
}

/// Which elements of the cut dim this rank has.
Value Placer::indices(OpBuilder &builder, Location location, const Cut &cut) {
  std::vector<std::vector<int64_t>> ofRank(ranks);
  for (int64_t rank = 0; rank < ranks; ++rank) {
    for (const Chunk &chunk : chunksOf(cut, ranks, rank)) {
      size_t size = ofRank[rank].size();
      ofRank[rank].resize(size + chunk.count);
      std::iota(ofRank[rank].begin() + static_cast<int64_t>(size), ofRank[rank].end(), chunk.first);
    }
  }
  int64_t count = static_cast<int64_t>(ofRank[0].size());
  std::string key = strCat("indices of ", cut.size(), '\n', textOf(State::split(cut)));
  std::string &id = made[key];
  if (id.empty()) {
    auto generate = [ofRank, store = &weights](uint64_t begin, uint64_t size, char *out) {
      std::memcpy(out, reinterpret_cast<const char *>(ofRank[store->rank].data()) + begin, size);
    };
    tn::ContentGenerator known{strCat(ranks, " ranks' ", key), generate};
    id = weights.addDerived("rank.indices", count * sizeof(int64_t), known, true, "pass shard");
  }
  return tn::WeightOp::create(builder, location,
                              RankedTensorType::get({count}, builder.getI64Type()), id);
}

void Placer::place(tn::RankSliceOp op) {
  OpBuilder builder(op);
  Value part;
  if (opt::Constants::isConstant(op.getX())) {
    part = partOfWeight(op);
  } else {
    Cut cut = cutOf(op);
    part = tn::GatherOp::create(builder, op.getLoc(), op.getX(), indices(builder, op.getLoc(), cut),
                                cut.dim);
    part.setType(op.getY().getType());
  }
  op.getY().replaceAllUsesWith(part);
  op.erase();
}

/// [before, N * own, behind] of [N, before, own, behind], and then the elements in their order.
void Placer::place(tn::AllGatherOp op) {
  Cut cut = cutOf(op);
  OpBuilder builder(op);
  MLIRContext *context = op.getContext();
  Location location = op.getLoc();
  auto constant = [&](int64_t value) { return getAffineConstantExpr(value, context); };
  Type element = cast<RankedTensorType>(op.getX().getType()).getElementType();
  tn::Dims own = tn::getDims(op.getX().getType());
  tn::Dims one = own;
  one.insert(one.begin(), constant(1));
  tn::Dims all = own;
  all.insert(all.begin(), constant(ranks));
  Value value = tn::ReshapeOp::create(builder, location, tn::makeTensor(one, element), op.getX());
  value = tn::AllGatherOp::create(builder, location, tn::makeTensor(all, element), value, ranks, 0,
                                  1, ArrayRef<int64_t>(ranks), ArrayRef<int64_t>(1));
  int64_t rank = static_cast<int64_t>(own.size());
  if (cut.dim > 0) {
    // The dim of the ranks goes before the one that was cut.
    SmallVector<int64_t> permutation;
    for (int64_t dim = 0; dim < rank; ++dim) {
      if (dim == cut.dim) {
        permutation.push_back(0);
      }
      permutation.push_back(dim + 1);
    }
    tn::Dims moved;
    for (int64_t from : permutation) {
      moved.push_back(all[from]);
    }
    value = tn::TransposeOp::create(builder, location, tn::makeTensor(moved, element), value,
                                    permutation);
  }
  int64_t size = *tn::constantDim(own[cut.dim]);
  tn::Dims joined = own;
  joined[cut.dim] = constant(ranks * size);
  value = tn::ReshapeOp::create(builder, location, tn::makeTensor(joined, element), value);
  if (!cut.isPlain()) {
    std::vector<int64_t> order(cut.size());
    for (int64_t from = 0; from < ranks; ++from) {
      int64_t at = from * size;
      for (const Chunk &chunk : chunksOf(cut, ranks, from)) {
        std::iota(order.begin() + chunk.first, order.begin() + chunk.first + chunk.count, at);
        at += chunk.count;
      }
    }
    value =
        tn::GatherOp::create(builder, location, value, numbers(builder, location, order), cut.dim);
  }
  value.setType(op.getY().getType());
  op.getY().replaceAllUsesWith(value);
  op.erase();
}

} // namespace

Status placeRanks(ModuleOp cut, tn::WeightStore &weights, int64_t ranks) {
  weights.ranks = ranks;
  Placer placer(weights, ranks);
  SmallVector<Operation *> operations;
  cut.walk([&](Operation *op) {
    if (isa<tn::RankSliceOp, tn::AllGatherOp>(op)) {
      operations.push_back(op);
    }
  });
  for (Operation *op : operations) {
    if (tn::RankSliceOp slice = dyn_cast<tn::RankSliceOp>(op)) {
      placer.place(slice);
    } else {
      placer.place(cast<tn::AllGatherOp>(op));
    }
  }
  return Status::ok();
}

} // namespace tenon::shard
