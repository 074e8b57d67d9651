// Weights as codes of f8E4M3FN.
#pragma once

#include "llvm/ADT/ArrayRef.h"

#include <cstdint>
#include <vector>

namespace tenon::opt {

/// The codes of `numbers` [outer, inner], each times `scale`; as [inner, outer] unless
/// `keepsOrder`.
std::vector<char> codesOfWeight(llvm::ArrayRef<float> numbers, int64_t outer, int64_t inner,
                                bool keepsOrder, float scale);

} // namespace tenon::opt
