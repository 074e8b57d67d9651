// Relies on a region having one product, convolution or recurrent layer.
#include "compiler/dispatch/WeightLayout.h"

#include "compiler/dispatch/FormRegions.h"
#include "compiler/graph/TnRare.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace tenon::dispatch {
namespace {

/// The product that reads its matrix B from here, or null.
tn::MatmulOp productOf(OpOperand &use) {
  tn::MatmulOp matmul = dyn_cast<tn::MatmulOp>(use.getOwner());
  return matmul && &use == &matmul.getBMutable() ? matmul : tn::MatmulOp();
}

bool isWeightOfRecurrence(OpOperand &use) {
  tn::RecurrenceOp op = dyn_cast<tn::RecurrenceOp>(use.getOwner());
  return op && &use == &op.getWeightsMutable();
}

bool isWeightOfConv(OpOperand &use) {
  tn::ConvOp conv = dyn_cast<tn::ConvOp>(use.getOwner());
  return conv && &use == &conv.getWeightMutable();
}

/// Whether the weight is rows of blocks, which the product behind tn.decode_rows reads.
bool isRowsOfProduct(OpOperand &use) { return isa<tn::DecodeRowsOp>(use.getOwner()); }

/// Whether the weight is read in its layout here, once there is one.
bool isLaidOut(OpOperand &use) {
  return productOf(use) || isWeightOfConv(use) || isWeightOfRecurrence(use) || isRowsOfProduct(use);
}

/// On a GPU a second copy of a product's weight would cost more memory than the layout gains: a
/// library's call reads it as it lies.
bool mayBeLaidOut(Value weight, const target::Target &device) {
  auto isRoot = [&](OpOperand &use) { return isContractionRoot(use.getOwner(), device); };
  if (llvm::any_of(weight.getUses(),
                   [&](OpOperand &use) { return isWeightOfConv(use) && isRoot(use); })) {
    return true;
  }
  auto isOfCpu = [](OpOperand &use) { return isWeightOfRecurrence(use) || isRowsOfProduct(use); };
  if (!device.isGpu() && llvm::any_of(weight.getUses(), isOfCpu)) {
    return true;
  }
  auto isProduct = [&](OpOperand &use) { return productOf(use) && isRoot(use); };
  if (cast<RankedTensorType>(weight.getType()).getRank() != 2 ||
      !llvm::any_of(weight.getUses(), isProduct)) {
    return false;
  }
  if (!device.isGpu()) {
    return true;
  }
  tn::MatmulOp first = productOf(*weight.getUses().begin());
  return first && llvm::all_of(weight.getUses(), [&](OpOperand &use) {
           tn::MatmulOp matmul = productOf(use);
           return matmul && matmul.getTransposeB() == first.getTransposeB();
         });
}

RankedTensorType transformedType(RankedTensorType weight, const WeightLayout &layout) {
  return layout.transform ? layout.transform->typeOf(weight) : weight;
}

/// The result of an equal operation on the same operand if there is one, instead of `made`.
Value madeOnce(Value made) {
  Operation *op = made.getDefiningOp();
  for (Operation *other : op->getOperand(0).getUsers()) {
    bool isEqual =
        other != op && other->getBlock() == op->getBlock() &&
        OperationEquivalence::isEquivalentTo(other, op, OperationEquivalence::IgnoreLocations);
    if (isEqual) {
      op->erase();
      return other->getResult(0);
    }
  }
  return made;
}

Value packed(Value weight, const WeightLayout &layout) {
  OpBuilder builder(weight.getContext());
  builder.setInsertionPointAfterValue(weight);
  if (layout.transform) {
    weight = madeOnce(layout.transform->apply(builder, weight));
    builder.setInsertionPointAfterValue(weight);
  }
  return madeOnce(tn::PackOp::create(builder, weight.getLoc(), weight, layout.packing));
}

} // namespace

void markPackable(Block *block, const target::Target &device) {
  for (Operation &op : *block) {
    if (isa<tn::WeightOp, tn::ConstantOp>(op) && mayBeLaidOut(op.getResult(0), device)) {
      op.setAttr(kPackable, UnitAttr::get(op.getContext()));
    }
  }
}

bool isPackable(Value weight) {
  Operation *op = weight.getDefiningOp();
  return op && op->hasAttr(kPackable);
}

void clearPackable(ModuleOp module) {
  module.walk([](Operation *op) { op->removeAttr(kPackable); });
}

int64_t weightBytes(RankedTensorType weight, const std::optional<WeightLayout> &layout) {
  RankedTensorType type =
      layout ? tn::packedType(transformedType(weight, *layout), layout->packing) : weight;
  constexpr unsigned kByte = 8;
  return type.getNumElements() * llvm::divideCeil(type.getElementTypeBitWidth(), kByte);
}

bool isLaidOutWhole(tn::RegionOp region, unsigned input) {
  return llvm::all_of(region.getBody().front().getArgument(input).getUses(), isLaidOut);
}

void layOutWeight(tn::RegionOp region, const WeightLayout &layout) {
  Value stored = packed(region.getInputs()[layout.input], layout);
  Block &body = region.getBody().front();
  region.getInputsMutable().assign(llvm::to_vector(
      llvm::concat<Value>(ValueRange(stored), SmallVector<Value>(region.getInputs()))));
  BlockArgument argument = body.insertArgument(0u, stored.getType(), region.getLoc());
  unsigned old = layout.input + 1;
  BlockArgument weight = body.getArgument(old);
  RankedTensorType type = cast<RankedTensorType>(weight.getType());
  OpBuilder builder = OpBuilder::atBlockBegin(&body);
  Value logical = tn::UnpackOp::create(builder, region.getLoc(), transformedType(type, layout),
                                       argument, layout.packing);
  if (layout.transform) {
    logical = layout.transform->undo(builder, logical, type);
  }
  weight.replaceUsesWithIf(logical, isLaidOut);
  if (weight.use_empty()) {
    body.eraseArgument(old);
    region.getInputsMutable().erase(old);
  }
}

} // namespace tenon::dispatch
