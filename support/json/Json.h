// JSON that keeps the order in which keys were written. Files that only name it need no more than
// this header.

#pragma once

#include <nlohmann/json_fwd.hpp>

namespace tenon {

using Json = nlohmann::ordered_json;

} // namespace tenon
