// `tenon explain sharding`: a prediction as JSON and as text.

#pragma once

#include "support/json/Json.h"
#include "tools/tenon/model/Sharding.h"

namespace tenon::tool {

/// tenon.explain-sharding/1 without its schema.
Json shardingJson(const ShardingRequest &request, const ShardingReport &report);
/// The same for people; with `all`, the matrices of every number of GPUs.
std::string shardingText(const Json &json, bool all);

} // namespace tenon::tool
