// What each operation is called, and who may ask for it: the columns of Api's table that transports
// read.

#pragma once

#include "server/protocol/Routes.h"

#include <string_view>

namespace tenon::server {

std::string_view nameOf(Operation operation);
Role roleOf(Operation operation);
/// Whether it has a language model continue a text, by OpenAI's interface.
bool continuesText(Operation operation);
/// Whether it is asked of the registry, whose tokens may allow it.
bool isOfRegistry(Operation operation);

} // namespace tenon::server
