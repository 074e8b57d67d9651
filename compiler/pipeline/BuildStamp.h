// What tells one build of this compiler from another.
#pragma once

#include <string>

namespace tenon::pipeline {

/// The build ids of the program and of every library in it, which linkers make from all that they
/// link: a change of any source, flag or library that shapes code gives another stamp. A file
/// without one counts by its size and time.
const std::string &buildStamp();

} // namespace tenon::pipeline
