// Collects the arrays of an engine, equal ones once, and writes them in pieces.
// Relies on the store's views; a generated weight is made when it is written and not kept.
#include "compiler/plan/Weights.h"

#include "compiler/graph/ContentGenerator.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "support/Check.h"
#include "support/threads/ThreadPool.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/Sequence.h"

#include <cstring>

using namespace mlir;

namespace tenon::plan {
namespace {

/// Bytes handed on at a time: few enough to be in a cache still when they are hashed and written.
constexpr int64_t kPieceBytes = 2 << 20;
/// Bytes that a thread makes at a time.
constexpr int64_t kBlockBytes = 64 << 10;
/// Bytes of a generated weight that are packed at a time, where it can be cut.
constexpr int64_t kSlabBytes = 8 << 20;
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

uint64_t byteCount(Type type) {
  return cast<RankedTensorType>(type).getNumElements() * elementBytes(type);
}

/// What an operation does to its operand.
std::string textOf(Operation *op) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  stream << op->getName() << ' ' << op->getAttrDictionary() << ' ' << op->getOperand(0).getType();
  return text;
}

PackLayout layoutOf(tn::PackOp pack) {
  RankedTensorType type = cast<RankedTensorType>(pack.getWeight().getType());
  return {.shape = std::vector<int64_t>(type.getShape()),
          .packing = pack.packing(),
          .elementBytes = elementBytes(type)};
}

Bytes asBytes(ArrayRef<char> bytes) {
  return {reinterpret_cast<const std::byte *>(bytes.data()), bytes.size()};
}

/// Makes a part of a generated weight by all threads.
void generate(const tn::WeightGenerator &generator, uint64_t begin, uint64_t size, char *out,
              ThreadPool &pool) {
  int64_t blocks = static_cast<int64_t>((size + kBlockBytes - 1) / kBlockBytes);
  pool.parallelFor(blocks, [&](int64_t first, int64_t last, unsigned) {
    uint64_t from = first * kBlockBytes;
    uint64_t to = std::min<uint64_t>(last * kBlockBytes, size);
    generator(begin + from, to - from, out + from);
  });
}

Status writeGenerated(const tn::WeightGenerator &generator, uint64_t bytes, ThreadPool &pool,
                      const engine::ByteSink &sink) {
  std::vector<char> piece(std::min<uint64_t>(bytes, kPieceBytes));
  for (uint64_t begin = 0; begin < bytes; begin += piece.size()) {
    uint64_t size = std::min<uint64_t>(piece.size(), bytes - begin);
    generate(generator, begin, size, piece.data(), pool);
    TENON_TRY(sink(asBytes(ArrayRef(piece).take_front(size))));
  }
  return Status::ok();
}

/// Packs an array in pieces.
Status pack(const char *bytes, const PackLayout &layout, ThreadPool &pool,
            const engine::ByteSink &sink) {
  Packer packer(layout);
  int64_t rowBytes = std::max<int64_t>(1, packer.rowBytes());
  int64_t rowsPerPiece = std::max<int64_t>(1, kPieceBytes / rowBytes);
  std::vector<std::byte> piece(std::min(rowsPerPiece, packer.rows()) * rowBytes);
  for (int64_t begin = 0; begin < packer.rows(); begin += rowsPerPiece) {
    int64_t count = std::min(rowsPerPiece, packer.rows() - begin);
    pool.parallelFor(count, [&](int64_t first, int64_t last, unsigned) {
      packer.pack(reinterpret_cast<const std::byte *>(bytes), begin + first, begin + last,
                  piece.data() + first * rowBytes);
    });
    TENON_TRY(sink(Bytes(piece).first(count * packer.rowBytes())));
  }
  return Status::ok();
}

/// How many of the outermost indices of a weight become one part of the packed array; all of them
/// where the packed array does not begin with that dim.
int64_t packedTogether(const PackLayout &layout) {
  tn::PackedDim first = tn::packedDims(layout.shape, layout.packing).front();
  return first.source == 0 && first.level == 0 ? first.step : layout.shape.front();
}

/// The same of a generated weight, of which `buffer` holds some rows at a time.
Status packGenerated(const tn::WeightGenerator &generator, const PackLayout &layout, uint64_t bytes,
                     ThreadPool &pool, std::vector<char> &buffer, const engine::ByteSink &sink) {
  int64_t rows = layout.shape.front();
  int64_t rowBytes = static_cast<int64_t>(bytes) / std::max<int64_t>(rows, 1);
  int64_t together = packedTogether(layout);
  int64_t step = std::max<int64_t>(1, kSlabBytes / (together * rowBytes)) * together;
  for (int64_t begin = 0; begin < rows; begin += step) {
    PackLayout slab = layout;
    slab.shape.front() = std::min(step, rows - begin);
    int64_t size = slab.shape.front() * rowBytes;
    buffer.resize(std::max<size_t>(buffer.size(), size));
    generate(generator, begin * rowBytes, size, buffer.data(), pool);
    TENON_TRY(pack(buffer.data(), slab, pool, sink));
  }
  return Status::ok();
}

} // namespace

ArrayRef<char> WeightTable::view(const Array &array) const {
  if (array.id.empty()) {
    return array.inlined;
  }
  return store.find(array.id)->bytes;
}

WeightTable::Key WeightTable::keyOf(const Array &array) const {
  Key key{array.sourceBytes, {}, array.layout, {}};
  for (const Derivation &derivation : array.derivations) {
    key.derivations.push_back(derivation.text);
  }
  ArrayRef<char> bytes = view(array);
  if (bytes.empty()) {
    const tn::WeightEntry *entry = store.find(array.id);
    const tn::ContentGenerator *known =
        entry ? entry->generate.target<tn::ContentGenerator>() : nullptr;
    key.sample = known ? "of " + known->content : "generated " + array.id;
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

std::optional<uint32_t> WeightTable::findEqual(const std::multimap<Key, uint32_t> &among,
                                               const Key &key, const Array &array) const {
  auto [begin, end] = among.equal_range(key);
  for (std::multimap<Key, uint32_t>::const_iterator it = begin; it != end; ++it) {
    if (sameBytes(arrays[it->second], array)) {
      return it->second;
    }
  }
  return std::nullopt;
}

std::vector<WeightForm> WeightTable::forms(ArrayRef<uint32_t> indices) const {
  std::vector<WeightForm> all = {{"as they are in the model"},
                                 {"with their dims in another order"},
                                 {"in panels for products, convolutions and recurrent layers"}};
  auto nameOf = [&](const Array &array) {
    size_t packed = !array.layout ? 0 : array.layout->packing.innerTiles.empty() ? 1 : 2;
    return array.derivations.empty() ? all[packed].name : array.derivations.back().form;
  };
  for (uint32_t index : indices) {
    llvm::StringLiteral name = nameOf(arrays[index]);
    if (llvm::none_of(all, [&](const WeightForm &form) { return form.name == name; })) {
      all.push_back({name});
    }
  }
  llvm::DenseSet<uint32_t> counted;
  for (WeightForm &form : all) {
    for (uint32_t index : indices) {
      const Array &array = arrays[index];
      if (nameOf(array) == form.name) {
        ++form.arrays;
        form.bytes += weights[index].bytes;
        form.sourceBytes += counted.insert(array.source).second ? array.sourceBytes : 0;
      }
    }
  }
  llvm::erase_if(all, [](const WeightForm &form) { return form.arrays == 0; });
  return all;
}

std::vector<WeightForm> WeightTable::forms() const {
  return forms(llvm::to_vector(llvm::seq<uint32_t>(0, static_cast<uint32_t>(arrays.size()))));
}

uint32_t WeightTable::add(Operation *op) {
  Array array;
  std::string name;
  int64_t ranks = 1;
  tn::PackOp pack = dyn_cast<tn::PackOp>(op);
  Operation *origin = pack ? pack.getWeight().getDefiningOp() : op;
  while (tn::DerivedWeight derived = dyn_cast<tn::DerivedWeight>(origin)) {
    array.derivations.insert(array.derivations.begin(),
                             {textOf(origin), derived.form(), derived.derivedBytes(),
                              byteCount(origin->getResult(0).getType())});
    origin = origin->getOperand(0).getDefiningOp();
  }
  if (tn::WeightOp weight = dyn_cast<tn::WeightOp>(origin)) {
    array.id = weight.getId().str();
    name = array.id;
    const tn::WeightEntry *entry = store.find(array.id);
    TENON_CHECK(entry, "a tn.weight names an entry of the store");
    array.sourceBytes = entry->size;
    ranks = entry->isOfRank ? store.ranks : 1;
  } else {
    array.inlined = constantBytes(cast<tn::ConstantOp>(origin));
    array.sourceBytes = array.inlined.size();
    name = "constant" + std::to_string(arrays.size());
  }
  uint64_t bytes = array.derivations.empty() ? array.sourceBytes : array.derivations.back().bytes;
  if (pack) {
    array.layout = layoutOf(pack);
    bytes = byteCount(pack.getType());
    name += ".packed";
  }
  Key key = keyOf(array);
  if (std::optional<uint32_t> same = findEqual(known, key, array)) {
    return *same;
  }
  uint32_t index = static_cast<uint32_t>(arrays.size());
  Key source = key;
  source.layout.reset();
  source.derivations.clear();
  array.source = findEqual(sources, source, array).value_or(index);
  if (array.source == index) {
    sources.emplace(std::move(source), index);
  }
  known.emplace(std::move(key), index);
  arrays.push_back(std::move(array));
  weights.push_back({.name = name, .bytes = bytes, .ranks = static_cast<uint32_t>(ranks)});
  return index;
}

Status WeightTable::write(const Array &array, ThreadPool &pool, Scratch &scratch,
                          const engine::ByteSink &sink) const {
  // Each step reads the bytes of the one before; what is not packed then goes to the sink in
  // pieces.
  ArrayRef<char> bytes = view(array);
  bool isGenerated = bytes.empty() && array.sourceBytes > 0;
  tn::WeightGenerator last = isGenerated ? store.find(array.id)->generate : nullptr;
  uint64_t size = array.sourceBytes;
  for (const Derivation &derivation : array.derivations) {
    if (last) {
      scratch.generated.resize(std::max<size_t>(scratch.generated.size(), size));
      generate(last, 0, size, scratch.generated.data(), pool);
      std::swap(scratch.generated, scratch.derived);
      bytes = ArrayRef(scratch.derived).take_front(size);
    }
    last = [make = derivation.make, from = bytes.data()](
               uint64_t begin, uint64_t count, char *out) { make(from, begin, count, out); };
    size = derivation.bytes;
  }
  if (!array.layout) {
    return last ? writeGenerated(last, size, pool, sink) : sink(asBytes(bytes));
  }
  return last ? packGenerated(last, *array.layout, size, pool, scratch.generated, sink)
              : pack(bytes.data(), *array.layout, pool, sink);
}

engine::WeightSource WeightTable::source(unsigned threads) const {
  std::shared_ptr<ThreadPool> pool;
  std::shared_ptr<Scratch> scratch = std::make_shared<Scratch>();
  return [this, threads, pool, scratch](uint32_t index, uint32_t rank,
                                        const engine::ByteSink &sink) mutable -> Status {
    if (!pool) {
      TENON_ASSIGN(pool, ThreadPool::create(threads));
    }
    store.rank = rank;
    return write(arrays[index], *pool, *scratch, sink);
  };
}

} // namespace tenon::plan
