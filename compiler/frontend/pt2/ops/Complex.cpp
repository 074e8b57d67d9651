// Complex tensors, which are two tensors of the importer: the real and the imaginary parts.
// Whatever moves elements does so with both.
#include "compiler/frontend/common/Activations.h"
#include "compiler/frontend/pt2/Call.h"

using namespace mlir;

namespace tenon::pt2 {
namespace {

struct Complex {
  mlir::Value real;
  mlir::Value imaginary; ///< null for 0
};

Complex operandOf(Call &c, StringRef name) {
  const Argument *given = c.argument(name);
  if (given && given->kind == Argument::Kind::Complex) {
    c.gap("a complex number as an argument is not supported", "make it a tensor");
    return {};
  }
  return {c.operand(name, c.resultElement()), c.cast(c.imaginary(name), c.resultElement())};
}

mlir::Value negative(Call &c, mlir::Value x) { return c.unary<tn::NegOp>(x); }

/// An imaginary part of x's shape.
mlir::Value zerosLike(Call &c, mlir::Value x) {
  return x ? c.broadcast(c.scalarLike(0, x), tn::getDims(x.getType())) : x;
}

void fromPolar(Call &c) {
  mlir::Value length = c.value("abs"), angle = c.value("angle");
  c.setComplex(0, c.mul(length, c.unary<tn::CosOp>(angle)),
               c.mul(length, c.unary<tn::SinOp>(angle)));
}
void fromParts(Call &c) {
  mlir::Value real = c.value("real"), imaginary = c.value("imag");
  if (!real || !imaginary) {
    return;
  }
  FailureOr<tn::Dims> dims =
      tn::broadcastDims(tn::getDims(real.getType()), tn::getDims(imaginary.getType()));
  if (mlir::failed(dims)) {
    return c.gap("the shapes of its operands cannot be reconciled",
                 "declare the input shapes with --shape");
  }
  c.setComplex(0, c.broadcast(real, *dims), c.broadcast(imaginary, *dims));
}

/// The last dim, of two, holds the parts.
void viewAsComplex(Call &c) {
  mlir::Value x = c.value("self");
  tn::Dims dims = x ? tn::getDims(x.getType()) : tn::Dims();
  if (dims.empty() || tn::constantDim(dims.back()) != 2) {
    return c.error(ErrorId::Pt2BadGraph, "its tensor has no last dim of two parts");
  }
  int64_t axis = static_cast<int64_t>(dims.size()) - 1;
  dims.pop_back();
  auto part = [&](int64_t i) {
    return c.reshape(c.sliceAxis(x, axis, c.constantSize(i), c.constantSize(1)), dims);
  };
  c.setComplex(0, part(0), part(1));
}
void viewAsReal(Call &c) {
  mlir::Value real = c.value("self"), imaginary = c.imaginary("self");
  if (!real || !imaginary) {
    return;
  }
  tn::Dims dims = tn::getDims(real.getType());
  dims.push_back(c.constantSize(1));
  c.setOutput(c.concat({c.reshape(real, dims), c.reshape(imaginary, dims)},
                       static_cast<int64_t>(dims.size()) - 1));
}
void realPart(Call &c) { c.setOutput(c.value("self")); }
void imaginaryPart(Call &c) { c.setOutput(c.imaginary("self")); }

/// Of a real or a complex tensor.
void toComplex(Call &c) {
  c.ignore({"device", "layout", "non_blocking", "copy", "memory_format", "pin_memory"});
  Complex x = operandOf(c, "self");
  c.elementNamed("dtype", c.resultElement());
  if (!c.givesComplex()) {
    return c.gap("a complex tensor cannot become a real one", "take its real part");
  }
  c.setComplex(0, x.real, x.imaginary ? x.imaginary : zerosLike(c, x.real));
}

void conjugate(Call &c) { c.setComplex(0, c.value("self"), negative(c, c.imaginary("self"))); }
void absolute(Call &c) {
  mlir::Value real = c.value("self"), imaginary = c.imaginary("self");
  c.setOutput(c.toResult(frontend::hypotenuse(c, c.widened(real), c.widened(imaginary))));
}

template <bool isDifference> void sum(Call &c) {
  Complex a = operandOf(c, "self"), b = operandOf(c, "other");
  if (c.has("alpha")) {
    mlir::Value factor = c.operand("alpha", c.resultElement());
    b.real = c.mul(b.real, factor);
    b.imaginary = b.imaginary ? c.mul(b.imaginary, factor) : b.imaginary;
  }
  if (c.failed()) {
    return;
  }
  auto join = [&](mlir::Value x, mlir::Value y) {
    return isDifference ? c.sub(x, y) : c.add(x, y);
  };
  mlir::Value real = join(a.real, b.real);
  // A part that is missing is 0, of the shape of both.
  mlir::Value left = a.imaginary ? a.imaginary : zerosLike(c, a.real);
  mlir::Value right = b.imaginary ? b.imaginary : zerosLike(c, b.real);
  c.setComplex(0, real, join(left, right));
}

Complex product(Call &c, const Complex &a, const Complex &b) {
  if (!a.imaginary || !b.imaginary) {
    const Complex &whole = a.imaginary ? a : b;
    mlir::Value factor = a.imaginary ? b.real : a.real;
    return {c.mul(whole.real, factor), c.mul(whole.imaginary, factor)};
  }
  return {c.sub(c.mul(a.real, b.real), c.mul(a.imaginary, b.imaginary)),
          c.add(c.mul(a.real, b.imaginary), c.mul(a.imaginary, b.real))};
}
void multiply(Call &c) {
  Complex y = product(c, operandOf(c, "self"), operandOf(c, "other"));
  c.setComplex(0, y.real, y.imaginary);
}
/// By a complex number: times its conjugate, by the square of its length.
void divide(Call &c) {
  Complex a = operandOf(c, "self"), b = operandOf(c, "other");
  mlir::Value by = b.real;
  if (b.imaginary) {
    by = c.add(c.mul(b.real, b.real), c.mul(b.imaginary, b.imaginary));
    a = product(c, a, {b.real, negative(c, b.imaginary)});
  }
  c.setComplex(0, c.div(a.real, by), c.div(a.imaginary, by));
}

/// What is checked of a tensor holds by its import.
void checkMetadata(Call &c) { c.ignore({"a", "size", "stride", "dtype", "device", "layout"}); }

constexpr OpRow kComplexOpRows[] = {
    {"aten.polar", fromPolar},
    {"aten.complex", fromParts},
    {"aten.view_as_complex", viewAsComplex},
    {"aten.view_as_real", viewAsReal},
    {"aten.real", realPart},
    {"aten.imag", imaginaryPart},
    {"aten.to", toComplex},
    {"aten._to_copy", toComplex},
    {"aten.conj", conjugate},
    {"aten._conj", conjugate},
    {"aten.conj_physical", conjugate},
    {"aten.abs", absolute},
    {"aten.add", sum<false>},
    {"aten.sub", sum<true>},
    {"aten.mul", multiply},
    {"aten.div", divide},
    {"aten._assert_tensor_metadata", checkMetadata},
    // Of these each part is what a real tensor would be.
    {"aten.neg", nullptr},
    {"aten.sum", nullptr},
    {"aten.mean", nullptr},
    {"aten.clone", nullptr},
    {"aten.detach", nullptr},
    {"aten.alias", nullptr},
    {"aten.contiguous", nullptr},
    {"aten.resolve_conj", nullptr},
    {"aten.resolve_neg", nullptr},
    {"aten.view", nullptr},
    {"aten._unsafe_view", nullptr},
    {"aten.reshape", nullptr},
    {"aten.flatten", nullptr},
    {"aten.unflatten", nullptr},
    {"aten.unsqueeze", nullptr},
    {"aten.squeeze", nullptr},
    {"aten.expand", nullptr},
    {"aten.permute", nullptr},
    {"aten.transpose", nullptr},
    {"aten.t", nullptr},
    {"aten.mT", nullptr},
    {"aten.movedim", nullptr},
    {"aten.cumsum", nullptr},
    {"aten.gather", nullptr},
    {"aten.diagonal", nullptr},
    {"aten.tril", nullptr},
    {"aten.triu", nullptr},
    {"aten.constant_pad_nd", nullptr},
    {"aten.slice", nullptr},
    {"aten.select", nullptr},
    {"aten.narrow", nullptr},
    {"aten.index_select", nullptr},
    {"aten.index", nullptr},
    {"aten.repeat", nullptr},
    {"aten.roll", nullptr},
    {"aten.flip", nullptr},
    {"aten.split", nullptr},
    {"aten.split_with_sizes", nullptr},
    {"aten.chunk", nullptr},
    {"aten.unbind", nullptr},
    {"aten.cat", nullptr},
    {"aten.stack", nullptr},
};

} // namespace

ArrayRef<OpRow> complexRows() { return kComplexOpRows; }

} // namespace tenon::pt2
