// Elementwise operations from one tensor of 8-bit numbers to another become a table of 256 entries,
// which the reference interpreter makes while constants are folded: activations of quantized models
// are such, with every step of theirs quantized. Relies on gather counting negative indices from
// the end, where the table has the entries of negative numbers.
#include "compiler/opt/Match.h"
#include "compiler/opt/Passes.h"
#include "compiler/opt/Patterns.h"
#include "compiler/opt/precision/IntegerOperands.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;

namespace tenon::opt {
namespace {

constexpr int64_t kEntries = 256;
/// Quantizations one behind the other that take longer than reading a table (1.0 and 0.53 ns an
/// element, a hard swish with AVX2).
constexpr int kSlowQuantizations = 2;

/// Operations that take longer than reading a table.
bool isSlow(Operation *op) {
  return isa<tn::ExpOp, tn::LogOp, tn::SinOp, tn::CosOp, tn::TanOp, tn::AsinOp, tn::AcosOp,
             tn::AtanOp, tn::SinhOp, tn::CoshOp, tn::TanhOp, tn::AsinhOp, tn::AcoshOp, tn::AtanhOp,
             tn::ErfOp, tn::SigmoidOp, tn::SiluOp, tn::GeluOp, tn::SoftplusOp, tn::EluOp,
             tn::PowOp>(op);
}

class Tabulation {
public:
  Tabulation(func::FuncOp function, tn::WeightStore &weights)
      : function(function), constants(weights), builder(function.getContext()) {}

  /// Whether there was anything to tabulate.
  bool run() {
    SmallVector<Value> ends;
    for (Operation &op : function.getBody().front()) {
      if (op.getNumResults() != 1 || !isa<RankedTensorType>(op.getResult(0).getType())) {
        continue;
      }
      if (std::optional<Chain> chain = chainOf(&op)) {
        Value result = op.getResult(0);
        chains[result] = *chain;
        if (isByte(getElementTypeOrSelf(result)) && chain->isWorthTable()) {
          ends.push_back(result);
        }
      }
    }
    for (Value end : ends) {
      end.replaceAllUsesWith(lookUp(end));
    }
    return !ends.empty();
  }

private:
  /// What a value is a function of, element by element.
  struct Chain {
    Value start; ///< 8-bit numbers of the value's shape
    bool isSlow = false;
    int quantizations = 0; ///< most on a way from there

    bool isWorthTable() const { return isSlow || quantizations >= kSlowQuantizations; }
  };

  static bool isStep(Operation *op) {
    bool isQuantization = isa<tn::QuantizeOp, tn::DequantizeOp>(op) && isPerTensor(op);
    return op->hasTrait<tn::TnElementwise>() || isQuantization;
  }

  std::optional<Chain> chainOf(Operation *op) const {
    if (!isStep(op)) {
      return std::nullopt;
    }
    Chain chain;
    chain.isSlow = isSlow(op);
    for (Value operand : op->getOperands()) {
      if (isScalar(operand)) {
        continue;
      }
      auto known = chains.find(operand);
      bool isStart = known == chains.end() && isByte(getElementTypeOrSelf(operand)) &&
                     !Constants::isConstant(operand);
      Value start = isStart ? operand : known != chains.end() ? known->second.start : Value();
      if (!start || (chain.start && chain.start != start) ||
          !sameShape(operand, op->getResult(0))) {
        return std::nullopt;
      }
      chain.start = start;
      if (!isStart) {
        chain.isSlow |= known->second.isSlow;
        chain.quantizations = std::max(chain.quantizations, known->second.quantizations);
      }
    }
    chain.quantizations += isa<tn::QuantizeOp>(op);
    return chain.start ? std::optional(chain) : std::nullopt;
  }

  /// One number for all elements, of a rank that no table lacks.
  static bool isScalar(Value value) {
    RankedTensorType type = tensorType(value);
    return Constants::isConstant(value) && type.getRank() <= 1 &&
           llvm::all_of(tn::getDims(type), isOne);
  }

  /// A copy of what makes `value`, of a tensor with one dim.
  Value copyOf(Value value, IRMapping &copies) {
    if (isScalar(value) || copies.contains(value)) {
      return copies.lookupOrDefault(value);
    }
    Operation *op = value.getDefiningOp();
    SmallVector<Value> operands;
    for (Value operand : op->getOperands()) {
      operands.push_back(copyOf(operand, copies));
    }
    RankedTensorType type =
        RankedTensorType::get({kEntries}, getElementTypeOrSelf(value.getType()));
    Value copy = rebuild(builder, op, operands, type)->getResult(0);
    copies.map(value, copy);
    return copy;
  }

  Value lookUp(Value end) {
    Value start = chains[end].start;
    builder.setInsertionPointAfterValue(end);
    Location location = end.getLoc();
    std::vector<char> all(kEntries);
    for (int64_t i = 0; i < kEntries; ++i) {
      all[i] = static_cast<char>(i);
    }
    RankedTensorType type = RankedTensorType::get({kEntries}, getElementTypeOrSelf(start));
    IRMapping copies;
    copies.map(start, tn::ConstantOp::create(
                          builder, location, type,
                          DenseElementsAttr::getFromRawBuffer(type, ArrayRef<char>(all))));
    Value table = copyOf(end, copies);
    Value indices = castTo(builder, location, start, builder.getI32Type());
    return tn::GatherOp::create(builder, location, end.getType(), table, indices, /*axis=*/0);
  }

  func::FuncOp function;
  Constants constants;
  OpBuilder builder;
  llvm::DenseMap<Value, Chain> chains;
};

} // namespace

LogicalResult tabulateChains(ModuleOp module, tn::WeightStore &weights) {
  bool hasTables = false;
  for (func::FuncOp function : module.getOps<func::FuncOp>()) {
    hasTables |= Tabulation(function, weights).run();
  }
  if (!hasTables) {
    return success();
  }
  RewritePatternSet constants(module.getContext());
  addConstantPatterns(constants, weights, QuantizedWeights::Keep);
  return runPatterns(module, std::move(constants));
}

} // namespace tenon::opt
