// One linalg.generic over the tile whose body holds all consumers. Relies on ScalarBody for what
// each op does and on VectorizeStrips for loops and masks.
#include "compiler/codegen/cpu/gemm/Epilogue.h"

#include "compiler/codegen/common/lower/Reduce.h"
#include "compiler/codegen/common/math/ScalarBody.h"
#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"

using namespace mlir;

namespace tenon::codegen::cpu {

Epilogue::Epilogue(KernelBuilder &kernel, func::FuncOp source, Operation *root, Value bias)
    : kernel(kernel), source(source), root(root), bias(bias),
      result(source.getBody().front().getTerminator()->getOperand(0)),
      dims(tn::getDims(root->getResult(0).getType())) {
  for (Operation &op : source.getBody().front().without_terminator()) {
    if (hasScalarBody(&op)) {
      ops.push_back(&op);
    }
  }
}

bool Epilogue::isTrivial() const {
  Type element = getElementTypeOrSelf(result);
  return !bias && result == root->getResult(0) &&
         (element.isF32() || storageType(element).isInteger(32));
}

/// True if `value` has the result's dims but perhaps for the last one.
bool Epilogue::hasAllRows(Value value) const {
  tn::Dims own = tn::getDims(value.getType());
  return own.size() == dims.size() &&
         tn::sameDims(ArrayRef(own).drop_back(), ArrayRef(dims).drop_back());
}

namespace {

bool isOne(AffineExpr dim) { return tn::constantDim(dim) == 1; }

bool hasColumns(const tn::Dims &own) { return !own.empty() && !isOne(own.back()); }

bool hasRows(const tn::Dims &own) {
  return own.size() > 1 && !llvm::all_of(ArrayRef(own).drop_back(), isOne);
}

} // namespace

/// A null memref says that the map cannot be stated: the body loads the element by itself.
Epilogue::Operand Epilogue::operandOf(const IndexMath &math, Value value, const Tile &tile) const {
  tn::Dims own = tn::getDims(value.getType());
  Value buffer = kernel.input(cast<BlockArgument>(value).getArgNumber());
  OpBuilder &builder = math.builder;
  AffineExpr row = builder.getAffineDimExpr(0), column = builder.getAffineDimExpr(1);
  AffineExpr zero = builder.getAffineConstantExpr(0);
  if (own.empty()) {
    return {value, buffer, AffineMap::get(2, 0, builder.getContext())};
  }
  bool columns = hasColumns(own);
  Value start = columns ? tile.firstColumn : math.constant(0);
  Value width = columns ? tile.columns : math.constant(1);
  AffineExpr last = columns ? column : zero;
  if (own.size() == 1) {
    return {value, math.view(buffer, {start}, {width}), AffineMap::get(2, 0, last)};
  }
  Value rows = math.asRows(buffer);
  if (!hasRows(own)) {
    Value view = math.view(rows, {math.constant(0), start}, {math.constant(1), width});
    return {value, view, AffineMap::get(2, 0, {zero, last}, builder.getContext())};
  }
  if (!hasAllRows(value)) {
    return {value, Value(), AffineMap()};
  }
  Value view = math.view(rows, {tile.firstRow, start}, {tile.rows, width});
  return {value, view, AffineMap::get(2, 0, {row, last}, builder.getContext())};
}

/// The row of an operand of dims `own` that belongs to the body's row of the tile.
Value Epilogue::rowOf(OpBuilder &body, const tn::Dims &own, const Tile &tile) const {
  IndexMath math(body, kernel.location);
  Value inTile = linalg::IndexOp::create(body, kernel.location, 0);
  Value rest = math.add(tile.firstRow, inTile);
  Value row = math.constant(0), stride = math.constant(1);
  size_t missing = dims.size() - own.size();
  for (size_t i = dims.size() - 1; i-- > missing;) {
    Value size = math.size(kernel, dims[i]);
    if (!isOne(own[i - missing])) {
      row = math.add(row, math.mul(math.rem(rest, size), stride));
      stride = math.mul(stride, size);
    }
    rest = math.div(rest, size);
  }
  return row;
}

/// An operand that repeats along some of the flattened dims.
Value Epilogue::loadBroadcast(OpBuilder &body, Value value, const Tile &tile) const {
  tn::Dims own = tn::getDims(value.getType());
  Location location = kernel.location;
  IndexMath math(body, location);
  Value row = rowOf(body, own, tile);
  Value column = math.constant(0);
  if (hasColumns(own)) {
    // An apply, so that the strip sees that neighbours lie side by side.
    AffineExpr sum = body.getAffineDimExpr(0) + body.getAffineDimExpr(1);
    Value inTile = linalg::IndexOp::create(body, location, 1);
    column = affine::AffineApplyOp::create(body, location, AffineMap::get(2, 0, sum),
                                           ValueRange{inTile, tile.firstColumn});
  }
  OpBuilder outside(kernel.function().getContext());
  Value buffer = kernel.input(cast<BlockArgument>(value).getArgNumber());
  outside.setInsertionPointAfterValue(buffer);
  Value rows = IndexMath(outside, location).asRows(buffer);
  return memref::LoadOp::create(body, location, rows, ValueRange{row, column});
}

FailureOr<Value> Epilogue::compute(OpBuilder &body, llvm::DenseMap<Value, Value> &elements,
                                   const Tile &tile) {
  Location location = kernel.location;
  Value sum = elements[root->getResult(0)];
  if (bias) {
    sum = combineSum(body, location, sum, widen(body, location, elements[bias]));
  }
  elements[root->getResult(0)] =
      narrow(body, location, sum, storageType(getElementTypeOrSelf(root->getResult(0))));
  for (Operation *op : ops) {
    SmallVector<Value> args;
    for (Value operand : op->getOperands()) {
      Value &element = elements[operand];
      if (!element && isa<BlockArgument>(operand)) {
        element = loadBroadcast(body, operand, tile);
      }
      if (tn::ConstantOp constant = operand.getDefiningOp<tn::ConstantOp>(); constant && !element) {
        DenseElementsAttr values = cast<DenseElementsAttr>(constant.getValue());
        element = arith::ConstantOp::create(
            body, location,
            storedElement(*values.value_begin<Attribute>(), storageType(values.getElementType())));
      }
      if (!element) {
        return op->emitOpError("is not a consumer of the region's contraction");
      }
      args.push_back(element);
    }
    Value element = emitScalarBody(body, location, op, args);
    if (!element) {
      return failure();
    }
    elements[op->getResult(0)] = element;
  }
  return elements[result];
}

LogicalResult Epilogue::emit(const IndexMath &math, Value sums, const Tile &tile) {
  OpBuilder &builder = math.builder;
  // Tiles do not overlap, and all that is computed before them is in scratch.
  kernel.mayOverwriteInputs = true;
  AffineMap identity = builder.getMultiDimIdentityMap(2);
  SmallVector<Operand> operands = {{root->getResult(0), sums, identity}};
  for (Value argument : source.getArguments()) {
    bool isRead = argument == bias || llvm::any_of(argument.getUsers(), [&](Operation *user) {
                    return llvm::is_contained(ops, user);
                  });
    if (!isRead) {
      continue;
    }
    Operand operand = operandOf(math, argument, tile);
    if (operand.memref) {
      operands.push_back(operand);
    }
  }
  SmallVector<Value> memrefs;
  SmallVector<AffineMap> maps;
  for (Operand &operand : operands) {
    memrefs.push_back(operand.memref);
    maps.push_back(operand.map);
  }
  maps.push_back(identity);
  Value output = math.view(math.asRows(kernel.output(0)), {tile.firstRow, tile.firstColumn},
                           {tile.rows, tile.columns});
  SmallVector<utils::IteratorType> loops(2, utils::IteratorType::parallel);
  LogicalResult status = success();
  linalg::GenericOp::create(builder, math.location, memrefs, ValueRange{output}, maps, loops,
                            [&](OpBuilder &body, Location location, ValueRange args) {
                              llvm::DenseMap<Value, Value> elements;
                              for (auto [operand, element] : llvm::zip(operands, args)) {
                                elements[operand.value] = element;
                              }
                              FailureOr<Value> element = compute(body, elements, tile);
                              status = succeeded(element) ? success() : failure();
                              linalg::YieldOp::create(body, location,
                                                      succeeded(element) ? *element : args.back());
                            });
  return status;
}

} // namespace tenon::codegen::cpu
