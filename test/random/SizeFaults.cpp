// Relies on import having recorded what it assumes as constraints and ranges of symbols.
#include "test/random/SizeFaults.h"

#include "compiler/graph/Constraints.h"
#include "compiler/graph/Shape.h"

#include <functional>

using namespace mlir;

namespace tenon::random {
namespace {

/// Leaves out constraints of one kind, and what they did to the ranges of symbols. Equal and
/// divisible are not among them: such symbols are replaced in the types of the inputs, which are
/// checked by themselves.
bool forget(ModuleOp module, tn::ConstraintKind kind) {
  SmallVector<tn::Constraint> constraints = tn::constraintsOf(module);
  size_t before = constraints.size();
  tn::SymbolList symbols(module);
  llvm::erase_if(constraints, [&](const tn::Constraint &constraint) {
    for (auto [index, symbol] : llvm::enumerate(symbols.symbols())) {
      if (kind == tn::ConstraintKind::at_least && constraint.kind == kind &&
          constraint.left.isFunctionOfSymbol(index)) {
        symbols.setRange(index, std::min<int64_t>(symbol.min, 1), symbol.max);
      }
    }
    return constraint.kind == kind;
  });
  symbols.store(module);
  module->removeAttr("tn.constraints");
  tn::storeConstraints(module, constraints);
  return constraints.size() < before;
}

/// Every symbol gets a wider range than was declared.
bool widen(ModuleOp module, int64_t below, int64_t above) {
  tn::SymbolList symbols(module);
  for (auto [index, symbol] : llvm::enumerate(symbols.symbols())) {
    symbols.setRange(index, std::max<int64_t>(symbol.min - below, 0), symbol.max + above);
  }
  symbols.store(module);
  return !symbols.symbols().empty();
}

struct SizeFault {
  std::string name;
  std::function<bool(ModuleOp)> change;
};

std::vector<SizeFault> makeSizeFaults() {
  using Kind = tn::ConstraintKind;
  return {
      {"constraint-equal-or-one",
       [](ModuleOp module) { return forget(module, Kind::equal_or_one); }},
      {"constraint-at-least", [](ModuleOp module) { return forget(module, Kind::at_least); }},
      {"range-least", [](ModuleOp module) { return widen(module, 1, 0); }},
      {"range-most", [](ModuleOp module) { return widen(module, 0, 1); }},
  };
}

} // namespace

std::vector<std::string> sizeFaultNames() {
  std::vector<std::string> names;
  for (const SizeFault &fault : makeSizeFaults()) {
    names.push_back(fault.name);
  }
  return names;
}

bool plantSizeFault(const std::string &name, ModuleOp module) {
  bool isPlanted = false;
  for (const SizeFault &fault : makeSizeFaults()) {
    isPlanted = (fault.name == name && fault.change(module)) || isPlanted;
  }
  return isPlanted;
}

} // namespace tenon::random
