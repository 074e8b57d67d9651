// What a model or an engine needs of free sizes, for people and as JSON.

#pragma once

#include "engine/Plan.h"
#include "support/json/Json.h"
#include "tools/tenon/model/SizeNeed.h"

#include <string>
#include <vector>

namespace tenon::tool {

/// Of a plan's constraints, what several say once.
std::vector<SizeNeed> needsOf(const engine::Plan &plan);

/// "needs   H is at least 3  by node 'conv'".
std::string needText(const SizeNeed &need);
Json needsJson(const std::vector<SizeNeed> &needs);

} // namespace tenon::tool
