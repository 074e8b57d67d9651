// The weights of an engine: which arrays it holds and how to write each, packed on the way and
// never all at once. Relies on the weight store for bytes; equal arrays are held once.
#pragma once

#include "compiler/graph/Tn.h"
#include "compiler/graph/WeightStore.h"
#include "compiler/plan/Pack.h"
#include "engine/Writer.h"

#include <map>
#include <optional>

namespace tenon {
class ThreadPool;
}

namespace tenon::plan {

class WeightTable {
public:
  explicit WeightTable(tn::WeightStore &weightStore) : store(weightStore) {}

  /// Index of the array behind a tn.weight, tn.constant or tn.pack.
  uint32_t add(mlir::Operation *op);

  /// Names and sizes, by index.
  const std::vector<engine::Weight> &list() const { return weights; }
  /// Gives the bytes of an array in pieces of a few MiB, packed by `threads` threads. The table
  /// must live as long as the function.
  engine::WeightSource source(unsigned threads) const;

private:
  struct Array {
    std::string id;            ///< in the store; empty for a constant
    std::vector<char> inlined; ///< bytes of a constant
    std::optional<PackLayout> layout;
    uint64_t sourceBytes = 0;
  };
  struct Key {
    uint64_t bytes;
    std::optional<PackLayout> layout;
    std::string sample; ///< some of the bytes, or the id of a generated weight
    auto operator<=>(const Key &) const = default;
  };

  Key keyOf(const Array &array) const;
  bool sameBytes(const Array &a, const Array &b) const;
  llvm::ArrayRef<char> view(const Array &array) const;
  Status write(const Array &array, ThreadPool &pool, std::vector<char> &generated,
               const engine::ByteSink &sink) const;

  tn::WeightStore &store;
  std::vector<engine::Weight> weights;
  std::vector<Array> arrays;
  std::multimap<Key, uint32_t> known;
};

} // namespace tenon::plan
