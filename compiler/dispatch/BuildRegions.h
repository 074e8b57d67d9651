// Turns groups into tn.region operations; see BuildRegions.cpp.
#pragma once

#include "compiler/dispatch/Grouping.h"

namespace tenon::dispatch {

/// A region of copies of these operations, of which none comes before one that it reads from,
/// behind the last of them. Nobody reads its results.
tn::RegionOp createRegion(llvm::ArrayRef<mlir::Operation *> ops, llvm::StringRef strategy,
                          llvm::StringRef target);

/// Replaces each group, in block order, by a tn.region whose `record` is the group's index.
void buildRegions(const Grouping &grouping, llvm::StringRef target);

} // namespace tenon::dispatch
