// If: the branch that a constant condition takes is imported in place; otherwise both are, and the
// results are selected. Relies on `tn` operations having no effects.
#include "compiler/frontend/onnx/NodeContext.h"

using namespace mlir;

namespace tenon::onnx {
namespace {

/// Imports a branch and returns its results; none after an error or if one depends on a gap.
std::optional<SmallVector<ImportedValue>> importBranch(NodeContext &c, StringRef name) {
  const Attribute *branch = c.attribute(name, AttributeType::Graph);
  if (!branch || !branch->graph || branch->graph->outputs.size() != c.numOutputs()) {
    c.error(ErrorId::OnnxBadAttribute,
            "attribute '" + name + "' is missing or has other results than the node");
    return std::nullopt;
  }
  Scope inner;
  inner.outer = &c.scope();
  Status status = c.importer().importInitializers(*branch->graph, inner);
  if (status.isOk()) {
    status = c.importer().importNodes(branch->graph->nodes, inner, c.frame());
  }
  if (!status.isOk()) {
    c.importer().setError(std::move(status));
    return std::nullopt;
  }
  SmallVector<ImportedValue> results;
  for (const ValueInfo &output : branch->graph->outputs) {
    ImportedValue *value = inner.find(output.name);
    if (!value) {
      c.error(ErrorId::OnnxUndefinedValue,
              "nothing defines the branch's result '" + StringRef(output.name) + "'");
      return std::nullopt;
    }
    results.push_back(*value);
  }
  return results;
}

void importIf(NodeContext &c) {
  std::optional<SmallVector<int64_t>> condition = c.integers(0);
  if (condition && condition->size() == 1) {
    c.ignore((*condition)[0] ? "else_branch" : "then_branch");
    std::optional<SmallVector<ImportedValue>> taken =
        importBranch(c, (*condition)[0] ? "then_branch" : "else_branch");
    for (unsigned i = 0; taken && i < c.numOutputs(); ++i) {
      c.setOutput(i, (*taken)[i]);
    }
    return;
  }
  std::optional<SmallVector<ImportedValue>> yes = importBranch(c, "then_branch");
  std::optional<SmallVector<ImportedValue>> no =
      yes ? importBranch(c, "else_branch") : std::nullopt;
  Value choice = c.reshape(c.value(0), {});
  for (unsigned i = 0; no && i < c.numOutputs(); ++i) {
    ImportedValue &a = (*yes)[i];
    ImportedValue &b = (*no)[i];
    c.importer().bringUpToDate(a);
    c.importer().bringUpToDate(b);
    if (!a.type || !b.type) {
      c.setOutput(i, ImportedValue());
      continue;
    }
    if (a.type != b.type) {
      return c.gap("its branches give results of different shapes",
                   "make the branches agree, or the condition a constant");
    }
    c.setOutput(i, c.select(choice, c.importer().materialize(a, c.location()),
                            c.importer().materialize(b, c.location())));
  }
}

constexpr Attributes kBranches = {needs({"else_branch", kGraph}), needs({"then_branch", kGraph})};

constexpr OpRow kRows[] = {
    {"If", 1, 1, 1, kMany, importIf, kBranches},
};

} // namespace

ArrayRef<OpRow> controlRows() { return kRows; }

} // namespace tenon::onnx
