// Opens what `run` and `bench` are given: an engine, or a model that is compiled first. The
// compilation happens in a child process, so that its memory does not count as the run's.

#pragma once

#include "compiler/opt/precision/Observation.h"
#include "runtime/core/Engine.h"
#include "support/Result.h"
#include "support/files/ScratchFolder.h"
#include "tools/tenon/target/TargetFlags.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace tenon::tool {

class TaskListener;

struct OpenRequest {
  std::string path; ///< of an engine or a model
  std::vector<std::string> shapes;
  TargetFlags target;
  std::string variant; ///< as on the command line; empty for the best that this machine runs
  bool useCache = true;
  std::vector<std::string> extraOutputs;  ///< as pipeline::CompileOptions'
  std::vector<opt::Observation> observed; ///< as pipeline::CompileOptions'
  bool verifyWeights = true; ///< of an engine; one that is compiled now is not read back for it
};

/// Where a fault of the compiler leaves its reproducer, for an engine or model of this path.
std::string reproducerOf(const std::string &path);

/// An engine file that goes away with this object when it was made for one run only.
class EngineSource {
public:
  static Result<EngineSource> prepare(const OpenRequest &request, TaskListener &listener);

  /// Path of the engine file.
  const std::string &path() const { return enginePath; }
  /// Seconds that compiling took; 0 when an engine was given.
  double compileSeconds() const { return seconds; }
  Result<std::shared_ptr<const runtime::Engine>> open() const;

private:
  EngineSource() = default;
  std::string enginePath;
  std::optional<ScratchFolder> folder;
  std::string variant;
  bool verifyWeights = true;
  double seconds = 0;
};

} // namespace tenon::tool
