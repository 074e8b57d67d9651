// Runs the cleaning patterns to a fixed point, merges equal operations and drops dead ones.
// Relies on mlir's greedy driver and its common-subexpression elimination.
#include "compiler/opt/Match.h"
#include "compiler/opt/Passes.h"
#include "compiler/opt/Patterns.h"

#include "mlir/IR/Dominance.h"
#include "mlir/Transforms/CSE.h"

using namespace mlir;

namespace tenon::opt {

LogicalResult simplify(ModuleOp module, tn::WeightStore &weights) {
  IRRewriter rewriter(module.getContext());
  DominanceInfo dominance(module);
  // Merging equal operations gives values fewer names and thereby makes more patterns match.
  bool changed = true;
  while (changed) {
    RewritePatternSet patterns(module.getContext());
    addArithmeticPatterns(patterns, weights);
    addMovementPatterns(patterns, weights);
    addBroadcastPatterns(patterns, weights);
    addIndexingPatterns(patterns, weights);
    addDequantizePatterns(patterns);
    addConstantPatterns(patterns, weights, QuantizedWeights::Keep);
    if (failed(runPatterns(module, std::move(patterns)))) {
      return failure();
    }
    eliminateCommonSubExpressions(rewriter, dominance, module, &changed);
  }
  return success();
}

} // namespace tenon::opt
