// What data selects is listed first, with room for all of it; tn.take_first cuts the list where
// data says. Relies on the symbol that it binds standing in the shapes of all that follows.
#include "compiler/frontend/common/Selection.h"

#include "compiler/graph/TnRare.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;

namespace tenon::frontend {
namespace {

/// The result that an operation of this kind has made of x already.
template <typename Op> Value made(Value x, Type type) {
  for (Operation *user : x.getUsers()) {
    if (isa<Op>(user) && user->getResultTypes().front() == type) {
      return user->getResult(0);
    }
  }
  return Value();
}

} // namespace

Value flatten(Emitter &c, Value x) {
  AffineExpr count =
      x ? tn::elementCount(c.builder().getContext(), tn::getDims(x.getType())) : AffineExpr();
  if (!count) {
    c.gap("the number of elements is too large");
    return Value();
  }
  Value known = made<tn::ReshapeOp>(x, tn::makeTensor({count}, getElementTypeOrSelf(x)));
  return known ? known : c.reshape(x, count);
}

Value truePositions(Emitter &c, Value x) {
  if (!x || c.failed()) {
    return Value();
  }
  Type flag = c.builder().getI1Type(), index = c.builder().getI64Type();
  Value mask = made<tn::CastOp>(x, tn::withElement(x.getType(), flag));
  mask = flatten(c, mask ? mask : c.cast(x, flag));
  if (!mask) {
    return Value();
  }
  Type list = tn::withElement(mask.getType(), index);
  if (Value positions = made<tn::TruePositionsOp>(mask, list)) {
    for (Operation *user : positions.getUsers()) {
      if (isa<tn::TakeFirstOp>(user)) {
        return user->getResult(0);
      }
    }
  }
  OperationState state(c.location(), tn::TruePositionsOp::getOperationName());
  tn::TruePositionsOp::build(c.builder(), state, list, RankedTensorType::get({}, index), mask);
  Operation *found = c.finish(state);
  return found ? takeFirst(c, found->getResult(0), found->getResult(1), 0) : Value();
}

SmallVector<Value> coordinates(Emitter &c, Value numbers, ArrayRef<AffineExpr> dims) {
  SmallVector<Value> result(dims.size());
  Type index = c.builder().getI64Type();
  Value rest = numbers;
  for (size_t i = dims.size(); i-- > 0 && rest;) {
    if (i == 0) {
      result[0] = rest;
      break;
    }
    Value size = c.sizeValue(dims[i], index);
    if (c.symbols().bounds(dims[i]).min < 1) {
      // Nothing is selected along an empty dim, and nothing may be divided by it.
      size = c.max(size, c.scalar(1, index));
    }
    Value quotient = c.div(rest, size);
    result[i] = c.sub(rest, c.mul(quotient, size));
    rest = quotient;
  }
  return result;
}

Value stackLists(Emitter &c, ArrayRef<Value> lists, int64_t axis) {
  SmallVector<Value> parts;
  for (Value list : lists) {
    tn::Dims dims = list ? tn::getDims(list.getType()) : tn::Dims();
    dims.insert(dims.begin() + (dims.empty() ? 0 : axis), c.constantSize(1));
    parts.push_back(c.reshape(list, dims));
  }
  return c.concat(parts, axis);
}

Value takeFirst(Emitter &c, Value x, Value count, int64_t axis, ArrayRef<AffineExpr> most) {
  if (!x || !count || c.failed()) {
    return Value();
  }
  SmallVector<int64_t> order = {axis}, back;
  for (int64_t i = 0; i < cast<RankedTensorType>(x.getType()).getRank(); ++i) {
    back.push_back(i < axis ? i + 1 : i == axis ? 0 : i);
    if (i != axis) {
      order.push_back(i);
    }
  }
  Value rows = c.transpose(x, order);
  if (!rows) {
    return Value();
  }
  tn::Dims dims = tn::getDims(rows.getType());
  std::string name = "#" + c.label();
  dims[0] = c.symbols().addDataDependent(name, most.empty() ? ArrayRef<AffineExpr>(dims[0]) : most);
  Value taken =
      c.makeTyped<tn::TakeFirstOp>(tn::makeTensor(dims, getElementTypeOrSelf(rows)), rows, count);
  return taken ? c.transpose(taken, back) : Value();
}

} // namespace tenon::frontend
