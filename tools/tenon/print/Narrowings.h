// By which nodes a model takes fewer sizes than it declares, for people and for programs.

#pragma once

#include "compiler/pipeline/CompileSummary.h"
#include "support/json/Json.h"

#include <string>
#include <vector>

namespace tenon::tool {

/// "fewer sizes: node 'Add_3' needs that 512 is at least n"
std::string narrowingText(const pipeline::Narrowing &narrowing);

Json narrowedJson(const std::vector<pipeline::Narrowing> &narrowed);

} // namespace tenon::tool
