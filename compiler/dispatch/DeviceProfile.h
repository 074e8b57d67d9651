// What the cost model knows of a device is the target of the regions.
#pragma once

#include "compiler/target/Target.h"

namespace tenon::dispatch {

using DeviceProfile = target::Target;

} // namespace tenon::dispatch
