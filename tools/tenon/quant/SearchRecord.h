// What a search found out about each layer, in the metadata of the model that it writes: from there
// it comes into the engine, where `explain precision` shows it.

#pragma once

#include "engine/Reader.h"
#include "support/json/Json.h"

#include <string>

namespace tenon::tool {

struct Searched;

/// The key of the metadata.
inline constexpr const char *kSearchKey = "tenon.search";

/// The text of the metadata.
std::string recordOf(const Searched &searched);
/// The record of an engine whose model has one, else null. Fields have their types whatever the
/// model says: `metric`, `level`, `threads`, and `layers` with `name`, `op`, `dtype`, `error`,
/// `us`, `wide_us`, `together` and `rule`.
Json readSearchRecord(const engine::EngineFile &file);

} // namespace tenon::tool
