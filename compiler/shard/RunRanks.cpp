// Ranks go in step, so that a collective has what all of them gave. Relies on one graph for all.
#include "compiler/shard/RunRanks.h"

#include "compiler/graph/TnShard.h"
#include "support/text/Text.h"

#include <cmath>
#include <cstring>

using namespace mlir;

namespace tenon::shard {
namespace {

using reference::Tensor;

/// Calls `move(whole, part, bytes)` with offsets in bytes for each stretch of a rank.
void eachStretch(ArrayRef<int64_t> whole, const Cut &cut, int64_t ranks, int64_t rank,
                 int64_t elementBytes, function_ref<void(int64_t, int64_t, int64_t)> move) {
  int64_t outer = 1, inner = elementBytes;
  for (auto [dim, size] : llvm::enumerate(whole)) {
    outer *= static_cast<int64_t>(dim) < cut.dim ? size : 1;
    inner *= static_cast<int64_t>(dim) > cut.dim ? size : 1;
  }
  int64_t part = 0;
  for (int64_t i = 0; i < outer; ++i) {
    for (const Chunk &chunk : chunksOf(cut, ranks, rank)) {
      move((i * whole[cut.dim] + chunk.first) * inner, part, chunk.count * inner);
      part += chunk.count * inner;
    }
  }
}

int64_t elementBytes(const Tensor &tensor) { return bitWidth(tensor.dtype()) / 8; }

Result<Tensor> partOf(const Tensor &whole, const Cut &cut, int64_t ranks, int64_t rank) {
  SmallVector<int64_t> dims(whole.dims());
  std::optional<int64_t> size = cut.sizeOfRank(ranks);
  if (!size || cut.size() != dims[cut.dim]) {
    return reference::badOperand("a cut does not fit its value");
  }
  dims[cut.dim] = *size;
  TENON_ASSIGN(Tensor part, Tensor::create(whole.dtype(), dims));
  eachStretch(whole.dims(), cut, ranks, rank, elementBytes(whole),
              [&](int64_t from, int64_t to, int64_t bytes) {
                std::memcpy(part.mutableBytes() + to, whole.bytes() + from, bytes);
              });
  return part;
}

Result<Tensor> gathered(ArrayRef<Tensor> parts, const Cut &cut) {
  SmallVector<int64_t> dims(parts[0].dims());
  dims[cut.dim] = cut.size();
  TENON_ASSIGN(Tensor whole, Tensor::create(parts[0].dtype(), dims));
  int64_t ranks = static_cast<int64_t>(parts.size());
  for (auto [rank, part] : llvm::enumerate(parts)) {
    eachStretch(dims, cut, ranks, static_cast<int64_t>(rank), elementBytes(whole),
                [&](int64_t to, int64_t from, int64_t bytes) {
                  std::memcpy(whole.mutableBytes() + to, part.bytes() + from, bytes);
                });
  }
  return whole;
}

Result<Tensor> summed(ArrayRef<Tensor> parts) {
  TENON_ASSIGN(Tensor sum, Tensor::create(DType::F64, parts[0].dims()));
  for (const Tensor &part : parts) {
    TENON_ASSIGN(Tensor wide, reference::convert(part, DType::F64));
    for (int64_t i = 0; i < sum.count(); ++i) {
      sum.as<double>()[i] += wide.as<double>()[i];
    }
  }
  return reference::convert(sum, parts[0].dtype());
}

class Group {
public:
  Group(tn::WeightStore &weights, int64_t number)
      : ranks(number), interpreter(&weights, {reference::Precision::F64, 2}), values(number) {}

  Result<std::vector<std::vector<Tensor>>> run(func::FuncOp function,
                                               const std::vector<std::vector<Tensor>> &inputs);

private:
  Status step(Operation *op, MutableArrayRef<int64_t> symbols);
  std::vector<Tensor> onAll(Value value) const {
    std::vector<Tensor> all;
    for (const DenseMap<Value, Tensor> &own : values) {
      all.push_back(own.lookup(value));
    }
    return all;
  }
  Status define(Value value, Result<Tensor> tensor, int64_t rank) {
    TENON_TRY(tensor.isOk() ? Status::ok() : tensor.takeStatus());
    values[rank][value] = std::move(*tensor);
    return Status::ok();
  }

  int64_t ranks;
  reference::Interpreter interpreter;
  std::vector<DenseMap<Value, Tensor>> values;
};

Status Group::step(Operation *op, MutableArrayRef<int64_t> symbols) {
  tn::RankSliceOp slice = dyn_cast<tn::RankSliceOp>(op);
  tn::AllGatherOp gather = dyn_cast<tn::AllGatherOp>(op);
  tn::AllReduceOp reduce = dyn_cast<tn::AllReduceOp>(op);
  if (slice) {
    for (int64_t rank = 0; rank < ranks; ++rank) {
      int64_t part = slice.getPart() ? static_cast<int64_t>(*slice.getPart()) : rank;
      TENON_TRY(define(slice,
                       partOf(values[rank].lookup(slice.getX()), cutOf(slice),
                              static_cast<int64_t>(slice.getRanks()), part),
                       rank));
    }
    return Status::ok();
  }
  if (gather || reduce) {
    std::vector<Tensor> parts = onAll(op->getOperand(0));
    TENON_ASSIGN(Tensor all, gather ? gathered(parts, cutOf(gather)) : summed(parts));
    for (int64_t rank = 0; rank < ranks; ++rank) {
      values[rank][op->getResult(0)] = all;
    }
    return Status::ok();
  }
  std::vector<Tensor> results, last;
  for (int64_t rank = 0; rank < ranks; ++rank) {
    std::vector<Tensor> operands;
    for (Value operand : op->getOperands()) {
      operands.push_back(values[rank].lookup(operand));
    }
    // What all ranks compute alike is computed once.
    bool isSame = rank > 0 && llvm::all_of(llvm::zip_equal(operands, last), [](const auto &both) {
                    return std::get<0>(both).bytes() == std::get<1>(both).bytes();
                  });
    if (!isSame) {
      Result<std::vector<Tensor>> made = interpreter.evaluateOp(op, operands, symbols);
      TENON_TRY(made.isOk() ? Status::ok() : made.takeStatus());
      results = std::move(*made);
    }
    last = std::move(operands);
    for (auto [result, tensor] : llvm::zip_equal(op->getResults(), results)) {
      values[rank][result] = tensor;
    }
  }
  for (auto [result, tensor] : llvm::zip_equal(op->getResults(), results)) {
    for (auto [dim, size] : llvm::zip(tn::getDims(result.getType()), tensor.dims())) {
      AffineSymbolExpr symbol = dyn_cast_or_null<AffineSymbolExpr>(dim);
      if (symbol && symbols[symbol.getPosition()] == reference::kUndecided) {
        symbols[symbol.getPosition()] = size;
      }
    }
  }
  return Status::ok();
}

Result<std::vector<std::vector<Tensor>>>
Group::run(func::FuncOp function, const std::vector<std::vector<Tensor>> &inputs) {
  TENON_ASSIGN(SmallVector<int64_t> symbols, reference::bindSymbols(function, inputs[0]));
  for (int64_t rank = 0; rank < ranks; ++rank) {
    for (auto [argument, input] : llvm::zip_equal(function.getArguments(), inputs[rank])) {
      bool isFloats = reference::isFloat(input.dtype());
      TENON_TRY(
          define(argument, reference::convert(input, isFloats ? DType::F64 : input.dtype()), rank));
      // One tensor for what all have alike.
      if (rank > 0 && input.bytes() == inputs[0][argument.getArgNumber()].bytes()) {
        values[rank][argument] = values[0].lookup(argument);
      }
    }
  }
  DenseMap<Value, unsigned> uses;
  for (Operation &op : function.getBody().front().without_terminator()) {
    Status status = step(&op, symbols);
    if (!status) {
      return status.prefix(op.getName().getStringRef().str());
    }
    for (Value operand : op.getOperands()) {
      // Freed after its last use.
      if (++uses[operand] == std::distance(operand.use_begin(), operand.use_end())) {
        for (DenseMap<Value, Tensor> &own : values) {
          own.erase(operand);
        }
      }
    }
  }
  std::vector<std::vector<Tensor>> results(ranks);
  for (Value result : function.getBody().front().getTerminator()->getOperands()) {
    for (int64_t rank = 0; rank < ranks; ++rank) {
      results[rank].push_back(values[rank].lookup(result));
    }
  }
  return results;
}

/// The largest difference, relative to the largest element.
double differenceOf(const Tensor &expected, const Tensor &actual) {
  if (expected.dims() != actual.dims() || expected.dtype() != actual.dtype()) {
    return std::numeric_limits<double>::infinity();
  }
  Result<Tensor> left = reference::convert(expected, DType::F64);
  Result<Tensor> right = reference::convert(actual, DType::F64);
  if (!left || !right) {
    return std::numeric_limits<double>::infinity();
  }
  double most = 0, largest = 0;
  for (int64_t i = 0; i < left->count(); ++i) {
    double a = left->as<double>()[i], b = right->as<double>()[i];
    bool isAlike = a == b || (std::isnan(a) && std::isnan(b));
    most = std::max(most, isAlike ? 0 : std::abs(a - b));
    most = !isAlike && !std::isfinite(a - b) ? std::numeric_limits<double>::infinity() : most;
    largest = std::isfinite(a) ? std::max(largest, std::abs(a)) : largest;
  }
  return most == 0 ? 0 : most / std::max(largest, 1e-30);
}

} // namespace

Result<std::vector<std::vector<Tensor>>> runRanks(ModuleOp cut, tn::WeightStore &weights,
                                                  const std::vector<std::vector<Tensor>> &inputs,
                                                  int64_t ranks) {
  return Group(weights, ranks).run(cut.lookupSymbol<func::FuncOp>("main"), inputs);
}

Result<RankCheck> checkRanks(ModuleOp module, ModuleOp cut, const Graph &graph, const Plan &plan,
                             tn::WeightStore &weights, const std::vector<Tensor> &inputs) {
  func::FuncOp function = module.lookupSymbol<func::FuncOp>("main");
  reference::Interpreter one(&weights, {reference::Precision::F64, 2});
  TENON_ASSIGN(std::vector<Tensor> expected, one.evaluate(function, inputs));
  std::vector<std::vector<Tensor>> given(plan.ranks);
  for (int64_t rank = 0; rank < plan.ranks; ++rank) {
    for (auto [argument, input] : llvm::zip_equal(function.getArguments(), inputs)) {
      State state = graph.isState(argument) ? plan.states.lookup(argument) : State();
      Result<Tensor> part =
          state.isSplit() ? partOf(input, state.cut, plan.ranks, rank) : Result<Tensor>(input);
      TENON_TRY(part.isOk() ? Status::ok() : part.takeStatus());
      given[rank].push_back(std::move(*part));
    }
  }
  TENON_ASSIGN(std::vector<std::vector<Tensor>> results, runRanks(cut, weights, given, plan.ranks));
  RankCheck check;
  cut.walk([&](Operation *op) { check.collectives += isa<tn::AllReduceOp, tn::AllGatherOp>(op); });
  auto note = [&](size_t index, const Tensor &actual) {
    double difference = differenceOf(expected[index], actual);
    if (difference > check.difference || check.output.empty()) {
      StringAttr name = function.getResultAttrOfType<StringAttr>(index, "tn.name");
      check.output = name ? name.str() : strCat("output ", index);
      check.difference = std::max(check.difference, difference);
    }
  };
  for (size_t index = 0; index < expected.size(); ++index) {
    State state;
    for (BlockArgument argument : function.getArguments()) {
      bool isOwn = graph.stateResult(argument) == static_cast<unsigned>(index);
      state = isOwn ? plan.states.lookup(argument) : state;
    }
    std::vector<Tensor> parts;
    for (const std::vector<Tensor> &own : results) {
      parts.push_back(own[index]);
    }
    if (state.isSplit()) {
      TENON_ASSIGN(Tensor whole, gathered(parts, state.cut));
      note(index, whole);
      continue;
    }
    for (const Tensor &part : parts) {
      note(index, part);
    }
  }
  return check;
}

} // namespace tenon::shard
