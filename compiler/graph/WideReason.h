// Why a product of a quantized model computes in floats, and what it would take there: noted where
// that is known, for people.
#pragma once

#include "llvm/ADT/StringRef.h"

namespace tenon::tn {

/// Text attribute of a product, convolution or attention with a quantized operand that stayed one
/// of floats: the reason in words, as what follows "it computes in floats because". Dispatch puts
/// it into the records and takes it off.
inline constexpr llvm::StringLiteral kWideReason = "tn.wide_reason";

/// Number attribute of a product or convolution that was priced both ways: the number of its price,
/// which tells on each level what the other form takes. Dispatch puts it into the records and takes
/// it off.
inline constexpr llvm::StringLiteral kPriced = "tn.priced";

} // namespace tenon::tn
