// Reads a function once; asks are found from the readers backwards. Relies on operations in the
// order in which they are computed.
#include "compiler/shard/Graph.h"

#include "compiler/graph/State.h"
#include "compiler/graph/TnRare.h"

using namespace mlir;

namespace tenon::shard {

Graph::Graph(ModuleOp module, const tn::WeightStore &store)
    : main(module.lookupSymbol<func::FuncOp>("main")), weights(store) {
  for (const tn::State &state : tn::statesOf(main)) {
    states[state.argument] = state.result;
    stateResults.insert(state.result);
  }
  for (Operation &op : main.getBody().front().without_terminator()) {
    bool isConstantOp =
        llvm::all_of(op.getOperands(), [&](Value each) { return isConstant(each); });
    if (!isConstantOp || op.getNumResults() == 0 || isa<tn::SizesOp>(op)) {
      ops.push_back(&op);
      continue;
    }
    SmallVector<tn::WeightOp, 1> behind;
    if (tn::WeightOp weight = dyn_cast<tn::WeightOp>(op)) {
      behind.push_back(weight);
    }
    for (Value operand : op.getOperands()) {
      behind.append(roots[operand].begin(), roots[operand].end());
    }
    for (Value result : op.getResults()) {
      constants.insert(result);
      roots[result] = behind;
    }
  }
}

std::optional<unsigned> Graph::stateResult(Value argument) const {
  auto found = states.find(argument);
  return found == states.end() ? std::nullopt : std::optional(found->second);
}

ArrayRef<tn::WeightOp> Graph::weightsOf(Value constant) const {
  auto found = roots.find(constant);
  return found == roots.end() ? ArrayRef<tn::WeightOp>() : ArrayRef(found->second);
}

std::optional<unsigned> Graph::matrixOf(Operation *op) const {
  if (tn::GatherOp gather = dyn_cast<tn::GatherOp>(op)) {
    bool isTable = isConstant(gather.getX()) && gather.getX().getType().getRank() > 1 &&
                   !weightsOf(gather.getX()).empty();
    return isTable ? std::optional(0U) : std::nullopt;
  }
  if (!isa<tn::MatmulOp, tn::ConvOp>(op)) {
    return std::nullopt;
  }
  for (unsigned index : {1U, 0U}) {
    if (isConstant(op->getOperand(index)) && !weightsOf(op->getOperand(index)).empty()) {
      return index;
    }
  }
  return std::nullopt;
}

//===--- What readers ask for ---===//

std::optional<Cut> Graph::askedCut(Value value, int64_t dim, int64_t ranks) const {
  return asked(value, dim, ranks, askedOfRanks[ranks]);
}

/// Pieces between the borders of the slices that are taken along the dim.
std::optional<Cut> Graph::askedBySlices(Value value, int64_t dim, int64_t ranks,
                                        Asked &known) const {
  std::optional<int64_t> size = tn::constantDim(tn::getDims(value.getType())[dim]);
  struct Range {
    int64_t first, end;
    std::optional<Cut> cut;
  };
  SmallVector<Range> ranges;
  SmallVector<int64_t> borders;
  for (Operation *user : value.getUsers()) {
    tn::SliceOp slice = dyn_cast<tn::SliceOp>(user);
    std::optional<int64_t> first, count;
    if (slice && slice.getSteps()[dim] == 1) {
      first = tn::constantDim(slice.getStarts().getResult(dim));
      count = tn::constantDim(tn::getDims(slice.getY().getType())[dim]);
    }
    if (!first || !count || *count == *size) {
      continue;
    }
    ranges.push_back({*first, *first + *count, asked(slice.getY(), dim, ranks, known)});
    borders.append({*first, *first + *count});
  }
  if (ranges.empty()) {
    return std::nullopt;
  }
  borders.append({0, *size});
  llvm::sort(borders);
  borders.erase(std::unique(borders.begin(), borders.end()), borders.end());
  Cut cut{dim, 1, {}};
  for (size_t i = 0; i + 1 < borders.size(); ++i) {
    const Range *range = llvm::find_if(ranges, [&](const Range &each) {
      return each.first == borders[i] && each.end == borders[i + 1] && each.cut;
    });
    if (range == ranges.end()) {
      cut.pieces.push_back({borders[i + 1] - borders[i], 1});
      continue;
    }
    for (int64_t j = 0; j < range->cut->repeat; ++j) {
      cut.pieces.append(range->cut->pieces.begin(), range->cut->pieces.end());
    }
  }
  return simplified(cut);
}

std::optional<Cut> Graph::askedBy(OpOperand &use, int64_t dim, int64_t ranks, Asked &known) const {
  Operation *op = use.getOwner();
  unsigned index = use.getOperandNumber();
  if (std::optional<Heads> heads = headsOf(op)) {
    if (llvm::is_contained(heads->queries, std::pair(index, dim))) {
      return Cut::plain(dim, heads->count);
    }
    std::optional<State> state = keyState(*heads, dim, ranks);
    bool isKey = llvm::is_contained(heads->keys, std::pair(index, dim));
    return isKey && state && state->isSplit() ? std::optional(state->cut) : std::nullopt;
  }
  if (tn::ReshapeOp reshape = dyn_cast<tn::ReshapeOp>(op)) {
    tn::Dims from = tn::getDims(reshape.getX().getType()), to = tn::getDims(reshape.getType());
    for (int64_t other = 0; other < static_cast<int64_t>(to.size()); ++other) {
      std::optional<int64_t> size = tn::constantDim(to[other]);
      std::optional<Cut> cut =
          size && *size > 1 ? asked(reshape.getY(), other, ranks, known) : std::nullopt;
      std::optional<Cut> back = cut ? cutThroughReshape(to, from, *cut, ranks) : std::nullopt;
      if (back && back->dim == dim) {
        return back;
      }
    }
    return std::nullopt;
  }
  std::optional<FactorRule> rule = factorRuleOf(op);
  int64_t factor = rule ? rule->operands[index][dim] : FactorRule::kNone;
  if (factor == FactorRule::kNone) {
    return std::nullopt;
  }
  // The heads of attention that is written out.
  bool isBatch = isa<tn::MatmulOp>(op) && !matrixOf(op) && dim > 0 &&
                 dim + 2 < cast<RankedTensorType>(op->getOperand(index).getType()).getRank();
  if (isBatch) {
    return Cut::plain(dim, *tn::constantDim(tn::getDims(use.get().getType())[dim]));
  }
  const int64_t *found = llvm::find(rule->results[0], factor);
  if (found == rule->results[0].end()) {
    return std::nullopt;
  }
  std::optional<Cut> cut = asked(op->getResult(0), found - rule->results[0].begin(), ranks, known);
  return cut ? std::optional(cut->along(dim)) : std::nullopt;
}

std::optional<Cut> Graph::asked(Value value, int64_t dim, int64_t ranks, Asked &known) const {
  if (!tn::constantDim(tn::getDims(value.getType())[dim])) {
    return std::nullopt;
  }
  auto [found, isNew] = known.try_emplace({value, dim}, std::nullopt);
  if (!isNew) {
    return found->second;
  }
  std::optional<Cut> cut = askedBySlices(value, dim, ranks, known);
  for (OpOperand &use : value.getUses()) {
    if (!cut) {
      cut = askedBy(use, dim, ranks, known);
    }
  }
  if (cut && !cut->sizeOfRank(ranks)) {
    cut = std::nullopt;
  }
  known[{value, dim}] = cut;
  return cut;
}

SmallVector<std::pair<unsigned, Cut>> Graph::originsOf(Operation *op, int64_t ranks) const {
  SmallVector<std::pair<unsigned, Cut>> origins;
  auto add = [&](unsigned operand, Cut cut) {
    if (cut.sizeOfRank(ranks) && !llvm::is_contained(origins, std::pair(operand, cut))) {
      origins.emplace_back(operand, std::move(cut));
    }
  };
  if (std::optional<Heads> heads = headsOf(op)) {
    auto [operand, dim] = heads->queries.front();
    add(operand, Cut::plain(dim, heads->count));
    return origins;
  }
  std::optional<FactorRule> rule = factorRuleOf(op);
  std::optional<unsigned> matrix = matrixOf(op);
  if (!rule || !matrix) {
    return origins;
  }
  tn::Dims dims = tn::getDims(op->getOperand(*matrix).getType());
  for (auto [dim, size] : llvm::enumerate(dims)) {
    std::optional<int64_t> constant = tn::constantDim(size);
    if (!constant || *constant == 1) {
      continue;
    }
    int64_t factor = rule->operands[*matrix][dim], own = static_cast<int64_t>(dim);
    const int64_t *found = llvm::find(rule->results[0], factor);
    if (factor != FactorRule::kNone && found != rule->results[0].end()) {
      std::optional<Cut> asks = askedCut(op->getResult(0), found - rule->results[0].begin(), ranks);
      if (asks && asks->size() == *constant) {
        add(*matrix, asks->along(own));
      }
    }
    add(*matrix, Cut::plain(own, *constant));
  }
  return origins;
}

std::string foldedName(StringRef name) {
  std::string folded;
  for (size_t i = 0; i < name.size();) {
    bool isStart = i == 0 || name[i - 1] == '.' || name[i - 1] == '/' || name[i - 1] == '_';
    size_t end = std::min(name.find_first_not_of("0123456789", i), name.size());
    bool isEnd = end == name.size() || name[end] == '.' || name[end] == '/' || name[end] == '_';
    if (end > i && isStart && isEnd) {
      folded += '*';
      i = end;
    } else {
      folded += name[i++];
    }
  }
  return folded;
}

} // namespace tenon::shard
