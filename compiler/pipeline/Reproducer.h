// What a fault of the compiler leaves behind: one text file from which it can be seen again.
#pragma once

#include "compiler/pipeline/Pipeline.h"
#include "support/Status.h"

#include <string_view>

namespace tenon::pipeline {

/// Writes `text`, the IR that shows the fault, below what was asked for, to options.reproducer and
/// names that file in the message. Without text the model itself is what shows it.
Status withReproducer(Status fault, const CompileOptions &options, std::string_view text);

} // namespace tenon::pipeline
