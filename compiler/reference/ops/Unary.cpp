// Evaluates the elementwise operations of one operand: each element in double or 64-bit integers,
// then rounded or wrapped to its type. Relies on the C math library for the functions.
#include "compiler/reference/Evaluation.h"

#include <numbers>

using namespace mlir;

namespace tenon::reference {
namespace {

/// y[i] = fn(x[i]) with fn over the wide type.
template <typename Fn> Status mapUnary(Evaluation &evaluation, const Fn &fn) {
  const Tensor &x = evaluation.operands[0];
  TENON_ASSIGN(Tensor y, evaluation.makeResult());
  TENON_TRY(visitElement(x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::Type;
    const T *in = x.as<T>();
    T *out = y.as<T>();
    evaluation.pool.parallelFor(x.count(), [&](int64_t begin, int64_t end, unsigned) {
      for (int64_t i = begin; i < end; ++i) {
        out[i] = narrow<T>(fn(widen(in[i])));
      }
    });
    return Status::ok();
  }));
  return evaluation.finish(std::move(y));
}

template <double (*Function)(double)> Status floatFunction(Evaluation &evaluation) {
  return mapUnary(evaluation, [](auto x) { return Function(double(x)); });
}

double rsqrt(double x) { return 1 / std::sqrt(x); }
double reciprocal(double x) { return 1 / x; }
double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double silu(double x) { return x / (1 + std::exp(-x)); }
double softplus(double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::fabs(x))); }

Status evaluateAbs(Evaluation &evaluation) {
  return mapUnary(evaluation, [](auto x) -> decltype(x) {
    if constexpr (std::is_same_v<decltype(x), double>) {
      return std::fabs(x);
    } else if constexpr (std::is_signed_v<decltype(x)>) {
      return x < 0 ? int64_t(-uint64_t(x)) : x;
    }
    return x;
  });
}

Status evaluateNeg(Evaluation &evaluation) {
  return mapUnary(evaluation, [](auto x) {
    if constexpr (std::is_same_v<decltype(x), double>) {
      return -x;
    } else {
      return decltype(x)(-uint64_t(x));
    }
  });
}

Status evaluateSign(Evaluation &evaluation) {
  // NaN stays NaN.
  return mapUnary(evaluation, [](auto x) {
    return x > 0 ? decltype(x)(1) : x < 0 ? decltype(x)(-1) : x == 0 ? decltype(x)(0) : x;
  });
}

Status evaluateNot(Evaluation &evaluation) {
  bool isBool = evaluation.operands[0].dtype() == DType::Bool;
  return mapUnary(evaluation, [isBool](auto x) {
    return isBool ? decltype(x)(x == 0) : decltype(x)(~uint64_t(x));
  });
}

Status evaluateRelu(Evaluation &evaluation) {
  return mapUnary(evaluation, [](auto x) { return x < 0 ? decltype(x)(0) : x; });
}

Status evaluateGelu(Evaluation &evaluation) {
  if (!cast<tn::GeluOp>(evaluation.op).getApproximate()) {
    return mapUnary(evaluation,
                    [](double x) { return 0.5 * x * (1 + std::erf(x / std::numbers::sqrt2)); });
  }
  return mapUnary(evaluation, [](double x) {
    double inner = std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x);
    return 0.5 * x * (1 + std::tanh(inner));
  });
}

Status evaluateLeakyRelu(Evaluation &evaluation) {
  double alpha = cast<tn::LeakyReluOp>(evaluation.op).getAlpha().convertToDouble();
  return mapUnary(evaluation, [alpha](double x) { return x >= 0 ? x : alpha * x; });
}

Status evaluateElu(Evaluation &evaluation) {
  double alpha = cast<tn::EluOp>(evaluation.op).getAlpha().convertToDouble();
  return mapUnary(evaluation, [alpha](double x) { return x >= 0 ? x : alpha * std::expm1(x); });
}

Status evaluateHardSigmoid(Evaluation &evaluation) {
  tn::HardSigmoidOp op = cast<tn::HardSigmoidOp>(evaluation.op);
  double alpha = op.getAlpha().convertToDouble();
  double beta = op.getBeta().convertToDouble();
  return mapUnary(evaluation, [=](double x) {
    double y = alpha * x + beta;
    return y < 0 ? 0.0 : y > 1 ? 1.0 : y;
  });
}

Status evaluateClamp(Evaluation &evaluation) {
  tn::ClampOp op = cast<tn::ClampOp>(evaluation.op);
  double lo = op.getLo().convertToDouble();
  double hi = op.getHi().convertToDouble();
  return mapUnary(evaluation, [=](auto x) {
    using T = decltype(x);
    T low = narrow<T>(std::is_same_v<T, uint64_t> ? std::max(std::ceil(lo), 0.0)
                      : std::is_same_v<T, double> ? lo
                                                  : std::ceil(lo));
    T high = narrow<T>(std::is_same_v<T, uint64_t> ? std::max(std::floor(hi), 0.0)
                       : std::is_same_v<T, double> ? hi
                                                   : std::floor(hi));
    T raised = x < low ? low : x;
    return raised > high ? high : raised;
  });
}

/// A bool result from a float operand.
template <typename Fn> Status mapTest(Evaluation &evaluation, const Fn &fn) {
  const Tensor &x = evaluation.operands[0];
  TENON_ASSIGN(Tensor y, evaluation.makeResult());
  TENON_TRY(visitFloat(x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::Type;
    for (int64_t i = 0; i < x.count(); ++i) {
      y.as<Bool>()[i] = narrow<Bool>(int64_t(fn(widen(x.as<T>()[i]))));
    }
    return Status::ok();
  }));
  return evaluation.finish(std::move(y));
}

Status evaluateIsNan(Evaluation &evaluation) {
  return mapTest(evaluation, [](double x) { return std::isnan(x); });
}

Status evaluateIsInf(Evaluation &evaluation) {
  tn::IsInfOp op = cast<tn::IsInfOp>(evaluation.op);
  bool positive = op.getPositive();
  bool negative = op.getNegative();
  return mapTest(evaluation,
                 [=](double x) { return std::isinf(x) && (x > 0 ? positive : negative); });
}

Status evaluateCast(Evaluation &evaluation) {
  Type element = cast<RankedTensorType>(evaluation.op->getResult(0).getType()).getElementType();
  std::optional<DType> dtype = storageOf(element, evaluation.precision);
  if (!dtype) {
    return badOperand("the target type cannot be held");
  }
  TENON_ASSIGN(Tensor y, convert(evaluation.operands[0], *dtype));
  return evaluation.finish(std::move(y));
}

constexpr OpRow kUnaryOpRows[] = {
    {"tn.abs", evaluateAbs},
    {"tn.neg", evaluateNeg},
    {"tn.exp", floatFunction<std::exp>},
    {"tn.log", floatFunction<std::log>},
    {"tn.sqrt", floatFunction<std::sqrt>},
    {"tn.rsqrt", floatFunction<rsqrt>},
    {"tn.reciprocal", floatFunction<reciprocal>},
    {"tn.sin", floatFunction<std::sin>},
    {"tn.cos", floatFunction<std::cos>},
    {"tn.tan", floatFunction<std::tan>},
    {"tn.asin", floatFunction<std::asin>},
    {"tn.acos", floatFunction<std::acos>},
    {"tn.atan", floatFunction<std::atan>},
    {"tn.sinh", floatFunction<std::sinh>},
    {"tn.cosh", floatFunction<std::cosh>},
    {"tn.tanh", floatFunction<std::tanh>},
    {"tn.asinh", floatFunction<std::asinh>},
    {"tn.acosh", floatFunction<std::acosh>},
    {"tn.atanh", floatFunction<std::atanh>},
    {"tn.erf", floatFunction<std::erf>},
    {"tn.ceil", floatFunction<std::ceil>},
    {"tn.floor", floatFunction<std::floor>},
    {"tn.round", floatFunction<std::nearbyint>},
    {"tn.sign", evaluateSign},
    {"tn.not", evaluateNot},
    {"tn.relu", evaluateRelu},
    {"tn.sigmoid", floatFunction<sigmoid>},
    {"tn.silu", floatFunction<silu>},
    {"tn.gelu", evaluateGelu},
    {"tn.softplus", floatFunction<softplus>},
    {"tn.leaky_relu", evaluateLeakyRelu},
    {"tn.elu", evaluateElu},
    {"tn.hard_sigmoid", evaluateHardSigmoid},
    {"tn.clamp", evaluateClamp},
    {"tn.is_nan", evaluateIsNan},
    {"tn.is_inf", evaluateIsInf},
    {"tn.cast", evaluateCast},
};

} // namespace

llvm::ArrayRef<OpRow> unaryOps() { return kUnaryOpRows; }

} // namespace tenon::reference
