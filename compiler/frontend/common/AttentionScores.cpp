// The parts of attention that AttentionScores.h declares.
#include "compiler/frontend/common/AttentionScores.h"

#include <cmath>

using namespace mlir;

namespace tenon::frontend {

std::optional<double> scoreScale(Emitter &c, Value q, std::optional<double> given) {
  if (given || !q || c.failed()) {
    return given;
  }
  std::optional<int64_t> width = tn::constantDim(tn::getDims(q.getType()).back());
  if (!width) {
    c.gap("the width of a head is not a constant", "declare it with --shape");
    return std::nullopt;
  }
  return 1 / std::sqrt(static_cast<double>(*width));
}

Value additive(Emitter &c, Value allowed, Type element) {
  return c.select(allowed, c.scalar(0, element),
                  c.scalar(-std::numeric_limits<double>::infinity(), element));
}

Value causalAddend(Emitter &c, AffineExpr queries, AffineExpr keys, AffineExpr offset,
                   Type element) {
  Value rows = c.alongAxis(c.positions(queries), 0, 2);
  if (offset) {
    rows = c.add(rows, c.materialize(Sizes::scalar(offset), c.builder().getI64Type()));
  }
  Value columns = c.alongAxis(c.positions(keys), 1, 2);
  return additive(c, c.compare(columns, tn::Predicate::le, rows), element);
}

} // namespace tenon::frontend
