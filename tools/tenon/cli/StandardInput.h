// `-` where a verb reads a file. Files are mapped and read in any order, which a pipe does not
// allow, so that what comes through one is kept first.

#pragma once

#include "support/Result.h"

#include <string>
#include <vector>

namespace tenon::tool {

/// The arguments with the path of standard input for `-`, also in `--inputs NAME=-`; that of `-o`
/// is a name as any other. Standard input is regular afterwards, if one was given: in memory, of
/// this process.
Status takeStandardInput(std::vector<std::string> &arguments);

} // namespace tenon::tool
