// What of a model or of a user's wishes cannot be quantized, said before any work.
#pragma once

#include "compiler/quant/Quantize.h"

namespace tenon::quant {

/// An error for a model that is quantized already.
Status refuseQuantized(const Graph &graph);

/// An error for overrides of what the model does not have, and for a plan by which nothing changes.
Status checkPlan(const Graph &graph, const Plan &plan, const QuantizationInfo &branches,
                 const Settings &settings);

} // namespace tenon::quant
