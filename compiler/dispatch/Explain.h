// Writes the decision records of a finished grouping; see Explain.cpp.
#pragma once

#include "compiler/dispatch/FormRegions.h"
#include "compiler/dispatch/Records.h"

namespace tenon::dispatch {

/// A record for every group and for every edge between two of them (also through reshapes).
/// `symbols` are the module's.
Records explain(const Formation &formation, llvm::ArrayRef<tn::Symbol> symbols,
                llvm::StringRef target);

} // namespace tenon::dispatch
