// The row of padding by whole rows in the table of kernel families.
#pragma once

#include "compiler/codegen/cpu/base/KernelFamily.h"

namespace tenon::codegen::cpu {

extern const KernelFamily kPadRows;

} // namespace tenon::codegen::cpu
