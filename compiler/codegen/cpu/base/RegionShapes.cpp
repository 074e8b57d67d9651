// Relies on every buffer being dense and row-major.
#include "compiler/codegen/cpu/base/RegionShapes.h"

#include "compiler/codegen/common/math/ScalarBody.h"
#include "compiler/graph/Shape.h"
#include "llvm/ADT/SmallBitVector.h"

using namespace mlir;
using namespace tenon::tn;

namespace tenon::codegen::cpu {
namespace {

Type withDims(Type tensor, ArrayRef<AffineExpr> dims) {
  return makeTensor(dims, getElementTypeOrSelf(tensor));
}

void updateType(func::FuncOp source) {
  Block &body = source.getBody().front();
  source.setType(FunctionType::get(source.getContext(), body.getArgumentTypes(),
                                   body.getTerminator()->getOperandTypes()));
}

void splitGroups(func::FuncOp source, GroupNormOp norm) {
  OpBuilder builder(norm);
  Dims dims = getDims(norm.getX().getType());
  AffineExpr groups = builder.getAffineConstantExpr(norm.getGroups());
  Dims split = {dims[0], groups, dims[1].floorDiv(norm.getGroups())};
  split.append(dims.begin() + 2, dims.end());
  Dims channels(split.begin() + 1, split.begin() + 3);
  channels.append(dims.size() - 2, builder.getAffineConstantExpr(1));
  norm.getX().setType(cast<RankedTensorType>(withDims(norm.getX().getType(), split)));
  for (Value parameter : {norm.getScale(), norm.getBias()}) {
    parameter.setType(withDims(parameter.getType(), channels));
  }
  Type type = withDims(norm.getY().getType(), split);
  Location location = norm.getLoc();
  Value y = LayerNormOp::create(builder, location, type, norm.getX(), Value(), Value(),
                                builder.getI64IntegerAttr(2), norm.getEpsilonAttr());
  y = MulOp::create(builder, location, type, y, norm.getScale());
  y = AddOp::create(builder, location, type, y, norm.getBias());
  norm->getResult(0).replaceAllUsesWith(y);
  norm.erase();
  updateType(source);
}

/// Whether a value has a dim of the region, repeats along it, or both, as the dim is one.
enum class Extent { Full, Repeats, Either };

/// The extents of a value along the region's dims; empty if one is not certain.
SmallVector<Extent> extentsOf(Type tensor, ArrayRef<AffineExpr> region) {
  Dims dims = getDims(tensor);
  if (dims.size() > region.size()) {
    return {};
  }
  size_t missing = region.size() - dims.size();
  SmallVector<Extent> extents;
  for (auto [i, size] : llvm::enumerate(region)) {
    std::optional<int64_t> own = i < missing ? 1 : constantDim(dims[i - missing]);
    if (own == 1) {
      extents.push_back(constantDim(size) == 1 ? Extent::Either : Extent::Repeats);
    } else if (sameDim(dims[i - missing], size)) {
      extents.push_back(Extent::Full);
    } else {
      return {};
    }
  }
  return extents;
}

bool merges(Extent &a, Extent b) {
  if (a == Extent::Either) {
    a = b;
  }
  return b == Extent::Either || a == b;
}

/// How many of the region's dims each merged dim takes, in order.
SmallVector<size_t> mergedDims(ArrayRef<SmallVector<Extent>> values, size_t rank) {
  SmallVector<size_t> counts;
  SmallVector<Extent> current;
  for (size_t i = 0; i < rank; ++i) {
    SmallVector<Extent> next = current;
    bool isOne = !current.empty();
    for (size_t k = 0; isOne && k < values.size(); ++k) {
      isOne = merges(next[k], values[k][i]);
    }
    if (isOne) {
      ++counts.back();
      current = next;
      continue;
    }
    counts.push_back(1);
    current.clear();
    for (const SmallVector<Extent> &extents : values) {
      current.push_back(extents[i]);
    }
  }
  return counts;
}

/// The dims of a value when the region's dims are merged.
Dims mergeDims(Type tensor, ArrayRef<size_t> counts, size_t rank) {
  Dims dims = getDims(tensor), merged;
  Dims all(rank - dims.size(), getAffineConstantExpr(1, tensor.getContext()));
  all.append(dims);
  size_t first = 0;
  for (size_t count : counts) {
    merged.push_back(
        elementCount(tensor.getContext(), ArrayRef<AffineExpr>(all).slice(first, count)));
    first += count;
  }
  return merged;
}

/// Whether the region has nothing but elementwise ops and constants of one element.
bool isElementwiseOnly(func::FuncOp source) {
  return llvm::all_of(source.getBody().front().without_terminator(), [](Operation &op) {
    ConstantOp constant = dyn_cast<ConstantOp>(op);
    return constant ? isa<DenseElementsAttr>(constant.getValue()) &&
                          constant.getValue().getNumElements() == 1
                    : hasScalarBody(&op);
  });
}

void mergeLoops(func::FuncOp source) {
  Block &body = source.getBody().front();
  Dims region = getDims(source.getResultTypes().front());
  SmallVector<Value> all(body.getArguments());
  for (Operation &op : body.without_terminator()) {
    llvm::append_range(all, op.getResults());
  }
  SmallVector<SmallVector<Extent>> extents;
  for (Value value : all) {
    extents.push_back(extentsOf(value.getType(), region));
    if (extents.back().size() != region.size()) {
      return;
    }
  }
  SmallVector<size_t> counts = mergedDims(extents, region.size());
  if (counts.size() == region.size()) {
    return;
  }
  for (Value value : all) {
    Dims dims = mergeDims(value.getType(), counts, region.size());
    if (llvm::any_of(dims, [](AffineExpr dim) { return !dim; })) {
      return;
    }
  }
  for (Value value : all) {
    Dims dims = mergeDims(value.getType(), counts, region.size());
    RankedTensorType type = cast<RankedTensorType>(withDims(value.getType(), dims));
    if (ConstantOp constant = value.getDefiningOp<ConstantOp>()) {
      constant.setValueAttr(cast<DenseElementsAttr>(constant.getValue()).reshape(type));
    }
    value.setType(type);
  }
  updateType(source);
}

/// The dims of an op's operand that it passes along or reduces; none if it is no such op.
llvm::SmallBitVector passedDims(Operation &op) {
  if (!isa<ReduceOp, ArgReduceOp, SoftmaxOp, CumsumOp>(op)) {
    return {};
  }
  llvm::SmallBitVector passed(cast<RankedTensorType>(op.getOperand(0).getType()).getRank());
  if (ReduceOp reduce = dyn_cast<ReduceOp>(op)) {
    for (int64_t axis : reduce.getAxes()) {
      passed.set(axis);
    }
  } else {
    passed.set(cast<IntegerAttr>(op.getAttr("axis")).getInt());
  }
  return passed;
}

/// Neighbouring dims that are all reduced, or all kept, as one.
void mergeRows(func::FuncOp source, Operation &op, const llvm::SmallBitVector &passed) {
  Dims dims = getDims(op.getOperand(0).getType()), merged, result;
  SmallVector<int64_t> axes;
  size_t resultRank = getDims(op.getResult(0).getType()).size();
  AffineExpr one = getAffineConstantExpr(1, source.getContext());
  for (size_t i = 0; i < dims.size(); ++i) {
    if (i > 0 && passed[i] == passed[i - 1]) {
      merged.back() = multiplyDims(merged.back(), dims[i]);
      continue;
    }
    if (passed[i]) {
      axes.push_back(merged.size());
    }
    merged.push_back(dims[i]);
  }
  if (merged.size() == dims.size() || llvm::is_contained(merged, AffineExpr())) {
    return;
  }
  bool keeps = resultRank == dims.size(), reduces = isa<ReduceOp, ArgReduceOp>(op);
  for (auto [i, dim] : llvm::enumerate(merged)) {
    bool isPassed = llvm::is_contained(axes, static_cast<int64_t>(i));
    if (keeps || !isPassed) {
      result.push_back(isPassed && reduces ? one : dim);
    }
  }
  Builder builder(source.getContext());
  if (ReduceOp reduce = dyn_cast<ReduceOp>(op)) {
    reduce.setAxes(axes);
  } else {
    op.setAttr("axis", builder.getI64IntegerAttr(axes.front()));
  }
  op.getOperand(0).setType(withDims(op.getOperand(0).getType(), merged));
  op.getResult(0).setType(withDims(op.getResult(0).getType(), result));
  updateType(source);
}

/// A gather of slices: the dims of a slice are one, and so are those of the indices and those
/// before the axis.
void mergeGather(func::FuncOp source, Operation &op) {
  Dims x = getDims(op.getOperand(0).getType()), indices = getDims(op.getOperand(1).getType());
  GatherOp gather = dyn_cast<GatherOp>(op);
  size_t axis = gather ? gather.getAxis() : 0;
  size_t depth = gather ? 1 : constantDim(indices.back()).value_or(0);
  ArrayRef<AffineExpr> outer = ArrayRef(x).take_front(axis);
  ArrayRef<AffineExpr> slice = ArrayRef(x).drop_front(axis + depth);
  ArrayRef<AffineExpr> places = gather ? ArrayRef(indices) : ArrayRef(indices).drop_back();
  Dims newX, newIndices, newResult;
  auto join = [&](Dims &dims, ArrayRef<AffineExpr> part) {
    if (!part.empty()) {
      dims.push_back(elementCount(source.getContext(), part));
    }
  };
  join(newX, outer);
  newX.append(x.begin() + axis, x.begin() + axis + depth);
  join(newX, slice);
  join(newIndices, places);
  if (!gather) {
    newIndices.push_back(indices.back());
  }
  for (ArrayRef<AffineExpr> part : {outer, places, slice}) {
    join(newResult, part);
  }
  bool isKnown = llvm::none_of(ArrayRef<Dims>{newX, newIndices, newResult}, [](const Dims &dims) {
    return llvm::is_contained(dims, AffineExpr());
  });
  if (!isKnown || (newX.size() == x.size() && newIndices.size() == indices.size())) {
    return;
  }
  if (gather) {
    gather.setAxis(outer.empty() ? 0 : 1);
  }
  op.getOperand(0).setType(withDims(op.getOperand(0).getType(), newX));
  op.getOperand(1).setType(withDims(op.getOperand(1).getType(), newIndices));
  op.getResult(0).setType(withDims(op.getResult(0).getType(), newResult));
  updateType(source);
}

/// A gather of a buffer by another.
bool isGather(Operation &op) {
  GatherNdOp slices = dyn_cast<GatherNdOp>(op);
  return (isa<GatherOp>(op) || (slices && slices.getBatchDims() == 0)) &&
         llvm::all_of(op.getOperands(), llvm::IsaPred<BlockArgument>) &&
         op.getOperand(0) != op.getOperand(1);
}

} // namespace

void reshapeRegion(func::FuncOp source) {
  Block &body = source.getBody().front();
  GroupNormOp norm = dyn_cast<GroupNormOp>(body.front());
  bool isAlone = llvm::hasSingleElement(body.without_terminator());
  llvm::SmallBitVector passed = passedDims(body.front());
  if (norm && isAlone) {
    splitGroups(source, norm);
  } else if (isAlone && passed.any()) {
    mergeRows(source, body.front(), passed);
  } else if (isAlone && isGather(body.front())) {
    mergeGather(source, body.front());
  } else if (!source.getResultTypes().empty() && isElementwiseOnly(source)) {
    mergeLoops(source);
  }
}

} // namespace tenon::codegen::cpu
