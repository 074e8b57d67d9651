// Words for a command line that could not be parsed: what is wrong, and what was likely meant.
// It relies on the state in which CLI11 leaves its objects when it throws.

#pragma once

#include "support/Status.h"

#include <string>
#include <vector>

namespace CLI {
class App;
class ParseError;
} // namespace CLI

namespace tenon::tool {

/// The names of an app's subcommands.
std::vector<std::string> verbNames(const CLI::App &app);
/// A usage error for what `app` threw.
Status describeUsage(const CLI::App &app, const CLI::ParseError &error);

} // namespace tenon::tool
