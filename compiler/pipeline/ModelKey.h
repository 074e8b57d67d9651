// What identifies a compilation for the cache of whole engines: the model file, the options, this
// compiler. Relies on the ONNX wire reader to name external data files.
#pragma once

#include "compiler/pipeline/CompileCache.h"
#include "compiler/pipeline/Pipeline.h"
#include "support/Hash.h"

namespace tenon::pipeline {

struct ModelIdentity {
  Hash128 model; ///< content of the model file
  Hash128 key;   ///< of model, options and compiler
  /// The model file and the data files that it names, as they were before any of them was read.
  InputFile file;
  std::vector<InputFile> data;

  /// TN0405 if one of them is another now than it was.
  Status checkUnchanged() const;
};

Result<ModelIdentity> identify(const CompileOptions &options);

/// The options that decide the engine's bytes, as JSON.
std::string describeOptions(const CompileOptions &options);

/// "0.1.0".
std::string compilerVersion();

} // namespace tenon::pipeline
