// Walks from an operand of a product to where it is stored.
#include "compiler/opt/recognize/AttentionOperands.h"

using namespace mlir;

namespace tenon::opt {

tn::Dims liftedDims(ArrayRef<AffineExpr> dims, MLIRContext *context) {
  tn::Dims lifted;
  if (dims.size() <= 4) {
    lifted.assign(4 - dims.size(), getAffineConstantExpr(1, context));
    lifted.append(dims.begin(), dims.end());
    return lifted;
  }
  lifted.push_back(tn::elementCount(context, dims.drop_back(3)));
  ArrayRef<AffineExpr> own = dims.take_back(3);
  lifted.append(own.begin(), own.end());
  return lifted;
}

Value lift(PatternRewriter &rewriter, Value value) {
  tn::Dims dims = liftedDims(tn::getDims(value.getType()), rewriter.getContext());
  return reshape(rewriter, value.getLoc(), value, dims);
}

Permutation liftedOrder(ArrayRef<int64_t> order) {
  if (order.size() > 4) {
    return isIdentity(order) ? llvm::to_vector(llvm::seq<int64_t>(0, 4)) : Permutation();
  }
  int64_t before = 4 - static_cast<int64_t>(order.size());
  Permutation lifted = llvm::to_vector(llvm::seq<int64_t>(0, before));
  for (int64_t from : order) {
    lifted.push_back(from + before);
  }
  return lifted;
}

namespace {

/// A transpose without dim `left` of its result, which is 1.
Value withoutDim(PatternRewriter &rewriter, tn::TransposeOp op, int64_t left) {
  Permutation order(op.getPermutation());
  int64_t from = order[left];
  order.erase(order.begin() + left);
  for (int64_t &dim : order) {
    dim -= dim > from ? 1 : 0;
  }
  tn::Dims dims = tn::getDims(op.getX().getType());
  dims.erase(dims.begin() + from);
  Value x = reshape(rewriter, op.getLoc(), op.getX(), dims);
  return transpose(rewriter, op.getLoc(), x, order);
}

} // namespace

Value beforeRepeat(PatternRewriter &rewriter, Value value, int64_t heads) {
  tn::ReshapeOp merged = value.getDefiningOp<tn::ReshapeOp>();
  tn::BroadcastOp broadcast = merged ? merged.getX().getDefiningOp<tn::BroadcastOp>() : nullptr;
  if (!broadcast || tensorType(broadcast).getRank() != tensorType(value).getRank() + 1) {
    return {};
  }
  tn::Dims out = tn::getDims(value.getType()), wide = tn::getDims(broadcast.getType()),
           in = tn::getDims(broadcast.getX().getType());
  if (in.size() != wide.size() || !isOne(in[heads + 1])) {
    return {};
  }
  in.erase(in.begin() + heads + 1);
  wide.erase(wide.begin() + heads + 1);
  bool isRepetition = tn::sameDims(in, wide);
  out[heads] = wide[heads];
  if (!isRepetition || !tn::sameDims(out, wide)) {
    return {};
  }
  tn::ReshapeOp split = broadcast.getX().getDefiningOp<tn::ReshapeOp>();
  if (split && tn::sameDims(tn::getDims(split.getX().getType()), in)) {
    return split.getX();
  }
  if (tn::TransposeOp turned = broadcast.getX().getDefiningOp<tn::TransposeOp>()) {
    return withoutDim(rewriter, turned, heads + 1);
  }
  return reshape(rewriter, value.getLoc(), broadcast.getX(), in);
}

Operand makeOperand(PatternRewriter &rewriter, Value value, bool swapped, bool sharesHeads,
                    Constants &constants) {
  Value source = value;
  int64_t rank = tensorType(value).getRank();
  Permutation order = llvm::to_vector(llvm::seq<int64_t>(0, rank));
  double scale = 1;
  bool shared = false;
  while (true) {
    if (std::optional<WithScalar> scaled = matchScale(source, constants)) {
      source = scaled->value;
      scale *= scaled->scalar;
    } else if (tn::TransposeOp transposed = source.getDefiningOp<tn::TransposeOp>()) {
      order = compose(transposed.getPermutation(), order);
      source = transposed.getX();
    } else if (Value own =
                   sharesHeads && rank == 4 ? beforeRepeat(rewriter, source, order[1]) : Value()) {
      source = own;
      shared = true;
    } else {
      break;
    }
  }
  if (swapped) {
    order = compose(order, swapLast(rank));
  }
  Permutation lifted = liftedOrder(order);
  bool isInner = ArrayRef<int64_t>(lifted) == ArrayRef<int64_t>(kHeadsInner);
  if (isInner || (!lifted.empty() && isIdentity(lifted))) {
    return {lift(rewriter, source), isInner, scale};
  }
  if (shared) {
    return makeOperand(rewriter, value, swapped, /*sharesHeads=*/false, constants);
  }
  return {
      lift(rewriter, swapped ? transpose(rewriter, value.getLoc(), value, swapLast(rank)) : value)};
}

} // namespace tenon::opt
