// In which numbers a region computes, for the records: of the product, convolution or attention
// that it is built around, and whether it converts between numbers and nothing else.
#pragma once

#include "compiler/dispatch/Cost.h"
#include "compiler/dispatch/Grouping.h"

namespace tenon::dispatch {

/// "u8 x s8, sums of i32", "f32", "f32 x weights of 4 bits in blocks of 32"; empty for a region
/// without such an operation.
std::string computedIn(const Group &group);

/// The same with operands of FP32 by the cost model; none where they are not narrower.
OtherNumbers inFloats(const Group &group, const CostModel &costs);

/// Whether all of it is quantization or casts of the model.
bool isConversion(const Group &group);

} // namespace tenon::dispatch
