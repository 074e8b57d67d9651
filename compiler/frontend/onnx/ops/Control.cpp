// If: the branch that a constant condition takes is imported in place; otherwise both are, and the
// results are selected. Relies on `tn` operations having no effects.
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
  std::optional<ImportedValues> yes = importBranch(c, "then_branch");
  std::optional<ImportedValues> no = yes ? importBranch(c, "else_branch") : std::nullopt;
  Choice choice(c, c.reshape(c.value(0), {}), "its branches give results of different shapes",
                "make the branches agree, or the condition a constant");
  for (unsigned i = 0; no && i < c.numOutputs(); ++i) {
    c.setOutput(i, choice.between((*yes)[i], (*no)[i]));
  }
}

constexpr Attributes kBranches = {needs({"else_branch", kGraph}), needs({"then_branch", kGraph})};

constexpr OpRow kRows[] = {
    {"If", 1, 1, 1, kMany, importIf, kBranches},
};

} // namespace

ArrayRef<OpRow> controlRows() { return kRows; }

} // namespace tenon::onnx
