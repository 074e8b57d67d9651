// Edits of what is there. Types stay as they are, so that no edit asks for another one.
#include "compiler/rewrite/Graph.h"
#include "compiler/rewrite/Json.h"
#include "mlir/Analysis/TopologicalSortUtils.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "support/text/Text.h"
#include "llvm/ADT/DenseSet.h"

using namespace mlir;

namespace tenon::rewrite {
namespace {

/// The operations from which the value is made, itself included.
llvm::DenseSet<Operation *> makersOf(Value value) {
  llvm::DenseSet<Operation *> makers;
  SmallVector<Value> open = {value};
  while (!open.empty()) {
    Operation *op = open.pop_back_val().getDefiningOp();
    if (op && makers.insert(op).second) {
      llvm::append_range(open, op->getOperands());
    }
  }
  return makers;
}

} // namespace

Status Graph::replace(Id id, Id withId) {
  TENON_ASSIGN(Value value, this->value(id));
  TENON_ASSIGN(Value with, this->value(withId));
  if (value.getType() != with.getType()) {
    return badEdit(strCat("a value of ", printed(toJson(value.getType(), symbolList())),
                          " cannot be replaced by one of ",
                          printed(toJson(with.getType(), symbolList()))),
                   "cast or reshape the new one");
  }
  if (value == with) {
    return Status::ok();
  }
  llvm::DenseSet<Operation *> makers = makersOf(with);
  value.replaceUsesWithIf(with, [&](OpOperand &use) { return !makers.contains(use.getOwner()); });
  Operation *made = with.getDefiningOp();
  Operation *replaced = value.getDefiningOp();
  if (made && replaced && isa<UnknownLoc>(made->getLoc())) {
    made->setLoc(replaced->getLoc());
  }
  ++editCount;
  return Status::ok();
}

Status Graph::setOperand(Id node, size_t index, Id id) {
  TENON_ASSIGN(Operation * op, operation(node));
  TENON_ASSIGN(Value value, this->value(id));
  TENON_ASSIGN(std::vector<Id> before, operands(node));
  if (index >= before.size() || before[index] == 0) {
    return badEdit(strCat("node ", node, " (", std::string_view(op->getName().stripDialect()),
                          ") has no operand ", index));
  }
  TENON_ASSIGN(Value old, this->value(before[index]));
  if (old.getType() != value.getType()) {
    return badEdit(strCat("operand ", index, " is of ",
                          printed(toJson(old.getType(), symbolList())), ", the value of ",
                          printed(toJson(value.getType(), symbolList()))),
                   "create another node where types change");
  }
  if (makersOf(value).contains(op)) {
    return badEdit(strCat("value ", id, " is made from the results of node ", node));
  }
  size_t absent = std::count(before.begin(), before.begin() + index, Id(0));
  op->setOperand(index - absent, value);
  ++editCount;
  return Status::ok();
}

Status Graph::setAttributes(Id node, StringRef text) {
  TENON_ASSIGN(Operation * op, operation(node));
  NamedAttrList all;
  for (StringAttr name : op->getName().getAttributeNames()) {
    if (Attribute attribute = op->getInherentAttr(name).value_or(Attribute())) {
      all.set(name, attribute);
    }
  }
  TENON_TRY(parseAttributes(op->getName(), text, all));
  // On a copy first: an attribute may ask for another type of the results.
  SmallVector<Value> operandList;
  TENON_ASSIGN(std::vector<Id> ids, operands(node));
  for (Id id : ids) {
    operandList.push_back(id == 0 ? Value() : values[id - 1]);
  }
  TENON_ASSIGN(Operation * trial,
               build(op->getName(), operandList, all, SmallVector<Type>(op->getResultTypes())));
  op->copyProperties(trial->getPropertiesStorage());
  trial->destroy();
  ++editCount;
  return Status::ok();
}

Status Graph::addOutput(Id id, StringRef name) {
  TENON_ASSIGN(Value value, this->value(id));
  for (size_t i = 0; i < function.getNumResults(); ++i) {
    if (outputName(i) == name.str()) {
      return badEdit(strCat("the model has an output '", std::string_view(name), "'"),
                     "give it another name");
    }
  }
  if (name.empty()) {
    return badEdit("an output needs a name");
  }
  terminator()->insertOperands(function.getNumResults(), value);
  DictionaryAttr attributes = DictionaryAttr::get(
      module.getContext(), NamedAttribute(StringAttr::get(module.getContext(), "tn.name"),
                                          StringAttr::get(module.getContext(), name)));
  (void)function.insertResult(function.getNumResults(), value.getType(), attributes);
  ++editCount;
  return Status::ok();
}

Status Graph::erase(Id node) {
  TENON_ASSIGN(Operation * op, operation(node));
  if (!op->use_empty()) {
    return badEdit(strCat("the results of node ", node, " (",
                          std::string_view(op->getName().stripDialect()), ") are read"),
                   "replace them first");
  }
  forget(op);
  op->erase();
  ++editCount;
  return Status::ok();
}

Status Graph::finish() {
  Block &block = function.getBody().front();
  if (!sortTopologically(&block)) {
    return badEdit("a node reads what is made from its own result", "replace what it reads");
  }
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block))) {
    if (isOpTriviallyDead(&op)) {
      forget(&op);
      op.erase();
    }
  }
  return Status::ok();
}

} // namespace tenon::rewrite
