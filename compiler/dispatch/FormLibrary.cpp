// On a GPU, products and convolutions become one call of a library: the bias, the residual and the
// activation behind them join as far as the library computes them, or as a product of our own does
// where that is faster than a call and a pass over memory. Relies on
// codegen/cuda/library/LibraryRegions.h LargeProduct.h and SmallProduct.h reading exactly what is
// let in here.
#include "compiler/dispatch/FormRegions.h"
#include "compiler/dispatch/LargeProducts.h"
#include "compiler/dispatch/SmallProducts.h"

#include "mlir/IR/TypeUtilities.h"

using namespace mlir;

namespace tenon::dispatch {
namespace {

/// What the call does after the product; each at most once, the activation last.
struct Epilogue {
  bool hasBias = false;
  bool hasResidual = false;
  bool hasActivation = false;
  bool isDouble = false;
  /// Whether a product of our own may take the call's place.
  bool mayBeOwn = false;
};

/// A vector over the last dim, with any number of leading dims of one.
bool isVectorOver(Value value, AffineExpr last) {
  tn::Dims dims = tn::getDims(value.getType());
  return !dims.empty() && tn::sameDim(dims.back(), last) &&
         llvm::all_of(ArrayRef(dims).drop_back(),
                      [](AffineExpr dim) { return tn::constantDim(dim) == 1; });
}

/// Whether all that reads `op` is one operation on whole rows, which may still take it in.
bool isForRows(const Formation &formation, Operation *op) {
  return op->hasOneUse() && rowRank(*op->user_begin(), formation.device()) != 0 &&
         !formation.grouping.groupOf(*op->user_begin());
}

/// Lets the call add a bias or a residual to `value`. Null, or why not.
const Rule *takeAdd(const Formation &formation, Epilogue &epilogue, tn::AddOp add, Value value) {
  Value other = add.getA() == value ? add.getB() : add.getA();
  tn::Dims dims = tn::getDims(value.getType());
  // A constant of one element stands in the region, where no call can read it.
  if (add.getType() != value.getType() || isScalarConstant(other.getDefiningOp())) {
    return &kLibraryEpilogue;
  }
  if (!epilogue.hasBias && !epilogue.isDouble && isVectorOver(other, dims.back())) {
    epilogue.hasBias = true;
    return nullptr;
  }
  if (epilogue.hasResidual || !tn::sameDims(tn::getDims(other.getType()), dims)) {
    return &kLibraryEpilogue;
  }
  if (isForRows(formation, add)) {
    return &kAddedInRows;
  }
  epilogue.hasResidual = true;
  return nullptr;
}

/// Lets the call do `op`, the only reader of `value`, next. Null, or why it cannot.
const Rule *takeNext(const Formation &formation, Epilogue &epilogue, Operation *op, Value value) {
  tn::AddOp add = dyn_cast<tn::AddOp>(op);
  if (add && !epilogue.hasActivation) {
    return takeAdd(formation, epilogue, add, value);
  }
  tn::GeluOp gelu = dyn_cast<tn::GeluOp>(op);
  bool isOwn = epilogue.mayBeOwn && !epilogue.hasResidual;
  bool isKnown = isa<tn::ReluOp>(op) || (gelu && (gelu.getApproximate() || isOwn));
  if (isKnown && !epilogue.hasActivation && !epilogue.isDouble) {
    epilogue.hasActivation = true;
    return nullptr;
  }
  return isElementwise(op) ? &kLibraryEpilogue : &kNotElementwise;
}

} // namespace

bool isLibraryRoot(Operation *op) {
  auto isFloat = [](Type tensor) {
    return isa<FloatType>(cast<RankedTensorType>(tensor).getElementType());
  };
  if (!llvm::all_of(op->getOperandTypes(), isFloat)) {
    return false;
  }
  tn::ConvOp conv = dyn_cast<tn::ConvOp>(op);
  if (!conv) {
    return isa<tn::MatmulOp>(op);
  }
  return conv.getType().getRank() == 4 && conv.getChannelsLast() && !isDepthwise(conv) &&
         !conv.getType().getElementType().isF64();
}

void growLibraryEpilogue(Formation &formation, Group *group) {
  Epilogue epilogue;
  Value value = group->root->getResult(0);
  tn::ConvOp conv = dyn_cast<tn::ConvOp>(group->root);
  epilogue.hasBias = conv && conv.getBias();
  epilogue.isDouble = getElementTypeOrSelf(value).isF64();
  epilogue.mayBeOwn =
      isLargeRoot(group->root, formation.device()) || isSmallRoot(group->root, formation.device());
  while (!value.use_empty()) {
    Operation *producer = value.getDefiningOp();
    Operation *user = *value.getUsers().begin();
    if (!value.hasOneUse()) {
      for (Operation *reader : value.getUsers()) {
        formation.refuse(producer, reader, kSecondResult);
      }
      return;
    }
    if (staysOutside(user)) {
      return;
    }
    const Rule *rule = formation.grouping.groupOf(user)
                           ? &kOtherRegion
                           : takeNext(formation, epilogue, user, value);
    if (!rule) {
      rule = formation.grouping.absorbConsumer(group, user);
    }
    if (rule) {
      formation.refuse(producer, user, *rule);
      return;
    }
    value = user->getResult(0);
  }
}

} // namespace tenon::dispatch
