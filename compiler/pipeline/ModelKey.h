// What identifies a compilation for the cache of whole engines: the model file, the options, this
// compiler. Relies on the ONNX wire reader to name external data files.
#pragma once

#include "compiler/pipeline/Pipeline.h"
#include "support/Hash.h"

namespace tenon::pipeline {

struct ModelIdentity {
  Hash128 model; ///< content of the model file
  Hash128 key;   ///< of model, options and compiler
  /// External data files that the model names, as paths.
  std::vector<std::string> externalFiles;
};

Result<ModelIdentity> identify(const CompileOptions &options);

/// The options that decide the engine's bytes, as JSON.
std::string describeOptions(const CompileOptions &options);

/// "0.1.0".
std::string compilerVersion();

} // namespace tenon::pipeline
