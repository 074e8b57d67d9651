// Shared objects that provide passes (`--plugin`). Free of MLIR. Loading one runs its code: the
// user named the file.

#pragma once

#include "support/Result.h"
#include "tenon/graph.h"

#include <string>
#include <vector>

namespace tenon::tool {

/// TN0105 for a pass whose name, phase or function is not what tenon/graph.h asks for; `from` says
/// in the message who gave it.
Status checkPass(const tenon_pass &pass, const std::string &from);

/// The passes of a plug-in, which stays loaded as long as the process: they may be called again.
/// TN0304 for a file that is none.
Result<std::vector<tenon_pass>> loadPlugin(const std::string &path);

} // namespace tenon::tool
