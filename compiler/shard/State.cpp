// Arithmetic of cuts. Relies on pieces that fill their dim.
#include "compiler/shard/State.h"

#include "support/text/Text.h"

using namespace mlir;

namespace tenon::shard {

int64_t Cut::size() const {
  int64_t sum = 0;
  for (const Piece &piece : pieces) {
    sum += piece.size;
  }
  return sum * repeat;
}

std::optional<int64_t> Cut::sizeOfRank(int64_t ranks) const {
  int64_t sum = 0;
  for (const Piece &piece : pieces) {
    if (ranks % piece.copies != 0 || piece.size % (ranks / piece.copies) != 0) {
      return std::nullopt;
    }
    sum += piece.size / (ranks / piece.copies);
  }
  return sum * repeat;
}

Cut Cut::along(int64_t other) const {
  Cut moved = *this;
  moved.dim = other;
  return moved;
}

Cut simplified(Cut cut) {
  bool isEqual = llvm::all_equal(cut.pieces);
  if (cut.pieces.size() > 1 && isEqual) {
    cut.repeat *= static_cast<int64_t>(cut.pieces.size());
    cut.pieces.resize(1);
  }
  return cut;
}

SmallVector<Chunk> chunksOf(const Cut &cut, int64_t ranks, int64_t rank) {
  SmallVector<Chunk> chunks;
  int64_t begin = 0;
  for (int64_t i = 0; i < cut.repeat; ++i) {
    for (const Piece &piece : cut.pieces) {
      int64_t count = piece.size / (ranks / piece.copies);
      chunks.push_back({begin + rank / piece.copies * count, count});
      begin += piece.size;
    }
  }
  return chunks;
}

std::optional<RankedTensorType> typeOfRank(Type whole, const State &state, int64_t ranks) {
  RankedTensorType tensor = cast<RankedTensorType>(whole);
  if (!state.isSplit()) {
    return tensor;
  }
  std::optional<int64_t> size = state.cut.sizeOfRank(ranks);
  tn::Dims dims = tn::getDims(whole);
  if (!size || tn::constantDim(dims[state.cut.dim]) != state.cut.size()) {
    return std::nullopt;
  }
  dims[state.cut.dim] = getAffineConstantExpr(*size, whole.getContext());
  return tn::makeTensor(dims, tensor.getElementType());
}

double shareOf(const State &state, int64_t ranks) {
  return state.isSplit() ? static_cast<double>(*state.cut.sizeOfRank(ranks)) /
                               static_cast<double>(state.cut.size())
                         : 1;
}

std::string textOf(const State &state) {
  switch (state.kind) {
  case State::Kind::Replicated:
    return "replicated";
  case State::Kind::Partial:
    return "partial";
  case State::Kind::Split:
    break;
  }
  std::string text = strCat("split(", state.cut.dim);
  if (!state.cut.isPlain()) {
    text += state.cut.repeat > 1 ? strCat(", ", state.cut.repeat, " times") : "";
    for (const Piece &piece : state.cut.pieces) {
      text += strCat(", ", piece.size, piece.copies > 1 ? strCat(" on ", piece.copies) : "");
    }
  }
  return strCat(text, ')');
}

} // namespace tenon::shard
