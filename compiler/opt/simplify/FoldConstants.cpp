// Evaluates operations on constants through the reference, as patterns of `simplify`.
// Relies on the interpreter being the truth; an evaluation that fails leaves the operation to run
// time.
#include "compiler/graph/Flops.h"
#include "compiler/graph/TnCustom.h"
#include "compiler/graph/TnRare.h"
#include "compiler/opt/Match.h"
#include "compiler/opt/Passes.h"
#include "compiler/opt/Patterns.h"
#include "compiler/reference/Interpreter.h"

#include "mlir/Interfaces/SideEffectInterfaces.h"

#include <thread>

using namespace mlir;

namespace tenon::opt {
namespace {

constexpr llvm::StringLiteral kFoldConstantsPass = "fold-constants";

/// A folded result may be larger than what it was made from only up to this, but for quantized
/// weights.
constexpr int64_t kGrowthBytes = 64 << 10;
/// Operations of one product, and of all products of one run of the patterns, that are worth their
/// seconds here: positions by their projections in each layer are of this size; hostile files may
/// ask for more.
constexpr int64_t kProductFlops = int64_t(16) << 30, kAllProductsFlops = int64_t(96) << 30;

int64_t byteCount(Type type) {
  RankedTensorType tensor = cast<RankedTensorType>(type);
  return tensor.getNumElements() * elementBytes(tensor.getElementType());
}

/// A transposed weight that only products with what is no constant read: they take it as it is
/// (FoldTransposes.cpp).
bool isTransposeForProducts(Operation *op) {
  tn::TransposeOp transposed = dyn_cast<tn::TransposeOp>(op);
  auto isVariable = [&](Value factor) {
    return factor != transposed.getResult() && !Constants::isConstant(factor);
  };
  return transposed && transposed.getX().getDefiningOp<tn::WeightOp>() &&
         transposed.getPermutation() ==
             ArrayRef<int64_t>(swapLast(transposed.getType().getRank())) &&
         llvm::all_of(transposed->getUsers(), [&](Operation *user) {
           return isa<tn::MatmulOp>(user) && llvm::any_of(user->getOperands(), isVariable);
         });
}

/// Quantized weights on their way into a product: worth their size, as the kernel would else take
/// them apart in each run and could not have them packed.
bool widensQuantized(Operation *op) {
  Type from = op->getNumOperands() > 0 ? getElementTypeOrSelf(op->getOperand(0)) : Type();
  return isa<tn::DequantizeOp, tn::CastOp>(op) && from.isInteger(8);
}

/// Of 8 bits, through what moves it or takes the largest of some.
bool readsDequantized(Value value) {
  Operation *op = value.getDefiningOp();
  while (isMoved(op) || isa_and_nonnull<tn::MaxPoolOp>(op)) {
    op = op->getOperand(0).getDefiningOp();
  }
  tn::DequantizeOp dequantize = dyn_cast_or_null<tn::DequantizeOp>(op);
  return dequantize && getElementTypeOrSelf(dequantize.getX()).getIntOrFloatBitWidth() == 8;
}

/// Weights of products, which kernels can take apart (LowBitWeights.cpp) or multiply as integers
/// (IntegerProducts.cpp), those of convolutions that can, and tables that are gathered from
/// (DequantizeGathered.cpp).
bool isReadQuantized(Value weight) {
  return llvm::any_of(weight.getUsers(), [&](Operation *user) {
    if (isa<tn::MatmulOp, tn::ConvOp, tn::ConvTransposeOp>(user)) {
      bool isTaken = isa<tn::MatmulOp>(user) ? !Constants::isConstant(user->getOperand(0))
                                             : readsDequantized(user->getOperand(0));
      return user->getOperand(1) == weight && isTaken;
    }
    if (tn::GatherOp gather = dyn_cast<tn::GatherOp>(user)) {
      return gather.getX() == weight && !Constants::isConstant(gather.getIndices());
    }
    bool isMore = isa<tn::SubOp>(user) && Constants::isConstant(user->getOperand(1));
    return (isMoved(user) || isMore || isa<tn::CastOp>(user)) &&
           isReadQuantized(user->getResult(0));
  });
}

/// Numbers of 4 bits that only tn.dequantize reads: bytes until the engine is written.
bool isUnpackedForDequantize(Operation *op) {
  return (isa<tn::UnpackBitsOp, tn::DecodeOp>(op) || isMoved(op)) &&
         llvm::all_of(op->getUsers(), [](Operation *user) {
           return isa<tn::DequantizeOp>(user) || isUnpackedForDequantize(user);
         });
}

/// All operands are constants, and the results do not weigh much more.
bool isWorthFolding(Operation *op, QuantizedWeights quantized) {
  if (op->getNumResults() == 0 || op->getNumRegions() != 0 || !isPure(op) ||
      isa<tn::ConstantOp, tn::WeightOp, tn::SizesOp, tn::CustomOp>(op) ||
      op->hasTrait<tn::TnStoredForm>() || !isa<tn::TnDialect>(op->getDialect()) ||
      isTransposeForProducts(op)) {
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
  if (quantized == QuantizedWeights::Keep && isa<tn::DequantizeOp>(op) &&
      isReadQuantized(op->getResult(0))) {
    return false;
  }
  return after <= std::max(before, kGrowthBytes) || widensQuantized(op) ||
         isUnpackedForDequantize(op);
}

/// Operations of a contraction, which cost time here; 0 of anything else.
int64_t productFlops(Operation *op) {
  if (!op->hasTrait<tn::TnContraction>()) {
    return 0;
  }
  AffineExpr flops = tn::flopsOf(op);
  std::optional<int64_t> count = flops ? tn::constantDim(flops) : std::nullopt;
  return count.value_or(kProductFlops + 1);
}

/// The name of the first weight among the operands, so that dumps show what a constant came from.
std::string constantName(Operation *op) {
  for (Value operand : op->getOperands()) {
    if (tn::WeightOp weight = operand.getDefiningOp<tn::WeightOp>()) {
      return (weight.getId() + "." + op->getName().stripDialect()).str();
    }
  }
  return op->getName().stripDialect().str();
}

struct FoldPattern : RewritePattern {
  FoldPattern(MLIRContext *context, tn::WeightStore &weights, QuantizedWeights quantized)
      : RewritePattern(MatchAnyOpTypeTag(), /*benefit=*/1, context), constants(weights),
        quantized(quantized) {}

  LogicalResult matchAndRewrite(Operation *op, PatternRewriter &rewriter) const override {
    if (!isWorthFolding(op, quantized)) {
      return failure();
    }
    int64_t flops = productFlops(op);
    if (flops > std::min(kProductFlops, kAllProductsFlops - *productsDone)) {
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
    options.threads = flops == 0 ? 1 : std::max(1U, std::thread::hardware_concurrency());
    *productsDone += flops;
    reference::Interpreter interpreter(&constants.weights, options);
    Result<std::vector<reference::Tensor>> results = interpreter.evaluateOp(op, operands);
    if (!results || results->size() != op->getNumResults()) {
      return failure();
    }
    SmallVector<Value> values;
    for (auto [result, tensor] : llvm::zip_equal(op->getResults(), *results)) {
      std::vector<char> bytes(tensor.bytes(), tensor.bytes() + tensor.byteCount());
      values.push_back(constants.make(rewriter, op->getLoc(), tensorType(result), std::move(bytes),
                                      constantName(op), kFoldConstantsPass));
    }
    rewriter.replaceOp(op, values);
    return success();
  }

private:
  Constants constants;
  QuantizedWeights quantized;
  std::shared_ptr<int64_t> productsDone = std::make_shared<int64_t>(0);
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

void addConstantPatterns(RewritePatternSet &patterns, tn::WeightStore &weights,
                         QuantizedWeights quantized) {
  patterns.add<FoldPattern>(patterns.getContext(), weights, quantized);
  patterns.add<FoldSizes>(patterns.getContext(), weights);
}

LogicalResult foldConstants(ModuleOp module, tn::WeightStore &weights) {
  RewritePatternSet patterns(module.getContext());
  addConstantPatterns(patterns, weights, QuantizedWeights::Fold);
  return runPatterns(module, std::move(patterns));
}

} // namespace tenon::opt
