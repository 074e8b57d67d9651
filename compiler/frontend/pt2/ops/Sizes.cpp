// Arithmetic on sizes, which becomes expressions instead of operations, and claims about them.
#include "compiler/frontend/common/Selection.h"
#include "compiler/frontend/pt2/Call.h"
#include "compiler/frontend/pt2/ops/Numbers.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;

namespace tenon::pt2 {
namespace {

void sizeOfDim(Call &c) {
  RankedTensorType type = c.type("self");
  if (type) {
    c.setSize(tn::getDims(type)[c.axis("dim", 0, type.getRank())]);
  }
}
void numberOfElements(Call &c) {
  if (RankedTensorType type = c.type("self")) {
    c.setSize(tn::elementCount(type.getContext(), tn::getDims(type)));
  }
}

using Function = AffineExpr (*)(Call &, AffineExpr, AffineExpr);

/// The smaller of sizes that data decides is such a size itself: as many positions are taken as it
/// says.
AffineExpr minimumByData(Call &c, AffineExpr a, AffineExpr b) {
  Type index = c.builder().getI64Type();
  mlir::Value count = c.min(c.sizeValue(a, index), c.sizeValue(b, index));
  mlir::Value taken = frontend::takeFirst(c, c.positions(a), count, 0, {a, b});
  return taken ? tn::getDims(taken.getType())[0] : AffineExpr();
}

AffineExpr minimum(Call &c, AffineExpr a, AffineExpr b) {
  bool dependsOnData = c.symbols().dependsOnData(a) || c.symbols().dependsOnData(b);
  bool isOpen = dependsOnData && !c.symbols().compare(a, frontend::Comparison::LessOrEqual, b);
  return isOpen ? minimumByData(c, a, b) : c.symbols().lesser(a, b);
}
AffineExpr maximum(Call &c, AffineExpr a, AffineExpr b) { return c.symbols().greater(a, b); }
AffineExpr add(Call &, AffineExpr a, AffineExpr b) { return frontend::addSizes(a, b); }
AffineExpr subtract(Call &, AffineExpr a, AffineExpr b) { return frontend::subtractSizes(a, b); }
AffineExpr multiply(Call &, AffineExpr a, AffineExpr b) { return frontend::multiplySizes(a, b); }
AffineExpr divide(Call &c, AffineExpr a, AffineExpr b) {
  std::optional<int64_t> divisor = tn::constantDim(b);
  if (divisor && *divisor > 0) {
    return tn::simplify(a.floorDiv(*divisor));
  }
  return frontend::divideSizes(c.symbols(), a, b);
}
AffineExpr remainder(Call &c, AffineExpr a, AffineExpr b) {
  return frontend::remainderSizes(c.symbols(), a, b);
}

/// Both operands by position: functions of Python have other names for them. What is no size is a
/// number that the run computes.
template <Function function, Arithmetic onNumbers> void binary(Call &c) {
  bool areSizes = c.isSizeAt(0) && c.isSizeAt(1);
  AffineExpr a = areSizes ? c.sizeAt(0) : AffineExpr(), b = areSizes ? c.sizeAt(1) : AffineExpr();
  AffineExpr size = a && b ? function(c, a, b) : AffineExpr();
  size ? c.setSize(size) : setArithmetic(c, onNumbers);
}
void negate(Call &c) {
  c.isSizeAt(0) ? c.setSize(frontend::subtractSizes(c.constantSize(0), c.sizeAt(0)))
                : c.setValue(0, {.number = c.unary<tn::NegOp>(c.numberAt(0))});
}

template <tn::Predicate predicate> void claim(Call &c) {
  if (!c.isSizeAt(0) || !c.isSizeAt(1)) {
    auto [a, b] = numbersOf(c);
    return c.setOutput(c.compare(a, predicate, b));
  }
  AffineExpr a = c.sizeAt(0), b = c.sizeAt(1);
  if (a && b) {
    c.setValue(0, {.claim = Claim{a, predicate, b}});
  }
}

/// Whether a claim holds for all sizes; none if that differs or is not known.
std::optional<bool> proven(Call &c, const Claim &claim) {
  auto less = [&](AffineExpr a, AffineExpr b, frontend::Comparison how) {
    return c.symbols().compare(a, how, b);
  };
  using frontend::Comparison;
  std::optional<bool> equal = less(claim.left, claim.right, Comparison::Equal);
  switch (claim.predicate) {
  case tn::Predicate::lt:
    return less(claim.left, claim.right, Comparison::Less);
  case tn::Predicate::le:
    return less(claim.left, claim.right, Comparison::LessOrEqual);
  case tn::Predicate::gt:
    return less(claim.right, claim.left, Comparison::Less);
  case tn::Predicate::ge:
    return less(claim.right, claim.left, Comparison::LessOrEqual);
  case tn::Predicate::eq:
    return equal;
  default:
    return equal ? std::optional(!*equal) : std::nullopt;
  }
}

/// Claims that hold for all sizes are proved; others become constraints where a constraint can say
/// them, and conditions of the run where data decides.
void assertClaim(Call &c) {
  std::string what = c.text("assert_msg", "an assertion of the program");
  const Argument *given = c.positional(0);
  Value *value = given && given->isName() ? c.find(*given) : nullptr;
  if (value && value->tensor) {
    mlir::Value condition = c.cast(value->tensor->value(c), c.builder().getI1Type());
    return c.importer().assertThat(c.reshape(condition, {}), what);
  }
  if (!value || !value->claim) {
    return;
  }
  Claim claim = *value->claim;
  claim.left = c.symbols().canonical(claim.left), claim.right = c.symbols().canonical(claim.right);
  if (proven(c, claim) == true) {
    return;
  }
  bool dependsOnData =
      c.symbols().dependsOnData(claim.left) || c.symbols().dependsOnData(claim.right);
  if (dependsOnData || claim.predicate == tn::Predicate::ne) {
    Type index = c.builder().getI64Type();
    return c.importer().assertThat(
        c.compare(c.sizeValue(claim.left, index), claim.predicate, c.sizeValue(claim.right, index)),
        what);
  }
  AffineExpr one = c.constantSize(1), left = claim.left, right = claim.right;
  switch (claim.predicate) {
  case tn::Predicate::lt:
    std::swap(left = frontend::addSizes(left, one), right);
    break;
  case tn::Predicate::le:
    std::swap(left, right);
    break;
  case tn::Predicate::gt:
    right = frontend::addSizes(right, one);
    break;
  default:
    break;
  }
  c.require(claim.predicate == tn::Predicate::eq ? tn::ConstraintKind::equal
                                                 : tn::ConstraintKind::at_least,
            left, right, "sizes that the program asserts");
}

/// A number out of a tensor: a size where constants decide it. Where data does, only assertions may
/// read it, which are passed over with it.
void item(Call &c) {
  mlir::Value x = c.value("self");
  std::optional<int64_t> known = x ? c.importer().constantInteger(x) : std::nullopt;
  if (known) {
    return c.setSize(c.constantSize(*known));
  }
  Type index = c.builder().getI64Type();
  if (!x || !isa<IntegerType>(getElementTypeOrSelf(x))) {
    return c.gap("a float that data decides cannot become a number of the program",
                 "keep it a tensor");
  }
  std::optional<Range> range = c.statedRange();
  constexpr int64_t kMax = int64_t{1} << 16;
  int64_t most = range ? std::min(range->max, kMax) : kMax;
  mlir::Value count = c.reshape(c.cast(x, index), {});
  if (!range || range->min < 0) {
    // No size, but what is claimed of it can be checked.
    return c.setValue(0, {.number = count});
  }
  // As many positions are taken as it says; more than there are end the run.
  mlir::Value fits =
      c.compare(count, tn::Predicate::le, c.scalar(static_cast<double>(most), index));
  count = c.make<tn::RequireOp>(count, fits, tn::Failure::constraint,
                                "a number that decides a size is at most " + std::to_string(most));
  mlir::Value taken = frontend::takeFirst(c, c.positions(c.constantSize(most)), count, 0);
  c.setSize(taken ? tn::getDims(taken.getType())[0] : AffineExpr());
}

constexpr OpRow kSizeOpRows[] = {
    {"aten.item", item},
    {"aten._local_scalar_dense", item},
    {"aten.sym_size", sizeOfDim},
    {"aten.sym_numel", numberOfElements},
    {"_operator.add", binary<add, Arithmetic::Add>},
    {"_operator.sub", binary<subtract, Arithmetic::Subtract>},
    {"_operator.mul", binary<multiply, Arithmetic::Multiply>},
    {"_operator.floordiv", binary<divide, Arithmetic::FloorDivide>},
    {"_operator.mod", binary<remainder, Arithmetic::Remainder>},
    {"_operator.neg", negate},
    {"torch.sym_min", binary<minimum, Arithmetic::Min>},
    {"torch.sym_max", binary<maximum, Arithmetic::Max>},
    {"_operator.eq", claim<tn::Predicate::eq>},
    {"_operator.ne", claim<tn::Predicate::ne>},
    {"_operator.lt", claim<tn::Predicate::lt>},
    {"_operator.le", claim<tn::Predicate::le>},
    {"_operator.gt", claim<tn::Predicate::gt>},
    {"_operator.ge", claim<tn::Predicate::ge>},
    {"aten._assert_scalar", assertClaim},
};

} // namespace

ArrayRef<OpRow> sizeRows() { return kSizeOpRows; }

} // namespace tenon::pt2
