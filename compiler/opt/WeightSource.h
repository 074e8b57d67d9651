// Where the bytes of a constant come from, so that another weight can be made of them when it is
// read. Relies on entries of the weight store living as long as the store.
#pragma once

#include "compiler/graph/WeightStore.h"
#include "mlir/IR/Value.h"

#include <memory>
#include <string>
#include <vector>

namespace tenon::opt {

/// Serves while its store lives, also when the constant is gone. Thread-safe.
struct WeightSource {
  static WeightSource of(mlir::Value constant, tn::WeightStore &weights);

  /// Fills `out` with bytes [begin, begin + count); both are multiples of an element's size.
  void read(uint64_t begin, uint64_t count, char *out) const;

  /// False for an element type without bytes, or a weight of another size.
  bool isComplete() const { return size > 0 && (generate || view.size() == size); }

  llvm::ArrayRef<char> view;
  tn::WeightGenerator generate; ///< null if `view` is set
  std::shared_ptr<std::vector<char>> owned;
  uint64_t size = 0;
  bool isOfRank = false; ///< tn::WeightEntry
  std::string key;       ///< sources with equal keys have equal bytes
};

} // namespace tenon::opt
