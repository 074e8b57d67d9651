// What a region's kernels may read before the kernels in front of them have ended.
#pragma once

#include "llvm/ADT/StringRef.h"

namespace tenon::codegen {

/// Unit attribute of an argument of @kernel that is an input of the model: a table of sequences or
/// pages, there before the first kernel of a run.
inline constexpr llvm::StringLiteral kGivenArgument = "tn.given";

} // namespace tenon::codegen
