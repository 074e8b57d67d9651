// The parts are products of their own; nothing behind the cut knows that they were one.
#include "compiler/shard/Sums.h"

#include "compiler/graph/TnShard.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;

namespace tenon::shard {

llvm::DenseSet<Operation *> summable(const Graph &graph) {
  llvm::DenseSet<Operation *> found;
  for (Operation *op : graph.operations()) {
    tn::MatmulOp product = dyn_cast<tn::MatmulOp>(op);
    if (!product || product.getTransposeA() || graph.matrixOf(op) != 1u ||
        !isa<FloatType>(product.getType().getElementType())) {
      continue;
    }
    RankedTensorType matrix = cast<RankedTensorType>(product.getB().getType());
    if (matrix.getRank() == 2 && matrix.hasStaticShape() &&
        matrix.getDimSize(product.getTransposeB() ? 1 : 0) % kSumParts == 0) {
      found.insert(op);
    }
  }
  return found;
}

void addRowCuts(const Graph &graph, const Plan &plan, llvm::DenseSet<Operation *> &sums) {
  for (const auto &[op, strategy] : plan.strategies) {
    if (matrixCutOf(graph, op, strategy) == MatrixCut::Rows) {
      sums.insert(op);
    }
  }
}

Plan planOfOne(const Graph &graph, llvm::DenseSet<Operation *> sums) {
  Plan plan;
  for (Operation *op : graph.operations()) {
    plan.strategies[op] = replicatedStrategy(op);
  }
  plan.sums = std::move(sums);
  return plan;
}

Value partOf(OpBuilder &builder, Location location, Value value, int64_t dim, int64_t part,
             int64_t parts) {
  MLIRContext *context = builder.getContext();
  tn::Dims dims = tn::getDims(value.getType());
  int64_t size = *tn::constantDim(dims[dim]) / parts;
  SmallVector<AffineExpr> starts(dims.size(), getAffineConstantExpr(0, context));
  starts[dim] = getAffineConstantExpr(part * size, context);
  dims[dim] = getAffineConstantExpr(size, context);
  RankedTensorType type =
      tn::makeTensor(dims, cast<RankedTensorType>(value.getType()).getElementType());
  return tn::SliceOp::create(builder, location, type, value, tn::symbolMap(starts, context),
                             SmallVector<int64_t>(dims.size(), 1));
}

namespace {

/// Of a constant that is cut so.
Value partOfCut(OpBuilder &builder, Location location, Value value, const Cut &cut, int64_t part,
                int64_t parts) {
  Operation *op = value.getDefiningOp();
  RankedTensorType type = *typeOfRank(value.getType(), State::split(cut), parts);
  SmallVector<std::optional<Cut>> cuts(op->getNumOperands());
  bool isPassed = false;
  if (tn::ReshapeOp reshape = dyn_cast<tn::ReshapeOp>(op)) {
    cuts[0] = cutThroughReshape(tn::getDims(reshape.getType()),
                                tn::getDims(reshape.getX().getType()), cut, parts);
    isPassed = cuts[0] && typeOfRank(reshape.getX().getType(), State::split(*cuts[0]), parts);
  } else if (std::optional<FactorRule> rule = factorRuleOf(op); rule && op->getNumResults() == 1) {
    int64_t factor = rule->results[0][cut.dim];
    for (auto [own, factors] : llvm::zip_equal(cuts, rule->operands)) {
      const int64_t *found = llvm::find(factors, factor);
      if (factor != FactorRule::kNone && found != factors.end()) {
        own = cut.along(found - factors.begin());
        isPassed = true;
      }
    }
  }
  if (!isPassed) {
    SmallVector<int64_t> sizes, copies;
    for (const Piece &piece : cut.pieces) {
      sizes.push_back(piece.size);
      copies.push_back(piece.copies);
    }
    return tn::RankSliceOp::create(builder, location, type, value, parts, cut.dim, cut.repeat,
                                   sizes, copies, builder.getI64IntegerAttr(part));
  }
  SmallVector<Value> operands;
  for (auto [operand, own] : llvm::zip_equal(op->getOperands(), cuts)) {
    operands.push_back(own ? partOfCut(builder, location, operand, *own, part, parts) : operand);
  }
  Operation *made = builder.clone(*op);
  made->setOperands(operands);
  made->getResult(0).setType(type);
  return made->getResult(0);
}

} // namespace

Value partOfConstant(OpBuilder &builder, Location location, Value value, int64_t dim, int64_t part,
                     int64_t parts) {
  int64_t size = *tn::constantDim(tn::getDims(value.getType())[dim]);
  return partOfCut(builder, location, value, Cut::plain(dim, size), part, parts);
}

Value castTo(OpBuilder &builder, Location location, Value value, Type element) {
  RankedTensorType type = cast<RankedTensorType>(value.getType());
  return type.getElementType() == element
             ? value
             : tn::CastOp::create(builder, location, tn::makeTensor(tn::getDims(type), element),
                                  value);
}

Value sumOf(OpBuilder &builder, Location location, ArrayRef<Value> parts) {
  SmallVector<Value> left;
  for (Value part : parts) {
    left.push_back(castTo(builder, location, part, builder.getF32Type()));
  }
  while (left.size() > 1) {
    SmallVector<Value> sums;
    for (size_t i = 0; i < left.size(); i += 2) {
      sums.push_back(tn::AddOp::create(builder, location, left[i], left[i + 1]));
    }
    left = std::move(sums);
  }
  return left.front();
}

} // namespace tenon::shard
