// What the verbs declare of themselves as data: summaries, arguments and flags for programs, pages
// and shells. It relies on CLI11 alone, which knows all of it; there is no second list.

#pragma once

#include "tools/tenon/cli/Terminal.h"

#include <CLI/CLI.hpp>

#include <string>
#include <string_view>

namespace tenon::tool {

/// What the footer of a verb has: its page, and lines that can be pasted into a shell.
inline constexpr std::string_view kPageTitle = "Page: docs/";
inline constexpr std::string_view kExampleTitle = "Example:\n";

/// A verb with its arguments, flags, examples and subcommands.
Json describeVerb(const CLI::App &command);
/// All verbs, in their order.
Json describeVerbs(const CLI::App &app);
/// A script that completes verbs, flags and their choices in `shell`: bash, zsh or fish.
std::string completionScript(const Json &verbs, std::string_view shell);

} // namespace tenon::tool
