// The table of factor rules, one function a kind of operation. Relies on the verifier for ranks and
// attributes.
#include "compiler/graph/TnRare.h"
#include "compiler/shard/Rules.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace tenon::shard {
namespace {

using Kind = FactorRule::Kind;
constexpr int64_t kNone = FactorRule::kNone;

int64_t rankOf(Value value) { return cast<RankedTensorType>(value.getType()).getRank(); }

bool isOne(Value value, int64_t dim) {
  return tn::constantDim(tn::getDims(value.getType())[dim]) == 1;
}

/// Builds a rule: all dims are kNone until a factor goes along them.
class Builder {
public:
  explicit Builder(Operation *owner) : op(owner) {
    for (Value operand : op->getOperands()) {
      RankedTensorType type = dyn_cast<RankedTensorType>(operand.getType());
      rule.operands.emplace_back(type ? type.getRank() : 0, kNone);
    }
    for (Value result : op->getResults()) {
      RankedTensorType type = dyn_cast<RankedTensorType>(result.getType());
      rule.results.emplace_back(type ? type.getRank() : 0, kNone);
    }
  }

  /// A factor along these dims of operands; `results` is the dim of every result.
  void add(Kind kind, ArrayRef<std::pair<unsigned, int64_t>> operands,
           std::optional<int64_t> results) {
    int64_t factor = static_cast<int64_t>(rule.factors.size());
    rule.factors.push_back(kind);
    for (auto [operand, dim] : operands) {
      rule.operands[operand][dim] = factor;
    }
    for (SmallVector<int64_t> &dims : rule.results) {
      if (results) {
        dims[*results] = factor;
      }
    }
  }
  void parallel(ArrayRef<std::pair<unsigned, int64_t>> operands, int64_t result) {
    add(Kind::Parallel, operands, result);
  }

  FactorRule rule;

private:
  Operation *op;
};

/// A factor for each dim of the result; operands are aligned at the last dim.
FactorRule broadcasting(Operation *op) {
  Builder made(op);
  int64_t rank = rankOf(op->getResult(0));
  for (int64_t dim = 0; dim < rank; ++dim) {
    SmallVector<std::pair<unsigned, int64_t>> along;
    for (auto [index, operand] : llvm::enumerate(op->getOperands())) {
      int64_t own = dim - rank + rankOf(operand);
      if (own >= 0 && (!isOne(operand, own) || isOne(op->getResult(0), dim))) {
        along.emplace_back(index, own);
      }
    }
    made.parallel(along, dim);
  }
  return made.rule;
}

/// Dims of operand 0 for which `isCut` holds go to the same dims of all results; `others` are
/// operands of the same shape.
FactorRule sameDims(Operation *op, function_ref<bool(int64_t)> isCut,
                    ArrayRef<unsigned> others = {}) {
  Builder made(op);
  for (int64_t dim = 0; dim < rankOf(op->getOperand(0)); ++dim) {
    if (isCut(dim)) {
      SmallVector<std::pair<unsigned, int64_t>> along = {{0, dim}};
      for (unsigned other : others) {
        along.emplace_back(other, dim);
      }
      made.parallel(along, dim);
    }
  }
  return made.rule;
}

FactorRule ofMatmul(tn::MatmulOp op) {
  Builder made(op);
  int64_t rank = rankOf(op.getY()), a = rankOf(op.getA()), b = rankOf(op.getB());
  for (int64_t dim = 0; dim < rank - 2; ++dim) {
    SmallVector<std::pair<unsigned, int64_t>> along;
    for (auto [index, operand] : llvm::enumerate(op->getOperands())) {
      int64_t own = dim - rank + rankOf(operand);
      if (own >= 0 && (!isOne(operand, own) || isOne(op.getY(), dim))) {
        along.emplace_back(index, own);
      }
    }
    made.parallel(along, dim);
  }
  bool isA = op.getTransposeA(), isB = op.getTransposeB();
  made.parallel({{0, a - (isA ? 1 : 2)}}, rank - 2);
  made.parallel({{1, b - (isB ? 2 : 1)}}, rank - 1);
  made.add(Kind::Reduction, {{0, a - (isA ? 2 : 1)}, {1, b - (isB ? 1 : 2)}}, std::nullopt);
  return made.rule;
}

FactorRule ofConv(tn::ConvOp op) {
  Builder made(op);
  int64_t channel = op.getChannelsLast() ? rankOf(op.getX()) - 1 : 1;
  made.parallel({{0, 0}}, 0);
  SmallVector<std::pair<unsigned, int64_t>> outputs = {{1, 0}};
  if (op.getBias()) {
    outputs.emplace_back(2, 0);
  }
  if (op.getGroups() == 1) {
    made.parallel(outputs, channel);
    made.add(Kind::Reduction, {{0, channel}, {1, 1}}, std::nullopt);
    return made.rule;
  }
  // Whole groups of channels, where both sides have the same number.
  tn::Dims x = tn::getDims(op.getX().getType()), y = tn::getDims(op.getY().getType());
  if (tn::sameDim(x[channel], y[channel])) {
    outputs.emplace_back(0, channel);
    made.parallel(outputs, channel);
  }
  return made.rule;
}

FactorRule ofReduce(Operation *op, ArrayRef<int64_t> axes, bool keepsDims, bool isSum) {
  Builder made(op);
  int64_t result = 0;
  for (int64_t dim = 0; dim < rankOf(op->getOperand(0)); ++dim) {
    bool isReduced = llvm::is_contained(axes, dim);
    if (!isReduced) {
      made.parallel({{0, dim}}, result);
    } else if (isSum) {
      made.add(Kind::Reduction, {{0, dim}}, std::nullopt);
    }
    result += !isReduced || keepsDims ? 1 : 0;
  }
  return made.rule;
}

FactorRule ofTranspose(tn::TransposeOp op) {
  Builder made(op);
  for (auto [result, dim] : llvm::enumerate(op.getPermutation())) {
    made.parallel({{0, dim}}, static_cast<int64_t>(result));
  }
  return made.rule;
}

/// The dims that are taken whole.
FactorRule ofSlice(tn::SliceOp op) {
  tn::Dims x = tn::getDims(op.getX().getType()), y = tn::getDims(op.getY().getType());
  return sameDims(
      op, [&](int64_t dim) { return op.getSteps()[dim] == 1 && tn::sameDim(x[dim], y[dim]); });
}

FactorRule ofConcat(tn::ConcatOp op) {
  SmallVector<unsigned> others;
  for (unsigned i = 1; i < op->getNumOperands(); ++i) {
    others.push_back(i);
  }
  return sameDims(
      op, [&](int64_t dim) { return dim != static_cast<int64_t>(op.getAxis()); }, others);
}

FactorRule ofGather(tn::GatherOp op) {
  Builder made(op);
  int64_t axis = op.getAxis(), indices = rankOf(op.getIndices());
  for (int64_t dim = 0; dim < rankOf(op.getX()); ++dim) {
    if (dim != axis) {
      made.parallel({{0, dim}}, dim < axis ? dim : dim + indices - 1);
    }
  }
  for (int64_t dim = 0; dim < indices; ++dim) {
    made.parallel({{1, dim}}, axis + dim);
  }
  return made.rule;
}

/// The dims behind those that an index tuple names.
FactorRule ofScatterNd(tn::ScatterNdOp op) {
  Builder made(op);
  int64_t indices = rankOf(op.getIndices());
  std::optional<int64_t> depth =
      tn::constantDim(tn::getDims(op.getIndices().getType())[indices - 1]);
  for (int64_t dim = depth.value_or(rankOf(op.getX())); dim < rankOf(op.getX()); ++dim) {
    made.parallel({{0, dim}, {2, dim - *depth + indices - 1}}, dim);
  }
  return made.rule;
}

FactorRule ofQuantized(Operation *op, int64_t axis) {
  Builder made(op);
  for (int64_t dim = 0; dim < rankOf(op->getOperand(0)); ++dim) {
    SmallVector<std::pair<unsigned, int64_t>> along = {{0, dim}};
    for (unsigned other : {1U, 2U}) {
      if (dim == axis && rankOf(op->getOperand(other)) == 1 && !isOne(op->getOperand(other), 0)) {
        along.emplace_back(other, 0);
      }
    }
    made.parallel(along, dim);
  }
  return made.rule;
}

/// Channels with a number of each in the other operands.
FactorRule ofChannels(Operation *op, int64_t channel, bool isRest) {
  Builder made(op);
  for (int64_t dim = 0; dim < rankOf(op->getOperand(0)); ++dim) {
    SmallVector<std::pair<unsigned, int64_t>> along = {{0, dim}};
    for (unsigned i = 1; dim == channel && i < op->getNumOperands(); ++i) {
      along.emplace_back(i, 0);
    }
    if (dim == channel || dim == 0 || isRest) {
      made.parallel(along, dim);
    }
  }
  return made.rule;
}

FactorRule ofPool(Operation *op, bool isChannelsLast) {
  int64_t channel = isChannelsLast ? rankOf(op->getOperand(0)) - 1 : 1;
  return sameDims(op, [&](int64_t dim) { return dim == 0 || dim == channel; });
}

} // namespace

std::optional<FactorRule> factorRuleOf(Operation *op) {
  using Rule = std::optional<FactorRule>;
  bool isTensors = llvm::all_of(op->getOperandTypes(), llvm::IsaPred<RankedTensorType>) &&
                   llvm::all_of(op->getResultTypes(), llvm::IsaPred<RankedTensorType>);
  if (!isTensors || op->getNumResults() == 0) {
    return std::nullopt;
  }
  auto isOff = [](int64_t axis) { return [axis](int64_t dim) { return dim != axis; }; };
  auto isBefore = [](int64_t axis) { return [axis](int64_t dim) { return dim < axis; }; };
  return llvm::TypeSwitch<Operation *, Rule>(op)
      .Case([](tn::MatmulOp each) { return ofMatmul(each); })
      .Case([](tn::ConvOp each) { return ofConv(each); })
      .Case([](tn::TransposeOp each) { return ofTranspose(each); })
      .Case([](tn::BroadcastOp each) { return broadcasting(each); })
      .Case([](tn::SliceOp each) { return ofSlice(each); })
      .Case([](tn::ConcatOp each) { return ofConcat(each); })
      .Case([](tn::GatherOp each) { return ofGather(each); })
      .Case([](tn::ScatterNdOp each) { return ofScatterNd(each); })
      .Case([](tn::PagedWriteOp each) {
        Builder made(each);
        made.parallel({{0, 1}, {1, 1}}, 1);
        return made.rule;
      })
      .Case([](tn::ReduceOp each) {
        return ofReduce(each, each.getAxes(), each.getKeepdims(),
                        each.getKind() == tn::ReduceKind::sum);
      })
      .Case([](tn::ArgReduceOp each) {
        int64_t axis = each.getAxis();
        return ofReduce(each, axis, each.getKeepdims(), false);
      })
      .Case<tn::SoftmaxOp, tn::CumsumOp, tn::TopKOp>(
          [&](auto each) { return sameDims(each, isOff(each.getAxis())); })
      .Case<tn::LayerNormOp, tn::RmsNormOp>(
          [&](auto each) { return sameDims(each, isBefore(each.getAxis())); })
      .Case([&](tn::GatherElementsOp each) { return sameDims(each, isOff(each.getAxis()), 1U); })
      .Case([&](tn::TriluOp each) { return sameDims(each, isBefore(rankOf(each.getY()) - 2)); })
      .Case([](tn::PadOp each) {
        return sameDims(each, [&](int64_t dim) {
          return each.getBegins()[dim] == 0 && each.getEnds()[dim] == 0;
        });
      })
      .Case([](tn::ResizeOp each) {
        return sameDims(each, [&](int64_t dim) { return each.getScales()[dim] == 1; });
      })
      .Case([](tn::BatchNormOp each) {
        int64_t channel = each.getChannelsLast() ? rankOf(each.getX()) - 1 : 1;
        return ofChannels(each, channel, true);
      })
      .Case([](tn::GroupNormOp each) { return ofChannels(each, 1, false); })
      .Case<tn::MaxPoolOp, tn::AvgPoolOp>(
          [](auto each) { return ofPool(each, each.getChannelsLast()); })
      .Case<tn::QuantizeOp, tn::DequantizeOp>(
          [](auto each) { return ofQuantized(each, each.getAxis()); })
      .Default([](Operation *other) {
        bool isElementwise = other->hasTrait<tn::TnElementwise>() && other->getNumOperands() > 0;
        return isElementwise ? Rule(broadcasting(other)) : std::nullopt;
      });
}

} // namespace tenon::shard
