// Patterns on the graph: by backtracking over the two orders of operands that commute.
#include "compiler/opt/Constants.h"
#include "compiler/rewrite/Graph.h"
#include "compiler/rewrite/Json.h"
#include "compiler/rewrite/Names.h"
#include "compiler/rewrite/Pattern.h"
#include "support/text/NearestName.h"
#include "support/text/Text.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;

namespace tenon::rewrite {
namespace {

namespace json = llvm::json;

struct Captures {
  llvm::StringMap<Value> values;
  SmallVector<Location> locations; ///< of the operations matched
};

class Matcher {
public:
  Matcher(tn::WeightStore &weights, ArrayRef<tn::Symbol> symbolList)
      : constants(weights), symbols(symbolList) {}

  bool match(const Pattern &pattern, Operation *op, Captures &captures) const {
    if (!isOne(pattern.ops, op) || !hasAttributes(pattern, op)) {
      return false;
    }
    SmallVector<Value> operands(op->getOperands());
    bool isCommutative = op->hasTrait<OpTrait::IsCommutative>() && operands.size() == 2;
    Captures before = captures;
    if (matchOperands(pattern, operands, captures)) {
      captures.locations.push_back(op->getLoc());
      return true;
    }
    captures = std::move(before);
    if (!isCommutative) {
      return false;
    }
    std::swap(operands[0], operands[1]);
    captures.locations.push_back(op->getLoc());
    return matchOperands(pattern, operands, captures);
  }

private:
  bool match(const Pattern &pattern, Value value, Captures &captures) const {
    if (pattern.kind == Pattern::Kind::Number) {
      std::optional<double> scalar = constants.scalar(value);
      Type element = cast<RankedTensorType>(value.getType()).getElementType();
      return scalar && opt::isNear(*scalar, pattern.number, element);
    }
    Operation *op = value.getDefiningOp();
    if (pattern.kind == Pattern::Kind::Op && (!op || !match(pattern, op, captures))) {
      return false;
    }
    if (pattern.name.empty()) {
      return true;
    }
    return captures.values.try_emplace(pattern.name, value).first->second == value;
  }

  bool matchOperands(const Pattern &pattern, ArrayRef<Value> operands, Captures &captures) const {
    bool isCount = pattern.operands.size() == operands.size() ||
                   (pattern.mayHaveMore && pattern.operands.size() < operands.size());
    return isCount && llvm::all_of(llvm::zip(pattern.operands, operands), [&](auto pair) {
             return match(std::get<0>(pair), std::get<1>(pair), captures);
           });
  }

  static bool isOne(ArrayRef<std::string> ops, Operation *op) {
    StringRef name = isa<tn::WeightOp>(op) ? "constant" : op->getName().stripDialect();
    return llvm::is_contained(ops, name);
  }

  bool hasAttributes(const Pattern &pattern, Operation *op) const {
    return llvm::all_of(pattern.attributes, [&](const auto &wanted) {
      Attribute attribute = op->getInherentAttr(wanted.first).value_or(Attribute());
      json::Value actual = attribute ? toJson(attribute, symbols) : json::Value(false);
      return actual == wanted.second;
    });
  }

  opt::Constants constants;
  ArrayRef<tn::Symbol> symbols;
};

/// A name that nothing has would match nothing, which looks as if the model lacked it.
Status checkNames(const Pattern &pattern, MLIRContext *context) {
  std::vector<std::string> known = operationNames(context), attributes;
  for (const std::string &op : pattern.ops) {
    if (!llvm::is_contained(known, op)) {
      return badEdit(strCat("no operation is called '", op, "', which a pattern names"),
                     op == "weight" ? "constants are matched by constant()"
                                    : didYouMean(op, known, "docs/ops lists all"));
    }
    llvm::append_range(attributes, attributeNames(operationName(op, context)));
  }
  for (const auto &wanted : pattern.attributes) {
    if (!llvm::is_contained(attributes, wanted.first)) {
      return badEdit(strCat(llvm::join(pattern.ops, "|"), " has no attribute '", wanted.first,
                            "', which a pattern asks for"),
                     attributes.empty() ? "it has none" : "it has " + llvm::join(attributes, ", "));
    }
  }
  for (const Pattern &operand : pattern.operands) {
    TENON_TRY(checkNames(operand, context));
  }
  return Status::ok();
}

Result<Pattern> knownPattern(StringRef text, MLIRContext *context) {
  TENON_ASSIGN(Pattern pattern, parsePattern(text));
  TENON_TRY(checkNames(pattern, context));
  return pattern;
}

} // namespace

Result<std::vector<Id>> Graph::matches(StringRef text) {
  TENON_ASSIGN(Pattern pattern, knownPattern(text, module.getContext()));
  Matcher matcher(weights, symbolList());
  std::vector<Id> found;
  for (Operation &op : function.getBody().front().without_terminator()) {
    Captures captured;
    if (matcher.match(pattern, &op, captured)) {
      found.push_back(idOf(&op));
    }
  }
  return found;
}

Result<bool> Graph::match(StringRef text, Id node) {
  TENON_ASSIGN(Pattern pattern, knownPattern(text, module.getContext()));
  if (node != 0 && node <= operations.size() && !operations[node - 1]) {
    return false;
  }
  TENON_ASSIGN(Operation * op, operation(node));
  Captures found;
  if (!Matcher(weights, symbolList()).match(pattern, op, found)) {
    return false;
  }
  if (!pattern.name.empty()) {
    found.values[pattern.name] = op->getResult(0);
  }
  captures.clear();
  for (const auto &entry : found.values) {
    captures[entry.getKey()] = idOf(entry.getValue());
  }
  matchedLocation = FusedLoc::get(module.getContext(), found.locations);
  return true;
}

Result<Id> Graph::captured(StringRef name) const {
  auto found = captures.find(name);
  return found == captures.end() ? badEdit(strCat("the pattern last matched has no name '",
                                                  std::string_view(name), "'"))
                                 : Result<Id>(found->second);
}

} // namespace tenon::rewrite
