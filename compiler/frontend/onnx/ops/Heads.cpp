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

Value repeatHeads(NodeContext &c, Value x, AffineExpr heads) {
  tn::Dims d = x ? tn::getDims(x.getType()) : tn::Dims();
  if (!x || tn::sameDim(d[1], heads)) {
    return x;
  }
  AffineExpr times = divideProducts(c.symbols(), {heads}, {d[1]});
  if (!times) {
    c.gap("the numbers of heads are not constants", "declare them with --shape");
    return Value();
  }
  Value apart = c.reshape(x, {d[0], d[1], c.constantSize(1), d[2], d[3]});
  return c.reshape(c.broadcast(apart, {d[0], d[1], times, d[2], d[3]}), {d[0], heads, d[2], d[3]});
}

Value mergeHeads(NodeContext &c, Value x) {
  tn::Dims d = x ? tn::getDims(x.getType()) : tn::Dims();
  AffineExpr merged = x ? multiplySizes(d[1], d[3]) : AffineExpr();
  return merged ? c.reshape(c.transpose(x, {0, 2, 1, 3}), {d[0], d[2], merged}) : Value();
}

} // namespace tenon::onnx
