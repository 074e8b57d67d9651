// The row of tables of bytes in the table of kernel families.
#pragma once

#include "compiler/codegen/cpu/base/KernelFamily.h"

namespace tenon::codegen::cpu {

extern const KernelFamily kByteTable;

} // namespace tenon::codegen::cpu
