// A model becomes an engine file, for the verb and for the C interface: all of `tenon compile` but
// the command line and what is printed.
#pragma once

#include "compiler/api/CompileOptions.h"
#include "compiler/pipeline/CompileSummary.h"
#include "support/Result.h"
#include "support/json/Json.h"
#include "tenon/graph.h"
#include "tools/tenon/inputs/Limits.h"
#include "tools/tenon/target/KernelLibraries.h"
#include "tools/tenon/target/TargetFlags.h"

#include <functional>
#include <string>
#include <vector>

namespace tenon::tool {

/// Of --max-weights: no layout takes more.
inline constexpr Range<double> kMaxWeights = {1, 1000};

/// Of --cache.
const std::vector<std::string> kCaches = {"keep", "int8", "fp8"};

/// What `tenon compile` is given, as its flags have it. `options` has what is no text; the rest of
/// it is filled in by compileToFile.
struct CompileRequest {
  pipeline::CompileOptions options; ///< without an output, the engine goes beside the model
  TargetFlags target;
  std::vector<std::string> shapes, session, optimizeFor, extraOutputs, plugins, kernels;
  KernelFlags ownKernels;
  std::vector<tenon_pass> passes; ///< of the caller, accepted by checkPass; they run first
  std::string stopAfter;          ///< empty for none
  std::string cache = "keep";     ///< one of kCaches
  bool noCache = false;
  bool force = false; ///< an engine for other targets at the default place is replaced
  bool wantsCubin = false;
  std::string ptxas;            ///< empty for the first one found
  std::string store;            ///< of tuning; empty for that of the user
  std::function<Status()> tune; ///< fills the store, once `options` are; may be null
};

Result<pipeline::CompileSummary> compileToFile(CompileRequest &request);

/// What `compile --json` prints, without its schema.
Json summaryJson(const pipeline::CompileSummary &summary);

} // namespace tenon::tool
