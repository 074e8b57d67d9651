// Batch, layer, group, instance and RMS normalization, as they are used in inference.
#include "compiler/frontend/pt2/Call.h"

#include "mlir/IR/TypeUtilities.h"

using namespace mlir;

namespace tenon::pt2 {
namespace {

/// The data, in the parameters' type where that is wider, as autocast leaves them: PyTorch computes
/// in it and gives a result of the data's type.
mlir::Value dataOf(Call &c) {
  mlir::Value x = c.value("input");
  mlir::Value beside = c.has("weight") ? c.value("weight") : mlir::Value();
  beside = !beside && c.has("running_mean") ? c.value("running_mean") : beside;
  bool isWider = x && beside &&
                 getElementTypeOrSelf(beside).getIntOrFloatBitWidth() >
                     getElementTypeOrSelf(x).getIntOrFloatBitWidth();
  return isWider ? c.cast(x, getElementTypeOrSelf(beside)) : x;
}

/// A constant row, as long as the channels of x.
mlir::Value rowOf(Call &c, mlir::Value x, double value, mlir::Type element) {
  tn::Dims dims = tn::getDims(x.getType());
  return c.broadcast(c.scalar(value, element), {dims[1]});
}

/// Statistics of the batch itself, as models without running ones use them.
mlir::Value normalizeByBatch(Call &c, mlir::Value x, mlir::Value weight, mlir::Value bias,
                             double epsilon, ArrayRef<int64_t> axes) {
  int64_t rank = rankOf(x);
  mlir::Type element = getElementTypeOrSelf(x);
  x = c.widened(x);
  mlir::Value mean = c.reduce(tn::ReduceKind::mean, x, axes, true);
  mlir::Value distance = c.sub(x, mean);
  mlir::Value variance = c.reduce(tn::ReduceKind::mean, c.mul(distance, distance), axes, true);
  mlir::Value y =
      c.mul(distance, c.unary<tn::RsqrtOp>(c.add(variance, c.scalarLike(epsilon, variance))));
  auto parameter = [&](mlir::Value row) { return c.alongAxis(c.widened(row), 1, rank); };
  y = weight ? c.mul(y, parameter(weight)) : y;
  y = bias ? c.add(y, parameter(bias)) : y;
  return c.cast(y, element);
}

mlir::Value batchNormOf(Call &c, bool isTraining) {
  mlir::Value x = dataOf(c), mean = c.value("running_mean"), var = c.value("running_var");
  mlir::Value weight = c.value("weight"), bias = c.value("bias");
  double epsilon = c.real("eps", 1e-5);
  c.ignore({"momentum", "cudnn_enabled"});
  if (!x || rankOf(x) < 2) {
    return x;
  }
  if (isTraining || !mean || !var) {
    if (mean && isTraining) {
      c.gap("batch normalization in training is not supported",
            "call model.eval() before the export");
      return mlir::Value();
    }
    SmallVector<int64_t> axes = llvm::to_vector(llvm::seq<int64_t>(2, rankOf(x)));
    axes.insert(axes.begin(), 0);
    return normalizeByBatch(c, x, weight, bias, epsilon, axes);
  }
  mlir::Type element = getElementTypeOrSelf(mean);
  weight = weight ? weight : rowOf(c, x, 1, element);
  bias = bias ? bias : rowOf(c, x, 0, element);
  return c.make<tn::BatchNormOp>(x, weight, bias, mean, var, llvm::APFloat(epsilon), false);
}
void batchNorm(Call &c) { c.setOutput(c.toResult(batchNormOf(c, c.truth("training", false)))); }

/// Statistics of the batch, which nobody reads in inference: of the shapes that are stated, and
/// zero.
void setUnreadOutputs(Call &c) {
  for (unsigned i = 1; i < c.numOutputs(); ++i) {
    tn::Dims dims = c.statedDims(i).value_or(tn::Dims{c.constantSize(0)});
    c.setOutput(i, c.broadcast(c.scalar(0, c.resultElement(i)), dims));
  }
}

void nativeBatchNorm(Call &c) {
  mlir::Value y = batchNormOf(c, c.target.name == "aten._native_batch_norm_legit_no_training"
                                     ? false
                                     : c.truth("training", false));
  c.setOutput(0, c.toResult(y));
  setUnreadOutputs(c);
}

/// A parameter with the dims of the rows that are normalized.
mlir::Value rowParameter(Call &c, StringRef name, mlir::Value x, int64_t axis) {
  mlir::Value row = c.value(name);
  tn::Dims dims = tn::getDims(x.getType());
  return row ? c.broadcast(row, ArrayRef<AffineExpr>(dims).drop_front(axis)) : row;
}

void layerNorm(Call &c) {
  mlir::Value x = dataOf(c);
  c.ignore({"cudnn_enable"});
  if (!x) {
    return;
  }
  int64_t axis = rankOf(x) - static_cast<int64_t>(c.sizes("normalized_shape").size());
  double epsilon = c.has("eps") ? c.real("eps", 1e-5) : 1e-5;
  mlir::Value scale = rowParameter(c, "weight", x, axis), bias = rowParameter(c, "bias", x, axis);
  c.setOutput(0, c.toResult(c.make<tn::LayerNormOp>(x, scale, bias, axis, llvm::APFloat(epsilon))));
  if (c.numOutputs() < 3) {
    return;
  }
  SmallVector<int64_t> axes = llvm::to_vector(llvm::seq<int64_t>(axis, rankOf(x)));
  mlir::Value wide = c.cast(x, c.resultElement(1));
  mlir::Value mean = c.reduce(tn::ReduceKind::mean, wide, axes, true);
  mlir::Value distance = c.sub(wide, mean);
  mlir::Value variance = c.reduce(tn::ReduceKind::mean, c.mul(distance, distance), axes, true);
  c.setOutput(1, mean);
  c.setOutput(2, c.unary<tn::RsqrtOp>(c.add(variance, c.scalarLike(epsilon, variance))));
}

void rmsNorm(Call &c) {
  mlir::Value x = dataOf(c);
  if (!x) {
    return;
  }
  int64_t axis = rankOf(x) - static_cast<int64_t>(c.sizes("normalized_shape").size());
  // Without a number PyTorch takes the type's distance from 1 to the next.
  double otherwise =
      getElementTypeOrSelf(x).isF64() ? 2.220446049250313e-16 : 1.1920928955078125e-07;
  c.setOutput(0, c.toResult(c.make<tn::RmsNormOp>(x, rowParameter(c, "weight", x, axis), axis,
                                                  llvm::APFloat(c.real("eps", otherwise)))));
}

void normalizeGroups(Call &c, mlir::Value x, mlir::Value weight, mlir::Value bias, int64_t groups) {
  mlir::Type element = getElementTypeOrSelf(x);
  weight = weight ? weight : rowOf(c, x, 1, element);
  bias = bias ? bias : rowOf(c, x, 0, element);
  c.setOutput(0, c.toResult(c.make<tn::GroupNormOp>(x, weight, bias, groups,
                                                    llvm::APFloat(c.real("eps", 1e-5)))));
}
void groupNorm(Call &c) {
  c.ignore({"cudnn_enabled", "N", "C", "HxW"});
  setUnreadOutputs(c);
  if (mlir::Value x = dataOf(c)) {
    normalizeGroups(c, x, c.value("weight"), c.value("bias"),
                    c.integer(c.has("num_groups") ? "num_groups" : "group", 1));
  }
}
void instanceNorm(Call &c) {
  c.ignore({"momentum", "cudnn_enabled"});
  mlir::Value x = dataOf(c), mean = c.value("running_mean"), var = c.value("running_var");
  if (!x) {
    return;
  }
  if (!c.truth("use_input_stats", true)) {
    mlir::Value weight = c.value("weight"), bias = c.value("bias");
    mlir::Type element = getElementTypeOrSelf(x);
    return c.setOutput(c.toResult(c.make<tn::BatchNormOp>(
        x, weight ? weight : rowOf(c, x, 1, element), bias ? bias : rowOf(c, x, 0, element), mean,
        var, llvm::APFloat(c.real("eps", 1e-5)), false)));
  }
  std::optional<int64_t> channels = tn::constantDim(tn::getDims(x.getType())[1]);
  if (!channels) {
    return c.gap("the number of channels is not a constant", "declare it with --shape");
  }
  normalizeGroups(c, x, c.value("weight"), c.value("bias"), *channels);
}

/// v * g / |v|, the norm over all dims but one.
void weightNorm(Call &c) {
  mlir::Value v = c.widened(c.value("v")), g = c.widened(c.value("g"));
  if (!v || !g) {
    return;
  }
  int64_t kept = c.axis("dim", 0, rankOf(v));
  SmallVector<int64_t> axes;
  for (int64_t axis = 0; axis < rankOf(v); ++axis) {
    if (axis != kept) {
      axes.push_back(axis);
    }
  }
  mlir::Value norm = c.unary<tn::SqrtOp>(c.reduce(tn::ReduceKind::sum, c.mul(v, v), axes, true));
  c.setOutput(0, c.toResult(c.mul(v, c.div(g, norm))));
  if (c.numOutputs() > 1) {
    c.setOutput(1, c.cast(norm, c.resultElement(1)));
  }
}

constexpr OpRow kNormalizationOpRows[] = {
    {"aten.batch_norm", batchNorm},
    {"aten._native_batch_norm_legit_no_training", nativeBatchNorm},
    {"aten._native_batch_norm_legit", nativeBatchNorm},
    {"aten.native_batch_norm", nativeBatchNorm},
    {"aten.layer_norm", layerNorm},
    {"aten.native_layer_norm", layerNorm},
    {"aten.rms_norm", rmsNorm},
    {"aten._fused_rms_norm", rmsNorm},
    {"aten.group_norm", groupNorm},
    {"aten.native_group_norm", groupNorm},
    {"aten.instance_norm", instanceNorm},
    {"aten._weight_norm", weightNorm},
    {"aten._weight_norm_interface", weightNorm},
};

} // namespace

ArrayRef<OpRow> normalizationRows() { return kNormalizationOpRows; }

} // namespace tenon::pt2
