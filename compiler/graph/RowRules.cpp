// The rules, one a kind of operation.
#include "compiler/graph/RowRules.h"

#include "compiler/graph/RowNumbers.h"
#include "compiler/graph/TnCustom.h"
#include "compiler/graph/TnRare.h"
#include "compiler/graph/TnShard.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace tenon::tn {

bool KnownRows::isSame(ValueRange all) const {
  return llvm::all_of(all, [&](Value value) { return of(value).isAlong(of(all[0]).axis); });
}

bool KnownRows::isCommonAlong(Value value, int64_t axis) const {
  return !value || !of(value).isAbsent() || axis < 0 ||
         constantDim(getDims(value.getType())[axis]) == 1;
}

namespace {

int64_t rankOf(Value value) { return cast<RankedTensorType>(value.getType()).getRank(); }

bool isOneOf(const Rows &found, std::initializer_list<int64_t> axes) {
  return found.isCarried() && llvm::is_contained(axes, found.axis);
}

/// Of an operation that reads its first operand row by row, if `isWithin`, and no rows elsewhere.
Rows first(const KnownRows &known, Operation *op, bool isWithin, const char *how) {
  bool isAlone = llvm::all_of(op->getOperands().drop_front(),
                              [&](Value other) { return known.isAbsent(other); });
  return !isAlone   ? Rows::mixed(op, "has weights that rows give")
         : isWithin ? known.of(op->getOperand(0))
                    : Rows::mixed(op, how);
}

/// Of an operation on one operand that works along `axis`.
Rows across(const KnownRows &known, Operation *op, int64_t axis, const char *how) {
  Rows x = known.of(op->getOperand(0));
  return x.axis == axis ? Rows::mixed(op, how) : x;
}

/// Of operands that all have rows along one axis, other than the one that the operation works on.
Rows together(const KnownRows &known, Operation *op, ValueRange values, int64_t axis,
              const char *how) {
  bool isWithin = known.isSame(values) && known.of(values[0]).axis != axis;
  return isWithin ? known.of(values[0]) : Rows::mixed(op, how);
}

constexpr const char *kOwnValues = "has a value of its own for each row";

Rows elementwise(const KnownRows &known, Operation *op) {
  int64_t rank = rankOf(op->getResult(0));
  std::optional<int64_t> axis;
  for (Value operand : op->getOperands()) {
    if (known.of(operand).isAbsent()) {
      continue;
    }
    int64_t aligned = known.of(operand).axis + rank - rankOf(operand);
    if (axis && *axis != aligned) {
      return Rows::mixed(op, "pairs each row with every other");
    }
    axis = aligned;
  }
  bool isCommon = llvm::all_of(op->getOperands(), [&](Value operand) {
    return known.isCommonAlong(operand, *axis - rank + rankOf(operand));
  });
  return isCommon ? Rows::along(*axis) : Rows::mixed(op, kOwnValues);
}

const char *reduction(ReduceKind kind) {
  switch (kind) {
  case ReduceKind::sum:
    return "sums over the rows";
  case ReduceKind::mean:
    return "takes the mean over the rows";
  case ReduceKind::prod:
    return "multiplies the rows";
  case ReduceKind::max:
    return "takes the largest of all rows";
  case ReduceKind::min:
    return "takes the smallest of all rows";
  }
  return "reduces the rows";
}

Rows reduced(const KnownRows &known, Operation *op, ArrayRef<int64_t> axes, bool keepsDims,
             const char *how) {
  int64_t axis = known.of(op->getOperand(0)).axis;
  if (llvm::is_contained(axes, axis)) {
    return Rows::mixed(op, how);
  }
  int64_t before = llvm::count_if(axes, [&](int64_t each) { return each < axis; });
  return Rows::along(keepsDims ? axis : axis - before);
}

//===--- Movement ---===//

/// In row-major order a row is one piece for each place of the dims before its axis: it stays one
/// where as many places come before an axis of the result that is a multiple of the batch.
Rows ofReshape(const KnownRows &known, ReshapeOp reshape) {
  MLIRContext *context = reshape.getContext();
  Dims from = getDims(reshape.getX().getType()), to = getDims(reshape.getType());
  std::optional<int64_t> axis = known.onlyAxis(reshape.getType());
  AffineExpr before =
      elementCount(context, ArrayRef(from).take_front(known.of(reshape.getX()).axis));
  bool isWhole = axis && sameDim(before, elementCount(context, ArrayRef(to).take_front(*axis)));
  return isWhole ? Rows::along(*axis) : Rows::mixed(reshape, "cuts rows into others");
}

Rows ofBroadcast(const KnownRows &known, BroadcastOp broadcast) {
  Rows x = known.of(broadcast.getX());
  if (x.isCarried()) {
    return Rows::along(x.axis + rankOf(broadcast.getY()) - rankOf(broadcast.getX()));
  }
  std::optional<int64_t> axis = known.onlyAxis(broadcast.getType());
  return axis ? Rows::along(*axis) : Rows();
}

Rows ofSlice(const KnownRows &known, SliceOp slice) {
  Rows x = known.of(slice.getX());
  ArrayRef<AffineExpr> starts = slice.getStarts().getResults();
  bool isWhole =
      constantDim(starts[x.axis]) == 0 && slice.getSteps()[x.axis] == 1 &&
      sameDim(getDims(slice.getX().getType())[x.axis], getDims(slice.getType())[x.axis]) &&
      llvm::none_of(starts, [&](AffineExpr start) { return known.names(start); });
  return isWhole ? x : Rows::mixed(slice, "takes some of the rows");
}

Rows ofGather(const KnownRows &known, GatherOp gather) {
  Rows x = known.of(gather.getX()), indices = known.of(gather.getIndices());
  int64_t axis = gather.getAxis();
  if (x.isAbsent()) {
    return Rows::along(axis + indices.axis);
  }
  if (!indices.isAbsent() || x.axis == axis) {
    return Rows::mixed(gather, "picks rows by number");
  }
  return Rows::along(x.axis < axis ? x.axis : x.axis + rankOf(gather.getIndices()) - 1);
}

Rows ofGatherElements(const KnownRows &known, GatherElementsOp gather) {
  Rows x = known.of(gather.getX()), indices = known.of(gather.getIndices());
  int64_t axis = gather.getAxis();
  bool isOwn =
      x.isAbsent() ? indices.isAlong(axis) : known.isSame(gather->getOperands()) && x.axis != axis;
  return isOwn ? indices : Rows::mixed(gather, "picks rows by number");
}

/// Indices name the dims of x behind the first `batchDims`, which both have.
Rows ofGatherNd(const KnownRows &known, GatherNdOp gather) {
  Rows x = known.of(gather.getX()), indices = known.of(gather.getIndices());
  int64_t shared = gather.getBatchDims(), last = rankOf(gather.getIndices()) - 1;
  std::optional<int64_t> depth = constantDim(getDims(gather.getIndices().getType())[last]);
  if (x.isAbsent() && indices.axis >= shared && indices.axis < last) {
    return indices;
  }
  if (x.isCarried() && indices.isCarried() && x.axis == indices.axis && x.axis < shared) {
    return x;
  }
  if (x.isCarried() && indices.isAbsent() && depth && x.axis >= shared + *depth) {
    return Rows::along(last + x.axis - shared - *depth);
  }
  return Rows::mixed(gather, "picks rows by number");
}

Rows ofScatterNd(const KnownRows &known, ScatterNdOp scatter) {
  Rows x = known.of(scatter.getX()), updates = known.of(scatter.getUpdates());
  int64_t last = rankOf(scatter.getIndices()) - 1;
  std::optional<int64_t> depth = constantDim(getDims(scatter.getIndices().getType())[last]);
  bool isWithin = x.isCarried() && known.isAbsent(scatter.getIndices()) && depth &&
                  x.axis >= *depth && updates.isAlong(last + x.axis - *depth);
  return isWithin ? x : Rows::mixed(scatter, "writes by number into rows");
}

//===--- Products ---===//

Rows ofMatmul(const KnownRows &known, MatmulOp product) {
  Value operands[2] = {product.getA(), product.getB()};
  bool isTransposed[2] = {product.getTransposeA(), !product.getTransposeB()};
  int64_t rank = rankOf(product.getY());
  std::optional<int64_t> axis;
  for (int64_t i : {0, 1}) {
    Rows x = known.of(operands[i]);
    if (x.isAbsent()) {
      continue;
    }
    int64_t own = rankOf(operands[i]), outer = isTransposed[i] ? own - 1 : own - 2;
    if (x.axis >= own - 2 && x.axis != outer) {
      return Rows::mixed(product, "sums products over the rows");
    }
    int64_t aligned = x.axis == outer ? rank - 2 + i : x.axis + rank - own;
    if (axis && (*axis != aligned || aligned >= rank - 2)) {
      return Rows::mixed(product, "multiplies each row with every other");
    }
    axis = aligned;
  }
  bool isCommon = *axis >= rank - 2 || llvm::all_of(operands, [&](Value operand) {
    return known.isCommonAlong(operand, *axis - rank + rankOf(operand));
  });
  return isCommon ? Rows::along(*axis) : Rows::mixed(product, kOwnValues);
}

/// Rows are batches, or heads of which q has as many as k and v.
Rows ofAttention(const KnownRows &known, AttentionOp attention) {
  ArrayRef<bool> inner = attention.getHeadsInner();
  Value operands[3] = {attention.getQ(), attention.getK(), attention.getV()};
  Value mask = attention.getMask();
  bool isBatch = known.of(attention.getQ()).isAlong(0);
  auto axisOf = [&](int64_t operand) { return isBatch ? 0 : inner[operand] ? 2 : 1; };
  int64_t masked = mask ? rankOf(mask) - (isBatch ? 4 : 3) : 0;
  bool isOwn = !mask || known.of(mask).isAlong(masked) ||
               (known.isAbsent(mask) && known.isCommonAlong(mask, masked));
  isOwn &= !attention.getStart() || known.isAbsent(attention.getStart());
  AffineExpr rows = getDims(operands[0].getType())[axisOf(0)];
  for (int64_t i : {0, 1, 2}) {
    isOwn &= known.of(operands[i]).isAlong(axisOf(i)) &&
             sameDim(getDims(operands[i].getType())[axisOf(i)], rows);
  }
  return isOwn ? Rows::along(axisOf(3)) : Rows::mixed(attention, "lets rows see each other");
}

/// A scale for each row, as an axis of x, or one that no row decides.
template <typename Op> Rows ofQuantization(const KnownRows &known, Op op) {
  Rows x = known.of(op.getX());
  for (Value scale : {Value(op.getScale()), Value(op.getZeroPoint())}) {
    bool isByRow = rankOf(scale) > 0 && x.isAlong(op.getAxis());
    bool isOwn = isByRow ? known.of(scale).isAlong(0) || known.isCommonAlong(scale, 0)
                         : known.isAbsent(scale);
    if (!isOwn) {
      return Rows::mixed(op, "has a scale that other rows give");
    }
  }
  return x.isCarried() ? x : Rows::mixed(op, "has a scale that other rows give");
}

Rows ofRecurrence(const KnownRows &known, RecurrenceOp layer, OpResult result) {
  bool isOwn = known.of(layer.getInput()).isAlong(1);
  for (Value operand : layer->getOperands().drop_front()) {
    bool isState = operand == layer.getFirstH() || operand == layer.getFirstC() ||
                   operand == layer.getLengths();
    isOwn &= isState ? known.of(operand).isAlong(0) : known.isAbsent(operand);
  }
  return !isOwn ? Rows::mixed(layer, "steps from row to row")
                : Rows::along(result.getResultNumber() == 0 ? 1 : 0);
}

/// Of a kernel of the user's, by what its description says of one of its sizes.
Rows ofCustom(const KnownRows &known, CustomOp op) {
  if (!op.getRows()) {
    return Rows::mixed(op, "is a kernel of the user's, whose description does not name \"rows\"");
  }
  for (auto [index, size] : llvm::enumerate(op.getSizes().getResults())) {
    if (index != *op.getRows() && known.names(size)) {
      return Rows::mixed(op, "has the number of rows in another size than its rows");
    }
  }
  bool isFirst = llvm::all_of(op.getInputs(), [&](Value input) {
    return known.isAbsent(input) ? !known.isFree(input.getType()) : known.of(input).isAlong(0);
  });
  return isFirst ? Rows::along(0) : Rows::mixed(op, "reads rows along another dim than its first");
}

} // namespace

Rows ruleOf(const KnownRows &known, Operation *op, OpResult result) {
  bool isConstant =
      llvm::all_of(op->getOperands(), [&](Value operand) { return known.of(operand).isAbsent(); });
  if (llvm::any_of(op->getOperands(),
                   [&](Value operand) { return known.of(operand).isByNumber(); })) {
    return byRowNumbers(known, op);
  }
  if (IotaOp iota = dyn_cast<IotaOp>(op); iota && isConstant && isRowNumber(known, iota)) {
    return Rows::numbered(0);
  }
  if (isConstant && !isa<BroadcastOp>(op)) {
    return known.names(op) ? Rows::mixed(op, kByNumber) : Rows();
  }
  if (op->hasTrait<TnElementwise>() || isa<AllReduceOp, SendReceiveOp>(op)) {
    return elementwise(known, op);
  }
  return llvm::TypeSwitch<Operation *, Rows>(op)
      .Case<ReshapeOp>([&](ReshapeOp reshape) { return ofReshape(known, reshape); })
      .Case<TransposeOp>([&](TransposeOp transpose) {
        const int64_t *at = llvm::find(transpose.getPermutation(), known.of(transpose.getX()).axis);
        return Rows::along(at - transpose.getPermutation().begin());
      })
      .Case<BroadcastOp>([&](BroadcastOp broadcast) { return ofBroadcast(known, broadcast); })
      .Case<ConcatOp>([&](ConcatOp concat) {
        return together(known, concat, concat.getXs(), concat.getAxis(),
                        "puts rows behind each other");
      })
      .Case<SliceOp>([&](SliceOp slice) { return ofSlice(known, slice); })
      .Case<PadOp>([&](PadOp pad) {
        int64_t axis = known.of(pad.getX()).axis;
        bool isWhole = known.of(pad.getX()).isCarried() && pad.getBegins()[axis] == 0 &&
                       pad.getEnds()[axis] == 0 && known.isAbsent(pad.getValue());
        return isWhole ? known.of(pad.getX()) : Rows::mixed(op, "adds or drops rows");
      })
      .Case<CustomOp>([&](CustomOp custom) { return ofCustom(known, custom); })
      .Case<AllGatherOp>([&](AllGatherOp gather) {
        return together(known, op, gather.getX(), gather.getDim(), "puts rows of ranks together");
      })
      .Case<GatherOp>([&](GatherOp gather) { return ofGather(known, gather); })
      .Case<GatherElementsOp>(
          [&](GatherElementsOp gather) { return ofGatherElements(known, gather); })
      .Case<GatherNdOp>([&](GatherNdOp gather) { return ofGatherNd(known, gather); })
      .Case<ScatterElementsOp>([&](ScatterElementsOp scatter) {
        return together(known, op, op->getOperands(), scatter.getAxis(),
                        "writes by number into rows");
      })
      .Case<ScatterNdOp>([&](ScatterNdOp scatter) { return ofScatterNd(known, scatter); })
      .Case<ReduceOp>([&](ReduceOp reduce) {
        return reduced(known, op, reduce.getAxes(), reduce.getKeepdims(),
                       reduction(reduce.getKind()));
      })
      .Case<ArgReduceOp>([&](ArgReduceOp search) {
        return reduced(known, op, {static_cast<int64_t>(search.getAxis())}, search.getKeepdims(),
                       "searches all rows");
      })
      .Case<CumsumOp>([&](CumsumOp sum) {
        return across(known, op, sum.getAxis(), "adds up one row after the other");
      })
      .Case<SoftmaxOp>([&](SoftmaxOp softmax) {
        return across(known, op, softmax.getAxis(), "normalizes over the rows");
      })
      .Case<TopKOp>(
          [&](TopKOp best) { return across(known, op, best.getAxis(), "sorts the rows"); })
      .Case<LayerNormOp, RmsNormOp>([&](auto norm) {
        bool isWithin = known.of(norm.getX()).isCarried() &&
                        known.of(norm.getX()).axis < static_cast<int64_t>(norm.getAxis());
        return first(known, op, isWithin, "normalizes over the rows");
      })
      .Case<GroupNormOp, BatchNormOp, ConvOp, ConvTransposeOp>([&](Operation *) {
        return first(known, op, known.of(op->getOperand(0)).isAlong(0),
                     "reads rows as channels or positions");
      })
      .Case<MaxPoolOp, AvgPoolOp>([&](auto pool) {
        int64_t channel = pool.getChannelsLast() ? rankOf(pool.getX()) - 1 : 1;
        return first(known, op, isOneOf(known.of(pool.getX()), {0, channel}),
                     "pools over the rows");
      })
      .Case<MaxPoolIndexOp>([&](Operation *) {
        bool isWithin =
            isOneOf(known.of(op->getOperand(0)), {0, 1}) && known.isSame(op->getOperands());
        return isWithin ? known.of(op->getOperand(0)) : Rows::mixed(op, "pools over the rows");
      })
      .Case<ResizeOp>([&](ResizeOp resize) {
        Rows x = known.of(resize.getX());
        bool isKept = x.isCarried() && resize.getScales()[x.axis] == 1;
        return isKept ? x : Rows::mixed(op, "resamples along the rows");
      })
      .Case<TriluOp>([&](TriluOp triangle) {
        bool isWithin = known.of(triangle.getX()).axis < rankOf(triangle.getX()) - 2;
        return isWithin ? known.of(triangle.getX())
                        : Rows::mixed(op, "keeps a triangle of the rows");
      })
      .Case<MatmulOp>([&](MatmulOp product) { return ofMatmul(known, product); })
      .Case<AttentionOp>([&](AttentionOp attention) { return ofAttention(known, attention); })
      .Case<QuantizeOp, DequantizeOp>([&](auto op) { return ofQuantization(known, op); })
      .Case<RecurrenceOp>([&](RecurrenceOp layer) { return ofRecurrence(known, layer, result); })
      .Case<SelectBoxesOp>([&](SelectBoxesOp select) {
        bool fits = known.isSame(select->getOperands().take_front(3)) &&
                    known.of(select.getBoxes()).isAlong(0) && known.isAbsent(select.getLimit()) &&
                    known.isAbsent(select.getOverlap());
        return fits ? Rows::along(0) : Rows::mixed(op, "selects boxes of all rows");
      })
      .Case<SampleOp>([&](SampleOp sample) {
        bool fits = known.isSame(sample->getOperands()) && known.of(sample.getLogits()).isAlong(0);
        return fits ? Rows::along(0) : Rows::mixed(op, "draws tokens of all rows");
      })
      .Case<TakeFirstOp>([&](TakeFirstOp taken) {
        bool isKept = known.of(taken.getX()).isCarried() && known.of(taken.getX()).axis != 0 &&
                      known.isAbsent(taken.getCount());
        return isKept ? known.of(taken.getX()) : Rows::mixed(op, "takes as many as all rows say");
      })
      .Case<TruePositionsOp>(
          [&](Operation *) { return Rows::mixed(op, "selects among the elements of all rows"); })
      .Default([&](Operation *) { return Rows::mixed(op, "has no rule of how rows pass it"); });
}

} // namespace tenon::tn
