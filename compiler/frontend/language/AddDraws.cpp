// Relies on the logits being the first result, and on the text of an input's name being that of the
// others.
#include "compiler/frontend/language/Language.h"

#include "compiler/graph/Shape.h"
#include "compiler/graph/TnRare.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"
#include "support/Check.h"

using namespace mlir;

namespace tenon::language {
namespace {

constexpr int64_t kParameters = 3;

DictionaryAttr named(Builder &builder, StringRef name) {
  return builder.getDictionaryAttr(builder.getNamedAttr("tn.name", builder.getStringAttr(name)));
}

Value addInput(func::FuncOp function, Builder &builder, StringRef name, Type type) {
  unsigned number = function.getNumArguments();
  Location location = NameLoc::get(builder.getStringAttr(name));
  LogicalResult added = function.insertArgument(number, type, named(builder, name), location);
  TENON_CHECK(succeeded(added), "an input follows the others");
  return function.getArgument(number);
}

void addOutput(func::FuncOp function, Builder &builder, StringRef name, Value value) {
  Operation *end = function.getBody().front().getTerminator();
  end->insertOperands(end->getNumOperands(), value);
  LogicalResult added =
      function.insertResult(function.getNumResults(), value.getType(), named(builder, name));
  TENON_CHECK(succeeded(added), "an output follows the others");
}

/// Which rows of the logits are an output: the caller says it for each run.
Value selectRows(ModuleOp module, func::FuncOp function, OpBuilder &builder, Value logits) {
  tn::SymbolList symbols(module);
  int64_t most = symbols.bounds(tn::getDims(logits.getType())[0]).max;
  AffineExpr count = builder.getAffineSymbolExpr(symbols.add("fetched", 1, most));
  symbols.store(module);
  Value rows =
      addInput(function, builder, "fetched", tn::makeTensor({count}, builder.getI64Type()));
  return tn::GatherOp::create(builder, NameLoc::get(builder.getStringAttr("fetch")), logits, rows,
                              int64_t{0});
}

void replaceOutput(func::FuncOp function, unsigned number, Value value) {
  function.getBody().front().getTerminator()->setOperand(number, value);
  SmallVector<Type> types(function.getResultTypes());
  types[number] = value.getType();
  function.setFunctionType(
      FunctionType::get(function.getContext(), function.getArgumentTypes(), types));
}

/// Seeded inputs choose a row that there is.
void limitRows(ModuleOp module, Builder &builder) {
  DictionaryAttr metadata = module->getAttrOfType<DictionaryAttr>("tn.metadata");
  NamedAttrList entries(metadata);
  StringRef limits = cast<StringAttr>(metadata.get("input_limits")).getValue();
  entries.set("input_limits", builder.getStringAttr(limits.drop_back() + ", \"fetched\": 0}"));
  module->setAttr("tn.metadata", entries.getDictionary(module.getContext()));
}

} // namespace

void addDraws(ModuleOp module) {
  func::FuncOp function = *module.getOps<func::FuncOp>().begin();
  Operation *end = function.getBody().front().getTerminator();
  OpBuilder builder(end);
  Value logits = end->getOperand(0);
  tn::Dims parameters = {tn::getDims(logits.getType())[0],
                         builder.getAffineConstantExpr(kParameters)};
  Value numbers =
      addInput(function, builder, "numbers", tn::makeTensor(parameters, builder.getF64Type()));
  Value integers =
      addInput(function, builder, "integers", tn::makeTensor(parameters, builder.getI64Type()));
  tn::SampleOp sample = tn::SampleOp::create(builder, NameLoc::get(builder.getStringAttr("draws")),
                                             logits, numbers, integers);
  replaceOutput(function, 0, selectRows(module, function, builder, logits));
  limitRows(module, builder);
  addOutput(function, builder, "ids", sample.getIds());
  addOutput(function, builder, "logprobs", sample.getLogprobs());
}

} // namespace tenon::language
