// Evaluates the elementwise operations of two and three operands with numpy's broadcast.
// Relies on wide arithmetic: floats in double, integers in 64 bits that wrap.
#include "compiler/reference/Evaluation.h"

#include <atomic>

using namespace mlir;

namespace tenon::reference {
namespace {

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
  int64_t least =
      std::numeric_limits<int64_t>::min() >> (64 - bitWidth(evaluation.operands[0].dtype()));
  return mapBinary(evaluation, [least](auto a, auto b, bool &fault) -> decltype(a) {
    using T = decltype(a);
    if constexpr (!std::is_same_v<T, double>) {
      if (b == 0) {
        fault = true;
        return 0;
      }
      if (std::is_signed_v<T> && b == T(-1) && a == T(least)) {
        return a; // wraps
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

/// Integers to a negative power: 1 and -1 have one, that of 0 is a division by zero, others round
/// to 0.
template <typename T> T negativePower(T base, bool isOdd, bool &fault) {
  fault |= base == 0;
  bool isMinusOne = std::is_signed_v<T> && base == T(-1);
  return base == 1 || (isMinusOne && !isOdd) ? T(1) : isMinusOne ? T(-1) : T(0);
}

Status evaluatePow(Evaluation &evaluation) {
  const Tensor &a = evaluation.operands[0];
  const Tensor &b = evaluation.operands[1];
  TENON_ASSIGN(Tensor y, evaluation.makeResult());
  TENON_TRY(visitElement(a.dtype(), [&](auto base) {
    return visitElement(b.dtype(), [&](auto exponent) {
      using A = typename decltype(base)::Type;
      using B = typename decltype(exponent)::Type;
      return mapBroadcast<A, B, A>(evaluation, a, b, y, [](auto x, auto e, bool &fault) {
        using X = decltype(x);
        if constexpr (!std::is_same_v<X, double> && !std::is_same_v<decltype(e), double>) {
          return e < 0 ? negativePower<X>(x, e & 1, fault) : integerPower<X>(x, X(e));
        } else {
          return std::pow(double(x), double(e));
        }
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

Status evaluateRequire(Evaluation &evaluation) {
  if (evaluation.operands[1].as<Bool>()[0].value == 0) {
    return Status::error(ErrorId::RunConstraint, cast<tn::RequireOp>(evaluation.op).getWhat());
  }
  return evaluation.finish(evaluation.operands[0]);
}

constexpr OpRow kBinaryOpRows[] = {
    {"tn.add", evaluateAdd},         {"tn.sub", evaluateSub},       {"tn.mul", evaluateMul},
    {"tn.div", evaluateDiv},         {"tn.mod", evaluateMod},       {"tn.pow", evaluatePow},
    {"tn.max", evaluateMax},         {"tn.min", evaluateMin},       {"tn.and", evaluateAnd},
    {"tn.or", evaluateOr},           {"tn.xor", evaluateXor},       {"tn.shift", evaluateShift},
    {"tn.compare", evaluateCompare}, {"tn.select", evaluateSelect}, {"tn.require", evaluateRequire},
};

} // namespace

llvm::ArrayRef<OpRow> binaryOps() { return kBinaryOpRows; }

} // namespace tenon::reference
