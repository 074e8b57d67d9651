// Evaluates operations on constants through the reference, as patterns of `simplify`.
// Relies on the interpreter being the truth; an evaluation that fails leaves the operation to run
// time.
#include "compiler/opt/Match.h"
#include "compiler/opt/Passes.h"
#include "compiler/opt/Patterns.h"
#include "compiler/reference/Interpreter.h"

#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;

namespace tenon::opt {
namespace {

constexpr llvm::StringLiteral kPass = "fold-constants";

/// A folded result may be larger than what it was made from only up to this, but for quantized
/// weights.
constexpr int64_t kGrowthBytes = 64 << 10;
/// Products of larger constants are left to run time: models have none, hostile files may.
constexpr int64_t kProductBytes = 1 << 20;

int64_t byteCount(Type type) {
  RankedTensorType tensor = cast<RankedTensorType>(type);
  return tensor.getNumElements() * elementBytes(tensor.getElementType());
}

/// A transposed weight that only products read: they take it as it is (FoldTransposes.cpp).
bool isTransposeForProducts(Operation *op) {
  tn::TransposeOp transposed = dyn_cast<tn::TransposeOp>(op);
  return transposed && transposed.getX().getDefiningOp<tn::WeightOp>() &&
         transposed.getPermutation() ==
             ArrayRef<int64_t>(swapLast(transposed.getType().getRank())) &&
         llvm::all_of(transposed->getUsers(), llvm::IsaPred<tn::MatmulOp>);
}

/// Quantized weights on their way into a product: worth their size, as the kernel would else take
/// them apart in each run and could not have them packed.
bool widensQuantized(Operation *op) {
  Type from = op->getNumOperands() > 0 ? getElementTypeOrSelf(op->getOperand(0)) : Type();
  return isa<tn::DequantizeOp, tn::CastOp>(op) && from.isInteger(8);
}

/// All operands are constants, and the results do not weigh much more.
bool isWorthFolding(Operation *op) {
  if (op->getNumResults() == 0 || op->getNumRegions() != 0 || !isPure(op) ||
      isa<tn::ConstantOp, tn::WeightOp, tn::SizesOp, tn::PackOp, tn::UnpackOp>(op) ||
      !isa<tn::TnDialect>(op->getDialect()) || isTransposeForProducts(op)) {
    return false;
  }
  int64_t before = 0;
  for (Value operand : op->getOperands()) {
    if (!Constants::isConstant(operand)) {
      return false;
    }
    before += byteCount(operand.getType());
  }
  int64_t after = 0;
  for (Type type : op->getResultTypes()) {
    RankedTensorType tensor = dyn_cast<RankedTensorType>(type);
    if (!tensor || !tensor.hasStaticShape() || elementBytes(tensor.getElementType()) == 0) {
      return false;
    }
    after += byteCount(type);
  }
  bool isProduct = op->hasTrait<tn::TnContraction>();
  return (after <= std::max(before, kGrowthBytes) || widensQuantized(op)) &&
         (!isProduct || before <= kProductBytes);
}

/// The name of the first weight among the operands, so that dumps show what a constant came from.
std::string nameOf(Operation *op) {
  for (Value operand : op->getOperands()) {
    if (tn::WeightOp weight = operand.getDefiningOp<tn::WeightOp>()) {
      return (weight.getId() + "." + op->getName().stripDialect()).str();
    }
  }
  return op->getName().stripDialect().str();
}

struct FoldPattern : RewritePattern {
  FoldPattern(MLIRContext *context, tn::WeightStore &weights)
      : RewritePattern(MatchAnyOpTypeTag(), /*benefit=*/1, context), constants(weights) {}

  LogicalResult matchAndRewrite(Operation *op, PatternRewriter &rewriter) const override {
    if (!isWorthFolding(op)) {
      return failure();
    }
    SmallVector<reference::Tensor> operands;
    for (Value operand : op->getOperands()) {
      RankedTensorType type = tensorType(operand);
      std::optional<DType> dtype = reference::dtypeOf(type.getElementType());
      std::vector<char> bytes = constants.bytes(operand);
      if (!dtype || static_cast<int64_t>(bytes.size()) != byteCount(type)) {
        return failure();
      }
      Result<reference::Tensor> tensor = reference::Tensor::copy(*dtype, type.getShape(), bytes);
      if (!tensor) {
        return failure();
      }
      operands.push_back(std::move(*tensor));
    }
    reference::InterpreterOptions options;
    options.threads = 1;
    reference::Interpreter interpreter(&constants.weights, options);
    Result<std::vector<reference::Tensor>> results = interpreter.evaluateOp(op, operands);
    if (!results || results->size() != op->getNumResults()) {
      return failure();
    }
    SmallVector<Value> values;
    for (auto [result, tensor] : llvm::zip_equal(op->getResults(), *results)) {
      std::vector<char> bytes(tensor.bytes(), tensor.bytes() + tensor.byteCount());
      values.push_back(constants.make(rewriter, op->getLoc(), tensorType(result), std::move(bytes),
                                      nameOf(op), kPass));
    }
    rewriter.replaceOp(op, values);
    return success();
  }

private:
  Constants constants;
};

/// tn.sizes without symbols -> a constant
struct FoldSizes : Pattern<tn::SizesOp> {
  using Pattern::Pattern;
  LogicalResult matchAndRewrite(tn::SizesOp op, PatternRewriter &rewriter) const override {
    RankedTensorType type = tensorType(op.getResult());
    SmallVector<APInt> values;
    for (AffineExpr size : op.getValues().getResults()) {
      std::optional<int64_t> constant = tn::constantDim(size);
      if (!constant) {
        return failure();
      }
      values.emplace_back(type.getElementTypeBitWidth(), *constant, /*isSigned=*/true,
                          /*implicitTrunc=*/true);
    }
    rewriter.replaceOpWithNewOp<tn::ConstantOp>(op, type, DenseElementsAttr::get(type, values));
    return success();
  }
};

} // namespace

void addConstantPatterns(RewritePatternSet &patterns, tn::WeightStore &weights) {
  patterns.add<FoldPattern, FoldSizes>(patterns.getContext(), weights);
}

LogicalResult foldConstants(ModuleOp module, tn::WeightStore &weights) {
  RewritePatternSet patterns(module.getContext());
  addConstantPatterns(patterns, weights);
  return runPatterns(module, std::move(patterns));
}

} // namespace tenon::opt
