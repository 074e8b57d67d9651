// Whether an engine is loaded and runs on this machine, for the rule `loads`.

#pragma once

#include "registry/Rule.h"

#include <string>

namespace tenon::tool {

/// 1 where the engine was loaded and run once, on the first of the samples or, without data, on
/// seeded values; 0 with the reason where it was not. In a process of its own, which it may end.
registry::Measured loadOnce(const std::string &engine, const std::string &data);

} // namespace tenon::tool
