// Follows facts about values through a function.
#pragma once

#include "compiler/graph/Tn.h"

namespace tenon::tn {

/// Visits the operations of a block in their order. Of a tn.region the body is visited, whose
/// arguments and results have the facts of what they stand for. `facts` has `of(value)` and
/// `set(value, fact)`.
template <typename Facts, typename Visit>
void walkFacts(mlir::Block &block, Facts &facts, Visit visit) {
  for (mlir::Operation &op : block.without_terminator()) {
    RegionOp region = mlir::dyn_cast<RegionOp>(op);
    if (!region) {
      visit(&op);
      continue;
    }
    mlir::Block &body = region.getBody().front();
    for (auto [argument, input] : llvm::zip_equal(body.getArguments(), region.getInputs())) {
      facts.set(argument, facts.of(input));
    }
    walkFacts(body, facts, visit);
    for (auto [output, inner] :
         llvm::zip_equal(region.getOutputs(), body.getTerminator()->getOperands())) {
      facts.set(output, facts.of(inner));
    }
  }
}

} // namespace tenon::tn
