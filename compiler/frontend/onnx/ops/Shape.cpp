// Shape and Size, and the evaluation of nodes whose inputs are all known integers.
// Relies on NodeContext::sizes giving what is known of an input; nothing is emitted here.
#include "compiler/frontend/onnx/ops/ShapeFold.h"

using namespace mlir;

namespace tenon::onnx {
namespace {

void shape(NodeContext &c) {
  c.ignoreInput(0);
  tn::Dims dims = c.dims(0);
  int64_t rank = c.rank(0);
  auto bound = [&](StringRef name, int64_t otherwise) {
    int64_t value = c.integer(name, otherwise);
    return std::clamp<int64_t>(value < 0 ? value + rank : value, 0, rank);
  };
  int64_t start = bound("start", 0);
  int64_t end = bound("end", rank);
  ArrayRef<AffineExpr> part =
      ArrayRef<AffineExpr>(dims).slice(start, std::max<int64_t>(0, end - start));
  c.setOutput(0, Sizes::list(part), c.builder().getI64Type());
}

void size(NodeContext &c) {
  c.ignoreInput(0);
  AffineExpr count = tn::elementCount(c.builder().getContext(), c.dims(0));
  if (!count) {
    return c.gap("the number of elements cannot be written as an expression",
                 "declare the input shapes with --shape");
  }
  c.setOutput(0, Sizes::scalar(count), c.builder().getI64Type());
}

//===--- Elementwise ---===//

AffineExpr truth(NodeContext &c, std::optional<bool> value) {
  return value ? c.constantSize(*value) : AffineExpr();
}

AffineExpr negated(NodeContext &c, AffineExpr value) {
  return subtractSizes(c.constantSize(1), value);
}

/// Equality also where a symbolic size is compared with a marker such as -1.
AffineExpr compared(NodeContext &c, StringRef op, AffineExpr a, AffineExpr b) {
  if (op == "Equal") {
    return truth(c, c.symbols().compare(a, Comparison::Equal, b));
  }
  bool swap = op.starts_with("Greater");
  Comparison kind = op.ends_with("OrEqual") ? Comparison::LessOrEqual : Comparison::Less;
  return truth(c, swap ? c.symbols().compare(b, kind, a) : c.symbols().compare(a, kind, b));
}

AffineExpr logical(NodeContext &c, StringRef op, AffineExpr a, AffineExpr b) {
  std::optional<int64_t> left = tn::constantDim(a);
  std::optional<int64_t> right = tn::constantDim(b);
  if (!left || !right) {
    return nullptr;
  }
  return c.constantSize(op == "And"  ? *left && *right
                        : op == "Or" ? *left || *right
                                     : (*left != 0) != (*right != 0));
}

/// The lesser or the greater of two; null where data decides which: that stays with the data.
AffineExpr chosen(NodeContext &c, AffineExpr a, AffineExpr b, bool isLesser) {
  Symbols &symbols = c.symbols();
  bool isOpen = !symbols.compare(a, Comparison::LessOrEqual, b) &&
                !symbols.compare(b, Comparison::LessOrEqual, a);
  bool isByData = isOpen && (symbols.dependsOnData(a) || symbols.dependsOnData(b));
  return isByData ? AffineExpr() : isLesser ? symbols.lesser(a, b) : symbols.greater(a, b);
}

/// Quotient towards zero.
AffineExpr quotient(NodeContext &c, AffineExpr a, AffineExpr b) {
  std::optional<int64_t> left = tn::constantDim(a);
  std::optional<int64_t> right = tn::constantDim(b);
  if (left && right && *right != 0 && *right != -1) {
    return c.constantSize(*left / *right);
  }
  AffineExpr known = divideSizes(c.symbols(), a, b);
  if (known || c.symbols().dependsOnData(a)) {
    return known;
  }
  // What is above zero and what is below apart.
  AffineExpr zero = c.constantSize(0), above = c.symbols().greater(a, zero);
  AffineExpr below = c.symbols().greater(subtractSizes(zero, a), zero);
  return subtractSizes(divideSizes(c.symbols(), above, b), divideSizes(c.symbols(), below, b));
}

/// By a small number: larger powers of sizes are none.
AffineExpr powerOf(NodeContext &c, AffineExpr a, AffineExpr b) {
  std::optional<int64_t> exponent = tn::constantDim(b);
  AffineExpr product =
      exponent && *exponent >= 0 && *exponent <= 8 ? c.constantSize(1) : AffineExpr();
  for (int64_t i = 0; product && i < *exponent; ++i) {
    product = multiplySizes(product, a);
  }
  return product;
}

AffineExpr binaryElement(NodeContext &c, StringRef op, AffineExpr a, AffineExpr b) {
  if (op == "Pow") {
    return powerOf(c, a, b);
  }
  if (op == "Add" || op == "Sum") {
    return addSizes(a, b);
  }
  if (op == "Sub") {
    return subtractSizes(a, b);
  }
  if (op == "Mul") {
    return multiplySizes(a, b);
  }
  if (op == "Div") {
    return quotient(c, a, b);
  }
  if (op == "Mod") {
    return remainderSizes(c.symbols(), a, b);
  }
  if (op == "Min" || op == "Max") {
    return chosen(c, a, b, op == "Min");
  }
  if (op == "And" || op == "Or" || op == "Xor") {
    return logical(c, op, a, b);
  }
  return compared(c, op, a, b);
}

bool givesBool(StringRef op) {
  return llvm::is_contained(
      {"Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual", "And", "Or", "Xor"}, op);
}

std::optional<Sizes> foldElementwise(NodeContext &c, StringRef op, ArrayRef<Sizes> in) {
  std::optional<Sizes> result = in[0];
  for (const Sizes &next : in.drop_front()) {
    result =
        result
            ? broadcastSizes(*result, next,
                             [&](AffineExpr a, AffineExpr b) { return binaryElement(c, op, a, b); })
            : std::nullopt;
  }
  return result;
}

std::optional<Sizes> foldUnary(NodeContext &c, StringRef op, const Sizes &x) {
  Sizes result = x;
  for (AffineExpr &value : result.values) {
    if (op == "Neg") {
      value = subtractSizes(c.constantSize(0), value);
    } else if (op == "Not") {
      value = negated(c, value);
    } else if (op == "Abs") {
      value = chosen(c, value, subtractSizes(c.constantSize(0), value), /*isLesser=*/false);
    }
    if (!value) {
      return std::nullopt;
    }
  }
  return result;
}

std::optional<Sizes> foldWhere(NodeContext &c, ArrayRef<Sizes> in) {
  // One broadcast at a time: positions of the elements of b, then the choice.
  std::optional<Sizes> both =
      broadcastSizes(in[1], in[2], [](AffineExpr a, AffineExpr) { return a; });
  std::optional<Sizes> shape =
      both ? broadcastSizes(in[0], *both, [](AffineExpr a, AffineExpr) { return a; })
           : std::nullopt;
  if (!shape) {
    return std::nullopt;
  }
  std::optional<Sizes> yes = broadcastTo(in[1], shape->shape);
  std::optional<Sizes> no = broadcastTo(in[2], shape->shape);
  for (size_t i = 0; yes && no && i < shape->values.size(); ++i) {
    std::optional<int64_t> condition = tn::constantDim(shape->values[i]);
    if (!condition) {
      return std::nullopt;
    }
    yes->values[i] = *condition ? yes->values[i] : no->values[i];
  }
  return no ? yes : std::nullopt;
}

std::optional<Sizes> foldReduce(NodeContext &c, StringRef op, ArrayRef<Sizes> in) {
  bool axesAreInput = c.opset >= (op == "ReduceSum" ? 13 : 18);
  std::optional<SmallVector<int64_t>> axes = !axesAreInput    ? c.integerList("axes")
                                             : in.size() == 2 ? in[1].constants()
                                                              : SmallVector<int64_t>();
  bool noop = c.integer("noop_with_empty_axes", 0) != 0;
  if (!axes || (axes->empty() && noop)) {
    return std::nullopt;
  }
  for (int64_t &axis : *axes) {
    axis += axis < 0 ? in[0].rank() : 0;
    if (axis < 0 || axis >= in[0].rank()) {
      return std::nullopt;
    }
  }
  if (axes->empty()) {
    *axes = llvm::to_vector(llvm::seq<int64_t>(0, in[0].rank()));
  }
  StringRef element = op == "ReduceProd"  ? "Mul"
                      : op == "ReduceSum" ? "Add"
                      : op == "ReduceMax" ? "Max"
                                          : "Min";
  return reduceSizes(in[0], *axes, c.integer("keepdims", 1) != 0,
                     [&](AffineExpr a, AffineExpr b) { return binaryElement(c, element, a, b); });
}

/// Casts between integer types keep the value; a cast to bool asks whether it is zero.
std::optional<Sizes> foldCast(NodeContext &c, const Sizes &x, Type &element) {
  c.ignore("round_mode");
  c.ignore("saturate");
  int64_t to = c.integer("to", 0);
  element =
      to > 0 && to <= kLastDataType ? c.importer().elementType(static_cast<DataType>(to)) : Type();
  IntegerType integer = dyn_cast_or_null<IntegerType>(element);
  if (!integer) {
    return std::nullopt;
  }
  Sizes result = x;
  for (AffineExpr &value : result.values) {
    tn::SymbolList::Range range = c.symbols().bounds(value);
    if (integer.getWidth() == 1) {
      value = truth(c, c.symbols().compare(value, Comparison::Equal, c.constantSize(0)));
      value = value ? negated(c, value) : value;
    }
    bool fits = integer.getWidth() == 1 || integer.getWidth() >= 64 ||
                (range.min >= -(int64_t{1} << (integer.getWidth() - 1)) &&
                 range.max < (int64_t{1} << (integer.getWidth() - 1)));
    if (!value || !fits) {
      return std::nullopt;
    }
  }
  return result;
}

std::optional<Sizes> foldByName(NodeContext &c, StringRef op, ArrayRef<Sizes> in, Type &element) {
  if (op == "Cast") {
    return foldCast(c, in[0], element);
  }
  if (op == "Where" && in.size() == 3) {
    element = c.element(1);
    return foldWhere(c, in);
  }
  if (llvm::is_contained({"Add", "Sub", "Mul", "Div", "Mod", "Pow", "Min", "Max", "Sum"}, op) ||
      givesBool(op)) {
    element = givesBool(op) ? Type(c.builder().getI1Type()) : element;
    return c.integer("fmod", 0) != 0 ? std::nullopt : foldElementwise(c, op, in);
  }
  if (op == "Neg" || op == "Not" || op == "Abs") {
    return foldUnary(c, op, in[0]);
  }
  if (op == "Gather" && in.size() == 2) {
    int64_t axis = c.integer("axis", 0);
    return gatherSizes(in[0], in[1], axis < 0 ? axis + in[0].rank() : axis);
  }
  if (op == "Concat") {
    return foldConcat(c, in);
  }
  if (op == "Slice") {
    return foldSlice(c, in);
  }
  if (op == "Reshape") {
    return foldReshape(c, in);
  }
  if (op == "Squeeze" || op == "Unsqueeze") {
    return foldSqueeze(c, in, op == "Unsqueeze");
  }
  if (op == "Flatten") {
    return foldFlatten(c, in[0]);
  }
  if (op == "Transpose") {
    return foldTranspose(c, in[0]);
  }
  if (op == "Tile") {
    return foldTile(in);
  }
  if (op == "Expand" && in.size() == 2) {
    return foldExpand(in);
  }
  if (op == "Range" && in.size() == 3) {
    return foldRange(c, in);
  }
  if (op == "ConstantOfShape") {
    element = c.builder().getI64Type();
    return foldConstantOfShape(c, in[0]);
  }
  if (op == "ReduceProd" || op == "ReduceSum" || op == "ReduceMax" || op == "ReduceMin") {
    return foldReduce(c, op, in);
  }
  return std::nullopt;
}

constexpr OpRow kShapeOpRows[] = {
    {"Shape", 1, 1, 1, 1, shape, {{"end", kInt, 15}, {"start", kInt, 15}}},
    {"Size", 1, 1, 1, 1, size},
};

} // namespace

ArrayRef<OpRow> shapeRows() { return kShapeOpRows; }

bool foldSizes(NodeContext &c) {
  bool isSplit = c.node.opType == "Split";
  if (!c.node.domain.empty() || (c.numOutputs() != 1 && !isSplit) || c.numInputs() == 0) {
    return false;
  }
  if (c.node.opType == "Cast" && isa<FloatType>(c.element(0))) {
    std::optional<Sizes> scaled = foldScaled(c);
    Type element;
    scaled = scaled ? foldCast(c, *scaled, element) : std::nullopt;
    if (!scaled || element.isInteger(1)) {
      return false;
    }
    c.setOutput(0, *scaled, element);
    return true;
  }
  SmallVector<Sizes> in;
  for (unsigned i = 0; i < c.numInputs(); ++i) {
    std::optional<Sizes> known = c.sizes(i);
    // Narrower integers wrap around, expressions do not.
    bool wide = known && (c.element(i).isSignlessInteger(64) ||
                          c.element(i).isSignlessInteger(32) || c.element(i).isSignlessInteger(1));
    if (!wide) {
      return false;
    }
    in.push_back(std::move(*known));
  }
  Type element = c.element(0);
  if (isSplit) {
    std::optional<SmallVector<Sizes>> parts = foldSplit(c, in);
    bool isKnown = parts && c.unread().empty();
    for (unsigned i = 0; isKnown && i < c.numOutputs(); ++i) {
      c.setOutput(i, (*parts)[i], element);
    }
    return isKnown;
  }
  std::optional<Sizes> result = foldByName(c, c.node.opType, in, element);
  if (!result || c.failed() || !c.unread().empty()) {
    return false;
  }
  c.setOutput(0, *result, element);
  return true;
}

} // namespace tenon::onnx
