// Walks @main from the arguments on, once for each assumption of what hides padded places.
#include "compiler/graph/PaddingIndependence.h"

#include "compiler/graph/FactWalk.h"
#include "compiler/graph/GraphInfo.h"
#include "compiler/graph/NodeOrigin.h"
#include "compiler/graph/PaddingRules.h"
#include "compiler/graph/State.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;

namespace tenon::tn {

namespace {

/// Numbers that arguments are padded with, by position; the others may hold anything finite.
using Fill = std::map<unsigned, int>;

bool isPlainLength(AffineExpr dim, unsigned length) {
  AffineSymbolExpr symbol = dyn_cast_or_null<AffineSymbolExpr>(dim);
  return symbol && symbol.getPosition() == length;
}

Places ofArgument(BlockArgument argument, unsigned length, const KnownPlaces &known,
                  const Fill &fill) {
  Places places;
  for (auto [i, dim] : llvm::enumerate(getDims(argument.getType()))) {
    if (isPlainLength(dim, length)) {
      Fill::const_iterator found = fill.find(argument.getArgNumber());
      Content content = found == fill.end() ? Content() : Content::of(found->second);
      places.axes.push_back(
          {static_cast<int64_t>(i), getAffineConstantExpr(1, dim.getContext()), content});
    } else if (known.names(dim)) {
      return Places::mixed(nullptr, "has a dim that is computed from the length");
    }
  }
  return places;
}

/// A bit an argument; those that have none share the last.
uint64_t bitOf(unsigned argument) { return uint64_t(1) << std::min(argument, 63U); }

/// What the operands of an operation tell of its results' inputs and hiders.
void followInputs(const KnownPlaces &known, Operation *op, Places &found) {
  found.inputs = found.hiders = 0;
  for (Value operand : op->getOperands()) {
    found.inputs |= known.of(operand).inputs;
    found.hiders |= known.of(operand).hiders;
  }
  if (isa<SoftmaxOp, AttentionOp, LayerNormOp, RmsNormOp>(op)) {
    found.hiders = 0; // nothing of theirs is far below the rest
  }
  auto isLarge = [&](Value value) {
    std::optional<double> number = known.of(value).number;
    return number && std::abs(*number) >= -Content::kHidden;
  };
  if (MulOp product = dyn_cast<MulOp>(op); product && llvm::any_of(op->getOperands(), isLarge)) {
    found.hiders |= found.inputs;
  }
  if (DivOp quotient = dyn_cast<DivOp>(op)) {
    std::optional<double> divisor = known.of(quotient.getB()).number;
    found.hiders |= divisor && std::abs(*divisor) * -Content::kHidden <= 1 ? found.inputs : 0;
  }
  if (SelectOp select = dyn_cast<SelectOp>(op);
      select && (isLarge(select.getA()) || isLarge(select.getB()))) {
    found.hiders |= known.of(select.getCondition()).inputs;
  }
}

/// Sets what the first output that padding reaches has; none is set where none does.
PaddedDim judge(func::FuncOp main, unsigned length, const Symbol &symbol, const Fill &fill) {
  uint64_t open = 0;
  for (auto [argument, value] : fill) {
    open |= bitOf(argument);
  }
  KnownPlaces known(length, main, symbol.min, open);
  for (BlockArgument argument : main.getArguments()) {
    Places places = ofArgument(argument, length, known, fill);
    places.inputs = bitOf(argument.getArgNumber());
    known.set(argument, std::move(places));
  }
  walkFacts(main.getBody().front(), known, [&](Operation *op) {
    const Places *met = nullptr;
    for (Value operand : op->getOperands()) {
      met = known.of(operand).isMixed ? &known.of(operand) : met;
    }
    for (OpResult result : op->getResults()) {
      Places found = met ? *met : placesOf(known, op, result);
      followInputs(known, op, found);
      bool fits = found.isMixed || known.fits(found, result.getType());
      known.set(result, fits ? found : Places::mixed(op, "has a shape that padded places decide"));
    }
  });
  PaddedDim dim{symbol.name, true, {}, "", "", ""};
  for (OpOperand &operand : main.getBody().front().getTerminator()->getOpOperands()) {
    const Places &found = known.of(operand.get());
    bool isApart = llvm::all_of(found.axes, [&](const PlaceAxis &axis) {
      return known.isPlain(&axis, operand.get().getType());
    });
    if (!found.isMixed && isApart) {
      continue;
    }
    unsigned index = operand.getOperandNumber();
    dim.isIndependent = false;
    dim.output = portName(main.getResultAttrDict(index), "output", index);
    dim.node = nodeName(found.op);
    dim.how = found.isMixed ? found.how : "has padded places between others";
    return dim;
  }
  for (auto [argument, value] : fill) {
    dim.masks[portName(main.getArgAttrDict(argument), "input", argument)] = value;
  }
  return dim;
}

/// Nothing is assumed, then that one input hides padded places, then that all do: by 0, as in
/// masks of what counts, or by 1, as in masks of what is hidden.
std::vector<Fill> fillsOf(ArrayRef<unsigned> arguments) {
  std::vector<Fill> fills = {{}};
  for (unsigned argument : arguments) {
    fills.push_back({{argument, 0}});
    fills.push_back({{argument, 1}});
  }
  for (int value : {1, 0}) {
    Fill all;
    for (unsigned argument : arguments) {
      all[argument] = value;
    }
    fills.push_back(all);
  }
  return fills;
}

} // namespace

std::vector<PaddedDim> paddedDims(ModuleOp module) {
  func::FuncOp main = module.lookupSymbol<func::FuncOp>("main");
  SymbolList symbols(module);
  llvm::MapVector<unsigned, SmallVector<unsigned>> lengths; // the arguments that have them
  std::optional<unsigned> batch;
  for (BlockArgument argument : main.getArguments()) {
    for (auto [i, dim] : llvm::enumerate(getDims(argument.getType()))) {
      AffineSymbolExpr symbol = dyn_cast_or_null<AffineSymbolExpr>(dim);
      if (symbol && i == 0) {
        batch = batch ? batch : symbol.getPosition();
      }
      if (symbol && i > 0 && symbol.getPosition() != batch &&
          !llvm::is_contained(lengths[symbol.getPosition()], argument.getArgNumber())) {
        lengths[symbol.getPosition()].push_back(argument.getArgNumber());
      }
    }
  }
  std::vector<PaddedDim> dims;
  for (auto &[length, arguments] : lengths) {
    PaddedDim best;
    for (const Fill &fill : fillsOf(arguments)) {
      best = judge(main, length, symbols.symbols()[length], fill);
      if (best.isIndependent) {
        break;
      }
    }
    dims.push_back(std::move(best));
  }
  return dims;
}

std::vector<PaddedDim> paddedDims(ArrayRef<ModuleOp> modules) {
  std::vector<PaddedDim> all;
  for (ModuleOp module : modules) {
    std::vector<PaddedDim> dims = paddedDims(module);
    for (PaddedDim &dim : dims) {
      std::vector<PaddedDim>::iterator known =
          llvm::find_if(all, [&](const PaddedDim &each) { return each.name == dim.name; });
      if (known == all.end()) {
        all.push_back(std::move(dim));
        continue;
      }
      bool agrees = llvm::all_of(dim.masks, [&](const auto &mask) {
        return known->masks.try_emplace(mask.first, mask.second).first->second == mask.second;
      });
      if (known->isIndependent && !dim.isIndependent) {
        *known = std::move(dim);
      } else if (known->isIndependent && !agrees) {
        known->isIndependent = false;
        known->how = "has padded places hidden by other numbers on other processors";
      }
    }
  }
  return all;
}

} // namespace tenon::tn
