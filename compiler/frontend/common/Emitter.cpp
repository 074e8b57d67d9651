// Emits `tn` operations, each inferred, verified and brought to what constraints determine.
// Relies on MLIR's type inference and verification, so that a bad operand gives an error at its
// node.
#include "compiler/frontend/common/Emitter.h"

#include "compiler/graph/ElementType.h"
#include "compiler/graph/TnRare.h"
#include "mlir/IR/TypeUtilities.h"
#include "mlir/IR/Verifier.h"
#include "llvm/ADT/SetVector.h"

#include <map>

using namespace mlir;

namespace tenon::frontend {

/// An unverified operation of the state, or null.
Operation *Emitter::create(OperationState &state) {
  if (llvm::any_of(state.types, [](Type type) { return !type; })) {
    InferTypeOpInterface::Concept *interface = state.name.getInterface<InferTypeOpInterface>();
    SmallVector<Type> types;
    if (!interface ||
        mlir::failed(interface->inferReturnTypes(&owner.context, place, state.operands,
                                                 state.attributes.getDictionary(&owner.context),
                                                 state.getRawProperties(), state.regions, types))) {
      return nullptr;
    }
    state.types.assign(types.begin(), types.end());
  }
  for (Type &type : state.types) {
    type = owner.canonicalType(llvm::cast<RankedTensorType>(type));
  }
  return builder().create(state);
}

namespace {

/// Whether two sizes are equal by proof or by constraint, though no symbol need be determined by
/// it.
bool areEqual(Symbols &symbols, AffineExpr a, AffineExpr b) {
  if (tn::sameDim(a, b) || symbols.assume(tn::ConstraintKind::equal, a, b)) {
    return true;
  }
  AffineExpr difference = subtractSizes(a, b);
  bool isView = difference && (tn::hasDivision(a) || tn::hasDivision(b));
  if (!isView || symbols.dependsOnData(difference)) {
    return false;
  }
  tn::SymbolList::Range range = symbols.bounds(difference);
  return range.min <= 0 && range.max >= 0 && symbols.assume(tn::ConstraintKind::at_least, a, b) &&
         symbols.assume(tn::ConstraintKind::at_least, b, a);
}

/// Which dims of the operands the operation takes to be equal: a number for each dim, the same for
/// equal ones, or none.
SmallVector<std::optional<size_t>> equalDims(OperationState &state, size_t operand) {
  constexpr size_t kSummed = 1000; // the dim that a matrix product sums over
  size_t rank = tn::getDims(state.operands[operand].getType()).size();
  SmallVector<std::optional<size_t>> slots;
  bool isProduct = state.name.getStringRef() == tn::MatmulOp::getOperationName();
  for (size_t i = 0; i < rank; ++i) {
    slots.push_back(rank - i);
  }
  if (isProduct && rank >= 2) {
    // Without a flag an operation has no properties yet.
    const tn::MatmulOp::Properties *own = state.getRawProperties().as<tn::MatmulOp::Properties *>();
    bool isTransposed = own && static_cast<bool>(operand == 0 ? own->transposeA : own->transposeB);
    bool sumsOverLast = (operand == 0) != isTransposed;
    slots[rank - 1] = slots[rank - 2] = std::nullopt;
    slots[sumsOverLast ? rank - 1 : rank - 2] = kSummed;
  }
  if (state.name.getStringRef() == tn::ConcatOp::getOperationName()) {
    IntegerAttr axis = dyn_cast_or_null<IntegerAttr>(state.attributes.get("axis"));
    tn::ConcatOp::Properties *own = state.getRawProperties().as<tn::ConcatOp::Properties *>();
    axis = own && own->axis ? own->axis : axis;
    if (!axis || axis.getInt() < 0 || axis.getInt() >= static_cast<int64_t>(rank)) {
      return SmallVector<std::optional<size_t>>(rank);
    }
    slots[axis.getInt()] = std::nullopt;
  }
  return slots;
}

/// The size that stands for all dims of a number: one without divisions, if there is one.
using Standing = std::map<size_t, AffineExpr>;

/// False if two of them cannot be equal, which the operation's own rule says better.
bool findStanding(Symbols &symbols, OperationState &state, bool takesConstants,
                  Standing &standing) {
  for (size_t operand = 0; operand < state.operands.size(); ++operand) {
    tn::Dims dims = tn::getDims(state.operands[operand].getType());
    for (auto [dim, slot] : llvm::zip_equal(dims, equalDims(state, operand))) {
      if (!slot || !dim || (!takesConstants && tn::constantDim(dim))) {
        continue;
      }
      AffineExpr &known = standing[*slot];
      if (known && !areEqual(symbols, known, dim)) {
        return false;
      }
      if (!known || (tn::hasDivision(known) && !tn::hasDivision(dim))) {
        known = dim;
      }
    }
  }
  return true;
}

/// Where dims are equal by a constraint that determines no symbol, operands are read as if they had
/// the same dims: the elements lie in memory alike.
void unifyOperands(Emitter &emitter, OperationState &state, function_ref<void()> bringUpToDate) {
  bool isConcat = state.name.getStringRef() == tn::ConcatOp::getOperationName();
  Standing standing;
  unsigned before = 0;
  do {
    before = emitter.symbols().determined();
    standing.clear();
    if (!findStanding(emitter.symbols(), state, isConcat, standing)) {
      return;
    }
    bringUpToDate();
  } while (emitter.symbols().determined() != before);
  for (size_t operand = 0; operand < state.operands.size(); ++operand) {
    RankedTensorType from = llvm::cast<RankedTensorType>(state.operands[operand].getType());
    tn::Dims dims = tn::getDims(from);
    for (auto [dim, slot] : llvm::zip_equal(dims, equalDims(state, operand))) {
      if (slot && dim && standing.count(*slot) && (isConcat || !tn::constantDim(dim))) {
        dim = standing[*slot];
      }
    }
    if (!tn::sameDims(dims, tn::getDims(from))) {
      state.operands[operand] = tn::ReshapeOp::create(emitter.builder(), emitter.location(),
                                                      tn::makeTensor(dims, from.getElementType()),
                                                      state.operands[operand]);
    }
  }
}

} // namespace

/// `tn` broadcasts dims that are the constant 1; one that may turn out to be 1 is broadcast by an
/// operation of its own.
void Emitter::alignOperands(OperationState &state) {
  bool isElementwise = state.name.hasTrait<tn::TnElementwise>();
  bool isProduct = state.name.getStringRef() == tn::MatmulOp::getOperationName();
  bool isConcat = state.name.getStringRef() == tn::ConcatOp::getOperationName();
  if ((!isElementwise && !isProduct && !isConcat) || state.operands.size() < 2) {
    return;
  }
  unifyOperands(*this, state, [&] { bringUpToDate(); });
  if (isConcat) {
    return;
  }
  size_t inner = isProduct ? 2 : 0;
  auto outerDims = [&](Value operand) {
    tn::Dims dims = tn::getDims(operand.getType());
    dims.truncate(dims.size() - std::min(inner, dims.size()));
    return dims;
  };
  tn::Dims common;
  unsigned before = 0;
  do {
    before = symbols().determined();
    common.clear();
    for (Value operand : state.operands) {
      FailureOr<tn::Dims> wider = tn::broadcastDims(common, outerDims(operand));
      if (mlir::failed(wider)) {
        return;
      }
      common = *wider;
    }
    bringUpToDate();
  } while (symbols().determined() != before);
  for (Value &operand : state.operands) {
    tn::Dims dims = tn::getDims(operand.getType());
    tn::Dims target = dims;
    size_t outer = outerDims(operand).size();
    for (size_t i = 0; i < outer; ++i) {
      AffineExpr wanted = common[common.size() - outer + i];
      if (dims[i] && wanted && !tn::constantDim(dims[i]) && tn::constantDim(wanted)) {
        target[i] = wanted;
      }
    }
    operand = broadcast(operand, target);
  }
}

/// No dim of a result is negative, by proof or by constraint.
bool Emitter::requireSizesOf(Operation *op) {
  for (Value result : op->getResults()) {
    for (AffineExpr dim : tn::getDims(result.getType())) {
      if (dim && !symbols().assume(tn::ConstraintKind::at_least, dim, constantSize(0))) {
        owner.lastDiagnostic = "a dim of its result is negative";
        return false;
      }
    }
  }
  return true;
}

/// The dialect's own words for an operand of the wrong type name no type that a model has.
static std::string refusedTypes(ValueRange operands) {
  std::string text = "the operator does not support elements of type ";
  llvm::raw_string_ostream stream(text);
  llvm::SetVector<Type> types;
  for (Value operand : operands) {
    if (operand) {
      types.insert(cast<RankedTensorType>(operand.getType()).getElementType());
    }
  }
  llvm::interleave(types, stream, " and ");
  return text;
}

void Emitter::refuse(const OperationState &state) {
  bool isStatic = llvm::all_of(state.operands, [](Value operand) {
    return operand && llvm::cast<RankedTensorType>(operand.getType()).hasStaticShape();
  });
  StringRef why = StringRef(owner.lastDiagnostic);
  if (why.contains("must be ranked tensor")) {
    gap(refusedTypes(state.operands), "use another element type");
  } else if (isStatic && !why.contains("must be")) {
    error(ErrorId::OnnxBadNode, "its inputs contradict the operator: " + why);
  } else {
    gap(why.empty() ? StringRef("the shapes of its inputs cannot be reconciled") : why,
        isStatic ? "use another element type" : "declare the input shapes with --shape");
  }
}

Operation *Emitter::finish(OperationState &state) {
  if (hasFailed || llvm::any_of(state.operands, [](Value operand) { return !operand; })) {
    return nullptr;
  }
  owner.lastDiagnostic.clear();
  alignOperands(state);
  Operation *op = hasFailed ? nullptr : create(state);
  bool isSound = op && succeeded(mlir::verify(op, /*verifyRecursively=*/false));
  if (isSound && symbols().determined() != 0) {
    bringUpToDate();
    owner.rewriteDetermined(op);
    isSound = succeeded(mlir::verify(op, /*verifyRecursively=*/false));
  }
  if (isSound && requireSizesOf(op)) {
    return op;
  }
  refuse(state);
  if (op) {
    op->erase();
  }
  return nullptr;
}

OpBuilder &Emitter::builder() { return owner.builder; }
Symbols &Emitter::symbols() { return owner.symbols; }

bool Emitter::require(tn::ConstraintKind kind, AffineExpr left, AffineExpr right, StringRef what) {
  if (hasFailed) {
    return false;
  }
  if (left && right && symbols().assume(kind, left, right)) {
    bringUpToDate();
    return true;
  }
  if (left && right && tn::constantDim(left) && tn::constantDim(right)) {
    error(ErrorId::OnnxBadNode, what + " do not fit: " + Twine(*tn::constantDim(left)) + " and " +
                                    Twine(*tn::constantDim(right)));
  } else {
    gap(what + " cannot be shown to fit", "declare the input shapes with --shape");
  }
  return false;
}

bool Emitter::requireNotNegative(ArrayRef<AffineExpr> sizes, StringRef what) {
  for (AffineExpr size : sizes) {
    tn::SymbolList::Range range = symbols().bounds(size);
    if (range.max < 0) {
      error(ErrorId::OnnxBadNode, what + " is negative");
    } else {
      require(tn::ConstraintKind::at_least, size, constantSize(0), what);
    }
  }
  return !hasFailed;
}

Value Emitter::add(Value a, Value b) { return make<tn::AddOp>(a, b); }
Value Emitter::sub(Value a, Value b) { return make<tn::SubOp>(a, b); }
Value Emitter::mul(Value a, Value b) { return make<tn::MulOp>(a, b); }
Value Emitter::div(Value a, Value b) { return make<tn::DivOp>(a, b); }
Value Emitter::max(Value a, Value b) { return make<tn::MaxOp>(a, b); }
Value Emitter::min(Value a, Value b) { return make<tn::MinOp>(a, b); }

} // namespace tenon::frontend
