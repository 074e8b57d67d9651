// Elementwise operators, with broadcasting: index i of the result needs index i of each operand,
// and an operand of one index serves all.
#include "compiler/prune/Rules.h"

#include <algorithm>

namespace tenon::prune {
namespace {

using std::string_view;

/// Aligned from the last dim.
void broadcast(NodeContext &context, const Axes *operand, const Axes &result) {
  if (!operand) {
    return;
  }
  if (operand->size() > result.size()) {
    context.keepAll(operand, "broadcasts it");
    return;
  }
  size_t missing = result.size() - operand->size();
  for (size_t i = 0; i < operand->size(); ++i) {
    if ((*operand)[i].size != 1 || result[missing + i].size == 1) {
      context.tie((*operand)[i], result[missing + i]);
    }
  }
}

void pointwise(NodeContext &context) {
  const Axes *result = context.result();
  if (!result) {
    return context.keepNode("makes something that is not a tensor");
  }
  for (size_t i = 0; i < context.own().inputs.size(); ++i) {
    broadcast(context, context.operand(i), *result);
  }
  for (size_t i = 1; i < context.own().outputs.size(); ++i) {
    if (const Axes *mask = context.result(i)) {
      context.tieAll(*mask, *result);
    }
  }
}

} // namespace

Rule pointwiseRule(string_view op) {
  constexpr string_view ops[] = {"Abs",
                                 "Acos",
                                 "Acosh",
                                 "Add",
                                 "And",
                                 "Asin",
                                 "Asinh",
                                 "Atan",
                                 "Atanh",
                                 "BitShift",
                                 "BitwiseAnd",
                                 "BitwiseNot",
                                 "BitwiseOr",
                                 "BitwiseXor",
                                 "Cast",
                                 "CastLike",
                                 "Ceil",
                                 "Celu",
                                 "Clip",
                                 "Cos",
                                 "Cosh",
                                 "Div",
                                 "Dropout",
                                 "Elu",
                                 "Equal",
                                 "Erf",
                                 "Exp",
                                 "Floor",
                                 "Gelu",
                                 "Greater",
                                 "GreaterOrEqual",
                                 "HardSigmoid",
                                 "HardSwish",
                                 "Identity",
                                 "IsInf",
                                 "IsNaN",
                                 "LeakyRelu",
                                 "Less",
                                 "LessOrEqual",
                                 "Log",
                                 "Max",
                                 "Mean",
                                 "Min",
                                 "Mish",
                                 "Mod",
                                 "Mul",
                                 "Neg",
                                 "Not",
                                 "Or",
                                 "PRelu",
                                 "Pow",
                                 "Reciprocal",
                                 "Relu",
                                 "Round",
                                 "Selu",
                                 "Shrink",
                                 "Sigmoid",
                                 "Sign",
                                 "Sin",
                                 "Sinh",
                                 "Softplus",
                                 "Softsign",
                                 "Sqrt",
                                 "Sub",
                                 "Sum",
                                 "Swish",
                                 "Tan",
                                 "Tanh",
                                 "ThresholdedRelu",
                                 "Where",
                                 "Xor"};
  return std::find(std::begin(ops), std::end(ops), op) == std::end(ops) ? nullptr : pointwise;
}

} // namespace tenon::prune
