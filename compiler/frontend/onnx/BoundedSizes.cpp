// Follows values back to what bounds them, operation by operation.
// Relies on integers that do not wrap around: a size that does is none.
#include "compiler/frontend/onnx/BoundedSizes.h"

#include "compiler/frontend/common/Selection.h"
#include "compiler/frontend/onnx/StatedSizes.h"
#include "compiler/graph/TnRare.h"
#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace tenon::onnx {
namespace {

/// Longer chains of operations are not followed.
constexpr unsigned kMaxDepth = 32;

class Bounds {
public:
  explicit Bounds(const Symbols &theSymbols) : symbols(theSymbols) {}

  AffineExpr of(Value x, unsigned depth = 0) const {
    if (getElementTypeOrSelf(x).isInteger(1)) {
      return symbols.constant(1);
    }
    Operation *op = depth < kMaxDepth ? x.getDefiningOp() : nullptr;
    if (!op) {
      return AffineExpr();
    }
    auto operand = [&](unsigned i) { return of(op->getOperand(i), depth + 1); };
    if (tn::ArgReduceOp search = dyn_cast<tn::ArgReduceOp>(op)) {
      return before(tn::getDims(search.getX().getType())[search.getAxis()]);
    }
    if (tn::TruePositionsOp found = dyn_cast<tn::TruePositionsOp>(op)) {
      AffineExpr length = tn::getDims(found.getX().getType())[0];
      return x == found.getCount() ? length : before(length);
    }
    if (tn::TopKOp best = dyn_cast<tn::TopKOp>(op)) {
      return x == best.getIndices() ? before(tn::getDims(best.getX().getType())[best.getAxis()])
                                    : operand(0);
    }
    return llvm::TypeSwitch<Operation *, AffineExpr>(op)
        .Case<tn::ConstantOp>([&](tn::ConstantOp constant) { return ofConstant(constant); })
        .Case<tn::SizesOp>(
            [&](tn::SizesOp sizes) { return larger(sizes.getValues().getResults()); })
        .Case<tn::CastOp, tn::ReshapeOp, tn::TransposeOp, tn::BroadcastOp, tn::SliceOp,
              tn::GatherOp, tn::GatherElementsOp, tn::GatherNdOp, tn::TakeFirstOp, tn::RequireOp,
              tn::FloorOp>([&](Operation *) { return operand(0); })
        .Case<tn::ConcatOp>([&](tn::ConcatOp concat) {
          SmallVector<AffineExpr> parts;
          for (Value part : concat.getXs()) {
            parts.push_back(of(part, depth + 1));
          }
          return larger(parts);
        })
        .Case<tn::MinOp>([&](Operation *) { return smaller(operand(0), operand(1)); })
        .Case<tn::MaxOp>([&](Operation *) { return larger({operand(0), operand(1)}); })
        .Case<tn::SelectOp>([&](Operation *) { return larger({operand(1), operand(2)}); })
        .Case<tn::AddOp>([&](Operation *) { return addSizes(operand(0), operand(1)); })
        .Case<tn::SubOp>(
            [&](Operation *) { return subtractSizes(operand(0), constantOf(op->getOperand(1))); })
        .Case<tn::MulOp>([&](Operation *) {
          AffineExpr left = constantOf(op->getOperand(0)), right = constantOf(op->getOperand(1));
          AffineExpr factor = right ? right : left;
          bool isRising = factor && *tn::constantDim(factor) >= 0;
          return isRising ? multiplySizes(operand(right ? 0 : 1), factor) : AffineExpr();
        })
        .Case<tn::DivOp>([&](Operation *) {
          return divideSizes(symbols, operand(0), constantOf(op->getOperand(1)));
        })
        .Case<tn::ClampOp>([&](tn::ClampOp clamp) {
          double high = clamp.getHi().convertToDouble();
          bool isSize = high >= 0 && high < 1e9;
          return isSize ? smaller(symbols.constant(static_cast<int64_t>(high)), operand(0))
                        : operand(0);
        })
        .Case<tn::ReduceOp>([&](tn::ReduceOp reduce) { return ofReduction(reduce, operand(0)); })
        .Default([](Operation *) { return AffineExpr(); });
  }

private:
  AffineExpr before(AffineExpr size) const { return addSizes(size, symbols.constant(-1)); }

  AffineExpr constantOf(Value x) const {
    tn::ConstantOp constant = x.getDefiningOp<tn::ConstantOp>();
    return constant && constant.getValue().getNumElements() == 1 ? ofConstant(constant)
                                                                 : AffineExpr();
  }

  AffineExpr ofConstant(tn::ConstantOp constant) const {
    DenseIntElementsAttr values = dyn_cast<DenseIntElementsAttr>(constant.getValue());
    if (!values || values.empty()) {
      return AffineExpr();
    }
    int64_t most = std::numeric_limits<int64_t>::min();
    for (const APInt &value : values.getValues<APInt>()) {
      most = std::max(most, value.getSExtValue());
    }
    return symbols.constant(most);
  }

  /// Of sums: as much as if every element were the largest.
  AffineExpr ofReduction(tn::ReduceOp reduce, AffineExpr element) const {
    if (reduce.getKind() == tn::ReduceKind::max || reduce.getKind() == tn::ReduceKind::min) {
      return element;
    }
    if (reduce.getKind() != tn::ReduceKind::sum || !element || symbols.bounds(element).min < 0) {
      return AffineExpr();
    }
    for (int64_t axis : reduce.getAxes()) {
      element = multiplySizes(element, tn::getDims(reduce.getX().getType())[axis]);
    }
    return element;
  }

  AffineExpr smaller(AffineExpr a, AffineExpr b) const {
    bool isSecond = !a || (b && symbols.compare(b, Comparison::LessOrEqual, a) == true);
    return isSecond ? b : a;
  }

  AffineExpr larger(ArrayRef<AffineExpr> all) const {
    AffineExpr most = all.empty() ? AffineExpr() : all[0];
    for (AffineExpr next : all) {
      if (!most || !next) {
        return AffineExpr();
      }
      if (symbols.compare(most, Comparison::LessOrEqual, next) == true) {
        most = next;
      } else if (symbols.compare(next, Comparison::LessOrEqual, most) != true) {
        return AffineExpr();
      }
    }
    return most;
  }

  const Symbols &symbols;
};

/// The operation of this type on x that is there already, or a new one: what is equal has one name.
template <typename Op> Value once(NodeContext &c, Value x, RankedTensorType type) {
  if (!x || x.getType() == type) {
    return x;
  }
  for (Operation *user : x.getUsers()) {
    if (isa<Op>(user) && user->getResultTypes().front() == type) {
      return user->getResult(0);
    }
  }
  return c.makeTyped<Op>(type, x);
}

/// What an integer is cast or reshaped from, as long as it is one element.
Value origin(Value x) {
  while (Operation *op = x.getDefiningOp()) {
    bool isSame =
        isa<tn::ReshapeOp>(op) ||
        (isa<tn::CastOp>(op) && isa<IntegerType>(getElementTypeOrSelf(op->getOperand(0))));
    RankedTensorType from = isSame ? cast<RankedTensorType>(op->getOperand(0).getType()) : nullptr;
    if (!from || !from.hasStaticShape() || from.getNumElements() != 1 ||
        from.getElementType().isInteger(1)) {
      break;
    }
    x = op->getOperand(0);
  }
  return x;
}

/// Those of `all` that constant indices name; none if they are no constants or lie outside.
bool pickElements(ArrayRef<AffineExpr> all, Value indices, SmallVectorImpl<AffineExpr> &elements) {
  tn::ConstantOp constant = indices.getDefiningOp<tn::ConstantOp>();
  if (!constant) {
    return false;
  }
  for (const APInt &value : constant.getValue().getValues<APInt>()) {
    int64_t index = value.getSExtValue(), size = static_cast<int64_t>(all.size());
    index += index < 0 ? size : 0;
    if (index < 0 || index >= size) {
      return false;
    }
    elements.push_back(all[index]);
  }
  return true;
}

/// The elements of a list one by one; none if their number is not known or too large.
bool takeElements(NodeContext &c, Value list, SmallVectorImpl<AffineExpr> &elements,
                  unsigned depth = 0) {
  RankedTensorType type = list ? cast<RankedTensorType>(list.getType()) : RankedTensorType();
  if (!type || !type.hasStaticShape() || type.getNumElements() > Sizes::kMaxElements ||
      depth == kMaxDepth) {
    return false;
  }
  if (tn::ConcatOp concat = list.getDefiningOp<tn::ConcatOp>(); concat && type.getRank() == 1) {
    return llvm::all_of(concat.getXs(),
                        [&](Value part) { return takeElements(c, part, elements, depth + 1); });
  }
  if (tn::SizesOp sizes = list.getDefiningOp<tn::SizesOp>()) {
    llvm::append_range(elements, sizes.getValues().getResults());
    return true;
  }
  if (tn::ConstantOp constant = list.getDefiningOp<tn::ConstantOp>()) {
    for (const APInt &value : constant.getValue().getValues<APInt>()) {
      elements.push_back(c.constantSize(value.getSExtValue()));
    }
    return true;
  }
  if (Operation *op = list.getDefiningOp();
      isa_and_nonnull<tn::CastOp, tn::ReshapeOp>(op) &&
      isa<IntegerType>(getElementTypeOrSelf(op->getOperand(0)))) {
    return takeElements(c, op->getOperand(0), elements, depth + 1);
  }
  if (tn::GatherOp gather = list.getDefiningOp<tn::GatherOp>();
      gather && cast<RankedTensorType>(gather.getX().getType()).getRank() == 1) {
    SmallVector<AffineExpr> all;
    return takeElements(c, gather.getX(), all, depth + 1) &&
           pickElements(all, gather.getIndices(), elements);
  }
  Value flat = c.reshape(list, c.constantSize(type.getNumElements()));
  for (int64_t i = 0; i < type.getNumElements(); ++i) {
    Value element = type.getNumElements() == 1
                        ? list
                        : c.sliceAxis(flat, 0, c.constantSize(i), c.constantSize(1));
    elements.push_back(element ? boundedSize(c, element) : AffineExpr());
    if (!elements.back()) {
      return false;
    }
  }
  return true;
}

} // namespace

AffineExpr mostOf(const Symbols &symbols, Value x) { return Bounds(symbols).of(x); }

namespace {

/// A size that data decides, as a scalar of i64 that every node that reads this integer shares.
Value countOf(NodeContext &c, Value x) {
  Value count = once<tn::ReshapeOp>(c, x, RankedTensorType::get({}, getElementTypeOrSelf(x)));
  return once<tn::CastOp>(c, count, RankedTensorType::get({}, c.builder().getI64Type()));
}

/// The symbol that one of a count's users bound already, checked or not.
AffineExpr boundSymbol(Value count) {
  for (Operation *user : count.getUsers()) {
    tn::TakeFirstOp taken = dyn_cast<tn::TakeFirstOp>(user);
    if (taken && taken.getX().getDefiningOp<tn::IotaOp>()) {
      return tn::getDims(taken.getType())[0];
    }
    tn::RequireOp checked = dyn_cast<tn::RequireOp>(user);
    AffineExpr symbol =
        checked && checked.getX() == count ? boundSymbol(checked.getResult()) : AffineExpr();
    if (symbol) {
      return symbol;
    }
  }
  return AffineExpr();
}

AffineExpr bindSymbol(NodeContext &c, Value count, ArrayRef<AffineExpr> most) {
  Value taken = takeFirst(c, c.positions(most.front()), count, 0, most);
  return taken ? tn::getDims(taken.getType())[0] : AffineExpr();
}

} // namespace

AffineExpr boundedSize(NodeContext &c, Value x) {
  if (!x || c.failed()) {
    return AffineExpr();
  }
  x = origin(x);
  AffineExpr most = mostOf(c.symbols(), x);
  bool isSize = most && c.symbols().bounds(most).max >= 0;
  if (!isSize && x.use_empty()) {
    return AffineExpr(); // nobody has bounded it
  }
  Value count = countOf(c, x);
  AffineExpr known = count ? boundSymbol(count) : AffineExpr();
  return known || !count || !isSize ? known : bindSymbol(c, count, {most});
}

AffineExpr requiredSize(NodeContext &c, Value x, ArrayRef<AffineExpr> most, const Twine &what) {
  Value count = x && !c.failed() ? countOf(c, origin(x)) : Value();
  if (!count) {
    return AffineExpr();
  }
  Type index = c.builder().getI64Type();
  Value fits = c.compare(count, tn::Predicate::ge, c.scalar(0, index));
  for (AffineExpr size : most) {
    fits = c.make<tn::AndOp>(fits, c.compare(count, tn::Predicate::le, c.sizeValue(size, index)));
  }
  Value checked = requireCondition(c, count, fits, what);
  return checked ? bindSymbol(c, checked, most) : AffineExpr();
}

std::optional<Sizes> boundedSizes(NodeContext &c, unsigned i) {
  if (std::optional<Sizes> known = c.sizes(i)) {
    return known;
  }
  Value list = c.value(i);
  Sizes result{list ? SmallVector<int64_t>(c.type(i).getShape()) : SmallVector<int64_t>(), {}};
  bool isBounded = list && isa<IntegerType>(c.element(i)) && takeElements(c, list, result.values);
  return isBounded && !c.failed() ? std::optional(result) : std::nullopt;
}

} // namespace tenon::onnx
