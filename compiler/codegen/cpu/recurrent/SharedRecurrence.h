// The row of wide recurrent layers in the table of kernel families.
#pragma once

#include "compiler/codegen/cpu/base/KernelFamily.h"

namespace tenon::codegen::cpu {

extern const KernelFamily kRecurrenceShared;

} // namespace tenon::codegen::cpu
