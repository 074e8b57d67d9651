// Functions that few models use, said by the operators that many do.
#include "compiler/frontend/common/Activations.h"
#include "compiler/frontend/pt2/Call.h"

#include "mlir/IR/TypeUtilities.h"

#include <cmath>
#include <limits>

using namespace mlir;

namespace tenon::pt2 {
namespace {

mlir::Value isNan(Call &c, mlir::Value x) { return c.compare(x, tn::Predicate::ne, x); }
mlir::Value constantLike(Call &c, mlir::Value x, double value) { return c.scalarLike(value, x); }

void truncate(Call &c) { c.setOutput(frontend::truncated(c, c.value("self"))); }
void fraction(Call &c) {
  mlir::Value x = c.value("self");
  c.setOutput(c.sub(x, frontend::truncated(c, x)));
}
void complementOfErf(Call &c) {
  c.setOutput(c.toResult(frontend::complementOfErf(c, c.widened(c.toResult(c.value("self"))))));
}
void logit(Call &c) {
  mlir::Value x = c.toResult(c.value("self"));
  if (c.has("eps")) {
    double epsilon = c.real("eps", 0);
    x = c.min(c.max(x, constantLike(c, x, epsilon)), constantLike(c, x, 1 - epsilon));
  }
  c.setOutput(c.unary<tn::LogOp>(c.div(x, c.sub(constantLike(c, x, 1), x))));
}
void xLogY(Call &c) {
  Type element = c.resultElement();
  mlir::Value x = c.operand("self", element), y = c.operand("other", element);
  mlir::Value isZero = c.compare(x, tn::Predicate::eq, c.scalar(0, element));
  mlir::Value product = c.mul(x, c.unary<tn::LogOp>(y));
  c.setOutput(c.select(isNan(c, y), y, c.select(isZero, c.scalar(0, element), product)));
}
/// log(exp(a) + exp(b)), the larger taken out so that nothing overflows.
void logAddExp(Call &c) {
  Type element = c.resultElement();
  mlir::Value a = c.operand("self", element), b = c.operand("other", element);
  mlir::Value most = c.max(a, b), distance = c.unary<tn::NegOp>(c.unary<tn::AbsOp>(c.sub(a, b)));
  mlir::Value sum = c.add(most, c.unary<tn::SoftplusOp>(distance));
  c.setOutput(c.select(c.compare(a, tn::Predicate::eq, b),
                       c.add(a, c.scalar(std::log(2.0), element)), sum));
}
/// log(1 + x) with the rounding of 1 + x taken back, as x is small; Kahan's form.
void log1p(Call &c) {
  mlir::Value x = c.toResult(c.value("self")), one = c.scalarLike(1, x);
  mlir::Value sum = c.add(x, one), rest = c.sub(sum, one);
  mlir::Value corrected = c.mul(c.unary<tn::LogOp>(sum), c.div(x, rest));
  mlir::Value isSmall = c.compare(rest, tn::Predicate::eq, c.scalarLike(0, x));
  mlir::Value isLarge = c.compare(sum, tn::Predicate::gt, c.scalarLike(1e30, x));
  c.setOutput(c.select(isSmall, x, c.select(isLarge, c.unary<tn::LogOp>(sum), corrected)));
}
/// exp(x) - 1 = 2 sinh(x/2) exp(x/2), which does not cancel.
void expm1(Call &c) {
  mlir::Value x = c.toResult(c.value("self")), half = c.mul(x, c.scalarLike(0.5, x));
  mlir::Value near =
      c.mul(c.mul(c.unary<tn::SinhOp>(half), c.unary<tn::ExpOp>(half)), c.scalarLike(2, x));
  mlir::Value far = c.sub(c.unary<tn::ExpOp>(x), c.scalarLike(1, x));
  mlir::Value isNear = c.compare(c.unary<tn::AbsOp>(x), tn::Predicate::lt, c.scalarLike(1, x));
  c.setOutput(c.select(isNear, near, far));
}

/// The angle of (x, y) from the one below 45 degrees; zeros and infinities count with their signs.
void atan2(Call &c) {
  Type element = c.resultElement();
  mlir::Value y = c.widened(c.operand("self", element));
  mlir::Value x = c.widened(c.operand("other", element));
  if (!x || !y) {
    return;
  }
  mlir::Value zero = c.scalarLike(0, x), one = c.scalarLike(1, x);
  mlir::Value infinity = c.scalarLike(std::numeric_limits<double>::infinity(), x);
  auto isNegative = [&](mlir::Value v) {
    mlir::Value isZero = c.compare(v, tn::Predicate::eq, zero);
    return c.compare(c.select(isZero, c.div(one, v), v), tn::Predicate::lt, zero);
  };
  mlir::Value height = c.unary<tn::AbsOp>(y), width = c.unary<tn::AbsOp>(x);
  mlir::Value large = c.max(height, width), small = c.min(height, width);
  mlir::Value slope = c.div(small, large);
  slope = c.select(c.compare(large, tn::Predicate::eq, zero), zero, slope);
  slope = c.select(c.compare(small, tn::Predicate::eq, infinity), one, slope);
  mlir::Value angle = c.unary<tn::AtanOp>(slope);
  auto beyond = [&](mlir::Value isBeyond, double whole) {
    angle = c.select(isBeyond, c.sub(c.scalarLike(whole, x), angle), angle);
  };
  beyond(c.compare(height, tn::Predicate::gt, width), 1.5707963267948966);
  beyond(isNegative(x), 3.141592653589793);
  c.setOutput(c.toResult(c.select(isNegative(y), c.unary<tn::NegOp>(angle), angle)));
}

void hypotenuse(Call &c) {
  Type element = c.resultElement();
  mlir::Value a = c.widened(c.operand("self", element)), b = c.widened(c.operand("other", element));
  c.setOutput(c.toResult(frontend::hypotenuse(c, a, b)));
}
template <bool isHard> void shrink(Call &c) {
  mlir::Value x = isHard ? c.value("self") : c.widened(c.value("self"));
  double lambda = c.real("lambd", 0.5);
  mlir::Value isBeyond =
      c.compare(c.unary<tn::AbsOp>(x), tn::Predicate::gt, constantLike(c, x, lambda));
  mlir::Value y = isHard ? x : c.sub(x, c.mul(c.unary<tn::SignOp>(x), constantLike(c, x, lambda)));
  c.setOutput(c.toResult(c.select(isBeyond, y, constantLike(c, x, 0))));
}
void tanhShrink(Call &c) {
  mlir::Value x = c.value("self");
  c.setOutput(c.sub(x, c.unary<tn::TanhOp>(x)));
}
void replaceNan(Call &c) {
  mlir::Value x = c.value("self");
  if (!x || !isa<FloatType>(getElementTypeOrSelf(x))) {
    c.ignore({"nan", "posinf", "neginf"});
    return c.setOutput(x);
  }
  double most =
      llvm::APFloat::getLargest(cast<FloatType>(getElementTypeOrSelf(x)).getFloatSemantics())
          .convertToDouble();
  double infinity = std::numeric_limits<double>::infinity();
  mlir::Value high = constantLike(c, x, c.real("posinf", most)),
              low = constantLike(c, x, c.real("neginf", -most));
  mlir::Value y = c.select(isNan(c, x), constantLike(c, x, c.real("nan", 0)), x);
  y = c.select(c.compare(x, tn::Predicate::eq, constantLike(c, x, infinity)), high, y);
  c.setOutput(c.select(c.compare(x, tn::Predicate::eq, constantLike(c, x, -infinity)), low, y));
}
template <int kDegreesTo> void angle(Call &c) {
  double factor = kDegreesTo ? 3.141592653589793 / 180 : 180 / 3.141592653589793;
  c.setOutput(c.mul(c.toResult(c.value("self")), c.scalar(factor, c.resultElement())));
}
template <int kSign> void isInfinite(Call &c) {
  mlir::Value x = c.value("self");
  c.setOutput(c.compare(x, tn::Predicate::eq,
                        constantLike(c, x, kSign * std::numeric_limits<double>::infinity())));
}
void isClose(Call &c) {
  Type element = c.promoted({"self", "other"});
  if (c.truth("equal_nan", false)) {
    return c.gap("NaN as equal to NaN is not supported", "compare without it");
  }
  mlir::Value a = c.operand("self", element), b = c.operand("other", element);
  mlir::Value room = c.add(c.scalar(c.real("atol", 1e-8), element),
                           c.mul(c.scalar(c.real("rtol", 1e-5), element), c.unary<tn::AbsOp>(b)));
  mlir::Value isNear = c.compare(c.unary<tn::AbsOp>(c.sub(a, b)), tn::Predicate::le, room);
  c.setOutput(c.make<tn::OrOp>(c.compare(a, tn::Predicate::eq, b), isNear));
}
void floatPower(Call &c) {
  Type element = c.resultElement();
  c.setOutput(c.make<tn::PowOp>(c.operand("self", element), c.operand("exponent", element)));
}
void countNonzero(Call &c) {
  mlir::Value x = c.value("self");
  if (x) {
    Type wide = c.builder().getI64Type();
    mlir::Value ones = c.cast(c.cast(x, c.builder().getI1Type()), wide);
    SmallVector<int64_t> axes = c.axes("dim", rankOf(x));
    c.setOutput(axes.empty() ? ones : c.reduce(tn::ReduceKind::sum, ones, axes, false));
  }
}

//===--- Distances and products ---===//

/// The sum of products along an axis.
mlir::Value dotAlong(Call &c, mlir::Value a, mlir::Value b, int64_t axis, bool keeps) {
  return c.reduce(tn::ReduceKind::sum, c.mul(a, b), {axis}, keeps);
}
void cosineSimilarity(Call &c) {
  mlir::Value a = c.widened(c.value("x1")), b = c.widened(c.value("x2"));
  if (!a || !b) {
    return;
  }
  FailureOr<tn::Dims> dims = tn::broadcastDims(tn::getDims(a.getType()), tn::getDims(b.getType()));
  if (mlir::failed(dims)) {
    return c.gap("the shapes of its operands cannot be reconciled",
                 "declare the input shapes with --shape");
  }
  a = c.broadcast(a, *dims), b = c.broadcast(b, *dims);
  int64_t axis = c.axis("dim", 1, static_cast<int64_t>(dims->size()));
  double epsilon = c.real("eps", 1e-8);
  auto normed = [&](mlir::Value x) {
    mlir::Value length = c.unary<tn::SqrtOp>(dotAlong(c, x, x, axis, true));
    return c.div(x, c.max(length, constantLike(c, x, epsilon)));
  };
  c.setOutput(c.toResult(dotAlong(c, normed(a), normed(b), axis, false)));
}
void pairwiseDistance(Call &c) {
  mlir::Value a = c.widened(c.value("x1")), b = c.widened(c.value("x2"));
  if (c.real("p", 2) != 2) {
    return c.gap("distances of other than the second order are not supported", "use p = 2");
  }
  mlir::Value d = c.add(c.sub(a, b), a ? constantLike(c, a, c.real("eps", 1e-6)) : a);
  if (d) {
    int64_t axis = rankOf(d) - 1;
    mlir::Value sum = dotAlong(c, d, d, axis, c.truth("keepdim", false));
    c.setOutput(c.toResult(c.unary<tn::SqrtOp>(sum)));
  }
}
/// Distances of all rows of x1 to all rows of x2.
void distances(Call &c) {
  mlir::Value a = c.widened(c.value("x1")), b = c.widened(c.value("x2"));
  c.ignore({"compute_mode"});
  double order = c.real("p", 2);
  if (order != 2 && order != 1) {
    return c.gap("distances of other than the first and second order are not supported",
                 "use p = 2");
  }
  if (!a || !b) {
    return;
  }
  tn::Dims left = tn::getDims(a.getType()), right = tn::getDims(b.getType());
  left.insert(left.end() - 1, c.constantSize(1));
  right.insert(right.end() - 2, c.constantSize(1));
  mlir::Value d = c.sub(c.reshape(a, left), c.reshape(b, right));
  if (d) {
    int64_t axis = rankOf(d) - 1;
    c.setOutput(c.toResult(order == 1
                               ? c.reduce(tn::ReduceKind::sum, c.unary<tn::AbsOp>(d), {axis}, false)
                               : c.unary<tn::SqrtOp>(dotAlong(c, d, d, axis, false))));
  }
}
void crossProduct(Call &c) {
  mlir::Value a = c.value("self"), b = c.value("other");
  if (!a || !b) {
    return;
  }
  int64_t axis = c.axis("dim", -1, rankOf(a));
  auto turned = [&](mlir::Value x, int64_t by) {
    SmallVector<mlir::Value> parts;
    for (int64_t i = 0; i < 3; ++i) {
      parts.push_back(c.sliceAxis(x, axis, c.constantSize((i + by) % 3), c.constantSize(1)));
    }
    return c.failed() ? mlir::Value() : c.concat(parts, axis);
  };
  c.setOutput(c.sub(c.mul(turned(a, 1), turned(b, 2)), c.mul(turned(a, 2), turned(b, 1))));
}

//===--- Joining and spreading ---===//

/// Tensors of at least one (hstack), two (vstack) or three (dstack) dims, joined along an axis.
template <int64_t kRank, int64_t kAxis> void stackAlong(Call &c) {
  SmallVector<mlir::Value> parts = c.values("tensors");
  Type element = c.resultElement();
  int64_t rank = 0;
  for (mlir::Value &part : parts) {
    tn::Dims dims = tn::getDims(part.getType());
    if (dims.empty()) {
      dims.push_back(c.constantSize(1));
    }
    if (kRank >= 2 && dims.size() == 1) {
      dims.insert(dims.begin(), c.constantSize(1));
    }
    if (kRank == 3 && dims.size() == 2) {
      dims.push_back(c.constantSize(1));
    }
    rank = static_cast<int64_t>(dims.size());
    part = c.reshape(c.cast(part, element), dims);
    if (!part) {
      return;
    }
  }
  if (!parts.empty()) {
    c.setOutput(c.concat(parts, kRank == 1 && rank == 1 ? 0 : kAxis));
  }
}
void columnStack(Call &c) {
  SmallVector<mlir::Value> parts = c.values("tensors");
  Type element = c.resultElement();
  for (mlir::Value &part : parts) {
    tn::Dims dims = tn::getDims(part.getType());
    while (dims.size() < 2) {
      dims.push_back(c.constantSize(1));
    }
    part = c.reshape(c.cast(part, element), dims);
    if (!part) {
      return;
    }
  }
  c.setOutput(parts.empty() ? mlir::Value() : c.concat(parts, 1));
}
void broadcastTensors(Call &c) {
  SmallVector<mlir::Value> tensors = c.values("tensors");
  tn::Dims dims;
  for (mlir::Value tensor : tensors) {
    FailureOr<tn::Dims> wider = tn::broadcastDims(dims, tn::getDims(tensor.getType()));
    if (mlir::failed(wider)) {
      return c.gap("the shapes of its operands cannot be reconciled",
                   "declare the input shapes with --shape");
    }
    dims = *wider;
  }
  for (auto [i, tensor] : llvm::enumerate(tensors)) {
    c.setOutput(static_cast<unsigned>(i), c.broadcast(tensor, dims));
  }
}
void takeAlong(Call &c) {
  mlir::Value x = c.value("self"), index = c.value("indices");
  if (!x || !index) {
    return;
  }
  if (!c.has("dim")) {
    x = c.reshape(x, {tn::elementCount(x.getContext(), tn::getDims(x.getType()))});
    index = c.reshape(index, {tn::elementCount(x.getContext(), tn::getDims(index.getType()))});
  }
  c.setOutput(c.make<tn::GatherElementsOp>(x, index, c.axis("dim", 0, rankOf(x))));
}

/// How many of the sorted boundaries lie before each value.
void bucketOf(Call &c) {
  bool isSearch = c.has("sorted_sequence");
  mlir::Value x = c.value("self"), bounds = c.value(isSearch ? "sorted_sequence" : "boundaries");
  bool right = c.truth("right", false) || c.text("side", "left") == "right";
  c.ignore({"side"});
  if (!x || !bounds || rankOf(bounds) != 1) {
    return c.gap("boundaries of more than one dim are not supported", "search in one list");
  }
  Type element = c.promoted({"self", isSearch ? "sorted_sequence" : "boundaries"});
  tn::Dims dims = tn::getDims(x.getType());
  dims.push_back(c.constantSize(1));
  mlir::Value isBefore =
      c.compare(c.cast(bounds, element), right ? tn::Predicate::le : tn::Predicate::lt,
                c.reshape(c.cast(x, element), dims));
  Type wide = c.builder().getI64Type();
  mlir::Value count = c.reduce(tn::ReduceKind::sum, c.cast(isBefore, wide), {rankOf(x)}, false);
  c.ignore({"out_int32"});
  c.setOutput(c.toResult(count));
}

constexpr OpRow kSpecialOpRows[] = {
    {"aten.trunc", truncate},
    {"aten.fix", truncate},
    {"aten.frac", fraction},
    {"aten.erfc", complementOfErf},
    {"aten.special_erfc", complementOfErf},
    {"aten.logit", logit},
    {"aten.special_logit", logit},
    {"aten.xlogy", xLogY},
    {"aten.special_xlogy", xLogY},
    {"aten.log1p", log1p},
    {"aten.expm1", expm1},
    {"aten.arctan2", atan2},
    {"aten.atan2", atan2},
    {"aten.logaddexp", logAddExp},
    {"aten.hypot", hypotenuse},
    {"aten.hardshrink", shrink<true>},
    {"aten.softshrink", shrink<false>},
    {"aten.tanhshrink", tanhShrink},
    {"aten.nan_to_num", replaceNan},
    {"aten.deg2rad", angle<1>},
    {"aten.rad2deg", angle<0>},
    {"aten.isposinf", isInfinite<1>},
    {"aten.isneginf", isInfinite<-1>},
    {"aten.isclose", isClose},
    {"aten.float_power", floatPower},
    {"aten.count_nonzero", countNonzero},
    {"aten.cosine_similarity", cosineSimilarity},
    {"aten.pairwise_distance", pairwiseDistance},
    {"aten.cdist", distances},
    {"aten._cdist_forward", distances},
    {"aten.cross", crossProduct},
    {"aten.linalg_cross", crossProduct},
    {"aten.hstack", stackAlong<1, 1>},
    {"aten.vstack", stackAlong<2, 0>},
    {"aten.row_stack", stackAlong<2, 0>},
    {"aten.dstack", stackAlong<3, 2>},
    {"aten.column_stack", columnStack},
    {"aten.broadcast_tensors", broadcastTensors},
    {"aten.take_along_dim", takeAlong},
    {"aten.bucketize", bucketOf},
    {"aten.searchsorted", bucketOf},
};

} // namespace

ArrayRef<OpRow> specialRows() { return kSpecialOpRows; }

} // namespace tenon::pt2
