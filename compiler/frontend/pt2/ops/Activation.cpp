// Activations and what is nothing when a model only runs: dropout, detaching, assertions of types.
#include "compiler/frontend/common/Activations.h"

#include "compiler/frontend/pt2/Call.h"

#include "mlir/IR/TypeUtilities.h"

#include <limits>

using namespace mlir;

namespace tenon::pt2 {
namespace {

/// The schema's number of torch.contiguous_format.
constexpr int64_t kRowMajor = 1;

template <typename Op> void unary(Call &c) { c.setOutput(c.unary<Op>(c.value("self"))); }

void gelu(Call &c) {
  c.setOutput(c.unary<tn::GeluOp>(c.value("self"), c.text("approximate", "none") == "tanh"));
}
void leakyRelu(Call &c) {
  c.setOutput(
      c.unary<tn::LeakyReluOp>(c.value("self"), llvm::APFloat(c.real("negative_slope", 0.01))));
}
void elu(Call &c) {
  c.setOutput(frontend::scaledElu(c, c.value("self"), c.real("alpha", 1), c.real("scale", 1),
                                  c.real("input_scale", 1)));
}
void selu(Call &c) {
  c.setOutput(frontend::scaledElu(c, c.value("self"), 1.6732632423543772, 1.0507009873554805, 1));
}
void celu(Call &c) { c.setOutput(frontend::celu(c, c.value("self"), c.real("alpha", 1))); }
void hardSigmoid(Call &c) { c.setOutput(frontend::hardSigmoid(c, c.value("self"), 1.0 / 6, 0.5)); }
void hardSwish(Call &c) { c.setOutput(frontend::hardSwish(c, c.value("self"))); }
mlir::Value clampOf(Call &c, mlir::Value x, double lo, double hi) {
  return c.unary<tn::ClampOp>(x, llvm::APFloat(lo), llvm::APFloat(hi));
}
void hardTanh(Call &c) {
  c.setOutput(clampOf(c, c.value("self"), c.real("min_val", -1), c.real("max_val", 1)));
}
void relu6(Call &c) { c.setOutput(clampOf(c, c.value("self"), 0, 6)); }

void softplus(Call &c) {
  mlir::Value x = c.value("self");
  double beta = c.real("beta", 1), threshold = c.real("threshold", 20);
  x = beta == 1 ? x : c.widened(x);
  mlir::Value scaled = beta == 1 ? x : c.mul(x, c.scalarLike(beta, x));
  mlir::Value y = c.unary<tn::SoftplusOp>(scaled);
  y = beta == 1 ? y : c.div(y, c.scalarLike(beta, x));
  y = c.select(c.compare(scaled, tn::Predicate::gt, c.scalarLike(threshold, x)), x, y);
  c.setOutput(c.toResult(y));
}
void logSigmoid(Call &c) {
  c.setOutput(c.unary<tn::NegOp>(c.unary<tn::SoftplusOp>(c.unary<tn::NegOp>(c.value("self")))));
}
void mish(Call &c) { c.setOutput(frontend::mish(c, c.value("self"))); }
void softsign(Call &c) { c.setOutput(frontend::softsign(c, c.value("self"))); }
void prelu(Call &c) {
  mlir::Value x = c.value("self"), weight = c.value("weight");
  if (!x || !weight) {
    return;
  }
  int64_t rank = cast<RankedTensorType>(x.getType()).getRank();
  bool isOne =
      tn::constantDim(tn::elementCount(x.getContext(), tn::getDims(weight.getType()))) == 1;
  weight = isOne ? c.reshape(weight, {}) : rank > 1 ? c.alongAxis(weight, 1, rank) : weight;
  c.setOutput(c.select(c.compare(x, tn::Predicate::gt, c.scalarLike(0, x)), x, c.mul(x, weight)));
}
void threshold(Call &c) {
  mlir::Value x = c.value("self");
  mlir::Value wide = c.widened(x), bound = c.scalarLike(c.real("threshold", 0), wide);
  c.setOutput(c.select(c.compare(wide, tn::Predicate::le, bound),
                       c.operand("value", c.resultElement()), x));
}
/// The first half of an axis times the sigmoid of the second.
void glu(Call &c) {
  mlir::Value x = c.value("self");
  if (!x) {
    return;
  }
  tn::Dims dims = tn::getDims(x.getType());
  int64_t axis = c.axis("dim", -1, static_cast<int64_t>(dims.size()));
  AffineExpr half = frontend::divideSizes(c.symbols(), dims[axis], c.constantSize(2));
  mlir::Value a = c.sliceAxis(x, axis, c.constantSize(0), half);
  c.setOutput(c.mul(a, c.unary<tn::SigmoidOp>(c.sliceAxis(x, axis, half, half))));
}

mlir::Value softmaxOf(Call &c, bool isLog) {
  c.ignore({"half_to_float"});
  mlir::Value x = c.value("self");
  Type element = c.resultElement();
  c.elementNamed("dtype", element);
  if (!x) {
    return x;
  }
  int64_t rank = cast<RankedTensorType>(x.getType()).getRank();
  x = c.cast(x, element);
  mlir::Value row = rank == 0 ? c.reshape(x, {c.constantSize(1)}) : x;
  int64_t axis = c.axis("dim", -1, rank);
  mlir::Value y = c.unary<tn::SoftmaxOp>(row, axis, isLog);
  return rank == 0 ? c.reshape(y, {}) : y;
}
void softmax(Call &c) { c.setOutput(softmaxOf(c, false)); }
/// Zeros in rows of nothing but minus infinity.
void safeSoftmax(Call &c) {
  mlir::Value x = c.value("self"), y = softmaxOf(c, false);
  if (int64_t rank = y ? rankOf(x) : 0; rank > 0) {
    mlir::Value highest = c.reduce(tn::ReduceKind::max, x, {c.axis("dim", -1, rank)}, true);
    mlir::Value lowest = c.scalarLike(-std::numeric_limits<double>::infinity(), x);
    y = c.select(c.compare(highest, tn::Predicate::eq, lowest), c.scalarLike(0, y), y);
  }
  c.setOutput(y);
}
void logSoftmax(Call &c) { c.setOutput(softmaxOf(c, true)); }

/// The same memory is looked at, and the layout is not the program's concern here.
void sameTensor(Call &c) {
  c.ignore({"memory_format"});
  c.forward("self");
}
/// The tensor itself where it lies in order, else a copy of it.
void contiguous(Call &c) {
  const Argument *format = c.argument("memory_format");
  bool isRowMajor = !format || format->kind == Argument::Kind::None || format->integer == kRowMajor;
  std::optional<bool> isSame = isRowMajor ? c.isContiguous("self") : std::nullopt;
  auto same = [](frontend::Emitter &, mlir::Value x) { return x; };
  c.setPerhapsView("self", isSame,
                   {same, [](frontend::Emitter &, mlir::Value, mlir::Value view) { return view; }});
}
/// Memory of its own.
void copy(Call &c) {
  c.ignore({"memory_format"});
  c.setOutput(c.value("self"));
}
void dropout(Call &c) {
  c.ignore({"p"});
  if (c.truth("train", c.truth("training", false))) {
    return c.gap("dropout in training is not supported", "call model.eval() before the export");
  }
  c.forward(c.has("input") ? "input" : "self");
}
void nativeDropout(Call &c) {
  c.ignore({"p"});
  if (c.truth("train", true)) {
    return c.gap("dropout in training is not supported", "call model.eval() before the export");
  }
  c.setOutput(c.value("input"));
}
void nothing(Call &c) {
  for (size_t i = 0; i < c.node.inputs.size(); ++i) {
    c.positional(i);
  }
}

constexpr OpRow kActivationOpRows[] = {
    {"aten.relu", unary<tn::ReluOp>},
    {"aten.sigmoid", unary<tn::SigmoidOp>},
    {"aten.silu", unary<tn::SiluOp>},
    {"aten.gelu", gelu},
    {"aten.leaky_relu", leakyRelu},
    {"aten.elu", elu},
    {"aten.selu", selu},
    {"aten.celu", celu},
    {"aten.hardsigmoid", hardSigmoid},
    {"aten.hardswish", hardSwish},
    {"aten.hardtanh", hardTanh},
    {"aten.relu6", relu6},
    {"aten.softplus", softplus},
    {"aten.log_sigmoid", logSigmoid},
    {"aten.mish", mish},
    {"aten.softsign", softsign},
    {"aten.prelu", prelu},
    {"aten._prelu_kernel", prelu},
    {"aten.threshold", threshold},
    {"aten.glu", glu},
    {"aten.softmax", softmax},
    {"aten._softmax", softmax},
    {"aten._safe_softmax", safeSoftmax},
    {"aten.log_softmax", logSoftmax},
    {"aten._log_softmax", logSoftmax},
    {"aten.dropout", dropout},
    {"aten.feature_dropout", dropout},
    {"aten.alpha_dropout", dropout},
    {"aten.native_dropout", nativeDropout},
    {"aten.alias", sameTensor},
    {"aten.detach", sameTensor},
    {"aten.contiguous", contiguous},
    {"aten.lift_fresh", sameTensor},
    {"aten.requires_grad", sameTensor},
    {"aten.positive", sameTensor},
    {"aten.resolve_conj", sameTensor},
    {"aten.resolve_neg", sameTensor},
    {"aten.lift_fresh_copy", copy},
    {"aten.clone", copy},
    {"aten.detach_copy", copy},
    {"aten.alias_copy", copy},
    {"aten._assert_tensor_metadata", nothing},
    {"aten._assert_async", nothing},
    {"aten.sym_constrain_range_for_size", nothing},
    {"aten.sym_constrain_range", nothing},
    {"prims.device_put", sameTensor},
};

} // namespace

ArrayRef<OpRow> activationRows() { return kActivationOpRows; }

} // namespace tenon::pt2
