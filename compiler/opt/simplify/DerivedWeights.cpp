// Constants made of others: the rows of each are copied to their place when the whole is written.
// Relies on entries of the weight store living as long as the store.
#include "compiler/opt/simplify/DerivedWeights.h"

#include "compiler/opt/Match.h"

#include <cstring>

using namespace mlir;

namespace tenon::opt {
namespace {

RowsOfSource sourceOf(Value part, unsigned dim, tn::WeightStore &weights) {
  RankedTensorType type = tensorType(part);
  RowsOfSource rows{WeightSource::of(part, weights),
                    static_cast<uint64_t>(elementBytes(type.getElementType()))};
  for (int64_t size : type.getShape().drop_front(dim)) {
    rows.rowBytes *= size;
  }
  return rows;
}

/// Rows that are `stride` bytes long, with those of each source one after the other in them.
struct RowsOfParts {
  std::vector<RowsOfSource> sources;
  uint64_t stride = 0;

  void operator()(uint64_t begin, uint64_t size, char *out) const {
    if (size == 0) {
      return;
    }
    std::memset(out, 0, size);
    uint64_t offset = 0;
    for (const auto &[source, rowBytes] : sources) {
      uint64_t end = begin + size;
      for (uint64_t row = begin / stride; row * stride < end && rowBytes > 0; ++row) {
        uint64_t start = row * stride + offset;
        uint64_t first = std::max(begin, start);
        uint64_t last = std::min(end, start + rowBytes);
        if (first < last) {
          source.read(row * rowBytes + (first - start), last - first, out + first - begin);
        }
      }
      offset += rowBytes;
    }
  }
};

std::string derivedName(Value part, StringRef suffix) {
  tn::WeightOp weight = part.getDefiningOp<tn::WeightOp>();
  return ((weight ? weight.getId() : "constant") + suffix).str();
}

} // namespace

/// A weight whose rows are the rows of the sources, then zeros.
Value DerivedWeights::make(OpBuilder &builder, Location location, RankedTensorType type,
                           unsigned dim, std::vector<RowsOfSource> sources, StringRef name) {
  std::string key = std::to_string(dim);
  for (int64_t size : type.getShape()) {
    key += ' ' + std::to_string(size);
  }
  for (const RowsOfSource &rows : sources) {
    key += ' ' + std::to_string(rows.source.key.size()) + ' ' + rows.source.key;
  }
  std::string &id = made[key];
  if (id.empty()) {
    uint64_t stride = elementBytes(type.getElementType());
    for (int64_t size : type.getShape().drop_front(dim)) {
      stride *= size;
    }
    uint64_t total = type.getNumElements() * elementBytes(type.getElementType());
    bool isOfRank =
        llvm::any_of(sources, [](const RowsOfSource &rows) { return rows.source.isOfRank; });
    id = store.addDerived(name, total, RowsOfParts{std::move(sources), stride}, isOfRank,
                          "made of other weights");
  }
  return tn::WeightOp::create(builder, location, type, id);
}

Value DerivedWeights::concat(OpBuilder &builder, Location location, ArrayRef<Value> parts,
                             unsigned dim) {
  SmallVector<int64_t> shape(tensorType(parts.front()).getShape());
  shape[dim] = 0;
  std::vector<RowsOfSource> sources;
  for (Value part : parts) {
    shape[dim] += tensorType(part).getDimSize(dim);
    sources.push_back(sourceOf(part, dim, store));
  }
  RankedTensorType type = RankedTensorType::get(shape, tensorType(parts.front()).getElementType());
  return make(builder, location, type, dim, std::move(sources),
              derivedName(parts.front(), ".merged"));
}

Value DerivedWeights::pad(OpBuilder &builder, Location location, Value weight, unsigned dim,
                          int64_t size) {
  SmallVector<int64_t> shape(tensorType(weight).getShape());
  shape[dim] = size;
  RankedTensorType type = RankedTensorType::get(shape, tensorType(weight).getElementType());
  return make(builder, location, type, dim, {sourceOf(weight, dim, store)},
              derivedName(weight, ".padded"));
}

} // namespace tenon::opt
