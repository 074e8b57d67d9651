// Arithmetic on sizes, which becomes expressions instead of operations, and claims about them.
#include "compiler/frontend/common/Selection.h"
#include "compiler/frontend/pt2/Call.h"
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
  std::optional<bool> known = c.symbols().compare(a, frontend::Comparison::LessOrEqual, b);
  if (!known && (c.symbols().dependsOnData(a) || c.symbols().dependsOnData(b))) {
    return minimumByData(c, a, b);
  }
  return known ? (*known ? a : b) : AffineExpr();
}
AffineExpr maximum(Call &c, AffineExpr a, AffineExpr b) {
  std::optional<bool> known = c.symbols().compare(a, frontend::Comparison::LessOrEqual, b);
  return known ? (*known ? b : a) : AffineExpr();
}
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

/// Both operands by position: functions of Python have other names for them.
template <Function function> void binary(Call &c) {
  AffineExpr a = c.sizeAt(0), b = c.sizeAt(1);
  if (a && b) {
    c.setSize(function(c, a, b));
  }
}
void negate(Call &c) {
  if (AffineExpr a = c.sizeAt(0)) {
    c.setSize(frontend::subtractSizes(c.constantSize(0), a));
  }
}

template <tn::Predicate predicate> void claim(Call &c) {
  AffineExpr a = c.sizeAt(0), b = c.sizeAt(1);
  if (a && b) {
    c.setValue(0, {.claim = Claim{a, predicate, b}});
  }
}

/// Claims that hold for all sizes are proved; others become constraints, which each run checks.
void assertClaim(Call &c) {
  c.ignore({"assert_msg"});
  const Argument *given = c.positional(0);
  Value *value = given && given->isName() ? c.find(*given) : nullptr;
  if (!value || !value->claim) {
    return;
  }
  auto [left, predicate, right] = *value->claim;
  AffineExpr one = c.constantSize(1);
  left = c.symbols().canonical(left), right = c.symbols().canonical(right);
  bool dependsOnData = c.symbols().dependsOnData(left) || c.symbols().dependsOnData(right);
  switch (predicate) {
  case tn::Predicate::lt:
    right = frontend::subtractSizes(right, one);
    [[fallthrough]];
  case tn::Predicate::le:
    std::swap(left, right);
    break;
  case tn::Predicate::gt:
    right = frontend::addSizes(right, one);
    break;
  default:
    break;
  }
  if (predicate == tn::Predicate::ne || dependsOnData) {
    // What is computed from such sizes proves what it needs itself.
    return;
  }
  c.require(predicate == tn::Predicate::eq ? tn::ConstraintKind::equal
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
  constexpr int64_t kMost = int64_t{1} << 16;
  int64_t most = range ? std::min(range->max, kMost) : kMost;
  if (!range || range->min < 0) {
    return c.gap("an integer that data decides, and that may be negative, cannot become a size",
                 "state its range with torch._check");
  }
  // As many positions are taken as it says; more than there are end the run.
  mlir::Value count = c.reshape(c.cast(x, index), {});
  mlir::Value fits =
      c.compare(count, tn::Predicate::le, c.scalar(static_cast<double>(most), index));
  count = c.make<tn::RequireOp>(count, fits, tn::Failure::constraint,
                                "a number that decides a size is at most " + std::to_string(most));
  mlir::Value taken = frontend::takeFirst(c, c.positions(c.constantSize(most)), count, 0);
  c.setSize(taken ? tn::getDims(taken.getType())[0] : AffineExpr());
}

constexpr OpRow kRows[] = {
    {"aten.item", item},
    {"aten._local_scalar_dense", item},
    {"aten.sym_size", sizeOfDim},
    {"aten.sym_numel", numberOfElements},
    {"_operator.add", binary<add>},
    {"_operator.sub", binary<subtract>},
    {"_operator.mul", binary<multiply>},
    {"_operator.floordiv", binary<divide>},
    {"_operator.mod", binary<remainder>},
    {"_operator.neg", negate},
    {"torch.sym_min", binary<minimum>},
    {"torch.sym_max", binary<maximum>},
    {"_operator.eq", claim<tn::Predicate::eq>},
    {"_operator.ne", claim<tn::Predicate::ne>},
    {"_operator.lt", claim<tn::Predicate::lt>},
    {"_operator.le", claim<tn::Predicate::le>},
    {"_operator.gt", claim<tn::Predicate::gt>},
    {"_operator.ge", claim<tn::Predicate::ge>},
    {"aten._assert_scalar", assertClaim},
};

} // namespace

ArrayRef<OpRow> sizeRows() { return kRows; }

} // namespace tenon::pt2
