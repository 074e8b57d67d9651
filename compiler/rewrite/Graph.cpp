// Reading. What an operation is called follows from its name; `tn.weight` and `tn.constant` differ
// in where their bytes are, which is nobody's matter outside, and are both "constant".
#include "compiler/rewrite/Graph.h"

#include "compiler/graph/Flops.h"
#include "compiler/graph/NodeOrigin.h"
#include "compiler/opt/Constants.h"
#include "compiler/rewrite/Json.h"
#include "support/text/Text.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;

namespace tenon::rewrite {
namespace {

namespace json = llvm::json;

/// Says where operands are in groups; not a matter of whoever looks at a graph.
constexpr StringLiteral kSegments = "operandSegmentSizes";

json::Object attributesOf(Operation *op, ArrayRef<tn::Symbol> symbols) {
  json::Object object;
  if (isa<tn::ConstantOp, tn::WeightOp>(op)) {
    return object;
  }
  for (StringAttr name : op->getName().getAttributeNames()) {
    Attribute attribute = op->getInherentAttr(name).value_or(Attribute());
    if (name.getValue() != kSegments && attribute) {
      object[name.getValue()] = toJson(attribute, symbols);
    }
  }
  return object;
}

/// Smallest values that the symbols may have.
SmallVector<int64_t> leastOf(ArrayRef<tn::Symbol> symbols) {
  return llvm::map_to_vector(symbols, [](const tn::Symbol &symbol) { return symbol.min; });
}

std::optional<std::string> portName(DictionaryAttr attributes) {
  StringAttr name = attributes ? attributes.getAs<StringAttr>("tn.name") : StringAttr();
  return name ? name.str() : std::string();
}

} // namespace

Graph::Graph(ModuleOp owner, tn::WeightStore &store, std::string passName)
    : module(owner), function(*owner.getOps<func::FuncOp>().begin()), weights(store),
      pass(std::move(passName)), declared(owner) {}

Id Graph::idOf(Operation *op) {
  auto [entry, isNew] = operationIds.try_emplace(op, operations.size() + 1);
  if (isNew) {
    operations.push_back(op);
  }
  return entry->second;
}

Id Graph::idOf(Value value) {
  if (!value) {
    return 0;
  }
  auto [entry, isNew] = valueIds.try_emplace(value, values.size() + 1);
  if (isNew) {
    values.push_back(value);
  }
  return entry->second;
}

Result<Operation *> Graph::operation(Id node) const {
  if (node == 0 || node > operations.size()) {
    return badEdit(strCat("there is no node ", node));
  }
  if (!operations[node - 1]) {
    return badEdit(strCat("node ", node, " was erased"));
  }
  return operations[node - 1];
}

Result<Value> Graph::value(Id id) const {
  if (id == 0 || id > values.size()) {
    return badEdit(strCat("there is no value ", id));
  }
  if (!values[id - 1]) {
    return badEdit(strCat("the node of value ", id, " was erased"));
  }
  return values[id - 1];
}

void Graph::forget(Operation *op) {
  if (auto found = operationIds.find(op); found != operationIds.end()) {
    operations[found->second - 1] = nullptr;
    operationIds.erase(found);
  }
  for (Value result : op->getResults()) {
    if (auto found = valueIds.find(result); found != valueIds.end()) {
      values[found->second - 1] = Value();
      valueIds.erase(found);
    }
  }
}

func::ReturnOp Graph::terminator() {
  return cast<func::ReturnOp>(function.getBody().front().getTerminator());
}

//===--- The whole graph ---===//

std::string Graph::symbols() const {
  json::Array list;
  for (const tn::Symbol &symbol : symbolList()) {
    list.push_back(json::Object{
        {"name", json::fixUTF8(symbol.name)}, {"min", symbol.min}, {"max", symbol.max}});
  }
  return printed(std::move(list));
}

std::vector<Id> Graph::nodes() {
  std::vector<Id> list;
  for (Operation &op : function.getBody().front().without_terminator()) {
    list.push_back(idOf(&op));
  }
  return list;
}

std::vector<Id> Graph::inputs() {
  std::vector<Id> list;
  for (Value argument : function.getArguments()) {
    list.push_back(idOf(argument));
  }
  return list;
}

std::vector<Id> Graph::outputs() {
  std::vector<Id> list;
  for (Value output : terminator()->getOperands()) {
    list.push_back(idOf(output));
  }
  return list;
}

std::optional<std::string> Graph::inputName(size_t index) {
  return index < function.getNumArguments() ? portName(function.getArgAttrDict(index))
                                            : std::nullopt;
}

std::optional<std::string> Graph::outputName(size_t index) {
  return index < function.getNumResults() ? portName(function.getResultAttrDict(index))
                                          : std::nullopt;
}

//===--- Nodes ---===//

Result<std::string> Graph::op(Id node) const {
  TENON_ASSIGN(Operation * op, operation(node));
  return isa<tn::WeightOp>(op) ? "constant" : op->getName().stripDialect().str();
}

Result<std::string> Graph::name(Id node) const {
  TENON_ASSIGN(Operation * op, operation(node));
  return llvm::join(tn::originOf(op->getLoc()).names, "+");
}

Result<std::string> Graph::source(Id node) const {
  TENON_ASSIGN(Operation * op, operation(node));
  return tn::originOf(op->getLoc()).source;
}

Result<std::string> Graph::attributes(Id node) const {
  TENON_ASSIGN(Operation * op, operation(node));
  return printed(attributesOf(op, symbolList()));
}

Result<std::string> Graph::attribute(Id node, StringRef name) const {
  TENON_ASSIGN(Operation * op, operation(node));
  json::Object all = attributesOf(op, symbolList());
  const json::Value *value = all.get(name);
  return value ? Result<std::string>(printed(*value))
               : badEdit(strCat(std::string_view(op->getName().stripDialect()),
                                " has no attribute '", std::string_view(name), "'"));
}

Result<std::vector<Id>> Graph::operands(Id node) {
  TENON_ASSIGN(Operation * op, operation(node));
  std::vector<Id> list;
  std::optional<Attribute> segments = op->getInherentAttr(kSegments);
  if (!segments || !*segments) {
    for (Value operand : op->getOperands()) {
      list.push_back(idOf(operand));
    }
    return list;
  }
  OperandRange rest = op->getOperands();
  for (int32_t size : cast<DenseI32ArrayAttr>(*segments).asArrayRef()) {
    list.push_back(size == 0 ? 0 : idOf(rest.front()));
    rest = rest.drop_front(size);
  }
  return list;
}

Result<std::vector<Id>> Graph::results(Id node) {
  TENON_ASSIGN(Operation * op, operation(node));
  std::vector<Id> list;
  for (Value result : op->getResults()) {
    list.push_back(idOf(result));
  }
  return list;
}

Result<int64_t> Graph::evaluate(AffineExpr expression,
                                std::optional<ArrayRef<int64_t>> symbolValues) const {
  SmallVector<int64_t> least = leastOf(symbolList());
  if (symbolValues && symbolValues->size() != least.size()) {
    return badEdit(strCat("the model has ", least.size(), " symbols, and values are given for ",
                          symbolValues->size()));
  }
  std::optional<int64_t> count =
      expression ? tn::evaluate(expression, symbolValues.value_or(least)) : std::nullopt;
  return count ? Result<int64_t>(*count) : badEdit("what data decides is not known before a run");
}

Result<int64_t> Graph::flops(Id node, std::optional<ArrayRef<int64_t>> symbolValues) const {
  TENON_ASSIGN(Operation * op, operation(node));
  return evaluate(tn::flopsOf(op), symbolValues);
}

Result<int64_t> Graph::bytes(Id node, std::optional<ArrayRef<int64_t>> symbolValues) const {
  TENON_ASSIGN(Operation * op, operation(node));
  return evaluate(tn::bytesOf(op), symbolValues);
}

//===--- Values ---===//

Result<Id> Graph::producer(Id id) {
  TENON_ASSIGN(Value value, this->value(id));
  Operation *op = value.getDefiningOp();
  return op ? idOf(op) : 0;
}

Result<std::vector<Id>> Graph::users(Id id) {
  TENON_ASSIGN(Value value, this->value(id));
  std::vector<Id> list;
  for (Operation &op : function.getBody().front().without_terminator()) {
    if (llvm::is_contained(op.getOperands(), value)) {
      list.push_back(idOf(&op));
    }
  }
  return list;
}

Result<std::string> Graph::type(Id id) const {
  TENON_ASSIGN(Value value, this->value(id));
  return printed(toJson(value.getType(), symbolList()));
}

Result<std::vector<char>> Graph::data(Id id) const {
  TENON_ASSIGN(Value value, this->value(id));
  if (!opt::Constants::isConstant(value)) {
    return badEdit(strCat("value ", id, " is not a constant"));
  }
  return opt::Constants(weights).bytes(value);
}

} // namespace tenon::rewrite
