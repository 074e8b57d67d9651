// Operators that move elements without computing: reshapes, transposes, slices, splits, tiles,
// pads. Relies on shape inputs being known as expressions; where only data decides them, the shape
// that the model states for the result is taken and checked by each run.
#include "compiler/frontend/common/Squeeze.h"
#include "compiler/frontend/onnx/StatedSizes.h"

using namespace mlir;

namespace tenon::onnx {
namespace {

/// The requested dims of Reshape with 0 and -1 resolved; none after a failure.
std::optional<tn::Dims> resolveReshape(NodeContext &c, const Sizes &request) {
  tn::Dims from = c.dims(0);
  bool allowZero = c.integer("allowzero", 0) != 0;
  tn::Dims dims(request.values);
  std::optional<size_t> inferred;
  for (size_t i = 0; i < dims.size(); ++i) {
    std::optional<int64_t> constant = tn::constantDim(dims[i]);
    bool copies = constant == 0 && !allowZero;
    bool bad = (constant && *constant < -1) || (constant == -1 && inferred) ||
               (copies && i >= from.size());
    if (bad) {
      c.error(ErrorId::OnnxBadNode, "the requested shape is not valid");
      return std::nullopt;
    }
    if (copies) {
      dims[i] = from[i];
    } else if (constant == -1) {
      inferred = i;
    }
  }
  if (inferred) {
    tn::Dims others = dims;
    others.erase(others.begin() + *inferred);
    bool empty = llvm::any_of(others, [](AffineExpr dim) { return tn::constantDim(dim) == 0; });
    // Of an empty tensor ONNX leaves it open; what a symbol that turns out to be 0 gives, a
    // constant 0 gives too.
    dims[*inferred] = divideProducts(c.symbols(), from, others);
    if (!dims[*inferred] && empty) {
      dims[*inferred] = c.constantSize(0);
    }
    if (!dims[*inferred]) {
      c.gap("the inferred dimension cannot be written as an expression",
            "state the dimension, or fix shapes with --shape");
      return std::nullopt;
    }
  }
  return dims;
}

/// The dims that input `i` asks for: known now, or as the model states the result.
std::optional<tn::Dims> requestedDims(NodeContext &c, unsigned i, bool &stated) {
  stated = false;
  if (std::optional<Sizes> known = c.sizes(i)) {
    return tn::Dims(known->values);
  }
  stated = true;
  std::optional<tn::Dims> dims = c.statedDims(0);
  if (dims) {
    return dims;
  }
  stated = false;
  std::optional<Sizes> bounded = c.requireSizes(i, "shape");
  return bounded ? std::optional(tn::Dims(bounded->values)) : std::nullopt;
}

/// x, where the requested shape is these dims with at most one left to be inferred, and zeros for
/// what is copied.
Value requireReshape(NodeContext &c, Value x, ArrayRef<AffineExpr> dims) {
  Sizes exact = Sizes::list(dims), copied = exact;
  Sizes inferred = Sizes::list(SmallVector<AffineExpr>(dims.size(), c.constantSize(-1)));
  tn::Dims from = c.dims(0);
  bool allowZero = c.opset >= 14 && c.integer("allowzero", 0) != 0;
  for (size_t i = 0; !allowZero && i < std::min(from.size(), dims.size()); ++i) {
    copied.values[i] = tn::sameDim(from[i], dims[i]) ? c.constantSize(0) : dims[i];
  }
  Type index = c.builder().getI64Type();
  x = requireData(c, x, 1, {exact, copied, inferred}, "shape");
  Value isInferred = c.compare(c.cast(c.value(1), index), tn::Predicate::lt, c.scalar(0, index));
  Value count =
      c.reduce(tn::ReduceKind::sum, isInferred ? c.cast(isInferred, index) : Value(), {0}, false);
  return requireCondition(c, x, c.compare(count, tn::Predicate::le, c.scalar(1, index)),
                          "the shape infers at most one dimension");
}

void reshape(NodeContext &c) {
  if (c.opset < 5) {
    SmallVector<AffineExpr> dims;
    for (int64_t dim : c.integerList("shape")) {
      dims.push_back(c.constantSize(dim));
    }
    std::optional<tn::Dims> resolved = resolveReshape(c, Sizes::list(dims));
    return resolved ? c.setOutput(0, c.reshape(c.value(0), *resolved)) : void();
  }
  bool stated = false;
  std::optional<tn::Dims> request = requestedDims(c, 1, stated);
  c.ignore("allowzero"); // no part of a stated shape
  if (request && !stated) {
    request = resolveReshape(c, Sizes::list(*request));
  }
  if (!request) {
    return;
  }
  Value x = c.value(0);
  c.setOutput(0, c.reshape(stated ? requireReshape(c, x, *request) : x, *request));
}

void flatten(NodeContext &c) {
  int64_t rank = c.rank(0);
  int64_t axis = c.integer("axis", 1);
  axis = axis == rank ? rank : c.normalizeAxis(axis, std::max<int64_t>(rank, 1));
  tn::Dims dims(2, c.constantSize(1));
  for (auto [i, dim] : llvm::enumerate(c.dims(0))) {
    AffineExpr &product = dims[static_cast<int64_t>(i) < axis ? 0 : 1];
    product = multiplySizes(product, dim);
  }
  if (!dims[0] || !dims[1]) {
    return c.gap("the flattened size cannot be written as an expression",
                 "declare the input shapes with --shape");
  }
  c.setOutput(0, c.reshape(c.value(0), dims));
}

/// Which dims that vary Squeeze without axes removes: all or none as the rank says that the model
/// states for its result, else those of a batch, unless what follows contradicts that. A constraint
/// holds every run to that.
std::function<std::optional<bool>(AffineExpr)> whichAreOne(NodeContext &c) {
  const Symbols &symbols = c.symbols();
  auto mayBeOne = [&symbols](AffineExpr dim) {
    tn::SymbolList::Range range = symbols.bounds(dim);
    return range.min <= 1 && range.max >= 1;
  };
  tn::Dims dims = c.dims(0);
  auto isOne = [](AffineExpr dim) { return tn::constantDim(dim) == 1; };
  size_t least = dims.size() - llvm::count_if(dims, mayBeOne),
         most = dims.size() - llvm::count_if(dims, isOne);
  std::optional<size_t> rank = c.statedRank(0);
  bool all = rank == least, none = rank == most;
  ImportChoices &choices = c.importer().choices;
  return [=, &symbols, &choices](AffineExpr dim) {
    bool isOpen = mayBeOne(dim) && !none && !all && symbols.isBatch(dim);
    choices.hasSqueezedBatch |= isOpen;
    return std::optional(mayBeOne(dim) && !none && (all || (isOpen && choices.batchIsOne)));
  };
}

void squeeze(NodeContext &c) {
  if (c.opset >= 13 && c.has(1) && !c.integers(1)) {
    std::optional<tn::Dims> stated = c.statedDims(0);
    return stated ? c.setOutput(0, c.reshape(requireAxesOfOne(c, c.value(0), 1, c.dims(0), *stated),
                                             *stated))
                  : (void)c.requireIntegers(1, "list of axes");
  }
  bool all = c.opset >= 13 ? !c.has(1) : !c.hasAttribute("axes");
  std::optional<SmallVector<int64_t>> axes = c.axes(13, 1, c.rank(0));
  if (!axes) {
    return;
  }
  if (all) {
    std::optional<tn::Dims> kept = squeezeAll(c, c.dims(0), whichAreOne(c));
    return kept ? c.setOutput(0, c.reshape(c.value(0), *kept)) : void();
  }
  tn::Dims dims;
  for (auto [i, dim] : llvm::enumerate(c.dims(0))) {
    if (!llvm::is_contained(*axes, static_cast<int64_t>(i))) {
      dims.push_back(dim);
    } else if (!requireOne(c, dim)) {
      return;
    }
  }
  c.setOutput(0, c.reshape(c.value(0), dims));
}

void unsqueeze(NodeContext &c) {
  std::optional<SmallVector<int64_t>> known = c.opset < 13 ? c.integerList("axes") : c.integers(1);
  if (!known) {
    std::optional<tn::Dims> stated = c.statedDims(0);
    return stated ? c.setOutput(0, c.reshape(requireAxesOfOne(c, c.value(0), 1, *stated, c.dims(0)),
                                             *stated))
                  : (void)c.requireIntegers(1, "list of axes");
  }
  std::optional<SmallVector<int64_t>> axes =
      c.axes(13, 1, c.rank(0) + static_cast<int64_t>(known->size()));
  if (!axes) {
    return;
  }
  tn::Dims dims = c.dims(0);
  for (int64_t axis : *axes) {
    dims.insert(dims.begin() + axis, c.constantSize(1));
  }
  c.setOutput(0, c.reshape(c.value(0), dims));
}

void transpose(NodeContext &c) {
  int64_t rank = c.rank(0);
  SmallVector<int64_t> reversed;
  for (int64_t i = rank; i > 0; --i) {
    reversed.push_back(i - 1);
  }
  SmallVector<int64_t> permutation = c.integerList("perm", reversed);
  SmallVector<int64_t> sorted(permutation);
  llvm::sort(sorted);
  if (!llvm::equal(sorted, llvm::reverse(reversed))) {
    return c.error(ErrorId::OnnxBadAttribute,
                   "attribute 'perm' is not a permutation of the dimensions");
  }
  c.setOutput(0, c.transpose(c.value(0), permutation));
}

/// x, where the requested shape is the end of these dims, or 1 where x has the dim already.
Value requireExpand(NodeContext &c, Value x, ArrayRef<AffineExpr> dims) {
  size_t asked = static_cast<size_t>(c.type(1).getNumElements());
  if (asked > dims.size()) {
    c.gap("the requested shape has another rank than the model states",
          "make the shape a constant");
    return Value();
  }
  tn::Dims from = c.dims(0);
  Sizes exact = Sizes::list(dims.take_back(asked)), kept = exact;
  for (size_t back = 1; back <= std::min(asked, from.size()); ++back) {
    if (tn::sameDim(from[from.size() - back], dims[dims.size() - back])) {
      kept.values[asked - back] = c.constantSize(1);
    }
  }
  return requireData(c, x, 1, {exact, kept}, "shape");
}

void expand(NodeContext &c) {
  bool stated = false;
  std::optional<tn::Dims> request = requestedDims(c, 1, stated);
  if (!request) {
    return;
  }
  FailureOr<tn::Dims> dims = tn::broadcastDims(c.dims(0), *request);
  if (failed(dims)) {
    bool isStatic = c.type(0).hasStaticShape() && llvm::all_of(*request, [](AffineExpr dim) {
                      return tn::constantDim(dim).has_value();
                    });
    return isStatic ? c.error(ErrorId::OnnxBadNode,
                              "its input cannot be expanded to the requested shape")
                    : c.gap("two dimensions cannot be shown to be equal",
                            "declare the input shapes with --shape");
  }
  Value x = c.value(0);
  c.setOutput(0, c.broadcast(stated ? requireExpand(c, x, *dims) : x, *dims));
}

void concatenate(NodeContext &c) {
  int64_t axis = c.axis("axis", c.opset < 4 ? 1 : 0, c.rank(0));
  SmallVector<Value> parts;
  for (unsigned i = 0; i < c.numInputs(); ++i) {
    parts.push_back(c.value(i));
  }
  c.setOutput(0, c.concat(parts, axis));
}

constexpr OpRow kMovementOpRows[] = {
    {"Concat", 1, 1, kMany, 1, concatenate, {{"axis", kInt, 1, 3}, needs({"axis", kInt, 4})}},
    {"Expand", 8, 2, 2, 1, expand},
    {"Flatten", 1, 1, 1, 1, flatten, {{"axis", kInt}}},
    {"Reshape", 1, 1, 1, 1, reshape, {{"shape", kInts}}},
    {"Reshape", 5, 2, 2, 1, reshape, {{"allowzero", kInt, 14}}},
    {"Squeeze", 1, 1, 1, 1, squeeze, {{"axes", kInts}}},
    {"Squeeze", 13, 1, 2, 1, squeeze},
    {"Transpose", 1, 1, 1, 1, transpose, {{"perm", kInts}}},
    {"Unsqueeze", 1, 1, 1, 1, unsqueeze, {needs({"axes", kInts})}},
    {"Unsqueeze", 13, 2, 2, 1, unsqueeze},
};

} // namespace

ArrayRef<OpRow> movementRows() { return kMovementOpRows; }

} // namespace tenon::onnx
