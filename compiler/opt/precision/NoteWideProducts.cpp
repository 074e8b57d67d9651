// Says of each product, convolution and attention that computes in floats though an operand is
// quantized why it does (graph/WideReason.h). Relies on the passes that make operations of integers
// having run, and on quantization not being expanded yet.
#include "compiler/graph/TnRare.h"
#include "compiler/graph/WideReason.h"
#include "compiler/opt/GpuProducts.h"
#include "compiler/opt/Match.h"
#include "compiler/opt/Passes.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;

namespace tenon::opt {
namespace {

/// Movement and casts looked through between an operand and what it is dequantized from.
constexpr int kSourceSteps = 16;

/// What an operand is: behind tn.dequantize, and whether the numbers there, or it, are constants.
struct Operand {
  tn::DequantizeOp source; ///< null if it is not quantized
  bool isConstant = false;
};

Operand operandOf(Value value) {
  Operand operand;
  for (int steps = 0; steps < kSourceSteps; ++steps) {
    Operation *op = value.getDefiningOp();
    if (tn::DequantizeOp source = dyn_cast_or_null<tn::DequantizeOp>(op)) {
      return {source, Constants::isConstant(source.getX())};
    }
    operand.isConstant = Constants::isConstant(value);
    if (!isMoved(op) && !isa_and_nonnull<tn::CastOp>(op)) {
      break;
    }
    value = op->getOperand(0);
  }
  return operand;
}

/// Whether the scale or zero point belongs to an index of the depth, which is dim `depth`.
bool variesAlong(tn::DequantizeOp source, Value operand, int64_t depth) {
  bool isPerTensor = tensorType(source.getScale()).getRank() == 0 &&
                     tensorType(source.getZeroPoint()).getRank() == 0;
  return !isPerTensor && source.getResult() == operand &&
         static_cast<int64_t>(source.getAxis()) == depth;
}

StringRef reasonOf(Value a, Value b, int64_t depthOfA, int64_t depthOfB, bool isGpu) {
  Operand left = operandOf(a), right = operandOf(b);
  if (!left.source && !right.source) {
    return "";
  }
  if (!left.source) {
    return right.isConstant ? "the other operand of its quantized weights is not quantized"
                            : "the other operand is not quantized";
  }
  if (!right.source) {
    return right.isConstant ? "its weights are not quantized"
                            : "the other operand is not quantized";
  }
  if (!left.isConstant && !right.isConstant) {
    if (isGpu) {
      return "both operands are computed, which no kernel of integers takes";
    }
    return "both operands are computed, and a scale is not one number, or a zero point or the "
           "depth "
           "is known in each run only";
  }
  if (variesAlong(left.source, a, depthOfA) || variesAlong(right.source, b, depthOfB)) {
    return "a scale or zero point differs along the depth";
  }
  return isGpu ? "its rows, depth, channels or groups, or its numbers, do not fit the kernels of "
                 "integers: 16 rows and more, depths of 16 and channels of 4 or their multiples"
               : "its numbers or their sums do not fit those of the integer kernels";
}

StringRef reasonOf(Operation *op, bool isGpu) {
  if (tn::MatmulOp product = dyn_cast<tn::MatmulOp>(op)) {
    int64_t rankA = tensorType(product.getA()).getRank();
    int64_t rankB = tensorType(product.getB()).getRank();
    return reasonOf(product.getA(), product.getB(), rankA - (product.getTransposeA() ? 2 : 1),
                    rankB - (product.getTransposeB() ? 1 : 2), isGpu);
  }
  if (tn::ConvOp conv = dyn_cast<tn::ConvOp>(op)) {
    int64_t channels = conv.getChannelsLast() ? tensorType(conv.getX()).getRank() - 1 : 1;
    return reasonOf(conv.getX(), conv.getWeight(), channels, /*depthOfB=*/1, isGpu);
  }
  bool isQuantized = isa<tn::AttentionOp>(op) && llvm::any_of(op->getOperands(), [](Value value) {
                       return operandOf(value).source != nullptr;
                     });
  return isQuantized ? "softmax stands between its products, of which both operands are computed"
                     : "";
}

LogicalResult note(ModuleOp module, bool isGpu) {
  module.walk([&](Operation *op) {
    bool isOfFloats =
        op->getNumResults() > 0 && isa<FloatType>(getElementTypeOrSelf(op->getResult(0)));
    bool isNoted = op->hasAttr(tn::kWideReason);
    StringRef reason = isOfFloats && !isNoted ? reasonOf(op, isGpu) : "";
    if (!reason.empty()) {
      op->setAttr(tn::kWideReason, StringAttr::get(op->getContext(), reason));
    }
  });
  return success();
}

} // namespace

LogicalResult noteWideProducts(ModuleOp module, tn::WeightStore &) {
  return note(module, /*isGpu=*/false);
}

LogicalResult noteWideProductsOfGpu(ModuleOp module, tn::WeightStore &) {
  return note(module, /*isGpu=*/true);
}

} // namespace tenon::opt
