// Products of one value with several constants become one product, read in slices: a projection to
// queries, keys and values, or the two halves of a gated layer. Relies on a GPU's attention and
// elementwise regions reading slices in place, so that no part is copied.
#include "compiler/graph/NarrowIntegers.h"
#include "compiler/graph/TnRare.h"
#include "compiler/opt/Match.h"
#include "compiler/opt/Passes.h"
#include "compiler/opt/simplify/DerivedWeights.h"

using namespace mlir;

namespace tenon::opt {
namespace {

/// One of the products that share an operand.
struct Part {
  tn::MatmulOp product;
  /// The addition of a constant vector that alone reads the product, and that vector; or null.
  tn::AddOp sum;
  Value bias;
  int64_t columns = 0;
  int64_t offset = 0;

  Value result() { return sum ? sum->getResult(0) : product->getResult(0); }
};

/// The constant vector over the last dim that `add` adds to `value`, or null.
Value biasOf(tn::AddOp add, Value value, int64_t columns) {
  Value other = add.getA() == value ? add.getB() : add.getA();
  RankedTensorType type = tensorType(other);
  bool isVector = type.getRank() == 1 && type.getDimSize(0) == columns;
  return isVector && add.getType() == value.getType() && Constants::isConstant(other) ? other
                                                                                      : Value();
}

Part makePart(tn::MatmulOp product) {
  RankedTensorType weight = tensorType(product.getB());
  Part part;
  part.product = product;
  part.columns = weight.getDimSize(product.getTransposeB() ? 0 : 1);
  tn::AddOp add =
      product->hasOneUse() ? dyn_cast<tn::AddOp>(*product->getUsers().begin()) : tn::AddOp();
  part.bias = add ? biasOf(add, product, part.columns) : Value();
  part.sum = part.bias ? add : tn::AddOp();
  return part;
}

/// Where a reshape puts the columns of its operand: dim `dim` of the result counts heads of `inner`
/// columns, the dims behind it lie within a head. Dims of one may stand anywhere.
struct HeadSplit {
  size_t dim;
  int64_t inner;
};

std::optional<HeadSplit> headSplit(tn::ReshapeOp reshape) {
  tn::Dims in = tn::getDims(reshape.getX().getType());
  tn::Dims out = tn::getDims(reshape.getType());
  std::optional<int64_t> columns = tn::constantDim(in.back());
  ArrayRef<AffineExpr> rows = ArrayRef(in).drop_back();
  size_t firstFree = 0; // behind the rows
  size_t dim = 0;
  for (; dim < out.size(); ++dim) {
    rows = rows.drop_while(isOne);
    if (isOne(out[dim])) {
      continue;
    }
    if (rows.empty()) {
      break;
    }
    if (!tn::sameDim(rows.front(), out[dim])) {
      return std::nullopt;
    }
    rows = rows.drop_front();
    firstFree = dim + 1;
  }
  if (dim == out.size() || !columns) {
    return std::nullopt;
  }
  // A single head: its dim of one counts.
  bool isSingle = dim > firstFree && tn::constantDim(out[dim]) == columns;
  dim -= isSingle ? 1 : 0;
  std::optional<int64_t> heads = tn::constantDim(out[dim]);
  std::optional<int64_t> inner =
      tn::constantDim(tn::elementCount(reshape.getContext(), ArrayRef(out).drop_front(dim + 1)));
  bool isSplit = heads && inner && *inner > 0 && *heads * *inner == *columns;
  return isSplit ? std::optional(HeadSplit{dim, *inner}) : std::nullopt;
}

/// Reads a slice at no cost: by strides, or in a loop that looks at every element anyway; what
/// is scattered is little beside what it goes into. An addition would rather be the product's own
/// residual.
bool readsInPlace(Operation *op) {
  return isa<tn::AttentionOp, tn::TransposeOp, tn::SliceOp, tn::ConcatOp, tn::ScatterElementsOp,
             tn::ScatterNdOp, tn::PagedWriteOp, tn::LayerNormOp, tn::RmsNormOp>(op) ||
         (op->hasTrait<tn::TnElementwise>() && !isa<tn::AddOp>(op));
}

bool isReadInPlace(Part &part) {
  return llvm::all_of(part.result().getUsers(), [](Operation *user) {
    tn::ReshapeOp split = dyn_cast<tn::ReshapeOp>(user);
    return split ? headSplit(split) && llvm::all_of(split->getUsers(), readsInPlace)
                 : readsInPlace(user) && !isa<tn::AttentionOp>(user);
  });
}

/// Weights of few bits as they are stored, or what they are read through.
Value storedOf(Value weight) {
  tn::DecodeRowsOp rows = weight.getDefiningOp<tn::DecodeRowsOp>();
  return rows ? rows.getRows() : weight;
}

/// Whether two weights may lie one behind the other.
bool areAlike(Value a, Value b) {
  tn::DecodeRowsOp left = a.getDefiningOp<tn::DecodeRowsOp>(),
                   right = b.getDefiningOp<tn::DecodeRowsOp>();
  return left && right ? left->getAttrDictionary() == right->getAttrDictionary() : !left && !right;
}

/// What follows a product of bytes belongs to its tile, and would not to a slice.
bool isCandidate(tn::MatmulOp product) {
  return !tn::isByteProduct(product) && Constants::isConstant(storedOf(product.getB())) &&
         tensorType(product.getB()).getRank() == 2 && !product->use_empty();
}

/// The products that can be computed together with `first`, itself included, in block order.
SmallVector<Part> partsOf(tn::MatmulOp first) {
  SmallVector<Part> parts;
  for (Operation *user : first.getA().getUsers()) {
    tn::MatmulOp product = dyn_cast<tn::MatmulOp>(user);
    bool fits = product && product.getA() == first.getA() && isCandidate(product) &&
                product.getTransposeA() == first.getTransposeA() &&
                product.getTransposeB() == first.getTransposeB() &&
                areAlike(product.getB(), first.getB()) && product->getBlock() == first->getBlock();
    Part part = fits ? makePart(product) : Part();
    if (fits && isReadInPlace(part)) {
      parts.push_back(part);
    }
  }
  llvm::sort(parts,
             [](const Part &a, const Part &b) { return a.product->isBeforeInBlock(b.product); });
  return parts;
}

/// Every head of every part lies on a border of heads of the whole.
bool headsFit(MutableArrayRef<Part> parts, int64_t columns) {
  return llvm::all_of(parts, [&](Part &part) {
    return llvm::all_of(part.result().getUsers(), [&](Operation *user) {
      tn::ReshapeOp split = dyn_cast<tn::ReshapeOp>(user);
      int64_t size = split ? headSplit(split)->inner : 1;
      return part.offset % size == 0 && columns % size == 0;
    });
  });
}

/// The columns [offset, offset + size) of one dim.
Value sliceOf(OpBuilder &builder, Location location, Value value, size_t dim, int64_t offset,
              int64_t size) {
  MLIRContext *context = builder.getContext();
  tn::Dims dims = tn::getDims(value.getType());
  dims[dim] = getAffineConstantExpr(size, context);
  SmallVector<AffineExpr> starts(dims.size(), getAffineConstantExpr(0, context));
  starts[dim] = getAffineConstantExpr(offset, context);
  SmallVector<int64_t> steps(dims.size(), 1);
  RankedTensorType type = tn::makeTensor(dims, tensorType(value).getElementType());
  return tn::SliceOp::create(builder, location, type, value, AffineMap::get(0, 0, starts, context),
                             steps);
}

class Merger {
public:
  Merger(MutableArrayRef<Part> parts, int64_t columns, DerivedWeights &weights)
      : parts(parts), columns(columns), weights(weights), builder(parts.front().product) {}

  void run() {
    whole = makeWhole();
    for (Part &part : parts) {
      for (Operation *user : llvm::make_early_inc_range(part.result().getUsers())) {
        replaceUse(part, user);
      }
      if (part.sum) {
        part.sum->erase();
      }
      part.product->erase();
    }
  }

private:
  Value makeWhole() {
    tn::MatmulOp first = parts.front().product;
    SmallVector<Location> locations;
    SmallVector<Value> factors, biases;
    for (Part &part : parts) {
      locations.push_back(part.product.getLoc());
      factors.push_back(storedOf(part.product.getB()));
      biases.push_back(part.bias);
    }
    location = builder.getFusedLoc(locations);
    tn::Dims dims = tn::getDims(first.getType());
    dims.back() = getAffineConstantExpr(columns, builder.getContext());
    RankedTensorType type = tn::makeTensor(dims, first.getType().getElementType());
    unsigned dim = first.getTransposeB() ? 0 : 1;
    Value factor = weights.concat(builder, *location, factors, dim);
    if (tn::DecodeRowsOp rows = first.getB().getDefiningOp<tn::DecodeRowsOp>()) {
      RankedTensorType matrix = tensorType(rows.getMatrix());
      factor =
          rebuild(builder, rows, factor,
                  RankedTensorType::get({columns, matrix.getDimSize(1)}, matrix.getElementType()))
              ->getResult(0);
    }
    Value product = rebuild(builder, first, {first.getA(), factor}, type)->getResult(0);
    product.getDefiningOp()->setLoc(*location);
    if (llvm::none_of(biases, [](Value bias) { return bias != nullptr; })) {
      return product;
    }
    for (auto [bias, part] : llvm::zip_equal(biases, parts)) {
      bias = bias ? bias : zeros(part.columns, type.getElementType());
    }
    Value bias = weights.concat(builder, *location, biases, 0);
    return tn::AddOp::create(builder, *location, type, product, bias);
  }

  Value zeros(int64_t count, Type element) {
    RankedTensorType type = RankedTensorType::get({count}, element);
    return tn::ConstantOp::create(builder, *location, type,
                                  DenseElementsAttr::get(type, builder.getFloatAttr(element, 0)));
  }

  void replaceUse(Part &part, Operation *user) {
    builder.setInsertionPoint(user);
    size_t last = tn::getDims(whole.getType()).size() - 1;
    tn::ReshapeOp split = dyn_cast<tn::ReshapeOp>(user);
    if (!split) {
      Value slice = sliceOf(builder, user->getLoc(), whole, last, part.offset, part.columns);
      user->replaceUsesOfWith(part.result(), slice);
      return;
    }
    HeadSplit heads = *headSplit(split);
    tn::Dims dims = tn::getDims(split.getType());
    dims[heads.dim] = getAffineConstantExpr(columns / heads.inner, builder.getContext());
    // Equal reshapes, so that the readers of all parts see one value.
    Value &wholeSplit = wholeHeads[tn::makeTensor(dims, tensorType(whole).getElementType())];
    if (!wholeSplit) {
      OpBuilder::InsertionGuard guard(builder);
      builder.setInsertionPointAfterValue(whole);
      wholeSplit = reshape(builder, *location, whole, dims);
    }
    split.replaceAllUsesWith(sliceOf(builder, split.getLoc(), wholeSplit, heads.dim,
                                     part.offset / heads.inner, part.columns / heads.inner));
    split.erase();
  }

  MutableArrayRef<Part> parts;
  int64_t columns;
  DerivedWeights &weights;
  OpBuilder builder;
  std::optional<Location> location;
  Value whole;
  llvm::DenseMap<Type, Value> wholeHeads;
};

/// slice(slice(x)) -> slice(x), for steps of one
struct MergeSlices : OpRewritePattern<tn::SliceOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(tn::SliceOp op, PatternRewriter &rewriter) const override {
    tn::SliceOp inner = op.getX().getDefiningOp<tn::SliceOp>();
    auto isOneStep = [](int64_t step) { return step == 1; };
    if (!inner || !llvm::all_of(op.getSteps(), isOneStep) ||
        !llvm::all_of(inner.getSteps(), isOneStep)) {
      return failure();
    }
    AffineMap outer = op.getStarts(), base = inner.getStarts();
    SmallVector<AffineExpr> starts;
    for (auto [a, b] : llvm::zip_equal(outer.getResults(), base.getResults())) {
      starts.push_back(a + b);
    }
    unsigned symbols = std::max(outer.getNumSymbols(), base.getNumSymbols());
    rewriter.replaceOpWithNewOp<tn::SliceOp>(op, op.getType(), inner.getX(),
                                             AffineMap::get(0, symbols, starts, op.getContext()),
                                             op.getSteps());
    return success();
  }
};

} // namespace

LogicalResult mergeProducts(ModuleOp module, tn::WeightStore &store) {
  DerivedWeights weights(store);
  SmallVector<Value> shared;
  llvm::DenseSet<Value> seen;
  module.walk([&](tn::MatmulOp product) {
    if (isCandidate(product) && seen.insert(product.getA()).second) {
      shared.push_back(product.getA());
    }
  });
  for (Value value : shared) {
    SmallVector<tn::MatmulOp> products;
    for (Operation *user : value.getUsers()) {
      tn::MatmulOp product = dyn_cast<tn::MatmulOp>(user);
      if (product && product.getA() == value && isCandidate(product)) {
        products.push_back(product);
      }
    }
    if (products.size() < 2) {
      continue;
    }
    SmallVector<Part> parts = partsOf(products.back());
    int64_t columns = 0;
    for (Part &part : parts) {
      part.offset = columns;
      columns += part.columns;
    }
    if (parts.size() > 1 && headsFit(parts, columns)) {
      Merger(parts, columns, weights).run();
    }
  }
  // Also drops what the parts were made of.
  RewritePatternSet patterns(module.getContext());
  patterns.add<MergeSlices>(module.getContext());
  return runPatterns(module, std::move(patterns));
}

} // namespace tenon::opt
