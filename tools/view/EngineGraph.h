// The graph of an engine: what its records say, joined by the numbers of the regions. It relies on
// the file having been validated; records are not, and are refused where they do not fit together.

#pragma once

#include "engine/Reader.h"
#include "tools/view/Graph.h"
#include "tools/view/Sizes.h"

namespace tenon::view {

/// The ending of the records about a variant ("x86-64-v3", "sm_90"; empty for the first): those of
/// the first target have none. BadArgument for a variant that the engine does not have.
Result<std::string> recordSuffix(const engine::EngineFile &file, const std::string &level);

/// The record "fusion" of the variant `level`, empty for the first, with the estimates of that
/// level for inputs of these dims; `level` of the record names it. Where all sizes are fixed, or
/// are those at which kernels were chosen, it has no `decided_at`.
Result<Json> fusionOf(const engine::EngineFile &file, const std::string &level,
                      const InputDims &dims);

/// Of the variant `level`, empty for the first, with counts and estimates for inputs of these dims.
/// Without groups.
Result<Graph> engineGraph(const engine::EngineFile &file, const std::string &level,
                          const InputDims &dims);

/// Adds what `tenon bench --regions --json` has measured of this engine to its regions.
Status addTimes(Graph &graph, std::string_view profile);

} // namespace tenon::view
