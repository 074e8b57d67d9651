// Walks @main once, from the arguments on.
#include "compiler/graph/RowIndependence.h"

#include "compiler/graph/FactWalk.h"
#include "compiler/graph/GraphInfo.h"
#include "compiler/graph/IndexLimits.h"
#include "compiler/graph/NodeOrigin.h"
#include "compiler/graph/PaddingIndependence.h"
#include "compiler/graph/RowNumbers.h"
#include "compiler/graph/State.h"
#include "compiler/graph/TnRare.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/Support/JSON.h"

using namespace mlir;

namespace tenon::tn {

namespace {

/// The symbol that is dim 0 of a value.
std::optional<unsigned> firstSymbol(Value value) {
  Dims dims = getDims(value.getType());
  AffineSymbolExpr symbol =
      dyn_cast_or_null<AffineSymbolExpr>(dims.empty() ? AffineExpr() : dims[0]);
  return symbol ? std::optional(symbol.getPosition()) : std::nullopt;
}

class Walk {
public:
  Walk(func::FuncOp function, unsigned batch) : main(function), known(batch, function) {
    for (BlockArgument argument : main.getArguments()) {
      known.set(argument, ofArgument(argument, batch));
    }
    walkFacts(main.getBody().front(), known, [&](Operation *op) { visit(op); });
  }

  Rows of(Value value) const { return known.of(value); }

private:
  Rows ofArgument(BlockArgument argument, unsigned batch) {
    if (main.getArgAttrOfType<StringAttr>(argument.getArgNumber(), kState)) {
      return Rows::mixed(nullptr, "is computed from a state, which stays from run to run");
    }
    bool isRows = firstSymbol(argument) == batch && known.onlyAxis(argument.getType()) == 0;
    return isRows ? Rows::along(0) : Rows::mixed(nullptr, "reads an input that has no rows");
  }

  void visit(Operation *op) {
    Rows met;
    for (Value operand : op->getOperands()) {
      met = known.of(operand).isMixed() ? known.of(operand) : met;
    }
    if (TakeFirstOp taken = dyn_cast<TakeFirstOp>(op); taken && known.isAbsent(taken.getCount())) {
      known.setCommon(taken.symbol());
    }
    for (OpResult result : op->getResults()) {
      Rows found = met.isMixed() ? met : ruleOf(known, op, result);
      bool fits =
          found.isMixed() || (found.isAbsent() ? known.isFree(result.getType())
                                               : known.onlyAxis(result.getType()) == found.axis);
      known.set(result, fits ? found : Rows::mixed(op, "has a shape that rows decide"));
    }
  }

  func::FuncOp main;
  KnownRows known;
};

func::FuncOp mainOf(ModuleOp module) { return module.lookupSymbol<func::FuncOp>("main"); }

std::optional<unsigned> batchOf(func::FuncOp main) {
  return main.getNumArguments() > 0 ? firstSymbol(main.getArgument(0)) : std::nullopt;
}

} // namespace

std::vector<OutputRows> outputRows(ModuleOp module) {
  func::FuncOp main = mainOf(module);
  std::optional<unsigned> batch = batchOf(main);
  std::optional<Walk> walk;
  if (batch) {
    walk.emplace(main, *batch);
  }
  std::vector<OutputRows> outputs;
  for (OpOperand &operand : main.getBody().front().getTerminator()->getOpOperands()) {
    unsigned index = operand.getOperandNumber();
    if (main.getResultAttrOfType<StringAttr>(index, kState)) {
      continue;
    }
    OutputRows output = {portName(main.getResultAttrDict(index), "output", index), false, "", ""};
    Rows found = walk ? walk->of(operand.get()) : Rows::mixed(nullptr, "no input has a batch");
    output.isIndependent = found.isAlong(0);
    if (found.isMixed()) {
      output.node = nodeName(found.op);
      output.how = found.how;
    } else if (!output.isIndependent) {
      output.how = found.isAbsent()     ? "no row decides it"
                   : found.isByNumber() ? kByNumber
                                        : "has its rows along another dim";
    }
    outputs.push_back(std::move(output));
  }
  return outputs;
}

std::string rowsRecord(ArrayRef<ModuleOp> modules) {
  std::vector<OutputRows> all;
  for (ModuleOp module : modules) {
    std::vector<OutputRows> outputs = outputRows(module);
    if (!all.empty() && !batchOf(mainOf(module))) {
      continue; // a plan for one size, of the graph before it
    }
    all.resize(std::max(all.size(), outputs.size()));
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (all[i].name.empty() || (all[i].isIndependent && !outputs[i].isIndependent)) {
        all[i] = outputs[i];
      }
    }
  }
  llvm::json::Array outputs;
  for (const OutputRows &output : all) {
    llvm::json::Object entry{{"name", llvm::json::fixUTF8(output.name)},
                             {"independent", output.isIndependent}};
    if (!output.isIndependent) {
      entry["node"] = llvm::json::fixUTF8(output.node);
      entry["how"] = output.how;
    }
    outputs.push_back(std::move(entry));
  }
  llvm::json::Array padding;
  for (const PaddedDim &dim : paddedDims(modules)) {
    llvm::json::Object entry{{"dim", llvm::json::fixUTF8(dim.name)},
                             {"independent", dim.isIndependent}};
    if (dim.isIndependent) {
      llvm::json::Object masks;
      for (const auto &[input, value] : dim.masks) {
        masks[llvm::json::fixUTF8(input)] = value;
      }
      entry["masks"] = std::move(masks);
    } else {
      entry["output"] = llvm::json::fixUTF8(dim.output);
      entry["node"] = llvm::json::fixUTF8(dim.node);
      entry["how"] = dim.how;
    }
    padding.push_back(std::move(entry));
  }
  llvm::json::Object limits;
  for (const auto &[input, limit] : indexLimits(modules.front())) {
    limits[llvm::json::fixUTF8(input)] = limit;
  }
  llvm::json::Object record{{"schema", "tenon.rows/1"},
                            {"outputs", std::move(outputs)},
                            {"padding", std::move(padding)},
                            {"limits", std::move(limits)}};
  std::string text;
  llvm::raw_string_ostream(text) << llvm::json::Value(std::move(record));
  return text;
}

} // namespace tenon::tn
