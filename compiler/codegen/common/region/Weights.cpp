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

tn::Packing panelsOf(int64_t dim, int64_t panel) {
  return {.outerDimsPerm = {dim, 1 - dim}, .innerDimsPos = {dim}, .innerTiles = {panel}};
}

tn::Packing panelsOfWords(int64_t dim, int64_t panel, int64_t elements) {
  return {.outerDimsPerm = {dim, 1 - dim},
          .innerDimsPos = {dim, 1 - dim},
          .innerTiles = {panel, elements}};
}

tn::Packing panelsOfOutputs(RankedTensorType weight, int64_t panel, int64_t groups,
                            int64_t elements) {
  int64_t rank = weight.getRank();
  tn::Packing packing{.outerDimsPerm = {0}, .innerDimsPos = {0}, .innerTiles = {panel}};
  if (groups > 1) {
    packing = {.outerDimsPerm = {0, rank},
               .innerDimsPos = {0, 0},
               .innerTiles = {weight.getDimSize(0) / groups, panel}};
  }
  for (int64_t spatial = 2; spatial < rank; ++spatial) {
    packing.outerDimsPerm.push_back(spatial);
  }
  packing.outerDimsPerm.push_back(1);
  if (elements > 1) {
    packing.innerDimsPos.push_back(1);
    packing.innerTiles.push_back(elements);
  }
  return packing;
}

std::optional<dispatch::WeightLayout> layoutInPanels(tn::ConvOp conv, int64_t panel, int64_t groups,
                                                     int64_t elements) {
  std::optional<unsigned> input = packableInput(conv.getWeight());
  if (!input) {
    return std::nullopt;
  }
  RankedTensorType weight = cast<RankedTensorType>(conv.getWeight().getType());
  return dispatch::WeightLayout{.input = *input,
                                .packing = panelsOfOutputs(weight, panel, groups, elements)};
}

std::optional<dispatch::WeightLayout> layoutOfDepthwise(tn::ConvOp conv) {
  RankedTensorType weight = cast<RankedTensorType>(conv.getWeight().getType());
  return layoutInPanels(conv, weight.getDimSize(0), /*groups=*/1);
}

} // namespace tenon::codegen
