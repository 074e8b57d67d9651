// The part of plan validation that concerns buffers: views, weights, offsets, overlap. Private to
// engine/.

#pragma once

#include "engine/Plan.h"
#include "support/Status.h"

#include <span>
#include <vector>

namespace tenon::engine {

/// What a user does about a plan that is not valid.
inline constexpr const char *kAgain =
    "the engine is damaged or from a faulty compiler; compile it again";

/// Checks all buffers of a plan whose expressions are valid, and sets for each buffer the one at
/// the end of its chain of views.
Status validateBuffers(const Plan &plan, std::span<const Weight> weights, uint16_t device,
                       std::vector<uint32_t> &roots);

} // namespace tenon::engine
