// Where the bytes of `tn.weight` live during a compilation: parts of mapped model files, buffers
// that passes made, or a seeded generator; each with its hash. Thread-safe for reading once import
// is done.
#pragma once

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringRef.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace tenon::tn {

/// Fills `out` with bytes [begin, begin + size) of a weight, both multiples of an element's size.
/// May be called by several threads at once.
using WeightGenerator = std::function<void(uint64_t begin, uint64_t size, char *out)>;

/// One weight. Bytes are row-major, little-endian, dense.
struct WeightEntry {
  uint64_t size = 0;
  /// Non-owning view, valid as long as the store: of a mapped file or of `owned`.
  llvm::ArrayRef<char> bytes;
  std::vector<char> owned;
  /// Makes bytes on demand (seeded weights); null if `bytes` is set.
  WeightGenerator generate;
  /// Whether each rank of a group has bytes of its own: `generate` makes those of the store's rank,
  /// and `bytes` stays empty.
  bool isOfRank = false;
  /// Where it came from, for messages and dumps: "model.onnx+1024" or "pass fold-batch-norm".
  std::string origin;
};

class WeightStore {
public:
  /// Adds an entry under a new id made from `name` (made unique by a suffix) and returns the id.
  std::string addView(llvm::StringRef name, llvm::ArrayRef<char> bytes, std::string origin);
  std::string addOwned(llvm::StringRef name, std::vector<char> bytes, std::string origin);
  std::string addGenerated(llvm::StringRef name, uint64_t size, WeightGenerator generate,
                           std::string origin);
  /// The same, made of other weights: each rank has its own if it has its own of one of these.
  std::string addDerived(llvm::StringRef name, uint64_t size, WeightGenerator generate,
                         bool isOfRank, std::string origin);

  /// Null if there is no such id.
  const WeightEntry *find(llvm::StringRef id) const;
  /// The bytes of an entry; a generated one is made at the first call and kept. None of one that
  /// differs from rank to rank. Thread-safe.
  llvm::ArrayRef<char> bytes(llvm::StringRef id);

  /// How many ranks run the model, and the one whose bytes generators make. One thread at a time
  /// may set it, while nobody generates.
  int64_t ranks = 1;
  int64_t rank = 0;

  /// Keeps a mapped file (or any owner of bytes) alive as long as the store.
  void keep(std::shared_ptr<void> owner) { owners.push_back(std::move(owner)); }

private:
  std::string uniqueId(llvm::StringRef name) const;
  std::string insert(llvm::StringRef name, std::unique_ptr<WeightEntry> entry);

  llvm::StringMap<std::unique_ptr<WeightEntry>> entries;
  std::vector<std::shared_ptr<void>> owners;
  std::mutex mutex;
};

} // namespace tenon::tn
