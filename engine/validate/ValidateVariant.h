// Checks a variant as a whole: its level, its plan and its code. Private to engine/.

#pragma once

#include "engine/codec/PlanCodec.h"

#include <span>

namespace tenon::engine {

/// Ok, or the first broken rule: TN0507 for a level that is not what its name says, what
/// validatePlan gives, TN0515 for code that is not of the level's architecture or otherwise not to
/// be loaded. `cubin` may be empty.
Status validateVariant(const VariantEntry &entry, const Plan &plan, std::span<const Weight> weights,
                       Bytes code, Bytes cubin);

} // namespace tenon::engine
