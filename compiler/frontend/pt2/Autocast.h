// The casts of torch.autocast, which a saved program implies and does not hold.
#pragma once

#include "compiler/frontend/pt2/Call.h"

namespace tenon::pt2 {

/// The type of the first result of an operator, which the program states as f32, from those of its
/// operands: strict exports trace regions of autocast as if there were none, and state types that
/// their own runs do not have.
mlir::Type typeUnderAutocast(Call &call);
/// Whether a region of autocast computes it in the lower type on every device.
bool isLoweredProduct(llvm::StringRef target);

/// A node of a region of torch.autocast with its floating-point inputs in the type that autocast
/// runs it in, which the type of its result tells. Casts are added to the scope.
Node withAutocast(Importer &importer, const Node &node, const Graph &graph, Scope &scope);

} // namespace tenon::pt2
