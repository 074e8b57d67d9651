// What people want to see of an engine file: variants, ports, instructions and sizes in three
// forms. It relies on the file having been validated, which opening it does.

#pragma once

#include "engine/Reader.h"
#include "support/json/Json.h"

#include <string>
#include <string_view>

namespace tenon::tool {

Json describeEngine(const std::string &path, const engine::EngineFile &file);
/// `model` is what is said of its model, whole lines.
std::string engineText(const std::string &path, const engine::EngineFile &file,
                       std::string_view model = {});
/// The instructions of the best variant, an edge from who wrote a buffer last to who reads it.
std::string engineDot(const engine::EngineFile &file);

} // namespace tenon::tool
