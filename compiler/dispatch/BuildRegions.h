// Turns groups into tn.region operations; see BuildRegions.cpp.
#pragma once

#include "compiler/dispatch/Grouping.h"

namespace tenon::dispatch {

/// Replaces each group, in block order, by a tn.region whose `reason` is the group's index.
void buildRegions(const Grouping &grouping, llvm::StringRef target);

} // namespace tenon::dispatch
