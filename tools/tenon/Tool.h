// The tool as a whole: a command line with streams, or one verb for a caller in the same process.

#pragma once

#include "support/Status.h"

#include <functional>
#include <string>
#include <vector>

namespace tenon::tool {

class Terminal;

/// Parses and performs a command line; gives the exit code.
int runTool(int argc, char **argv);
/// The same for the arguments after the program's name, in the terminal given, whose settings count
/// instead of --json, --quiet and --progress.
Status runVerb(std::vector<std::string> arguments, Terminal &terminal);
/// What `work` gives, or the status of what it throws.
Status catchExceptions(const std::function<Status()> &work);
/// "0.1.0".
const char *version();

} // namespace tenon::tool
