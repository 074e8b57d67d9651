// What a verb checks of its outputs before it begins to work. It relies on
// support/files/OutputPath.h, which decides for every writer.

#pragma once

#include "support/Status.h"
#include "tools/tenon/model/CompilerBridge.h"

#include <string>
#include <vector>

namespace tenon::tool {

/// Refuses an output that must not or cannot be made; empty for none. `source` is the model or
/// engine of the verb, `others` what it reads besides; of a model also its files of weights count.
Status checkOutput(const std::string &output, const std::string &source,
                   std::vector<std::string> others = {});

/// The same for a folder that --dump-phases fills; empty for none.
Status checkDumpFolder(const std::string &folder, const std::string &model,
                       const std::string &output);

/// Refuses an engine that has variants for CPUs or for GPUs while there is one at its place with
/// the others, which would be lost.
Status checkReplacedEngine(const pipeline::CompileOptions &request);

} // namespace tenon::tool
