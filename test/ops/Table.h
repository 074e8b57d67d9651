// The table of operator tests: what each row says. A new op is a row in Table.cpp; a test fails for
// every registered op of the dialect that has none.
#pragma once

#include <limits>
#include <vector>

namespace tenon::ops {

/// Bounds of an operand whose elements include NaN and both infinities.
inline constexpr double kEverything = std::numeric_limits<double>::infinity();

/// A tensor. `dims` are affine expressions that may use the symbol N, the element type may be `T`,
/// the row's. Elements are seeded within [low, high]; for unsigned types from 0 on.
struct Operand {
  const char *dims;
  const char *element = "T";
  double low = -2;
  double high = 2;
};

enum class Form {
  Static,   ///< N is a number
  Dynamic,  ///< N is a symbol of the model
  Constant, ///< static; all operands but the first (or the only one) are constants of the model
};

/// A cell that does not agree with the reference yet; the test fails once it does.
struct Pending {
  const char *dtype; ///< null for every one
  Form form;
  const char *reason;
};

struct OpRow {
  const char *op;
  /// The values of T, the most used first: it is tried in every form on every level, each other one
  /// once.
  const char *dtypes;
  std::vector<Operand> operands;
  std::vector<Operand> results;
  /// As between the braces of an op; N and T stand for what they stand for in operands.
  const char *attributes = "";
  std::vector<Pending> pending = {};
};

const std::vector<OpRow> &opTable();

/// An op without a row.
struct Exception {
  const char *op;
  const char *reason;
};

const std::vector<Exception> &exceptions();

} // namespace tenon::ops
