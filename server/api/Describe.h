// What the server tells of itself and its models, as the JSON of KServe v2 and Triton's extensions,
// and as Prometheus' text.

#pragma once

#include "server/api/ModelServer.h"

#include <string>
#include <string_view>

namespace tenon::server {

/// {"name": "tenon", "version": ..., "extensions": [...]}.
std::string describeServer(std::string_view version);
/// {"name", "versions", "platform", "inputs", "outputs"}; the version is ready.
std::string describeModel(const ModelServer &models, const Version &version);
/// As ModelConfig of Triton's model_config.proto.
std::string describeConfig(const Version &version);
/// {"model_stats": [...]} of all models, of one, or of one version of it; TN0810.
Result<std::string> describeStatistics(const ModelServer &models, const std::string &model,
                                       const std::string &version);
/// The repository's index: each version with its state and the reason of a failed load. Only those
/// that are ready if `onlyReady`.
std::string describeIndex(const ModelServer &models, bool onlyReady);
/// {"weights": {...}, "shadow": ..., "shadow_stats": {...}}: how requests of the model that name no
/// version are split, and what its shadow gave.
std::string describeTraffic(const ModelServer &models, const std::string &model);
/// A split as a client sends it, {"weights": {"1": 90, "2": 10}, "shadow": "3"}; TN0852.
Result<Traffic> parseTraffic(std::string_view text);
/// Text of the exposition format 0.0.4 of Prometheus. Source: its documentation, "Exposition
/// formats".
std::string describeMetrics(const ModelServer &models);

} // namespace tenon::server
