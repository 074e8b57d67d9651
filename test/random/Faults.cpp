// Each fault changes every operation that it fits, as a fault of a pass or a lowering would. Relies
// on the verifier: a change that it refuses is taken back, since no such fault gets far.
#include "test/random/Faults.h"

#include "compiler/graph/Shape.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/Verifier.h"
#include "test/random/SizeFaults.h"

using namespace mlir;

namespace tenon::random {
namespace {

using pipeline::Phase;
using Change = std::function<bool(Operation *)>;

struct Fault {
  std::string name;
  Change change;
  Phase phase = Phase::Optimize;
};

bool setAttribute(Operation *op, StringRef name, Attribute value) {
  Attribute before = op->getAttr(name);
  if (before == value) {
    return false;
  }
  op->setAttr(name, value);
  if (succeeded(verify(op))) {
    return true;
  }
  before ? op->setAttr(name, before) : void(op->removeAttr(name));
  return false;
}

Change onlyFor(StringRef op, Change change) {
  return
      [=](Operation *target) { return target->getName().stripDialect() == op && change(target); };
}

/// A number attribute becomes another one.
Change real(StringRef attribute, double value) {
  return [=](Operation *op) {
    return setAttribute(op, attribute, Builder(op->getContext()).getF64FloatAttr(value));
  };
}

Change addTo(StringRef attribute, int64_t step) {
  return [=](Operation *op) {
    int64_t before = op->getAttrOfType<IntegerAttr>(attribute).getInt();
    return setAttribute(op, attribute, Builder(op->getContext()).getI64IntegerAttr(before + step));
  };
}

Change flip(StringRef attribute) {
  return [=](Operation *op) {
    bool before = op->getAttrOfType<BoolAttr>(attribute).getValue();
    return setAttribute(op, attribute, Builder(op->getContext()).getBoolAttr(!before));
  };
}

Change flipUnit(StringRef attribute) {
  return [=](Operation *op) {
    if (!op->hasAttr(attribute)) {
      return setAttribute(op, attribute, UnitAttr::get(op->getContext()));
    }
    Attribute before = op->removeAttr(attribute);
    if (succeeded(verify(op))) {
      return true;
    }
    op->setAttr(attribute, before);
    return false;
  };
}

/// Two elements of a list of integers change places, where the result keeps its type.
Change swapIn(StringRef attribute, bool ends) {
  return [=](Operation *op) {
    SmallVector<int64_t> list(op->getAttrOfType<DenseI64ArrayAttr>(attribute).asArrayRef());
    if (list.size() < 2) {
      return false;
    }
    std::swap(list.front(), ends ? list.back() : list[list.size() / 2]);
    return setAttribute(op, attribute, DenseI64ArrayAttr::get(op->getContext(), list));
  };
}

Change swapOperands(unsigned a, unsigned b) {
  return [=](Operation *op) {
    if (op->getNumOperands() <= std::max(a, b) || op->getOperand(a) == op->getOperand(b)) {
      return false;
    }
    Value left = op->getOperand(a), right = op->getOperand(b);
    op->setOperand(a, right);
    op->setOperand(b, left);
    if (succeeded(verify(op))) {
      return true;
    }
    op->setOperand(a, left);
    op->setOperand(b, right);
    return false;
  };
}

/// The result becomes the first operand.
bool dropOp(Operation *op) {
  if (op->getOperand(0).getType() != op->getResult(0).getType()) {
    return false;
  }
  op->getResult(0).replaceAllUsesWith(op->getOperand(0));
  return true;
}

/// Another operation of the same operands and result type takes its place.
Change becomes(StringRef name) {
  return [=](Operation *op) {
    OpBuilder builder(op);
    OperationState state(op->getLoc(), ("tn." + name).str(), op->getOperands(),
                         op->getResultTypes());
    Operation *made = builder.create(state);
    if (failed(verify(made))) {
      made->erase();
      return false;
    }
    op->replaceAllUsesWith(made);
    return true;
  };
}

/// An enum attribute by its text, as in #tn<reduce_kind sum>.
template <typename EnumAttr, typename Enum>
Change enumBecomes(StringRef attribute, Enum from, Enum to) {
  return [=](Operation *op) {
    EnumAttr before = op->getAttrOfType<EnumAttr>(attribute);
    return before && before.getValue() == from &&
           setAttribute(op, attribute, EnumAttr::get(op->getContext(), to));
  };
}

/// An optional operand is forgotten.
template <typename Op> Change forget(MutableOperandRange (Op::*range)()) {
  return [=](Operation *op) {
    Op typed = dyn_cast<Op>(op);
    MutableOperandRange operands = (typed.*range)();
    if (operands.size() == 0) {
      return false;
    }
    operands.clear();
    return true;
  };
}

/// Elements [begin, begin + count) along an axis of constant size.
Value part(OpBuilder &builder, Value x, int64_t axis, int64_t begin, int64_t count) {
  tn::Dims dims = tn::getDims(x.getType());
  MLIRContext *context = builder.getContext();
  SmallVector<AffineExpr> starts(dims.size(), getAffineConstantExpr(0, context));
  starts[axis] = getAffineConstantExpr(begin, context);
  dims[axis] = getAffineConstantExpr(count, context);
  RankedTensorType type = tn::makeTensor(dims, getElementTypeOrSelf(x));
  unsigned symbols = 0;
  for (AffineExpr dim : dims) {
    dim.walk([&](AffineExpr part) {
      if (AffineSymbolExpr symbol = dyn_cast<AffineSymbolExpr>(part)) {
        symbols = std::max(symbols, symbol.getPosition() + 1);
      }
    });
  }
  return tn::SliceOp::create(builder, x.getLoc(), type, x,
                             AffineMapAttr::get(AffineMap::get(0, 0, starts, context)),
                             DenseI64ArrayAttr::get(context, SmallVector<int64_t>(dims.size(), 1)));
}

/// The last element of each row of the result is that of the first one: a tail that a lowering
/// missed. `multiple`: only where the width is no multiple of it.
Change wrongTail(int64_t multiple, bool lastAxis = true) {
  return [=](Operation *op) {
    Value y = op->getResult(0);
    RankedTensorType type = cast<RankedTensorType>(y.getType());
    int64_t axis = lastAxis ? type.getRank() - 1 : type.getRank() - 2;
    if (axis < 0 || type.isDynamicDim(axis) || type.getDimSize(axis) < 2 ||
        type.getDimSize(axis) % multiple == 0) {
      return false;
    }
    int64_t size = type.getDimSize(axis);
    OpBuilder builder(op);
    builder.setInsertionPointAfter(op);
    Value rest = part(builder, y, axis, 0, size - 1);
    Value first = part(builder, y, axis, 0, 1);
    Value wrong = tn::ConcatOp::create(builder, op->getLoc(), type, ValueRange{rest, first}, axis);
    llvm::SmallPtrSet<Operation *, 2> kept = {rest.getDefiningOp(), first.getDefiningOp()};
    y.replaceAllUsesExcept(wrong, kept);
    return true;
  };
}

/// The last of what is summed up is left out.
bool shortSum(Operation *op) {
  tn::ReduceOp reduce = cast<tn::ReduceOp>(op);
  RankedTensorType type = cast<RankedTensorType>(reduce.getX().getType());
  if (reduce.getAxes().empty()) {
    return false;
  }
  int64_t axis = reduce.getAxes().back();
  if (type.isDynamicDim(axis) || type.getDimSize(axis) < 2) {
    return false;
  }
  OpBuilder builder(op);
  Value shorter = part(builder, reduce.getX(), axis, 0, type.getDimSize(axis) - 1);
  op->setOperand(0, shorter);
  return succeeded(verify(op));
}

/// Starts one later, where there is one more.
bool shiftSlice(Operation *op) {
  tn::SliceOp slice = cast<tn::SliceOp>(op);
  tn::Dims from = tn::getDims(slice.getX().getType()), to = tn::getDims(slice.getType());
  SmallVector<AffineExpr> starts(slice.getStarts().getResults());
  for (size_t i = 0; i < starts.size(); ++i) {
    std::optional<int64_t> start = tn::constantDim(starts[i]), size = tn::constantDim(from[i]),
                           count = tn::constantDim(to[i]);
    int64_t step = slice.getSteps()[i];
    bool fits = start && size && count && *count > 0 && step > 0 &&
                *start + 1 + (*count - 1) * step < *size;
    if (fits) {
      starts[i] = starts[i] + 1;
      AffineMap map = slice.getStarts();
      return setAttribute(
          op, "starts",
          AffineMapAttr::get(AffineMap::get(0, map.getNumSymbols(), starts, op->getContext())));
    }
  }
  return false;
}

bool wrongSizes(Operation *op) {
  tn::SizesOp sizes = cast<tn::SizesOp>(op);
  AffineMap map = sizes.getValuesAttr().getValue();
  SmallVector<AffineExpr> values(map.getResults());
  if (values.empty()) {
    return false;
  }
  values[0] = values[0] + 1;
  return setAttribute(
      op, "values",
      AffineMapAttr::get(AffineMap::get(0, map.getNumSymbols(), values, op->getContext())));
}

bool isElementwiseResult(Operation *op) {
  return op->hasTrait<tn::TnElementwise>() && op->getNumResults() == 1;
}

std::vector<Fault> makeFaults() {
  using K = tn::ReduceKind;
  using P = tn::Predicate;
  std::vector<Fault> faults;
  auto add = [&](const char *name, StringRef op, Change change, Phase phase = Phase::Optimize) {
    faults.push_back(
        {name, op.empty() ? std::move(change) : onlyFor(op, std::move(change)), phase});
  };
  auto reduceKind = [](K from, K to) { return enumBecomes<tn::ReduceKindAttr>("kind", from, to); };
  auto predicate = [](P from, P to) {
    return enumBecomes<tn::PredicateAttr>("predicate", from, to);
  };
  add("reduce-sum-as-mean", "reduce", reduceKind(K::sum, K::mean));
  add("reduce-mean-as-sum", "reduce", reduceKind(K::mean, K::sum));
  add("reduce-max-as-min", "reduce", reduceKind(K::max, K::min));
  add("reduce-prod-as-sum", "reduce", reduceKind(K::prod, K::sum));
  add("reduce-leaves-out-last", "reduce", shortSum, Phase::Normalize);
  add("compare-lt-as-le", "compare", predicate(P::lt, P::le));
  add("compare-gt-as-ge", "compare", predicate(P::gt, P::ge));
  add("compare-ge-as-gt", "compare", predicate(P::ge, P::gt));
  add("compare-swapped", "compare", swapOperands(0, 1));
  add("softmax-other-axis", "softmax", addTo("axis", -1));
  add("softmax-log-confused", "softmax", flipUnit("log"));
  add("cumsum-exclusive", "cumsum", flip("exclusive"));
  add("cumsum-reverse", "cumsum", flip("reverse"));
  add("layer-norm-epsilon", "layer_norm", real("epsilon", 0.05));
  add("layer-norm-forgets-bias", "layer_norm", forget(&tn::LayerNormOp::getBiasMutable));
  add("rms-norm-epsilon", "rms_norm", real("epsilon", 0.05));
  add("batch-norm-epsilon", "batch_norm", real("epsilon", 0.05), Phase::Normalize);
  add("batch-norm-mean-as-bias", "batch_norm", swapOperands(2, 3), Phase::Normalize);
  add("gelu-approximate", "gelu", flipUnit("approximate"));
  add("leaky-relu-slope", "leaky_relu", real("alpha", 0.02));
  add("elu-alpha", "elu", real("alpha", 0.9));
  add("hard-sigmoid-beta", "hard_sigmoid", real("beta", 0.45));
  add("clamp-high", "clamp", real("hi", 0.8));
  add("clamp-low", "clamp", real("lo", -0.1));
  add("conv-pads-swapped", "conv", swapIn("pads", false), Phase::Normalize);
  add("conv-forgets-bias", "conv", forget(&tn::ConvOp::getBiasMutable));
  add("conv-tail", "conv", wrongTail(8));
  add("conv-transpose-forgets-bias", "conv_transpose",
      forget(&tn::ConvTransposeOp::getBiasMutable));
  add("conv-transpose-pads", "conv_transpose", swapIn("pads", false));
  add("matmul-transposed-b", "matmul", flipUnit("transposeB"));
  add("matmul-transposed-a", "matmul", flipUnit("transposeA"));
  add("matmul-swapped", "matmul", swapOperands(0, 1));
  add("matmul-last-column", "matmul", wrongTail(32));
  add("matmul-last-row", "matmul", wrongTail(4, false));
  add("attention-scale", "attention", real("scale", 0.9));
  add("attention-causal", "attention", flip("causal"));
  add("attention-forgets-mask", "attention", forget(&tn::AttentionOp::getMaskMutable));
  add("max-pool-pads", "max_pool", swapIn("pads", false));
  add("max-pool-dilations", "max_pool", swapIn("dilations", true));
  add("avg-pool-counts-pads", "avg_pool", flip("countIncludePad"));
  add("pool-tail", "max_pool", wrongTail(4));
  add("transpose-permutation", "transpose", swapIn("permutation", true), Phase::Normalize);
  add("slice-shifted", "slice", shiftSlice, Phase::Normalize);
  add("pad-mode", "pad",
      enumBecomes<tn::PadModeAttr>("mode", tn::PadMode::reflect, tn::PadMode::edge));
  add("pad-forgets-value", "pad", forget(&tn::PadOp::getValueMutable));
  add("concat-swapped", "concat", swapOperands(0, 1));
  add("trilu-diagonal", "trilu", addTo("diagonal", 1));
  add("trilu-upper", "trilu", flip("upper"));
  add("top-k-smallest", "top_k", flip("largest"));
  add("arg-reduce-last", "arg_reduce", flip("lastIndex"));
  add("arg-reduce-smallest", "arg_reduce", flip("largest"));
  add("resize-coordinates", "resize", [](Operation *op) {
    return setAttribute(op, "coordinates", StringAttr::get(op->getContext(), "asymmetric"));
  });
  add("scatter-adds", "scatter_elements",
      enumBecomes<tn::ScatterKindAttr>("kind", tn::ScatterKind::none, tn::ScatterKind::add));
  add("sizes-off-by-one", "sizes", wrongSizes, Phase::Normalize);
  add("sub-swapped", "sub", swapOperands(0, 1));
  add("div-swapped", "div", swapOperands(0, 1));
  add("pow-swapped", "pow", swapOperands(0, 1));
  add("select-swapped", "select", swapOperands(1, 2));
  add("max-as-min", "max", becomes("min"));
  add("add-as-sub", "add", becomes("sub"));
  add("mul-as-add", "mul", becomes("add"));
  add("relu-dropped", "relu", dropOp);
  add("abs-dropped", "abs", dropOp);
  add("neg-dropped", "neg", dropOp);
  add("silu-as-sigmoid", "silu", becomes("sigmoid"));
  add("erf-as-tanh", "erf", becomes("tanh"));
  add("softplus-as-relu", "softplus", becomes("relu"));
  add("floor-as-round", "floor", becomes("round"));
  add("round-as-ceil", "round", becomes("ceil"));
  add("sqrt-as-rsqrt", "sqrt", becomes("rsqrt"));
  add("elementwise-tail", "",
      [tail = wrongTail(8)](Operation *op) { return isElementwiseResult(op) && tail(op); });
  add("gather-shifted", "gather", addTo("axis", -1));
  add("quantize-zero-dropped", "quantize", [](Operation *op) {
    OpBuilder builder(op);
    RankedTensorType type = cast<RankedTensorType>(op->getOperand(2).getType());
    if (!type.hasStaticShape()) {
      return false;
    }
    Value zero = tn::ConstantOp::create(
        builder, op->getLoc(), type,
        DenseElementsAttr::get(type, builder.getZeroAttr(type.getElementType())));
    op->setOperand(2, zero);
    return true;
  });
  return faults;
}

const std::vector<Fault> &faultList() {
  static const std::vector<Fault> list = makeFaults();
  return list;
}

} // namespace

std::vector<std::string> faultNames() {
  std::vector<std::string> names;
  for (const Fault &fault : faultList()) {
    names.push_back(fault.name);
  }
  llvm::append_range(names, sizeFaultNames());
  return names;
}

bool plantFault(const std::string &name, Phase phase, ModuleOp module) {
  bool isPlanted = phase == Phase::Import && plantSizeFault(name, module);
  for (const Fault &fault : faultList()) {
    if (fault.name != name || fault.phase != phase) {
      continue;
    }
    SmallVector<Operation *> targets;
    module.walk([&](Operation *op) {
      if (op->getNumResults() > 0 && !isa<tn::RegionOp>(op)) {
        targets.push_back(op);
      }
    });
    for (Operation *op : targets) {
      isPlanted = fault.change(op) || isPlanted;
    }
  }
  return isPlanted;
}

} // namespace tenon::random
