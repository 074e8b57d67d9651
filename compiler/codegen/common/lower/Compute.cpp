// The table of computations. A new one is a function in the file of its family and a row here.
#include "compiler/codegen/common/lower/Compute.h"

#include "compiler/graph/TnRare.h"

using namespace mlir;
using namespace tenon::tn;

namespace tenon::codegen {

ComputeFn findCompute(Operation *op) {
  static const std::pair<StringRef, ComputeFn> table[] = {
      {ReduceOp::getOperationName(), computeReduce},
      {SoftmaxOp::getOperationName(), computeSoftmax},
      {LayerNormOp::getOperationName(), computeLayerNorm},
      {RmsNormOp::getOperationName(), computeRmsNorm},
      {GroupNormOp::getOperationName(), computeGroupNorm},
      {ArgReduceOp::getOperationName(), computeArgReduce},
      {CumsumOp::getOperationName(), computeCumsum},
      {AttentionOp::getOperationName(), computeAttention},
      {MatmulOp::getOperationName(), computeMatmul},
      {ConvOp::getOperationName(), computeConv},
      {ConvTransposeOp::getOperationName(), computeConvTranspose},
      {MaxPoolOp::getOperationName(), computeMaxPool},
      {MaxPoolIndexOp::getOperationName(), computeMaxPoolIndex},
      {AvgPoolOp::getOperationName(), computeAvgPool},
      {ResizeOp::getOperationName(), computeResize},
      {ScatterElementsOp::getOperationName(), computeScatterElements},
      {ScatterNdOp::getOperationName(), computeScatterNd},
      {TopKOp::getOperationName(), computeTopK},
      {RoundBlocksOp::getOperationName(), computeRoundBlocks},
      {HistogramOp::getOperationName(), computeHistogram},
      {TruePositionsOp::getOperationName(), computeTruePositions},
      {SelectBoxesOp::getOperationName(), computeSelectBoxes},
      {SampleOp::getOperationName(), computeSample},
  };
  if (!op) {
    return nullptr;
  }
  StringRef name = op->getName().getStringRef();
  for (const auto &[entry, compute] : table) {
    if (entry == name) {
      return compute;
    }
  }
  return nullptr;
}

} // namespace tenon::codegen
