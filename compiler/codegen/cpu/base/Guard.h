// Bounds checks of every load and store of a kernel (`tenon compile --guard`).
#pragma once

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

namespace llvm {
class Module;
}

namespace tenon::codegen::cpu {

/// Checks each access of the module's kernels against TenonKernelContext::ranges: one outside of
/// them is done on memory of the kernel's own instead, and the kernel returns
/// TENON_KERNEL_OUT_OF_BOUNDS. All other functions are inlined into them. Fails at an operation
/// that reads or writes memory in a way that it does not know.
llvm::Error guardAccesses(llvm::Module &module, llvm::ArrayRef<llvm::StringRef> kernels);

} // namespace tenon::codegen::cpu
