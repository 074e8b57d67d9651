// Relies on outline() marking the arguments that may be laid out.
#include "compiler/codegen/common/region/Weights.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;

namespace tenon::codegen {

std::optional<unsigned> packableInput(Value operand) {
  BlockArgument argument = dyn_cast<BlockArgument>(operand);
  func::FuncOp function =
      argument ? dyn_cast<func::FuncOp>(argument.getOwner()->getParentOp()) : func::FuncOp();
  bool isPackable = function && function.getArgAttr(argument.getArgNumber(), dispatch::kPackable);
  return isPackable ? std::optional(argument.getArgNumber()) : std::nullopt;
}

std::optional<dispatch::WeightLayout> layoutInPanels(tn::ConvOp conv, int64_t panel,
                                                     int64_t groups) {
  std::optional<unsigned> input = packableInput(conv.getWeight());
  if (!input) {
    return std::nullopt;
  }
  RankedTensorType weight = cast<RankedTensorType>(conv.getWeight().getType());
  dispatch::WeightLayout layout{.input = *input, .permutation = {}};
  for (int64_t spatial = 2; spatial < weight.getRank(); ++spatial) {
    layout.permutation.push_back(spatial);
  }
  layout.permutation.append({1, 0});
  layout.rows = weight.getRank() - 1;
  layout.groups = groups;
  layout.panel = panel;
  return layout;
}

std::optional<dispatch::WeightLayout> layoutOfDepthwise(tn::ConvOp conv) {
  RankedTensorType weight = cast<RankedTensorType>(conv.getWeight().getType());
  return layoutInPanels(conv, weight.getDimSize(0), /*groups=*/1);
}

} // namespace tenon::codegen
