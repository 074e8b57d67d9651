// What lives from run to run: 8-bit numbers that stay in the arena. A model may keep their
// differences to what it begins with, since its state begins with zeros; boards keep the numbers.
#include "compiler/codegen/edge/Lowering.h"

#include "compiler/graph/GraphInfo.h"
#include "compiler/graph/State.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <numeric>

using namespace mlir;

namespace tenon::codegen::edge {

void Lowering::addStates() {
  func::FuncOp main = module.lookupSymbol<func::FuncOp>("main");
  for (const tn::State &state : tn::statesOf(main)) {
    RankedTensorType type = opt::tensorType(state.argument);
    if (!type.getElementType().isInteger(8) || !type.hasStaticShape()) {
      continue; // what reads it is a gap
    }
    State kept;
    kept.name = tn::portName(main.getArgAttrDict(state.argument.getArgNumber()), "input",
                             state.argument.getArgNumber());
    kept.tensor = newTensor(countOf(state.argument));
    // Numbers are signed.
    kept.initial.assign(static_cast<size_t>(countOf(state.argument)),
                        static_cast<int8_t>(type.getElementType().isUnsignedInteger() ? -128 : 0));
    states[state.argument] = result.program.states.size();
    views[state.argument] = {kept.tensor, 1, 0};
    result.program.states.push_back(std::move(kept));
  }
}

/// The sum of kept differences and what the model begins with, and the difference of numbers to it,
/// which are the numbers themselves here.
bool Lowering::visitStateArithmetic(Operation *op) {
  bool isSum = isa<tn::AddOp>(op), isDifference = isa<tn::SubOp>(op);
  if ((!isSum && !isDifference) ||
      !opt::tensorType(op->getResult(0)).getElementType().isInteger(8)) {
    return false;
  }
  Value kept = op->getOperand(0), initial = op->getOperand(1);
  if (opt::Constants::isConstant(kept)) {
    std::swap(kept, initial);
  }
  std::vector<char> bytes = constants.bytes(initial);
  std::optional<View> view = viewOf(kept);
  if (!view || static_cast<int64_t>(bytes.size()) != countOf(kept)) {
    return false;
  }
  auto state = states.find(kept);
  if (isSum && state != states.end()) {
    std::vector<int8_t> &begin = result.program.states[state->second].initial;
    for (auto [number, byte] : llvm::zip_equal(begin, bytes)) {
      number = static_cast<int8_t>(static_cast<uint8_t>(number) + static_cast<uint8_t>(byte));
    }
  }
  bool isKept = isSum ? state != states.end() : !states.empty();
  if (isKept) {
    views[op->getResult(0)] = *view;
    lowered.insert(op);
  }
  return isKept;
}

/// Copies the numbers to where the next run finds them, behind all calls.
void Lowering::keep(Operation *op, StringRef name, Value next) {
  auto found =
      llvm::find_if(result.program.states, [&](const State &state) { return state.name == name; });
  std::optional<View> view = viewOf(next);
  if (found == result.program.states.end() || !view) {
    gap(next.getDefiningOp() ? next.getDefiningOp() : op, "what it keeps is not 8-bit numbers");
    return;
  }
  bool isOther = llvm::any_of(result.program.states, [&](const State &state) {
    return state.tensor == view->tensor && state.tensor != found->tensor;
  });
  if (isOther) {
    gap(op, "a variable becomes another one as it is");
  } else if (view->tensor != found->tensor) {
    int64_t count = countOf(next);
    copy(op, view->tensor, found->tensor, {{count}, {1}, {1}, 0, 0}, true);
  }
}

} // namespace tenon::codegen::edge
