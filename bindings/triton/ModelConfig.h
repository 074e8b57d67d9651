// What an engine takes and gives, and what a model's configuration says of it. Triton hands the
// configuration over as JSON.

#pragma once

#include "bindings/triton/Error.h"
#include "support/json/Json.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace tenon::triton {

struct Port {
  std::string name;
  TRITONSERVER_DataType type = TRITONSERVER_TYPE_INVALID;
  uint64_t elementBytes = 0;
  /// Equal ones are fixed. Triton has no scalars: one is [1] there, and has no dims here.
  std::vector<int64_t> minDims, maxDims;
};

struct Ports {
  std::vector<Port> inputs, outputs;
};

/// Fails where a port has a type that Triton has no name for.
Error readPorts(const tenon_engine *engine, Ports &ports);

struct ModelConfig {
  /// Dim 0 of every port is the batch, with at most so many rows; 0: there is none.
  int64_t maxBatchSize = 0;
  std::string file = "model.tenon";
  unsigned threads = 0; ///< of a run, by the parameter "threads"; 0: as many as there are CPUs
};

Error readConfig(const Json &json, ModelConfig &config);
/// Adds the inputs and outputs where the configuration has none of them; `isChanged` is whether it
/// did.
void completeConfig(const ModelConfig &config, const Ports &ports, Json &json, bool &isChanged);
/// Compares the configuration with the engine: names, types and dims. All inputs must be listed,
/// since Triton takes no others.
Error checkConfig(const ModelConfig &config, const Ports &ports, const Json &json);

} // namespace tenon::triton
