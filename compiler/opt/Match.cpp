// Small questions that patterns ask about operations, dims and permutations, and the way to run
// patterns. Relies on graph/Shape.h for symbolic dims.
#include "compiler/opt/Match.h"

#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

using namespace mlir;

namespace tenon::opt {
namespace {

/// Far above what any model needs: rounds over the module, rewrites for each of its operations.
constexpr int64_t kMaxRounds = 100;
constexpr int64_t kMaxRewrites = 100;

} // namespace

LogicalResult runPatterns(ModuleOp module, RewritePatternSet &&patterns) {
  GreedyRewriteConfig config;
  // A model is one straight block; patterns end because each removes or moves something for good.
  // Two that undo each other would be our fault: then give up instead of running forever.
  int64_t operations = 0;
  module.walk([&](Operation *) { ++operations; });
  config.setRegionSimplificationLevel(GreedySimplifyRegionLevel::Disabled);
  config.setMaxIterations(kMaxRounds);
  config.setMaxNumRewrites(kMaxRewrites * (operations + 1));
  if (failed(applyPatternsGreedily(module, std::move(patterns), config))) {
    return module.emitError("internal: the rewrites do not come to an end");
  }
  return success();
}

std::optional<WithScalar> matchScale(Value result, Constants &constants) {
  // Of 16-bit floats by a number that has more digits.
  if (tn::CastOp narrowed = result.getDefiningOp<tn::CastOp>();
      narrowed && narrowed.getX().hasOneUse() && getElementTypeOrSelf(narrowed.getX()).isF32() &&
      isa<FloatType>(getElementTypeOrSelf(result))) {
    std::optional<WithScalar> wide = matchScale(narrowed.getX(), constants);
    tn::CastOp widened = wide ? wide->value.getDefiningOp<tn::CastOp>() : tn::CastOp();
    bool isProduct =
        widened && widened->hasOneUse() && widened.getX().getType() == result.getType();
    return isProduct ? std::optional(WithScalar{widened.getX(), wide->scalar}) : std::nullopt;
  }
  if (std::optional<WithScalar> product = matchScalar<tn::MulOp>(result, constants)) {
    return product;
  }
  std::optional<WithScalar> quotient = matchScalar<tn::DivOp>(result, constants);
  if (!quotient || quotient->scalar == 0 || !isa<FloatType>(getElementTypeOrSelf(result))) {
    return std::nullopt;
  }
  return WithScalar{quotient->value, 1.0 / quotient->scalar};
}

std::optional<SmallVector<int64_t>> staticShape(Value value) {
  RankedTensorType type = tensorType(value);
  if (!type.hasStaticShape()) {
    return std::nullopt;
  }
  return SmallVector<int64_t>(type.getShape());
}

bool isOne(AffineExpr dim) { return dim && tn::constantDim(dim) == 1; }

bool isMoved(Operation *op) {
  return isa_and_nonnull<tn::TransposeOp, tn::ReshapeOp, tn::BroadcastOp, tn::SliceOp>(op);
}

bool sameShape(Value a, Value b) {
  return tn::sameDims(tn::getDims(a.getType()), tn::getDims(b.getType()));
}

bool isIdentity(ArrayRef<int64_t> permutation) {
  for (auto [i, from] : llvm::enumerate(permutation)) {
    if (static_cast<int64_t>(i) != from) {
      return false;
    }
  }
  return true;
}

Permutation inverse(ArrayRef<int64_t> permutation) {
  Permutation result(permutation.size());
  for (auto [i, from] : llvm::enumerate(permutation)) {
    result[from] = i;
  }
  return result;
}

Permutation compose(ArrayRef<int64_t> first, ArrayRef<int64_t> second) {
  return permuted(first, second);
}

Permutation swapLast(int64_t rank) {
  Permutation result(llvm::to_vector(llvm::seq<int64_t>(0, rank)));
  std::swap(result[rank - 1], result[rank - 2]);
  return result;
}

Value transpose(OpBuilder &builder, Location location, Value value, ArrayRef<int64_t> permutation) {
  if (isIdentity(permutation)) {
    return value;
  }
  tn::Dims dims = permuted(ArrayRef<AffineExpr>(tn::getDims(value.getType())), permutation);
  RankedTensorType type = tn::makeTensor(dims, tensorType(value).getElementType());
  return tn::TransposeOp::create(builder, location, type, value, permutation);
}

Value reshape(OpBuilder &builder, Location location, Value value, ArrayRef<AffineExpr> dims) {
  RankedTensorType type = tn::makeTensor(dims, tensorType(value).getElementType());
  if (type == value.getType()) {
    return value;
  }
  return tn::ReshapeOp::create(builder, location, type, value);
}

Value pad(OpBuilder &builder, Location location, Value value, ArrayRef<int64_t> begins,
          ArrayRef<int64_t> ends, Value number) {
  tn::Dims dims = tn::getDims(value.getType());
  for (auto [dim, begin, end] : llvm::zip_equal(dims, begins, ends)) {
    dim = tn::addDims(dim, builder.getAffineConstantExpr(begin + end));
  }
  return tn::PadOp::create(builder, location,
                           tn::makeTensor(dims, tensorType(value).getElementType()), value, number,
                           builder.getDenseI64ArrayAttr(begins), builder.getDenseI64ArrayAttr(ends),
                           tn::PadModeAttr::get(builder.getContext(), tn::PadMode::constant));
}

Value castTo(OpBuilder &builder, Location location, Value value, Type element) {
  RankedTensorType type = tn::withElement(value.getType(), element);
  return type == value.getType() ? value : tn::CastOp::create(builder, location, type, value);
}

Value withShape(OpBuilder &builder, Value constant, RankedTensorType type) {
  if (tn::WeightOp weight = constant.getDefiningOp<tn::WeightOp>()) {
    return tn::WeightOp::create(builder, weight.getLoc(), type, weight.getId());
  }
  tn::ConstantOp small = constant.getDefiningOp<tn::ConstantOp>();
  DenseElementsAttr dense =
      small ? dyn_cast<DenseElementsAttr>(small.getValue()) : DenseElementsAttr();
  return dense ? tn::ConstantOp::create(builder, small.getLoc(), type, dense.reshape(type))
               : Value();
}

Operation *rebuild(OpBuilder &builder, Operation *op, ValueRange operands, Type type) {
  Operation *copy = builder.clone(*op);
  copy->setOperands(operands);
  copy->getResult(0).setType(type);
  return copy;
}

FailureOr<SmallVector<DimGroup>> groupDims(ArrayRef<AffineExpr> in, ArrayRef<AffineExpr> out) {
  SmallVector<DimGroup> groups;
  if (llvm::is_contained(in, AffineExpr()) || llvm::is_contained(out, AffineExpr()) || in.empty() ||
      out.empty()) {
    return failure();
  }
  MLIRContext *context = in.front().getContext();
  unsigned i = 0;
  unsigned j = 0;
  // The smallest pair of ranges of equal product, by the total number of dims.
  auto findGroup = [&]() -> std::optional<DimGroup> {
    for (unsigned total = 2; total <= (in.size() - i) + (out.size() - j); ++total) {
      for (unsigned taken = 1; taken < total; ++taken) {
        DimGroup group{i, i + taken, j, j + total - taken};
        if (group.inEnd <= in.size() && group.outEnd <= out.size() &&
            tn::sameDim(tn::elementCount(context, in.slice(i, taken)),
                        tn::elementCount(context, out.slice(j, total - taken)))) {
          return group;
        }
      }
    }
    return std::nullopt;
  };
  while (i < in.size() && j < out.size()) {
    std::optional<DimGroup> group = findGroup();
    if (!group) {
      return failure();
    }
    groups.push_back(*group);
    i = group->inEnd;
    j = group->outEnd;
  }
  // What is left over on one side are ones.
  if (!llvm::all_of(in.drop_front(i), isOne) || !llvm::all_of(out.drop_front(j), isOne)) {
    return failure();
  }
  groups.back().inEnd = in.size();
  groups.back().outEnd = out.size();
  return groups;
}

bool isDecided(tn::BroadcastOp broadcast) {
  tn::Dims from = tn::getDims(broadcast.getX().getType());
  tn::Dims to = tn::getDims(broadcast.getY().getType());
  return llvm::all_of(llvm::zip_equal(from, ArrayRef(to).take_back(from.size())),
                      [](const auto &pair) {
                        auto [have, need] = pair;
                        return isOne(have) || tn::sameDim(have, need);
                      });
}

} // namespace tenon::opt
