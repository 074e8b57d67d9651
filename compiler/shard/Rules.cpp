// What cuts become on their way through an operation: by its factors, or by a rule of its own.
// Relies on Factors.cpp for the loops.
#include "compiler/shard/Rules.h"

#include "compiler/graph/TnRare.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace tenon::shard {
namespace {

/// More pieces than a fused projection has are no cut of parts.
constexpr int64_t kMostPieces = 64;

int64_t dimCount(Value value) { return cast<RankedTensorType>(value.getType()).getRank(); }

/// Whether an operation can be cut there at all: by whole groups where it has such.
bool keepsGroups(Operation *op, const Cut &cut, int64_t ranks) {
  int64_t groups = llvm::TypeSwitch<Operation *, int64_t>(op)
                       .Case([](tn::ConvOp conv) { return int64_t(conv.getGroups()); })
                       .Case([](tn::GroupNormOp norm) { return int64_t(norm.getGroups()); })
                       .Default([](Operation *) { return 1; });
  return groups == 1 || cut.dim == 0 || (cut.isPlain() && groups % ranks == 0);
}

std::optional<Strategy> followFactor(Operation *op, const FactorRule &rule, unsigned operand,
                                     const Cut &cut) {
  int64_t factor = rule.operands[operand][cut.dim];
  if (factor == FactorRule::kNone) {
    return std::nullopt;
  }
  bool isReduction = rule.factors[factor] == FactorRule::Kind::Reduction;
  Strategy strategy = replicatedStrategy(op);
  auto stateOf = [&](ArrayRef<int64_t> dims) {
    const int64_t *found = llvm::find(dims, factor);
    return found == dims.end() ? State() : State::split(cut.along(found - dims.begin()));
  };
  for (auto [state, dims] : llvm::zip_equal(strategy.operands, rule.operands)) {
    state = stateOf(dims);
  }
  for (auto [state, dims] : llvm::zip_equal(strategy.results, rule.results)) {
    state = isReduction ? State::partial() : stateOf(dims);
  }
  // Added once.
  tn::ConvOp conv = dyn_cast<tn::ConvOp>(op);
  if (isReduction && conv && conv.getBias()) {
    strategy.operands[2] = State::partial();
  }
  return strategy;
}

/// The pieces one by one.
std::optional<SmallVector<Piece>> unrolled(const Cut &cut) {
  if (cut.repeat * static_cast<int64_t>(cut.pieces.size()) > kMostPieces) {
    return std::nullopt;
  }
  SmallVector<Piece> pieces;
  for (int64_t i = 0; i < cut.repeat; ++i) {
    pieces.append(cut.pieces.begin(), cut.pieces.end());
  }
  return pieces;
}

/// A slice that takes whole pieces.
std::optional<Strategy> followSlice(tn::SliceOp op, const Cut &cut) {
  std::optional<int64_t> first = tn::constantDim(op.getStarts().getResult(cut.dim));
  std::optional<int64_t> count = tn::constantDim(tn::getDims(op.getY().getType())[cut.dim]);
  std::optional<SmallVector<Piece>> pieces = unrolled(cut);
  if (op.getSteps()[cut.dim] != 1 || !first || !count || !pieces) {
    return std::nullopt;
  }
  Cut taken{cut.dim, 1, {}};
  int64_t begin = 0;
  for (const Piece &piece : *pieces) {
    if (begin >= *first && begin + piece.size <= *first + *count) {
      taken.pieces.push_back(piece);
    }
    begin += piece.size;
  }
  if (taken.size() != *count) {
    return std::nullopt;
  }
  return Strategy{{State::split(cut)}, {State::split(taken)}};
}

/// Parts one after the other along the dim that all are cut on; with one cut, the others are cut
/// plainly.
std::optional<Strategy> followConcat(tn::ConcatOp op, unsigned operand, const Cut &cut) {
  Strategy strategy = replicatedStrategy(op);
  Cut all{cut.dim, 1, {}};
  for (auto [index, part] : llvm::enumerate(op.getXs())) {
    std::optional<int64_t> size = tn::constantDim(tn::getDims(part.getType())[cut.dim]);
    if (!size) {
      return std::nullopt;
    }
    Cut own = index == operand ? cut : Cut::plain(cut.dim, *size);
    std::optional<SmallVector<Piece>> pieces = unrolled(own);
    if (!pieces) {
      return std::nullopt;
    }
    strategy.operands[index] = State::split(own);
    all.pieces.append(pieces->begin(), pieces->end());
  }
  strategy.results[0] = State::split(all);
  return strategy;
}

std::optional<Strategy> followHeads(Operation *op, const Heads &heads, unsigned operand,
                                    const Cut &cut, int64_t ranks) {
  Strategy strategy = replicatedStrategy(op);
  for (auto [index, dim] : heads.queries) {
    strategy.operands[index] = State::split(Cut::plain(dim, heads.count));
  }
  for (auto [index, dim] : heads.keys) {
    std::optional<State> state = keyState(heads, dim, ranks);
    if (!state) {
      return std::nullopt;
    }
    strategy.operands[index] = *state;
  }
  strategy.results[0] = State::split(Cut::plain(heads.result, heads.count));
  bool isSo = strategy.operands[operand] == State::split(cut);
  return isSo ? std::optional(strategy) : std::nullopt;
}

/// Rows of a table that another rank has count as zeros.
std::optional<Strategy> followTable(tn::GatherOp op, const Cut &cut) {
  if (!cut.isPlain()) {
    return std::nullopt;
  }
  return Strategy{{State::split(cut), State()}, {State::partial()}};
}

} // namespace

Strategy replicatedStrategy(Operation *op) {
  Strategy strategy;
  strategy.operands.resize(op->getNumOperands());
  strategy.results.resize(op->getNumResults());
  return strategy;
}

std::optional<Heads> headsOf(Operation *op) {
  if (tn::PagedAttentionOp paged = dyn_cast<tn::PagedAttentionOp>(op)) {
    std::optional<int64_t> count = tn::constantDim(tn::getDims(paged.getQ().getType())[1]);
    std::optional<int64_t> keys = tn::constantDim(tn::getDims(paged.getKeys().getType())[1]);
    if (!count || !keys) {
      return std::nullopt;
    }
    return Heads{{{0, 1}}, {{1, 1}, {2, 1}}, 1, *count, *keys};
  }
  tn::AttentionOp attention = dyn_cast<tn::AttentionOp>(op);
  if (!attention) {
    return std::nullopt;
  }
  auto dimOf = [&](int64_t index) { return attention.getHeadsInner()[index] ? 2 : 1; };
  std::optional<int64_t> count = tn::constantDim(tn::getDims(attention.getQ().getType())[dimOf(0)]);
  std::optional<int64_t> keys = tn::constantDim(tn::getDims(attention.getK().getType())[dimOf(1)]);
  if (!count || !keys) {
    return std::nullopt;
  }
  Heads heads{{{0, dimOf(0)}}, {{1, dimOf(1)}, {2, dimOf(2)}}, dimOf(3), *count, *keys};
  if (Value mask = attention.getMask()) {
    int64_t dim = dimCount(mask) - 3;
    if (dim >= 0 && tn::constantDim(tn::getDims(mask.getType())[dim]) != 1) {
      heads.queries.emplace_back(3, dim);
    }
  }
  return heads;
}

std::optional<State> keyState(const Heads &heads, int64_t dim, int64_t ranks) {
  if (heads.keyCount % ranks == 0) {
    return State::split(Cut::plain(dim, heads.keyCount));
  }
  if (ranks % heads.keyCount != 0) {
    return std::nullopt;
  }
  int64_t copies = ranks / heads.keyCount;
  return heads.keyCount == 1 ? State() : State::split({dim, 1, {{heads.keyCount, copies}}});
}

namespace {

/// Dims from `begin` to `end` of one side and from `start` to `stop` of the other have one product.
struct DimGroup {
  size_t begin = 0, end = 0, start = 0, stop = 0;
};

/// The next group behind one, as short as it can be; nothing where no products agree.
std::optional<DimGroup> groupBehind(ArrayRef<AffineExpr> from, ArrayRef<AffineExpr> to,
                                    const DimGroup &last) {
  for (size_t end = last.end + 1; end <= from.size(); ++end) {
    AffineExpr left = tn::elementCount(from[0].getContext(), from.slice(last.end, end - last.end));
    for (size_t stop = last.stop + 1; left && stop <= to.size(); ++stop) {
      AffineExpr right =
          tn::elementCount(to[0].getContext(), to.slice(last.stop, stop - last.stop));
      if (right && tn::sameDim(left, right)) {
        return DimGroup{last.end, end, last.stop, stop};
      }
    }
  }
  return std::nullopt;
}

/// The product of constant dims; 0 where one is free.
int64_t productOf(ArrayRef<AffineExpr> dims) {
  int64_t product = 1;
  for (AffineExpr dim : dims) {
    product *= tn::constantDim(dim).value_or(0);
  }
  return product;
}

} // namespace

std::optional<Cut> cutThroughReshape(ArrayRef<AffineExpr> from, ArrayRef<AffineExpr> to,
                                     const Cut &cut, int64_t ranks) {
  size_t dim = static_cast<size_t>(cut.dim);
  std::optional<DimGroup> group = DimGroup();
  while (group && group->end <= dim) {
    group = groupBehind(from, to, *group);
  }
  if (!group) {
    return std::nullopt;
  }
  // Dims of size 1 at the end belong to no group of their own.
  while (group->stop < to.size() && tn::constantDim(to[group->stop]) == 1) {
    ++group->stop;
  }
  int64_t before = productOf(from.slice(group->begin, dim - group->begin));
  int64_t behind = productOf(from.slice(dim + 1, group->end - dim - 1));
  int64_t repeat = cut.repeat * before;
  for (size_t other = group->start; other < group->stop && before * behind > 0; ++other) {
    int64_t outer = productOf(to.slice(group->start, other - group->start));
    int64_t inner = productOf(to.slice(other + 1, group->stop - other - 1));
    std::optional<int64_t> size = tn::constantDim(to[other]);
    if (outer == 0 || inner == 0 || !size || repeat % outer != 0) {
      continue;
    }
    Cut made{static_cast<int64_t>(other), repeat / outer, {}};
    bool isWhole = true;
    for (const Piece &piece : cut.pieces) {
      isWhole &= piece.size * behind % inner == 0;
      made.pieces.push_back({piece.size * behind / inner, piece.copies});
    }
    made = simplified(std::move(made));
    if (isWhole && made.size() == *size && made.sizeOfRank(ranks)) {
      return made;
    }
  }
  return std::nullopt;
}

bool hasRule(Operation *op) { return factorRuleOf(op) || headsOf(op) || isa<tn::ReshapeOp>(op); }

std::optional<Strategy> followCut(Operation *op, unsigned operand, const Cut &cut, int64_t ranks) {
  std::optional<Strategy> strategy;
  if (std::optional<Heads> heads = headsOf(op)) {
    strategy = followHeads(op, *heads, operand, cut, ranks);
  } else if (tn::ReshapeOp reshape = dyn_cast<tn::ReshapeOp>(op)) {
    std::optional<Cut> result = cutThroughReshape(tn::getDims(reshape.getX().getType()),
                                                  tn::getDims(reshape.getType()), cut, ranks);
    if (result) {
      strategy = Strategy{{State::split(cut)}, {State::split(*result)}};
    }
  } else if (std::optional<FactorRule> rule = factorRuleOf(op)) {
    strategy = followFactor(op, *rule, operand, cut);
    tn::SliceOp slice = dyn_cast<tn::SliceOp>(op);
    tn::ConcatOp concat = dyn_cast<tn::ConcatOp>(op);
    tn::GatherOp gather = dyn_cast<tn::GatherOp>(op);
    if (!strategy && slice) {
      strategy = followSlice(slice, cut);
    } else if (!strategy && concat) {
      strategy = followConcat(concat, operand, cut);
    } else if (!strategy && gather && operand == 0) {
      strategy = followTable(gather, cut);
    }
  }
  if (!strategy || !keepsGroups(op, cut, ranks)) {
    return std::nullopt;
  }
  // What does not divide, or has another size, is no cut.
  for (auto [value, state] : llvm::zip_equal(op->getOperands(), strategy->operands)) {
    if (!typeOfRank(value.getType(), state, ranks)) {
      return std::nullopt;
    }
  }
  for (auto [value, state] : llvm::zip_equal(op->getResults(), strategy->results)) {
    if (!typeOfRank(value.getType(), state, ranks)) {
      return std::nullopt;
    }
  }
  return strategy;
}

std::optional<Strategy> followPartial(Operation *op, unsigned operand) {
  Strategy strategy = replicatedStrategy(op);
  strategy.results.assign(op->getNumResults(), State::partial());
  Type element = cast<RankedTensorType>(op->getOperand(operand).getType()).getElementType();
  bool isFloats = isa<FloatType>(element);
  bool isLinear =
      llvm::TypeSwitch<Operation *, bool>(op)
          .Case<tn::NegOp, tn::ReshapeOp, tn::TransposeOp, tn::BroadcastOp, tn::SliceOp>(
              [](Operation *) { return true; })
          .Case([](tn::CastOp cast) {
            return isa<FloatType>(cast.getY().getType().getElementType());
          })
          .Case<tn::MulOp, tn::MatmulOp>([](Operation *) { return true; })
          .Case<tn::DivOp, tn::GatherOp>([&](Operation *) { return operand == 0; })
          .Case([](tn::ReduceOp reduce) {
            return reduce.getKind() == tn::ReduceKind::sum ||
                   reduce.getKind() == tn::ReduceKind::mean;
          })
          .Default([](Operation *) { return false; });
  bool isSum = isa<tn::AddOp, tn::SubOp, tn::ConcatOp>(op);
  if (!isFloats || (!isLinear && !isSum)) {
    return std::nullopt;
  }
  if (isSum) {
    strategy.operands.assign(op->getNumOperands(), State::partial());
  }
  strategy.operands[operand] = State::partial();
  return strategy;
}

} // namespace tenon::shard
