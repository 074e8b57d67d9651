// What the server tells of itself and its models: the answers of KServe v2 and Triton's extensions,
// and Prometheus' text.

#pragma once

#include "server/api/ModelServer.h"
#include "server/protocol/Answer.h"

#include <memory>
#include <string>
#include <string_view>

namespace tenon::server {

// Answers are written before anything else happens to the models.

/// {"name": "tenon", "version": ..., "extensions": [...]}.
Answer describeServer(std::string_view version);
/// {"name", "versions", "platform", "inputs", "outputs"}; the version is ready.
Answer describeModel(const Model &model, std::shared_ptr<Version> version);
/// As ModelConfig of Triton's model_config.proto.
Answer describeConfig(std::shared_ptr<Version> version);
/// {"model_stats": [...]} of all models, of one, or of one version of it.
Answer describeStatistics(const ModelCatalog &catalog, const std::string &model,
                          std::shared_ptr<Version> only);
/// The repository's index: each version with its state and the reason of a failed load. Only those
/// that are ready if `onlyReady`.
Answer describeIndex(const ModelCatalog &catalog, bool onlyReady);
/// "READY", ...; why it is not, or empty.
std::string_view stateName(VersionState state);
std::string reasonOf(const Model &model, const Version &version);
/// The settings of Triton that cannot be set here.
Answer describeTraceSetting();
Answer describeLogging();
/// {"weights": {...}, "shadow": ..., "shadow_stats": {...}}: how requests of a model that name no
/// version are split, and what its shadow gave.
std::string describeTraffic(const TrafficState &state);
/// A split as a client sends it, {"weights": {"1": 90, "2": 10}, "shadow": "3"}; TN0852.
Result<Traffic> parseTraffic(std::string_view text);
/// Text of the exposition format 0.0.4 of Prometheus. Source: its documentation, "Exposition
/// formats".
std::string describeMetrics(const ModelServer &models);

} // namespace tenon::server
