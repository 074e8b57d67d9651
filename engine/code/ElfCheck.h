// Checks a code object before the dynamic loader sees it, which trusts what it reads. Private to
// engine/.

#pragma once

#include "engine/Level.h"
#include "support/Status.h"
#include "support/memory/ByteSpan.h"

#include <span>
#include <string>

namespace tenon::engine {

/// Ok for a shared object for CPUs of `architecture` of the form that the compiler links: it needs
/// no library, has no relocation, runs nothing when it is loaded or looked into, and defines every
/// one of `kernels` in an executable segment (TN0515 otherwise). Everything is found as the loader
/// finds it, through program headers and addresses; sections are not looked at. What the kernels do
/// is not checked.
Status checkCodeObject(Bytes code, Architecture architecture,
                       std::span<const std::string> kernels = {});

} // namespace tenon::engine
