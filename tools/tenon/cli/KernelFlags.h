// The flags of verbs that compile models with kernels of the user's.
#pragma once

#include "tools/tenon/target/KernelLibraries.h"

namespace CLI {
class App;
}

namespace tenon::tool {

void declareKernelFlags(CLI::App &command, KernelFlags &flags);

} // namespace tenon::tool
