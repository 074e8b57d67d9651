// Finds live values from a graph's outputs back to its inputs.
#include "compiler/frontend/pt2/Liveness.h"

#include "compiler/frontend/pt2/OpTable.h"
#include "llvm/ADT/STLExtras.h"

using namespace llvm;

namespace tenon::pt2 {
namespace {

void addNames(const Argument &argument, std::unordered_set<std::string> &names) {
  if (argument.isName()) {
    names.insert(argument.text);
  }
  for (const Argument &element : argument.elements) {
    addNames(element, names);
  }
}

} // namespace

bool hasEffect(const Node &node) {
  Target target = parseTarget(node.target);
  bool isFunction = target.name.starts_with("aten.") && !target.isInPlace &&
                    target.overload != "out" && !target.name.contains("assert") &&
                    !target.name.contains("sym_constrain");
  return !isFunction || node.outputs.empty();
}

std::unordered_set<std::string> liveValues(const Graph &graph) {
  std::unordered_set<std::string> live;
  for (const Argument &output : graph.outputs) {
    addNames(output, live);
  }
  for (const Node &node : llvm::reverse(graph.nodes)) {
    std::unordered_set<std::string> results;
    for (const Argument &output : node.outputs) {
      addNames(output, results);
    }
    if (hasEffect(node) ||
        llvm::any_of(results, [&](const std::string &name) { return live.count(name) != 0; })) {
      for (const NamedArgument &input : node.inputs) {
        addNames(input.value, live);
      }
    }
  }
  return live;
}

} // namespace tenon::pt2
