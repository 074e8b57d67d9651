// Whether code of another compiler runs on a target.
#pragma once

#include "compiler/target/Target.h"

#include <string_view>

namespace tenon::target {

/// Whether a GPU runs code whose PTX names the architecture `arch` ("sm_80"). "sm_90a" is code for
/// just that one, and so is "sm_100f" here.
bool runsCodeFor(const Target &gpu, std::string_view arch);

} // namespace tenon::target
