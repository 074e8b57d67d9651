// What a rank of a group has of a value: all of it, a part along one dim, or a summand. Relies on
// every rank having the same shape, so that all run one graph.
#pragma once

#include "compiler/graph/Shape.h"
#include "llvm/ADT/SmallVector.h"

#include <optional>
#include <string>

namespace tenon::shard {

/// A stretch of a cut dim. It is cut into ranks / copies chunks; `copies` neighbouring ranks have
/// the same chunk, as of key heads where there are fewer than ranks.
struct Piece {
  int64_t size = 0;
  int64_t copies = 1;
  bool operator==(const Piece &) const = default;
};

/// How a dim is cut: it is `repeat` times the pieces, and a rank has its chunk of each. One piece
/// is the plain case; a fused projection has one for Q, K and V each.
struct Cut {
  int64_t dim = 0;
  int64_t repeat = 1;
  llvm::SmallVector<Piece, 3> pieces;

  bool operator==(const Cut &) const = default;
  /// The dim's size that the cut is for.
  int64_t size() const;
  /// Of one rank; nothing where the pieces do not divide.
  std::optional<int64_t> sizeOfRank(int64_t ranks) const;
  bool isPlain() const { return repeat == 1 && pieces.size() == 1 && pieces[0].copies == 1; }
  Cut along(int64_t other) const;

  static Cut plain(int64_t dim, int64_t size) { return {dim, 1, {{size, 1}}}; }
};

/// Equal pieces become one that is repeated.
Cut simplified(Cut cut);

/// A chunk of a dim: `count` elements from `first` on.
struct Chunk {
  int64_t first = 0, count = 0;
  bool operator==(const Chunk &) const = default;
};
/// What a rank has of the dim, in its order.
llvm::SmallVector<Chunk> chunksOf(const Cut &cut, int64_t ranks, int64_t rank);

struct State {
  enum class Kind : uint8_t { Replicated, Split, Partial };
  Kind kind = Kind::Replicated;
  Cut cut; ///< of Split

  static State replicated() { return {}; }
  static State partial() { return {Kind::Partial, {}}; }
  static State split(Cut cut) { return {Kind::Split, simplified(std::move(cut))}; }

  bool isReplicated() const { return kind == Kind::Replicated; }
  bool isSplit() const { return kind == Kind::Split; }
  bool isPartial() const { return kind == Kind::Partial; }
  bool operator==(const State &other) const = default;
};

/// The type of what a rank has; nothing where a piece does not divide.
std::optional<mlir::RankedTensorType> typeOfRank(mlir::Type whole, const State &state,
                                                 int64_t ranks);

/// Which part of a value a rank has.
double shareOf(const State &state, int64_t ranks);

/// "replicated", "split(1)", "partial".
std::string textOf(const State &state);

} // namespace tenon::shard
