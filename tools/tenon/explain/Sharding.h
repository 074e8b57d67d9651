// `tenon explain sharding`: a prediction as JSON and as text.

#pragma once

#include "support/json/Json.h"
#include "tools/tenon/model/Sharding.h"

namespace tenon::tool {

/// Stages one after the other, for `--pp`.
struct PipelineRequest {
  int64_t stages = 1;
  int64_t microBatches = 8;
};

/// tenon.explain-sharding/1 without its schema.
Json shardingJson(const ShardingRequest &request, const PipelineRequest &pipeline,
                  const ShardingReport &report);
/// The same for people; with `all`, the matrices of every number of GPUs.
std::string shardingText(const Json &json, bool all);

} // namespace tenon::tool
