// The graph of an engine: what its records say, joined by the numbers of the regions. It relies on
// the file having been validated; records are not, and are refused where they do not fit together.

#pragma once

#include "engine/Reader.h"
#include "tools/view/Graph.h"

namespace tenon::view {

/// `level` names a variant ("x86-64-v3", "sm_90"); empty for the first. Without groups.
Result<Graph> engineGraph(const engine::EngineFile &file, const std::string &level);

/// Adds what `tenon bench --regions --json` has measured of this engine to its regions.
Status addTimes(Graph &graph, std::string_view profile);

} // namespace tenon::view
