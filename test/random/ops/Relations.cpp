// Nodes that need sizes to be related where their symbols are not: what the engine must check.
#include "test/random/Operators.h"

namespace tenon::random {
namespace {

using namespace onnx::test;

/// A symbol of its own whose size is `size` in this run.
Dim around(Sketch &s, int64_t size) { return s.symbol(size, 1, size + 4); }

/// equal, of symbols that become one: the inner dims of a product.
bool product(Sketch &s) {
  int64_t inner = s.draw.within(2, 9);
  Value a = s.source(DType::F32, {s.dim(), around(s, inner)});
  Value b = s.source(DType::F32, {around(s, inner), s.draw.within(1, 9)});
  return s.node("MatMul", {a.name, b.name});
}

/// equal or one: a broadcast to a constant size.
bool broadcast(Sketch &s) {
  int64_t size = s.draw.within(2, 9);
  Value a = s.source(DType::F32, {s.dim(), size});
  Value b = s.source(DType::F32, {around(s, s.draw.chance(0.5) ? 1 : size)});
  return s.node(s.draw.one({"Add", "Mul", "Sub"}), {a.name, b.name});
}

/// divisible: as many rows as the constant dims leave.
bool rows(Sketch &s) {
  int64_t columns = s.draw.within(2, 4);
  Value x = s.source(DType::F32, {around(s, columns * s.draw.within(1, 3)), s.draw.within(1, 3)});
  return s.node("Reshape", {x.name, s.integers({columns, -1, x.sizes[1]}).name});
}

/// at least: something is taken off, or a window must fit.
bool takenOff(Sketch &s) {
  int64_t size = s.draw.within(4, 9);
  if (s.opset >= 11 && s.draw.chance(0.5)) {
    Value x = s.source(DType::F32, {around(s, size), s.draw.within(1, 3)});
    return s.node("Pad",
                  {x.name, s.integers({-s.draw.within(1, 3), 0, 0, s.draw.within(0, 2)}).name});
  }
  Value x = s.source(DType::F32, {s.dim(), s.draw.within(1, 3), around(s, size)});
  return s.node("MaxPool", {x.name}, 1, {attrInts("kernel_shape", {s.draw.within(2, 4)})});
}

} // namespace

bool relate(Sketch &sketch) {
  return sketch.draw.one({product, broadcast, rows, takenOff})(sketch);
}

} // namespace tenon::random
