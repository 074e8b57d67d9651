// Follows arguments to the operations that pick by them.
#include "compiler/graph/IndexLimits.h"

#include "compiler/graph/FactWalk.h"
#include "compiler/graph/GraphInfo.h"
#include "compiler/graph/Shape.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseMap.h"

using namespace mlir;

namespace tenon::tn {

namespace {

/// The argument that a value holds.
struct Origins {
  llvm::DenseMap<Value, BlockArgument> arguments;
  BlockArgument of(Value value) const { return arguments.lookup(value); }
  void set(Value value, BlockArgument argument) { arguments[value] = argument; }
};

} // namespace

std::map<std::string, int64_t> indexLimits(ModuleOp module) {
  func::FuncOp main = module.lookupSymbol<func::FuncOp>("main");
  Origins origins;
  for (BlockArgument argument : main.getArguments()) {
    origins.set(argument, argument);
  }
  std::map<std::string, int64_t> limits;
  walkFacts(main.getBody().front(), origins, [&](Operation *op) {
    if (isa<CastOp, ReshapeOp>(op)) {
      origins.set(op->getResult(0), origins.of(op->getOperand(0)));
    }
    GatherOp gather = dyn_cast<GatherOp>(op);
    BlockArgument argument = gather ? origins.of(gather.getIndices()) : BlockArgument();
    if (!argument) {
      return;
    }
    std::optional<int64_t> size = constantDim(getDims(gather.getX().getType())[gather.getAxis()]);
    if (size && *size > 0) {
      unsigned index = argument.getArgNumber();
      std::string name = portName(main.getArgAttrDict(index), "input", index);
      int64_t &limit = limits.try_emplace(name, *size - 1).first->second;
      limit = std::min(limit, *size - 1);
    }
  });
  return limits;
}

} // namespace tenon::tn
