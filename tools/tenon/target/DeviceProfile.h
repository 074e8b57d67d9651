// Files with what was measured of a device: JSON with an object `cpu`, `cuda` or both, each with
// numbers by the keys of target::fields(), all of them optional (docs/reference/targets.md).

#pragma once

#include "tools/tenon/target/Target.h"

namespace tenon::tool {

inline constexpr const char *kProfileSchema = "tenon.device-profile/1";

/// The numbers of the file take the place of the targets'. `part` in an object begins with that
/// part's; of GPUs an object is for the architecture of its `part` or `architecture`, or without
/// either for all. An error for what is no profile or fits no target.
Status applyProfile(const std::string &path, Targets &targets);

} // namespace tenon::tool
