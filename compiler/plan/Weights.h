// The weights of an engine: which arrays it holds and how to write each, packed on the way and
// never all at once. Relies on the weight store for bytes; equal arrays are held once.
#pragma once

#include "compiler/graph/Tn.h"
#include "compiler/graph/WeightStore.h"
#include "compiler/plan/Pack.h"
#include "engine/Writer.h"
#include "llvm/ADT/StringRef.h"

#include <map>
#include <optional>

namespace tenon {
class ThreadPool;
}

namespace tenon::plan {

/// The arrays that lie in one of the ways in which kernels read weights.
struct WeightForm {
  llvm::StringLiteral name; ///< for people
  uint64_t arrays = 0;
  uint64_t bytes = 0;
  /// Of the weights that they were made from; one that lies in several ways counts in the first
  /// only.
  uint64_t sourceBytes = 0;
};

class WeightTable {
public:
  explicit WeightTable(tn::WeightStore &weightStore) : store(weightStore) {}

  /// Index of the array behind a tn.weight, tn.constant, tn.pack or operation that derives a
  /// constant.
  uint32_t add(mlir::Operation *op);

  /// Names and sizes, by index.
  const std::vector<engine::Weight> &list() const { return weights; }
  /// How many ranks run the model.
  uint32_t ranks() const { return static_cast<uint32_t>(store.ranks); }
  /// What these arrays are, in each form of which there are any: as they are in the model, in
  /// panels, and what operations derive.
  std::vector<WeightForm> forms(llvm::ArrayRef<uint32_t> indices) const;
  /// Of all arrays.
  std::vector<WeightForm> forms() const;
  /// Gives the bytes of an array in pieces of a few MiB, packed by `threads` threads. The table
  /// must live as long as the function.
  engine::WeightSource source(unsigned threads) const;

private:
  /// An operation that makes a constant of another.
  struct Derivation {
    std::string text; ///< what it does: equal texts do the same
    llvm::StringLiteral form;
    tn::DerivedBytes make;
    uint64_t bytes = 0;
  };
  struct Array {
    std::string id;                      ///< in the store; empty for a constant
    std::vector<char> inlined;           ///< bytes of a constant
    std::vector<Derivation> derivations; ///< in their order
    std::optional<PackLayout> layout;
    uint64_t sourceBytes = 0;
    uint32_t source = 0; ///< the first array of the same weight
  };
  struct Key {
    uint64_t bytes;
    std::vector<std::string> derivations;
    std::optional<PackLayout> layout;
    std::string sample; ///< some of the bytes, or what or which a generated weight is
    auto operator<=>(const Key &) const = default;
  };

  Key keyOf(const Array &array) const;
  /// Of those in `among` the one with the bytes of an array.
  std::optional<uint32_t> findEqual(const std::multimap<Key, uint32_t> &among, const Key &key,
                                    const Array &array) const;
  bool sameBytes(const Array &a, const Array &b) const;
  llvm::ArrayRef<char> view(const Array &array) const;
  /// Kept from array to array: pages that are touched first cost more than what is done in them.
  struct Scratch {
    std::vector<char> generated, derived;
  };
  Status write(const Array &array, ThreadPool &pool, Scratch &scratch,
               const engine::ByteSink &sink) const;

  tn::WeightStore &store;
  std::vector<engine::Weight> weights;
  std::vector<Array> arrays;
  std::multimap<Key, uint32_t> known;
  std::multimap<Key, uint32_t>
      sources; ///< the first array of each weight, by its key without a layout
};

} // namespace tenon::plan
