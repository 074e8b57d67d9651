// What batching knows of a version: whether dim 0 is a batch, and what the proof found of it.

#pragma once

#include "server/batching/Request.h"

#include <string>

namespace tenon::server {

inline bool isPadded(const Version &version) {
  return version.batch && version.batch->padding == BatchInfo::State::Proven;
}
inline bool isBatched(const Version &version) {
  return version.batch && version.batch->batching == BatchInfo::State::Proven;
}
/// Whether dim 0 is a batch, whose rows are counted.
inline bool hasRows(const Version &version) {
  return version.config.maxBatchSize > 0 || isBatched(version);
}
/// What the proof of batching found, in a sentence; TN0850 stands in it where requests are not
/// batched. Empty where nothing was to be proven.
std::string describeBatching(const Version &version);
/// Whether something of it was refused.
bool isBatchingRefused(const Version &version);

/// Checks a loaded version against its configuration; TN0805, or TN0818 for types that the protocol
/// lacks.
Status checkConfig(const Version &version);
/// What the worker is to prove of a version with this configuration.
BatchPolicy batchPolicyOf(const ModelConfig &config);

} // namespace tenon::server
