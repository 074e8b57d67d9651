// The rules, one a kind of operation.
#include "compiler/graph/PaddingMovement.h"

#include "compiler/graph/TnRare.h"
#include "compiler/graph/TnShard.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace tenon::tn {

namespace {

constexpr const char *kOwnOfPlaces = "has values of its own for padded places";

/// Of an operation that works on each place of its first operand alone if none of its axes is one
/// of `within`.
Places apart(const KnownPlaces &known, Operation *op, llvm::function_ref<bool(int64_t)> isWithin,
             const char *how) {
  const Places &x = known.of(op->getOperand(0));
  bool isApart = llvm::none_of(x.axes, [&](const PlaceAxis &axis) { return isWithin(axis.axis); });
  bool isCommon = llvm::all_of(op->getOperands().drop_front(),
                               [&](Value other) { return known.isCommon(other); });
  return isApart && isCommon ? forgotten(x) : Places::mixed(op, how);
}

//===--- Elementwise ---===//

/// The predicate between an index behind the length and one within it.
Content ofIndices(CompareOp compare, bool isLeftBehind) {
  switch (compare.getPredicate()) {
  case Predicate::eq:
    return Content::of(0);
  case Predicate::ne:
    return Content::of(1);
  case Predicate::lt:
  case Predicate::le:
    return Content::of(isLeftBehind ? 0 : 1);
  case Predicate::gt:
  case Predicate::ge:
    return Content::of(isLeftBehind ? 1 : 0);
  }
  return {};
}

/// An operand's axis that is dim `axis` of the result.
int64_t alignedAxis(Value operand, int64_t axis, int64_t resultRank) {
  return axis - resultRank + rank(operand);
}

Places ofElementwise(const KnownPlaces &known, Operation *op) {
  int64_t resultRank = rank(op->getResult(0));
  Places result;
  SmallVector<Content> numbers;
  for (Value operand : op->getOperands()) {
    const Places &x = known.of(operand);
    result.isFinite &= x.isFinite;
    numbers.push_back(Content::of(x.number));
    for (const PlaceAxis &axis : x.axes) {
      int64_t at = axis.axis + resultRank - rank(operand);
      if (!result.at(at)) {
        result.axes.push_back({at, axis.inner, {}});
      }
    }
  }
  for (PlaceAxis &axis : result.axes) {
    SmallVector<Content> contents;
    for (Value operand : op->getOperands()) {
      int64_t own = alignedAxis(operand, axis.axis, resultRank);
      const PlaceAxis *placed = known.of(operand).at(own);
      bool isOnce = own < 0 || constantDim(getDims(operand.getType())[own]) == 1;
      if (placed ? !sameDim(placed->inner, axis.inner) : !isOnce) {
        return Places::mixed(op, kOwnOfPlaces);
      }
      contents.push_back(placed ? placed->content : Content::of(known.of(operand).number));
    }
    axis.content = contentOf(op, contents, result.isFinite);
  }
  if (CompareOp compare = dyn_cast<CompareOp>(op)) {
    std::optional<int64_t> a = known.of(compare.getA()).indexOf,
                           b = known.of(compare.getB()).indexOf;
    int64_t left = a ? *a + resultRank - rank(compare.getA()) : 0;
    int64_t right = b ? *b + resultRank - rank(compare.getB()) : 0;
    for (PlaceAxis &axis : result.axes) {
      if (a && b && left != right && (axis.axis == left || axis.axis == right)) {
        axis.content = ofIndices(compare, axis.axis == left);
      }
    }
  }
  DivOp quotient = dyn_cast<DivOp>(op);
  // A divisor of 0 leaves nothing finite within the length either.
  bool isKept = keepsFinite(op) || (quotient && known.of(quotient.getB()).isCommon());
  bool isFloat = isa<FloatType>(getElementTypeOrSelf(op->getResult(0)));
  result.isFinite = (result.isFinite && isKept) || !isFloat || result.axes.empty();
  if (result.axes.empty()) {
    result.number = contentOf(op, numbers, true).number();
  }
  if (isa<CastOp>(op)) {
    result.indexOf = known.of(op->getOperand(0)).indexOf;
  }
  return result;
}

//===--- Reductions ---===//

/// Below what models let scores be, where the largest itself is asked for.
constexpr double kLeast = -1e9;

bool isNeutral(ReduceKind kind, const Content &content) {
  std::optional<double> number = content.number();
  switch (kind) {
  case ReduceKind::sum:
    return content.is(0);
  case ReduceKind::prod:
    return content.is(1);
  case ReduceKind::max:
    return number && *number <= kLeast;
  case ReduceKind::min:
    return number && *number >= -kLeast;
  case ReduceKind::mean:
    return false;
  }
  return false;
}

Places ofReduction(const KnownPlaces &known, Operation *op, ArrayRef<int64_t> axes, bool keepsDims,
                   llvm::function_ref<bool(const Content &)> isNeutral, const char *how) {
  const Places &x = known.of(op->getOperand(0));
  Places result = forgotten(x);
  result.axes.clear();
  for (const PlaceAxis &axis : x.axes) {
    if (!llvm::is_contained(axes, axis.axis)) {
      int64_t before = llvm::count_if(axes, [&](int64_t each) { return each < axis.axis; });
      result.axes.push_back({keepsDims ? axis.axis : axis.axis - before, axis.inner, {}});
    } else if (!isNeutral(axis.content)) {
      return Places::mixed(op, how);
    }
  }
  return result;
}

const char *howReduced(ReduceKind kind) {
  return kind == ReduceKind::mean  ? "takes the mean over padded places"
         : kind == ReduceKind::max ? "takes the largest of padded places too"
         : kind == ReduceKind::min ? "takes the smallest of padded places too"
                                   : "adds up padded places";
}

Places ofSoftmax(const KnownPlaces &known, SoftmaxOp softmax) {
  Places result = forgotten(known.of(softmax.getX()));
  result.isFinite &= !softmax.getLog();
  for (PlaceAxis &axis : result.axes) {
    if (axis.axis == static_cast<int64_t>(softmax.getAxis())) {
      const Places &x = known.of(softmax.getX());
      if (!known.isHiddenIn(x, x.at(axis.axis)->content)) {
        return Places::mixed(softmax, "normalizes over padded places");
      }
      axis.content = softmax.getLog() ? Content() : Content::of(0);
    }
  }
  return result;
}

//===--- Products ---===//

Places ofMatmul(const KnownPlaces &known, MatmulOp product) {
  Value operands[2] = {product.getA(), product.getB()};
  bool isTransposed[2] = {product.getTransposeA(), !product.getTransposeB()};
  int64_t resultRank = rank(product.getY());
  Places result;
  SmallVector<const PlaceAxis *> summed;
  for (int64_t i : {0, 1}) {
    const Places &x = known.of(operands[i]);
    int64_t own = rank(operands[i]), outer = isTransposed[i] ? own - 1 : own - 2;
    result.isFinite &= x.isFinite;
    for (const PlaceAxis &axis : x.axes) {
      if (axis.axis >= own - 2 && axis.axis != outer) {
        summed.push_back(&axis);
        continue;
      }
      int64_t at = axis.axis == outer ? resultRank - 2 + i : axis.axis + resultRank - own;
      const PlaceAxis *other = result.at(at);
      if (other && !sameDim(other->inner, axis.inner)) {
        return Places::mixed(product, kOwnOfPlaces);
      }
      if (!other) {
        result.axes.push_back({at, axis.inner, {}});
      }
    }
  }
  bool isHidden = llvm::any_of(summed, [](const PlaceAxis *axis) { return axis->content.is(0); });
  bool isSum = !summed.empty() && !(isHidden && summed.size() == 2 && result.isFinite);
  return isSum ? Places::mixed(product, "sums products over padded places") : result;
}

/// Keys behind the length must be hidden from queries within it.
Places ofAttention(const KnownPlaces &known, AttentionOp attention) {
  const Places &q = known.of(attention.getQ()), &k = known.of(attention.getK()),
               &v = known.of(attention.getV());
  ArrayRef<bool> inner = attention.getHeadsInner();
  int64_t queries = inner[0] ? 1 : 2, keys = inner[1] ? 1 : 2, values = inner[2] ? 1 : 2;
  Value mask = attention.getMask();
  const Places *bias = mask ? &known.of(mask) : nullptr;
  auto isOnly = [](const Places &x, int64_t axis) {
    return llvm::all_of(x.axes, [&](const PlaceAxis &each) { return each.axis == axis; });
  };
  if (!isOnly(q, queries) || !isOnly(k, keys) || !isOnly(v, values)) {
    return Places::mixed(attention, "has padded places for rows or heads");
  }
  if (k.at(keys) || v.at(values)) {
    const PlaceAxis *behind = bias ? bias->at(rank(mask) - 1) : nullptr;
    bool isCausal = attention.getCausal() && !attention.getStart() &&
                    known.isPlain(q.at(queries), attention.getQ().getType()) &&
                    known.isPlain(k.at(keys), attention.getK().getType());
    bool isHidden = k.isFinite && v.isFinite &&
                    (isCausal || (behind && known.isHiddenIn(*bias, behind->content)));
    if (!isHidden) {
      return Places::mixed(attention, "lets places see padded ones");
    }
  }
  Places result;
  if (const PlaceAxis *axis = q.at(queries)) {
    result.axes.push_back({inner[3] ? 1 : 2, axis->inner, {}});
  }
  result.isFinite = q.isFinite && k.isFinite && v.isFinite && (!bias || bias->isFinite);
  return result;
}

/// Along the length only what comes before a place may reach it, or zeros, as the borders are.
Places ofConv(const KnownPlaces &known, ConvOp conv) {
  Places result = forgotten(known.of(conv.getX()));
  for (const PlaceAxis &axis : known.of(conv.getX()).axes) {
    int64_t channel = conv.getChannelsLast() ? rank(conv.getX()) - 1 : 1;
    int64_t at = axis.axis - (conv.getChannelsLast() ? 1 : 2);
    int64_t spatial = rank(conv.getX()) - 2;
    if (axis.axis == 0) {
      continue;
    }
    bool isLater = axis.axis != channel && conv.getPads()[at + spatial] > 0;
    bool reaches = isLater && !axis.content.is(0);
    if (axis.axis == channel || conv.getStrides()[at] != 1 || reaches ||
        !known.isPlain(&axis, conv.getX().getType())) {
      return Places::mixed(conv, "reads padded places beside others");
    }
  }
  bool isOwn = llvm::all_of(conv->getOperands().drop_front(),
                            [&](Value other) { return known.isCommon(other); });
  return isOwn && result.isFinite ? result
                                  : Places::mixed(conv, "reads padded places beside others");
}

Places ofRecurrence(const KnownPlaces &known, RecurrenceOp layer, OpResult result) {
  const Places &input = known.of(layer.getInput());
  bool isOwn = known.isPlain(input.at(0), layer.getInput().getType()) && input.axes.size() == 1;
  for (Value operand : layer->getOperands().drop_front()) {
    isOwn &= known.isCommon(operand);
  }
  bool isWithin = layer.getLengths() || (!layer.getReverse() && result.getResultNumber() == 0);
  if (!isOwn || !isWithin) {
    return Places::mixed(layer, "steps through padded places");
  }
  return result.getResultNumber() == 0 ? forgotten(input) : Places();
}

} // namespace

Places placesOf(const KnownPlaces &known, Operation *op, OpResult result) {
  bool isCommon =
      llvm::all_of(op->getOperands(), [&](Value operand) { return known.isCommon(operand); });
  if (IotaOp iota = dyn_cast<IotaOp>(op); iota && isCommon) {
    Places indices;
    if (known.names(getDims(iota.getType())[0])) {
      indices.axes.push_back({0, getAffineConstantExpr(1, op->getContext()), {}});
      bool isIndex =
          known.of(iota.getStart()).number == 0.0 && known.of(iota.getStep()).number == 1.0;
      indices.indexOf = isIndex ? std::optional<int64_t>(0) : std::nullopt;
    }
    return indices;
  }
  if (ConstantOp constant = dyn_cast<ConstantOp>(op)) {
    Places common;
    common.number = numberOf(constant);
    return common;
  }
  if (op->hasTrait<TnElementwise>()) {
    return ofElementwise(known, op);
  }
  if (isCommon && !isa<BroadcastOp, SliceOp>(op)) {
    Places common;
    common.number =
        isa<ReshapeOp, TransposeOp>(op) ? known.of(op->getOperand(0)).number : std::nullopt;
    return known.names(op) ? Places::mixed(op, "computes with the length") : common;
  }
  auto isAny = [](int64_t) { return true; };
  return llvm::TypeSwitch<Operation *, Places>(op)
      .Case<ReshapeOp, TransposeOp, BroadcastOp, ConcatOp, SliceOp, GatherOp, TriluOp>(
          [&](auto moved) { return placesMoved(known, moved); })
      .Case([&](AllReduceOp) {
        Places sum = known.of(op->getOperand(0));
        sum.number.reset();
        for (PlaceAxis &axis : sum.axes) {
          axis.content = {};
        }
        return sum;
      })
      .Case([&](SendReceiveOp) { return known.of(op->getOperand(0)); })
      .Case([&](AllGatherOp gather) {
        return apart(
            known, op, [&](int64_t axis) { return axis == static_cast<int64_t>(gather.getDim()); },
            "puts places of ranks together");
      })
      .Case([&](PadOp pad) {
        return apart(
            known, op,
            [&](int64_t axis) { return pad.getBegins()[axis] != 0 || pad.getEnds()[axis] != 0; },
            "adds or drops padded places");
      })
      .Case([&](ReduceOp reduce) {
        return ofReduction(
            known, op, reduce.getAxes(), reduce.getKeepdims(),
            [&](const Content &content) { return isNeutral(reduce.getKind(), content); },
            howReduced(reduce.getKind()));
      })
      .Case([&](ArgReduceOp search) {
        ReduceKind kind = search.getLargest() ? ReduceKind::max : ReduceKind::min;
        return ofReduction(
            known, op, {static_cast<int64_t>(search.getAxis())}, search.getKeepdims(),
            [&](const Content &content) { return isNeutral(kind, content); },
            "searches padded places");
      })
      .Case([&](CumsumOp sum) {
        return apart(
            known, op,
            [&](int64_t axis) {
              return sum.getReverse() && axis == static_cast<int64_t>(sum.getAxis());
            },
            "adds up padded places");
      })
      .Case([&](SoftmaxOp softmax) { return ofSoftmax(known, softmax); })
      .Case([&](TopKOp best) {
        return apart(
            known, op, [&](int64_t axis) { return axis == static_cast<int64_t>(best.getAxis()); },
            "sorts padded places");
      })
      .Case<LayerNormOp, RmsNormOp>([&](auto norm) {
        return apart(
            known, op, [&](int64_t axis) { return axis >= static_cast<int64_t>(norm.getAxis()); },
            "normalizes over padded places");
      })
      .Case([&](BatchNormOp norm) {
        int64_t channel = norm.getChannelsLast() ? rank(norm.getX()) - 1 : 1;
        return apart(known, op, [&](int64_t axis) { return axis == channel; }, kOwnOfPlaces);
      })
      .Case([&](GroupNormOp) {
        return apart(
            known, op, [](int64_t axis) { return axis > 0; }, "normalizes over padded places");
      })
      .Case([&](MatmulOp product) { return ofMatmul(known, product); })
      .Case([&](AttentionOp attention) { return ofAttention(known, attention); })
      .Case([&](ConvOp conv) { return ofConv(known, conv); })
      .Case<MaxPoolOp, AvgPoolOp>([&](auto pool) {
        int64_t channel = pool.getChannelsLast() ? rank(pool.getX()) - 1 : 1;
        return apart(
            known, op, [&](int64_t axis) { return axis != 0 && axis != channel; },
            "pools over padded places");
      })
      .Case([&](RecurrenceOp layer) { return ofRecurrence(known, layer, result); })
      .Case([&](QuantizeOp) {
        return apart(
            known, op, [](int64_t) { return false; }, "has a scale that padded places give");
      })
      .Case([&](DequantizeOp) {
        return apart(
            known, op, [](int64_t) { return false; }, "has a scale that padded places give");
      })
      .Default([&](Operation *) {
        return apart(known, op, isAny, "has no rule of how padded places pass it");
      });
}

} // namespace tenon::tn
