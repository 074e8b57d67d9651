// Index arithmetic of kernels that keeps constant parts and divisibility apart from the values, so
// that the elements of a strip share their address and the alignment of a load can be proved. Equal
// computations give the same value while the scope that they stand in is open.
#pragma once

#include "mlir/IR/AffineExpr.h"
#include "mlir/IR/Builders.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"

#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

namespace tenon::codegen::cuda {

/// base + offset.
struct Index {
  /// Of index type; null for 0.
  mlir::Value base;
  int64_t offset = 0;
  /// The base is a multiple of it; 0 without a base.
  int64_t divisor = 0;
  /// Whether the base is known to be at least 0.
  bool isNonNegative = true;

  static Index constant(int64_t value) { return {{}, value, 0, true}; }
  bool isConstant() const { return !base; }
  /// The largest number known to divide the whole index.
  int64_t commonDivisor() const;
};

/// The place of an element: an index for each dim of its tensor.
using Indices = llvm::SmallVector<Index>;
/// What tells two places apart.
using IndicesKey = std::vector<std::pair<const void *, int64_t>>;
IndicesKey keyOf(llvm::ArrayRef<Index> indices);

/// Values by key; what a scope added is forgotten at its end, since it stands in a block of its
/// own.
template <typename Key, typename T> class ScopedMap {
public:
  ScopedMap() : scopes(1) {}
  const T *find(const Key &key) const {
    for (auto scope = scopes.rbegin(); scope != scopes.rend(); ++scope) {
      typename std::map<Key, T>::const_iterator entry = scope->find(key);
      if (entry != scope->end()) {
        return &entry->second;
      }
    }
    return nullptr;
  }
  void insert(Key key, T value) {
    scopes.back().insert_or_assign(std::move(key), std::move(value));
  }
  void open() { scopes.emplace_back(); }
  void close() { scopes.pop_back(); }

private:
  std::vector<std::map<Key, T>> scopes;
};

class IndexMath {
public:
  explicit IndexMath(mlir::OpBuilder &builder) : builder(builder) {}

  /// An index that is an i32 of at least 0, a multiple of `divisor`.
  Index fromWord(mlir::Value word, int64_t divisor = 1);
  Index add(const Index &a, const Index &b);
  Index multiply(const Index &a, const Index &b);
  /// The divisor is positive.
  Index floorDiv(const Index &a, const Index &b);
  Index mod(const Index &a, const Index &b);
  Index evaluate(mlir::AffineExpr expression, llvm::ArrayRef<Index> dims,
                 llvm::ArrayRef<Index> symbols);
  /// The place in a row-major tensor, and its way back.
  Index linearize(llvm::ArrayRef<Index> indices, llvm::ArrayRef<Index> sizes);
  Indices delinearize(const Index &linear, llvm::ArrayRef<Index> sizes);

  mlir::Value value(const Index &index);
  mlir::Value constant(int64_t value);

  void openScope() { known.open(); }
  void closeScope() { known.close(); }

private:
  enum class Op { Add, Mul, DivUnsigned, RemUnsigned, FloorDiv, Mod, Constant };
  mlir::Value make(Op op, mlir::Value a, mlir::Value b);

  mlir::OpBuilder &builder;
  using Key = std::tuple<Op, const void *, const void *, int64_t>;
  ScopedMap<Key, mlir::Value> known;
};

} // namespace tenon::codegen::cuda
