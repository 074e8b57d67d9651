// Relies on the import to have made inner values results (ImportOptions::taps); results that nobody
// observes go, and what only they need is dead code.
#include "compiler/opt/precision/Observe.h"

#include "compiler/graph/Shape.h"
#include "compiler/graph/TnRare.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "support/text/Text.h"

using namespace mlir;

namespace tenon::opt {
namespace {

/// The input or result of that name; null if there is none.
Value find(func::FuncOp function, StringRef name) {
  Operation *end = function.getBody().front().getTerminator();
  for (auto [i, value] : llvm::enumerate(end->getOperands())) {
    if (function.getResultAttrOfType<StringAttr>(i, "tn.name") == name) {
      return value;
    }
  }
  for (auto [i, value] : llvm::enumerate(function.getArguments())) {
    if (function.getArgAttrOfType<StringAttr>(i, "tn.name") == name) {
      return value;
    }
  }
  return nullptr;
}

/// Its minimum, maximum and histogram.
SmallVector<Value> observed(OpBuilder &b, Value value) {
  Location location = value.getLoc();
  MLIRContext *context = b.getContext();
  tn::Dims dims = tn::getDims(value.getType());
  if (!getElementTypeOrSelf(value).isF32()) {
    value = tn::CastOp::create(b, location, tn::makeTensor(dims, b.getF32Type()), value);
  }
  AffineExpr one = getAffineConstantExpr(1, context);
  tn::Dims line = {one, tn::elementCount(context, dims)};
  SmallVector<Value> results;
  for (tn::ReduceKind kind : {tn::ReduceKind::min, tn::ReduceKind::max}) {
    Value flat = tn::ReshapeOp::create(b, location, tn::makeTensor(line, b.getF32Type()), value);
    results.push_back(tn::ReduceOp::create(b, location, tn::makeTensor({one}, b.getF32Type()), flat,
                                           kind, ArrayRef<int64_t>{1}, /*keepdims=*/false));
  }
  Value flat = tn::ReshapeOp::create(b, location, tn::makeTensor(line, b.getF32Type()), value);
  results.push_back(tn::HistogramOp::create(
      b, location, RankedTensorType::get({1, kHistogramBins}, b.getI32Type()), flat,
      kHistogramBits));
  return results;
}

} // namespace

Status observe(ModuleOp module, const std::vector<std::string> &names) {
  func::FuncOp function = *module.getOps<func::FuncOp>().begin();
  Operation *end = function.getBody().front().getTerminator();
  OpBuilder b(end);
  SmallVector<Value> results;
  SmallVector<Attribute> attributes;
  for (const std::string &name : names) {
    Value value = find(function, name);
    if (!value || !isa<FloatType>(getElementTypeOrSelf(value))) {
      return Status::error(ErrorId::BadArgument,
                           strCat("'", name, "' is no tensor of floats that can be observed"));
    }
    llvm::append_range(results, observed(b, value));
    for (const char *what : {":min", ":max", ":histogram"}) {
      attributes.push_back(
          b.getDictionaryAttr(b.getNamedAttr("tn.name", b.getStringAttr(strCat(name, what)))));
    }
  }
  end->setOperands(results);
  function.setFunctionType(
      b.getFunctionType(function.getArgumentTypes(), TypeRange(ValueRange(results))));
  function.setResAttrsAttr(b.getArrayAttr(attributes));
  return Status::ok();
}

} // namespace tenon::opt
