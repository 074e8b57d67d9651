// The same elements under other dims: views, squeezes, flattening. All are views of their operand.

#include "compiler/frontend/pt2/Call.h"

#include "compiler/graph/ElementType.h"
#include "compiler/graph/TnRare.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;

namespace tenon::pt2 {
namespace {

using frontend::Emitter;

/// `self` as a view with these dims; memory of its own where PyTorch may copy.
void reshapeTo(Call &c, tn::Dims dims) {
  mlir::Value x = c.value("self");
  if (!x || c.failed()) {
    return;
  }
  tn::Dims own = tn::getDims(x.getType());
  ViewFunctions functions = {
      [dims](Emitter &e, mlir::Value base) { return e.reshape(base, dims); },
      [own](Emitter &e, mlir::Value, mlir::Value view) { return e.reshape(view, own); }};
  bool mayCopy = llvm::is_contained(
      {"aten.reshape", "aten.reshape_as", "aten.flatten", "aten.ravel"}, c.target.name);
  c.setPerhapsView("self", mayCopy ? c.isViewAs("self", dims) : true, functions);
}

/// Dims with the one that is -1 inferred; none after a failure.
std::optional<tn::Dims> inferred(Call &c, ArrayRef<AffineExpr> from, tn::Dims dims) {
  std::optional<size_t> open;
  for (auto [i, dim] : llvm::enumerate(dims)) {
    if (!dim) {
      return std::nullopt;
    }
    if (tn::constantDim(dim) == -1) {
      open = i;
    }
  }
  if (!open) {
    return dims;
  }
  tn::Dims others = dims;
  others.erase(others.begin() + *open);
  dims[*open] = frontend::divideProducts(c.symbols(), from, others);
  bool isEmpty = llvm::any_of(others, [](AffineExpr dim) { return tn::constantDim(dim) == 0; });
  if (!dims[*open] && isEmpty) {
    dims[*open] = c.constantSize(0);
  }
  if (!dims[*open]) {
    c.gap("the inferred dimension cannot be written as an expression", "fix shapes with --shape");
    return std::nullopt;
  }
  return dims;
}

/// The same bits as another type of the same width.
void viewBits(Call &c) {
  mlir::Value x = c.value("self");
  Type from = x ? getElementTypeOrSelf(x) : Type(), to = c.elementNamed("dtype", from);
  auto isHeld = [](Type type) { return !type.isInteger(1) && !tn::isLowBit(type); };
  if (!from || !to || from == to) {
    return c.forward("self");
  }
  if (!isHeld(from) || !isHeld(to) || from.getIntOrFloatBitWidth() != to.getIntOrFloatBitWidth()) {
    return c.gap("a view as a type of another width is not supported", "convert the elements");
  }
  auto cast = [](Type type) {
    return [type](Emitter &e, mlir::Value value) {
      return e.makeTyped<tn::BitcastOp>(tn::withElement(value.getType(), type), value);
    };
  };
  c.setView("self", {cast(to), [back = cast(from)](Emitter &e, mlir::Value, mlir::Value view) {
                       return back(e, view);
                     }});
}

void view(Call &c) {
  mlir::Value x = c.value("self");
  if (!x) {
    return;
  }
  if (c.has("dtype")) {
    return viewBits(c);
  }
  std::optional<tn::Dims> dims =
      inferred(c, tn::getDims(x.getType()), c.sizes(c.has("size") ? "size" : "shape"));
  if (dims) {
    reshapeTo(c, *dims);
  }
}
void viewAs(Call &c) {
  if (RankedTensorType other = c.type("other")) {
    reshapeTo(c, tn::getDims(other));
  }
}

void flatten(Call &c) {
  mlir::Value x = c.value("self");
  if (!x) {
    return;
  }
  tn::Dims own = tn::getDims(x.getType()), dims;
  int64_t rank = rankOf(x);
  int64_t first = c.axis("start_dim", 0, rank), last = c.axis("end_dim", -1, rank);
  if (rank == 0) {
    return reshapeTo(c, {c.constantSize(1)});
  }
  AffineExpr product = c.constantSize(1);
  for (int64_t d = 0; d < rank; ++d) {
    if (d < first || d > last) {
      dims.push_back(own[d]);
      continue;
    }
    product = frontend::multiplySizes(product, own[d]);
    if (d == last) {
      dims.push_back(product);
    }
  }
  if (llvm::is_contained(dims, AffineExpr())) {
    return c.gap("the flattened size cannot be written as an expression",
                 "declare the input shapes with --shape");
  }
  reshapeTo(c, dims);
}
void unflatten(Call &c) {
  mlir::Value x = c.value("self");
  if (!x) {
    return;
  }
  tn::Dims dims = tn::getDims(x.getType());
  int64_t axis = c.axis("dim", 0, rankOf(x));
  std::optional<tn::Dims> parts = inferred(c, {dims[axis]}, c.sizes("sizes"));
  if (parts) {
    dims.erase(dims.begin() + axis);
    dims.insert(dims.begin() + axis, parts->begin(), parts->end());
    reshapeTo(c, dims);
  }
}

void unsqueeze(Call &c) {
  mlir::Value x = c.value("self");
  if (!x) {
    return;
  }
  tn::Dims dims = tn::getDims(x.getType());
  dims.insert(dims.begin() + c.axis("dim", 0, rankOf(x) + 1), c.constantSize(1));
  reshapeTo(c, dims);
}
/// Holds every run to a size for which a dim that is to be squeezed stays: none but 1 goes. False
/// after a failure.
bool holdDim(Call &c, AffineExpr dim) {
  AffineExpr one = c.constantSize(1);
  if (c.symbols().dependsOnData(dim)) {
    Type index = c.builder().getI64Type();
    mlir::Value stays =
        c.compare(c.sizeValue(dim, index), tn::Predicate::ne, c.sizeValue(one, index));
    c.importer().assertThat(stays, "a dimension to squeeze, whose size data decides, is not 1");
    return true;
  }
  // 0 stays too, but for the product of both distances from 1 no other constraint says so.
  AffineExpr distance = frontend::subtractSizes(dim, one);
  bool mayBeZero = c.symbols().bounds(dim).min <= 0 && distance;
  AffineExpr square = mayBeZero ? frontend::multiplySizes(distance, distance) : AffineExpr();
  return c.require(tn::ConstraintKind::at_least, square ? square : dim,
                   c.constantSize(square ? 1 : 2), "a dimension to squeeze and 2");
}
void squeeze(Call &c) {
  mlir::Value x = c.value("self");
  if (!x) {
    return;
  }
  tn::Dims own = tn::getDims(x.getType()), dims;
  SmallVector<int64_t> axes =
      c.has("dim") ? c.axes("dim", rankOf(x), /*emptyIsAll=*/false)
                   : llvm::to_vector(llvm::seq<int64_t>(0, static_cast<int64_t>(own.size())));
  // torch.export takes no size of an input that varies for 1.
  for (auto [i, dim] : llvm::enumerate(own)) {
    bool isListed = llvm::is_contained(axes, static_cast<int64_t>(i));
    if (isListed && !tn::constantDim(dim) && !holdDim(c, dim)) {
      return;
    }
    if (!isListed || tn::constantDim(dim) != 1) {
      dims.push_back(dim);
    }
  }
  reshapeTo(c, dims);
}

constexpr OpRow kShapeOpRows[] = {
    {"aten.view", view},         {"aten._unsafe_view", view},    {"aten.reshape", view},
    {"aten.view_copy", view},    {"aten._reshape_copy", view},   {"aten.view_as", viewAs},
    {"aten.reshape_as", viewAs}, {"aten.flatten", flatten},      {"aten.unflatten", unflatten},
    {"aten.ravel", flatten},     {"aten.unsqueeze", unsqueeze},  {"aten.unsqueeze_copy", unsqueeze},
    {"aten.squeeze", squeeze},   {"aten.squeeze_copy", squeeze},
};

} // namespace

ArrayRef<OpRow> shapeRows() { return kShapeOpRows; }

} // namespace tenon::pt2
