// What people want to see of an engine file: variants, ports, instructions and sizes in three
// forms. It relies on the file having been validated, which opening it does.

#pragma once

#include "engine/Reader.h"
#include "support/json/Json.h"

#include <string>

namespace tenon::tool {

Json describeEngine(const std::string &path, const engine::EngineFile &file);
std::string engineText(const std::string &path, const engine::EngineFile &file);
/// The instructions of the best variant, an edge from who wrote a buffer last to who reads it.
std::string engineDot(const engine::EngineFile &file);

} // namespace tenon::tool
