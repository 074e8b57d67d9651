// Moves slices of a product's columns onto its constant weights, through bias, reshape and
// transpose. Relies on every reader of the product being a slice, so that no column is computed
// twice.
#include "compiler/opt/Match.h"
#include "compiler/opt/Passes.h"

using namespace mlir;

namespace tenon::opt {
namespace {

/// More parts than a fused projection has, more operations than stand between it and its slices.
constexpr size_t kMaxSlices = 16;
constexpr unsigned kMaxSteps = 8;

/// A slice of one dim with a step of one and constant bounds.
struct DimSlice {
  int64_t axis;
  int64_t start;
  int64_t size;
};

std::optional<DimSlice> dimSlice(tn::SliceOp op) {
  tn::Dims in = tn::getDims(op.getX().getType());
  tn::Dims out = tn::getDims(op.getType());
  std::optional<DimSlice> result;
  for (auto [axis, from, to] : llvm::enumerate(in, out)) {
    if (tn::sameDim(from, to)) {
      continue;
    }
    std::optional<int64_t> start = tn::constantDim(op.getStarts().getResult(axis));
    std::optional<int64_t> size = tn::constantDim(to);
    if (result || !start || !size || op.getSteps()[axis] != 1) {
      return std::nullopt;
    }
    result = DimSlice{static_cast<int64_t>(axis), *start, *size};
  }
  return result;
}

/// All readers take slices of the same dim that do not overlap.
bool isReadInSlices(Value value) {
  SmallVector<DimSlice> parts;
  for (Operation *user : value.getUsers()) {
    if (parts.size() == kMaxSlices) {
      return false;
    }
    tn::SliceOp slice = dyn_cast<tn::SliceOp>(user);
    std::optional<DimSlice> part = slice ? dimSlice(slice) : std::nullopt;
    if (!part || (!parts.empty() && part->axis != parts.front().axis)) {
      return false;
    }
    parts.push_back(*part);
  }
  llvm::sort(parts, [](const DimSlice &a, const DimSlice &b) { return a.start < b.start; });
  for (size_t i = 1; i < parts.size(); ++i) {
    if (parts[i - 1].start + parts[i - 1].size > parts[i].start) {
      return false;
    }
  }
  return parts.size() > 1;
}

/// The slice of a value along a dim, by an operation of its own.
Value sliceDirectly(OpBuilder &builder, Value value, DimSlice part) {
  MLIRContext *context = builder.getContext();
  tn::Dims dims = tn::getDims(value.getType());
  dims[part.axis] = getAffineConstantExpr(part.size, context);
  SmallVector<AffineExpr> starts(dims.size(), getAffineConstantExpr(0, context));
  starts[part.axis] = getAffineConstantExpr(part.start, context);
  SmallVector<int64_t> steps(dims.size(), 1);
  return tn::SliceOp::create(builder, value.getLoc(),
                             tn::makeTensor(dims, tensorType(value).getElementType()), value,
                             AffineMap::get(0, 0, starts, context), steps);
}

/// The constant operand of an operation with two operands, as its number.
std::optional<unsigned> constantOperand(Operation *op) {
  for (unsigned i : {1u, 0u}) {
    if (Constants::isConstant(op->getOperand(i))) {
      return i;
    }
  }
  return std::nullopt;
}

/// What a slice of a reshape's result takes of its operand: the sliced dim must be the outermost of
/// those that one dim was split into.
std::optional<DimSlice> beforeReshape(tn::ReshapeOp op, DimSlice part) {
  tn::Dims out = tn::getDims(op.getType());
  FailureOr<SmallVector<DimGroup>> groups = groupDims(tn::getDims(op.getX().getType()), out);
  if (failed(groups)) {
    return std::nullopt;
  }
  for (const DimGroup &group : *groups) {
    if (part.axis < group.outBegin || part.axis >= group.outEnd) {
      continue;
    }
    bool isOutermost =
        llvm::all_of(ArrayRef(out).slice(group.outBegin, part.axis - group.outBegin), isOne);
    std::optional<int64_t> inner = tn::constantDim(tn::elementCount(
        op.getContext(), ArrayRef(out).slice(part.axis + 1, group.outEnd - part.axis - 1)));
    if (!isOutermost || !inner || group.inEnd - group.inBegin != 1) {
      return std::nullopt;
    }
    return DimSlice{group.inBegin, part.start * *inner, part.size * *inner};
  }
  return std::nullopt;
}

/// What a value is dequantized from, through movement and casts; null if it is not.
tn::DequantizeOp dequantizeBehind(Value value) {
  Operation *op = value.getDefiningOp();
  for (unsigned depth = 0; depth < kMaxSteps && (isMoved(op) || isa_and_nonnull<tn::CastOp>(op));
       ++depth) {
    op = op->getOperand(0).getDefiningOp();
  }
  return dyn_cast_or_null<tn::DequantizeOp>(op);
}

/// Whether B is constant: as it is, or behind scales beside an operand that is not quantized, where
/// no product of integers looks for them.
bool isWeight(tn::MatmulOp product) {
  tn::DequantizeOp source = dequantizeBehind(product.getB());
  return Constants::isConstant(product.getB()) ||
         (source && llvm::all_of(source->getOperands(), Constants::isConstant) &&
          !dequantizeBehind(product.getA()));
}

/// Builds the slice of a value from a slice of the weights behind it. With a null builder it only
/// says (by the value itself) that this can be done.
Value sliceAtSource(OpBuilder *builder, Value value, DimSlice part, unsigned depth = 0) {
  Operation *op = value.getDefiningOp();
  if (!op || depth == kMaxSteps) {
    return nullptr;
  }
  auto recurse = [&](Value operand, DimSlice operandPart) -> Value {
    bool isOwn = builder || operand.hasOneUse();
    return isOwn ? sliceAtSource(builder, operand, operandPart, depth + 1) : nullptr;
  };
  tn::Dims dims = tn::getDims(value.getType());
  dims[part.axis] = getAffineConstantExpr(part.size, op->getContext());
  Type type = tn::makeTensor(dims, tensorType(value).getElementType());
  SmallVector<Value> operands(op->getOperands());

  if (tn::MatmulOp product = dyn_cast<tn::MatmulOp>(op)) {
    int64_t rank = product.getType().getRank();
    if (!isWeight(product) || tensorType(product.getB()).getRank() != 2 || part.axis != rank - 1) {
      return nullptr;
    }
    part.axis = product.getTransposeB() ? 0 : 1;
    operands[1] = builder ? sliceDirectly(*builder, operands[1], part) : operands[1];
  } else if (isa<tn::AddOp, tn::MulOp>(op)) {
    std::optional<unsigned> constant = constantOperand(op);
    if (!constant || op->getOperand(1 - *constant).getType() != value.getType()) {
      return nullptr;
    }
    int64_t missing = tensorType(value).getRank() - tensorType(operands[*constant]).getRank();
    DimSlice own{part.axis - missing, part.start, part.size};
    if (builder && own.axis >= 0 && tensorType(operands[*constant]).getDimSize(own.axis) != 1) {
      operands[*constant] = sliceDirectly(*builder, operands[*constant], own);
    }
    operands[1 - *constant] = recurse(operands[1 - *constant], part);
  } else if (tn::ReshapeOp reshape = dyn_cast<tn::ReshapeOp>(op)) {
    std::optional<DimSlice> before = beforeReshape(reshape, part);
    operands[0] = before ? recurse(operands[0], *before) : nullptr;
  } else if (tn::TransposeOp transposed = dyn_cast<tn::TransposeOp>(op)) {
    part.axis = transposed.getPermutation()[part.axis];
    operands[0] = recurse(operands[0], part);
  } else {
    return nullptr;
  }
  if (llvm::is_contained(operands, Value())) {
    return nullptr;
  }
  return builder ? rebuild(*builder, op, operands, type)->getResult(0) : value;
}

} // namespace

LogicalResult splitProducts(ModuleOp module, tn::WeightStore &weights) {
  SmallVector<tn::SliceOp> slices;
  module.walk([&](tn::SliceOp op) {
    if (isReadInSlices(op.getX()) && sliceAtSource(nullptr, op.getX(), *dimSlice(op))) {
      slices.push_back(op);
    }
  });
  for (tn::SliceOp op : slices) {
    OpBuilder builder(op);
    op.replaceAllUsesWith(sliceAtSource(&builder, op.getX(), *dimSlice(op)));
    op.erase();
  }
  // The slices of the weights become weights.
  return simplify(module, weights);
}

} // namespace tenon::opt
