// Tensors out of nothing: filled ones, ranges, grids.
#include "compiler/frontend/pt2/Call.h"

#include "mlir/IR/TypeUtilities.h"

#include <cmath>

using namespace mlir;

namespace tenon::pt2 {
namespace {

/// What says where and how a tensor lies has no meaning here.
void ignorePlace(Call &c) {
  c.ignore({"layout", "device", "pin_memory", "memory_format", "requires_grad", "names"});
  c.elementNamed("dtype", c.resultElement());
}

/// A tensor of the dims, or of those of `self`, filled with a number of the result's type.
void filled(Call &c, mlir::Value number) {
  ignorePlace(c);
  tn::Dims dims;
  if (c.has("size")) {
    dims = c.sizes("size");
    c.ignore({"self", "stride", "physical_layout"});
  } else if (RankedTensorType like = c.type("self")) {
    dims = tn::getDims(like);
  }
  c.setOutput(c.broadcast(number, dims));
}

template <int kValue> void constant(Call &c) { filled(c, c.scalar(kValue, c.resultElement())); }
void full(Call &c) {
  filled(c, c.operand(c.has("fill_value") ? "fill_value" : "value", c.resultElement()));
}
void fill(Call &c) {
  mlir::Value x = c.value("self");
  if (x) {
    c.setOutput(c.broadcast(c.operand("value", getElementTypeOrSelf(x)), tn::getDims(x.getType())));
  }
}
void zero(Call &c) {
  if (mlir::Value x = c.value("self")) {
    c.setOutput(c.broadcast(c.scalarLike(0, x), tn::getDims(x.getType())));
  }
}
void scalarTensor(Call &c) {
  ignorePlace(c);
  c.setOutput(c.operand("s", c.resultElement()));
}

/// An argument that is a whole number, though it may be written as a float.
AffineExpr wholeNumber(Call &c, StringRef name, int64_t otherwise) {
  const Argument *given = c.argument(name);
  if (!given || given->kind == Argument::Kind::None) {
    return c.constantSize(otherwise);
  }
  return given->kind == Argument::Kind::Float ? c.constantSize(static_cast<int64_t>(given->real))
                                              : c.size(name);
}

/// start, start + step, ...: as many as PyTorch states, which for symbols is an expression of them.
void arange(Call &c) {
  ignorePlace(c);
  Type element = c.resultElement();
  const Argument *end = c.argument("end");
  bool isReal = false;
  for (StringRef name : {"start", "end", "step"}) {
    const Argument *given = c.argument(name);
    bool isFloat = given && given->kind == Argument::Kind::Float;
    isReal |= isFloat && given->real != std::floor(given->real);
  }
  if (!end || !element || c.failed()) {
    return;
  }
  AffineExpr count;
  if (isReal) {
    double first = c.real("start", 0), step = c.real("step", 1);
    count = c.constantSize(static_cast<int64_t>(std::ceil((c.real("end", 0) - first) / step)));
  } else {
    AffineExpr first = wholeNumber(c, "start", 0), last = wholeNumber(c, "end", 0);
    int64_t step = static_cast<int64_t>(c.real("step", 1));
    AffineExpr span =
        step > 0 ? frontend::subtractSizes(last, first) : frontend::subtractSizes(first, last);
    int64_t stride = std::abs(step);
    count = stride == 1
                ? span
                : frontend::divideSizes(c.symbols(),
                                        frontend::addSizes(span, c.constantSize(stride - 1)),
                                        c.constantSize(stride));
  }
  if (!count || !c.requireNotNegative({count}, "the length of a range")) {
    return c.gap("the length of a range cannot be written as an expression",
                 "fix shapes with --shape");
  }
  mlir::Value first = c.has("start") ? c.operand("start", element) : c.scalar(0, element);
  mlir::Value step = c.has("step") ? c.operand("step", element) : c.scalar(1, element);
  c.setOutput(c.makeTyped<tn::IotaOp>(tn::makeTensor({count}, element), first, step));
}

void linspace(Call &c) {
  ignorePlace(c);
  Type element = c.resultElement();
  AffineExpr steps = c.size("steps");
  if (!steps || !element || !isa<FloatType>(element)) {
    return c.gap(
        "a linspace of other than floats, or of a length that data decides, is not supported",
        "use arange");
  }
  mlir::Value start = c.operand("start", element), end = c.operand("end", element);
  mlir::Value index = c.cast(c.positions(steps), element);
  mlir::Value last = c.sizeValue(frontend::subtractSizes(steps, c.constantSize(1)), element);
  // One step is the start alone, and the last one is the end itself, as PyTorch counts from both
  // ends.
  mlir::Value step = c.div(c.sub(end, start), c.max(last, c.scalar(1, element)));
  mlir::Value fromStart = c.add(start, c.mul(index, step));
  mlir::Value fromEnd = c.sub(end, c.mul(c.sub(last, index), step));
  mlir::Value isFirstHalf = c.compare(c.mul(index, c.scalar(2, element)), tn::Predicate::lt, last);
  mlir::Value isOne = c.compare(last, tn::Predicate::lt, c.scalar(1, element));
  c.setOutput(c.select(c.make<tn::OrOp>(isFirstHalf, isOne), fromStart, fromEnd));
}

void eye(Call &c) {
  ignorePlace(c);
  Type element = c.resultElement();
  AffineExpr rows = c.size("n"), columns = c.has("m") ? c.size("m") : rows;
  if (rows && columns && element) {
    mlir::Value equal = c.compare(c.alongAxis(c.positions(rows), 0, 2), tn::Predicate::eq,
                                  c.alongAxis(c.positions(columns), 1, 2));
    c.setOutput(c.cast(equal, element));
  }
}

void meshgrid(Call &c) {
  SmallVector<mlir::Value> lines = c.values("tensors");
  bool swaps = c.text("indexing", "ij") == "xy" && lines.size() >= 2;
  int64_t rank = static_cast<int64_t>(lines.size());
  tn::Dims dims(lines.size());
  auto axisOf = [&](int64_t i) { return swaps && i < 2 ? 1 - i : i; };
  for (auto [i, line] : llvm::enumerate(lines)) {
    tn::Dims own = tn::getDims(line.getType());
    dims[axisOf(static_cast<int64_t>(i))] = own.empty() ? c.constantSize(1) : own[0];
  }
  for (auto [i, line] : llvm::enumerate(lines)) {
    mlir::Value along = c.alongAxis(line, axisOf(static_cast<int64_t>(i)), rank);
    c.setOutput(static_cast<unsigned>(i), c.broadcast(along, dims));
  }
}

void oneHot(Call &c) {
  mlir::Value index = c.value("self");
  AffineExpr classes = c.size("num_classes");
  if (!index || !classes || tn::constantDim(classes) == -1) {
    return c.gap("a number of classes that data decides is not supported", "state num_classes");
  }
  tn::Dims dims = tn::getDims(index.getType());
  dims.push_back(c.constantSize(1));
  Type wide = c.builder().getI64Type();
  c.setOutput(c.cast(
      c.compare(c.reshape(c.cast(index, wide), dims), tn::Predicate::eq, c.positions(classes)),
      wide));
}

constexpr OpRow kCreationOpRows[] = {
    {"aten.zeros", constant<0>},
    {"aten.zeros_like", constant<0>},
    {"aten.new_zeros", constant<0>},
    // What is empty holds anything.
    {"aten.empty", constant<0>},
    {"aten.empty_like", constant<0>},
    {"aten.new_empty", constant<0>},
    {"aten.empty_strided", constant<0>},
    {"aten.new_empty_strided", constant<0>},
    {"aten.empty_permuted", constant<0>},
    {"aten.ones", constant<1>},
    {"aten.ones_like", constant<1>},
    {"aten.new_ones", constant<1>},
    {"aten.full", full},
    {"aten.full_like", full},
    {"aten.new_full", full},
    {"aten.fill", fill},
    {"aten.zero", zero},
    {"aten.scalar_tensor", scalarTensor},
    {"aten.arange", arange},
    {"aten.linspace", linspace},
    {"aten.eye", eye},
    {"aten.meshgrid", meshgrid},
    {"aten.one_hot", oneHot},
};

} // namespace

ArrayRef<OpRow> creationRows() { return kCreationOpRows; }

} // namespace tenon::pt2
