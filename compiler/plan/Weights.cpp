// Collects the arrays of an engine, equal ones once, and writes them in pieces.
// Relies on the store's views; a generated weight is made when it is written and not kept.
#include "compiler/plan/Weights.h"

#include "mlir/IR/BuiltinAttributes.h"
#include "support/Check.h"
#include "support/ThreadPool.h"

#include <cstring>

using namespace mlir;

namespace tenon::plan {
namespace {

/// Bytes handed on at a time.
constexpr int64_t kPieceBytes = 8 << 20;
/// Bytes compared before whole arrays are: at both ends and in the middle.
constexpr size_t kSampleBytes = 256;

int64_t elementBytes(Type type) {
  unsigned bits = cast<RankedTensorType>(type).getElementTypeBitWidth();
  return bits <= 8 ? 1 : bits / 8;
}

std::vector<char> constantBytes(tn::ConstantOp constant) {
  DenseElementsAttr dense = cast<DenseElementsAttr>(constant.getValue());
  RankedTensorType type = cast<RankedTensorType>(constant.getY().getType());
  if (type.getElementType().isInteger(1)) {
    // MLIR keeps bools as bits; tensors hold one a byte.
    std::vector<char> bytes;
    for (bool value : dense.getValues<bool>()) {
      bytes.push_back(value ? 1 : 0);
    }
    return bytes;
  }
  ArrayRef<char> raw = dense.getRawData();
  if (!dense.isSplat()) {
    return std::vector<char>(raw.begin(), raw.end());
  }
  std::vector<char> bytes;
  bytes.reserve(raw.size() * type.getNumElements());
  for (int64_t i = 0; i < type.getNumElements(); ++i) {
    bytes.insert(bytes.end(), raw.begin(), raw.end());
  }
  return bytes;
}

PackLayout layoutOf(tn::PackOp pack) {
  RankedTensorType type = cast<RankedTensorType>(pack.getWeight().getType());
  return {.shape = std::vector<int64_t>(type.getShape()),
          .permutation = std::vector<int64_t>(pack.getPermutation()),
          .rows = static_cast<int64_t>(pack.getRows()),
          .panel = static_cast<int64_t>(pack.getPanel()),
          .groups = static_cast<int64_t>(pack.getGroups()),
          .elementBytes = elementBytes(type)};
}

Bytes asBytes(ArrayRef<char> bytes) {
  return {reinterpret_cast<const std::byte *>(bytes.data()), bytes.size()};
}

} // namespace

ArrayRef<char> WeightTable::view(const Array &array) const {
  if (array.id.empty()) {
    return array.inlined;
  }
  return store.find(array.id)->bytes;
}

WeightTable::Key WeightTable::keyOf(const Array &array) const {
  Key key{array.sourceBytes, array.layout, {}};
  ArrayRef<char> bytes = view(array);
  if (bytes.empty()) {
    key.sample = "generated " + array.id;
    return key;
  }
  for (size_t start :
       {size_t(0), bytes.size() / 2, bytes.size() - std::min(bytes.size(), kSampleBytes)}) {
    ArrayRef<char> part = bytes.drop_front(start).take_front(kSampleBytes);
    key.sample.append(part.begin(), part.end());
  }
  return key;
}

bool WeightTable::sameBytes(const Array &a, const Array &b) const {
  return !a.id.empty() && a.id == b.id ? true : view(a) == view(b);
}

uint32_t WeightTable::add(Operation *op) {
  Array array;
  std::string name;
  tn::PackOp pack = dyn_cast<tn::PackOp>(op);
  Operation *origin = pack ? pack.getWeight().getDefiningOp() : op;
  if (tn::WeightOp weight = dyn_cast<tn::WeightOp>(origin)) {
    array.id = weight.getId().str();
    name = array.id;
    const tn::WeightEntry *entry = store.find(array.id);
    TENON_CHECK(entry, "a tn.weight names an entry of the store");
    array.sourceBytes = entry->size;
  } else {
    array.inlined = constantBytes(cast<tn::ConstantOp>(origin));
    array.sourceBytes = array.inlined.size();
    name = "constant" + std::to_string(arrays.size());
  }
  uint64_t bytes = array.sourceBytes;
  if (pack) {
    array.layout = layoutOf(pack);
    Packer packer(*array.layout);
    bytes = packer.panels() * packer.panelBytes();
    name += ".packed";
  }
  Key key = keyOf(array);
  auto [begin, end] = known.equal_range(key);
  for (std::multimap<Key, uint32_t>::iterator it = begin; it != end; ++it) {
    if (sameBytes(arrays[it->second], array)) {
      return it->second;
    }
  }
  uint32_t index = static_cast<uint32_t>(arrays.size());
  known.emplace(std::move(key), index);
  arrays.push_back(std::move(array));
  weights.push_back({.name = name, .bytes = bytes});
  return index;
}

Status WeightTable::write(const Array &array, unsigned threads,
                          const engine::ByteSink &sink) const {
  ArrayRef<char> bytes = view(array);
  std::vector<char> generated;
  if (bytes.empty() && array.sourceBytes > 0) {
    generated.resize(array.sourceBytes);
    store.find(array.id)->generate(generated.data());
    bytes = generated;
  }
  if (!array.layout) {
    return sink(asBytes(bytes));
  }
  Packer packer(*array.layout);
  int64_t atOnce = std::max<int64_t>(1, kPieceBytes / packer.panelBytes());
  std::vector<std::byte> piece(std::min(atOnce, packer.panels()) * packer.panelBytes());
  TENON_ASSIGN(std::unique_ptr<ThreadPool> pool, ThreadPool::create(threads));
  for (int64_t begin = 0; begin < packer.panels(); begin += atOnce) {
    int64_t count = std::min(atOnce, packer.panels() - begin);
    pool->parallelFor(count, [&](int64_t first, int64_t last, unsigned) {
      packer.pack(asBytes(bytes).data(), begin + first, begin + last,
                  piece.data() + first * packer.panelBytes());
    });
    TENON_TRY(sink(Bytes(piece).first(count * packer.panelBytes())));
  }
  return Status::ok();
}

engine::WeightSource WeightTable::source(unsigned threads) const {
  return [this, threads](uint32_t index, const engine::ByteSink &sink) {
    return write(arrays[index], threads, sink);
  };
}

} // namespace tenon::plan
