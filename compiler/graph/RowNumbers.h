// The numbers of rows, by which a program picks from each row its own: x[arange(batch), i].
#pragma once

#include "compiler/graph/RowRules.h"

namespace tenon::tn {

inline constexpr const char *kByNumber = "computes with the number of rows";

/// Whether it gives 0, 1, ... as many as there are rows.
bool isRowNumber(const KnownRows &known, IotaOp iota);

/// What an operation gives of which an operand is Numbered or Indexed, and none is mixed.
Rows byRowNumbers(const KnownRows &known, mlir::Operation *op);

} // namespace tenon::tn
