// Evaluates the elementwise operations: each element in double or 64-bit integers, then rounded or
// wrapped to its type. Relies on the C math library for the functions.
#include "compiler/reference/Evaluation.h"

#include <atomic>
#include <numbers>

using namespace mlir;

namespace tenon::reference {
namespace {

//===--- One operand
//---------------------------------------------------------------------------===//

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

//===--- Two operands
//--------------------------------------------------------------------------===//

/// y = fn(a, b) at each broadcast position. fn gets wide values of a's and b's types and returns
/// what is narrowed to y's; it may set the flag to report a division by zero.
template <typename A, typename B, typename Y, typename Fn>
Status mapBroadcast(Evaluation &evaluation, const Tensor &a, const Tensor &b, Tensor &y,
                    const Fn &fn) {
  TENON_ASSIGN(Sizes aStrides, broadcastStrides(a.dims(), y.dims()));
  TENON_ASSIGN(Sizes bStrides, broadcastStrides(b.dims(), y.dims()));
  std::atomic<bool> divisionByZero = false;
  evaluation.pool.parallelFor(y.count(), [&](int64_t begin, int64_t end, unsigned) {
    Walker<2> walker(y.dims(), {aStrides, bStrides}, begin);
    bool fault = false;
    for (int64_t i = begin; i < end; ++i, walker.next()) {
      y.as<Y>()[i] = narrow<Y>(
          fn(widen(a.as<A>()[walker.offset(0)]), widen(b.as<B>()[walker.offset(1)]), fault));
    }
    if (fault) {
      divisionByZero = true;
    }
  });
  if (divisionByZero) {
    return Status::error(ErrorId::RunBadArithmetic, "integer division by zero");
  }
  return Status::ok();
}

/// Both operands and the result have one type.
template <typename Fn> Status mapBinary(Evaluation &evaluation, const Fn &fn) {
  TENON_ASSIGN(Tensor y, evaluation.makeResult());
  TENON_TRY(visitElement(y.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::Type;
    return mapBroadcast<T, T, T>(evaluation, evaluation.operands[0], evaluation.operands[1], y, fn);
  }));
  return evaluation.finish(std::move(y));
}

/// Signed arithmetic wraps, which C++ only defines for unsigned types.
template <typename T> using Wrapping = std::conditional_t<std::is_same_v<T, double>, T, uint64_t>;

Status evaluateAdd(Evaluation &evaluation) {
  return mapBinary(evaluation, [](auto a, auto b, bool &) {
    using T = decltype(a);
    return T(Wrapping<T>(a) + Wrapping<T>(b));
  });
}

Status evaluateSub(Evaluation &evaluation) {
  return mapBinary(evaluation, [](auto a, auto b, bool &) {
    using T = decltype(a);
    return T(Wrapping<T>(a) - Wrapping<T>(b));
  });
}

Status evaluateMul(Evaluation &evaluation) {
  return mapBinary(evaluation, [](auto a, auto b, bool &) {
    using T = decltype(a);
    return T(Wrapping<T>(a) * Wrapping<T>(b));
  });
}

Status evaluateDiv(Evaluation &evaluation) {
  return mapBinary(evaluation, [](auto a, auto b, bool &fault) -> decltype(a) {
    using T = decltype(a);
    if constexpr (!std::is_same_v<T, double>) {
      if (b == 0) {
        fault = true;
        return 0;
      }
      if constexpr (std::is_signed_v<T>) {
        if (b == -1) {
          return T(-uint64_t(a)); // the most negative number wraps to itself
        }
      }
    }
    return a / b;
  });
}

Status evaluateMod(Evaluation &evaluation) {
  bool likeC = cast<tn::ModOp>(evaluation.op).getFmod();
  return mapBinary(evaluation, [likeC](auto a, auto b, bool &fault) -> decltype(a) {
    using T = decltype(a);
    T rest;
    if constexpr (std::is_same_v<T, double>) {
      rest = std::fmod(a, b);
    } else {
      if (b == 0) {
        fault = true;
        return 0;
      }
      if constexpr (std::is_signed_v<T>) {
        rest = b == -1 ? 0 : a % b;
      } else {
        rest = a % b;
      }
    }
    bool wrongSign = !likeC && rest != 0 && ((rest < 0) != (b < 0));
    return wrongSign ? rest + b : rest;
  });
}

template <typename T> T integerPower(T base, T exponent) {
  uint64_t result = 1;
  uint64_t factor = base;
  for (uint64_t bits = exponent; bits != 0; bits >>= 1) {
    result *= bits & 1 ? factor : 1;
    factor *= factor;
  }
  return T(result);
}

Status evaluatePow(Evaluation &evaluation) {
  const Tensor &a = evaluation.operands[0];
  const Tensor &b = evaluation.operands[1];
  TENON_ASSIGN(Tensor y, evaluation.makeResult());
  TENON_TRY(visitElement(a.dtype(), [&](auto base) {
    return visitElement(b.dtype(), [&](auto exponent) {
      using A = typename decltype(base)::Type;
      using B = typename decltype(exponent)::Type;
      return mapBroadcast<A, B, A>(evaluation, a, b, y, [](auto x, auto e, bool &) {
        using X = decltype(x);
        if constexpr (!std::is_same_v<X, double> && !std::is_same_v<decltype(e), double>) {
          if (e >= 0) {
            return integerPower<X>(x, X(e));
          }
        }
        return narrow<X>(std::pow(double(x), double(e)));
      });
    });
  }));
  return evaluation.finish(std::move(y));
}

Status evaluateMax(Evaluation &evaluation) {
  // Written so that a NaN on either side is the result.
  return mapBinary(evaluation, [](auto a, auto b, bool &) { return a > b || a != a ? a : b; });
}

Status evaluateMin(Evaluation &evaluation) {
  return mapBinary(evaluation, [](auto a, auto b, bool &) { return a < b || a != a ? a : b; });
}

template <typename Fn> Status mapBits(Evaluation &evaluation, const Fn &fn) {
  return mapBinary(evaluation, [&](auto a, auto b, bool &) {
    return decltype(a)(fn(uint64_t(a), uint64_t(b)));
  });
}

Status evaluateAnd(Evaluation &evaluation) {
  return mapBits(evaluation, [](uint64_t a, uint64_t b) { return a & b; });
}
Status evaluateOr(Evaluation &evaluation) {
  return mapBits(evaluation, [](uint64_t a, uint64_t b) { return a | b; });
}
Status evaluateXor(Evaluation &evaluation) {
  return mapBits(evaluation, [](uint64_t a, uint64_t b) { return a ^ b; });
}

Status evaluateShift(Evaluation &evaluation) {
  bool left = cast<tn::ShiftOp>(evaluation.op).getLeft();
  uint64_t bits = bitWidth(evaluation.operands[0].dtype());
  uint64_t mask = bits == 64 ? ~uint64_t(0) : (uint64_t(1) << bits) - 1;
  return mapBits(evaluation, [=](uint64_t a, uint64_t b) {
    return b >= bits ? 0 : left ? a << b : (a & mask) >> b;
  });
}

Status evaluateCompare(Evaluation &evaluation) {
  tn::Predicate predicate = cast<tn::CompareOp>(evaluation.op).getPredicate();
  const Tensor &a = evaluation.operands[0];
  const Tensor &b = evaluation.operands[1];
  TENON_ASSIGN(Tensor y, evaluation.makeResult());
  TENON_TRY(visitElement(a.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::Type;
    return mapBroadcast<T, T, Bool>(evaluation, a, b, y, [&](auto x, auto z, bool &) {
      switch (predicate) {
      case tn::Predicate::eq:
        return int64_t(x == z);
      case tn::Predicate::ne:
        return int64_t(x != z);
      case tn::Predicate::lt:
        return int64_t(x < z);
      case tn::Predicate::le:
        return int64_t(x <= z);
      case tn::Predicate::gt:
        return int64_t(x > z);
      case tn::Predicate::ge:
        return int64_t(x >= z);
      }
      return int64_t(0);
    });
  }));
  return evaluation.finish(std::move(y));
}

Status evaluateSelect(Evaluation &evaluation) {
  llvm::ArrayRef<Tensor> operands = evaluation.operands;
  TENON_ASSIGN(Tensor y, evaluation.makeResult());
  TENON_ASSIGN(Sizes condition, broadcastStrides(operands[0].dims(), y.dims()));
  TENON_ASSIGN(Sizes a, broadcastStrides(operands[1].dims(), y.dims()));
  TENON_ASSIGN(Sizes b, broadcastStrides(operands[2].dims(), y.dims()));
  size_t width = bitWidth(y.dtype()) / 8;
  evaluation.pool.parallelFor(y.count(), [&](int64_t begin, int64_t end, unsigned) {
    Walker<3> walker(y.dims(), {condition, a, b}, begin);
    for (int64_t i = begin; i < end; ++i, walker.next()) {
      bool holds = operands[0].as<Bool>()[walker.offset(0)].value != 0;
      const char *source = holds ? operands[1].bytes() + walker.offset(1) * width
                                 : operands[2].bytes() + walker.offset(2) * width;
      std::copy_n(source, width, y.mutableBytes() + i * width);
    }
  });
  return evaluation.finish(std::move(y));
}

constexpr OpRow kRows[] = {
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
    {"tn.add", evaluateAdd},
    {"tn.sub", evaluateSub},
    {"tn.mul", evaluateMul},
    {"tn.div", evaluateDiv},
    {"tn.mod", evaluateMod},
    {"tn.pow", evaluatePow},
    {"tn.max", evaluateMax},
    {"tn.min", evaluateMin},
    {"tn.and", evaluateAnd},
    {"tn.or", evaluateOr},
    {"tn.xor", evaluateXor},
    {"tn.shift", evaluateShift},
    {"tn.compare", evaluateCompare},
    {"tn.select", evaluateSelect},
};

} // namespace

llvm::ArrayRef<OpRow> elementwiseOps() { return kRows; }

} // namespace tenon::reference
