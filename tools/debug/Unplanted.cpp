// The tool itself plants nothing.
#include "tools/debug/Planted.h"

namespace tenon::debug {

void plant(pipeline::CompileHooks &) {}

} // namespace tenon::debug
