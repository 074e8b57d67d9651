// Relies on a region having one product, convolution or recurrent layer.
#include "compiler/dispatch/WeightLayout.h"

#include "compiler/dispatch/FormRegions.h"
#include "compiler/graph/TnRare.h"
#include "compiler/graph/Winograd.h"
#include "mlir/IR/Builders.h"
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

/// Whether the weight is read in its layout here, once there is one.
bool isLaidOut(OpOperand &use) {
  return productOf(use) || isWeightOfConv(use) || isWeightOfRecurrence(use);
}

/// On a GPU a second copy of a product's weight would cost more memory than the layout gains: a
/// library's call reads it as it lies.
bool mayBeLaidOut(Value weight, const target::Target &device) {
  auto isRoot = [&](OpOperand &use) { return isContractionRoot(use.getOwner(), device); };
  if (llvm::any_of(weight.getUses(),
                   [&](OpOperand &use) { return isWeightOfConv(use) && isRoot(use); })) {
    return true;
  }
  if (!device.isGpu() && llvm::any_of(weight.getUses(), isWeightOfRecurrence)) {
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

RankedTensorType packedType(RankedTensorType weight, const WeightLayout &layout) {
  int64_t depth = 1;
  int64_t columns = 1;
  for (auto [index, dim] : llvm::enumerate(layout.permutation)) {
    (static_cast<int64_t>(index) < layout.rows ? depth : columns) *= weight.getDimSize(dim);
  }
  depth = winograd::transformedDepth(depth, layout.winograd);
  SmallVector<int64_t> shape;
  if (layout.groups > 1) {
    shape.push_back(layout.groups);
  }
  shape.append(
      {llvm::divideCeilSigned(columns / layout.groups, layout.panel), depth, layout.panel});
  return RankedTensorType::get(shape, weight.getElementType());
}

IntegerAttr winogradOf(MLIRContext *context, const WeightLayout &layout) {
  return layout.winograd ? Builder(context).getI64IntegerAttr(layout.winograd) : IntegerAttr();
}

bool isPackedSo(tn::PackOp pack, const WeightLayout &layout) {
  return pack.getPermutation() == ArrayRef(layout.permutation) &&
         static_cast<int64_t>(pack.getRows()) == layout.rows &&
         static_cast<int64_t>(pack.getGroups()) == layout.groups &&
         static_cast<int64_t>(pack.getPanel()) == layout.panel &&
         pack->getAttr(winograd::kAttribute) == winogradOf(pack.getContext(), layout);
}

tn::PackOp packOf(Value weight, const WeightLayout &layout) {
  for (Operation *user : weight.getUsers()) {
    tn::PackOp pack = dyn_cast<tn::PackOp>(user);
    if (pack && isPackedSo(pack, layout)) {
      return pack;
    }
  }
  OpBuilder builder(weight.getContext());
  builder.setInsertionPointAfterValue(weight);
  RankedTensorType type = packedType(cast<RankedTensorType>(weight.getType()), layout);
  tn::PackOp pack = tn::PackOp::create(builder, weight.getLoc(), type, weight, layout.permutation,
                                       layout.rows, layout.panel, layout.groups);
  if (IntegerAttr winograd = winogradOf(weight.getContext(), layout)) {
    pack->setAttr(winograd::kAttribute, winograd);
  }
  return pack;
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
  RankedTensorType type = layout ? packedType(weight, *layout) : weight;
  constexpr unsigned kByte = 8;
  return type.getNumElements() * llvm::divideCeil(type.getElementTypeBitWidth(), kByte);
}

bool isLaidOutWhole(tn::RegionOp region, unsigned input) {
  return llvm::all_of(region.getBody().front().getArgument(input).getUses(), isLaidOut);
}

void layOutWeight(tn::RegionOp region, const WeightLayout &layout) {
  tn::PackOp pack = packOf(region.getInputs()[layout.input], layout);
  Block &body = region.getBody().front();
  region.getInputsMutable().assign(llvm::to_vector(
      llvm::concat<Value>(ValueRange(pack.getY()), SmallVector<Value>(region.getInputs()))));
  BlockArgument packed = body.insertArgument(0u, pack.getType(), region.getLoc());
  unsigned old = layout.input + 1;
  BlockArgument weight = body.getArgument(old);
  OpBuilder builder = OpBuilder::atBlockBegin(&body);
  tn::UnpackOp unpack = tn::UnpackOp::create(builder, region.getLoc(), weight.getType(), packed,
                                             pack.getPermutationAttr(), pack.getRowsAttr(),
                                             pack.getPanelAttr(), pack.getGroupsAttr());
  if (Attribute winograd = pack->getAttr(winograd::kAttribute)) {
    unpack->setAttr(winograd::kAttribute, winograd);
  }
  weight.replaceUsesWithIf(unpack.getWeight(), isLaidOut);
  if (weight.use_empty()) {
    body.eraseArgument(old);
    region.getInputsMutable().erase(old);
  }
}

} // namespace tenon::dispatch
