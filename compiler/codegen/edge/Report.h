// The report of a folder, as JSON.
#pragma once

#include "compiler/codegen/edge/Program.h"

namespace tenon::codegen::edge {

/// tenon.edge/1. `hashes` are those of layerHashes.
std::string reportOf(const Program &program, const std::string &name,
                     const std::vector<LayerHash> &hashes, const Footprint &footprint);

} // namespace tenon::codegen::edge
