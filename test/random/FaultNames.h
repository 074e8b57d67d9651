// The names of the planted faults, free of MLIR.
#pragma once

#include <string>
#include <vector>

namespace tenon::random {

std::vector<std::string> faultNames();

} // namespace tenon::random
