// Arithmetic of a program on numbers that are no sizes, which becomes operations on scalars.
#pragma once

#include "compiler/frontend/pt2/Call.h"

namespace tenon::pt2 {

enum class Arithmetic : uint8_t {
  Add,
  Subtract,
  Multiply,
  Divide,
  FloorDivide,
  Remainder,
  Power,
  Min,
  Max
};

/// Both numbers by position, in the type that Python computes in with them: i64, or f64 where one
/// is a float.
std::pair<mlir::Value, mlir::Value> numbersOf(Call &c);
/// The result is what Python's function gives of both.
void setArithmetic(Call &c, Arithmetic function);

} // namespace tenon::pt2
