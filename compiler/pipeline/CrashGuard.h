// Turns what would end the process while compiling (a signal, a failed TENON_CHECK, LLVM's fatal
// error) into words, so that it is reported with the node and a reproducer like any other fault.
#pragma once

#include "llvm/ADT/STLFunctionalExtras.h"

#include <optional>
#include <string>

namespace tenon::pipeline {

/// From here on to the end of the process crashOf contains what it can. For programs that own their
/// process: it sets its signal handlers and LLVM's.
void containCrashes();

/// The same between these two calls, for parts of a program: the last end puts the handlers back
/// that were there at the first begin. From any thread.
void beginContaining();
void endContaining();

/// Runs `work`. If that would have ended the process, says how; what `work` held is then lost, and
/// its objects are in no state to be used or destroyed. Contains nothing before containCrashes.
std::optional<std::string> crashOf(llvm::function_ref<void()> work);

} // namespace tenon::pipeline
