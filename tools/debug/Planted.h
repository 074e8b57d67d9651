// Where tests plant a fault into every compilation of `debug` and `compare`. A program links one of
// two definitions: that of the tool plants nothing, that of the tests a fault of their choice.
#pragma once

#include "compiler/pipeline/Pipeline.h"

namespace tenon::debug {

void plant(pipeline::CompileHooks &hooks);

} // namespace tenon::debug
