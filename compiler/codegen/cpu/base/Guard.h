// Bounds checks of every load and store of a kernel (`tenon compile --guard`).
#pragma once

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

namespace llvm {
class Module;
}

namespace tenon::codegen::cpu {

/// Checks each access of the module's kernel against TenonKernelContext::ranges: one outside of
/// them is done on memory of the kernel's own instead, and the kernel returns
/// TENON_KERNEL_OUT_OF_BOUNDS. All other functions are inlined into it. Fails at an operation that
/// reads or writes memory in a way that it does not know.
llvm::Error guardAccesses(llvm::Module &module, llvm::StringRef kernel);

} // namespace tenon::codegen::cpu
