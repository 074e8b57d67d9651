// The order of sums that kernels for few rows and for many share in an invariant model.
#pragma once

#include <cstdint>
#include <string>

namespace tenon::codegen::cuda {

/// Parts of the depth that are added up in their order.
inline constexpr int64_t kSlices = 8;
/// Depth of a slice, of which the last may have less: whole lines of two panels of 32.
int64_t sliceDepth(int64_t depth);
/// As KernelFamily::order says it.
std::string slicedOrder(int64_t depth);
/// That of a norm whose row as many warps share (RowNorm.h).
std::string slicedNormOrder();
/// Of what adds up behind something else that does.
std::string behind(const std::string &order, const std::string &before);

} // namespace tenon::codegen::cuda
