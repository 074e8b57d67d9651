// The parts of attention that Heads.h declares.
// Relies on a number of heads dividing the width of its input, which divideProducts checks.
#include "compiler/frontend/onnx/ops/Heads.h"

using namespace mlir;

namespace tenon::onnx {

Value splitHeads(NodeContext &c, Value x, int64_t heads) {
  tn::Dims d = x ? tn::getDims(x.getType()) : tn::Dims();
  if (c.failed() || !x) {
    return Value();
  }
  if (d.size() != 3 || heads <= 0) {
    c.error(ErrorId::OnnxBadNode,
            "an input has neither three nor four dimensions, or its number of heads is not given");
    return Value();
  }
  AffineExpr h = c.constantSize(heads);
  AffineExpr width = divideProducts(c.symbols(), {d[2]}, {h});
  return width ? c.transpose(c.reshape(x, {d[0], d[1], h, width}), {0, 2, 1, 3}) : Value();
}

Value splitHeads(NodeContext &c, unsigned i, StringRef attribute) {
  if (c.rank(i) == 4) {
    c.ignore(attribute);
    return c.value(i);
  }
  return splitHeads(c, c.value(i), c.integer(attribute, 0));
}

Value mergeHeads(NodeContext &c, Value x) {
  tn::Dims d = x ? tn::getDims(x.getType()) : tn::Dims();
  AffineExpr merged = x ? multiplySizes(d[1], d[3]) : AffineExpr();
  return merged ? c.reshape(c.transpose(x, {0, 2, 1, 3}), {d[0], d[2], merged}) : Value();
}

Value positions(NodeContext &c, AffineExpr count) {
  Type index = c.builder().getI64Type();
  return c.makeTyped<tn::IotaOp>(tn::makeTensor({count}, index), c.scalar(0, index),
                                 c.scalar(1, index));
}

Value additive(NodeContext &c, Value allowed, Type element) {
  return c.select(allowed, c.scalar(0, element),
                  c.scalar(-std::numeric_limits<double>::infinity(), element));
}

Value causalAddend(NodeContext &c, AffineExpr queries, AffineExpr keys, AffineExpr offset,
                   Type element) {
  Value rows = c.add(c.alongAxis(positions(c, queries), 0, 2),
                     c.materialize(Sizes::scalar(offset), c.builder().getI64Type()));
  Value columns = c.alongAxis(positions(c, keys), 1, 2);
  return additive(c, c.compare(columns, tn::Predicate::le, rows), element);
}

} // namespace tenon::onnx
