// If: the branch that a constant condition takes is imported in place; otherwise both are, and the
// results are selected. Relies on `tn` operations having no effects.
#include "compiler/frontend/onnx/StatedSizes.h"
#include "compiler/frontend/onnx/ops/Bodies.h"

using namespace mlir;

namespace tenon::onnx {
namespace {

/// Imports a branch and returns its results, one for each output; none after an error.
std::optional<ImportedValues> importBranch(NodeContext &c, StringRef name) {
  std::optional<ImportedValues> results = importBody(c, name, {});
  if (results && results->size() != c.numOutputs()) {
    c.error(ErrorId::OnnxBadAttribute,
            "attribute '" + name + "' is missing or has other results than the node");
    return std::nullopt;
  }
  return results;
}

/// A branch that some run may take. One whose sizes contradict each other cannot be taken with the
/// sizes that the model has here, such as that for another sampling rate: it has no results, and
/// `contradiction` says why.
std::optional<ImportedValues> importPossible(NodeContext &c, StringRef name,
                                             Status &contradiction) {
  std::optional<ImportedValues> results = importBranch(c, name);
  if (results || c.failed()) {
    return results;
  }
  contradiction = c.importer().takeError();
  if (contradiction.id() != ErrorId::OnnxBadNode) {
    c.importer().setError(std::move(contradiction));
    contradiction = Status::ok();
  }
  return std::nullopt;
}

/// The value, to be used only where the condition holds.
ImportedValue onlyIf(NodeContext &c, Value condition, ImportedValue value, const Twine &what) {
  for (ImportedValue &element : value.elements) {
    element = onlyIf(c, condition, element, what);
  }
  if (value.isContainer() || value.isPoisoned()) {
    return value;
  }
  Value data = c.importer().materialize(value, c.location());
  return tensorOf(requireCondition(c, data, condition, what));
}

/// The outputs where one branch cannot be taken, and why: those of the other, in runs that take it.
void importOnly(NodeContext &c, bool isThen, const ImportedValues &results, const Twine &why) {
  Value condition = c.reshape(c.value(0), {});
  if (!isThen) {
    condition = c.make<tn::NotOp>(condition);
  }
  std::string what =
      ("its condition takes the " + Twine(isThen ? "then" : "else") + "_branch; " + why).str();
  for (unsigned i = 0; i < c.numOutputs(); ++i) {
    c.setOutput(i, onlyIf(c, condition, results[i], what));
  }
}

/// Whether sizes decide the value, and no data.
bool isOfSizes(Value x, unsigned depth = 0) {
  constexpr unsigned kMaxDepth = 16;
  Operation *op = x && depth < kMaxDepth ? x.getDefiningOp() : nullptr;
  return op && llvm::all_of(op->getOperands(),
                            [&](Value operand) { return isOfSizes(operand, depth + 1); });
}

const Graph *branchNamed(NodeContext &c, bool isThen) {
  const Attribute *branch =
      c.attribute(isThen ? "then_branch" : "else_branch", AttributeType::Graph);
  return branch ? branch->graph.get() : nullptr;
}

/// Whether one of the branches is ruled out, so that the other alone is imported.
bool importRemaining(NodeContext &c) {
  for (bool isThen : {true, false}) {
    if (!c.importer().choices.ruledOut.count(branchNamed(c, !isThen))) {
      continue;
    }
    std::optional<ImportedValues> results = importBranch(c, isThen ? "then_branch" : "else_branch");
    if (results) {
      importOnly(c, isThen, *results, "the other asks for sizes that most runs do not have");
    }
    return true;
  }
  return false;
}

/// Whether a result has another rank than the model states for the output.
bool hasOtherRank(NodeContext &c, const ImportedValues &results) {
  for (auto [i, result] : llvm::enumerate(results)) {
    std::optional<size_t> rank = c.statedRank(i);
    if (rank && !result.isContainer() && !result.isPoisoned() &&
        result.type.getRank() != static_cast<int64_t>(*rank)) {
      return true;
    }
  }
  return false;
}

/// Whether a branch is this operator alone, constants beside it.
bool isOnly(const Graph *branch, std::string_view opType) {
  SmallVector<std::string_view> others;
  for (const Node &node : branch ? ArrayRef(branch->nodes) : ArrayRef<Node>()) {
    if (node.opType != "Constant") {
      others.push_back(node.opType);
    }
  }
  return others.size() == 1 && others[0] == opType;
}

/// Exporters of PyTorch write squeeze(dim) as a choice by size between a Squeeze and the value as
/// it is. What follows is written for one of both ranks: the squeezed one, whose dim is 1 as a
/// constraint of the model. Within a branch that would be a need of the runs that do not take it.
bool importSqueeze(NodeContext &c, const ImportedValues &yes, const ImportedValues &no) {
  bool areTensors = !c.scope().outer && c.numOutputs() == 1 && yes[0].type && no[0].type;
  if (!areTensors || yes[0].type.getRank() == no[0].type.getRank()) {
    return false;
  }
  for (bool isThen : {true, false}) {
    if (isOnly(branchNamed(c, isThen), "Squeeze") && isOnly(branchNamed(c, !isThen), "Identity")) {
      importOnly(c, isThen, isThen ? yes : no, "the other leaves a dimension that is squeezed");
      return true;
    }
  }
  return false;
}

void importIf(NodeContext &c) {
  std::optional<SmallVector<int64_t>> condition = c.integers(0);
  if (condition && condition->size() == 1) {
    c.ignore((*condition)[0] ? "else_branch" : "then_branch");
    std::optional<ImportedValues> taken =
        importBranch(c, (*condition)[0] ? "then_branch" : "else_branch");
    for (unsigned i = 0; taken && i < c.numOutputs(); ++i) {
      c.setOutput(i, (*taken)[i]);
    }
    return;
  }
  if (importRemaining(c)) {
    return;
  }
  bool isBySizes = isOfSizes(c.value(0));
  Status noThen, noElse;
  unsigned before = c.symbols().determined();
  std::optional<ImportedValues> yes = importPossible(c, "then_branch", noThen);
  unsigned between = c.symbols().determined();
  std::optional<ImportedValues> no = importPossible(c, "else_branch", noElse);
  bool thenDetermines = between != before, elseDetermines = c.symbols().determined() != between;
  if (isBySizes && thenDetermines != elseDetermines) {
    // Such as the squeeze of a dim for the case that it is 1.
    c.importer().choices.ruledOut.insert(branchNamed(c, thenDetermines));
  }
  if (!noThen.isOk() && !noElse.isOk()) {
    return c.importer().setError(std::move(noThen));
  }
  if ((yes && !noElse.isOk()) || (no && !noThen.isOk())) {
    return importOnly(c, yes.has_value(), yes ? *yes : *no,
                      Twine("with these sizes the other has an error: ") +
                          StringRef((yes ? noElse : noThen).message()));
  }
  if (yes && no) {
    for (bool isThen : {true, false}) {
      if (hasOtherRank(c, isThen ? *no : *yes) && !hasOtherRank(c, isThen ? *yes : *no)) {
        return importOnly(c, isThen, isThen ? *yes : *no,
                          "the other gives results of another rank than the model states");
      }
    }
  }
  if (isBySizes && yes && no && importSqueeze(c, *yes, *no)) {
    return;
  }
  Choice choice(c, c.reshape(c.value(0), {}), "its branches give results of different shapes",
                isBySizes
                    ? "sizes of the inputs decide which branch is taken: fix them with --shape"
                    : "make the branches agree, or the condition a constant");
  for (unsigned i = 0; yes && no && i < c.numOutputs(); ++i) {
    c.setOutput(i, choice.between((*yes)[i], (*no)[i]));
  }
}

constexpr Attributes kBranches = {needs({"else_branch", kGraph}), needs({"then_branch", kGraph})};

constexpr OpRow kControlOpRows[] = {
    {"If", 1, 1, 1, kMany, importIf, kBranches},
};

} // namespace

ArrayRef<OpRow> controlRows() { return kControlOpRows; }

} // namespace tenon::onnx
