// The tool itself plants nothing.
#include "tools/debug/Planted.h"

namespace tenon::debug {

void plant(pipeline::CompileOptions &) {}

} // namespace tenon::debug
